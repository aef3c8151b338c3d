"""The protocol of streams groups: requests and time come in, decisions come out. Pure.

A heartbeat does in one decision all that it gives occasion for, as in the consumer protocol: the
member is new or has changed, the topology is new, its topics are there or not, so the group's epoch
goes up; there is a new target; and the member makes the steps that it can make now. While topics
are missing the target is empty, and each answer says what is missing. Internal topics are named in
the answer to whoever took the request, too, who has them created.

The first members of an empty group wait for others, for `streams.initial.rebalance.delay.ms`: until
then nobody is given anything.

A member that has not given up what it should within its rebalance time-out is none any more, and so
is one that has been silent for a session time-out. A group keeps the topology that its first member
brought; as in Kafka 4.2 another one needs a group of another name, and there are no static members
and no source topics by regular expression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from pylog.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    StreamsInvalidTopology,
    UnknownMemberId,
)
from pylog_broker.coordinator.generated.group_metadata import GroupMetadataKey
from pylog_broker.coordinator.generated.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from pylog_broker.coordinator.generated.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
)
from pylog_broker.coordinator.generated.streams_group_metadata import StreamsGroupMetadataKey
from pylog_broker.coordinator.generated.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
)
from pylog_broker.coordinator.generated.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from pylog_broker.coordinator.generated.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from pylog_broker.coordinator.groups.classic.group import ClassicGroup
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.topics import Topics
from pylog_broker.coordinator.groups.group import Group, GroupType
from pylog_broker.coordinator.groups.streams.assignor import AssignedMember, assign_sticky
from pylog_broker.coordinator.groups.streams.endpoints import endpoint_partitions
from pylog_broker.coordinator.groups.streams.group import (
    MemberState,
    StreamsGroup,
    StreamsMember,
)
from pylog_broker.coordinator.groups.streams.messages import (
    JOINING,
    LEAVING,
    Status,
    StatusCode,
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
)
from pylog_broker.coordinator.groups.streams.reconciliation import reconciled
from pylog_broker.coordinator.groups.streams.records import (
    current_record,
    group_record,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_of,
    target_record,
    topology_record,
    with_current,
    with_metadata,
)
from pylog_broker.coordinator.groups.streams.tasks import NO_TASKS, TaskId, Tasks
from pylog_broker.coordinator.groups.streams.topology import (
    ConfiguredTopology,
    configured,
    required_topics,
)
from pylog_broker.coordinator.runtime.decision import (
    CancelTimer,
    Decision,
    Record,
    Reply,
    RequestId,
    SetTimer,
)


# Dataclasses, as a named tuple equals each one of another class with the same fields.
@dataclass(frozen=True, slots=True)
class StreamsSessionTimer:
    """A member is not heard of."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class TaskRevocationTimer:
    """A member does not give up what it should."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class InitialTimer:
    """The first members of a group have waited for others."""

    group_id: str


StreamsTimer = StreamsSessionTimer | TaskRevocationTimer | InitialTimer
StreamsKey = (
    StreamsGroupMetadataKey
    | StreamsGroupMemberMetadataKey
    | StreamsGroupTargetAssignmentMetadataKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupCurrentMemberAssignmentKey
    | StreamsGroupTopologyKey
)
"""Keys of the records that such a group has."""


class _Beat(NamedTuple):
    """A heartbeat with what the group knows of its sender."""

    request: StreamsHeartbeat
    group: StreamsGroup
    present: StreamsMember
    """As it was; of a new one only the id."""
    owned: Tasks | None
    """The tasks that the member may work on, as far as is known."""


class _Epochs(NamedTuple):
    """The group's epoch, and what goes with it."""

    group_epoch: int
    topology: StreamsGroupTopologyValue
    configured: ConfiguredTopology


class StreamsProtocol:
    """Decides for all streams groups of one shard. Operations raise before they change anything.

    State that is not in records belongs to the coordinator that leads: which groups wait for their
    first members, the epochs of endpoints, and who has asked for the end of the application.
    """

    def __init__(
        self,
        groups: MutableMapping[str, Group],
        config: GroupConfig,
        topics: Topics,
        lost: Counter[GroupType],
    ) -> None:
        self._groups = groups
        self._config = config
        self._topics = topics
        self._lost = lost
        self._waiting: set[str] = set()
        self._endpoint_epochs: Counter[str] = Counter()
        self._shutdowns: dict[str, str] = {}
        """Member id by group."""

    # ---- loading ---------------------------------------------------------------------------------

    def replay(self, key: StreamsKey, value: Any | None) -> None:
        """Takes in a record. Compaction may leave any one of a group's records the first."""
        if value is None and isinstance(key, StreamsGroupMetadataKey):
            self._forget(key.group_id)
        group = self._groups.get(key.group_id)
        if not isinstance(group, StreamsGroup):
            if value is None:
                return
            group = self._groups[key.group_id] = StreamsGroup(key.group_id)
        match key:
            case StreamsGroupMetadataKey():
                if value is None:
                    del self._groups[key.group_id]
                else:
                    group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash
                    group.validated_epoch = value.validated_topology_epoch
                    configs = value.last_assignment_configs or ()
                    group.assignment_configs = tuple((each.key, each.value) for each in configs)
            case StreamsGroupTopologyKey():
                group.topology, group.configured = value, None
            case StreamsGroupMemberMetadataKey(_, member_id):
                if value is None:
                    group.remove(member_id)
                else:
                    group.members[member_id] = with_metadata(_member(group, member_id), value)
            case StreamsGroupTargetAssignmentMetadataKey():
                group.assignment_epoch = 0 if value is None else value.assignment_epoch
            case StreamsGroupTargetAssignmentMemberKey(_, member_id):
                if value is None:
                    group.target.pop(member_id, None)
                else:
                    group.target[member_id] = target_of(value)
            case StreamsGroupCurrentMemberAssignmentKey(_, member_id):
                if value is not None:
                    group.give(with_current(_member(group, member_id), value))
                elif member_id in group.members:
                    group.give(_without_tasks(group.members[member_id]))

    def _forget(self, group_id: str) -> None:
        self._waiting.discard(group_id)
        self._endpoint_epochs.pop(group_id, None)
        self._shutdowns.pop(group_id, None)

    def on_loaded(self) -> Decision:
        """Members have one session time-out to be heard of, and as long as ever to give up."""
        decision = Decision()
        for group in self._groups.values():
            if isinstance(group, StreamsGroup):
                for member in group.members.values():
                    self._heard_of(group, member.member_id, decision)
                    if member.state is MemberState.UNREVOKED_TASKS:
                        self._await_revocation(group, member, decision)
        return decision

    # ---- heartbeat -------------------------------------------------------------------------------

    def heartbeat(self, request_id: RequestId, request: StreamsHeartbeat) -> Decision:
        """`StreamsHeartbeatAnswer`.

        Raises InvalidRequest, StreamsInvalidTopology, GroupIdNotFound, GroupMaxSizeReached,
        UnknownMemberId and FencedMemberEpoch.
        """
        _check_request(request)
        decision = Decision()
        if request.member_epoch == LEAVING:
            group = self.group(request.group_id)
            self._drop(group, _known(group, request.member_id), decision)
            answer = StreamsHeartbeatAnswer(request.member_id, LEAVING)
        elif request.member_epoch == JOINING:
            answer = self._go_on(self._joining(request, decision), decision)
        else:
            answer = self._go_on(self._staying(request), decision)
        decision.effects.append(Reply(request_id, answer))
        return decision

    def group(self, group_id: str) -> StreamsGroup:
        """The streams group of that name. Raises GroupIdNotFound."""
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        if not isinstance(group, StreamsGroup):
            raise GroupIdNotFound(
                f"group {group_id!r} is of type {group.type.value}, and no streams group: a "
                "streams application needs a group of another name"
            )
        return group

    def _joining(self, request: StreamsHeartbeat, decision: Decision) -> _Beat:
        group_id, member_id = request.group_id, request.member_id
        present = self._groups.get(group_id)
        if isinstance(present, ClassicGroup) and present.is_empty:
            decision.records.append(Record(GroupMetadataKey(group_id), None))
            present = None  # its offsets stay
        group = StreamsGroup(group_id) if present is None else self.group(group_id)
        member = group.members.get(member_id)
        if member is not None:
            # It begins anew, or this is an old copy of its first request: until a later one says
            # what it works on, it keeps what it has.
            return _Beat(request, group, member, None)
        if len(group.members) >= self._config.streams_max_size:
            raise GroupMaxSizeReached(
                f"group {group_id!r} has {len(group.members)} members, as many as "
                "group.streams.max.size of the broker allows"
            )
        return _Beat(request, group, StreamsMember(member_id), request.owned)

    def _staying(self, request: StreamsHeartbeat) -> _Beat:
        group = self.group(request.group_id)
        member = _known(group, request.member_id)
        said, epoch = request.member_epoch, member.member_epoch
        # The answer with the present epoch may have been lost: that member has nothing yet that it
        # was not given before.
        lost = (
            said == member.previous_epoch
            and said < epoch
            and request.owned is not None
            and request.owned <= member.held
        )
        if said != epoch and not lost:
            raise FencedMemberEpoch(
                f"member {member.member_id!r} of group {group.group_id!r} is at epoch {epoch}, and "
                f"the request says {said}: it must give up its tasks and join again"
            )
        return _Beat(request, group, member, request.owned)

    def _go_on(self, beat: _Beat, decision: Decision) -> StreamsHeartbeatAnswer:
        request, group, present, owned = beat
        member = _updated(present, request)
        members = {**group.members, member.member_id: member}
        is_new = member.member_id not in group.members
        has_changed = is_new or member != present
        if has_changed:
            decision.records.append(member_record(group.group_id, member))
        epochs = self._next_epochs(group, request, has_changed, decision)
        if owned is not None:
            _check_tasks(epochs.configured, owned)
        if group.is_empty and (delay_ms := self._initial_delay_ms(group)) > 0:
            self._waiting.add(group.group_id)
            decision.effects.append(SetTimer(InitialTimer(group.group_id), delay_ms))
        target, target_epoch = self._target(group, member.member_id, members, epochs, decision)
        is_free = partial(group.is_free, member, group.held_beside(member))
        after = reconciled(member, target, target_epoch, is_free, owned)
        if after != member or is_new:
            decision.records.append(current_record(group.group_id, after))
            self._time_revocation(group, present, after, decision)
        self._heard_of(group, member.member_id, decision)
        if request.shutdown_application:
            self._shutdowns[group.group_id] = member.member_id
        members[after.member_id] = after
        # One that says that it has less may not have heard the answer that gave it the rest: at the
        # same epoch nothing else tells that.
        has_less = request.owned is not None and not after.assigned <= request.owned
        needs_all = (
            request.member_epoch != present.member_epoch
            or request.member_epoch == JOINING
            or after.assigned != present.assigned
            or has_less
        )
        return self._answer(request, group, after, members, epochs, needs_all=needs_all)

    def _answer(
        self,
        request: StreamsHeartbeat,
        group: StreamsGroup,
        after: StreamsMember,
        members: Mapping[str, StreamsMember],
        epochs: _Epochs,
        *,
        needs_all: bool,
    ) -> StreamsHeartbeatAnswer:
        group_id, found = group.group_id, epochs.configured
        if needs_all and after.endpoint is not None:
            self._endpoint_epochs[group_id] += 1
        endpoint_epoch = self._endpoint_epochs[group_id]
        endpoints = None
        if endpoint_epoch != request.endpoint_epoch and found.is_ready:
            endpoints = endpoint_partitions(members.values(), epochs.topology, found)
        return StreamsHeartbeatAnswer(
            after.member_id,
            after.member_epoch,
            self._config.of(group_id).streams_heartbeat_interval_ms,
            self._status(group_id, after, epochs),
            after.assigned if needs_all else None,
            endpoint_epoch,
            endpoints,
            found.to_create,
        )

    def _status(self, group_id: str, member: StreamsMember, epochs: _Epochs) -> tuple[Status, ...]:
        status = []
        if member.topology_epoch < epochs.topology.epoch:
            detail = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's "
                f"topology epoch {epochs.topology.epoch}."
            )
            status.append(Status(StatusCode.STALE_TOPOLOGY, detail))
        if epochs.configured.status is not None:
            status.append(epochs.configured.status)
        if group_id in self._shutdowns:
            detail = (
                f"Streams group member {self._shutdowns[group_id]} encountered a fatal error and "
                "requested a shutdown for the entire application."
            )
            status.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
        return tuple(status)

    # ---- epochs ----------------------------------------------------------------------------------

    def _next_epochs(
        self, group: StreamsGroup, request: StreamsHeartbeat, has_changed: bool, decision: Decision
    ) -> _Epochs:
        """The group's epoch, one more where members, topology, topics or settings have changed."""
        group_id, topology = group.group_id, self._topology(group, request)
        if topology is not group.topology:
            decision.records.append(topology_record(group_id, topology))
        found = group.configured
        if found is None or topology is not group.topology:
            found = configured(topology, self._topics)
            if topology is group.topology:
                group.configured = found  # else replay would forget it
        validated_epoch = topology.epoch if found.is_ready else -1
        configs = self._assignment_configs(group_id)
        epoch = group.group_epoch
        if (
            has_changed
            or topology is not group.topology
            or found.topics_hash != group.metadata_hash
            or validated_epoch != group.validated_epoch
            or configs != group.assignment_configs
        ):
            # Members that wait are at epoch 1 without a target, and the first target is above that.
            epoch += 2 if epoch == 0 and self._initial_delay_ms(group) > 0 else 1
            record = group_record(group_id, epoch, found.topics_hash, validated_epoch, configs)
            decision.records.append(record)
        return _Epochs(epoch, topology, found)

    def _topology(
        self, group: StreamsGroup, request: StreamsHeartbeat
    ) -> StreamsGroupTopologyValue:
        present, said = group.topology, request.topology
        if present is None:
            if said is None:  # compaction has left no record of it: the member must bring it
                raise UnknownMemberId(
                    f"group {group.group_id!r} has no topology: its members must join again"
                )
            return said
        if said is not None and said.epoch >= present.epoch and said != present:
            raise InvalidRequest(
                f"group {group.group_id!r} runs another topology, of epoch {present.epoch}: a "
                "group keeps the one that its first member brought, so delete the group first, or "
                "take another application id"
            )
        return present

    def _initial_delay_ms(self, group: StreamsGroup) -> int:
        return self._config.of(group.group_id).streams_initial_rebalance_delay_ms

    def _assignment_configs(self, group_id: str) -> tuple[tuple[str, str], ...]:
        standbys = self._config.of(group_id).streams_num_standby_replicas
        return (("num.standby.replicas", str(standbys)),)

    def _target(
        self,
        group: StreamsGroup,
        member_id: str,
        members: Mapping[str, StreamsMember],
        epochs: _Epochs,
        decision: Decision,
    ) -> tuple[Tasks, int]:
        """The tasks that the member should work on, and their epoch."""
        if group.group_id in self._waiting:
            return NO_TASKS, max(1, group.assignment_epoch)
        if epochs.group_epoch == group.assignment_epoch:
            return group.target.get(member_id, NO_TASKS), group.assignment_epoch
        assigned = self._assign(group, members, epochs, decision)
        return assigned[member_id], epochs.group_epoch

    def _assign(
        self,
        group: StreamsGroup,
        members: Mapping[str, StreamsMember],
        epochs: _Epochs,
        decision: Decision,
    ) -> dict[str, Tasks]:
        found = epochs.configured
        if found.is_ready:
            asked = {
                name: AssignedMember(member.process_id, group.target.get(name, NO_TASKS))
                for name, member in members.items()
            }
            standbys = self._config.of(group.group_id).streams_num_standby_replicas
            assigned = assign_sticky(asked, found.tasks, found.stateful, standbys)
        else:
            assigned = dict.fromkeys(members, NO_TASKS)
        decision.records += (
            target_record(group.group_id, name, tasks)
            for name, tasks in assigned.items()
            if tasks != group.target.get(name)
        )
        decision.records.append(target_epoch_record(group.group_id, epochs.group_epoch))
        return assigned

    def on_topics_changed(self, names: Collection[str]) -> None:
        """Topics were created, have grown, or are gone: the groups that need them look at them with
        the next heartbeat.
        """
        changed = set(names)
        for group in self._groups.values():
            if not isinstance(group, StreamsGroup) or group.topology is None:
                continue
            if not changed.isdisjoint(required_topics(group.topology)):
                group.configured = None

    # ---- leaving, and time -----------------------------------------------------------------------

    def _drop(self, group: StreamsGroup, member: StreamsMember, decision: Decision) -> None:
        """The member is none any more. The next heartbeat of another one finds a higher epoch."""
        group_id, member_id = group.group_id, member.member_id
        decision.records += member_tombstones(group_id, member_id)
        decision.records.append(
            group_record(
                group_id,
                group.group_epoch + 1,
                group.metadata_hash,
                group.validated_epoch,
                group.assignment_configs,
            )
        )
        decision.effects.append(CancelTimer(StreamsSessionTimer(group_id, member_id)))
        decision.effects.append(CancelTimer(TaskRevocationTimer(group_id, member_id)))
        if member.endpoint is not None:
            self._endpoint_epochs[group_id] += 1
        if group.members.keys() <= {member_id}:
            self._shutdowns.pop(group_id, None)
            if group_id in self._waiting:
                self._waiting.discard(group_id)
                decision.effects.append(CancelTimer(InitialTimer(group_id)))

    def _heard_of(self, group: StreamsGroup, member_id: str, decision: Decision) -> None:
        session_ms = self._config.of(group.group_id).streams_session_timeout_ms
        timer = StreamsSessionTimer(group.group_id, member_id)
        decision.effects.append(SetTimer(timer, session_ms))

    def _time_revocation(
        self,
        group: StreamsGroup,
        before: StreamsMember,
        after: StreamsMember,
        decision: Decision,
    ) -> None:
        if after.state is MemberState.UNREVOKED_TASKS:
            self._await_revocation(group, after, decision)
        elif before.state is MemberState.UNREVOKED_TASKS:
            timer = TaskRevocationTimer(group.group_id, after.member_id)
            decision.effects.append(CancelTimer(timer))

    def _await_revocation(
        self, group: StreamsGroup, member: StreamsMember, decision: Decision
    ) -> None:
        timer = TaskRevocationTimer(group.group_id, member.member_id)
        decision.effects.append(SetTimer(timer, max(member.rebalance_timeout_ms, 0)))

    def on_timer(self, due: StreamsTimer) -> Decision:
        """The time of a member is over, or that of the first members of a group."""
        decision = Decision()
        group = self._groups.get(due.group_id)
        if isinstance(due, InitialTimer):
            self._waiting.discard(due.group_id)  # the next heartbeat finds that there is no target
        elif isinstance(group, StreamsGroup):
            member = group.members.get(due.member_id)
            if member is not None:
                self._lost[GroupType.STREAMS] += 1
                self._drop(group, member, decision)
        return decision


def _check_request(request: StreamsHeartbeat) -> None:
    """Raises InvalidRequest and StreamsInvalidTopology."""
    fault = _fault(request)
    if fault is None and request.member_epoch == JOINING:
        fault = _fault_of_join(request)
    if fault is not None:
        raise InvalidRequest(f"StreamsGroupHeartbeat of group {request.group_id!r}: {fault}")
    if request.topology is not None:
        _check_topology(request.topology)


def _fault(request: StreamsHeartbeat) -> str | None:
    epoch = request.member_epoch
    for name in ("group_id", "member_id", "instance_id", "rack_id"):
        if getattr(request, name) == "":
            return f"{name} is empty"
    if epoch < LEAVING:
        return f"member_epoch={epoch} means nothing: 0 joins, -1 leaves"
    if request.instance_id is not None:
        return "instance_id is given, and streams groups have no static members"
    if request.rebalance_timeout_ms < -1:
        return f"rebalance_timeout_ms={request.rebalance_timeout_ms} is below 0"
    if epoch != JOINING and request.topology is not None:
        return "the topology can only be given by a member that joins"
    if request.endpoint is not None and not 0 <= request.endpoint.port <= 65_535:
        return f"port={request.endpoint.port} of the endpoint is not from 0 to 65535"
    return None


def _fault_of_join(request: StreamsHeartbeat) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "rebalance_timeout_ms is missing, and a member that joins gives it"
    if request.owned is None:
        return "owned (the tasks) is missing, and a member that joins gives it"
    if request.owned:
        return "owned (the tasks) is not empty: a member that joins has given up all"
    if request.topology is None:
        return "the topology is missing, and a member that joins gives it"
    return None


def _check_topology(topology: StreamsGroupTopologyValue) -> None:
    ids = [each.subtopology_id for each in topology.subtopologies]
    if not ids:
        raise StreamsInvalidTopology("the topology has no subtopologies")
    if len(set(ids)) < len(ids):
        raise StreamsInvalidTopology("two subtopologies have the same id")
    for each in topology.subtopologies:
        if each.source_topic_regex:
            raise StreamsInvalidTopology(
                f"subtopology {each.subtopology_id!r} reads topics by regular expression, which "
                "streams groups do not: name them"
            )
        for topic in each.state_changelog_topics:
            if topic.partitions != 0:
                raise StreamsInvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it "
                    f"is set to {topic.partitions}."
                )
        for topic in each.repartition_source_topics:
            if topic.partitions < 0:
                raise StreamsInvalidTopology(
                    f"repartition topic {topic.name} has {topic.partitions} partitions"
                )


def _check_tasks(found: ConfiguredTopology, owned: Tasks) -> None:
    """Raises InvalidRequest for a task that a topology which can run does not have."""
    if not found.is_ready:
        return
    for task in owned.all():
        if not found.has(task):
            raise InvalidRequest(_no_task(found, task))


def _no_task(found: ConfiguredTopology, task: TaskId) -> str:
    if task.subtopology_id not in found.tasks:
        return f"Subtopology {task.subtopology_id} does not exist in the topology."
    return (
        f"Task {task.partition} for subtopology {task.subtopology_id} is invalid. Number of tasks "
        f"for this subtopology: {found.tasks[task.subtopology_id]}"
    )


def _member(group: StreamsGroup, member_id: str) -> StreamsMember:
    return group.members.get(member_id) or StreamsMember(member_id)


def _known(group: StreamsGroup, member_id: str) -> StreamsMember:
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"group {group.group_id!r} has no member {member_id!r}")
    return member


def _without_tasks(member: StreamsMember) -> StreamsMember:
    return replace(
        member,
        member_epoch=0,
        previous_epoch=0,
        state=MemberState.STABLE,
        assigned=NO_TASKS,
        revoking=NO_TASKS,
        since={},
    )


def _updated(member: StreamsMember, request: StreamsHeartbeat) -> StreamsMember:
    """The member as the request says."""
    timeout_ms, topology = request.rebalance_timeout_ms, request.topology
    tags = request.client_tags
    return replace(
        member,
        rack_id=request.rack_id or member.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if topology is None else topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=request.endpoint or member.endpoint,
        client_tags=member.client_tags if tags is None else tags,
    )
