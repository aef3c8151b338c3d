"""The offsets that a reset of a group commits: a user's target, as one offset for each partition.

Kafka's `kafka-consumer-groups --reset-offsets` is the model: a target outside of a partition's
offsets becomes its first offset or its end, with a note.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from pylog import errors
from pylog.config import INT_MAX, LONG_MAX
from pylog.model import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition, topic_name_fault

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient

Current = Mapping[TopicPartition, OffsetAndMetadata | None]
Listing = dict[TopicPartition, OffsetAndTimestamp | None]

_COLUMNS: Final = ("topic", "partition", "offset")


class Change(NamedTuple):
    """A partition's position as it is (None: nothing is committed), and as it is to be."""

    current: int | None
    new: int


@dataclass(slots=True)
class Plan:
    """The changes of one group, and what people should know of them. `faults`: partitions that
    cannot be planned.
    """

    changes: dict[TopicPartition, Change] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    faults: dict[TopicPartition, errors.PylogError] = field(default_factory=dict)


Rule = Callable[["AdminClient", Current, Sequence[TopicPartition]], Plan]
"""The plan for those partitions of a group."""


# ---- which partitions ----------------------------------------------------------------------------


def scopes(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Partitions by topic, None for all, of texts such as `flights` and `flights:0,1`. UsageError
    for what is none.
    """
    wanted: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        fault = topic_name_fault(topic)
        if fault is not None:
            raise click.UsageError(f"--topic {text}: {fault}")
        if not colon:
            wanted[topic] = None
            continue
        try:
            chosen = [_number(number, INT_MAX) for number in numbers.split(",")]
        except ValueError:
            raise click.UsageError(f"--topic {text}: write TOPIC or TOPIC:0,1,2") from None
        before = wanted.get(topic, [])
        wanted[topic] = None if before is None else [*before, *chosen]
    return wanted


def partitions_of(
    admin: AdminClient, scope: Mapping[str, list[int] | None]
) -> list[TopicPartition]:
    """All of them, by number; UnknownTopicOrPartition for a partition that there is not."""
    topics = admin.describe_topics(list(scope)) if scope else {}
    found = []
    for topic, numbers in scope.items():
        count = len(topics[topic].partitions)
        for number in range(count) if numbers is None else dict.fromkeys(numbers):
            if number >= count:
                raise errors.UnknownTopicOrPartition(
                    f"topic {topic} has partitions 0 to {count - 1}; there is no partition {number}"
                )
            found.append(TopicPartition(topic, number))
    return found


# ---- where to ------------------------------------------------------------------------------------


def to_end(spec: str) -> Rule:
    """To the first offset ("earliest"), or to the end ("latest")."""

    def plan(admin: AdminClient, current: Current, partitions: Sequence[TopicPartition]) -> Plan:
        made = Plan()
        for tp, at in _listed(admin, partitions, spec, made).items():
            made.changes[tp] = Change(_offset(current, tp), 0 if at is None else at.offset)
        return made

    return plan


def to_time(timestamp_ms: int) -> Rule:
    """To the first record at or after a time; to the end where none is that late."""

    def plan(admin: AdminClient, current: Current, partitions: Sequence[TopicPartition]) -> Plan:
        made = Plan()
        found = _listed(admin, partitions, timestamp_ms, made)
        late = [tp for tp, at in found.items() if at is None]
        found.update(_listed(admin, late, "latest", made))
        for tp, at in found.items():
            if at is not None and tp not in made.faults:
                made.changes[tp] = Change(_offset(current, tp), at.offset)
            if tp in late:
                made.notes.append(f"{tp}: no record is that late; its end is taken")
        return made

    return plan


def to_offsets(wanted: Callable[[TopicPartition], int]) -> Rule:
    """To the offset that is wanted of each partition."""

    def plan(admin: AdminClient, current: Current, partitions: Sequence[TopicPartition]) -> Plan:
        return _within(admin, current, {tp: wanted(tp) for tp in partitions})

    return plan


def to_current() -> Rule:
    """A rule that keeps each partition's committed offset; the end where nothing is committed."""

    def plan(admin: AdminClient, current: Current, partitions: Sequence[TopicPartition]) -> Plan:
        known = {tp: at for tp in partitions if (at := _offset(current, tp)) is not None}
        made = _within(admin, current, known)
        rest = [tp for tp in partitions if tp not in known]
        for tp, end in _listed(admin, rest, "latest", made).items():
            made.changes[tp] = Change(None, 0 if end is None else end.offset)
        return made

    return plan


def by_shift(count: int) -> Rule:
    """So many records on, or back where `count` is below 0."""

    def plan(admin: AdminClient, current: Current, partitions: Sequence[TopicPartition]) -> Plan:
        known = {tp: at for tp in partitions if (at := _offset(current, tp)) is not None}
        made = _within(admin, current, {tp: at + count for tp, at in known.items()})
        for tp in partitions:
            if tp not in known:
                made.faults[tp] = errors.InvalidRequest(
                    f"{tp}: nothing is committed that could be shifted"
                )
        return made

    return plan


def _offset(current: Current, tp: TopicPartition) -> int | None:
    position = current.get(tp)
    return None if position is None else position.offset


def _within(admin: AdminClient, current: Current, wanted: Mapping[TopicPartition, int]) -> Plan:
    """The wanted offsets, as far as the partitions have them."""
    made = Plan()
    first = _listed(admin, wanted, "earliest", made)
    ends = _listed(admin, wanted, "latest", made)
    for tp, offset in wanted.items():
        low, high = first.get(tp), ends.get(tp)
        if low is None or high is None:
            continue
        new = min(max(offset, low.offset), high.offset)
        if new != offset:
            where = "before its first offset" if offset < new else "beyond its end"
            made.notes.append(f"{tp}: {offset} is {where}; {new} is taken")
        made.changes[tp] = Change(_offset(current, tp), new)
    return made


def _listed(
    admin: AdminClient, partitions: Iterable[TopicPartition], spec: str | int, into: Plan
) -> Listing:
    """The offsets that could be had; the faults go into the plan."""
    wanted: dict[TopicPartition, str | int] = {
        tp: spec for tp in partitions if tp not in into.faults
    }
    if not wanted:
        return {}
    try:
        return admin.list_offsets(wanted)
    except errors.PartialFailure as partly:
        into.faults.update(partly.errors)  # type: ignore[arg-type]
        return dict(partly.results)  # type: ignore[arg-type]
    except errors.PylogError as error:
        if len(wanted) > 1:
            raise
        into.faults.update(dict.fromkeys(wanted, error))
        return {}


# ---- plans as CSV --------------------------------------------------------------------------------


def read_csv(lines: Iterable[str], groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Offsets by group of lines such as `topic,partition,offset`, or, for several groups,
    `group,topic,partition,offset`. ClickException names the line that is none.
    """
    wanted: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(_rows(lines), 1):
        if not row:
            continue
        columns = _COLUMNS if len(groups) == 1 and len(row) == 3 else ("group", *_COLUMNS)
        try:
            *group, topic, partition, offset = row
            place = TopicPartition(topic, _number(partition, INT_MAX))
            target = _number(offset, LONG_MAX)
            ours = group[0] if len(group) == 1 else groups[0]
        except (ValueError, IndexError):
            group = ["no columns"]
            ours, place, target = "", TopicPartition("", 0), -1
        if len(row) != len(columns) or target < 0 or topic_name_fault(place.topic) is not None:
            raise click.ClickException(f"--from-file: line {number} is not {','.join(columns)}")
        if ours not in groups:
            raise click.ClickException(
                f"--from-file: line {number}: group {ours!r} is not one of the groups"
            )
        wanted.setdefault(ours, {})[place] = target
    return wanted


def _rows(lines: Iterable[str]) -> list[list[str]]:
    reader = csv.reader(lines)
    try:
        return list(reader)
    except UnicodeDecodeError as error:
        raise click.ClickException(f"--from-file: it is no text in UTF-8: {error}") from None
    except csv.Error as error:
        raise click.ClickException(f"--from-file: line {reader.line_num}: {error}") from None


def write_csv(plans: Mapping[str, Plan], *, with_group: bool) -> str:
    """Lines that `read_csv` understands."""
    rows: list[list[Any]] = [
        [*([group] if with_group else []), tp.topic, tp.partition, change.new]
        for group, plan in plans.items()
        for tp, change in plan.changes.items()
    ]
    return "".join(",".join(_quoted(str(cell)) for cell in row) + "\n" for row in rows)


def _quoted(cell: str) -> str:
    if not any(mark in cell for mark in ',"\r\n'):
        return cell
    doubled = cell.replace('"', '""')
    return f'"{doubled}"'


def _number(text: str, limit: int) -> int:
    number = text.strip()
    if not (number.isascii() and number.isdigit() and int(number) <= limit):
        raise ValueError(text)
    return int(number)
