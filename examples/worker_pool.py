"""A pool of workers that share a topic: start it as often as you like, also while it runs.

`python examples/worker_pool.py --bootstrap HOST:PORT --topic NAME [--group NAME] [--idle SECONDS]`

Each record is a number to factor. A worker commits a record when its factors are printed, so that
one that is killed leaves nothing undone: what it had not committed is done again by another. It
ends by itself when there was nothing to do for `--idle` seconds, or by Ctrl-C.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from pylog import Consumer, Record, TopicPartition, errors


def factors(number: int) -> Iterator[int]:
    """Its prime factors, smallest first."""
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            yield divisor
            number //= divisor
        divisor += 1
    if number > 1:
        yield number


class Moves:
    """Says which partitions this worker has."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        print("takes", *sorted(partition.partition for partition in partitions), flush=True)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        print("gives", *sorted(partition.partition for partition in partitions), flush=True)


def work(record: Record) -> None:
    """Do one record. A value that makes no sense is printed and passed over, or it would come
    again.
    """
    try:
        number = int(record.value or b"")
    except ValueError:
        print(f"{record.partition}@{record.offset}: no number: {record.value!r}", flush=True)
        return
    print(number, "=", " x ".join(map(str, factors(number))) or "1", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="factoring")
    parser.add_argument("--idle", type=float, default=5.0)
    options = parser.parse_args()
    with Consumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe(options.topic, listener=Moves())
        try:
            while records := consumer.poll(options.idle):
                for record in records:
                    work(record)
                try:
                    consumer.commit()
                except (errors.CommitFailed, errors.RebalanceInProgress) as error:
                    print("some of it will be done again:", error, flush=True)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
