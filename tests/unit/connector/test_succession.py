"""A query that writes where another one has written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pylog.client.admin.sink_types import DecidedBatch, SinkListing, WrittenRange
from pylog.client.sinks.sink_types import SinkKey
from pylog_connector import staging
from pylog_connector.clients import drop_staging_producer
from pylog_connector.deciding import decide
from pylog_connector.errors import SinkTaken
from pylog_connector.options import SinkOptions, sink_options
from pylog_connector.sink_identity import SinkBatchId
from pylog_connector.staging import stage_batches
from pylog_connector.succession import check_may_follow, predecessor
from tests.fakes.fake_cluster import FakeCluster

OLD, NEW, THIRD = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "abc")


def options(**given: str) -> SinkOptions:
    return sink_options({"pylog.bootstrap.servers": "x:1", "topic": "t", **given})


def listing(query: str, *topics: str, at_ms: int = 1, is_decided: bool = True) -> SinkListing:
    receipt = tuple(WrittenRange(topic, 0, 0, 1) for topic in topics)
    last = DecidedBatch(7, 0, 1, 1, "", at_ms, None, receipt) if is_decided else None
    return SinkListing(query, "mine", 1, "run", last)


def found(*listed: SinkListing, query: str = NEW, **given: str) -> str | None:
    batch = SinkBatchId(SinkKey(query, "mine"), "run", 0)
    before = predecessor(batch, options(**given), listed)
    return None if before is None else before.query_id


def test_the_query_that_wrote_last_comes_before() -> None:
    assert found() is None
    assert found(listing(OLD, "t")) == OLD
    assert found(listing(OLD, "t", at_ms=5), listing(THIRD, "t", at_ms=3)) == OLD
    assert found(listing(OLD, "u"), listing(THIRD, "u", "t")) == THIRD, "to the same topic"
    assert found(listing(OLD)) == OLD, "nobody knows to which topic"
    assert found(listing(OLD, "t", is_decided=False)) is None
    assert found(listing("job:1", "t"), listing("key:a", "t")) is None, "they do not come back"


def test_a_query_that_has_written_itself_goes_on() -> None:
    assert found(listing(OLD, "t", at_ms=9), listing(NEW, "t", at_ms=1)) is None
    assert found(listing(OLD, "t"), listing(NEW, is_decided=False)) == OLD


def test_a_query_in_whose_place_another_one_has_gone_on_comes_behind_it() -> None:
    later = listing(NEW, "t", at_ms=5)
    assert found(listing(OLD, "t", at_ms=3), later, query=OLD, sinkId="mine") == NEW
    assert found(listing(OLD, "t", at_ms=3), later, query=NEW, sinkId="mine") is None
    assert found(listing(OLD, "t", at_ms=3), later, query=OLD) is None, "they share a topic"
    other = listing(NEW, "u", at_ms=5)
    assert found(listing(OLD, "t", at_ms=3), other, query=OLD, sinkId="mine") is None
    stale = listing(OLD, "t", at_ms=3)  # of a coordinator that was deposed
    assert found(listing(OLD, "t", at_ms=9), later, stale, query=OLD, sinkId="mine") is None


def test_a_sink_id_is_taken_until_a_takeover_is_meant() -> None:
    before = listing(OLD, "t")
    with pytest.raises(SinkTaken, match=rf"sinkId='mine': query {OLD} .*batch 7 at 1970.*takeover"):
        check_may_follow(before, options(sinkId="mine"))
    told = check_may_follow(before, options(sinkId="mine", **{"pylog.sink.takeover": "true"}))
    assert told == check_may_follow(before, options())
    assert f"query {OLD} has written there last" in told


# ---- a task asks ---------------------------------------------------------------------------------


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    monkeypatch.setattr(staging, "_known_runs", set())
    with FakeCluster(2) as running:
        running.create_topic("t")
        yield running


def write(cluster: FakeCluster, query: str, number: int = 0, run: str = "run", **given: str) -> Any:
    """The decision about a batch of one row."""
    servers = {"pylog.bootstrap.servers": ",".join(cluster.bootstrap_servers), "topic": "t"}
    to = sink_options({**servers, **given})
    batch = SinkBatchId(SinkKey(query, to.sink_id or "t"), run, number)
    try:
        rows = [pa.record_batch({"value": ["a"]})]
        return decide([stage_batches(rows, to, ["value"], batch, 0, number)], to)
    finally:
        drop_staging_producer(to)


def test_a_new_query_is_refused_before_it_writes(cluster: FakeCluster) -> None:
    write(cluster, OLD, sinkId="mine")
    produced = len(cluster.produce_requests)
    for _ in range(2):
        with pytest.raises(SinkTaken, match=OLD):
            write(cluster, NEW, sinkId="mine")
    assert len(cluster.produce_requests) == produced
    write(cluster, OLD, 1, sinkId="mine")
    write(cluster, NEW, sinkId="other")
    write(cluster, NEW, sinkId="mine", **{"pylog.sink.takeover": "true"})
    write(cluster, NEW, 1, sinkId="mine")
    with pytest.raises(SinkTaken, match="has written there last"):
        write(cluster, THIRD, sinkId="mine")


def test_an_old_query_that_is_started_again_is_refused(cluster: FakeCluster) -> None:
    takeover = {"pylog.sink.takeover": "true"}
    write(cluster, OLD, sinkId="mine")
    write(cluster, NEW, sinkId="mine", **takeover)
    produced = len(cluster.produce_requests)
    with pytest.raises(SinkTaken, match=NEW):
        write(cluster, OLD, 1, run="again", sinkId="mine")
    assert len(cluster.produce_requests) == produced
    write(cluster, NEW, 1, run="again", sinkId="mine")
    write(cluster, OLD, 1, run="third", sinkId="mine", **takeover)
    with pytest.raises(SinkTaken, match=OLD):
        write(cluster, NEW, 2, run="third", sinkId="mine")


def test_without_a_sink_id_a_new_query_is_warned(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        write(cluster, OLD)
        write(cluster, "job:1")
        assert not caplog.records
        write(cluster, NEW)
    assert f"query {OLD} has written there last" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        write(cluster, NEW, 1)
    assert not caplog.records
