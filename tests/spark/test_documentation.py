"""The code for Spark in the README, docs/spark.md and docs/from-kafka.md runs as it stands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.spark_reads import Reads, numbers, values

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SPARK_MD = (ROOT / "docs/spark.md").read_text()
FROM_KAFKA = (ROOT / "docs/from-kafka.md").read_text()
README = (ROOT / "README.md").read_text()
ADDRESS = "127.0.0.1:9092"


def written(text: str, pattern: str) -> str:
    found = re.search(pattern, text, re.DOTALL)
    assert found is not None, pattern
    return found[1]


def test_the_readmes_two_lines(reads: Reads, cluster: FakeCluster) -> None:
    numbers(cluster, "greetings", 3)
    read, write = written(README, r"for its formats:\n+```\n(.*?)\n```").splitlines()
    servers = cluster.bootstrap_servers[0]
    assert eval(read.replace(ADDRESS, servers), {"spark": reads.spark}).isStreaming
    frame = reads.stream(subscribe="greetings", startingOffsets="earliest").select("value")
    writer = eval(write.replace(ADDRESS, servers), {"frame": frame})
    writer = writer.option("checkpointLocation", str(reads.folder)).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination(60)
    assert query.exception() is None
    assert len(values(reads.batch(subscribe="greetings"))) == 6


def test_the_view(spark: SparkSession, cluster: FakeCluster) -> None:
    numbers(cluster, "flights", 3)
    statement = written(SPARK_MD, r"`(CREATE TEMPORARY VIEW .*?)`")
    spark.sql(statement.replace(ADDRESS, cluster.bootstrap_servers[0]))
    try:
        assert spark.table("flights").count() == 3
    finally:
        spark.catalog.dropTempView("flights")


def test_the_rows_of_an_update(reads: Reads, cluster: FakeCluster) -> None:
    numbers(cluster, "a", 6)
    cluster.create_topic("counts")
    block = written(FROM_KAFKA, r"```\n(def write\(frame, batch\):\n.*?)```")
    stream = reads.stream(startingOffsets="earliest")
    options = {"pylog.bootstrap.servers": ",".join(cluster.bootstrap_servers), "topic": "counts"}
    names = {
        "counts": stream.groupBy("topic").count().selectExpr("cast(count as string) value"),
        "options": options,
        "checkpoint": str(reads.folder / "update"),
    }
    exec(block.replace(".start()", ".trigger(availableNow=True).start().awaitTermination()"), names)
    assert values(reads.batch(subscribe="counts")) == ["6"]


def test_the_offsets(reads: Reads, cluster: FakeCluster) -> None:
    """The forms of `startingOffsets`, and an `endOffset` of a query's progress, copied."""
    numbers(cluster, "flights", 30, 5)
    by_partition, by_topic = re.findall(
        r"`(\{\"flights\":.*?\})`", SPARK_MD.partition("## Offsets")[2]
    )
    chosen = {"subscribe": "flights"}
    assert len(values(reads.batch(startingOffsets=by_partition, **chosen))) == 30 - 23 + 5
    assert len(values(reads.batch(startingOffsets=by_topic, **chosen))) == 35
    query = reads.start(startingOffsets="earliest", **chosen)
    query.awaitTermination(60)
    assert query.lastProgress is not None
    source = json.loads(query.lastProgress.json)["sources"][0]
    end = source["endOffset"]
    assert set(end["boot"]) == {"t"}
    shown = json.loads(written(SPARK_MD, r"\n    (\{\"t\":.*?\})\n"))
    with_parts = {"flights": {**shown["t"]["flights"], "p": PARTS}}
    assert shape({**end, "boot": None}) == shape({**shown, "t": with_parts, "boot": None})
    assert values(reads.batch(startingOffsets=json.dumps(end), **chosen)) == []
    behind = {"avgOffsetsBehindLatest", "maxOffsetsBehindLatest", "minOffsetsBehindLatest"}
    behind |= {"recordsBehindLatest", "bytesBehindLatest", "secondsBehindLatest"}
    assert set(source["latestOffset"]) == {"flights", *behind}


PARTS = {"0": {"e": 3, "o": 120}, "1": {"e": 3, "o": 120}}


def shape(value: object) -> object:
    """The keys, and the types of what stands there."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return type(value)


def test_the_setting_for_quick_micro_batches(spark: SparkSession) -> None:
    name, manager = written(SPARK_MD, r"With\n\n +(spark\.sql\..*?)\n").split()
    assert spark.conf.get(name, "") == ""
    assert spark._jvm is not None
    spark._jvm.java.lang.Class.forName(manager)
