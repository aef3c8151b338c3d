"""A start where a consumer group has come to: `startingOffsets=committed:<group>`. Pure.

The group's positions are looked up once, when a query begins, and become an ordinary `Bound`. A
partition in which the group has no position has no start of its own: the read is refused unless
the option says `,earliest` or `,latest` for such partitions. The leader epoch of a position goes
along, so that a log which was cut since is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pylog.model import OffsetAndMetadata, TopicPartition
from pylog_connector.errors import InvalidOption, NoCommittedOffset
from pylog_connector.planning import Bounds
from pylog_connector.positions import EARLIEST, LATEST, Bound
from pylog_connector.values import shown

PREFIX: Final = "committed:"
NAMED_MAX: Final = 3
"""So many partitions without a position are named in an error."""

_FALLBACKS: Final = {"earliest": EARLIEST, "latest": LATEST}
_REMEDY: Final = (
    "write committed:<group>, or committed:<group>,earliest or committed:<group>,latest for "
    "partitions without a committed offset"
)

Committed = Mapping[TopicPartition, OffsetAndMetadata | None]


@dataclass(frozen=True, slots=True)
class CommittedStart:
    """Start where `group` has come to; `fallback`: `EARLIEST` or `LATEST` where it has not been,
    None: that is an error.
    """

    option: str
    group: str
    fallback: int | None = None

    @property
    def shown(self) -> str:
        """The option as it may be written."""
        fallback = "".join(f",{word}" for word, at in _FALLBACKS.items() if at == self.fallback)
        return f"{self.option}={PREFIX}{self.group}{fallback}"

    def bound(self, bounds: Bounds, committed: Committed) -> Bound:
        """The start in the partitions that there are. NoCommittedOffset names those that have none.

        `latest` is where a partition ends now: a batch that begins there reads what comes until it
        is run.
        """
        values: dict[str, dict[int, int]] = {}
        epochs: dict[TopicPartition, int] = {}
        missing: list[TopicPartition] = []
        for topic, has in sorted(bounds.items()):
            values[topic] = {}
            for partition, bound in sorted(has.partitions.items()):
                at = TopicPartition(topic, partition)
                position = committed.get(at)
                if position is not None:
                    values[topic][partition] = position.offset
                    if position.leader_epoch is not None:
                        epochs[at] = position.leader_epoch
                elif self.fallback is None:
                    missing.append(at)
                else:
                    late = self.fallback == LATEST
                    values[topic][partition] = bound.latest if late else self.fallback
        if missing:
            raise self._without(missing, any(map(committed.get, committed)))
        return Bound(self.shown, values, group=self.group, epochs=epochs)

    def _without(self, missing: list[TopicPartition], has_some: bool) -> NoCommittedOffset:
        named = ", ".join(map(str, missing[:NAMED_MAX]))
        more = f" and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
        group = f"group {self.group!r}"
        what = f"{group} has committed no offset" if has_some else f"no offset of {group} exists"
        return NoCommittedOffset(
            f"{self.shown}: {what} in {named}{more}; commit offsets there, or write "
            f"{PREFIX}{self.group},earliest or {PREFIX}{self.group},latest to start such "
            "partitions at their beginning or end"
        )


def is_committed(text: str) -> bool:
    """Whether the text of `startingOffsets` names a group."""
    return text.strip().lower().startswith(PREFIX)


def committed_start(option: str, text: str) -> CommittedStart:
    """`committed:<group>`, with `,earliest` or `,latest` for partitions without a position;
    InvalidOption for anything else behind a last comma. A group whose own id has a comma is
    therefore named with one of the two.
    """
    group = text.strip()[len(PREFIX) :].strip()
    fallback: int | None = None
    if "," in group:
        group, _, word = (part.strip() for part in group.rpartition(","))
        fallback = _FALLBACKS.get(word.lower())
        if fallback is None:
            raise InvalidOption(f"{option}={shown(text)}: {word!r} is no fallback; {_REMEDY}")
    if not group:
        raise InvalidOption(f"{option}={shown(text)} names no group; {_REMEDY}")
    return CommittedStart(option, group, fallback)
