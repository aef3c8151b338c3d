"""Keys written over and over to a topic of one partition, and a consumer that reads all of it."""

from __future__ import annotations

import random
import threading
from typing import Final

from pylog import Consumer, Producer, RecordMetadata, TopicPartition
from pylog.clock import SYSTEM_CLOCK
from pylog.errors import PylogError
from tests.verify.policy_judge import Found, Written

KEYS: Final = 30
_PATIENCE_MS: Final = 90_000


class KeyedLoad:
    """Sends `rate` records a second until closed, one in ten a tombstone."""

    def __init__(
        self, bootstrap: str, topic: str, written: list[Written], *, rate: int, seed: int
    ) -> None:
        self.failed: list[str] = []
        self._topic, self._written, self._rate = topic, written, rate
        self._rng = random.Random(seed)
        self._producer = Producer(
            bootstrap_servers=bootstrap, acks="all", linger_ms=0, delivery_timeout_ms=120_000
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"load-{topic}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        begun_ms, sent = SYSTEM_CLOCK.monotonic_ms(), 0
        while not self._stop.wait(0.005):
            due = self._rate * (SYSTEM_CLOCK.monotonic_ms() - begun_ms) // 1000
            while sent < due:
                self.send()
                sent += 1

    def send(self, key: int | None = None) -> None:
        """One record, of a random key."""
        rng = self._rng
        number = rng.randrange(KEYS) if key is None else key
        name = b"key-%d" % number
        value = b"%d " % len(self._written) * rng.randrange(1, 60)
        tombstone = key is None and rng.random() < 0.1
        record = Written(name, None if tombstone else value, SYSTEM_CLOCK.wall_ms())

        def done(metadata: RecordMetadata | None, error: PylogError | None) -> None:
            if metadata is not None:
                record.offset = metadata.offset
            else:
                self.failed.append(repr(error))

        self._written.append(record)
        self._producer.send(
            self._topic,
            record.value,
            key=name,
            partition=0,
            timestamp_ms=record.at_ms,
            on_delivery=done,
        )

    def stop(self) -> None:
        """Send no more by itself; back when all is acknowledged."""
        self._stop.set()
        self._thread.join()
        self.flush()

    def flush(self) -> None:
        """Wait for what was sent."""
        self._producer.flush(150)

    def close(self) -> None:
        """Give the connection up."""
        self._stop.set()
        self._thread.join()
        self._producer.close(5)


class Reader:
    """Reads a topic from its beginning, over and over in one breath, as records come."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.found: list[Found] = []
        self.faults: list[str] = []
        self.position = 0
        self._bootstrap, self._partition = bootstrap, TopicPartition(topic, 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader-{topic}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with Consumer(
                bootstrap_servers=self._bootstrap, auto_offset_reset="earliest"
            ) as consumer:
                consumer.assign([self._partition])
                consumer.seek_to_beginning()
                while not self._stop.is_set():
                    for record in consumer.poll(0.5):
                        self._take(Found(record.offset, record.key, record.value))
                    self.position = consumer.position(self._partition)
        except PylogError as error:
            self.faults.append(f"the reader of {self._partition} ended: {error!r}")

    def _take(self, record: Found) -> None:
        if self.found and record.offset <= self.found[-1].offset:
            self.faults.append(
                f"the reader of {self._partition} got offset {record.offset} after "
                f"{self.found[-1].offset}"
            )
        self.found.append(record)

    def close(self) -> None:
        """Read no more."""
        self._stop.set()
        self._thread.join()


def read_all(bootstrap: str, topic: str) -> tuple[list[Found], int]:
    """Every record up to the end as it was at the call, and that end."""
    partition = TopicPartition(topic, 0)
    found: list[Found] = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        deadline = SYSTEM_CLOCK.monotonic_ms() + _PATIENCE_MS
        while consumer.position(partition) < end:
            assert SYSTEM_CLOCK.monotonic_ms() < deadline, f"{topic} cannot be read to its end"
            found += [Found(r.offset, r.key, r.value) for r in consumer.poll(0.5)]
    return [each for each in found if each.offset < end], end
