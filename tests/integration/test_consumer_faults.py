"""The errors of consumers when a log is truncated, a topic made anew, or a segment rots."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pylog import (
    AdminClient,
    Consumer,
    LocalCluster,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    errors,
)
from pylog.clock import SYSTEM_CLOCK
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

TP = TopicPartition("t", 0)
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, config={"replica.lag.time.max.ms": "1000"}) as running:
        yield running


def send(cluster: LocalCluster, values: range, topic: str = "t") -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, b"%d" % value, partition=0)
        producer.flush(30)


def read(consumer: Consumer, count: int) -> list[bytes]:
    got: list[bytes] = []
    deadline = SYSTEM_CLOCK.monotonic_ms() + 20_000
    while len(got) < count and SYSTEM_CLOCK.monotonic_ms() < deadline:
        got += [record.value for record in consumer.poll(1)]
    return got


def test_a_log_that_was_cut_below_the_position_is_told(cluster: LocalCluster) -> None:
    """KIP-320: an unclean election brings a shorter log, which then grows past the position."""
    where = {"bootstrap_servers": cluster.bootstrap_servers}
    with (
        AdminClient(**where) as admin,
        Consumer(**where, auto_offset_reset="none") as strict,
        Consumer(**where, auto_offset_reset="earliest") as lenient,
    ):
        admin.create_topics(NewTopic("t", 1, 2, config=UNCLEAN))

        def partition() -> tuple[int | None, list[int]]:
            described = admin.describe_topics(["t"])["t"].partitions[0]
            return described.leader, list(described.isr)

        first, _ = partition()
        assert first is not None
        (other,) = {1, 2} - {first}
        eventually(30, lambda: set(partition()[1]) == {1, 2}, "brokers 1 and 2 are in sync")
        send(cluster, range(10))
        cluster.kill(other)
        eventually(30, lambda: partition()[1] == [first], "the first is in sync alone")
        send(cluster, range(10, 15))
        for consumer in (strict, lenient):
            consumer.assign(TP)
            consumer.seek(TP, 0)
            assert len(read(consumer, 15)) == 15
        cluster.kill(first)
        cluster.start(other)
        eventually(30, lambda: partition()[0] == other, "the other leads")
        send(cluster, range(100, 120))
        with pytest.raises(errors.LogTruncated, match="t-0: the log was cut at offset 10"):
            read(strict, 1)
        assert read(lenient, 20) == [b"%d" % value for value in range(100, 120)]
        strict.seek(TP, OffsetAndMetadata(12, leader_epoch=0))
        with pytest.raises(errors.LogTruncated, match="t-0: the log was cut at offset 10"):
            read(strict, 1)
        strict.seek(TP, 10)
        assert read(strict, 20)[0] == b"100"


def test_a_topic_that_is_made_anew_is_read_from_its_start(cluster: LocalCluster) -> None:
    where = {"bootstrap_servers": cluster.bootstrap_servers}
    with AdminClient(**where) as admin, Consumer("t", **where, metadata_max_age_ms=200) as consumer:
        admin.create_topics(NewTopic("t"))
        consumer.seek_to_beginning()
        send(cluster, range(5))
        assert len(read(consumer, 5)) == 5
        admin.delete_topics(["t"])
        admin.create_topics(NewTopic("t"))
        send(cluster, range(50, 53))
        assert read(consumer, 3) == [b"50", b"51", b"52"]
