"""The contents of a coordinator's log, by a plain twin: the newest value of each key, in order.

Nothing of the product's replay is used for it, but for the codec that turns bytes into records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pylog.model import Offset, TopicId, topic_id_from_bytes
from pylog_broker.coordinator.generated.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from pylog_broker.coordinator.generated.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
)
from pylog_broker.coordinator.generated.consumer_group_metadata import ConsumerGroupMetadataKey
from pylog_broker.coordinator.generated.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
)
from pylog_broker.coordinator.generated.group_metadata import GroupMetadataKey, GroupMetadataValue
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey, OffsetCommitValue
from pylog_broker.coordinator.groups.classic.group import ClassicGroup, ClassicState
from pylog_broker.coordinator.groups.classic.subscriptions import topics_of
from pylog_broker.coordinator.groups.consumer.group import ConsumerGroup
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.runtime.decision import Record

Place = tuple[str, str, int]
"""A group's position: group, topic and partition."""


class Standing(NamedTuple):
    """A member as the log has it: whom it obeys at which epochs."""

    epoch: int
    previous_epoch: int


class GroupLog:
    """The log of one partition of the internal topic, up to what is committed."""

    def __init__(self) -> None:
        self.batches = 0  # so many are taken in
        self._newest: dict[tuple[type[Any], Any], tuple[Offset, Any]] = {}

    def take(self, record: Record, offset: Offset) -> None:
        """The next record."""
        place = (type(record.key), record.key)
        self._newest.pop(place, None)  # it is the last one now
        self._newest[place] = (offset, record.value)

    def get(self, key: Any) -> Any:
        """The value of a key, or None."""
        return self._newest.get((type(key), key), (0, None))[1]

    def records(self) -> Iterator[tuple[Record, Offset]]:
        """The records that compaction would leave, tombstones included."""
        for (_, key), (offset, value) in self._newest.items():
            yield Record(key, value), offset

    def _of(self, kind: type[Any]) -> Iterator[tuple[Any, Any]]:
        for (found, key), (_, value) in self._newest.items():
            if found is kind and value is not None:
                yield key, value

    # ---- what it says

    def positions(self) -> dict[Place, OffsetCommitValue]:
        """All that is committed."""
        return {(k.group, k.topic, k.partition): v for k, v in self._of(OffsetCommitKey)}

    def classic(self, group: str) -> GroupMetadataValue | None:
        """The classic group of that name."""
        found: GroupMetadataValue | None = self.get(GroupMetadataKey(group))
        return found

    def is_consumer(self, group: str) -> bool:
        """Whether there is a group of the consumer protocol by that name."""
        return self.get(ConsumerGroupMetadataKey(group)) is not None

    def consumers(self, group: str) -> set[str]:
        """The members of a group of the consumer protocol."""
        return {
            k.member_id for k, _ in self._of(ConsumerGroupMemberMetadataKey) if k.group_id == group
        }

    def subscribes(self, group: str, member_id: str, topic: str) -> bool:
        """Whether the member reads the topic by what it has told: by its name, or by an expression
        whose topics are found.
        """
        if not self.is_consumer(group):
            classic = self.classic(group)
            members = classic.members if classic is not None else ()
            told = [each.subscription for each in members if each.member_id == member_id]
            return any(topic in (topics_of(each) or ()) for each in told)
        member = self.get(ConsumerGroupMemberMetadataKey(group, member_id))
        if member is None:
            return False
        regex = member.subscribed_topic_regex
        found = self.get(ConsumerGroupRegularExpressionKey(group, regex)) if regex else None
        return topic in member.subscribed_topic_names or (
            found is not None and topic in found.topics
        )

    def exists(self, group: str) -> bool:
        """Whether the group has a record of its own."""
        return self.classic(group) is not None or self.is_consumer(group)

    def members(self, group: str) -> set[str]:
        """The members of a group of either type."""
        if self.is_consumer(group):
            return self.consumers(group)
        classic = self.classic(group)
        return {each.member_id for each in classic.members} if classic is not None else set()

    def standing(self, group: str, member_id: str) -> Standing | None:
        """The epochs, or the generation, that the member may name; None: it is none."""
        if self.is_consumer(group):
            if member_id not in self.consumers(group):
                return None
            now = self.get(ConsumerGroupCurrentMemberAssignmentKey(group, member_id))
            return None if now is None else Standing(now.member_epoch, now.previous_member_epoch)
        classic = self.classic(group)
        if classic is None or member_id not in {each.member_id for each in classic.members}:
            return None
        return Standing(classic.generation, classic.generation)

    def assigned_ids(self, group: str, member_id: str, partition: int) -> set[TopicId]:
        """The topics of which a member of a group of the consumer protocol has that partition, or
        is to give it up.
        """
        now = self.get(ConsumerGroupCurrentMemberAssignmentKey(group, member_id))
        return {
            topic_id_from_bytes(topic.topic_id)
            for topic in (*now.assigned_partitions, *now.partitions_pending_revocation)
            if partition in topic.partitions
        }

    def group_ids(self) -> set[str]:
        """The ids of groups that have records of their own."""
        found = {key.group for key, _ in self._of(GroupMetadataKey)}
        return found | {key.group_id for key, _ in self._of(ConsumerGroupMetadataKey)}


def memory(coordinator: GroupCoordinator, groups: set[str]) -> dict[str, Any]:
    """The coordinator's memory of these groups, as far as its log must have it."""
    found: dict[str, Any] = {}
    for group_id in sorted(groups):
        group = coordinator.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            found[group_id] = (
                group.group_epoch,
                group.assignment_epoch,
                dict(sorted(group.members.items())),
                dict(sorted(group.static.items())),
                dict(sorted(group.target.items())),
                dict(sorted(group.owners.items())),
                dict(sorted(group.resolved.items())),
            )
        elif isinstance(group, ClassicGroup):
            shares = {name: member.assignment for name, member in sorted(group.members.items())}
            found[group_id] = (group.generation, group.protocol_type, group.leader, shares)
        found[f"{group_id}'s positions"] = dict(coordinator.offsets.of(group_id))
    return found


def is_at_rest(coordinator: GroupCoordinator, group_id: str) -> bool:
    """Whether all that counts of the group is in its records: a classic one has more in memory
    while it rebalances, and before its first generation.
    """
    group = coordinator.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return group.state in (ClassicState.STABLE, ClassicState.EMPTY)
    return True
