"""A topic of orders as a table, totals by customer, and large orders in a topic of their own."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
BOOTSTRAP = spark.conf.get("spark.pylog.example.bootstrap", "127.0.0.1:9092")
assert BOOTSTRAP is not None


@dp.table
def orders() -> DataFrame:
    """Every order, as it comes."""
    records = (
        spark.readStream.format("pylog")
        .option("pylog.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    return records.select(
        F.col("key").cast("string").alias("customer"),
        F.col("value").cast("string").cast("double").alias("amount"),
    )


@dp.materialized_view
def totals() -> DataFrame:
    """The sum that each customer has ordered."""
    return spark.read.table("orders").groupBy("customer").agg(F.sum("amount").alias("amount"))


dp.create_sink(
    "large_orders", "pylog", {"pylog.bootstrap.servers": BOOTSTRAP, "topic": "large-orders"}
)


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    """Orders of 90 and more: each is in the topic exactly once."""
    return (
        spark.readStream.table("orders")
        .where("amount >= 90")
        .select(F.col("customer").alias("key"), F.col("amount").cast("string").alias("value"))
    )
