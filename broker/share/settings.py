"""The settings of a share group at the leaders of its partitions, under Kafka's names. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from pylog.errors import InvalidConfig

_BY_DURATION: Final = "by_duration:"


class Reset(Enum):
    """The place where a group begins to read a partition of which it has no state."""

    EARLIEST = "earliest"
    LATEST = "latest"
    BY_DURATION = "by_duration"


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """The settings of one share group. Defaults are Kafka's."""

    record_lock_duration_ms: int = 30_000
    """share.record.lock.duration.ms: how long a record is acquired."""
    delivery_count_limit: int = 5
    """share.delivery.count.limit: how often a record is delivered at most."""
    partition_max_record_locks: int = 2_000
    """share.partition.max.record.locks: records of a partition that are under way at a time."""
    auto_offset_reset: str = "latest"
    """share.auto.offset.reset: earliest, latest, or by_duration:<ISO 8601 duration>."""
    isolation_level: str = "read_uncommitted"
    """share.isolation.level"""
    dead_letter_topic: str = ""
    """errors.deadletterqueue.topic.name: where records go that are delivered no more; empty:
    nowhere.
    """
    copies_dead_letters: bool = False
    """errors.deadletterqueue.copy.record.enable: whether their keys and values go there, too."""
    may_renew: bool = True
    """share.renew.acknowledge.enable: whether members may renew their locks."""

    @property
    def reads_committed(self) -> bool:
        """Whether records of transactions that are open or aborted are kept from members."""
        return self.isolation_level == "read_committed"


class ShareSettingsOf(Protocol):
    """The present settings of a group."""

    def __call__(self, group_id: str) -> ShareSettings: ...


def reset_of(text: str) -> tuple[Reset, int]:
    """The meaning of `share.auto.offset.reset`, and the duration in ms where it is by duration.
    Raises InvalidConfig.
    """
    wanted = text.strip().lower()
    if wanted.startswith(_BY_DURATION):
        return Reset.BY_DURATION, duration_ms(text.strip()[len(_BY_DURATION) :])
    if wanted in (Reset.EARLIEST.value, Reset.LATEST.value):
        return Reset(wanted), 0
    raise InvalidConfig(
        f"share.auto.offset.reset={text!r} is none of earliest, latest, by_duration:<duration>"
    )


def duration_ms(text: str) -> int:
    """An ISO 8601 duration as Java's `Duration` has it, of days and less, in ms: `P1DT2H3M4.5S`.
    Raises InvalidConfig, also for a negative one.
    """
    fault = InvalidConfig(
        f"share.auto.offset.reset: {text!r} is no positive ISO 8601 duration such as PT1H or P7D"
    )
    wanted = text.upper()
    if not wanted.startswith("P"):
        raise fault
    date, separator, time = wanted[1:].partition("T")
    if separator and not time:
        raise fault
    total = _part(date, {"D": 86_400_000}, fault)
    total += _part(time, {"H": 3_600_000, "M": 60_000, "S": 1_000}, fault)
    if not (date or time):
        raise fault
    return total


def _part(text: str, units: dict[str, int], fault: InvalidConfig) -> int:
    """The ms of `2H3M4.5S`, whose units come in their order and at most once."""
    total = 0
    left = [*units]
    number = ""
    for letter in text:
        if letter in left:
            del left[: left.index(letter) + 1]
            total += int(_number(number, letter, fault) * units[letter])
            number = ""
        else:
            number += letter
    if number:
        raise fault
    return total


def _number(text: str, unit: str, fault: InvalidConfig) -> float:
    whole, dot, fraction = text.partition(".")
    plain = whole.isascii() and whole.isdigit() and len(whole) <= 10
    if not plain or (dot and (unit != "S" or not fraction.isdigit() or len(fraction) > 9)):
        raise fault
    return float(text)
