"""A message that comes twice is handled once: the ids of handled messages are kept.

`python examples/processed_ids.py --bootstrap HOST:PORT --topic NAME --database FILE`

The producer gives each message an id, in the header `id`. Before a worker handles a message it adds
the id to the set `processed_messages`, which tells whether the id is new: here a table, as it might
be Redis' `SADD processed_messages ID`. The id stays in the set when the handler has returned, and
not when it has failed. Workers may share the set. A worker that dies inside the handler leaves no
id, so the handler runs again: what must not happen twice at all belongs into the transaction of the
id, as in `unique_key.py` and `idempotent_processing.py`.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from pylog import Consumer, Record


class ProcessedIds:
    """The set of the ids of messages that were handled."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._database.execute(
            "create table if not exists processed_messages (id blob primary key)"
        )

    @contextmanager
    def adding(self, message: bytes) -> Iterator[bool]:
        """Gives whether the id is new; it is kept when the body ends well."""
        self._database.execute("begin immediate")
        try:
            added = self._database.execute(
                "insert or ignore into processed_messages values (?)", (message,)
            ).rowcount
            yield bool(added)
            self._database.execute("commit")
        finally:
            if self._database.in_transaction:
                self._database.execute("rollback")

    def close(self) -> None:
        self._database.close()


def id_of(record: Record) -> bytes:
    """The id that the producer gave the message."""
    return next(value for name, value in record.headers if name == "id" and value is not None)


def handle(record: Record) -> None:
    """The worker does this once for each id."""
    print(f"handled {id_of(record).decode()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--group", default="handlers")
    parser.add_argument("--idle", type=float, default=5.0)
    options = parser.parse_args()
    ids = ProcessedIds(options.database)
    skipped = 0
    with Consumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while records := consumer.poll(options.idle):
            for record in records:
                with ids.adding(id_of(record)) as is_new:
                    if is_new:
                        handle(record)
                    else:
                        skipped += 1
            consumer.commit()
    ids.close()
    print(f"skipped {skipped}")


if __name__ == "__main__":
    main()
