"""Consumer groups, by kafka-python's calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pylog import errors
from pylog.client.admin.admin_types import GroupDescription, GroupMember
from pylog.compat.kafka_python.admin.calls import Calls
from pylog.compat.kafka_python.admin.outcomes import outcomes
from pylog.compat.kafka_python.admin.resources import (
    GroupState,
    GroupType,
    MemberToRemove,
    OffsetSpec,
    OffsetTimestamp,
    member_of,
)
from pylog.compat.kafka_python.errors import KafkaError, NoError
from pylog.compat.kafka_python.structs import (
    OffsetAndMetadata,
    TopicPartition,
    committed_of,
    ours,
    position_of,
    theirs,
)
from pylog.compat.kafka_python.translation import translated, translating


class GroupCalls(Calls):
    """Consumer groups."""

    def list_groups(
        self,
        broker_ids: Iterable[int] | None = None,
        states_filter: Iterable[Any] | None = None,
        types_filter: Iterable[Any] | None = None,
    ) -> list[dict[str, Any]]:
        """A dictionary for each group; only those that these brokers coordinate, where given."""
        states = None
        if states_filter is not None:
            states = [member_of(GroupState, each).value for each in states_filter]
        types = None
        if types_filter is not None:
            types = [member_of(GroupType, each).value for each in types_filter]
        with translating():
            listed = self._admin.list_groups(states, types, timeout=self._seconds(None))
            if broker_ids is not None:
                here = set(broker_ids)
                ids = [group.group_id for group in listed]
                found, _ = outcomes(ids, lambda: self._admin.describe_groups(ids) if ids else {})
                listed = [
                    group
                    for group in listed
                    if group.group_id in found and found[group.group_id].coordinator.id in here
                ]
        return [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.type,
            }
            for group in listed
        ]

    def describe_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> dict[str, dict[str, Any]]:
        """A dictionary for each group, with its members; one that is not there is Dead."""
        ids = list(group_ids)
        if not ids:
            return {}
        with translating():
            found, faults = outcomes(ids, lambda: self._admin.describe_groups(ids))
        rows = {group_id: _described(group) for group_id, group in found.items()}
        for group_id, fault in faults.items():
            rows[group_id] = _missing(group_id, fault)
        return {group_id: rows[group_id] for group_id in ids}

    def list_group_offsets(
        self, group_specs: Any, *partitions: Any
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Positions by group and partition: of `{group: partitions}`, or of all partitions for a
        group or a list of groups.
        """
        if isinstance(group_specs, str):
            group_specs = {group_specs: partitions[0] if partitions else None}
        elif not isinstance(group_specs, Mapping):
            group_specs = dict.fromkeys(group_specs)
        found: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        with translating():
            for group, wanted in group_specs.items():
                asked = None if wanted is None else [ours(tp) for tp in wanted]
                positions = self._admin.list_group_offsets(group, asked)
                found[group] = {
                    theirs(tp): OffsetAndMetadata(-1, "", -1) if at is None else committed_of(at)
                    for tp, at in positions.items()
                }
        return found

    def delete_groups(
        self, group_ids: Iterable[str], group_coordinator_id: int | None = None
    ) -> dict[str, str]:
        """ "OK", or the name of the error, for each group."""
        ids = list(group_ids)
        if not ids:
            return {}
        with translating():
            _, faults = outcomes(ids, lambda: self._admin.delete_groups(ids))
        return {
            each: type(translated(faults[each])).__name__ if each in faults else "OK"
            for each in ids
        }

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, Any],
        group_coordinator_id: int | None = None,
    ) -> dict[TopicPartition, type[KafkaError]]:
        """Set where a group without members goes on; NoError, or an error's class, by partition."""
        wanted = {ours(tp): position_of(given) for tp, given in offsets.items()}
        with translating():
            _, faults = outcomes(wanted, lambda: self._admin.alter_group_offsets(group_id, wanted))
        return {theirs(tp): _class_of(faults.get(tp)) for tp in wanted}

    def reset_group_offsets(
        self,
        group_id: str,
        offset_specs: Mapping[TopicPartition, Any],
        group_coordinator_id: int | None = None,
    ) -> dict[TopicPartition, dict[str, Any]]:
        """Set where a group without members goes on: at an OffsetSpec, an OffsetTimestamp or an
        offset, within what the partition holds; below 0: at the end. `{partition: {error, offset,
        ...}}`.
        """
        wanted = [ours(tp) for tp in offset_specs]
        with translating():
            first = self._admin.list_offsets(dict.fromkeys(wanted, "earliest"))
            last = self._admin.list_offsets(dict.fromkeys(wanted, "latest"))
            target: dict[Any, int] = {}
            for given, spec in offset_specs.items():
                tp = ours(given)
                low, high = _offset(first[tp]), _offset(last[tp])
                at = high
                if isinstance(spec, OffsetSpec):
                    named = {OffsetSpec.EARLIEST: "earliest", OffsetSpec.LATEST: "latest"}
                    asked = named.get(spec, "max_timestamp")
                    found = self._admin.list_offsets({tp: asked})[tp]
                    at = high if found is None else found.offset
                elif isinstance(spec, OffsetTimestamp):
                    found = self._admin.list_offsets({tp: int(spec)})[tp]
                    at = high if found is None else found.offset
                elif isinstance(spec, int):
                    at = spec
                else:
                    raise TypeError(
                        f"{given}: {spec!r} is neither OffsetSpec, OffsetTimestamp nor an offset"
                    )
                target[tp] = high if at < 0 else min(max(at, low), high)
            _, faults = outcomes(target, lambda: self._admin.alter_group_offsets(group_id, target))
        return {
            theirs(tp): {"error": _class_of(faults.get(tp)), "offset": at, "metadata": ""}
            for tp, at in target.items()
        }

    def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        group_coordinator_id: int | None = None,
    ) -> dict[TopicPartition, type[KafkaError]]:
        """Forget a group's positions; NoError, or an error's class, by partition."""
        wanted = [ours(tp) for tp in partitions]
        with translating():
            _, faults = outcomes(wanted, lambda: self._admin.delete_group_offsets(group_id, wanted))
        return {theirs(tp): _class_of(faults.get(tp)) for tp in wanted}

    def remove_group_members(
        self,
        group_id: str,
        members: Iterable[MemberToRemove],
        group_coordinator_id: int | None = None,
    ) -> dict[str, type[KafkaError]]:
        """Remove members; NoError, or an error's class, by a member's id or static name."""
        wanted = {each.member_id or each.group_instance_id or "": each for each in members}
        reason = next((each.reason for each in wanted.values() if each.reason), "")
        with translating():
            _, faults = outcomes(
                wanted,
                lambda: dict.fromkeys(
                    self._admin.remove_group_members(group_id, list(wanted), reason=reason)
                ),
            )
        return {name: _class_of(faults.get(name)) for name in wanted}

    # ---- kafka-python's names before version 3 ------------------------------------------------

    def list_consumer_groups(
        self, broker_ids: Iterable[int] | None = None
    ) -> list[tuple[str, str]]:
        """(group id, protocol type) of each group."""
        return [(row["group_id"], row["protocol_type"]) for row in self.list_groups(broker_ids)]

    def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> list[dict[str, Any]]:
        """The dictionaries of `describe_groups`, in order."""
        return list(self.describe_groups(group_ids).values())

    def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """A group's positions by partition."""
        return self.list_group_offsets({group_id: partitions})[group_id]

    def delete_consumer_groups(
        self, group_ids: Iterable[str], group_coordinator_id: int | None = None
    ) -> list[tuple[str, type[KafkaError]]]:
        """(group id, NoError or an error's class) of each group."""
        ids = list(group_ids)
        with translating():
            _, faults = outcomes(ids, lambda: self._admin.delete_groups(ids))
        return [(each, _class_of(faults.get(each))) for each in ids]


def _offset(found: Any) -> int:
    return 0 if found is None else int(found.offset)


def _class_of(error: errors.PylogError | None) -> type[KafkaError]:
    return NoError if error is None else type(translated(error))


def _missing(group_id: str, fault: errors.PylogError) -> dict[str, Any]:
    is_dead = isinstance(fault, errors.GroupIdNotFound)
    return {
        "group_id": group_id,
        "group_state": "Dead" if is_dead else "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
        "authorized_operations": [],
        "error": None if is_dead else str(translated(fault)),
    }


def _described(group: GroupDescription) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.assignor,
        "members": [_member(member) for member in group.members],
        "authorized_operations": [],
        "error": None,
    }


def _member(member: GroupMember) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for tp in member.assignment or ():
        topics.setdefault(tp.topic, []).append(tp.partition)
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": {
            "topics": sorted(member.topics or topics),
            "user_data": "",
            "owned_partitions": [],
        },
        "member_assignment": {
            "assigned_partitions": [
                {"topic": topic, "partitions": numbers} for topic, numbers in topics.items()
            ],
            "user_data": "",
        },
    }
