"""A message that comes twice is stored once: its key is the primary key of what it becomes.

`python examples/unique_key.py --bootstrap HOST:PORT --topic NAME --database FILE`

Records are orders: the key is the order's number, the value an amount. A producer that sends one
again, or a worker that dies between the database's commit and the group's, has it delivered twice;
the database refuses the second insert, and nothing else happens. `processed_ids.py` keeps the ids
of messages, for results that have no key of their own.
"""

from __future__ import annotations

import argparse
import sqlite3

from pylog import Consumer

TABLE = "create table if not exists orders (number text primary key, amount integer not null)"


def store(database: sqlite3.Connection, number: str, amount: int) -> bool:
    """Whether the order is new."""
    try:
        database.execute("insert into orders values (?, ?)", (number, amount))
    except sqlite3.IntegrityError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--group", default="orders")
    parser.add_argument("--idle", type=float, default=5.0)
    options = parser.parse_args()
    database = sqlite3.connect(options.database, timeout=30)
    database.execute(TABLE)
    stored = known = 0
    with Consumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while records := consumer.poll(options.idle):
            with database:  # one transaction for the batch
                for record in records:
                    if store(database, str(record.key, "utf-8"), int(record.value)):
                        stored += 1
                    else:
                        known += 1
            consumer.commit()  # behind the database: what is not committed comes again
    database.close()
    print(f"stored {stored}, known already {known}")


if __name__ == "__main__":
    main()
