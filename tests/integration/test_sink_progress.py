"""Positions of a source and rows of its query that count by one decision, over brokers that are
processes, without Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, TopicPartition, errors
from pylog.client.sinks.sink_types import SinkKey
from pylog.clock import SYSTEM_CLOCK
from pylog_connector.bounds import BoundsReader
from pylog_connector.clients import drop_progress_producer, drop_staging_producer
from pylog_connector.committed import CommittedStart
from pylog_connector.deciding import abort, decide
from pylog_connector.errors import (
    CommitGroupInUse,
    InvalidOption,
    ProgressFailed,
    SinkSuperseded,
    WriteFailed,
)
from pylog_connector.offsets import PartitionPosition, StreamOffset, TopicPosition
from pylog_connector.options import SinkOptions, SourceOptions, sink_options, source_options
from pylog_connector.progress import Progress
from pylog_connector.progress_commits import commit_with
from pylog_connector.sink_identity import SinkBatchId
from pylog_connector.staged import TaskReport
from pylog_connector.staging import stage_batches
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

QUERY = "11111111-1111-1111-1111-11111111111{}"
CONFIG = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(2, config=CONFIG) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


class World(NamedTuple):
    """A query that reads and writes a topic of its own, by a sink and a group of the same name."""

    cluster: LocalCluster
    admin: AdminClient
    name: str
    source: SourceOptions
    sink: SinkOptions
    query: str = QUERY.format(1)

    def batch(self, number: int = 0, run: str = "r1") -> SinkBatchId:
        return SinkBatchId(SinkKey(self.query, self.name), run, number)

    def end(self, *offsets: int) -> Progress:
        at = {number: PartitionPosition(offset, 0) for number, offset in enumerate(offsets)}
        return Progress.of(StreamOffset({self.name: TopicPosition("id", at)}))

    def read(self, batch: SinkBatchId, *offsets: int, attempt: int = 1) -> None:
        """As the first task that reads."""
        commit_with(batch, 0, attempt, self.end(*offsets), self.source)

    def write(self, batch: SinkBatchId, values: str, attempt: int = 1) -> TaskReport:
        """As the only task that writes."""
        rows = [pa.record_batch({"value": list(values)})] if values else []
        return stage_batches(rows, self.sink, ["value"], batch, 0, attempt)

    def committed(self) -> dict[int, int]:
        """The group's positions, when nothing is open."""
        listed = self.admin.list_group_offsets(self.name, require_stable=True)
        return {tp.partition: at.offset for tp, at in listed.items() if at is not None}

    def is_open(self) -> bool:
        try:
            self.admin.list_group_offsets(self.name, require_stable=True, timeout=0.3)
        except errors.PylogError:
            return True
        return False

    def rows(self, *, waits: bool = False) -> str:
        """What readers of committed records see; `waits`: when all that is written by now is
        decided.
        """
        servers, tp = self.cluster.bootstrap_servers, TopicPartition(self.name, 0)
        with (
            Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer,
            Consumer(bootstrap_servers=servers) as uncommitted,
        ):
            consumer.assign([tp])
            consumer.seek_to_beginning(tp)
            end, found = (uncommitted if waits else consumer).end_offsets([tp])[tp], ""
            while consumer.position(tp) < end:
                found += "".join(record.value.decode() for record in consumer.poll(0.5))
        return found


@pytest.fixture
def world(
    cluster: LocalCluster, admin: AdminClient, request: pytest.FixtureRequest
) -> Iterator[World]:
    name: str = request.node.name.replace("_", "-").replace("[", "-").replace("]", "")
    admin.create_topics([NewTopic(name, 1, 2)])
    shared = {
        "pylog.bootstrap.servers": cluster.bootstrap_servers,
        "pylog.progress.group": name,
        "sinkId": name,
    }
    source = source_options({**shared, "subscribe": name}, streaming=True)
    made = World(cluster, admin, name, source, sink_options({**shared, "topic": name}))
    yield made
    drop_progress_producer(source)
    drop_staging_producer(made.sink)


def test_positions_and_rows_count_at_once(world: World) -> None:
    for number in range(3):
        batch = world.batch(number)
        world.read(batch, 10 * number + 5)
        report = world.write(batch, "abc"[number])
        assert world.is_open()
        assert world.rows() == "abc"[:number]
        decide([report], world.sink)
        assert world.committed() == {0: 10 * number + 5}
        assert world.rows() == "abc"[: number + 1]
    [at] = world.admin.list_group_offsets(world.name, [TopicPartition(world.name, 0)]).values()
    assert at is not None
    assert at.metadata == f"Spark query {world.query}, batch 2"


def test_a_batch_without_rows_commits_its_positions(world: World) -> None:
    world.read(world.batch(), 5)
    decided = decide([world.write(world.batch(), "")], world.sink)
    assert decided is not None
    assert (decided.row_count, world.committed(), world.rows()) == (0, {0: 5}, "")


def test_nothing_counts_of_a_batch_that_fails_and_its_replay_counts_once(world: World) -> None:
    world.read(world.batch(), 5)
    report = world.write(world.batch(), "lost")
    abort([report], world.sink)
    assert (world.committed(), world.rows()) == ({}, "")
    again = world.batch(run="r2")
    world.read(again, 5)
    first = decide([world.write(again, "ab")], world.sink)
    replay = world.batch(run="r3")  # as after a driver that died before Spark's note of it
    world.read(replay, 5)
    assert decide([world.write(replay, "ab")], world.sink) == first
    assert (world.committed(), world.rows()) == ({0: 5}, "ab")
    with pytest.raises(SinkSuperseded, match=r"PYLOG_SINK_SUPERSEDED.*pylog.progress.group="):
        world.read(world.batch(1, run="r1"), 6)


def test_attempts_of_a_task_that_is_run_again_count_once(world: World) -> None:
    for attempt in (1, 2, 3):
        world.read(world.batch(), 5, attempt=attempt)
    decide([world.write(world.batch(), "a")], world.sink)
    assert (world.committed(), world.rows()) == ({0: 5}, "a")
    world.read(world.batch(), 5, attempt=4)  # where foreachBatch looks at its frame once more
    assert world.committed() == {0: 5}


def test_what_is_deleted_meanwhile_is_left_out_where_losses_are_allowed(world: World) -> None:
    """The end of a batch that is run again names it still."""
    with pytest.raises(ProgressFailed, match="UNKNOWN_TOPIC_OR_PARTITION"):
        world.read(world.batch(), 5, 7)
    lenient = world._replace(source=replace(world.source, fail_on_data_loss=False))
    lenient.read(world.batch(), 5, 7, attempt=2)
    decide([world.write(world.batch(), "a")], world.sink)
    assert world.committed() == {0: 5}


def test_coordinators_that_change_lose_no_positions(world: World, cluster: LocalCluster) -> None:
    world.read(world.batch(), 5)
    report = world.write(world.batch(), "a")
    cluster.kill(1)
    cluster.start(1)
    decide([report], world.sink)
    assert (world.committed(), world.rows()) == ({0: 5}, "a")
    world.read(world.batch(1), 6)
    decide([world.write(world.batch(1), "b")], world.sink)
    assert (world.committed(), world.rows()) == ({0: 6}, "ab")


def test_positions_that_were_lost_fail_the_batch(world: World) -> None:
    world.read(world.batch(), 5)
    abort([], world.sink, world.batch())
    with pytest.raises(WriteFailed, match="aborted"):
        decide([world.write(world.batch(run="r1"), "a")], world.sink)


def test_source_and_sink_that_do_not_agree_are_refused_by_name(world: World) -> None:
    silent = world.sink.__class__(world.sink.bootstrap, world.name, sink_id=world.name)
    world.read(world.batch(), 5)
    report = stage_batches(
        [pa.record_batch({"value": ["a"]})], silent, ["value"], world.batch(), 0, 1
    )
    with pytest.raises(InvalidOption, match=f"give the sink pylog.progress.group={world.name}"):
        decide([report], silent)
    with pytest.raises(ProgressFailed, match=r"batch 0 .* is finished, and sink .*sinks forget"):
        world.read(world.batch(1), 6)
    with pytest.raises(ProgressFailed, match="two sources commit to group"):
        world.read(world.batch(), 7, attempt=2)
    deaf = world._replace(query=QUERY.format(2))
    report = deaf.write(deaf.batch(), "a")
    with pytest.raises(InvalidOption, match="no source has committed anything"):
        decide([report], deaf.sink)
    drop_staging_producer(silent)


def test_a_group_with_live_members_takes_no_positions(world: World, cluster: LocalCluster) -> None:
    given = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": world.name}
    with Consumer(world.name, **given) as consumer:
        eventually(30, lambda: consumer.poll(0.2) is not None and bool(consumer.assignment()), "it")
        with pytest.raises(CommitGroupInUse, match="the group has live members by now"):
            world.read(world.batch(), 5)
    world.read(world.batch(), 5, attempt=2)
    decide([world.write(world.batch(), "a")], world.sink)
    assert world.committed() == {0: 5}


def test_a_new_query_takes_over_what_a_killed_one_left_open(world: World) -> None:
    world.read(world.batch(), 5)
    decide([world.write(world.batch(), "a")], world.sink)
    world.read(world.batch(1), 9)  # and is killed, with rows and positions that are open
    world.write(world.batch(1), "never")
    stranger = replace(world.source, progress_group=f"{world.name}-other")
    other = world._replace(query=QUERY.format(3), source=stranger)
    other.read(other.batch(), 3)  # with the same sinkId, by chance
    start = CommittedStart("startingOffsets", world.name)
    shared = {
        "pylog.bootstrap.servers": world.cluster.bootstrap_servers,
        "pylog.progress.group": world.name,
        "sinkId": world.name,
        "subscribe": world.name,
    }
    waits = source_options({**shared, "pylog.default.api.timeout.ms": "1000"}, streaming=True)
    reader = BoundsReader(waits)
    with pytest.raises(errors.PylogError, match=r"pylog\.sink\.takeover=true at the source"):
        reader.committed(start, reader.bounds())
    takes = source_options({**shared, "pylog.sink.takeover": "true"}, streaming=True)
    reader = BoundsReader(takes)
    assert reader.committed(start, reader.bounds()).values == {world.name: {0: 5}}
    listed = [each for each in world.admin.list_sinks() if each.sink_id == world.name]
    open_now = {each.query_id: each.progress_groups for each in listed if each.open_attempts}
    assert open_now == {other.query: (stranger.progress_group,)}
    drop_progress_producer(stranger)
    assert world.rows() == "a"


def test_a_reader_of_both_never_sees_positions_beyond_the_rows(world: World) -> None:
    """It asks for stable positions, and reads what is written by then when it is decided."""
    stop = threading.Event()
    faults: list[str] = []

    def look() -> None:
        while not stop.is_set():
            before = world.committed().get(0, 0)
            seen = len(world.rows(waits=True))
            after = world.committed().get(0, 0)
            if not before <= seen <= after:
                faults.append(f"positions {before}, rows {seen}, positions {after}")

    thread = threading.Thread(target=look)
    thread.start()
    try:
        until = SYSTEM_CLOCK.monotonic_ms() + 2_000
        number = 0
        while SYSTEM_CLOCK.monotonic_ms() < until:
            batch = world.batch(number)
            world.read(batch, number + 1)
            decide([world.write(batch, "x")], world.sink)
            number += 1
    finally:
        stop.set()
        thread.join()
    assert faults == []
    assert number > 5
