"""Attempts of tasks against real servers in this process, and a dumb coordinator of their sinks."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pylog import errors
from pylog.client.consumer.consumer import Consumer
from pylog.client.sinks import staging_producer
from pylog.client.sinks.sink_decider import BrokersAway, SinkDecider
from pylog.client.sinks.sink_types import SinkAttempt, SinkBatch, SinkKey, SinkRange
from pylog.client.sinks.staging_producer import Prepared, StagingProducer
from pylog.model import TopicPartition
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.waiting import eventually

SINK = SinkKey("q", "s")
PLACED = "txn:__sink/q/s/0"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        running.create_topic("one")
        yield running


@pytest.fixture
def producer(cluster: FakeCluster) -> Iterator[StagingProducer]:
    with make(cluster) as made:
        yield made


def make(cluster: FakeCluster, **config: Any) -> StagingProducer:
    given = {"linger_ms": 20, "max_block_ms": 5_000, "retry_backoff_ms": 10, **config}
    return StagingProducer(bootstrap_servers=cluster.bootstrap_servers, **given)


def attempt(batch: int = 0, task: int = 0, number: int = 0, run: str = "r") -> SinkAttempt:
    return SinkAttempt(SINK, run, batch, task, number)


def rows(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([v.encode() for v in values], pa.binary())})


def staged(producer: StagingProducer, values: str, batch: int = 0, number: int = 0) -> Prepared:
    assert producer.begin_attempt(attempt(batch, 0, number)) is None
    producer.send_arrow("one", rows(*values))
    return producer.prepare_attempt(900_000)


def batch_of(*prepared: Prepared, batch: int = 0, run: str = "r") -> SinkBatch:
    members = tuple(each.member for each in prepared)
    ranges = tuple(one for each in prepared for one in each.ranges)
    return SinkBatch(SINK, run, batch, members, 3, 17, ranges)


def decider(prepared: Prepared) -> SinkDecider:
    return SinkDecider(prepared.coordinator, "driver", 5_000)


def committed(cluster: FakeCluster) -> str:
    """The values that readers of committed records see now."""
    found = ""
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        tp = TopicPartition("one", 0)
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        end = consumer.end_offsets([tp])[tp]
        while consumer.position(tp) < end:
            found += "".join(record.value.decode() for record in consumer.poll(1))
    return found


def test_a_batch_is_seen_when_it_is_decided(
    cluster: FakeCluster, producer: StagingProducer
) -> None:
    prepared = staged(producer, "abc")
    assert prepared.ranges == (SinkRange("one", 0, 0, 2),)
    assert committed(cluster) == ""
    made, is_new = decider(prepared).decide(batch_of(prepared))
    assert (made.batch_id, made.row_count, made.checksum, is_new) == (0, 3, 17, True)
    assert made.receipt == prepared.ranges
    assert committed(cluster) == "abc"
    assert decider(prepared).decide(batch_of(prepared)) == (made, False)
    assert cluster.sinks.keep_ms == [-1]


def test_ids_return_and_an_attempt_that_is_not_named_is_aborted(
    cluster: FakeCluster, producer: StagingProducer
) -> None:
    for batch, values in enumerate(("ab", "cd", "ef")):
        with make(cluster) as loser:
            assert loser.begin_attempt(attempt(batch, 0, 2 * batch)) is None
            loser.send_arrow("one", rows("x", "y"))
            loser.flush()
            prepared = staged(producer, values, batch, 2 * batch + 1)
            decider(prepared).decide(batch_of(prepared, batch=batch))
    assert committed(cluster) == "abcdef"
    assert cluster.sinks.sinks["q", "s"].made == 2


def test_closing_aborts_what_is_not_prepared(
    cluster: FakeCluster, producer: StagingProducer
) -> None:
    prepared = staged(producer, "abc")
    with make(cluster) as given_up:
        assert given_up.begin_attempt(attempt(0, 1, 1)) is None
        given_up.send_arrow("one", rows("x"))
        given_up.flush()
    assert list(cluster.sinks.sinks["q", "s"].tasks) == [prepared.member.transactional_id]
    decider(prepared).decide(batch_of(prepared))
    assert committed(cluster) == "abc"


def test_closing_waits_for_no_coordinator_for_long(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_producer, "ABORT_MS_MAX", 50)
    with make(cluster) as given_up:
        assert given_up.begin_attempt(attempt()) is None
        cluster.transactions.faults["AbortSinkBatch"] = deque(
            [errors.CoordinatorLoadInProgress.code] * 1_000
        )
    assert "not aborted yet" in caplog.text


def test_a_batch_that_counts_already_is_not_written_again(
    cluster: FakeCluster, producer: StagingProducer
) -> None:
    prepared = staged(producer, "abc")
    decider(prepared).decide(batch_of(prepared))
    again = producer.begin_attempt(attempt(0, 0, 7, run="r2"))
    assert again is not None
    assert again.row_count == 3
    assert producer.is_between_attempts
    with pytest.raises(errors.SinkBatchDecided):
        producer.begin_attempt(attempt(0, 0, 8))


def test_an_older_run_is_refused_and_what_it_left_is_aborted(cluster: FakeCluster) -> None:
    with make(cluster) as old, make(cluster) as new:
        first = staged(old, "old")
        assert new.begin_attempt(attempt(run="r2")) is None
        new.send_arrow("one", rows("n", "e", "w"))
        second = new.prepare_attempt(1)
        with pytest.raises(errors.SinkRunSuperseded):
            decider(first).decide(batch_of(first))
        with pytest.raises(errors.SinkRunSuperseded):
            old.begin_attempt(attempt(0, 1, 1))
        decider(second).decide(batch_of(second, run="r2"))
    assert committed(cluster) == "new"


def test_it_is_renewed_while_it_writes_and_not_after(
    cluster: FakeCluster, producer: StagingProducer
) -> None:
    cluster.sinks.lease_ms = 30
    asked = cluster.transactions.asked
    assert producer.begin_attempt(attempt()) is None
    eventually(30, lambda: asked.count("RenewSinkTask") > 2, "it is renewed")
    producer.prepare_attempt(1_000)
    assert cluster.sinks.sinks["q", "s"].prepared == {"__sink/q/s/0": 1_000}
    assert producer._renewing is None


def test_one_that_was_aborted_meanwhile_learns_it(
    cluster: FakeCluster, producer: StagingProducer
) -> None:
    cluster.sinks.lease_ms = 30
    assert producer.begin_attempt(attempt()) is None
    with cluster.transactions.lock:
        cluster.sinks.end(cluster.sinks.sinks["q", "s"], "__sink/q/s/0", committed=False)
    eventually(30, lambda: producer._fault is not None, "it has heard of it")
    with pytest.raises(errors.InvalidTxnState, match="aborted"):
        producer.check_attempt()
    with pytest.raises(errors.InvalidTxnState, match="aborted"):
        producer.prepare_attempt(1_000)
    assert not producer.is_between_attempts


def test_what_it_still_sends_then_is_fenced(
    cluster: FakeCluster, producer: StagingProducer
) -> None:
    assert producer.begin_attempt(attempt()) is None
    with cluster.transactions.lock:
        cluster.sinks.end(cluster.sinks.sinks["q", "s"], "__sink/q/s/0", committed=False)
    sent = producer.send_arrow("one", rows("late"))
    with pytest.raises(errors.ProducerFenced):
        producer.prepare_attempt(1_000)
    assert isinstance(sent.exception(), errors.ProducerFenced)
    assert committed(cluster) == ""


@pytest.mark.parametrize("request_name", ["BeginSinkTask", "PrepareSinkTask", "DecideSinkBatch"])
def test_lost_answers_and_coordinators_that_load_are_asked_again(
    cluster: FakeCluster, producer: StagingProducer, request_name: str
) -> None:
    cluster.transactions.faults[request_name] = deque([errors.CoordinatorLoadInProgress.code])
    cluster.transactions.lost[request_name] = 2
    prepared = staged(producer, "abc")
    decider(prepared).decide(batch_of(prepared))
    assert committed(cluster) == "abc"
    assert cluster.transactions.asked.count(request_name) == 4


def test_a_coordinator_that_moves_is_found_again(
    cluster: FakeCluster, producer: StagingProducer
) -> None:
    prepared = staged(producer, "a")
    decider(prepared).decide(batch_of(prepared))
    cluster.groups.coordinators[PLACED] = 2
    prepared = staged(producer, "b", 1, 1)
    assert prepared.coordinator.coordinator == 2
    cluster.groups.coordinators[PLACED] = 1
    decider(prepared).decide(batch_of(prepared, batch=1))
    assert committed(cluster) == "ab"


def test_where_brokers_have_no_framed_ports_the_client_itself_decides(
    cluster: FakeCluster,
) -> None:
    with make(cluster, client_transport="grpc") as producer:
        prepared = staged(producer, "abc")
        assert prepared.coordinator.ports == ()
        assert producer.decide(batch_of(prepared))[1]
        other = staged(producer, "d", 1, 1)
        assert producer.abort_batch(SINK, "r", 1, ends_run=False) == 1
        with pytest.raises(errors.InvalidTxnState):
            producer.decide(batch_of(other, batch=1))
    assert committed(cluster) == "abc"


def test_a_driver_over_frames_meets_a_broker_that_is_away(
    cluster: FakeCluster, producer: StagingProducer
) -> None:
    prepared = staged(producer, "abc")
    gone = [port for port in prepared.coordinator.ports if port.broker == 1]
    cluster.stop_broker(1)
    where = prepared.coordinator._replace(ports=tuple(gone))
    with pytest.raises(BrokersAway):
        SinkDecider(where, "driver", 300).decide(batch_of(prepared))
    assert cluster.sinks.sinks["q", "s"].decision is None


def test_deciding_loads_no_heavy_modules() -> None:
    heavy = ("grpc", "numba", "pandas", "numpy", "pyarrow", "asyncio")
    code = (
        "import sys; import pylog.client.sinks.sink_decider; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
