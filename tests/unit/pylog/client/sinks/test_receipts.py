"""Receipts of the batches of a query."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import pylog
from pylog import errors
from pylog.client.admin.sink_types import OverwrittenTopic, WrittenRange
from pylog.client.sinks.receipts import WriteReceipt
from pylog.rpc.v1 import sink_pb2
from tests.fakes.fake_cluster import FakeCluster

QUERY = "8f3b"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """The query's sinks `a` and `b` have written their batch 3; `c` has written none yet."""
    with FakeCluster() as running:
        for sink_id in ("b", "a"):
            decided(running, QUERY, sink_id)
        decided(running, "other", "a")
        running.sinks.sink(sink_pb2.SinkKey(query_id=QUERY, sink_id="c"))
        yield running


def decided(cluster: FakeCluster, query_id: str, sink_id: str) -> None:
    sink = cluster.sinks.sink(sink_pb2.SinkKey(query_id=query_id, sink_id=sink_id))
    sink.decision = sink_pb2.SinkDecision(
        batch_id=3, row_count=5, decided_ms=100, expires_ms=-1,
        receipt=[sink_pb2.SinkRange(topic="t", partition=1, first_offset=3, last_offset=7)],
        overwritten=[sink_pb2.OverwrittenTopic(topic="t", topic_id="id", starts=[0, 3])],
    )  # fmt: skip


def receipts(cluster: FakeCluster, given: Any) -> list[WriteReceipt]:
    return pylog.write_receipts(given, bootstrap_servers=cluster.bootstrap_servers)


@pytest.mark.parametrize(
    "given",
    [
        QUERY,
        SimpleNamespace(id=QUERY, lastProgress=None),
        {"id": QUERY, "batchId": 3},
        SimpleNamespace(id=QUERY, batchId=3),
    ],
)
def test_a_query_and_a_progress_have_receipts(cluster: FakeCluster, given: Any) -> None:
    ranges = (WrittenRange("t", 1, 3, 7),)
    overwritten = (OverwrittenTopic("t", "id", (0, 3)),)
    assert receipts(cluster, given) == [
        WriteReceipt(QUERY, sink_id, 3, 5, 100, ranges, overwritten) for sink_id in ("a", "b")
    ]


def test_a_batch_without_rows_has_none(cluster: FakeCluster) -> None:
    assert receipts(cluster, {"id": QUERY, "batchId": 4}) == []
    assert receipts(cluster, "never seen") == []


def test_the_last_receipt_alone_is_kept(cluster: FakeCluster) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"batch 2 of query 8f3b: .* which is 3"):
        receipts(cluster, {"id": QUERY, "batchId": 2})


@pytest.mark.parametrize("given", [None, "", 5, {}, {"id": QUERY, "batchId": "3"}, object()])
def test_what_is_no_query_is_refused(cluster: FakeCluster, given: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match="give a StreamingQuery, one of its progresses"):
        receipts(cluster, given)


def test_servers_may_stand_in_the_environment(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYLOG_BOOTSTRAP_SERVERS", raising=False)
    with pytest.raises(errors.InvalidRequest, match="give bootstrap_servers"):
        pylog.write_receipts(QUERY)
    monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", ",".join(cluster.bootstrap_servers))
    assert len(pylog.write_receipts(QUERY)) == 2
