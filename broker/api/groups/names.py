"""The limits for names and sizes in requests about groups.

Apache Kafka takes names of up to 32 KiB. They stand in every record of a group, in the memory of
every coordinator, and in the words of errors, so here they are as long as names are.
"""

from __future__ import annotations

from typing import Final

from pylog.errors import InvalidGroupId, InvalidRequest, InvalidTopic
from pylog.model import topic_name_fault
from pylog_broker.group_settings import GROUP_ID_CHARS_MAX

INSTANCE_ID_CHARS_MAX: Final = 249
"""Kafka's own limit (KIP-345)."""
NAME_CHARS_MAX: Final = 512
"""The most characters of any other name. The longest that a broker makes is a member id: a client's
id and a UUID."""
REGEX_CHARS_MAX: Final = 8_000
"""The most characters of a regular expression: the key of its record holds it, and has 32 KiB at
most."""
REASON_CHARS_MAX: Final = 255
"""The most characters of the reason that a member gives to join or go; a longer one is cut, as in
Kafka."""
STANDING_MS_MAX: Final = 60_000
"""The time for which a heartbeat stands at most, whatever its member says."""
STRATEGIES_MAX: Final = 100
METADATA_BYTES_MAX: Final = 1024 * 1024
"""The metadata of one member, for all its strategies. The record of its group has to hold that of
all members.
"""
ASSIGNMENTS_BYTES_MAX: Final = 4 * 1024 * 1024
"""The most bytes of the assignments of all members of a group."""

_CHARS_MAX: Final = {
    "instance_id": INSTANCE_ID_CHARS_MAX,
    "subscribed_topic_regex": REGEX_CHARS_MAX,
}


def check_group_id(group_id: str, *, may_be_empty: bool = False) -> None:
    """Raises InvalidGroupId. As in Kafka, a group without a name can be looked at and deleted:
    very old consumers committed in it.
    """
    if not group_id and not may_be_empty:
        raise InvalidGroupId("group_id is empty")
    if len(group_id) > GROUP_ID_CHARS_MAX:
        raise InvalidGroupId(
            f"group_id has {len(group_id)} characters; the limit is {GROUP_ID_CHARS_MAX}"
        )


def check_names(**names: str | None) -> None:
    """InvalidRequest for a name that is too long, by the field that has it."""
    for name, value in names.items():
        limit = _CHARS_MAX.get(name, NAME_CHARS_MAX)
        if value is not None and len(value) > limit:
            raise InvalidRequest(f"{name} has {len(value)} characters; the limit is {limit}")


def check_size(what: str, size: int, limit: int) -> None:
    """InvalidRequest for too many bytes."""
    if size > limit:
        raise InvalidRequest(f"{what}: {size} bytes; the limit is {limit}")


def check_topics(names: tuple[str, ...]) -> None:
    """InvalidTopic for a name that no topic can have."""
    for name in names:
        if fault := topic_name_fault(name):
            raise InvalidTopic(fault)
