"""Each record is transformed exactly once, whatever dies: what comes of it and the position of its
group are committed in one transaction.

`python examples/consume_transform_produce.py --bootstrap HOST:PORT --source NAME --target NAME
    --id NAME [--group NAME] [--idle SECONDS]`

Start it as often as you like, each with an `--id` of its own; one that is started again with the
same id ends what its earlier self left open. Records are amounts in cents, which it turns into
euros. It ends by itself when there was nothing to do for `--idle` seconds, or by Ctrl-C.
"""

from __future__ import annotations

import argparse
from contextlib import suppress

from pylog import Consumer, Producer, Record, errors


def transform(record: Record) -> bytes:
    """Cents as euros."""
    cents = int(record.value)
    return b"%d.%02d" % divmod(cents, 100)


def rewind(consumer: Consumer) -> None:
    """Read again from what is committed: an aborted transaction has moved nothing."""
    partitions = consumer.assignment()
    if not partitions:
        return
    for partition, committed in consumer.committed(partitions).items():
        if committed is None:
            consumer.seek_to_beginning(partition)
        else:
            consumer.seek(partition, committed)


def work(consumer: Consumer, producer: Producer, target: str, idle_s: float) -> None:
    producer.init_transactions()
    while records := consumer.poll(idle_s):
        try:
            with producer.transaction():
                for record in records:
                    producer.send(target, transform(record), key=record.key)
                # The group's generation goes along: a worker that is out commits nothing.
                producer.send_offsets_to_transaction(
                    records.next_offsets, consumer.group_metadata()
                )
        except errors.PylogError as error:
            if not error.abortable:
                raise  # a newer worker has this id, for example
            print(f"aborted, and done again: {error}", flush=True)
            rewind(consumer)
        else:
            print(f"transformed {len(records)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--id", required=True, help="the worker's transactional id")
    parser.add_argument("--group", default="cents-to-euros")
    parser.add_argument("--idle", type=float, default=5.0)
    options = parser.parse_args()
    with (
        Consumer(
            options.source,
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer,
        Producer(
            bootstrap_servers=options.bootstrap,
            transactional_id=options.id,
            transaction_timeout_ms=10_000,
        ) as producer,
        suppress(KeyboardInterrupt),
    ):
        work(consumer, producer, options.target, options.idle)


if __name__ == "__main__":
    main()
