"""Which segments of a log may go: too old, too many bytes, or below the log start. Pure.

Segments go from the oldest on, none that reaches beyond the high watermark: what is not committed
may still have to be given to a follower. A segment is as old as its largest timestamp; one without
timestamps as old as its file.

Ages are only as good as the clock. A wall clock that runs forward by days at once (a wrong date,
corrected or set) would make every record too old. `RetentionClock` compares it with the monotonic
one, and believes a jump only after so long that everything written before it is too old either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, NamedTuple

from broker.config import TopicConfig
from broker.storage.segment import Segment

JUMP_MS: Final = 10 * 60_000
"""The two clocks drift apart by less in one interval, or one of them was set."""
_DAY_MS: Final = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Doomed:
    """How many of the oldest segments may go, and why the last of them."""

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
    """What may go. `wall_ms` None: the clock cannot be trusted, so nothing goes for its age.

    `modified_ms` gives the age of a segment without timestamps. The active segment counts only when
    it holds something; the caller rolls first.
    """
    deletes = "delete" in config.cleanup_policy
    surplus = sum(segment.size for segment in segments) - config.retention_bytes
    limited = deletes and config.retention_bytes >= 0
    count, reason = 0, ""
    for segment, after in zip_longest(segments, segments[1:]):
        # Where the next one begins: a cleaned segment's own batches may end earlier.
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


class ClockJump(NamedTuple):
    """Both clocks at one moment, and how far the wall clock is ahead of what is believed, since
    when (monotonic).
    """

    now_ms: int
    wall_ms: int
    lead_ms: int
    jumped_ms: int


class RetentionClock:
    """The wall clock as far as deletions may trust it.

    `newest_file_ms`: the time of the newest file at the start. A clock that stands more than a day
    before it is wrong, or was: nothing is deleted for its age until the clock has passed it.
    `known`: what an earlier life knew, if the monotonic clock has run on since. A clock that was
    set while no broker ran has jumped, too.
    """

    def __init__(self, newest_file_ms: int = 0, known: ClockJump | None = None) -> None:
        self._not_before_ms = newest_file_ms - _DAY_MS
        self._last: tuple[int, int] | None = None
        self._lead_ms = 0  # what the wall clock has jumped ahead, not believed yet
        self._jump_ms = 0  # when that was, monotonic
        if known is not None:
            self._last = (known.now_ms, known.wall_ms)
            self._lead_ms, self._jump_ms = known.lead_ms, known.jumped_ms

    def tick(self, now_ms: int, wall_ms: int) -> int:
        """Both clocks as they are now, every few seconds; how far the wall clock jumped, or 0."""
        last, self._last = self._last, (now_ms, wall_ms)
        if last is None:
            return 0
        jump = (wall_ms - last[1]) - (now_ms - last[0])
        if jump > JUMP_MS:
            self._lead_ms += jump
            self._jump_ms = now_ms
            return jump
        if jump < -JUMP_MS:
            self._lead_ms = max(0, self._lead_ms + jump)
            return jump
        return 0

    @property
    def jump(self) -> ClockJump:
        """What a later life on the same boot has to know; `tick` first."""
        assert self._last is not None, "tick first"
        return ClockJump(*self._last, self._lead_ms, self._jump_ms)

    def time_for(self, retention_ms: int) -> int | None:
        """The time by which records of that retention are too old; None: not to be told (and before
        the first tick).
        """
        if self._last is None:
            return None
        now_ms, wall_ms = self._last
        if wall_ms < self._not_before_ms:
            return None
        if self._lead_ms and now_ms - self._jump_ms <= retention_ms:
            return wall_ms - self._lead_ms
        return wall_ms
