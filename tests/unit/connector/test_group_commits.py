"""Streams that commit what they have finished to a group, and begin where one has come to, over a
cluster in this process whose groups have a real coordinator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import errors as pylog_errors
from pylog.model import TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import OffsetFetch
from pylog_connector import errors, group_commits
from pylog_connector.group_commits import GroupCommits
from pylog_connector.offsets import PartitionPosition
from pylog_connector.options import source_options
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakePartition
from tests.fakes.micro_batches import Checkpoint, Row, Run
from tests.fakes.waiting import eventually


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog.client.cluster.denials.UNKNOWN_TOPIC_GRACE_MS", 30)
    monkeypatch.setattr("pylog_connector.source.IDLE_S", 0.0)
    monkeypatch.setattr("pylog_connector.bounds.TOPICS_AGE_MS_MAX", 0)
    monkeypatch.setattr("pylog_connector.group_progress.RETRY_MS", 10)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        yield cluster


def fill(partition: FakePartition, *values: str) -> None:
    partition.append(encode_batch([value.encode() for value in values], timestamps=0))


def options(cluster: FakeCluster, **more: object) -> dict[str, str]:
    shared = {
        "pylog.bootstrap.servers": ",".join(cluster.bootstrap_servers),
        "pylog.retry.backoff.ms": "10",
        "pylog.fetch.max.wait.ms": "50",
        "fetchOffset.retryIntervalMs": "0",
        "subscribe": "t",
        "startingOffsets": "earliest",
        "pylog.commit.group": "g",
    }
    return shared | {name.replace("__", "."): str(value) for name, value in more.items()}


def committed(cluster: FakeCluster, group: str = "g") -> dict[str, Any]:
    request = OffsetFetch(group, Caller(), None)
    answer = cluster.groups.ask(lambda c, r: c.fetch_offsets(r, request))
    return {str(tp): each for tp, each in answer.partitions.items()}


def offsets(cluster: FakeCluster, group: str = "g") -> dict[str, int]:
    return {tp: each.offset for tp, each in committed(cluster, group).items()}


def commits(run: Run) -> GroupCommits:
    group = run.reader._group
    assert group is not None
    return group


def values(rows: list[Row]) -> list[str]:
    return sorted(row[3] for row in rows)


def test_a_batch_is_committed_when_it_is_finished_and_not_before(cluster: FakeCluster) -> None:
    partition, _ = cluster.create_topic("t", 2).partitions
    fill(partition, "a", "b")
    seen = []

    def looks(rows: list[Row]) -> None:
        assert commits(run).flush()
        seen.append(offsets(cluster))

    chosen = options(cluster, pylog__client__id="flights")
    with Run(chosen, Checkpoint(), sink=looks) as run:
        assert len(run.drain()) == 2
        assert commits(run).flush()
        assert offsets(cluster) == {"t-0": 2, "t-1": 0}
        fill(partition, "c")
        assert len(run.drain()) == 1
        assert commits(run).flush()
    assert seen == [{}, {"t-0": 2, "t-1": 0}]
    position = committed(cluster)["t-0"]
    assert (position.offset, position.leader_epoch) == (3, partition.epoch)
    assert position.metadata.startswith("Spark query flights on ")


def test_the_last_batch_of_available_now_is_committed(cluster: FakeCluster) -> None:
    """Without anybody waiting for it: Spark kills the reader's process after its last answer."""
    partition, _ = cluster.create_topic("t", 2).partitions
    fill(partition, *"abcde")
    chosen = options(cluster, maxOffsetsPerTrigger=2)
    with Run(chosen, Checkpoint(), available_now=True) as run:
        run.drain()
        assert offsets(cluster) == {"t-0": 5, "t-1": 0}


@pytest.mark.parametrize("once", [True, False])
def test_a_query_that_was_stopped_after_a_batch_commits_it_at_its_next_start(
    cluster: FakeCluster, once: bool
) -> None:
    """N-L15: nobody is told that the batch is done until the next one is planned."""
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, "a", "b")
    checkpoint = Checkpoint()
    with Run(options(cluster), checkpoint) as run:
        assert run.trigger(once=once)
        assert commits(run).flush()
    assert offsets(cluster) == {}
    with Run(options(cluster), checkpoint) as run:
        assert not run.trigger(once=once)
        assert commits(run).flush()
    assert offsets(cluster) == {"t-0": 2}


def test_a_failed_batch_is_not_committed(cluster: FakeCluster) -> None:
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, "a")
    checkpoint = Checkpoint()

    def fails(rows: list[Row]) -> None:
        raise RuntimeError("the sink is down")

    with Run(options(cluster), checkpoint, sink=fails) as run:
        for _ in range(2):
            with pytest.raises(RuntimeError):
                run.trigger()
        assert commits(run).flush()
    assert offsets(cluster) == {}
    with Run(options(cluster), checkpoint) as run:
        run.drain()
        assert commits(run).flush()
    assert offsets(cluster) == {"t-0": 1}


def test_topics_and_partitions_that_come_and_go(cluster: FakeCluster) -> None:
    fill(cluster.create_topic("t1").partitions[0], "a")
    chosen = options(cluster, subscribePattern="^t", failOnDataLoss="false")
    del chosen["subscribe"]
    with Run(chosen, Checkpoint()) as run:
        run.drain()
        first = cluster.topics["t1"].partitions
        first.append(FakePartition(leader=1))
        fill(first[1], "b", "c")
        fill(cluster.create_topic("t2").partitions[0], "d")
        assert len(run.drain()) == 3
        assert commits(run).flush()
        assert offsets(cluster) == {"t1-0": 1, "t1-1": 2, "t2-0": 1}
        # Made anew: what was read of the old one is not said of the new one.
        del cluster.topics["t2"]
        cluster.groups.shard.tell(lambda c: c.on_topics_deleted({"t2"}))
        fill(cluster.create_topic("t2").partitions[0], *"efghi")
        asked = list(cluster.groups.asked)
        assert len(run.drain()) == 5
        assert commits(run).flush()
        assert offsets(cluster) == {"t1-0": 1, "t1-1": 2, "t2-0": 5}
        assert cluster.groups.asked.count("OffsetCommit") > asked.count("OffsetCommit")


def test_64_a_group_with_live_members_is_refused_by_name(cluster: FakeCluster) -> None:
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, "a")
    cluster.groups.commit("g", "t", 7)
    cluster.groups.join_consumer("g", "m", "t")
    with (
        Run(options(cluster), Checkpoint()) as run,
        pytest.raises(
            errors.CommitGroupInUse,
            match=r"pylog.commit.group='g': the group has live members \(1: m-app at /127.0.0.1\)",
        ),
    ):
        run.trigger()
    assert offsets(cluster) == {"t-0": 7}


def test_64_members_that_come_later_are_left_alone(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The query goes on, its group's offsets are the members' from then on."""
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, "a")
    with Run(options(cluster), Checkpoint()) as run:
        run.drain()
        assert commits(run).flush()
        cluster.groups.join_consumer("g", "m", "t")
        fill(partition, "b")
        assert len(run.drain()) == 1
        eventually(10, lambda: "has live members by now" in caplog.text, "a warning")
        assert not commits(run).flush(0.05)
        assert offsets(cluster) == {"t-0": 1}


def test_a_group_of_another_type_is_refused(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    cluster.groups.faults["OffsetCommit"] = group_fault(pylog_errors.GroupIdNotFound)
    with (
        Run(options(cluster), Checkpoint()) as run,
        pytest.raises(errors.InvalidOption, match=r"pylog.commit.group='g': group 'g'"),
    ):
        run.trigger()


def group_fault(kind: type[pylog_errors.PylogError], times: int = 1) -> Any:
    return deque([kind.code] * times)


def test_a_coordinator_that_fails_neither_stops_nor_fails_the_query(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commits, "CHECK_S", 0.1)
    monkeypatch.setattr(group_commits, "COMMIT_S", 0.1)
    monkeypatch.setattr(group_commits, "FLUSH_S", 0.1)
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, "a", "b")
    faults = cluster.groups.faults["OffsetCommit"] = group_fault(
        pylog_errors.CoordinatorNotAvailable, 10_000
    )
    checkpoint = Checkpoint()
    with Run(options(cluster), checkpoint, available_now=True) as run:
        assert len(run.drain()) == 2
    assert "cannot ask whether group 'g' has live members" in caplog.text
    assert "has not taken the last offsets within" in caplog.text
    assert offsets(cluster) == {}
    faults.clear()
    with Run(options(cluster), checkpoint) as run:
        assert run.drain() == []
        assert commits(run).flush(5)
    assert offsets(cluster) == {"t-0": 2}


def test_positions_of_an_idle_query_are_committed_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any call of Spark: a trigger may be hours away."""
    monkeypatch.setattr(group_commits, "repeat_ms", lambda _: 20)
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, "a")
    with Run(options(cluster), Checkpoint()) as run:
        run.drain()
        assert commits(run).flush()
        before = cluster.groups.asked.count("OffsetCommit")
        commits_of = cluster.groups.asked.count
        eventually(10, lambda: commits_of("OffsetCommit") >= before + 3, "three more commits")
    group = commits(run)
    assert group._thread is not None
    group._thread.join(5)
    assert not group._thread.is_alive()


def test_an_offset_that_is_refused_for_good_is_logged_and_left(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing:
        calls = 0

        def __enter__(self) -> Refusing:
            return self

        def __exit__(self, *_: object) -> None: ...

        def close(self) -> None: ...

        def describe_cluster(self, **_: object) -> object:
            raise pylog_errors.RequestTimedOut("slow")

        def alter_group_offsets(self, _group: str, wanted: Any, **_: object) -> None:
            Refusing.calls += 1
            if len(wanted) == 1:
                raise pylog_errors.UnknownTopicOrPartition("no such topic")
            if wanted:
                unknown = pylog_errors.UnknownTopicOrPartition("no such topic")
                raise pylog_errors.PartialFailure({gone: None}, {here: unknown})

    gone, here = TopicPartition("gone", 0), TopicPartition("here", 0)
    chosen = source_options(options(cluster), streaming=True)
    group = GroupCommits(chosen, make_admin=lambda _: Refusing())  # type: ignore[arg-type, return-value]
    group.check()
    both = dict.fromkeys((gone, here), PartitionPosition(2))
    for count, wanted in enumerate(({gone: PartitionPosition(1)}, both)):
        group.finished(wanted)
        assert group.flush()
        assert Refusing.calls == 2 + count
    group.close()
    assert "did not take offsets of gone-0: no such topic" in caplog.text
    assert "did not take offsets of here-0: no such topic" in caplog.text


# ---- begin where a group has come to ------------------------------------------------------------


def test_a_query_takes_over_from_consumers(cluster: FakeCluster) -> None:
    first, second = cluster.create_topic("t", 2).partitions
    fill(first, "0-a", "0-b", "0-c")
    fill(second, "1-a")
    cluster.groups.commit("g", "t", 1)
    chosen = options(cluster, startingOffsets="committed:g,earliest")
    checkpoint = Checkpoint()
    with Run(chosen, checkpoint) as run:
        assert values(run.drain()) == ["0-b", "0-c", "1-a"]
        assert commits(run).flush()
    assert offsets(cluster) == {"t-0": 3, "t-1": 1}
    # The checkpoint wins from now on.
    cluster.groups.commit("g", "t", 0, 0)
    fill(first, "0-d")
    with Run(chosen, checkpoint) as run:
        assert values(run.drain()) == ["0-d"]


def test_a_partition_without_a_commit_is_an_error(cluster: FakeCluster) -> None:
    cluster.create_topic("t", 2)
    for what in ("no offset of group 'g' exists in t-0, t-1;", "has committed no offset in t-1;"):
        with (
            Run(options(cluster, startingOffsets="committed:g"), Checkpoint()) as run,
            pytest.raises(errors.NoCommittedOffset, match=what),
        ):
            run.trigger()
        cluster.groups.commit("g", "t", 0)


def test_a_first_batch_that_failed_begins_where_the_group_was(cluster: FakeCluster) -> None:
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, "a", "b", "c")
    cluster.groups.commit("g", "t", 1)
    checkpoint = Checkpoint()

    def fails(rows: list[Row]) -> None:
        raise RuntimeError("the sink is down")

    chosen = options(cluster, startingOffsets="committed:g")
    with Run(chosen, checkpoint, sink=fails) as run, pytest.raises(RuntimeError):
        run.trigger()
    cluster.groups.commit("g", "t", 3)
    with Run(chosen, checkpoint) as run:
        assert values(run.drain()) == ["b", "c"]


def test_a_coordinator_that_does_not_say_fails_the_start(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    cluster.groups.faults["OffsetFetch"] = group_fault(pylog_errors.GroupAuthorizationFailed)
    chosen = options(cluster, startingOffsets="committed:g")
    with (
        Run(chosen, Checkpoint()) as run,
        pytest.raises(
            errors.ReadFailed,
            match="startingOffsets=committed:g: cannot look up the committed offsets: group 'g'",
        ),
    ):
        run.trigger()
