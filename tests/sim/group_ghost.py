"""The invariants of groups, whatever happens to coordinators and members.

I13: while two members are valid by the log, no partition is both's; a commit that is taken is of a
member, at its epoch or generation; a position goes back by request only. I14: the memory of a
coordinator is what its log says. I10: what is answered as committed is. G: what a group commits it
has processed, so every record is delivered at least once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pylog.model import CONSUMER_OFFSETS, Offset, TopicId, TopicPartition, topic_id_from_bytes
from pylog_broker.coordinator.generated.consumer_group_metadata import ConsumerGroupMetadataKey
from pylog_broker.coordinator.generated.group_metadata import GroupMetadataKey
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey, OffsetCommitValue
from pylog_broker.coordinator.groups.codec import GroupCodec
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.runtime.decision import Record
from pylog_broker.coordinator.runtime.runtime import partition_for
from tests.sim.ghost import Batch, PartitionGhost
from tests.sim.group_log import GroupLog, Place, is_at_rest, memory
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from pylog_broker.coordinator.groups.consumer.topics import SubscribedTopic
    from tests.sim.cluster import Cluster
    from tests.sim.group_members import GroupMember

Work = tuple[TopicPartition, TopicId, int, int]
"""Records in the hands of a user: the partition, its topic, their first offset, and the one behind
the last."""

REPLAYED_SHARE = 8
"""One comparison in so many is with a coordinator that has replayed the log."""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A commit that a member has sent; its tag is what it writes beside each position."""

    tag: str
    member: str
    group_id: str
    member_id: str
    generation: int
    sent_us: int
    offsets: dict[TopicPartition, int]
    goes_back: frozenset[TopicPartition]
    """The partitions of which the member has heard that its position is none, or their topic
    another one.
    """


class Covered:
    """Offsets of one partition, as ranges that do not touch."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def add(self, begin: int, end: int) -> None:
        """All from `begin` to before `end`."""
        if begin >= end:
            return
        kept = [r for r in self.ranges if r[1] < begin or r[0] > end]
        touched = [r for r in self.ranges if r not in kept]
        low = min([begin, *(r[0] for r in touched)])
        high = max([end, *(r[1] for r in touched)])
        self.ranges = sorted([*kept, (low, high)])

    def missing(self, begin: int, end: int) -> list[int]:
        """The offsets between the two that are not covered."""
        found = []
        at = begin
        for low, high in self.ranges:
            if at >= end:
                break
            found += range(at, min(low, end))
            at = max(at, high)
        return [*found, *range(at, end)]


class NoTopics:
    """For a coordinator that replays, and decides nothing."""

    def topic(self, name: str) -> SubscribedTopic | None:
        return None

    def names(self) -> list[str]:
        return []


class GroupGhost:
    """The ghost state of all groups of a run."""

    def __init__(self, cluster: Cluster, config: GroupConfig) -> None:
        self._cluster = cluster
        self._sometimes = cluster.sometimes
        self._config = config
        self._codec = GroupCodec()
        self._logs: dict[int, GroupLog] = {}
        self._requests: dict[str, CommitRequest] = {}
        self._taken: dict[Place, tuple[CommitRequest, OffsetCommitValue]] = {}
        self._asked: dict[tuple[str, TopicPartition], int] = {}  # by members' names
        self._seen: set[tuple[str, str]] = set()  # groups with tags of what is committed
        self._joined: set[tuple[str, str, int]] = set()  # groups with members and generations
        self._processed: dict[tuple[str, TopicId, int], Covered] = {}
        self._pending: dict[tuple[int, int], list[tuple[Record, Offset]]] = {}
        self._comparisons = 0
        self.members: list[GroupMember] = []

    # ---- the log

    def _ghost(self, number: int) -> PartitionGhost | None:
        topic = self._cluster.image.topics_by_name.get(CONSUMER_OFFSETS)
        return None if topic is None else self._cluster.shadows.ghost(topic.topic_id, number)

    def log_of(self, group_id: str) -> GroupLog:
        """The committed records of the log that has the group."""
        topic = self._cluster.image.topics_by_name.get(CONSUMER_OFFSETS)
        if topic is None:
            return GroupLog()
        return self.log(partition_for(group_id, len(topic.partitions)))

    def log(self, number: int) -> GroupLog:
        """The same, by partition."""
        log = self._logs.setdefault(number, GroupLog())
        ghost = self._ghost(number)
        while ghost is not None and log.batches < len(ghost.committed):
            batch = ghost.committed[log.batches]
            log.batches += 1
            if ghost.contents.of(batch.mark).is_transactional:
                self._take_pending(log, ghost, batch)
            else:
                self._take(log, ghost, batch)
        return log

    def _take_pending(self, log: GroupLog, ghost: PartitionGhost, batch: Batch) -> None:
        """Positions of a transaction count when it commits."""
        original = ghost.contents.of(batch.mark)
        place = (ghost.key[1], batch.producer_id)
        if original.ends is None:
            pending = self._pending.setdefault(place, [])
            for offset, (key, value) in enumerate(
                zip(original.keys, original.values, strict=True), batch.base
            ):
                assert key is not None
                record = self._codec.decode(key, value)
                assert record is not None
                assert isinstance(record.key, OffsetCommitKey)
                pending.append((record, Offset(offset)))
            return
        for record, offset in self._pending.pop(place, ()):
            if original.ends.commits:
                self._sometimes["transactions: positions committed"] += 1
                self._take_commit(log, record)
                log.take(record, offset)
            else:
                self._sometimes["transactions: positions dropped"] += 1

    def _take(self, log: GroupLog, ghost: PartitionGhost, batch: Batch) -> None:
        original = ghost.contents.of(batch.mark)
        ended: dict[str, set[str]] = {}
        for offset, (key, value) in enumerate(
            zip(original.keys, original.values, strict=True), batch.base
        ):
            assert key is not None
            record = self._codec.decode(key, value)
            assert record is not None
            match record.key:
                case OffsetCommitKey():
                    self._take_commit(log, record)
                case GroupMetadataKey(group) | ConsumerGroupMetadataKey(group):
                    if record.value is None:
                        ended.setdefault(group, log.members(group))
                    else:
                        self._sometimes["groups: generation or epoch in the log"] += 1
            log.take(record, Offset(offset))
        for group, members in ended.items():
            self._must_have_ended(log, group, members)

    def _take_commit(self, log: GroupLog, record: Record) -> None:
        key, value, _ = record
        place = (key.group, key.topic, key.partition)
        if value is None:
            self._may_be_forgotten(log, place)
            self._taken.pop(place, None)
            return
        assert isinstance(value, OffsetCommitValue)
        request = self._requests.get(value.metadata)
        tp = TopicPartition(key.topic, key.partition)
        if request is None or request.group_id != key.group or request.offsets[tp] != value.offset:
            raise Violation("I13", f"nobody has committed {record}; {request}")
        self._check_epoch(log, request)
        before = self._taken.get(place)
        if before is not None:
            self._check_order(place, before, request, value)
        self._taken[place] = request, value
        self._seen.add((key.group, request.tag))

    def _check_epoch(self, log: GroupLog, request: CommitRequest) -> None:
        """A commit is of a member at its epoch, or of nobody where there is none."""
        group_id, member_id = request.group_id, request.member_id
        standing = log.standing(group_id, member_id)
        if request.generation < 0:
            if log.members(group_id):
                raise Violation("I13", f"{request} is taken; the group has members")
        elif standing is None or standing.epoch != request.generation:
            if standing is None or not self._has_joined(log, request, standing.epoch):
                raise Violation("I13", f"{request} is taken; the member is at {standing}")
            self._sometimes["groups: commit of a generation without assignments"] += 1

    def _has_joined(self, log: GroupLog, request: CommitRequest, logged: int) -> bool:
        """Whether the member has joined that generation of a classic group since. The log has a
        generation when its leader has brought the assignments; if the leader dies before that, the
        next rebalance begins, in which the members may commit what they had (as in Kafka).
        """
        joined = (request.group_id, request.member_id, request.generation)
        is_newer = request.generation > logged and not log.is_consumer(request.group_id)
        return is_newer and joined in self._joined

    def _check_order(
        self,
        place: Place,
        before: tuple[CommitRequest, OffsetCommitValue],
        request: CommitRequest,
        value: OffsetCommitValue,
    ) -> None:
        earlier, old = before
        if value.offset >= old.offset or value.topic_id != old.topic_id:
            return
        if request.member == earlier.member and request.sent_us <= earlier.sent_us:
            self._sometimes["groups: late commit of an old connection"] += 1
            return
        if TopicPartition(place[1], place[2]) in request.goes_back:
            self._sometimes["groups: position lost, and begun anew"] += 1
            return
        raise Violation(
            "I13", f"position {place} goes back from {old.offset} of {earlier} by {request}"
        )

    def _may_be_forgotten(self, log: GroupLog, place: Place) -> None:
        """A position goes with its topic, or when nobody reads it. A member that has just told that
        it reads something else may have the partition yet, until its user lets go of it: that keeps
        no position (as in Kafka, whose rule is the subscription).
        """
        before = self._taken.get(place)
        topic = self._cluster.image.topics_by_name.get(place[1])
        is_gone = topic is None or (
            before is not None and topic_id_from_bytes(before[1].topic_id) != topic.topic_id
        )
        self._sometimes[
            f"groups: position {'of a topic that is gone' if is_gone else 'expired'}"
        ] += 1
        tp = TopicPartition(place[1], place[2])
        for member in self._valid(place[0], log):
            if tp not in member.owned or is_gone:
                continue
            if log.subscribes(place[0], member.member_id, tp.topic):
                raise Violation("I13", f"{member.name} reads {tp}, whose position is forgotten")
            self._sometimes["groups: position expired while it is given up"] += 1

    def _must_have_ended(self, log: GroupLog, group: str, members: set[str]) -> None:
        """A group that has members does not go, but may change its type."""
        if log.exists(group):
            self._sometimes["groups: group changed its protocol"] += 1
        elif members and any(m.member_id in members for m in self._of(group)):
            raise Violation("I13", f"group {group} is gone with its members {members}")
        else:
            self._sometimes["groups: group gone"] += 1

    # ---- members

    def _of(self, group_id: str) -> list[GroupMember]:
        return [m for m in self.members if m.alive and m.group_id == group_id]

    def _valid(self, group_id: str, log: GroupLog) -> list[GroupMember]:
        """The members whose belief counts: the log has them at the epoch that they name."""
        found = []
        for member in self._of(group_id):
            standing = log.standing(group_id, member.member_id)
            if standing is not None and member.generation in standing:
                found.append(member)
        return found

    def is_valid(self, member: GroupMember) -> bool:
        """Whether the log has the member at the epoch that it names."""
        return member in self._valid(member.group_id, self.log_of(member.group_id))

    def changed(self, member: GroupMember) -> None:
        """I13: what a member believes to own, or its epoch, is another one."""
        owners: dict[TopicPartition, list[GroupMember]] = {}
        log = self.log_of(member.group_id)
        for each in self._valid(member.group_id, log):
            for tp in each.owned:
                for other in owners.setdefault(tp, []):
                    if is_the_same(other, each, tp, log):
                        raise Violation(
                            "I13",
                            f"{tp} of group {member.group_id} is {other.name}'s at "
                            f"{other.generation}, and {each.name}'s at {each.generation}",
                        )
                owners[tp].append(each)

    def position(self, group_id: str, tp: TopicPartition) -> OffsetCommitValue | None:
        """The committed offset of a partition."""
        self.log_of(group_id)
        taken = self._taken.get((group_id, *tp))
        return None if taken is None else taken[1]

    def begins(
        self,
        member: GroupMember,
        tp: TopicPartition,
        topic_id: TopicId,
        offset: int,
        known: OffsetCommitValue | None,
    ) -> None:
        """A member begins to read a partition. `known`: what was committed when it was given."""
        self._sometimes["groups: partition begun"] += 1
        is_same = known is not None and topic_id_from_bytes(known.topic_id) == topic_id
        is_kept = self.position(member.group_id, tp) is not None  # else it has expired meanwhile
        if known is not None and is_same and is_kept and offset < known.offset:
            raise Violation(
                "G", f"{member.name} begins {tp} at {offset}; {known} was committed before"
            )
        self._must_be_processed(member, tp, topic_id, offset, "begins at")

    def processed(
        self, member: GroupMember, tp: TopicPartition, topic_id: TopicId, begin: int, end: int
    ) -> None:
        """A member's user is done with these records."""
        key = (member.group_id, topic_id, tp.partition)
        self._processed.setdefault(key, Covered()).add(begin, end)

    def is_committed(self, member: GroupMember, work: Sequence[Work]) -> None:
        """A commit of positions has gone well: the member has asked for all its user is done with,
        of topics that are there.
        """
        for tp, topic_id, _, end in work:
            topic = self._cluster.image.topics_by_name.get(tp.topic)
            if topic is None or topic.topic_id != topic_id:
                continue
            self._sometimes["groups: work is committed"] += 1
            asked = self._asked.get((member.name, tp), 0)
            if asked < end:
                raise Violation("C", f"{member.name} was done with {tp} up to {end}, not {asked}")

    def commits(self, member: GroupMember, request: CommitRequest, topic_id: TopicId) -> None:
        """A member asks for a commit."""
        self.asks(request)
        for tp, offset in request.offsets.items():
            self._asked[member.name, tp] = offset
            self._must_be_processed(member, tp, topic_id, offset, "commits")

    def asks(self, request: CommitRequest) -> None:
        """Somebody asks for a commit of positions that are no records of the run."""
        self._requests[request.tag] = request

    def _must_be_processed(
        self, member: GroupMember, tp: TopicPartition, topic_id: TopicId, offset: int, what: str
    ) -> None:
        missing = self._missing(member.group_id, topic_id, tp.partition, offset)
        if missing:
            raise Violation("G", f"{member.name} {what} {offset} of {tp}; nobody read {missing}")

    def _missing(self, group_id: str, topic_id: TopicId, number: int, end: int) -> list[int]:
        """Committed records before `end` that the group has not processed, and that are there."""
        ghost = self._cluster.shadows.ghost(topic_id, number)
        covered = self._processed.get((group_id, topic_id, number), Covered())
        begin = min(ghost.deleted_to, end)
        now_ms = self._cluster.true_ms()
        missing = covered.missing(begin, min(end, ghost.committed_end))
        return [
            m
            for m in missing
            if not (ghost.may_compact and not ghost.why_not_gone(m, now_ms))
            and not ghost.transactions.is_hidden(m, read_committed=True)
        ]

    # ---- answers

    def acknowledged(self, broker: str, group_id: str, tag: str) -> None:
        """I10: a coordinator says that a commit is done."""
        self._sometimes["groups: commit acknowledged"] += 1
        self.log_of(group_id)
        if (group_id, tag) not in self._seen:
            request = self._requests.get(tag)
            raise Violation("I10", f"{broker} acknowledges {request}, which is not committed")

    def joined(self, group_id: str, member_id: str, generation: int) -> None:
        """A coordinator says that the member is one of a classic group's generation."""
        self._joined.add((group_id, member_id, generation))

    # ---- memory

    def check_memory(self, broker: str, number: int, coordinator: GroupCoordinator) -> None:
        """I14."""
        log = self.log(number)
        groups = {each for each in coordinator.groups if is_at_rest(coordinator, each)}
        positions = {
            (group_id, tp.topic, tp.partition): value
            for group_id in coordinator.offsets.group_ids
            for tp, value in coordinator.offsets.of(group_id).items()
        }
        if positions != log.positions():
            raise Violation("I14", f"{broker} has {positions}, the log says {log.positions()}")
        for group_id in groups | log.group_ids():
            self._check_group(broker, coordinator, group_id, log)
        self._comparisons += 1
        if self._comparisons % REPLAYED_SHARE == 0:
            topics: Any = NoTopics()
            fresh = GroupCoordinator(self._config, topics, Counter())
            for record, offset in log.records():
                fresh.replay(record, offset)
            wanted, known = memory(fresh, groups), memory(coordinator, groups)
            unknown = {g for g in groups if not log.exists(g)}  # no record yet, but maybe positions
            for group_id in sorted(groups - unknown):
                if wanted.get(group_id) != known.get(group_id):
                    raise Violation(
                        "I14", f"{broker} has {known[group_id]}, replay {wanted.get(group_id)}"
                    )

    def _check_group(
        self, broker: str, coordinator: GroupCoordinator, group_id: str, log: GroupLog
    ) -> None:
        if not is_at_rest(coordinator, group_id) or not log.exists(group_id):
            return
        group = coordinator.groups.get(group_id)
        members = getattr(group, "members", None)
        wanted = log.members(group_id)
        if members is None or set(members) != wanted:
            raise Violation("I14", f"{broker}: {group_id} has {members}, the log {wanted}")
        classic = log.classic(group_id)
        if not log.is_consumer(group_id) and classic is not None:
            generation = getattr(group, "generation", None)
            if generation != classic.generation:
                raise Violation("I14", f"{broker}: {group_id} is at {generation}, not {classic}")

    # ---- the end

    def unread(self, group_id: str) -> dict[int, list[int]]:
        """The offsets that the group has not processed yet, by partition."""
        topic = self._cluster.topic()
        found = {}
        for number in () if topic is None else sorted(topic.partitions):
            assert topic is not None
            end = self._cluster.shadows.ghost(topic.topic_id, number).committed_end
            missing = self._missing(group_id, topic.topic_id, number, end)
            if missing:
                found[number] = missing
        return found


def is_the_same(one: GroupMember, other: GroupMember, tp: TopicPartition, log: GroupLog) -> bool:
    """Whether both had the partition given of the same topic. A member of the classic protocol
    knows names alone, and goes on in a topic that was made anew. That is right among its like; for
    members of the consumer protocol the partition is another one, as in Kafka.
    """
    ids, others = _ids_given(one, tp, log), _ids_given(other, tp, log)
    return not ids or not others or not ids.isdisjoint(others)


def _ids_given(member: GroupMember, tp: TopicPartition, log: GroupLog) -> set[str]:
    """The topics that it may be; none where nobody knows but by the name."""
    granted = member.group.granted_id(tp)
    if granted:
        return {granted}
    if not log.is_consumer(member.group_id):
        return set()
    return set(log.assigned_ids(member.group_id, member.member_id, tp.partition))
