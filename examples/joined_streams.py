"""A join of two topics: each order with the payment that came within an hour of it.

`python examples/joined_streams.py --bootstrap HOST:PORT --orders NAME --payments NAME --out NAME
    --checkpoint FOLDER`

Orders without a payment come out with none, once no payment for them can come any more: watermarks
say when that is. The query reads to the newest records and ends; started again it goes on, with
what it keeps of both sides in the checkpoint. Each pair is written exactly once.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def topic(spark: SparkSession, bootstrap: str, name: str) -> DataFrame:
    """The records of a topic, as a stream from its start."""
    return (
        spark.readStream.format("pylog")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .load()
    )


def rows_of(records: DataFrame, columns: str) -> DataFrame:
    """The JSON values as columns."""
    return records.select(F.from_json(F.col("value").cast("string"), columns).alias("r")).select(
        "r.*"
    )


def paired(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Orders with their payments. A function of DataFrames alone, so that a test needs no topic."""
    placed = orders.withWatermark("placed", "10 minutes")
    paid = payments.withWatermark("paid", "10 minutes")
    in_time = F.expr("order = of_order AND paid BETWEEN placed AND placed + INTERVAL 1 HOUR")
    return placed.join(paid, in_time, "leftOuter")


def run(
    spark: SparkSession, bootstrap: str, orders: str, payments: str, out: str, checkpoint: str
) -> None:
    """Join what is there."""
    placed = rows_of(topic(spark, bootstrap, orders), "order long, placed timestamp")
    paid = rows_of(topic(spark, bootstrap, payments), "of_order long, paid timestamp")
    (
        paired(placed, paid)
        .select(F.col("order").cast("string").alias("key"), F.to_json(F.struct("*")).alias("value"))
        .writeStream.format("pylog")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("topic", out)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--orders", required=True)
    parser.add_argument("--payments", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--checkpoint", required=True)
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # which has pylog
    builder: Any = SparkSession.builder
    spark = builder.appName("payments").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    run(spark, given.bootstrap, given.orders, given.payments, given.out, given.checkpoint)
    spark.stop()


if __name__ == "__main__":
    main()
