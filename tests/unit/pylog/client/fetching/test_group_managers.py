"""Consumers of a group, and topics that make room for others of their name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pylog import errors
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.fetching.consumer_core import ConsumerCore
from pylog.client.fetching.fetch_events import (
    Fetch,
    FetchItem,
    ListOffsets,
    Notice,
    RefreshMetadata,
)
from pylog.client.fetching.fetch_state import FetcherSettings
from pylog.client.fetching.group_managers import GroupManagers, GroupSettings
from pylog.client.fetching.subscription import Subscription
from pylog.client.fetching.user_events import Assign, Seek, Subscribe
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.member_state import RebalanceListener
from pylog.client.membership.messages import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswer,
    CoordinatorFound,
    FindCoordinator,
    OffsetCommit,
    OffsetFetch,
    OffsetsCommitted,
    OffsetsFetched,
    PartitionCommitted,
    PartitionOffset,
    TargetPartitions,
)
from pylog.model import EARLIEST_TIMESTAMP, OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Listener:
    """Keeps what was lost."""

    def __init__(self) -> None:
        self.lost: list[TopicPartition] = []

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        raise AssertionError("nothing is revoked")

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.lost += partitions


class World:
    """The only member, its user, its coordinator and the metadata."""

    def __init__(self) -> None:
        self.metadata = ClusterMetadata()
        self.tell("A")
        settings = GroupSettings(MembershipSettings(), GroupIdentity("g", None, "me"))
        self.core = ConsumerCore(
            FetcherSettings(), self.metadata, lambda: 0.5, lambda: 1_000_000, settings
        )
        assert self.core.group is not None
        self.group: GroupManagers = self.core.group
        self.group.subscribe(["t"])
        self.group.on_user_poll(0)
        self.out: list[object] = []
        (request,) = self.asked(FindCoordinator)
        self.group.on_answer(0, request, CoordinatorFound(7))

    def tell(self, topic_id: str) -> None:
        """The metadata have the topic under that id."""
        brokers = (BrokerInfo(1, Address("h", 1)),)
        topics = (TopicInfo("t", topic_id, False, (PartitionInfo(1, 0),) * 2),)
        self.metadata.update(ClusterSnapshot("c", 1, brokers, None, topics))

    def asked(self, kind: type) -> list:  # type: ignore[type-arg]
        self.out += self.core.poll(0).requests
        found = [each for each in self.out if isinstance(each, kind)]
        self.out.clear()
        return found

    def beats(self, *target: tuple[str, str, tuple[int, ...]]) -> ConsumerGroupHeartbeat:
        """A heartbeat, whose answer names a target."""
        request: ConsumerGroupHeartbeat
        (request,) = self.asked(ConsumerGroupHeartbeat)
        named: TargetPartitions | None = target or None
        answer = ConsumerGroupHeartbeatAnswer(1, 0, None, target=named)
        self.group.on_answer(0, request, answer)
        self.out += self.core.poll(0).requests
        return request

    def settle(self, topic_id: str) -> None:
        """The member has both partitions, and the coordinator knows."""
        self.beats((topic_id, "t", (0, 1)))
        assert self.owned == (T0, T1)

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return self.group.membership.owned

    def hears_metadata(self) -> None:
        self.group.on_metadata(0)
        self.core.poll(0)


def test_a_topic_under_the_name_of_one_that_was_given_is_not_read() -> None:
    world = World()
    world.settle("A")
    world.tell("B")
    world.hears_metadata()
    assert world.owned == ()
    assert world.group.granted_id(T0) == ""


def test_metadata_that_are_behind_the_coordinator_take_nothing_away() -> None:
    world = World()
    world.settle("B")
    world.hears_metadata()
    assert world.owned == (T0, T1)
    world.tell("B")
    world.hears_metadata()
    assert world.owned == (T0, T1)
    world.tell("C")
    world.hears_metadata()
    assert world.owned == ()


def test_a_target_that_names_another_topic_of_that_name_is_taken_anew() -> None:
    world = World()
    world.settle("A")
    before = world.core.positions.partitions[T1]
    assert world.beats().owned == (T0, T1)
    world.beats(("B", "t", (1,)))
    assert world.owned == (T1,)
    assert world.group.granted_id(T1) == "B"
    assert world.core.positions.partitions[T1] is not before


def test_a_topic_that_was_given_and_is_gone_is_not_read_while_something_else_is_given_up() -> None:
    world = World()
    world.core.fetcher.active = True
    world.settle("A")
    partition = world.core.positions.partitions[T0]
    world.beats(("A", "t", (0,)))
    world.tell("B")
    world.core.on_metadata(0)
    world.core.poll(0)
    assert world.owned == (T0, T1)  # the user is to come, and be done with T1
    assert partition.held
    world.group.on_user_poll(0)
    world.core.poll(0)
    assert world.owned == ()


def test_what_is_given_up_is_not_read_when_the_metadata_have_its_topic_at_last() -> None:
    world = World()
    world.settle("B")
    world.beats(("B", "t", (0,)))
    world.tell("B")
    world.core.on_metadata(0)
    world.core.poll(0)
    held = {tp: each.held for tp, each in world.core.positions.partitions.items()}
    assert held == {T0: False, T1: True}


def test_nothing_is_asked_of_a_topic_whose_name_is_another_topics_in_the_metadata() -> None:
    """Brokers that are behind may lead the old one yet."""
    world = World()
    world.core.fetcher.active = True
    world.beats(("B", "t", (0, 1)))
    beat: type = ConsumerGroupHeartbeat
    asked = [each for each in world.out if not isinstance(each, beat)]
    assert asked == [RefreshMetadata(("t",))]
    world.out.clear()
    world.tell("A")
    world.hears_metadata()
    asked = [each for each in world.core.poll(100).requests if not isinstance(each, beat)]
    assert asked == [RefreshMetadata(("t",))]
    world.tell("B")
    world.group.on_metadata(200)
    assert world.core.poll(200).requests == [OffsetFetch(7, "g", (T0, T1))]


def test_a_partition_is_read_from_its_position_when_the_metadata_have_its_topic() -> None:
    world = World()
    world.core.fetcher.active = True
    world.settle("B")
    assert world.asked(OffsetFetch) == []
    world.tell("B")
    world.group.on_metadata(0)
    (question,) = world.asked(OffsetFetch)
    committed = OffsetAndMetadata(7)
    found = tuple(PartitionOffset(tp, committed) for tp in (T0, T1))
    world.group.on_answer(0, question, OffsetsFetched(found))
    (fetch,) = world.asked(Fetch)
    assert fetch.items == (FetchItem(T1, "B", 7, 0, -1), FetchItem(T0, "B", 7, 0, -1))


def test_where_the_user_has_sought_is_not_read_before_the_metadata_have_the_topic() -> None:
    world = World()
    world.core.fetcher.active = True
    world.settle("B")
    for partition in world.core.positions.partitions.values():
        world.core.positions.seek(partition, 3)
    assert world.asked(Fetch) == []
    world.tell("B")
    world.group.on_metadata(0)
    (fetch,) = world.asked(Fetch)
    assert fetch.items == (FetchItem(T1, "B", 3, 0, -1), FetchItem(T0, "B", 3, 0, -1))


class ByName:
    """A consumer that knows its topic by name alone, as members of the classic protocol do: its
    user has assigned the partition, and its group has committed.
    """

    def __init__(self, topic_id: str) -> None:
        self.metadata = ClusterMetadata()
        settings = GroupSettings(MembershipSettings(), GroupIdentity("g", None, "me"))
        self.core = ConsumerCore(
            FetcherSettings(), self.metadata, lambda: 0.5, lambda: 1_000_000, settings
        )
        assert self.core.group is not None
        self.group: GroupManagers = self.core.group
        self.core.fetcher.active = True
        if topic_id:
            self.hears_of(0, topic_id)
        self.core.on_user(0, Assign((T0,)))
        (asked,) = [each for each in self.polls(0) if isinstance(each, FindCoordinator)]
        self.group.on_answer(0, asked, CoordinatorFound(7))
        (self.question,) = self.polls(0)

    def polls(self, now_ms: int) -> list[object]:
        requests = [*self.core.poll(now_ms).requests]
        self.asked = [each for each in requests if isinstance(each, OffsetFetch)]
        return requests

    def hears_of(self, now_ms: int, topic_id: str) -> list[object]:
        """The metadata have come, with the topic under that id; what follows."""
        brokers = (BrokerInfo(1, Address("h", 1)),)
        topics = (TopicInfo("t", topic_id, False, (PartitionInfo(1, 0),)),)
        self.metadata.update(ClusterSnapshot("c", 1, brokers, None, topics))
        return [*self.core.on_metadata(now_ms), *self.polls(now_ms)]

    def is_told(self, now_ms: int, offset: int | None, topic_id: str) -> list[object]:
        """The coordinator has answered; what follows."""
        committed = None if offset is None else OffsetAndMetadata(offset, "", 3)
        told = OffsetsFetched((PartitionOffset(T0, committed, topic_id=topic_id),))
        (question,) = self.asked
        self.group.on_answer(now_ms, question, told)
        return self.polls(now_ms)


def test_an_offset_in_a_topic_that_the_metadata_do_not_have_yet_waits_for_them() -> None:
    """In the topic before it would count as if it had been read up to there."""
    consumer = ByName("A")
    assert consumer.is_told(1, 8, "B") == [RefreshMetadata(("t",))]
    assert consumer.hears_of(60, "A") == [consumer.question]
    assert consumer.is_told(150, 8, "B") == [RefreshMetadata(("t",))]
    assert consumer.hears_of(160, "B") == [consumer.question]
    assert consumer.is_told(161, 8, "B") == [Fetch(1, 1, 500, (FetchItem(T0, "B", 8, 0, 3),))]


def test_an_offset_in_a_topic_that_is_gone_by_the_metadata_does_not_count() -> None:
    consumer = ByName("B")
    assert consumer.is_told(1, 253, "A") == [RefreshMetadata(("t",))]
    assert consumer.hears_of(2, "B") == [consumer.question]
    latest = ListOffsets(1, ((T0, -1, 0, 0),))
    assert consumer.is_told(3, None, "") == [latest]


def test_an_offset_that_was_told_before_the_metadata_came_is_none_in_another_topic() -> None:
    """Nothing was asked of a broker that could have said so."""
    consumer = ByName("")
    assert consumer.is_told(1, 253, "A") == [RefreshMetadata(("t",))]
    assert consumer.hears_of(2, "B") == [
        Notice(
            "t-0: the topic was deleted and created anew; its offsets begin again, and so does "
            "this consumer"
        ),
        ListOffsets(1, ((T0, EARLIEST_TIMESTAMP, 0, 2),)),
    ]


def test_an_offset_of_which_nobody_knows_the_topic_counts_by_the_name() -> None:
    consumer = ByName("A")
    assert consumer.is_told(1, 8, "") == [Fetch(1, 1, 500, (FetchItem(T0, "A", 8, 0, 3),))]


def test_where_the_user_has_sought_counts_while_the_coordinator_has_another_topic() -> None:
    consumer = ByName("A")
    consumer.core.on_user(1, Seek(T0, 5))
    assert consumer.is_told(1, 8, "B") == [Fetch(1, 1, 500, (FetchItem(T0, "A", 5, 0, -1),))]
    assert consumer.polls(200) == []


def test_metadata_that_come_while_a_member_leaves_do_not_have_it_join_again() -> None:
    world = World()
    world.core.on_user(0, Subscribe(Subscription.of("t", None)))
    world.settle("A")
    (request,) = world.asked(ConsumerGroupHeartbeat)
    left = world.group.leave(0, {})
    world.core.on_metadata(0)
    world.group.on_answer(0, request, ConsumerGroupHeartbeatAnswer(1, 0, None))
    world.core.poll(0)
    world.group.on_user_rest(0)
    (request,) = world.asked(ConsumerGroupHeartbeat)
    assert request.epoch == -1
    world.core.on_metadata(0)
    world.group.on_answer(0, request, ConsumerGroupHeartbeatAnswer(-1, 0, None))
    assert left.done
    world.core.on_metadata(0)
    assert world.asked(ConsumerGroupHeartbeat) == []
    world.core.on_user(0, Assign(()))
    world.core.on_metadata(0)
    assert world.asked(ConsumerGroupHeartbeat) == []
    world.core.on_user(0, Subscribe(Subscription.of("t", None)))
    (request,) = world.asked(ConsumerGroupHeartbeat)
    assert request.epoch == 0


def _read_and_fenced(listener: RebalanceListener | None) -> World:
    """The user has read to offset 5, and the coordinator knows the member no more."""
    world = World()
    world.group.set_listener(listener)
    world.settle("A")
    world.core.positions.seek(world.core.positions.partitions[T0], 5)
    (request,) = world.asked(ConsumerGroupHeartbeat)
    fenced = ConsumerGroupHeartbeatAnswer(code=errors.UnknownMemberId.code)
    world.group.on_answer(0, request, fenced)
    world.out += world.core.poll(0).requests
    return world


def test_positions_that_are_lost_are_not_committed_by_committing_nothing() -> None:
    world = _read_and_fenced(None)
    assert world.owned == ()
    told: list[object] = []
    world.group.commit_async(0, None, {}, lambda offsets, error: told.append(error))
    world.core.for_user.popleft().run()
    assert [type(each) for each in told] == [errors.CommitFailed]
    for _ in range(2):  # the user has not come for more
        with pytest.raises(errors.CommitFailed, match="has gone on without this member"):
            world.group.commit(0, None, {}, 1_000).result()
    world.group.on_user_poll(0)
    assert world.group.commit(0, None, {}, 1_000).result() is None


def test_a_commit_in_a_new_life_does_not_hide_what_was_lost_in_the_one_before() -> None:
    """The member has joined again, has partitions and positions, and the user has not polled."""
    world = _read_and_fenced(None)
    world.beats(("A", "t", (1,)))
    assert world.owned == (T1,)
    world.core.positions.seek(world.core.positions.partitions[T1], 9)
    with pytest.raises(errors.CommitFailed):
        world.group.commit(0, None, {}, 1_000).result()


def test_a_listener_is_told_of_lost_partitions_and_commits_nothing_then() -> None:
    listener = Listener()
    world = _read_and_fenced(listener)
    answer = world.group.commit(0, None, {}, 1_000)
    world.core.poll(0)
    with pytest.raises(errors.CommitFailed):
        answer.result()
    while world.core.for_user:
        callback = world.core.for_user.popleft()
        callback.answer.succeed(callback.run())
        world.core.poll(0)
    assert listener.lost == [T0, T1]
    assert world.owned == ()
    assert world.group.commit(0, None, {}, 1_000).result() is None


def test_positions_that_are_given_up_by_leaving_are_not_lost() -> None:
    world = World()
    world.settle("A")
    world.core.positions.seek(world.core.positions.partitions[T0], 5)
    (request,) = world.asked(ConsumerGroupHeartbeat)
    world.group.leave(0, {})
    world.group.on_answer(0, request, ConsumerGroupHeartbeatAnswer(1, 0, None))
    world.core.poll(0)
    world.group.on_user_rest(0)
    (commit,) = world.asked(OffsetCommit)
    world.group.on_answer(0, commit, OffsetsCommitted((PartitionCommitted(T0),)))
    (request,) = world.asked(ConsumerGroupHeartbeat)
    world.group.on_answer(0, request, ConsumerGroupHeartbeatAnswer(-1, 0, None))
    world.core.poll(0)
    assert world.owned == ()
    assert world.group.commit(0, None, {}, 1_000).result() is None
