"""Topics in SQL: views with columns out of JSON, and a join whose result is a topic.

`python examples/topics_in_sql.py --bootstrap HOST:PORT --orders NAME --customers NAME --out NAME`

A topic is a temporary view, as Spark does not hand the options of tables to sources in Python;
`from_json` (or `from_avro`) gives it the columns of its values. A result is written as a DataFrame.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from pyspark.sql import SparkSession

VIEW = """
CREATE OR REPLACE TEMPORARY VIEW {name}_records
USING pylog OPTIONS ('pylog.bootstrap.servers' '{bootstrap}', 'subscribe' '{topic}')
"""
COLUMNS = """
CREATE OR REPLACE TEMPORARY VIEW {name} AS
SELECT record.*, timestamp
FROM (SELECT from_json(cast(value AS string), '{columns}') record, timestamp FROM {name}_records)
"""
JOINED = """
SELECT customers.country AS key, to_json(struct(count(*) AS orders, sum(amount) AS amount)) AS value
FROM orders JOIN customers ON orders.customer = customers.name
GROUP BY customers.country
"""


def topic_view(spark: SparkSession, bootstrap: str, name: str, topic: str, columns: str) -> None:
    """Make a view of that name with these columns, the topic's records as they are now and later:
    each query reads it anew.
    """
    spark.sql(VIEW.format(name=name, bootstrap=bootstrap, topic=topic))
    spark.sql(COLUMNS.format(name=name, columns=columns))


def run(spark: SparkSession, bootstrap: str, orders: str, customers: str, out: str) -> None:
    """Show the orders, and write the sums of each country to `out`."""
    topic_view(spark, bootstrap, "orders", orders, "customer string, amount double")
    topic_view(spark, bootstrap, "customers", customers, "name string, country string")
    spark.sql("SELECT count(*), min(timestamp), max(timestamp) FROM orders").show(truncate=False)
    (
        spark.sql(JOINED)
        .write.format("pylog")
        .mode("append")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("topic", out)
        .save()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--orders", required=True)
    parser.add_argument("--customers", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # which has pylog
    builder: Any = SparkSession.builder
    spark = builder.appName("sql").getOrCreate()
    run(spark, options.bootstrap, options.orders, options.customers, options.out)
    spark.stop()


if __name__ == "__main__":
    main()
