"""The positions that a source has its sink commit, without brokers that know of it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import errors as pylog_errors
from pylog.client.sinks.sink_types import SinkKey
from pylog.model import OffsetAndMetadata, TopicPartition
from pylog_connector import errors
from pylog_connector.clients import drop_progress_producer, progress_producer_for
from pylog_connector.offsets import read_offset
from pylog_connector.option_verdicts import Becomes, Use, option_verdicts
from pylog_connector.options import (
    SourceOptions,
    check_output_mode,
    sink_options,
    source_options,
)
from pylog_connector.progress import Progress, RangesWithProgress
from pylog_connector.progress_commits import commit_progress, commit_with
from pylog_connector.sink_identity import SinkBatchId
from pylog_connector.source import StreamReader
from tests.fakes.fake_cluster import FakeCluster

GIVEN = {"pylog.bootstrap.servers": "h:1", "pylog.progress.group": "g", "sinkId": "copy"}
BATCH = SinkBatchId(SinkKey("q", "copy"), "r", 3)


def source(**more: str) -> SourceOptions:
    named = {name.replace("__", "."): value for name, value in more.items()}
    return source_options({**GIVEN, "subscribe": "t", **named}, streaming=True)


def end(*offsets: int, epoch: int = 2) -> dict[str, Any]:
    positions = {str(p): {"e": epoch, "o": offset} for p, offset in enumerate(offsets)}
    return {"t": {"t": {"id": "x", "p": positions}}, "v": 1}


def reader(**more: str) -> StreamReader:
    return StreamReader(source(**more), ["value"])


# ---- the batch's tasks ---------------------------------------------------------------------------


def test_one_task_takes_all_positions_along() -> None:
    """Those of partitions in which nothing is read, and of new ones, too."""
    first, *others = reader(maxRecordsPerPartition="10").partitions(end(0, 7), end(25, 7, 0))
    assert isinstance(first.value, RangesWithProgress)
    assert [(each.start, each.end) for each in first.value.ranges] == [(0, 8)]
    assert [(each.value[0].start, each.value[0].end) for each in others] == [(8, 16), (16, 25)]
    assert first.value.progress.positions == (
        (TopicPartition("t", 0), OffsetAndMetadata(25, "", 2)),
        (TopicPartition("t", 1), OffsetAndMetadata(7, "", 2)),
        (TopicPartition("t", 2), OffsetAndMetadata(0, "", 2)),
    )
    assert pickle.loads(pickle.dumps(first.value)) == first.value


def test_a_batch_without_records_has_a_task_for_its_positions() -> None:
    (only,) = reader().partitions(end(0, 7), end(0, 7, 0))
    assert only.value.ranges == ()
    assert reader().partitions(end(0, 7), end(0, 7)) == []


def test_without_the_option_tasks_are_what_they_were() -> None:
    plain = source_options({"pylog.bootstrap.servers": "h:1", "subscribe": "t"}, streaming=True)
    (task,) = StreamReader(plain, ["value"]).partitions(end(0), end(5))
    assert isinstance(task.value, tuple)
    assert plain.sink_id is None


def test_a_digest_tells_positions_apart() -> None:
    def digest(*offsets: int, epoch: int = 2) -> str:
        return Progress.of(read_offset(end(*offsets, epoch=epoch))).digest

    assert digest(1, 2) == digest(1, 2, epoch=3)
    assert len({digest(1, 2), digest(2, 1), digest(1), digest(1, 2, 0)}) == 4


# ---- errors --------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        yield running


@pytest.fixture
def options(cluster: FakeCluster) -> Iterator[SourceOptions]:
    servers = ",".join(cluster.bootstrap_servers)
    made = source(pylog__bootstrap__servers=servers, pylog__retry__backoff__ms="10")
    yield made
    drop_progress_producer(made)


def commit(options: SourceOptions) -> None:
    commit_with(BATCH, 0, 1, Progress.of(read_offset(end(5))), options)


def test_a_broker_that_would_take_positions_for_rows_is_refused(options: SourceOptions) -> None:
    """One of an earlier version; so does the fake."""
    with pytest.raises(errors.ProgressFailed, match=r"UNSUPPORTED_VERSION.*does not commit"):
        commit(options)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (pylog_errors.SinkRunSuperseded, errors.SinkSuperseded),
        (pylog_errors.SinkBatchDecided, errors.BatchAlreadyWritten),
        (pylog_errors.InvalidRequest, errors.ProgressFailed),
        (pylog_errors.ThrottlingQuotaExceeded, errors.ProgressFailed),
        (pylog_errors.CommitFailed, errors.CommitGroupInUse),
    ],
)
def test_what_a_coordinator_refuses_is_told_by_the_option(
    options: SourceOptions, raised: type[Exception], told: type[Exception]
) -> None:
    producer = progress_producer_for(options).producer

    def refuse(_: object) -> None:
        raise raised("by the test")

    producer.begin_attempt = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(told, match=r"pylog.progress.group='g'"):
        commit(options)
    assert progress_producer_for(options).producer is not producer, "it is of no more use"


def test_a_task_that_spark_tells_nothing_is_refused() -> None:
    with pytest.raises(errors.SinkIdentity, match=r"pylog.progress.group='g'"):
        commit_progress(Progress(()), source())


# ---- options -------------------------------------------------------------------------------------


def test_source_and_sink_have_the_group_and_the_sink() -> None:
    read = source(pylog__sink__takeover="true", pylog__sink__prepared__timeout__ms="7")
    assert (read.progress_group, read.sink_id, read.takeover) == ("g", "copy", True)
    assert (read.prepared_timeout_ms, source().prepared_timeout_ms) == (7, 900_000)
    write = sink_options({**GIVEN, "pylog.progress.group": "g, h"})
    assert (write.progress_groups, write.sink_id) == (("g", "h"), "copy")
    assert sink_options({"pylog.bootstrap.servers": "h:1"}).progress_groups == ()


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"pylog.progress.group": "g,h"}, errors.InvalidOption, "a source has one group"),
        ({"pylog.commit.group": "g"}, errors.InvalidOption, "leave one of them out"),
        ({"pylog.progress.group": None}, errors.OptionNotApplicable, "sinkId='copy'"),
        ({"sinkId": None}, errors.InvalidOption, "give it to source and sink"),
    ],
)
def test_what_a_source_refuses(
    more: dict[str, str | None], error: type[Exception], words: str
) -> None:
    given = {**GIVEN, "subscribe": "t", **more}
    options = {name: value for name, value in given.items() if value is not None}
    with pytest.raises(error, match=words):
        source_options(options, streaming=True)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"sinkId": None}, "give it to source and sink"),
        ({"pylog.exactly.once": "false"}, "has no use for it"),
        ({"idempotencyKey": "k"}, "leave one of them out"),
    ],
)
def test_what_a_sink_refuses(more: dict[str, str | None], words: str) -> None:
    options = {name: value for name, value in {**GIVEN, **more}.items() if value is not None}
    with pytest.raises(errors.ConnectorError, match=words):
        sink_options(options)


def test_batches_and_complete_mode_have_no_progress() -> None:
    with pytest.raises(errors.OptionNotApplicable, match="a batch read has no progress"):
        source_options({**GIVEN, "subscribe": "t"}, streaming=False)
    write = sink_options(GIVEN)
    check_output_mode(write, complete=False)
    with pytest.raises(errors.OptionNotApplicable, match="complete mode has state"):
        check_output_mode(write, complete=True)


def test_verdicts_know_the_options() -> None:
    read = option_verdicts({**GIVEN, "subscribe": "t"}, Use.READ_STREAM)
    assert {each.becomes for each in read} == {Becomes.WORKS}
    write = option_verdicts(GIVEN, Use.WRITE_STREAM, output_mode="append")
    assert {each.becomes for each in write} == {Becomes.WORKS}
    *_, mode = option_verdicts(GIVEN, Use.WRITE_STREAM, output_mode="complete")
    assert (mode.option, mode.becomes) == ("outputMode", Becomes.REFUSED)
    alone = option_verdicts({**GIVEN, "pylog.exactly.once": "false"}, Use.WRITE_STREAM)
    assert Becomes.REFUSED in {each.becomes for each in alone}
