"""Pipelines as people have them, written for Spark's Kafka connector.

Each says where it is from: "guide" is Spark's "Structured Streaming + Kafka Integration Guide
(Kafka broker version 0.10.0 or higher)", of which every example in Python is here; "programming
guide" is "Structured Streaming Programming Guide"; "daily" is what such pipelines have beside that,
as their options are recommended by vendors and asked for in forums. `test_kafka_pipelines.py` runs
this file's text with one word changed.

Topics: `topic1` has the partitions 0 and 1 with 60 records each, `topic2` one partition with 20;
the record n of partition p of topic t has the key `k<n % 5>`, the value `<t>-<p>-<n>`, the header
`n` and the time NOON_MS + n seconds. `events` has 40 JSON objects in one partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

if TYPE_CHECKING:
    import pandas as pd

NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z
TOPIC1 = [f"topic1-{p}-{n}" for p in (0, 1) for n in range(60)]
TOPIC2 = [f"topic2-0-{n}" for n in range(20)]
EVENT = "device string, at timestamp, value double"


class Kind(Enum):
    """The ways in which Spark and the format can answer."""

    RUNS = "the rows are right"
    SAVE_MODE = "Spark withholds its default save mode from sources in Python"
    UPDATE_MODE = "Spark withholds update mode from sources in Python"
    REFUSED = "security that is not offered: refused before the first batch"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The arguments of each pipeline: `out` is a topic of its own with three partitions, `folder`
    is empty.
    """

    spark: SparkSession
    servers: str
    out: str
    folder: str

    def rest(self, query: StreamingQuery) -> None:
        """Let a query that ends by itself end."""
        assert query.awaitTermination(120)


Run = Callable[[Surroundings], DataFrame | StreamingQuery | None]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`rows` are those of the frame that it returns, or the values of `out`, sorted. `words` are
    what the error names where it does not run.
    """

    run: Run
    source: str
    rows: tuple[str, ...]
    kind: Kind
    words: str


PIPELINES: list[Pipeline] = []


def pipeline(
    source: str, rows: list[str], kind: Kind = Kind.RUNS, words: str = ""
) -> Callable[[Run], Run]:
    """Put it on the list."""

    def listed(run: Run) -> Run:
        PIPELINES.append(Pipeline(run, source, tuple(sorted(rows)), kind, words))
        return run

    return listed


def topic1(at: Surroundings) -> DataFrame:
    """The stream that the guide's sinks write."""
    return (
        at.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "topic1")
        .option("startingOffsets", "earliest")
        .load()
    )


# ---- the guide: sources -----------------------------------------------------------------------

G = "guide, Creating a Kafka Source for Streaming Queries: "
LATE = [f"late-{n}" for n in range(5)]
"""The records that are sent when a stream that begins at the end has begun."""


@pipeline(G + "subscribe to 1 topic", LATE)
def stream_of_one_topic(at: Surroundings) -> DataFrame:
    df = (
        at.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "topic1")
        .load()
    )
    return df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")


@pipeline(G + "subscribe to 1 topic, with headers", [f"{value} late" for value in LATE])
def stream_with_headers(at: Surroundings) -> DataFrame:
    df = (
        at.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "topic1")
        .option("includeHeaders", "true")
        .load()
    )
    df = df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "headers")
    return df.select(F.expr("concat(value, ' ', cast(headers[0].value as string)) value"))


@pipeline(G + "subscribe to multiple topics", LATE)
def stream_of_two_topics(at: Surroundings) -> DataFrame:
    df = (
        at.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "topic1,topic2")
        .load()
    )
    return df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")


@pipeline(G + "subscribe to a pattern", LATE)
def stream_of_a_pattern(at: Surroundings) -> DataFrame:
    df = (
        at.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribePattern", "topic.*")
        .load()
    )
    return df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")


B = "guide, Creating a Kafka Source for Batch Queries: "


@pipeline(B + "subscribe to 1 topic defaults to the earliest and latest offsets", TOPIC1)
def batch_of_one_topic(at: Surroundings) -> DataFrame:
    df = (
        at.spark.read.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "topic1")
        .load()
    )
    return df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")


@pipeline(
    B + "subscribe to multiple topics, specifying explicit Kafka offsets",
    [f"topic1-0-{n}" for n in range(23, 50)] + TOPIC1[60:] + TOPIC2,
)
def batch_with_offsets(at: Surroundings) -> DataFrame:
    df = (
        at.spark.read.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "topic1,topic2")
        .option("startingOffsets", """{"topic1":{"0":23,"1":-2},"topic2":{"0":-2}}""")
        .option("endingOffsets", """{"topic1":{"0":50,"1":-1},"topic2":{"0":-1}}""")
        .load()
    )
    return df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")


@pipeline(B + "subscribe to a pattern, at the earliest and latest offsets", TOPIC1 + TOPIC2)
def batch_of_a_pattern(at: Surroundings) -> DataFrame:
    df = (
        at.spark.read.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribePattern", "topic.*")
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
    )
    return df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")


# ---- the guide: sinks -------------------------------------------------------------------------

S = "guide, Creating a Kafka Sink for Streaming Queries: "


@pipeline(S + "a topic specified in an option", TOPIC1)
def stream_into_a_topic(at: Surroundings) -> StreamingQuery:
    df = topic1(at)
    return (
        df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("topic", at.out)
        .option("checkpointLocation", at.folder)
        .start()
    )


@pipeline(S + "a topic specified in the data", TOPIC1)
def stream_into_the_topics_of_rows(at: Surroundings) -> StreamingQuery:
    df = topic1(at).withColumn("topic", F.lit(at.out))
    return (
        df.selectExpr("topic", "CAST(key AS STRING)", "CAST(value AS STRING)")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("checkpointLocation", at.folder)
        .start()
    )


W = "guide, Writing the output of Batch Queries to Kafka: "


@pipeline(W + "a topic specified in an option", ["a", "b"], Kind.SAVE_MODE, "append")
def batch_into_a_topic(at: Surroundings) -> None:
    df = at.spark.createDataFrame([("k", "a"), ("k", "b")], "key string, value string")
    (
        df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
        .write.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("topic", at.out)
        .save()
    )


@pipeline(W + "a topic specified in the data", ["a", "b"], Kind.SAVE_MODE, "append")
def batch_into_the_topics_of_rows(at: Surroundings) -> None:
    df = at.spark.createDataFrame([(at.out, "a"), (at.out, "b")], "topic string, value string")
    (
        df.selectExpr("topic", "CAST(value AS STRING) key", "CAST(value AS STRING)")
        .write.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .save()
    )


# ---- daily life -------------------------------------------------------------------------------


@pipeline("daily: a batch write with a mode, as tutorials have it", ["a", "b"])
def batch_with_a_mode(at: Surroundings) -> None:
    df = at.spark.createDataFrame([("k", "a"), ("k", "b")], "key string, value string")
    df.write.format("kafka").mode("append").option("kafka.bootstrap.servers", at.servers).option(
        "topic", at.out
    ).save()


@pipeline(
    "programming guide, window operations on event time, with a watermark, over JSON",
    [f"d{d} 12:00 5" for d in range(4)],
)
def windows_over_events(at: Surroundings) -> DataFrame:
    events = (
        at.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "events")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 10)
        .load()
        .select(F.from_json(F.col("value").cast("string"), EVENT).alias("e"))
        .select("e.*")
    )
    return (
        events.withWatermark("at", "10 seconds")
        .groupBy(F.window("at", "1 minute"), "device")
        .count()
        .selectExpr("concat(device, ' ', date_format(window.start, 'HH:mm'), ' ', count) value")
    )


@pipeline("programming guide, stream-static join", ["d1 hall", "d2 roof"] * 10)
def stream_static_join(at: Surroundings) -> DataFrame:
    places = at.spark.createDataFrame(
        [("d1", "hall"), ("d2", "roof")], "device string, place string"
    )
    events = (
        at.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "events")
        .option("startingOffsets", "earliest")
        .load()
        .select(F.from_json(F.col("value").cast("string"), EVENT).alias("e"))
        .select("e.*")
    )
    return events.join(places, "device").selectExpr("concat(device, ' ', place) value")


@pipeline(
    "programming guide, stream-stream join with watermarks",
    [f"topic1-0-{n} topic2-0-{n}" for n in range(20)],
)
def stream_stream_join(at: Surroundings) -> DataFrame:
    def side(topic: str, name: str) -> DataFrame:
        return (
            at.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", at.servers)
            .option("assign", f'{{"{topic}":[0]}}')
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr(f"CAST(value AS STRING) {name}", f"timestamp {name}_at")
            .withWatermark(f"{name}_at", "1 hour")
        )

    left, right = side("topic1", "left"), side("topic2", "right")
    return left.join(right, F.expr("left_at = right_at")).selectExpr(
        "concat(left, ' ', right) value"
    )


@pipeline("programming guide, deduplication with a watermark", [f"d{d}" for d in range(4)])
def deduplication(at: Surroundings) -> DataFrame:
    return (
        at.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "events")
        .option("startingOffsets", "earliest")
        .load()
        .select(F.from_json(F.col("value").cast("string"), EVENT).alias("e"))
        .select("e.*")
        .withWatermark("at", "1 hour")
        .dropDuplicatesWithinWatermark(["device"])
        .selectExpr("device value")
    )


@pipeline("programming guide, foreachBatch that writes to two places", TOPIC1)
def two_places(at: Surroundings) -> None:
    def write(frame: DataFrame, batch: int) -> None:
        frame.persist()
        frame.write.mode("append").parquet(f"{at.folder}/table")
        frame.select("key", "value").write.format("kafka").mode("append").option(
            "kafka.bootstrap.servers", at.servers
        ).option("topic", at.out).save()
        frame.unpersist()

    query = (
        topic1(at)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{at.folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    at.rest(query)


@pipeline(
    "daily: foreachBatch that writes with the default save mode",
    TOPIC1,
    Kind.SAVE_MODE,
    "append",
)
def foreach_batch_without_a_mode(at: Surroundings) -> None:
    def write(frame: DataFrame, batch: int) -> None:
        frame.select("key", "value").write.format("kafka").option(
            "kafka.bootstrap.servers", at.servers
        ).option("topic", at.out).save()

    query = (
        topic1(at)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{at.folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    at.rest(query)


@pipeline("programming guide, output mode complete", [f"d{n}=10" for n in range(4)])
def complete_mode(at: Surroundings) -> StreamingQuery:
    counts = (
        at.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "events")
        .option("startingOffsets", "earliest")
        .load()
        .groupBy(F.get_json_object(F.col("value").cast("string"), "$.device").alias("device"))
        .count()
        .selectExpr("device key", "concat(device, '=', count) value")
    )
    return (
        counts.writeStream.format("kafka")
        .outputMode("complete")
        .option("kafka.bootstrap.servers", at.servers)
        .option("topic", at.out)
        .option("checkpointLocation", at.folder)
        .start()
    )


@pipeline("programming guide, output mode update", [], Kind.UPDATE_MODE, "update")
def update_mode(at: Surroundings) -> StreamingQuery:
    return (
        topic1(at)
        .groupBy("key")
        .count()
        .selectExpr("key", "cast(count as string) value")
        .writeStream.format("kafka")
        .outputMode("update")
        .option("kafka.bootstrap.servers", at.servers)
        .option("topic", at.out)
        .option("checkpointLocation", at.folder)
        .start()
    )


@pipeline("daily: a source with the tuning of a consumer", TOPIC1)
def tuned_source(at: Surroundings) -> DataFrame:
    return (
        at.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "topic1")
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", "50")
        .option("minPartitions", "4")
        .option("groupIdPrefix", "etl")
        .option("kafkaConsumer.pollTimeoutMs", "30000")
        .option("fetchOffset.numRetries", "5")
        .option("kafka.session.timeout.ms", "45000")
        .option("kafka.heartbeat.interval.ms", "3000")
        .option("kafka.max.poll.records", "500")
        .option("kafka.max.poll.interval.ms", "300000")
        .option("kafka.request.timeout.ms", "60000")
        .option("kafka.fetch.max.bytes", "52428800")
        .option("kafka.max.partition.fetch.bytes", "1048576")
        .option("kafka.receive.buffer.bytes", "65536")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.client.id", "etl")
        .load()
    )


@pipeline("daily: a consumer group of its own, for authorization", TOPIC1)
def source_with_a_group(at: Surroundings) -> DataFrame:
    return (
        at.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("kafka.group.id", "my-group")
        .option("kafka.security.protocol", "PLAINTEXT")
        .option("subscribe", "topic1")
        .option("startingOffsets", "earliest")
        .load()
    )


@pipeline("daily: a sink with the tuning of a producer", TOPIC1)
def tuned_sink(at: Surroundings) -> StreamingQuery:
    return (
        topic1(at)
        .select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("topic", at.out)
        .option("kafka.acks", "1")
        .option("kafka.retries", "3")
        .option("kafka.batch.size", "65536")
        .option("kafka.linger.ms", "50")
        .option("kafka.buffer.memory", "67108864")
        .option("kafka.compression.type", "lz4")
        .option("kafka.max.request.size", "1048576")
        .option("kafka.max.in.flight.requests.per.connection", "5")
        .option("kafka.delivery.timeout.ms", "180000")
        .option("kafka.request.timeout.ms", "60000")
        .option("includeHeaders", "true")
        .option("checkpointLocation", at.folder)
        .start()
    )


@pipeline("daily: one dictionary of options for both ends", TOPIC1)
def shared_options(at: Surroundings) -> None:
    kafka = {
        "kafka.bootstrap.servers": at.servers,
        "subscribe": "topic1",
        "topic": at.out,
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
    }
    df = at.spark.readStream.format("kafka").options(**kafka).load()
    query = (
        df.select("key", "value")
        .writeStream.format("kafka")
        .options(**kafka)
        .option("checkpointLocation", at.folder)
        .trigger(availableNow=True)
        .start()
    )
    at.rest(query)


@pipeline("daily: an ETL job that goes on at its checkpoint, into Parquet by date", TOPIC1)
def etl_in_two_runs(at: Surroundings) -> DataFrame:
    for _ in range(2):
        query = (
            at.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", at.servers)
            .option("subscribe", "topic1")
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("CAST(value AS STRING) value", "to_date(timestamp) day")
            .writeStream.format("parquet")
            .partitionBy("day")
            .option("path", f"{at.folder}/table")
            .option("checkpointLocation", f"{at.folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        at.rest(query)
    return at.spark.read.parquet(f"{at.folder}/table").select("value")


@pipeline(
    "daily: a batch of a day, by time",
    [f"topic1-{p}-{n}" for p in (0, 1) for n in range(10, 30)],
)
def batch_by_time(at: Surroundings) -> DataFrame:
    return (
        at.spark.read.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("subscribe", "topic1")
        .option("startingTimestamp", NOON_MS + 10_000)
        .option("endingTimestamp", NOON_MS + 30_000)
        .load()
    )


@pipeline("daily: a view in SQL", TOPIC2)
def view_in_sql(at: Surroundings) -> DataFrame:
    at.spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW topic2 USING kafka OPTIONS "
        f"('kafka.bootstrap.servers' '{at.servers}', 'subscribe' 'topic2')"
    )
    return at.spark.sql("SELECT CAST(value AS STRING) value FROM topic2")


@pipeline("daily: pandas between source and sink", [value.upper() for value in TOPIC1])
def pandas_in_between(at: Surroundings) -> StreamingQuery:
    def upper(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame.assign(value=frame["value"].str.upper())

    rows = topic1(at).selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    return (
        rows.mapInPandas(upper, "key string, value string")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("topic", at.out)
        .option("checkpointLocation", at.folder)
        .start()
    )


@pipeline("daily: rows with headers and partitions", ["a", "b", "c"])
def headers_and_partitions(at: Surroundings) -> None:
    df = at.spark.sql(
        "SELECT value, 2 partition, array(named_struct('key', 'h', 'value', X'01')) headers "
        "FROM VALUES ('a'), ('b'), ('c') AS t(value)"
    )
    df.write.format("kafka").mode("append").option("kafka.bootstrap.servers", at.servers).option(
        "topic", at.out
    ).save()


LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required;"


@pipeline(
    "daily: a hosted cluster with SASL over TLS",
    [],
    Kind.REFUSED,
    "without TLS and without a password",
)
def hosted_cluster(at: Surroundings) -> DataFrame:
    return (
        at.spark.read.format("kafka")
        .option("kafka.bootstrap.servers", at.servers)
        .option("kafka.security.protocol", "SASL_SSL")
        .option("kafka.sasl.mechanism", "PLAIN")
        .option("kafka.sasl.jaas.config", LOGIN)
        .option("subscribe", "topic1")
        .load()
    )
