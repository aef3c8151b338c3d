"""A group that changes its protocol while its members work. Pure.

    classic --a member of the consumer protocol joins--> consumer
    consumer --the last member of the consumer protocol is gone--> classic

Either way the group keeps its members, what each reads, and its epoch, which the classic protocol
calls its generation. The records of the one type end, and those of the other begin, in one append.

A group that becomes a classic one again has to rebalance, as nobody of it knows that it leads, and
so nobody looks after its topics. Its record has no leader until then, and by that each coordinator
sees that it must.

Not here: what members of the classic protocol ask of a consumer group (`consumer.classic_members`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from pylog.consumer_protocol import (
    VERSION,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from pylog.errors import GroupIdNotFound, InconsistentGroupProtocol
from pylog.model import TopicPartition
from pylog_broker.coordinator.generated.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from pylog_broker.coordinator.generated.group_metadata import GroupMetadataKey
from pylog_broker.coordinator.groups.classic.group import (
    CONSUMER_PROTOCOL,
    ClassicGroup,
    ClassicState,
    Member,
)
from pylog_broker.coordinator.groups.classic.messages import MemberProtocol
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from pylog_broker.coordinator.groups.consumer.records import (
    current_record,
    group_record,
    group_tombstones,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
)
from pylog_broker.coordinator.groups.consumer.regexes import unused_regexes
from pylog_broker.coordinator.groups.consumer.topics import (
    NO_PARTITIONS,
    Partitions,
    TopicIdPartition,
    Topics,
)
from pylog_broker.coordinator.runtime.decision import Record

BYTES_MAX: Final = 600_000
"""The metadata of the members of a group that changes, with their assignments: all of it is written
at once, and the joining member's own records with it.
"""
_VERSION_BYTES: Final = 2
"""A subscription and an assignment begin with their version."""


# ---- partitions, by topic name and by topic id ---------------------------------------------------


def by_id(partitions: Iterable[TopicPartition], topics: Topics) -> Partitions:
    """The partitions, of topics that exist."""
    return frozenset(
        TopicIdPartition(topic.topic_id, partition)
        for name, partition in partitions
        if (topic := topics.topic(name)) is not None
    )


def assignment_bytes(
    partitions: Partitions, subscribed: Collection[str], topics: Topics, subscription: bytes
) -> bytes:
    """These partitions as the classic protocol has them, in the version of the subscription; of
    topics that are subscribed to, and exist.
    """
    found = (topics.topic(name) for name in subscribed)
    names = {topic.topic_id: topic.name for topic in found if topic is not None}
    assigned = sorted(
        TopicPartition(names[topic_id], partition)
        for topic_id, partition in partitions
        if topic_id in names
    )
    version = int.from_bytes(subscription[:_VERSION_BYTES], "big", signed=True)
    return encode_assignment(Assignment(tuple(assigned)), min(max(version, 0), VERSION))


# ---- to the consumer protocol --------------------------------------------------------------------


def upgraded(group: ClassicGroup, config: GroupConfig, topics: Topics) -> ConsumerGroup:
    """The group as it is in the consumer protocol. Raises GroupIdNotFound where it cannot be."""
    refused = f"group {group.group_id!r} is of type classic and has members: it "
    if not config.may_upgrade:
        raise GroupIdNotFound(
            f"{refused}stays so, as group.consumer.migration.policy of the broker is "
            f"{config.consumer_migration_policy}"
        )
    if group.protocol_type != CONSUMER_PROTOCOL:
        raise GroupIdNotFound(f"{refused}is of protocol type {group.protocol_type!r}")
    if len(group.members) > config.consumer_max_size:
        raise GroupIdNotFound(f"{refused}has more than group.consumer.max.size of the broker")
    size = sum(
        member.size
        + 2 * sum(len(each.metadata) for each in member.protocols)  # by name, and by id
        + 3 * len(member.assignment)  # by name, and twice by id
        for member in group.members.values()
    )
    if size > BYTES_MAX:
        raise GroupIdNotFound(f"{refused}would write {size} bytes; the limit is {BYTES_MAX}")
    made = ConsumerGroup(group.group_id, group.generation, assignment_epoch=group.generation)
    try:
        said = {name: _subscription(member, group) for name, member in group.members.items()}
        for name, member in group.members.items():
            _take_over(made, member, said[name], group.generation, topics)
    except InconsistentGroupProtocol as error:
        raise GroupIdNotFound(f"{refused}cannot be understood: {error}") from error
    for name, subscription in said.items():
        _leave_what_it_may_read(made, made.members[name], by_id(subscription.owned, topics))
    return made


def _subscription(member: Member, group: ClassicGroup) -> Subscription:
    metadata = member.metadata_for(group.protocol or "") or member.protocols[0].metadata
    return decode_subscription(metadata)


def _take_over(
    made: ConsumerGroup, member: Member, subscription: Subscription, epoch: int, topics: Topics
) -> None:
    assigned = by_id(decode_assignment(member.assignment).partitions, topics) - made.owners.keys()
    protocols = tuple(ClassicProtocol(each.name, each.metadata) for each in member.protocols)
    moved = ConsumerMember(
        member.member_id,
        member.instance_id,
        subscription.rack or None,
        member.client_id,
        member.client_host,
        frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        member_epoch=epoch,
        previous_epoch=epoch,
        assigned=assigned,
        classic=ClassicMemberMetadata(member.session_timeout_ms, protocols),
    )
    made.put(moved)
    made.give(moved)
    made.target[member.member_id] = assigned


def _leave_what_it_may_read(made: ConsumerGroup, member: ConsumerMember, read: Partitions) -> None:
    """A cooperative member gives up with its next join what it was not given again: until then the
    partitions are nobody else's, as it may not have heard yet.
    """
    revoking = read - made.owners.keys()
    if revoking:
        state = MemberState.UNREVOKED_PARTITIONS
        made.give(replace(member, state=state, revoking=revoking))


def upgrade_records(group: ConsumerGroup) -> list[Record]:
    """The classic group ends, and this one begins."""
    members = group.members.values()
    group_id, epoch = group.group_id, group.group_epoch
    return [
        Record(GroupMetadataKey(group_id), None),
        *(member_record(group_id, member) for member in members),
        group_record(group_id, epoch, group.metadata_hash),
        *(target_record(group_id, name, target) for name, target in group.target.items()),
        target_epoch_record(group_id, epoch),
        *(current_record(group_id, member) for member in members),
    ]


# ---- back to the classic one ---------------------------------------------------------------------


def downgraded(
    group: ConsumerGroup, gone: Collection[str], config: GroupConfig, topics: Topics
) -> ClassicGroup | None:
    """The group as it is in the classic protocol, without these members, and about to rebalance;
    None where it stays what it is: other members speak the consumer protocol, or nobody is left, or
    it may not change.
    """
    staying = [member for name, member in group.members.items() if name not in gone]
    if not config.may_downgrade or not 0 < len(staying) <= config.max_size:
        return None
    made = ClassicGroup(group.group_id, ClassicState.STABLE, group.group_epoch)
    for member in staying:
        if member.classic is None:
            return None
        protocols = member.classic.supported_protocols
        added = Member(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.classic.session_timeout_ms,
            member.rebalance_timeout_ms,
            tuple(MemberProtocol(each.name, each.metadata) for each in protocols),
        )
        made.add(added, CONSUMER_PROTOCOL)
    if not made.candidates():
        return None
    made.protocol, made.leader = made.elected(), None
    for name, each in made.members.items():
        each.assignment = assignment_bytes(
            group.target.get(name, NO_PARTITIONS),
            group.read_by(group.members[name]),
            topics,
            each.metadata_for(made.protocol),
        )
    size = sum(each.size + len(each.assignment) for each in made.members.values())
    return made if size <= BYTES_MAX else None


def downgrade_records(group: ConsumerGroup, made: ClassicGroup) -> list[Record]:
    """The group of the consumer protocol ends, and the classic one begins."""
    assignments = {name: member.assignment for name, member in made.members.items()}
    ends = (member_tombstones(group.group_id, name) for name in group.members)
    return [
        *(record for records in ends for record in records),
        *unused_regexes(group, ()),
        *group_tombstones(group.group_id),
        Record(GroupMetadataKey(group.group_id), made.record(assignments)),
    ]
