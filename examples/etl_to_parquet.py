"""Streaming ETL: JSON events of a topic into a Parquet table by day, and what is no event aside.

`python examples/etl_to_parquet.py --bootstrap HOST:PORT --topic NAME --out FOLDER`

It runs to the newest record and ends (`availableNow`), as a job that is started every hour does;
the next run goes on at its checkpoint. Each event is in the table once, whatever is killed: the
checkpoint has the offsets of each batch, and the table lists the files of finished batches alone.
Records that are no events lie in `FOLDER/rejected`, with topic, partition and offset, to be looked
at. FOLDER may be on any file system that Spark writes to; with Delta Lake's package on the
classpath, `format("delta")` in place of `format("parquet")` is the whole difference.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

EVENT = "device string, at timestamp, value double"


def events(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Each record with its event, which is null where it is none."""
    records = (
        spark.readStream.format("pylog")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100_000)
        .load()
    )
    parsed = F.from_json(F.col("value").cast("string"), EVENT)
    return records.withColumn("event", F.when(parsed["at"].isNotNull(), parsed))


def start(frame: DataFrame, out: str, name: str, *by: str) -> StreamingQuery:
    """Write a frame to the table `name`, with a checkpoint beside it."""
    writer = frame.writeStream.format("parquet").partitionBy(*by)
    return (
        writer.option("path", f"{out}/{name}")
        .option("checkpointLocation", f"{out}/checkpoints/{name}")
        .trigger(availableNow=True)
        .start()
    )


def run(spark: SparkSession, bootstrap: str, topic: str, out: str) -> None:
    """Bring both tables up to the newest record."""
    records = events(spark, bootstrap, topic)
    good = records.where("event is not null").select("event.*").withColumn("day", F.to_date("at"))
    bad = records.where("event is null").select("topic", "partition", "offset", "value")
    queries = [start(good, out, "events", "day"), start(bad, out, "rejected")]
    for query in queries:
        query.awaitTermination()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # which has pylog
    builder: Any = SparkSession.builder
    spark = builder.appName("etl").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    run(spark, options.bootstrap, options.topic, options.out)
    for name in ("events", "rejected"):
        print(name, spark.read.parquet(f"{options.out}/{name}").count(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
