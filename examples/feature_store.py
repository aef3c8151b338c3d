"""A small feature store: features are written as Arrow tables, and read as they are now or as they
were at a moment.

`python examples/feature_store.py --bootstrap HOST:PORT [--topic NAME] [--drivers N]`

A topic is the store. Each record is the features of one entity at one moment: the entity is the
key, the features are JSON, and the record's time is when they were true. `write` sends a whole
table in one call; `read` brings the topic back as a table; `latest` and `as_of` are joins in Arrow.
Training and serving read the same records, so they cannot differ. As it stands here, the program
writes two hours of features of some taxi drivers, and shows what a model would be given.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from pylog import AdminClient, Consumer, NewTopic, Producer, errors

HOUR_MS = 3_600_000
START_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z


def make_store(bootstrap: str, topic: str) -> None:
    """The store's topic, which keeps everything, unless there is one already."""
    with AdminClient(bootstrap_servers=bootstrap) as admin:
        try:
            admin.create_topics([NewTopic(topic, 3, config={"retention.ms": "-1"})])
        except errors.TopicAlreadyExists:
            return


def write(bootstrap: str, topic: str, features: Any) -> None:
    """Store a table with the columns `entity` (text), `at` (timestamp) and the features."""
    rows = features.drop_columns(["entity", "at"]).to_pylist()
    records = pa.table(
        {
            "key": features["entity"].cast(pa.binary()),
            "value": pa.array([json.dumps(row).encode() for row in rows], pa.binary()),
            "timestamp": features["at"].cast(pa.timestamp("us", "UTC")),
        }
    )
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_arrow(topic, records).result(60)


def read(bootstrap: str, topic: str) -> Any:
    """Everything in the store: `entity`, `at` and the features."""
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        records = consumer.to_arrow()
    rows = pa.Table.from_pylist([json.loads(value) for value in records["value"].to_pylist()])
    found = pa.table({"entity": records["key"].cast(pa.string()), "at": records["timestamp"]})
    for name in rows.column_names:
        found = found.append_column(name, rows[name])
    return found


def latest(features: Any) -> Any:
    """The newest features of each entity: what a model is served."""
    newest = features.group_by("entity").aggregate([("at", "max")])
    newest = newest.rename_columns(["entity", "at"])
    return features.join(newest, ["entity", "at"], join_type="inner").sort_by("entity")


def as_of(features: Any, at_ms: int) -> Any:
    """The newest features that were known at a moment: what a model is trained with, without a look
    into its future.
    """
    moment = pa.scalar(at_ms * 1_000, pa.timestamp("us", "UTC"))
    return latest(features.filter(pc.field("at") <= moment))


def some_features(drivers: int) -> Any:
    """Trips and ratings of some drivers, hour by hour."""
    return pa.table(
        {
            "entity": [f"driver-{n}" for _ in range(3) for n in range(drivers)],
            "at": pa.array(
                [(START_MS + hour * HOUR_MS) * 1_000 for hour in range(3) for _ in range(drivers)],
                pa.timestamp("us", "UTC"),
            ),
            "trips": [10 * hour + n for hour in range(3) for n in range(drivers)],
            "rating": [5.0 - n % 4 / 2 for _ in range(3) for n in range(drivers)],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="features")
    parser.add_argument("--drivers", type=int, default=4)
    options = parser.parse_args()
    make_store(options.bootstrap, options.topic)
    write(options.bootstrap, options.topic, some_features(options.drivers))
    features = read(options.bootstrap, options.topic)
    for name, rows in (
        ("now", latest(features)),
        ("at 13:30", as_of(features, START_MS + HOUR_MS * 3 // 2)),
    ):
        for row in rows.to_pylist():
            print(name, row["entity"], row["trips"], row["rating"], flush=True)


if __name__ == "__main__":
    main()
