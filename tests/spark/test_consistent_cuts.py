"""Whole transactions in the batches of a real query, over real brokers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pylog import AdminClient, LocalCluster, NewTopic, Producer
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.integration]

PLACES = [("orders", 0), ("orders", 1), ("orders", 2), ("totals", 0)]
TRANSACTIONS = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, config={"transaction.state.log.num.partitions": "4"}) as running:
        with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", 3, 1), NewTopic("totals", 1, 1)])
        yield running


class Batches:
    """The values of each batch of a query's runs, by the batch's number."""

    def __init__(self) -> None:
        self.values: dict[int, Counter[str]] = {}

    def __call__(self, frame: DataFrame, number: int) -> None:
        rows = frame.selectExpr("cast(value as string) value").collect()
        self.values[number] = Counter(row.value for row in rows)

    def total(self) -> Counter[str]:
        return sum(self.values.values(), Counter())


def source(spark: SparkSession, cluster: LocalCluster, **options: str) -> DataFrame:
    given = {
        "pylog.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "orders,totals",
        "startingOffsets": "earliest",
        **options,
    }
    return spark.readStream.format("pylog").options(**given).load()


def available_now(frame: DataFrame, batches: Batches, checkpoint: Path) -> None:
    writer = frame.writeStream.foreachBatch(batches).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)


def write(producer: Producer, value: str) -> None:
    producer.begin_transaction()
    for topic, partition in PLACES:
        producer.send(topic, value.encode(), partition=partition)
    producer.commit_transaction()


def test_a_batch_has_a_transaction_whole_or_not_at_all(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    servers = cluster.bootstrap_servers
    cut = {"pylog.consistent.cut": "true"}
    with (
        Producer(bootstrap_servers=servers, transactional_id="holder") as holder,
        Producer(bootstrap_servers=servers, transactional_id="writer") as writer,
    ):
        for producer in (holder, writer):
            producer.init_transactions()
        holder.begin_transaction()
        holder.send("totals", b"open", partition=0)
        holder.flush()
        write(writer, "all")  # readers of totals stop before it

        plain, whole = Batches(), Batches()

        def half_of_it() -> bool:
            checkpoint = tmp_path / f"plain-{len(plain.values)}"
            available_now(source(spark, cluster), plain, checkpoint)
            return plain.values[0] == {"all": 3}

        eventually(30, half_of_it, "a reader of committed records sees three of the four")
        available_now(source(spark, cluster, **cut), whole, tmp_path / "whole")
        assert whole.total() == {}
        holder.abort_transaction()
        written = {"all": 4}

        def all_of_it() -> bool:
            available_now(source(spark, cluster, **cut), whole, tmp_path / "whole")
            return whole.total() == written

        eventually(30, all_of_it, "all four records are read")

        # a query that runs while transactions are written, in batches of a few
        def write_some() -> None:
            for number in range(TRANSACTIONS):
                write(writer, str(number))

        thread = threading.Thread(target=write_some)
        frame = source(spark, cluster, maxOffsetsPerTrigger="30", **cut)
        query = (
            frame.writeStream.foreachBatch(whole)
            .option("checkpointLocation", str(tmp_path / "whole"))
            .start()
        )
        thread.start()
        written |= {str(number): 4 for number in range(TRANSACTIONS)}
        eventually(60, lambda: whole.total() == written, "all is read")
        thread.join(30)
        query.stop()
    batches = [batch for batch in whole.values.values() if batch]
    assert len(batches) > 3
    assert all({*batch.values()} == {4} for batch in batches)
