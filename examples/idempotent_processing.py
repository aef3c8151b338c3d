"""Each record has its effect once, whatever dies: the effect and the position are stored in one
transaction of a database.

`python examples/idempotent_processing.py --bootstrap HOST:PORT --topic NAME --database FILE`

Records are payments: the key is an account, the value an amount. The table `balances` has the sum
of each account; the table `positions` says up to where each partition is in it. The group shares
out the partitions, and the database, not the group, knows the positions: a worker that gets a
partition seeks there. The database refuses the payments of a worker that is out, because another
one has taken its partition over.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterable, Sequence

from pylog import Consumer, Record, TopicPartition

TABLES = """
create table if not exists balances (account text primary key, amount integer not null);
create table if not exists positions (
    topic text, partition integer, next_offset integer not null, owner integer not null,
    primary key (topic, partition)
);
"""


class Ledger:
    """The database of one worker. It stores payments together with their positions or not at
    all.
    """

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._connection.executescript(TABLES)
        self._owner: dict[TopicPartition, int] = {}

    def take_over(self, partition: TopicPartition) -> int:
        """The partition's position. The worker that had it before can store nothing of it from now
        on.
        """
        row = self._connection.execute(
            "insert into positions values (?, ?, 0, 1)"
            " on conflict do update set owner = owner + 1 returning next_offset, owner",
            (partition.topic, partition.partition),
        ).fetchone()
        self._owner[partition] = row[1]
        return int(row[0])

    def add(self, partition: TopicPartition, payments: Sequence[Record]) -> bool:
        """Store payments of one partition; False: another worker has it, and nothing is stored."""
        self._connection.execute("begin immediate")
        moved = self._connection.execute(
            "update positions set next_offset = ?"
            " where topic = ? and partition = ? and owner = ? and next_offset <= ?",
            (
                payments[-1].offset + 1,
                partition.topic,
                partition.partition,
                self._owner[partition],
                payments[0].offset,
            ),
        ).rowcount
        if not moved:
            self._connection.execute("rollback")
            return False
        self._connection.executemany(
            "insert into balances values (?, ?)"
            " on conflict do update set amount = amount + excluded.amount",
            [(str(payment.key, "utf-8"), int(payment.value)) for payment in payments],
        )
        self._connection.execute("commit")
        return True

    def close(self) -> None:
        self._connection.close()


class Seeks:
    """Has a consumer go on where the database is."""

    def __init__(self, consumer: Consumer, ledger: Ledger) -> None:
        self._consumer = consumer
        self._ledger = ledger

    def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._consumer.seek(partition, self._ledger.take_over(partition))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--group", default="ledger")
    parser.add_argument("--idle", type=float, default=5.0)
    options = parser.parse_args()
    ledger = Ledger(options.database)
    with Consumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe(options.topic, listener=Seeks(consumer, ledger))
        while records := consumer.poll(options.idle):
            for partition in records.partitions:
                if not ledger.add(partition, records.records(partition)):
                    print(f"{partition} is another worker's by now")
    ledger.close()


if __name__ == "__main__":
    main()
