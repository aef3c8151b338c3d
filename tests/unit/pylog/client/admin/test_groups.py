"""Operators' work on groups, against a real coordinator behind the messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest

from pylog import errors
from pylog.client.admin.admin import AdminClient
from pylog.client.admin.admin_types import (
    GroupListing,
    GroupMember,
    PartitionLag,
    StreamsTask,
    StreamsTasks,
)
from pylog.client.producer.producer import Producer
from pylog.clock import SYSTEM_CLOCK
from pylog.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from pylog.model import OffsetAndMetadata, TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.coordinator.generated.streams_group_topology import Subtopology
from tests.fakes.consumer_members import set_topic
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.streams_members import WORDS, Streamer, settle_streams

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))
SUBSCRIBES = encode_subscription(Subscription(("t",)))
READS = encode_assignment(Assignment((T0, T1)))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        running.create_topic("t", 2)
        yield running


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[AdminClient]:
    with AdminClient(
        bootstrap_servers=cluster.bootstrap_servers,
        default_api_timeout_ms=5_000,
        retry_backoff_ms=1,
        retry_backoff_max_ms=5,
    ) as client:
        yield client


# ---- lists ---------------------------------------------------------------------------------------


def test_lists_ask_every_broker(cluster: FakeCluster, admin: AdminClient) -> None:
    cluster.groups.coordinators = {"a": 1, "b": 2, "c": 2}
    cluster.groups.commit("c", "t", 1)
    cluster.groups.join_consumer("b", "m", "t")
    cluster.groups.join_classic("a", "m", SUBSCRIBES, READS)
    assert admin.list_groups() == [
        GroupListing("a", "classic", "Stable", "consumer"),
        GroupListing("b", "consumer", "Stable", "consumer"),
        GroupListing("c", "classic", "Empty", ""),
    ]
    assert [g.group_id for g in admin.list_groups(states=["stable"])] == ["a", "b"]
    assert [g.group_id for g in admin.list_groups("EMPTY")] == ["c"]
    assert [g.group_id for g in admin.list_groups(types="consumer")] == ["b"]
    with pytest.raises(errors.InvalidRequest, match="states: 'stabel' is none; give some of Prep"):
        admin.list_groups(states="stabel")
    with pytest.raises(errors.InvalidRequest, match="types: 5 is none; give some of classic, con"):
        admin.list_groups(types=[5])  # type: ignore[list-item]


def test_a_list_waits_for_coordinators_that_load(cluster: FakeCluster, admin: AdminClient) -> None:
    cluster.groups.commit("g", "t", 1)
    cluster.groups.faults["ListGroups"] = deque([errors.CoordinatorLoadInProgress.code] * 3)
    assert [g.group_id for g in admin.list_groups()] == ["g"]


def test_brokers_that_cannot_be_asked_for_their_groups_are_told(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    cluster.groups.commit("g", "t", 1)
    assert admin.list_groups()
    cluster.stop_broker(2, silently=True)
    with pytest.raises(errors.PartialFailure) as partly:
        admin.list_groups(timeout=2)
    assert partly.value.results == {1: [GroupListing("g", "classic", "Empty", "")]}
    assert [(b, type(e)) for b, e in partly.value.errors.items()] == [(2, errors.BrokerUnreachable)]


# ---- descriptions --------------------------------------------------------------------------------


def test_groups_of_both_protocols_are_described(cluster: FakeCluster, admin: AdminClient) -> None:
    cluster.groups.coordinators = {"new": 2}
    epoch = cluster.groups.join_consumer("new", "m", "t", instance="i")
    member_id = cluster.groups.join_classic("old", "m", SUBSCRIBES, READS)
    found = admin.describe_groups(["old", "new"])
    assert list(found) == ["old", "new"]
    new, old = found["new"], found["old"]
    assert (new.type, new.state, new.assignor, new.coordinator.id) == (
        "consumer", "Stable", "uniform", 2,
    )  # fmt: skip
    assert (new.group_epoch, new.assignment_epoch) == (epoch, epoch)
    assert new.members == (
        GroupMember(
            "m", "consumer", "m-app", "/127.0.0.1", "i", None, (T0, T1), (T0, T1), epoch, ("t",)
        ),
    )
    assert (old.type, old.state, old.assignor, old.protocol_type, old.coordinator.id) == (
        "classic", "Stable", "range", "consumer", 1,
    )  # fmt: skip
    assert (old.group_epoch, old.assignment_epoch) == (None, None)
    assert old.members == (
        GroupMember(
            member_id, "classic", "m-app", "/127.0.0.1", assignment=(T0, T1), topics=("t",)
        ),
    )


def test_members_that_cannot_be_understood_have_no_assignment(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    cluster.groups.join_classic("torn", "m", SUBSCRIBES, b"\0\0\0\0")
    cluster.groups.join_classic("other", "m", b"?", b"?", protocol_type="connect")
    found = admin.describe_groups(["torn", "other"])
    assert [g.members[0].assignment for g in found.values()] == [None, None]


def test_a_group_that_is_not_there_is_named(cluster: FakeCluster, admin: AdminClient) -> None:
    cluster.groups.commit("g", "t", 1)
    with pytest.raises(errors.GroupIdNotFound, match="there is no group 'x'"):
        admin.describe_groups("x")
    with pytest.raises(errors.PartialFailure) as partly:
        admin.describe_groups(["x", "g"])
    assert list(partly.value.results) == ["g"]
    assert isinstance(partly.value.errors["x"], errors.GroupIdNotFound)
    for wrong in ("", 5, None):
        with pytest.raises((errors.InvalidGroupId, errors.InvalidRequest)):
            admin.describe_groups([wrong])  # type: ignore[list-item]


# ---- coordinators that are not ready -------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        errors.CoordinatorLoadInProgress.code,
        errors.CoordinatorNotAvailable.code,
        errors.NotCoordinator.code,
    ],
)
@pytest.mark.parametrize("request_", ["FindCoordinator", "OffsetFetch"])
def test_a_coordinator_that_loads_or_moves_is_asked_again(
    cluster: FakeCluster, admin: AdminClient, request_: str, code: int
) -> None:
    cluster.groups.commit("g", "t", 7)
    cluster.groups.faults[request_] = deque([code, code])
    assert admin.list_group_offsets("g") == {T0: OffsetAndMetadata(7)}
    assert cluster.groups.asked.count("FindCoordinator") == 3


def test_groups_are_looked_for_together(cluster: FakeCluster, admin: AdminClient) -> None:
    groups = [f"g{n}" for n in range(20)]
    for group in groups:
        cluster.groups.commit(group, "t", 1)
    assert list(admin.describe_groups(groups)) == groups
    assert cluster.groups.asked.count("FindCoordinator") == 1


def test_when_the_time_is_up_the_last_fault_is_told(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    loading = [errors.CoordinatorLoadInProgress.code] * 10_000
    cluster.groups.faults["DeleteGroups"] = deque(loading)
    with pytest.raises(errors.RequestTimedOut) as late:
        admin.delete_groups("g", timeout=1.5)
    assert "delete groups: g: not done within 1.5 s; last fault: COORDINATOR_LOAD" in str(
        late.value
    )


def test_a_coordinator_that_is_gone_is_looked_for_anew(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    cluster.groups.commit("g", "t", 7)
    cluster.groups.coordinators["g"] = 2
    assert admin.list_group_offsets("g") == {T0: OffsetAndMetadata(7)}
    cluster.stop_broker(2)
    cluster.groups.coordinators["g"] = 1
    assert admin.list_group_offsets("g") == {T0: OffsetAndMetadata(7)}


# ---- offsets -------------------------------------------------------------------------------------


def test_offsets_are_set_listed_and_deleted(cluster: FakeCluster, admin: AdminClient) -> None:
    admin.alter_group_offsets("g", {T1: 5, T0: OffsetAndMetadata(3, "here", 2)})
    assert admin.list_group_offsets("g") == {
        T0: OffsetAndMetadata(3, "here", 2),
        T1: OffsetAndMetadata(5),
    }
    assert admin.list_group_offsets("g", [T2, T1]) == {T2: None, T1: OffsetAndMetadata(5)}
    assert admin.list_group_offsets("nobody") == {}
    admin.delete_group_offsets("g", [T1])
    assert list(admin.list_group_offsets("g")) == [T0]
    with pytest.raises(errors.OffsetOutOfRange, match="t-0: offset -1; it must be from 0"):
        admin.alter_group_offsets("g", {T0: -1})
    with pytest.raises(errors.GroupIdNotFound, match="'nobody'"):
        admin.delete_group_offsets("nobody", [T1])


def test_offsets_that_are_refused_are_told_one_by_one(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    large = OffsetAndMetadata(1, "x" * 5_000)
    with pytest.raises(errors.PartialFailure) as partly:
        admin.alter_group_offsets("g", {T0: large, T1: 5})
    assert partly.value.results == {T1: None}
    assert isinstance(partly.value.errors[T0], errors.OffsetMetadataTooLarge)
    assert admin.list_group_offsets("g") == {T1: OffsetAndMetadata(5)}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_live_members_keeps_its_offsets(
    cluster: FakeCluster, admin: AdminClient, protocol: str
) -> None:
    cluster.groups.commit("g", "t", 7)
    if protocol == "classic":
        cluster.groups.join_classic("g", "m", SUBSCRIBES, READS)
    else:
        cluster.groups.join_consumer("g", "m", "t")
    with pytest.raises(errors.UnknownMemberId) as refused:
        admin.alter_group_offsets("g", {T0: 0})
    assert str(refused.value) == (
        "group 'g' has live members, and they alone commit: stop them, then set its offsets"
    )
    with pytest.raises(errors.GroupSubscribedToTopic) as read:
        admin.delete_group_offsets("g", [T0])
    assert str(read.value) == "t-0: live members of group 'g' read t: stop them first"
    with pytest.raises(errors.NonEmptyGroup) as living:
        admin.delete_groups("g")
    assert str(living.value) == "group 'g' has live members: stop them first"
    assert admin.list_group_offsets("g")[T0] is not None


def test_groups_are_deleted_each_by_itself(cluster: FakeCluster, admin: AdminClient) -> None:
    for group in ("a", "b"):
        cluster.groups.commit(group, "t", 7)
    cluster.groups.coordinators["b"] = 2
    with pytest.raises(errors.PartialFailure) as partly:
        admin.delete_groups(["a", "x", "b"])
    assert list(partly.value.results) == ["a", "b"]
    assert list(partly.value.errors) == ["x"]
    assert admin.list_groups() == []


# ---- members -------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("instance", [None, "i"])
def test_members_are_removed(
    cluster: FakeCluster, admin: AdminClient, protocol: str, instance: str | None
) -> None:
    if protocol == "classic":
        member = cluster.groups.join_classic("g", "m", SUBSCRIBES, READS, instance=instance)
    else:
        cluster.groups.join_consumer("g", "m", "t", instance=instance)
        member = "m"
    with pytest.raises(errors.UnknownMemberId, match="group 'g' has no member 'x'"):
        admin.remove_group_members("g", "x")
    wanted = None if instance is None else [instance]
    assert admin.remove_group_members("g", wanted, reason="maintenance") == [member]
    assert admin.remove_group_members("g") == []
    assert admin.describe_groups("g")["g"].state == "Empty"


# ---- lag -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("short_grace")
def test_lag_counts_the_records_behind_each_position(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(5):
            producer.send("t", b"x", partition=number % 2)
    cluster.groups.commit("g", "t", 1)
    cluster.groups.commit("g", "gone", 4)
    cluster.groups.join_consumer("g", "m", "t")
    cluster.groups.commit("far", "t", 9)
    lags = admin.group_lag(["g", "far"])
    gone = lags["g"].pop(TopicPartition("gone", 0))
    seconds = lags["g"][T0].lag_seconds
    assert seconds is not None
    assert 0 <= seconds < 60
    assert lags == {
        "g": {
            T0: PartitionLag(OffsetAndMetadata(1), 3, lag_seconds=seconds),
            T1: PartitionLag(None, 2),
        },
        "far": {T0: PartitionLag(OffsetAndMetadata(9), 3, lag_seconds=0.0)},
    }
    assert [lag.lag for lag in lags["g"].values()] == [2, None]
    assert lags["far"][T0].lag == 0
    assert (gone.committed, gone.end_offset, gone.lag) == (OffsetAndMetadata(4), None, None)
    assert isinstance(gone.error, errors.UnknownTopicOrPartition)


def test_a_streams_group_is_described_with_its_tasks(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    shard = cluster.groups.shard
    set_topic(shard, "words", 2)
    member = Streamer(shard, "m", WORDS._replace(subtopologies=(Subtopology("0", ("words",)),)))
    member.beat()
    shard.advance(3_000)
    settle_streams(member)
    group = admin.describe_groups("g")["g"]
    assert (group.type, group.state, group.protocol_type) == ("streams", "Stable", "streams")
    (told,) = group.members
    tasks = StreamsTasks((StreamsTask("0", 0), StreamsTask("0", 1)))
    assert (told.type, told.tasks, told.target_tasks) == ("streams", tasks, tasks)
    assert (told.process_id, told.epoch, told.assignment) == ("m", group.assignment_epoch, None)
    assert [str(task) for task in tasks.active] == ["0_0", "0_1"]


def test_lag_in_seconds_is_the_age_of_the_oldest_record_that_is_left(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    """The groups are at several offsets, also in the middle of a batch; nobody asks for those that
    are at the end.
    """
    now_ms = SYSTEM_CLOCK.wall_ms()
    times = [now_ms - ago for ago in (100_000, 90_000, 80_000)]
    first, second = cluster.topics["t"].partitions
    first.append(encode_batch([b"a", b"b", b"c"], timestamps=times))
    second.append(encode_batch([b"a"], timestamps=-1))
    for group, offsets in {"a": (0, 1), "b": (1, 0), "c": (2,), "d": (2, 0), "e": (3, 1)}.items():
        cluster.groups.commit(group, "t", *offsets)
    lags = admin.group_lag([*"abcde"])
    took_s = (SYSTEM_CLOCK.wall_ms() - now_ms) / 1000
    seconds = {
        group: [lag.lag_seconds for lag in partitions.values()]
        for group, partitions in lags.items()
    }
    for group, ago in {"a": 100, "b": 90, "c": 80, "d": 80}.items():
        age = seconds[group].pop(0)
        assert age is not None
        assert ago <= age <= ago + took_s
    assert seconds == {"a": [0.0], "b": [None], "c": [], "d": [None], "e": [0.0, 0.0]}
