"""The segments of a log that may go: too old, too many bytes, or below the log start. Pure.

Segments go from the oldest on, none that reaches beyond the high watermark: what is not committed
may still have to be given to a follower. A segment is as old as its largest timestamp; one without
timestamps as old as its file.

Ages are only as good as the clock. A wall clock that runs forward by days at once (a wrong date,
corrected or set) would make every record too old. `RetentionClock` compares it with the monotonic
one, and believes a jump only after so long that everything written before it is too old either way.
Each jump has its own time: a machine that sleeps every night forgets what is old by all but the
nights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, NamedTuple

from pylog_broker.config import TopicConfig
from pylog_broker.storage.segments.segment import Segment

JUMP_MS: Final = 10 * 60_000
"""The two clocks drift apart by less in one interval, or one of them was set."""
_DAY_MS: Final = 24 * 3_600_000
_STEPS_MAX: Final = 64
"""A machine that sleeps every night steps once a day."""


@dataclass(frozen=True, slots=True)
class Doomed:
    """The number of the oldest segments that may go, and the reason for the last of them."""

    count: int
    reason: str = ""


def doomed_segments(
    segments: Sequence[Segment],
    config: TopicConfig,
    *,
    log_start: int,
    high_watermark: int,
    wall_ms: int | None,
    modified_ms: Callable[[Segment], int],
) -> Doomed:
    """The segments that may go. `wall_ms` None: the clock cannot be trusted, so nothing goes for
    its age.

    `modified_ms` gives the age of a segment without timestamps. The active segment counts only when
    it holds something; the caller rolls first.
    """
    deletes = "delete" in config.cleanup_policy
    surplus = sum(segment.size for segment in segments) - config.retention_bytes
    limited = deletes and config.retention_bytes >= 0
    count, reason = 0, ""
    for segment, after in zip_longest(segments, segments[1:]):
        # The base offset of the next one: a cleaned segment's own batches may end earlier.
        end = segment.end_offset if after is None else after.base_offset
        if end > high_watermark or (after is None and not segment.size):
            break
        surplus -= segment.size
        if end <= log_start and after is not None:
            why = f"it is below the log start offset {log_start}"
        elif (
            deletes
            and wall_ms is not None
            and 0 <= config.retention_ms < _age(segment, wall_ms, modified_ms)
        ):
            why = f"it is older than retention.ms={config.retention_ms}"
        elif limited and surplus >= 0:
            why = f"the log is larger than retention.bytes={config.retention_bytes}"
        else:
            break
        count, reason = count + 1, why
    return Doomed(count, reason)


def _age(segment: Segment, wall_ms: int, modified_ms: Callable[[Segment], int]) -> int:
    newest = segment.max_timestamp
    return wall_ms - (newest if newest >= 0 else modified_ms(segment))


class ClockStep(NamedTuple):
    """The wall clock was set by `by_ms` (back: negative), seen at `at_ms` of the monotonic one."""

    by_ms: int
    at_ms: int


class ClockReading(NamedTuple):
    """Both clocks at one moment, and how the wall clock was set before, oldest first."""

    now_ms: int
    wall_ms: int
    steps: tuple[ClockStep, ...] = ()


class RetentionClock:
    """The wall clock as far as deletions may trust it.

    `newest_file_ms`: the time of the newest file at the start. A clock that stands more than a day
    before it is wrong, or was: nothing is deleted for its age until the clock has passed it.
    `known`: what an earlier life knew, if the monotonic clock has run on since. A clock that was
    set while no broker ran has jumped, too.
    """

    def __init__(self, newest_file_ms: int = 0, known: ClockReading | None = None) -> None:
        self._not_before_ms = newest_file_ms - _DAY_MS
        self._last = known

    def tick(self, now_ms: int, wall_ms: int) -> int:
        """Both clocks as they are now, every few seconds; how far the wall clock jumped, or 0."""
        last = self._last
        if last is None:
            self._last = ClockReading(now_ms, wall_ms)
            return 0
        jump = (wall_ms - last.wall_ms) - (now_ms - last.now_ms)
        if abs(jump) <= JUMP_MS:
            self._last = ClockReading(now_ms, wall_ms, last.steps)
            return 0
        steps = _shortened((*last.steps, ClockStep(jump, now_ms)))
        self._last = ClockReading(now_ms, wall_ms, steps)
        return jump

    @property
    def reading(self) -> ClockReading:
        """The reading that a later life on the same boot has to know; `tick` first."""
        assert self._last is not None, "tick first"
        return self._last

    def time_for(self, retention_ms: int) -> int | None:
        """The time by which records of that retention are too old; None: not to be told (and before
        the first tick).

        A record that was written so long ago by the monotonic clock is old whatever was set since.
        For a younger one the clock may have gained at most what the steps since then add up to.
        """
        if self._last is None or self._last.wall_ms < self._not_before_ms:
            return None
        gained = most = 0
        for step in reversed(self._last.steps):
            if self._last.now_ms - step.at_ms > retention_ms:
                break
            gained += step.by_ms
            most = max(most, gained)
        return self._last.wall_ms - most


def _shortened(steps: tuple[ClockStep, ...]) -> tuple[ClockStep, ...]:
    """At most _STEPS_MAX: the two oldest become one that is as late and as large as either way of
    counting them, so that nothing goes before its time.
    """
    if len(steps) <= _STEPS_MAX:
        return steps
    first, second = steps[:2]
    by_ms = second.by_ms + max(0, first.by_ms)
    return (ClockStep(by_ms, second.at_ms), *steps[2:])
