"""One Spark driver whose query copies a topic, and says so in lines.

`python -m tests.verify.copy_query BOOTSTRAP SOURCE TARGET CHECKPOINT MASTER [OPTION=VALUE ...]`
runs until its standard input ends, and then stops the query. It says `started`, `batch N ROWS` for
each, and `failed TEXT` where the query ended by itself. An OPTION that begins with `spark.` is of
Spark, one that begins with `source.` of the source, any other of the sink; but `slow=SECONDS` makes
the first attempt of each batch's first task wait in its middle, for Spark to run another one beside
it, and `stateful=true` has the query drop rows that it has seen, for which it keeps state. It is
killed by `tests.verify.exactly_once`, at the moments of `tests.verify.placed_kills`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from tests.verify.placed_kills import FOLDER_VARIABLE, PlacedDataSource

if TYPE_CHECKING:
    import pyarrow as pa

CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


def say(what: str) -> None:
    """One line, at once."""
    print(what, flush=True)


def slow_first(seconds: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on; the first attempt of the first task waits behind its first row."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from pylog.clock import SYSTEM_CLOCK

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch.slice(0, 1)
            if context.partitionId() == 0 and context.attemptNumber() == 0:
                SYSTEM_CLOCK.sleep(seconds)
            yield batch.slice(1)

    return rows


class Listener(StreamingQueryListener):
    """Says what the query does."""

    def onQueryStarted(self, event: Any) -> None:
        say("started")

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        if progress.numInputRows:
            say(f"batch {progress.batchId} {progress.numInputRows}")

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass


def main() -> int:
    bootstrap, source, target, checkpoint, master = sys.argv[1:6]
    given = dict(pair.split("=", 1) for pair in sys.argv[6:])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("copies")
    for name, value in {**CONF, **given}.items():
        if name.startswith("spark."):
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.streams.addListener(Listener())
    reading = {n.removeprefix("source."): v for n, v in given.items() if n.startswith("source.")}
    writing = {n: v for n, v in given.items() if not n.startswith(("spark.", "source."))}
    frame = (
        spark.readStream.format("pylog")
        .option("pylog.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .options(**reading)
        .load()
    )
    slow, stateful = writing.pop("slow", None), writing.pop("stateful", None)
    frame = frame.select("key", "value")
    if slow is not None:
        frame = frame.mapInArrow(slow_first(float(slow)), frame.schema)
    if stateful is not None:
        frame = frame.dropDuplicates(["key", "value"])
    form = "pylog"
    if FOLDER_VARIABLE in os.environ:
        spark.dataSource.register(PlacedDataSource)
        form = PlacedDataSource.name()
    query = (
        frame.writeStream.format(form)
        .option("pylog.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .options(**writing)
        .start()
    )

    def stop_at_end_of_input() -> None:
        sys.stdin.read()
        query.stop()

    threading.Thread(target=stop_at_end_of_input, daemon=True).start()
    try:
        query.awaitTermination()
    except PySparkException as error:
        say("failed " + " ".join(str(error).split())[:2000])
        return 3
    return 0


if __name__ == "__main__":
    os._exit(main())
