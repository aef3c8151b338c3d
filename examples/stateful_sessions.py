"""Sessions by `transformWithState`: each visitor's clicks, until ten minutes pass without one.

`python examples/stateful_sessions.py --bootstrap HOST:PORT --clicks NAME --sessions NAME
    --checkpoint FOLDER`

A processor keeps one small state for each visitor and a timer that ends the session. State, timers
and offsets are in the checkpoint; the sessions go into a topic, each exactly once, also when the
query is killed and started again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

GAP_MS = 10 * 60_000
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""`transformWithState` asks for it."""
STATE = "first long, last long, clicks long"
OUTPUT = "visitor string, first long, last long, clicks long"


class Sessions(StatefulProcessor):
    """The session of one visitor: when it began, its last click, and how many there were."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._session = handle.getValueState("session", STATE)

    def handleInputRows(
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[Row]:
        """Clicks that came: they belong to the session, or end it and begin another one."""
        del timerValues
        first, last, clicks = self._session.get() or (0, 0, 0)
        for at in sorted(row.at for row in rows):
            if clicks and at > last + GAP_MS:
                yield Row(visitor=key[0], first=first, last=last, clicks=clicks)
                clicks = 0
            first, last = (min(first, at), max(last, at)) if clicks else (at, at)
            clicks += 1
        self._session.update((first, last, clicks))
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(last + GAP_MS)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """No click came for so long: the session is over."""
        del timerValues, expiredTimerInfo
        first, last, clicks = self._session.get() or (0, 0, 0)
        self._session.clear()
        yield Row(visitor=key[0], first=first, last=last, clicks=clicks)

    def close(self) -> None:
        """Nothing is held open."""


def sessions_of(records: DataFrame) -> DataFrame:
    """Sessions that are over, out of records with the visitor as key; the time of a click is its
    record's.
    """
    clicks = records.select(
        F.col("key").cast("string").alias("visitor"),
        "timestamp",
        F.unix_millis("timestamp").alias("at"),
    ).withWatermark("timestamp", "1 minute")
    return clicks.groupBy("visitor").transformWithState(
        statefulProcessor=Sessions(),
        outputStructType=OUTPUT,
        outputMode="Append",
        timeMode="EventTime",
    )


def run(spark: SparkSession, bootstrap: str, clicks: str, sessions: str, checkpoint: str) -> None:
    """Take in every click that is there."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    records = (
        spark.readStream.format("pylog")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("subscribe", clicks)
        .option("startingOffsets", "earliest")
        .load()
    )
    (
        sessions_of(records)
        .select(F.col("visitor").alias("key"), F.to_json(F.struct("*")).alias("value"))
        .writeStream.format("pylog")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("topic", sessions)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--clicks", required=True)
    parser.add_argument("--sessions", required=True)
    parser.add_argument("--checkpoint", required=True)
    options = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # which has pylog
    builder: Any = SparkSession.builder
    spark = builder.appName("sessions").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    run(spark, options.bootstrap, options.clicks, options.sessions, options.checkpoint)
    spark.stop()


if __name__ == "__main__":
    main()
