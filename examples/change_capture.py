"""Changes of a table, captured into a compacted topic, and the table made anew from the topic.

`python examples/change_capture.py publish --bootstrap HOST:PORT --topic NAME --database FILE`
`python examples/change_capture.py restore --bootstrap HOST:PORT --topic NAME --database FILE`

The table is `customers(id, name, city)` in SQLite. Triggers write each change to the table
`changes`, in the same transaction as the change itself. `publish` sends what stands there and
takes it away once it is acknowledged; a publisher that dies in between sends some of it again, in
order, which ends in the same state. A record has the row's id as its key and the row as its value,
or no value (a tombstone) when the row was deleted. The topic is compacted: of each row the newest
state stays, for however long. `restore` reads the topic to its end into a table of another file.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from contextlib import closing

from pylog import AdminClient, Consumer, NewTopic, Producer, TopicPartition, errors

BATCH = 1_000
SCHEMA = """
create table if not exists customers(id integer primary key, name text, city text);
create table if not exists changes(number integer primary key autoincrement, id integer, row text);
create trigger if not exists inserted after insert on customers begin
  insert into changes(id, row)
  values (new.id, json_object('id', new.id, 'name', new.name, 'city', new.city));
end;
create trigger if not exists updated after update on customers begin
  insert into changes(id, row) select old.id, null where old.id <> new.id;
  insert into changes(id, row)
  values (new.id, json_object('id', new.id, 'name', new.name, 'city', new.city));
end;
create trigger if not exists deleted after delete on customers begin
  insert into changes(id, row) values (old.id, null);
end;
"""


def make_topic(bootstrap: str, topic: str) -> None:
    """A compacted topic, unless there is one already."""
    with AdminClient(bootstrap_servers=bootstrap) as admin:
        try:
            admin.create_topics([NewTopic(topic, 3, config={"cleanup.policy": "compact"})])
        except errors.TopicAlreadyExists:
            return


def publish(bootstrap: str, topic: str, database: sqlite3.Connection) -> int:
    """Send all changes that wait; how many there were."""
    sent = 0
    with Producer(bootstrap_servers=bootstrap) as producer:
        while True:
            changes = database.execute(
                "select number, id, row from changes order by number limit ?", (BATCH,)
            ).fetchall()
            if not changes:
                return sent
            handles = [producer.send(topic, row, key=str(id)) for _, id, row in changes]
            for handle in handles:
                handle.result(60)
            with database:
                database.execute("delete from changes where number <= ?", (changes[-1][0],))
            sent += len(changes)


def restore(bootstrap: str, topic: str, database: sqlite3.Connection) -> int:
    """Make the table anew from what the topic holds now; how many rows it has."""
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(topic, n) for n in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        with database:
            database.execute("delete from customers")
            while any(consumer.position(at) < end for at, end in ends.items()):
                for record in consumer.poll(1.0):
                    if record.value is None:
                        database.execute(
                            "delete from customers where id = ?", (int(record.key or 0),)
                        )
                    else:
                        row = json.loads(record.value)
                        database.execute(
                            "insert or replace into customers values (:id, :name, :city)", row
                        )
    [(rows,)] = database.execute("select count(*) from customers")
    return int(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["publish", "restore"])
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="customers")
    parser.add_argument("--database", required=True)
    options = parser.parse_args()
    with closing(sqlite3.connect(options.database)) as database:
        database.executescript(SCHEMA)
        if options.what == "publish":
            make_topic(options.bootstrap, options.topic)
            print("published", publish(options.bootstrap, options.topic, database))
        else:
            print("restored", restore(options.bootstrap, options.topic, database))


if __name__ == "__main__":
    main()
