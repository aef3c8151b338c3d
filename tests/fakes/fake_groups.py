"""The answers of a `FakeCluster` about groups: one real coordinator, over a log in memory, behind
the messages of the Group service. Every group has its broker; the others say that it is not theirs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pylog import errors
from pylog.model import LeaderEpoch, TopicId, TopicPartition
from pylog.rpc.v1 import (
    common_pb2,
    group_pb2,
    group_pb2_grpc,
    streams_group_pb2,
    streams_group_pb2_grpc,
)
from pylog_broker.api.groups.streams import DescribedStreams
from pylog_broker.coordinator.groups.classic.messages import (
    JoinGroup,
    LeaveGroup,
    Leaving,
    MemberProtocol,
    SyncGroup,
)
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.messages import ConsumerHeartbeat
from pylog_broker.coordinator.groups.consumer.topics import (
    Partitions,
    SubscribedTopic,
    TopicIdPartition,
)
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    DeleteGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from pylog_broker.coordinator.groups.share.messages import ShareHeartbeat
from pylog_broker.coordinator.runtime.decision import Decision, RequestId
from pylog_broker.metadata.messages import failure_of
from pylog_broker.protobuf.streams_groups import described
from tests.fakes.fake_topics import FakeTopic
from tests.fakes.group_shard import GroupShard

Operation = Callable[[GroupCoordinator, RequestId], Decision]


class Grouped(Protocol):
    """The cluster, as groups see it."""

    topics: dict[str, FakeTopic]

    def live(self) -> list[common_pb2.Broker]: ...


class GroupWorld:
    """The groups of a cluster. `coordinators` places groups, others are at the first live broker.
    `faults`: codes with which the coordinator answers the next requests about a group, by the
    request's name; 0 for none.
    """

    def __init__(self, cluster: Grouped) -> None:
        self._cluster = cluster
        self.lock = threading.RLock()
        self.shard = GroupShard(GroupConfig(initial_rebalance_delay_ms=0))
        self.coordinators: dict[str, int] = {}
        self.faults: dict[str, deque[int]] = {}
        self.asked: list[str] = []
        """The names of the requests that came, in order."""

    def broker_of(self, group: str) -> int:
        """The group's coordinator."""
        return self.coordinators.get(group) or self._cluster.live()[0].id

    def ask(self, operation: Operation) -> Any:
        """The coordinator's answer, a PylogError for a refusal."""
        with self.lock:
            self._look_at_topics()
            return self.shard.answer(operation)

    def told(self, broker: int, request: str, group: str, operation: Operation) -> Any:
        """The answer of that broker to a request about a group."""
        with self.lock:
            faults = self.faults.get(request)
            code = faults.popleft() if faults else 0
            if code:
                return errors.from_code(code, "")
            if self.broker_of(group) != broker:
                return errors.NotCoordinator(f"broker {broker} does not coordinate {group!r}")
            return self.ask(operation)

    # ---- members, as their own programs would be ----------------------------------------------

    def join_consumer(
        self, group: str, member: str, *topics: str, instance: str | None = None
    ) -> int:
        """A member of the consumer protocol that joins and takes what it is given; its epoch."""
        joins = ConsumerHeartbeat(
            group, member, 0, instance_id=instance, rebalance_timeout_ms=60_000,
            subscribed_names=topics, owned=frozenset(), client_id=f"{member}-app",
            client_host="/127.0.0.1",
        )  # fmt: skip
        answer = self.ask(lambda c, r: c.consumer_heartbeat(r, joins))
        for _ in range(3):
            beats = ConsumerHeartbeat(
                group, member, answer.member_epoch, instance_id=instance,
                owned=self._assigned(group, member), client_id=f"{member}-app",
                client_host="/127.0.0.1",
            )  # fmt: skip
            answer = self.ask(lambda c, r, beats=beats: c.consumer_heartbeat(r, beats))
        return int(answer.member_epoch)

    def _assigned(self, group: str, member: str) -> Partitions:
        described = self.ask(lambda c, r: c.describe_consumer(r, group))
        return next((m.assigned for m in described.members if m.member_id == member), frozenset())

    def join_classic(
        self,
        group: str,
        member: str,
        metadata: bytes,
        assignment: bytes,
        *,
        instance: str | None = None,
        protocol_type: str = "consumer",
    ) -> str:
        """The only member of a classic group, with that assignment; its member id."""
        join = JoinGroup(
            group, "", instance, f"{member}-app", "/127.0.0.1", 10_000, 30_000, protocol_type,
            (MemberProtocol("range", metadata),), member, requires_known_member_id=False,
        )  # fmt: skip
        joined = self.ask(lambda c, r: c.join(self.shard.wall_ms, r, join))
        sync = SyncGroup(
            group, joined.member_id, instance, joined.generation, protocol_type, "range",
            {joined.member_id: assignment},
        )  # fmt: skip
        self.ask(lambda c, r: c.sync(self.shard.wall_ms, r, sync))
        return str(joined.member_id)

    def join_share(self, group: str, member: str, *topics: str) -> int:
        """A member of a share group that takes what it is given; its epoch."""
        joins = ShareHeartbeat(
            group, member, 0, subscribed_names=topics, client_id=f"{member}-app",
            client_host="/127.0.0.1",
        )  # fmt: skip
        first = self.ask(lambda c, r: c.share_heartbeat(r, joins))
        self.ask(lambda c, r: c.share.state_initialized(r, group, first.to_initialize))
        beats = joins._replace(member_epoch=first.member_epoch, subscribed_names=None)
        return int(self.ask(lambda c, r: c.share_heartbeat(r, beats)).member_epoch)

    def commit(self, group: str, topic: str, *offsets: int) -> None:
        """Commits of nobody, for the partitions from 0 on."""
        wanted = {TopicPartition(topic, n): CommittedOffset(o) for n, o in enumerate(offsets)}
        request = OffsetCommit(group, Caller(), wanted)
        self.ask(lambda c, r: c.commit_offsets(self.shard.wall_ms, r, request))

    def _look_at_topics(self) -> None:
        """As the broker tells the coordinator of its metadata."""
        known = {
            name: SubscribedTopic(name, TopicId(topic.topic_id), len(topic.partitions))
            for name, topic in self._cluster.topics.items()
        }
        changed = {n for n, t in known.items() if self.shard.topics.get(n) != t}
        self.shard.topics.update(known)
        if changed:
            self.shard.tell(lambda c: c.on_topics_changed(changed))

    def names_of(self, partitions: Iterable[TopicIdPartition]) -> group_pb2.AssignedPartitions:
        """Partitions as messages have them."""
        names = {topic.topic_id: name for name, topic in self.shard.topics.items()}
        told = group_pb2.AssignedPartitions()
        by_topic: dict[TopicId, list[int]] = {}
        for topic_id, number in sorted(partitions):
            by_topic.setdefault(topic_id, []).append(number)
        for each, numbers in by_topic.items():
            told.topics.add(topic_id=each, topic=names.get(each, ""), partitions=numbers)
        return told


class FakeStreamsGroups(streams_group_pb2_grpc.StreamsGroupServicer):
    """One broker's side of streams groups, to look at."""

    def __init__(self, world: GroupWorld, broker: int) -> None:
        self._world = world
        self._broker = broker

    def StreamsGroupDescribe(
        self, request: streams_group_pb2.StreamsGroupDescribeRequest, _context: Any
    ) -> streams_group_pb2.StreamsGroupDescribeResponse:
        name = "StreamsGroupDescribe"
        self._world.asked.append(name)
        found = []
        for group in request.group_ids:
            answer = self._world.told(
                self._broker, name, group, lambda c, r, g=group: c.describe_streams(r, g)
            )
            failed = isinstance(answer, errors.PylogError)
            found.append(
                DescribedStreams(group, failure_of(answer))
                if failed
                else DescribedStreams(group, None, answer)
            )
        return described(found)


class FakeGroups(group_pb2_grpc.GroupServicer):
    """One broker's side of it."""

    def __init__(self, world: GroupWorld, broker: int) -> None:
        self._world = world
        self._broker = broker

    def _told(self, request: Any, group: str, operation: Operation) -> Any:
        name = type(request).__name__.removesuffix("Request")
        self._world.asked.append(name)
        return self._world.told(self._broker, name, group, operation)

    def FindCoordinator(
        self, request: group_pb2.FindCoordinatorRequest, _context: Any
    ) -> group_pb2.FindCoordinatorResponse:
        self._world.asked.append("FindCoordinator")
        response = group_pb2.FindCoordinatorResponse()
        faults = self._world.faults.get("FindCoordinator")
        for key in request.keys:
            told = response.coordinators.add(key=key, broker_id=-1)
            told.error.code = faults.popleft() if faults else 0
            if not told.error.code:
                told.broker_id = self._world.broker_of(_place(request.type, key))
        return response

    def ConsumerGroupHeartbeat(
        self, request: group_pb2.ConsumerGroupHeartbeatRequest, _context: Any
    ) -> group_pb2.ConsumerGroupHeartbeatResponse:
        """Takes the heartbeats of members that go."""
        assert request.member_epoch < 0
        instance = request.instance_id if request.HasField("instance_id") else None
        asked = ConsumerHeartbeat(
            request.group_id, request.member_id, request.member_epoch, instance_id=instance
        )
        answer = self._told(request, request.group_id, lambda c, r: c.consumer_heartbeat(r, asked))
        response = group_pb2.ConsumerGroupHeartbeatResponse()
        if not refused(response.error, answer):
            response.member_id, response.member_epoch = answer.member_id, answer.member_epoch
        return response

    def LeaveGroup(
        self, request: group_pb2.LeaveGroupRequest, _context: Any
    ) -> group_pb2.LeaveGroupResponse:
        members = tuple(
            Leaving(m.member_id, m.instance_id if m.HasField("instance_id") else None, m.reason)
            for m in request.members
        )
        asked = LeaveGroup(request.group_id, members)
        wall_ms = self._world.shard.wall_ms
        answer = self._told(request, request.group_id, lambda c, r: c.leave(wall_ms, r, asked))
        response = group_pb2.LeaveGroupResponse()
        if not refused(response.error, answer):
            for leaving, fault in answer.members:
                told = response.members.add(member_id=leaving.member_id)
                refused(told.error, fault)
        return response

    def OffsetCommit(
        self, request: group_pb2.OffsetCommitRequest, _context: Any
    ) -> group_pb2.OffsetCommitResponse:
        wanted = {
            TopicPartition(o.topic, o.partition): CommittedOffset(
                o.offset, LeaderEpoch(o.leader_epoch), o.metadata
            )
            for o in request.offsets
        }
        caller = Caller(request.member_id, None, request.generation_or_epoch)
        asked = OffsetCommit(request.group_id, caller, wanted)
        wall_ms = self._world.shard.wall_ms
        answer = self._told(
            request, request.group_id, lambda c, r: c.commit_offsets(wall_ms, r, asked)
        )
        response = group_pb2.OffsetCommitResponse()
        if not refused(response.error, answer):
            _outcomes(response.offsets, answer.partitions)
        return response

    def OffsetFetch(
        self, request: group_pb2.OffsetFetchRequest, _context: Any
    ) -> group_pb2.OffsetFetchResponse:
        wanted = tuple(TopicPartition(p.topic, p.partition) for p in request.partitions)
        caller = Caller(request.member_id, None, request.member_epoch)
        asked = OffsetFetch(request.group_id, caller, None if request.all else wanted)
        answer = self._told(request, request.group_id, lambda c, r: c.fetch_offsets(r, asked))
        response = group_pb2.OffsetFetchResponse()
        if not refused(response.error, answer):
            for tp, found in answer.partitions.items():
                told = response.offsets.add(topic=tp.topic, partition=tp.partition, offset=-1)
                told.leader_epoch = -1
                if found is not None:
                    told.offset, told.leader_epoch = found.offset, found.leader_epoch
                    told.metadata = found.metadata
        return response

    def OffsetDelete(
        self, request: group_pb2.OffsetDeleteRequest, _context: Any
    ) -> group_pb2.OffsetDeleteResponse:
        wanted = tuple(TopicPartition(p.topic, p.partition) for p in request.partitions)
        asked = OffsetDelete(request.group_id, wanted)
        answer = self._told(request, request.group_id, lambda c, r: c.delete_offsets(r, asked))
        response = group_pb2.OffsetDeleteResponse()
        if not refused(response.error, answer):
            _outcomes(response.offsets, answer.partitions)
        return response

    def ListGroups(
        self, request: group_pb2.ListGroupsRequest, _context: Any
    ) -> group_pb2.ListGroupsResponse:
        self._world.asked.append("ListGroups")
        response = group_pb2.ListGroupsResponse()
        faults = self._world.faults.get("ListGroups")
        response.error.code = faults.popleft() if faults else 0
        if response.error.code:
            return response
        for group in self._world.ask(lambda c, r: c.list_groups(r)):
            taken = self._world.broker_of(group.group_id) == self._broker
            taken &= not request.states or group.state in request.states
            if taken and (not request.types or group.type.value in request.types):
                response.groups.add(
                    group_id=group.group_id,
                    type=group.type.value,
                    protocol_type=group.protocol_type,
                    state=group.state,
                )
        return response

    def DescribeGroups(
        self, request: group_pb2.DescribeGroupsRequest, _context: Any
    ) -> group_pb2.DescribeGroupsResponse:
        response = group_pb2.DescribeGroupsResponse()
        for group in request.group_ids:
            told = response.groups.add(group_id=group)
            answer = self._told(request, group, lambda c, r, g=group: c.describe_classic(r, g))
            if refused(told.error, answer):
                continue
            told.state, told.protocol_type = answer.state, answer.protocol_type
            told.protocol = answer.protocol
            for member in answer.members:
                told.members.add(**member._asdict())
        return response

    def ConsumerGroupDescribe(
        self, request: group_pb2.ConsumerGroupDescribeRequest, _context: Any
    ) -> group_pb2.ConsumerGroupDescribeResponse:
        response = group_pb2.ConsumerGroupDescribeResponse()
        for group in request.group_ids:
            told = response.groups.add(group_id=group)
            answer = self._told(request, group, lambda c, r, g=group: c.describe_consumer(r, g))
            if refused(told.error, answer):
                continue
            told.state, told.assignor = answer.state, answer.assignor
            told.group_epoch = answer.group_epoch
            told.assignment_epoch = answer.assignment_epoch
            for member in answer.members:
                told.members.add(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    rack_id=member.rack_id,
                    member_epoch=member.member_epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topics=member.subscribed_names,
                    subscribed_topic_regex=member.subscribed_regex,
                    assigned=self._world.names_of(member.assigned),
                    target=self._world.names_of(member.target),
                    type="consumer",
                )
        return response

    def DeleteGroups(
        self, request: group_pb2.DeleteGroupsRequest, _context: Any
    ) -> group_pb2.DeleteGroupsResponse:
        response = group_pb2.DeleteGroupsResponse()
        for group in request.group_ids:
            told = response.groups.add(group_id=group)
            asked = DeleteGroups((group,))
            answer = self._told(request, group, lambda c, r, a=asked: c.delete_groups(r, a))
            if not refused(told.error, answer):
                refused(told.error, answer.groups[group])
        return response


def _place(kind: Any, key: str) -> str:
    """The key in `coordinators`: transactional ids are no groups."""
    return f"txn:{key}" if kind == group_pb2.COORDINATOR_TRANSACTION else key


def refused(error: common_pb2.Error, answer: Any) -> bool:
    """Whether the answer is a refusal, which the message tells then."""
    if not isinstance(answer, errors.PylogError):
        return False
    error.code, error.message = answer.code, str(answer)
    return True


def _outcomes(offsets: Any, outcomes: dict[TopicPartition, Any]) -> None:
    for tp, fault in outcomes.items():
        told = offsets.add(topic=tp.topic, partition=tp.partition)
        refused(told.error, fault)
