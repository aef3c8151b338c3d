"""A thread that reads a number of messages, prints each, and tells a latch that it is done.

`python examples/consumer_thread.py --bootstrap HOST:PORT --topic NAME --messages 100`

Kafka's example consumer, `kafka.examples.Consumer`, in Python: a group, maybe an instance id, which
makes its member a static one, and `--read-committed` for topics that transactions write.
"""

from __future__ import annotations

import argparse
import threading
from contextlib import suppress
from itertools import islice

from pylog import Consumer, errors


class CountDownLatch:
    """Opens when it was counted down to zero."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._changed = threading.Condition()

    def count_down(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it opened in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count <= 0, timeout)


class ConsumerThread(threading.Thread):
    """Reads until it has `messages`, or is shut down."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        messages: int,
        latch: CountDownLatch,
        *,
        instance_id: str | None = None,
        read_committed: bool = False,
    ) -> None:
        super().__init__(name=f"consumer-{group}")
        self._consumer = Consumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=instance_id,
            isolation_level="read_committed" if read_committed else "read_uncommitted",
            auto_offset_reset="earliest",
            key_deserializer=bytes.decode,
            value_deserializer=bytes.decode,
        )
        self._group = group
        self._messages = messages
        self._latch = latch

    def shutdown(self) -> None:
        """Have it end, also while it waits for messages."""
        self._consumer.wakeup()

    def run(self) -> None:
        try:
            with self._consumer as consumer:
                self._read(consumer)
        finally:
            self._latch.count_down()

    def _read(self, consumer: Consumer) -> None:
        read = 0
        with suppress(errors.WokenUp):
            # messages that came together with the last one are left for the group's next reader
            for record in islice(consumer, self._messages):
                print(
                    f"{self._group} received message : from partition {record.partition}, "
                    f"({record.key}, {record.value}) at offset {record.offset}"
                )
                read += 1
        print(f"{self._group} finished reading {read} messages", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="demo")
    parser.add_argument("--instance-id")
    parser.add_argument("--read-committed", action="store_true")
    parser.add_argument("--messages", type=int, required=True)
    options = parser.parse_args()
    latch = CountDownLatch(1)
    consumer = ConsumerThread(
        options.bootstrap,
        options.topic,
        options.group,
        options.messages,
        latch,
        instance_id=options.instance_id,
        read_committed=options.read_committed,
    )
    consumer.start()
    try:
        latch.wait()
    except KeyboardInterrupt:
        consumer.shutdown()
    consumer.join()


if __name__ == "__main__":
    main()
