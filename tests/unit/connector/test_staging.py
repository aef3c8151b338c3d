"""Batches that count once, from the tasks' rows to the driver's decision, without Spark."""

from __future__ import annotations

import logging
import pickle
from collections import deque
from collections.abc import Iterator

import pyarrow as pa
import pytest

from pylog import errors
from pylog.client.consumer.consumer import Consumer
from pylog.client.sinks.sink_types import SinkAttempt, SinkKey
from pylog.client.sinks.staging_producer import StagingProducer
from pylog.model import TopicPartition
from pylog_connector.clients import drop_staging_producer, staging_producer_for
from pylog_connector.deciding import abort, decide
from pylog_connector.errors import (
    BatchAlreadyWritten,
    IdempotencyConflict,
    SinkRow,
    SinkSuperseded,
    UnknownTopic,
    WriteFailed,
)
from pylog_connector.options import SinkOptions, sink_options
from pylog_connector.sink_identity import SinkBatchId, batch_of_job
from pylog_connector.staged import TaskReport
from pylog_connector.staging import stage_batches
from tests.fakes.fake_cluster import FakeCluster

SINK = SinkKey("q", "t")


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        running.create_topic("t", 2)
        running.create_topic("u")
        yield running


@pytest.fixture
def to(cluster: FakeCluster) -> Iterator[SinkOptions]:
    made = options(cluster)
    yield made
    drop_staging_producer(made)


def options(cluster: FakeCluster, **given: str) -> SinkOptions:
    return sink_options(
        {
            "pylog.bootstrap.servers": ",".join(cluster.bootstrap_servers),
            "pylog.exactly.once": "true",
            "pylog.retry.backoff.ms": "10",
            "topic": "t",
            **given,
        }
    )


def batch_of(number: int = 0, run: str = "r") -> SinkBatchId:
    return SinkBatchId(SINK, run, number)


def rows(*values: str, topic: str | None = None) -> pa.RecordBatch:
    columns: dict[str, list[str]] = {"key": list(values), "value": list(values)}
    if topic is not None:
        columns["topic"] = [topic] * len(values)
    return pa.record_batch(columns)


def stage(
    to: SinkOptions,
    values: str,
    batch: SinkBatchId | None = None,
    task: int = 0,
    attempt: int | None = None,
) -> TaskReport:
    batch = batch or batch_of()
    parts = [rows(*part) for part in values.split(",") if part]
    number = attempt if attempt is not None else 100 * batch.batch_id + task
    report = stage_batches(parts, to, ["key", "value"], batch, task, number)
    return pickle.loads(pickle.dumps(report))  # type: ignore[no-any-return]


def committed(cluster: FakeCluster, *topics: str) -> str:
    """The values that readers of committed records see now, sorted."""
    found = ""
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        for topic in topics or ("t",):
            for number in consumer.partitions_for(topic):
                tp = TopicPartition(topic, number)
                consumer.assign([tp])
                consumer.seek_to_beginning(tp)
                end = consumer.end_offsets([tp])[tp]
                while consumer.position(tp) < end:
                    found += "".join(record.value.decode() for record in consumer.poll(1))
    return "".join(sorted(found))


def test_all_tasks_count_at_once(cluster: FakeCluster, to: SinkOptions) -> None:
    reports = [stage(to, "ab,c", task=0), stage(to, "de", task=1), stage(to, "", task=2)]
    assert [report.rows for report in reports] == [3, 2, 0]
    assert reports[2].staged is None
    assert committed(cluster) == ""
    decided = decide(reports, to)
    assert decided is not None
    assert (decided.row_count, decided.batch_id, decided.expires_ms) == (5, 0, -1)
    assert {(each.topic, each.partition) for each in decided.receipt} == {("t", 0), ("t", 1)}
    assert committed(cluster) == "abcde"
    abort(reports, to)  # as after a commit whose outcome was not known
    assert decide(reports, to) == decided
    assert committed(cluster) == "abcde"


def test_servers_that_do_not_answer_are_waited_for_once(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question waits for `max.block.ms`, by default a minute."""
    to = options(cluster, **{"pylog.bootstrap.servers": "127.0.0.1:1", "pylog.max.block.ms": "50"})

    def begin_attempt(producer: StagingProducer, attempt: SinkAttempt) -> None:
        raise AssertionError("the servers were asked again")

    monkeypatch.setattr(StagingProducer, "begin_attempt", begin_attempt)
    batch = SinkBatchId(SinkKey("0d6f6f8e-30c5-4e6c-9a4f-5bd9c81b0070", "t"), "r", 0)
    with pytest.raises(WriteFailed, match=r"127\.0\.0\.1:1: connection refused"):
        stage(to, "ab", batch)


def test_a_batch_without_rows_asks_nobody(cluster: FakeCluster, to: SinkOptions) -> None:
    assert decide([stage(to, ""), stage(to, "", task=1)], to) is None
    assert decide([], to) is None
    assert cluster.sinks.sinks == {}


def test_a_replay_reads_its_rows_and_writes_none(
    cluster: FakeCluster, to: SinkOptions, caplog: pytest.LogCaptureFixture
) -> None:
    decided = decide([stage(to, "ab", task=0), stage(to, "c", task=1)], to)
    produced = len(cluster.produce_requests)
    again = [stage(to, "c", batch_of(run="r2"), 0), stage(to, "ba", batch_of(run="r2"), 1)]
    assert decide(again, to) == decided  # other tasks, the same rows
    assert len(cluster.produce_requests) == produced
    assert not caplog.records
    other = [stage(to, "ax", batch_of(run="r2"), 0), stage(to, "c", batch_of(run="r2"), 1)]
    with caplog.at_level(logging.WARNING):
        assert decide(other, to) == decided
    assert "its 3 rows have other keys or values" in caplog.text
    assert decide([stage(to, "d", batch_of(1, "r2"))], to) is not None
    assert committed(cluster) == "abcd"


def test_a_second_write_of_the_batch_is_refused_by_name(
    cluster: FakeCluster, to: SinkOptions
) -> None:
    decide([stage(to, "ab")], to)
    with pytest.raises(BatchAlreadyWritten, match="sinkId"):
        stage(to, "ab", attempt=77)
    decide([stage(to, "c", batch_of(1))], to)
    with pytest.raises(BatchAlreadyWritten):
        stage(to, "ab", batch_of(0, "r2"))
    assert committed(cluster) == "abc"


def test_an_older_run_learns_that_it_is_one(cluster: FakeCluster, to: SinkOptions) -> None:
    old = stage(to, "old")
    new = stage(to, "new", batch_of(run="r2"))
    with pytest.raises(SinkSuperseded, match="checkpoint"):
        stage(to, "x", task=1)
    with pytest.raises(SinkSuperseded):
        decide([old], to)
    abort([old], to)
    decide([new], to)
    assert committed(cluster) == "enw"


def test_a_failed_task_is_run_again_in_another_transaction(
    cluster: FakeCluster, to: SinkOptions
) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield rows(*"ab")
        raise RuntimeError("by the test")

    with pytest.raises(RuntimeError, match="by the test"):
        stage_batches(broken(), to, ["key", "value"], batch_of(), 0, 1)
    decide([stage(to, "abc", attempt=2)], to)
    assert committed(cluster) == "abc"


def test_a_task_that_was_given_up_in_the_middle_does_not_mix_with_the_next(
    cluster: FakeCluster, to: SinkOptions
) -> None:
    """As if the worker had been taken out of it without a word."""
    left = staging_producer_for(to).producer
    left.begin_attempt(SinkAttempt(SINK, "r", 0, 0, 1))
    left.send_arrow("t", rows("x"))
    decide([stage(to, "abc", attempt=2)], to)
    assert staging_producer_for(to).producer is not left
    assert committed(cluster) == "abc"


def test_bad_rows_and_topics_fail_the_task_and_leave_nothing(
    cluster: FakeCluster, to: SinkOptions
) -> None:
    bad = pa.record_batch({"value": ["v", "w"], "partition": [0, -1]})
    with pytest.raises(SinkRow, match="partition is -1"):
        stage_batches([bad.slice(0, 1), bad], to, ["value", "partition"], batch_of(), 0, 1)
    with pytest.raises(UnknownTopic):
        stage(options(cluster, topic="none"), "a", attempt=2)
    assert committed(cluster) == ""


def test_rows_that_name_their_topics(cluster: FakeCluster) -> None:
    to = sink_options(
        {
            "pylog.bootstrap.servers": ",".join(cluster.bootstrap_servers),
            "pylog.exactly.once": "true",
        }
    )
    parts = [rows("a", "b", topic="t"), rows("c", topic="u")]
    report = stage_batches(parts, to, ["key", "value", "topic"], batch_of(), 0, 1)
    decide([report], to)
    assert (committed(cluster, "t"), committed(cluster, "u")) == ("ab", "c")
    drop_staging_producer(to)


def test_one_that_was_aborted_meanwhile_fails_the_whole_batch(
    cluster: FakeCluster, to: SinkOptions
) -> None:
    reports = [stage(to, "ab", task=0), stage(to, "cd", task=1)]
    with cluster.transactions.lock:
        sink = cluster.sinks.sinks["q", "t"]
        cluster.sinks.end(sink, next(iter(sink.tasks)), committed=False)
    with pytest.raises(WriteFailed, match=r"aborted before the batch was decided.*again"):
        decide(reports, to)
    abort(reports, to)
    assert committed(cluster) == ""
    assert not cluster.sinks.sinks["q", "t"].tasks


def test_an_abort_takes_what_it_is_told_of(cluster: FakeCluster, to: SinkOptions) -> None:
    abort([None, None], to)
    abort([], to)
    assert cluster.sinks.sinks == {}
    reports = [None, stage(to, "ab", task=1)]
    with pytest.raises(WriteFailed, match="1 of 2 tasks did not report"):
        decide(reports, to)
    abort(reports, to)
    assert not cluster.sinks.sinks["q", "t"].tasks


def test_a_task_that_begins_late_writes_nothing(cluster: FakeCluster, to: SinkOptions) -> None:
    """Spark tells tasks of a job that failed late that they are to end."""
    abort([None, None], to, batch_of_job("j", to))
    with pytest.raises(WriteFailed, match="run j was aborted"):
        stage(to, "ab", batch_of_job("j", to))
    abort([None, stage(to, "ab", task=1)], to)
    with pytest.raises(WriteFailed, match="run r was aborted"):
        stage(to, "cd", task=2)
    assert committed(cluster) == ""


def test_a_batch_may_be_written_again_in_foreach_batch(
    cluster: FakeCluster, to: SinkOptions
) -> None:
    abort([None, stage(to, "ab", task=1)], to, batch_of_job("j", to))
    decide([stage(to, "cd", task=2)], to)
    assert committed(cluster) == "cd"


def test_what_waits_for_its_decision_waits_so_long(cluster: FakeCluster) -> None:
    to = options(cluster, **{"pylog.sink.prepared.timeout.ms": "7000"})
    stage(to, "a")
    assert list(cluster.sinks.sinks["q", "t"].prepared.values()) == [7_000]
    drop_staging_producer(to)


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_lost_answers_of_the_decision_change_nothing(cluster: FakeCluster, transport: str) -> None:
    to = options(cluster, **{"pylog.client.transport": transport})
    cluster.transactions.lost["DecideSinkBatch"] = 2
    cluster.transactions.faults["DecideSinkBatch"] = deque([errors.NotCoordinator.code])
    assert decide([stage(to, "abc")], to) is not None
    assert committed(cluster) == "abc"
    drop_staging_producer(to)


def test_brokers_that_have_all_come_up_elsewhere_are_found(
    cluster: FakeCluster, to: SinkOptions
) -> None:
    """As after a kill of the driver, which takes all executors with it."""

    def before(report: TaskReport) -> TaskReport:
        assert report.staged is not None
        where = report.staged.coordinator
        assert where.ports
        gone = tuple(port._replace(port=1) for port in where.ports)  # nobody listens there
        return report._replace(
            staged=report.staged._replace(coordinator=where._replace(ports=gone))
        )

    assert decide([before(stage(to, "abc"))], to) is not None
    assert committed(cluster) == "abc"
    abort([before(stage(to, "def", batch_of(1)))], to)
    assert cluster.sinks.sinks["q", "t"].tasks == {}
    assert committed(cluster) == "abc"


# ---- jobs --------------------------------------------------------------------------------------


def test_a_job_is_remembered_for_a_while(cluster: FakeCluster, to: SinkOptions) -> None:
    decide([stage(to, "ab", batch_of_job("j", to))], to)
    assert cluster.sinks.keep_ms == [600_000]
    assert committed(cluster) == "ab"


def test_a_second_job_with_the_key_writes_nothing(cluster: FakeCluster) -> None:
    to = options(cluster, idempotencyKey="day-7")
    first = decide([stage(to, "ab", batch_of_job("j", to))], to)
    second = [stage(to, "b", batch_of_job("k", to)), stage(to, "a", batch_of_job("k", to), 1)]
    assert decide(second, to) == first
    assert cluster.sinks.keep_ms == [604_800_000]
    for values, words in (("abc", "3 rows, and 2 were written"), ("ax", "other keys or values")):
        with pytest.raises(IdempotencyConflict, match=f"day-7.*{words}"):
            decide([stage(to, values, batch_of_job("l", to))], to)
    with pytest.raises(IdempotencyConflict, match="0 rows, and 2"):
        decide([stage(to, "", batch_of_job("m", to))], to)
    assert committed(cluster) == "ab"
    drop_staging_producer(to)


def test_a_first_job_with_the_key_and_no_rows_counts_as_well(cluster: FakeCluster) -> None:
    to = options(cluster, idempotencyKey="day-8")
    decided = decide([stage(to, "", batch_of_job("j", to))], to)
    assert decided is not None
    assert decided.row_count == 0
    with pytest.raises(IdempotencyConflict, match="1 rows, and 0"):
        decide([stage(to, "a", batch_of_job("k", to))], to)
    assert committed(cluster) == ""
    drop_staging_producer(to)


def test_of_two_jobs_with_the_key_at_once_one_decides(cluster: FakeCluster) -> None:
    to = options(cluster, idempotencyKey="day-9")
    first = stage(to, "ab", batch_of_job("j", to))
    second = stage(to, "ab", batch_of_job("k", to))
    with pytest.raises(IdempotencyConflict, match="Run this one again"):
        decide([first], to)
    decide([second], to)
    assert committed(cluster) == "ab"
    drop_staging_producer(to)
