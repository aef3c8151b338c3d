"""A member of a group of the new protocol, and topics that make room for others of their name."""

from __future__ import annotations

from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.fetching.consumer_core import ConsumerCore
from pylog.client.fetching.fetch_state import FetcherSettings
from pylog.client.fetching.group_managers import GroupManagers, GroupSettings
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswer,
    CoordinatorFound,
    FindCoordinator,
    TargetPartitions,
)
from pylog.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


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
