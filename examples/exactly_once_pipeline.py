"""A pipeline from topic to topic in Spark whose every batch counts once, whatever is killed.

`python examples/exactly_once_pipeline.py --bootstrap HOST:PORT --orders NAME --invoices NAME
    --checkpoint FOLDER`

Orders (JSON: customer, amount, currency) become invoices in euros in one topic, and totals of each
customer in a second one. Both are written in `foreachBatch` for the same batch, each exactly once:
a replayed batch finds that it has been written and writes nothing. Nothing is set for that, it is
the sink's default; only readers have to ask for committed records, as Spark's source here does by
itself. The pipeline runs to the newest order and ends; started again it goes on.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ORDER = "customer string, amount double, currency string"
RATES = {"EUR": 1.0, "USD": 0.9, "GBP": 1.2}


def invoices_of(records: DataFrame) -> DataFrame:
    """One invoice for each record that is an order in a known currency. It is a function of
    DataFrames alone, so that a test needs no cluster.
    """
    order = records.select(
        F.from_json(F.col("value").cast("string"), ORDER).alias("o"), "partition", "offset"
    )
    rates = F.create_map(*(F.lit(part) for pair in RATES.items() for part in pair))
    euros = F.round(F.col("o.amount") * rates[F.col("o.currency")], 2)
    return (
        order.withColumn("euros", euros)
        .where("euros is not null and o.customer is not null")
        .select(
            F.col("o.customer").alias("customer"),
            "euros",
            F.concat_ws("-", F.lit("invoice"), "partition", "offset").alias("number"),
        )
    )


def totals_of(invoices: DataFrame) -> DataFrame:
    """The sum that each customer owes by these invoices."""
    return invoices.groupBy("customer").agg(F.round(F.sum("euros"), 2).alias("euros"))


def append(frame: DataFrame, bootstrap: str, topic: str) -> None:
    """Write rows as JSON, keyed by customer."""
    (
        frame.select(F.col("customer").alias("key"), F.to_json(F.struct("*")).alias("value"))
        .write.format("pylog")
        .mode("append")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .save()
    )


def run(spark: SparkSession, bootstrap: str, orders: str, invoices: str, checkpoint: str) -> None:
    """Invoice every order that is there."""

    def write(batch: DataFrame, batch_id: int) -> None:
        invoiced = invoices_of(batch).persist()
        append(invoiced, bootstrap, invoices)
        append(totals_of(invoiced), bootstrap, f"{invoices}-totals")
        invoiced.unpersist()
        print("batch", batch_id, flush=True)

    (
        spark.readStream.format("pylog")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("subscribe", orders)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 500)
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--orders", required=True)
    parser.add_argument("--invoices", required=True)
    parser.add_argument("--checkpoint", required=True)
    options = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # which has pylog
    builder: Any = SparkSession.builder
    spark = builder.appName("invoices").getOrCreate()
    run(spark, options.bootstrap, options.orders, options.invoices, options.checkpoint)
    spark.stop()


if __name__ == "__main__":
    main()
