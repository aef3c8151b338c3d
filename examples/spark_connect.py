"""Totals of customers by Spark Connect: a thin client, and a server that has pylog.

`python examples/spark_connect.py --remote sc://HOST:15002 --bootstrap HOST:PORT --orders NAME
    --totals NAME --checkpoint FOLDER`

The client needs `pip install "pyspark[connect]"` alone; pylog is installed where the server's
Python workers run. `--remote local` starts a server in place.

Reads, streams and the sink are as without Connect, and each batch counts once. One thing differs:
the function of `foreachBatch` runs in a process of its own there, and Spark does not tell its
writes which batch they are of. So they name it, by `idempotencyKey`; without one they are refused.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def write(batch: DataFrame, number: int, *, bootstrap: str, topic: str) -> None:
    """The totals of one batch, keyed by customer."""
    totals = batch.groupBy(F.col("key").cast("string").alias("key")).agg(
        F.sum(F.col("value").cast("string").cast("double")).cast("string").alias("value")
    )
    (
        totals.write.format("pylog")
        .mode("append")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("idempotencyKey", f"totals-{number}")
        .save()
    )


def run(spark: SparkSession, bootstrap: str, orders: str, totals: str, checkpoint: str) -> None:
    """Sum up every order that is there."""
    (
        spark.readStream.format("pylog")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("subscribe", orders)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100)
        .load()
        .writeStream.foreachBatch(partial(write, bootstrap=bootstrap, topic=totals))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--remote", default="local")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--orders", required=True)
    parser.add_argument("--totals", required=True)
    parser.add_argument("--checkpoint", required=True)
    options = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of the server that `local` starts
    builder: Any = SparkSession.builder
    spark = builder.remote(options.remote).getOrCreate()
    orders = (
        spark.read.format("pylog")
        .option("pylog.bootstrap.servers", options.bootstrap)
        .option("subscribe", options.orders)
        .load()
    )
    print("orders", orders.count())
    run(spark, options.bootstrap, options.orders, options.totals, options.checkpoint)
    spark.stop()


if __name__ == "__main__":
    main()
