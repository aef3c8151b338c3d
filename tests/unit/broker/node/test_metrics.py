"""A broker's page: what replicas show, in slices, and what it says while it starts and stops."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pylog.errors import ThrottlingQuotaExceeded
from pylog.model import BrokerId, PartitionEpoch, TopicPartition
from pylog.records.batch import read_header
from pylog_broker.api.producer_id_quota import ProducerIdQuota
from pylog_broker.config import BrokerConfig
from pylog_broker.metrics.counters import Histogram, RequestCounters
from pylog_broker.node import metrics
from pylog_broker.node.metrics import BrokerMetrics, BrokerParts
from pylog_broker.node.skew import SkewWatch
from pylog_broker.node.upkeep import look_for_skew
from tests.fakes.broker_group import BrokerGroup
from tests.fakes.logs import batch_of

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[BrokerGroup]:
    running = BrokerGroup(tmp_path)
    yield running
    for broker in list(running.managers):
        running.stop(broker)


def parts_of(group: BrokerGroup, broker: BrokerId) -> BrokerParts:
    parts = BrokerParts(broker, "c", RequestCounters())
    engine: Any = SimpleNamespace(
        manager=group.managers[broker],
        replication_bytes_in=7,
        cold_reads=4,
        skew=SkewWatch(),
        flush_seconds=Histogram(),
    )
    membership: Any = SimpleNamespace(image=group.images[broker], broker_epoch=3, fenced=False)
    parts.engine, parts.membership = cast(Any, engine), cast(Any, membership)
    return parts


def scrape(parts: BrokerParts) -> tuple[Samples, int]:
    """The page's samples, and how often it gave the loop a turn."""

    async def run() -> tuple[str, int]:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        text = await BrokerMetrics(parts).page()
        counting.cancel()
        return text, turns

    text, turns = asyncio.run(run())
    families = text_string_to_metric_families(text)
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    return samples, turns


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def test_a_leader_shows_its_partition_and_what_its_followers_lack(group: BrokerGroup) -> None:
    group.create_topic()
    group.produce(1, b"a", b"b")
    group.advance(1_000)
    group.cut_links = {(THREE, ONE)}
    group.produce(1, b"c")
    group.advance(100)
    samples, _ = scrape(parts_of(group, ONE))
    at = {"topic": "t", "partition": "0"}
    end = group.state(1).log_end_offset
    assert value(samples, "pylog_log_end_offset", **at) == end
    assert value(samples, "pylog_high_watermark", **at) == group.state(1).high_watermark
    assert value(samples, "pylog_log_segments", **at) == 1
    assert value(samples, "pylog_replica_lag_records", **at, replica="2") == 0
    lag = value(samples, "pylog_replica_lag_records", **at, replica="3")
    assert lag == value(samples, "pylog_replica_max_lag_records") == 1
    assert value(samples, "pylog_leaders") == 1
    assert value(samples, "pylog_partition_isr_size", **at) == 3
    followers, _ = scrape(parts_of(group, TWO))
    assert value(followers, "pylog_leaders") == 0
    assert value(followers, "pylog_log_end_offset", **at) == end
    assert ("pylog_partition_isr_size", frozenset(at.items())) not in followers


def test_log_directories_show_their_size(group: BrokerGroup) -> None:
    group.create_topic()
    group.produce(1, b"a", b"b")
    parts = parts_of(group, ONE)
    parts.logs = group.logs[ONE]
    samples, _ = scrape(parts)
    (manager,) = group.logs[ONE].live
    size = value(samples, "pylog_log_directory_size_bytes", directory=manager.directory)
    assert size == manager.logs[0].size > 0
    assert value(samples, "pylog_offline_log_directories") == 0
    free = value(samples, "pylog_disk_free_bytes", directory=manager.directory)
    assert 0 < free <= value(samples, "pylog_disk_total_bytes", directory=manager.directory)
    assert value(samples, "pylog_cold_reads_total") == 4
    assert value(samples, "pylog_log_flush_seconds_count") == 0
    assert value(samples, "pylog_tail_cache_bytes") > 0


def test_a_partition_that_gets_nearly_all_bytes_is_named(group: BrokerGroup) -> None:
    group.create_topic((1,), partitions=3)
    group.run()
    parts = parts_of(group, ONE)
    engine: Any = parts.engine
    assert look_for_skew(engine) == []
    samples, _ = scrape(parts)
    assert value(samples, "pylog_topic_skew", topic="t", partition="") == 1.0
    for number in range(20):
        group.produce(1, bytes(600_000), name=TopicPartition("t", min(number, 2)))
    (told,) = look_for_skew(engine)
    assert str(told).startswith("t-2 got 108")
    assert told.bytes / told.all_bytes == pytest.approx(0.9, abs=0.001)
    samples, _ = scrape(parts)
    skew = value(samples, "pylog_topic_skew", topic="t", partition="2")
    assert skew == pytest.approx(2.7, abs=0.01)


def test_errors_of_the_disk_are_counted_by_kind(group: BrokerGroup) -> None:
    group.create_topic()
    group.run()
    parts = parts_of(group, ONE)
    parts.logs = group.logs[ONE]
    log = group.logs[ONE].logs[0]
    for number, times in ((errno.ENOSPC, 3), (errno.EMFILE, 2), (errno.EIO, 1)):
        for _ in range(times):
            log.start_was_refused(OSError(number, "refused"))
    samples, _ = scrape(parts)
    kinds = {"no_room": 3, "of_the_moment": 2, "failed": 1}
    found = {kind: value(samples, "pylog_disk_errors_total", kind=kind) for kind in kinds}
    assert found == kinds


def test_a_leader_shows_the_sessions_of_its_followers(group: BrokerGroup) -> None:
    group.create_topic()
    group.advance(100)
    samples, _ = scrape(parts_of(group, ONE))
    assert value(samples, "pylog_fetch_sessions") == 2


def test_producer_ids_that_are_known_and_that_were_refused(group: BrokerGroup) -> None:
    group.create_topic()
    parts = parts_of(group, ONE)
    parts.logs = group.logs[ONE]
    (log,) = group.logs[ONE].logs
    header = read_header(batch_of(b"v", producer=(0, 0, 0)))
    for pid in range(3):
        log.producers.apply(header._replace(producer_id=pid), 0)
    parts.producer_id_quota = ProducerIdQuota(lambda: BrokerConfig(max_producer_ids_per_ip=1))
    parts.producer_id_quota.admit(0, "10.0.0.1", "", 0)
    with pytest.raises(ThrottlingQuotaExceeded):
        parts.producer_id_quota.admit(0, "10.0.0.1", "", 0)
    samples, _ = scrape(parts)
    assert value(samples, "pylog_producer_ids") == 3
    assert value(samples, "pylog_producer_ids_partition_max") == 3
    refused = {
        limit: value(samples, "pylog_producer_ids_refused_total", limit=limit)
        for limit in ("partition", "broker", "ip", "client.id")
    }
    assert refused == {"partition": 0, "broker": 0, "ip": 1, "client.id": 0}


def test_under_replicated_and_under_min_isr(group: BrokerGroup) -> None:
    group.create_topic()
    group.set_isr(1)
    group.cut_links = {(TWO, ONE), (THREE, ONE)}
    group.tell()
    samples, _ = scrape(parts_of(group, ONE))
    assert value(samples, "pylog_under_replicated_partitions") == 1
    leading = group.managers[ONE].partitions()[0].leading
    assert leading is not None
    assert value(samples, "pylog_under_min_isr_partitions") == leading.is_under_min_isr
    assert value(samples, "pylog_at_min_isr_partitions") == (len(leading.isr) == leading.min_isr)


def test_an_offline_replica_counts_and_hides_nothing_else(group: BrokerGroup) -> None:
    group.create_topic()
    partition = group.managers[ONE].partitions()[0]
    partition.retire(None, "its disk is gone")
    samples, _ = scrape(parts_of(group, ONE))
    assert value(samples, "pylog_offline_replicas") == 1
    assert value(samples, "pylog_partitions") == 1
    assert value(samples, "pylog_leaders") == 0


def test_many_replicas_are_written_in_slices_and_shown_up_to_a_limit(
    group: BrokerGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group.create_topic()
    partition = group.managers[ONE].partitions()[0]
    monkeypatch.setattr(metrics, "SLICE", 10)
    monkeypatch.setattr(metrics, "DETAIL_MAX", 50)
    copies = []
    for number in range(200):
        copy = SimpleNamespace(
            **{
                name: getattr(partition, name)
                for name in ("offline", "has_log", "log", "high_watermark", "leading",
                             "leader_epoch", "isr", "replicas", "is_reassigning")
            },
            topic_partition=TopicPartition("t", number),
        )  # fmt: skip
        copies.append(copy)
    monkeypatch.setattr(group.managers[ONE], "partitions", lambda: copies)
    samples, turns = scrape(parts_of(group, ONE))
    assert turns >= 20
    assert value(samples, "pylog_partitions") == 200
    assert value(samples, "pylog_leaders") == 200
    assert value(samples, "pylog_partitions_without_detail") == 150
    assert len([name for name, _ in samples if name == "pylog_log_end_offset"]) == 50


def test_readiness_follows_the_life_of_a_broker(group: BrokerGroup) -> None:
    parts = BrokerParts(1, "c", RequestCounters())

    async def run() -> list[tuple[bool, str]]:
        source = BrokerMetrics(parts)
        said = []

        async def look() -> None:
            health = await source.ready()
            said.append((health.well, health.why))

        await look()
        membership: Any = SimpleNamespace(broker_epoch=-1, fenced=True)
        parts.membership = membership
        await look()
        membership.broker_epoch = 4
        await look()
        membership.fenced = False
        await look()
        parts.stopping = "asked to stop"
        await look()
        assert (await source.live()).well
        parts.fault = "the disk is gone"
        assert not (await source.live()).well
        assert await source.targets() is None
        return said

    assert asyncio.run(run()) == [
        (False, "starting: recovering the logs"),
        (False, "starting: not registered with the controller"),
        (False, "fenced by the controller"),
        (True, "broker 1 serves, epoch 4"),
        (False, "stopping: asked to stop"),
    ]


def test_a_partition_that_moves_is_not_under_replicated(group: BrokerGroup) -> None:
    group.create_topic((1, 2))
    group.cut_links = {(THREE, ONE)}
    old = group.record()
    group.append(
        replace(
            old,
            replicas=(THREE, *old.replicas),
            adding_replicas=(THREE,),
            removing_replicas=old.replicas,
            partition_epoch=PartitionEpoch(old.partition_epoch + 1),
        )
    )
    group.tell()
    samples, _ = scrape(parts_of(group, ONE))
    assert value(samples, "pylog_reassigning_partitions") == 1
    assert value(samples, "pylog_under_replicated_partitions") == 0
