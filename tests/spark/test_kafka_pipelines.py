"""Pipelines of Spark's Kafka connector, with one word changed: `kafka_pipelines.py` has them.

Those that Spark stops for want of a save mode or of update mode end before the first batch by an
error that names the line to write, and give the right rows with that line. Of the others at least
19 in 20 run.
"""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition
from pylog.testing.options import verdicts_of_pipeline
from pylog.testing.pipelines import pipelines_in
from tests.fakes.waiting import eventually
from tests.spark import kafka_pipelines
from tests.spark.kafka_pipelines import LATE, NOON_MS, Pipeline, Surroundings

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.integration]

WRITTEN = Path(kafka_pipelines.__file__).read_text()
ONE_WORD = re.compile(r'(?<=format\(")kafka(?="\))|(?<=USING )kafka')


def moved(*, append: bool = False) -> dict[str, Pipeline]:
    """The pipelines of the file with the one word changed; `append`: and with the save mode that
    batch writes need.
    """
    text = ONE_WORD.sub("pylog", WRITTEN)
    if append:
        text = re.sub(r"\.write\.format", '.write.mode("append").format', text)
    module = types.ModuleType("moved_pipelines")
    sys.modules[module.__name__] = module  # dataclasses look there
    exec(compile(text, kafka_pipelines.__file__, "exec"), vars(module))
    found: list[Pipeline] = vars(module)["PIPELINES"]
    return {one.run.__name__: one for one in found}


PIPELINES = moved()
WITH_A_MODE = moved(append=True)


def is_kind(name: str, kind: str) -> bool:
    return PIPELINES[name].kind.name == kind


RUN = [name for name in PIPELINES if is_kind(name, "RUNS")]
NOT_RUN = [name for name in PIPELINES if name not in RUN]


def out_of(name: str) -> str:
    """The name of a pipeline's own topic, which no pattern finds."""
    return f"out-{list(PIPELINES).index(name)}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(config={"transaction.state.log.num.partitions": "2"}) as running:
        servers = running.bootstrap_servers
        for_ever = {"retention.ms": "-1"}  # the records are of one day
        with AdminClient(bootstrap_servers=servers) as admin:
            topics = [NewTopic("topic1", 2, config=for_ever), NewTopic("topic2", config=for_ever)]
            topics += [NewTopic("events", config=for_ever)]
            topics += [NewTopic(out_of(name), 3, config=for_ever) for name in PIPELINES]
            admin.create_topics(topics)
        with Producer(bootstrap_servers=servers) as producer:
            for topic, partitions, count in (("topic1", 2, 60), ("topic2", 1, 20)):
                for p in range(partitions):
                    for n in range(count):
                        value, headers = f"{topic}-{p}-{n}", [("n", b"%d" % n)]
                        producer.send(
                            topic, value, key=f"k{n % 5}", partition=p, headers=headers,
                            timestamp_ms=NOON_MS + n * 1_000,
                        )  # fmt: skip
            for n in range(40):
                at = f"2026-01-01T12:0{n // 20}:{n % 20 * 3:02}Z"
                producer.send("events", json.dumps({"device": f"d{n % 4}", "at": at, "value": n}))
        yield running


@pytest.fixture
def at(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Surroundings:
    out = out_of(request.node.callspec.params["name"])
    return Surroundings(spark, cluster.bootstrap_servers, out, str(tmp_path / "own"))


def written_to(topic: str, servers: str) -> list[str]:
    """The values that readers of committed records see."""
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(topic, n) for n in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        values: list[str] = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            values += [record.value.decode() for record in consumer.poll(0.5)]
    return sorted(values)


def streamed(frame: DataFrame, at: Surroundings, folder: Path, *, late: bool) -> list[str]:
    """The values of a stream: of what is there, or of what is sent once it has begun."""
    rows: list[Any] = []
    writer = frame.select("value").writeStream.foreachBatch(
        lambda batch, _: rows.extend(batch.collect())
    )
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    if not late:
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
    else:
        query = writer.start()
        eventually(120, lambda: query.lastProgress is not None, "the query has begun")
        with Producer(bootstrap_servers=at.servers) as producer:
            for value in LATE:
                producer.send("topic1", value, headers=[("n", b"late")]).result(10)
        query.processAllAvailable()
        query.stop()
    return sorted(as_text(row.value) for row in rows)


def as_text(value: object) -> str:
    return bytes(value).decode() if isinstance(value, bytes | bytearray) else str(value)


def check_runs(pipeline: Pipeline, at: Surroundings, folder: Path) -> None:
    got = pipeline.run(at)
    if isinstance(got, StreamingQuery):
        got.processAllAvailable()
        got.stop()
        assert got.exception() is None
    if isinstance(got, DataFrame):
        if got.isStreaming:
            late = any(value.startswith("late") for value in pipeline.rows)
            rows = streamed(got, at, folder, late=late)
        else:
            rows = sorted(as_text(row.value) for row in got.select("value").collect())
    else:
        rows = written_to(at.out, at.servers)
    # Records that were sent late, to pipelines that begin at the end, others may see or not.
    asked = [row for row in rows if not row.lower().startswith("late") or row in pipeline.rows]
    assert tuple(asked) == pipeline.rows


def run_to_its_end(pipeline: Pipeline, at: Surroundings) -> None:
    got = pipeline.run(at)
    if isinstance(got, StreamingQuery):
        got.processAllAvailable()


@pytest.mark.parametrize("name", RUN)
def test_a_pipeline_with_one_word_changed(name: str, at: Surroundings, tmp_path: Path) -> None:
    check_runs(PIPELINES[name], at, tmp_path)


@pytest.mark.parametrize("name", NOT_RUN)
def test_a_pipeline_that_is_stopped_is_told_what_to_write(name: str, at: Surroundings) -> None:
    with pytest.raises(PySparkException) as error:
        run_to_its_end(PIPELINES[name], at)
    assert PIPELINES[name].words.lower() in str(error.value).lower()
    assert written_to(at.out, at.servers) == []


@pytest.mark.parametrize("name", [name for name in NOT_RUN if is_kind(name, "SAVE_MODE")])
def test_a_write_with_the_line_that_it_was_told(
    name: str, at: Surroundings, tmp_path: Path
) -> None:
    check_runs(WITH_A_MODE[name], at, tmp_path)


def test_the_counts() -> None:
    apart = ("SAVE_MODE", "UPDATE_MODE")
    held = [one for one in PIPELINES.values() if one.kind.name not in apart]
    assert len(held) >= 20
    assert len(RUN) >= 0.95 * len(held)
    assert all(one.source for one in PIPELINES.values())


def test_what_is_said_beforehand_is_what_happens() -> None:
    """The options are judged from the file itself as Spark and the format treat them."""
    starts = [(match.start(), match[1]) for match in re.finditer(r"\ndef (\w+)\(", WRITTEN)]
    refused: dict[str, set[str]] = {}
    for found in pipelines_in(WRITTEN):
        position = len("\n".join(WRITTEN.split("\n")[: found.line]))
        function = [name for start, name in starts if start < position][-1]
        for verdict in verdicts_of_pipeline(found):
            if verdict.becomes.value == "refused":
                refused.setdefault(function, set()).add(verdict.option)
    assert set(refused) == set(NOT_RUN)
    for name, options in refused.items():
        if is_kind(name, "REFUSED"):
            assert all(option.startswith(("kafka.security.", "kafka.sasl.")) for option in options)
        else:
            assert options == {"mode" if is_kind(name, "SAVE_MODE") else "outputMode"}
