"""A consumer's settings of its group, checked: its protocol, and the assignors that share the
partitions out.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pylog import errors
from pylog.client.arguments import shown
from pylog.client.background import log_or_raise, logger
from pylog.client.fetching.group_managers import GroupSettings
from pylog.client.membership.assignors import OWN_ASSIGNORS, Assignor, Member, Plan
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.user_code import made
from pylog.model import TopicPartition, topic_id_from_bytes, topic_name_fault

CLASSIC_ONLY: Final = (
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
)
"""Settings that the coordinator decides by itself in the new protocol."""
DEFAULT_STRATEGY: Final = ("range", "cooperative-sticky")
_JAVA: Final = {
    f"org.apache.kafka.clients.consumer.{kind.__name__}": kind for kind in OWN_ASSIGNORS.values()
}


def group_settings(values: Mapping[str, Any], given: frozenset[str]) -> GroupSettings | None:
    """The settings of the consumer in its group; None without a group id. `given`: the settings
    that the user has named, by dotted names.

    InvalidGroupId for an empty one, InvalidConfig for what does not go together.
    """
    group_id: str | None = values["group.id"]
    if group_id is None:
        if values["enable.auto.commit"]:
            raise errors.InvalidConfig(
                "enable_auto_commit=True needs a group_id, to whose offsets the consumer commits"
            )
        return None
    if not group_id:
        raise errors.InvalidGroupId("group_id='': a group's name is a text that is not empty")
    instance_id: str | None = values["group.instance.id"]
    fault = None if instance_id is None else topic_name_fault(instance_id)
    if fault is not None:
        raise errors.InvalidConfig(f"group_instance_id={instance_id!r}: {fault}")
    auto_commit = values["enable.auto.commit"]
    settings = MembershipSettings(
        session_timeout_ms=values["session.timeout.ms"],
        heartbeat_interval_ms=values["heartbeat.interval.ms"],
        max_poll_interval_ms=values["max.poll.interval.ms"],
        auto_commit=True if auto_commit is None else auto_commit,
        auto_commit_interval_ms=values["auto.commit.interval.ms"],
        default_api_timeout_ms=values["default.api.timeout.ms"],
        retry_backoff_ms=values["retry.backoff.ms"],
        retry_backoff_max_ms=values["retry.backoff.max.ms"],
    )
    if _protocol(values, given, group_id) == "classic":
        strategy = values["partition.assignment.strategy"]
        assignors = assignors_of(DEFAULT_STRATEGY if strategy is None else strategy)
        return GroupSettings(settings, GroupIdentity(group_id, instance_id), assignors)
    member_id = topic_id_from_bytes(uuid.uuid4().bytes)  # Kafka's form, too
    return GroupSettings(settings, GroupIdentity(group_id, instance_id, member_id))


def _protocol(values: Mapping[str, Any], given: frozenset[str], group_id: str) -> str:
    """The new one unless the user asks for the classic one, or for what that alone has."""
    named: str | None = values["group.protocol"]
    classic_only = [name.replace(".", "_") for name in CLASSIC_ONLY if name in given]
    protocol = named.lower() if named is not None else "classic" if classic_only else "consumer"
    if protocol == "consumer":
        if classic_only:
            raise errors.InvalidConfig(
                f"{classic_only[0]} is the coordinator's to say with group_protocol='consumer': "
                f"leave it out, or set group_protocol='classic'"
            )
        return protocol
    if values["group.remote.assignor"] is not None:
        raise errors.InvalidConfig(
            "group_remote_assignor is for group_protocol='consumer': leave it out, or set "
            "partition_assignment_strategy"
        )
    if values["heartbeat.interval.ms"] >= values["session.timeout.ms"]:
        raise errors.InvalidConfig(
            f"heartbeat_interval_ms={values['heartbeat.interval.ms']}: it must be less than "
            f"session_timeout_ms={values['session.timeout.ms']}, a third of it at most"
        )
    if named is None:
        logger.warning(
            "the consumer of group %r speaks the classic protocol, as %s is set; with "
            "group_protocol='classic' this line goes away",
            group_id,
            " and ".join(classic_only),
        )
    return protocol


# ---- assignors ---------------------------------------------------------------------------------


def assignors_of(given: Any) -> tuple[Assignor, ...]:
    """The assignors of `partition_assignment_strategy`: names, Kafka's classes, or the user's own
    objects, classes or import paths. InvalidConfig says which one is none.
    """
    listed: Sequence[Any]
    if isinstance(given, str):
        listed = [name.strip() for name in given.split(",") if name.strip()]
    else:
        listed = given if isinstance(given, list | tuple) else [given]
    found = [_assignor(one) for one in listed]
    names = [assignor.name for assignor in found]
    if not found or len(set(names)) < len(names):
        raise errors.InvalidConfig(
            f"partition_assignment_strategy={shown(given)}: give one assignor, or several with "
            f"different names"
        )
    return tuple(found)


def _assignor(given: Any) -> Assignor:
    kind = OWN_ASSIGNORS.get(given) or _JAVA.get(given) if isinstance(given, str) else None
    if kind is not None:
        return kind()
    own_names = ", ".join(OWN_ASSIGNORS)
    if isinstance(given, str) and "." not in given and ":" not in given:
        raise errors.InvalidConfig(
            f"partition_assignment_strategy={given!r}: give one of {own_names}, or an assignor of "
            f"your own"
        )
    own = made("partition_assignment_strategy", given)
    if type(own) in OWN_ASSIGNORS.values():
        return own  # type: ignore[no-any-return]
    name = getattr(own, "name", None)
    if not isinstance(name, str) or not name or not callable(getattr(own, "assign", None)):
        raise errors.InvalidConfig(
            f"partition_assignment_strategy={shown(given)}: an assignor has a `name` and a method "
            f"assign(partition_counts, members), or is one of {own_names}"
        )
    return _UsersAssignor(own)


class _UsersAssignor:
    """An assignor of the user's, which need not have all of the protocol's parts."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self.name: str = own.name
        self.cooperative: bool = bool(getattr(own, "cooperative", False))

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """The warning that it has to give, if any."""
        method = getattr(self._own, "user_data", None)
        if not callable(method):
            return None
        try:
            data = method(owned, generation)
        except BaseException as error:  # noqa: BLE001  the member joins
            log_or_raise(error, f"user_data of the assignor {self.name!r} raised; it gives none")
            return None
        if data is not None and not isinstance(data, bytes):
            logger.error(
                "user_data of the assignor %r returned %s, which is not bytes; it gives none",
                self.name,
                shown(data),
            )
            return None
        return data

    def assign(self, partition_counts: Mapping[str, int], members: Sequence[Member]) -> Plan:
        """Its plan, in which each member stands."""
        plan = self._own.assign(partition_counts, members)
        try:
            return {
                m.member_id: [TopicPartition(*tp) for tp in plan.get(m.member_id, ())]
                for m in members
            }
        except (AttributeError, TypeError):
            raise errors.InvalidConfig(
                f"the assignor {self.name!r} returned {shown(plan)}: assign() returns a dictionary "
                f"of each member's id and its list of (topic, partition)"
            ) from None
