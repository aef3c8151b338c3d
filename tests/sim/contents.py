"""The contents of producers' batches, and the rules by which records may go again.

A batch is known by its bytes wherever it lies, until a cleaner takes records out of it: then what
is left must be records of the batch that was written at that offset, and whatever is missing must
be what the rules allow. The rules are those of the promises, in plain terms and in the simulator's
own time; nothing of the product's way to them is used.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pylog.model import TopicId
from pylog.records.batch import CRC_OFFSET, CRC_START, Buffer
from pylog.records.reader import iter_records
from pylog_broker.config import TopicConfig


class Marker(NamedTuple):
    """A control batch's verdict on its producer's transaction."""

    commits: bool
    coordinator_epoch: int


class Original(NamedTuple):
    """A batch as its producer made it, with the time of each record. `ends`: of a marker, whose
    bytes are the same in each partition.
    """

    home: tuple[TopicId, int]
    keys: tuple[bytes | None, ...]
    values: tuple[bytes | None, ...]
    timestamps: tuple[int, ...]
    is_transactional: bool = False
    ends: Marker | None = None


ANYWHERE = (TopicId(""), -1)
"""The home of a marker."""


def fingerprint(batch: Buffer) -> int:
    """A number that tells a batch from all others of a run, whatever offset and epoch a leader
    gives it.

    Its CRC alone does not: among the batches of some thousand runs two have the same. So another
    checksum of the bytes that it covers stands behind it.
    """
    view = memoryview(batch)
    return int.from_bytes(view[CRC_OFFSET:CRC_START]) << 32 | zlib.crc32(view[CRC_START:])


class Contents:
    """Every batch that was ever sent, by its fingerprint."""

    def __init__(self) -> None:
        self._originals: dict[int, Original] = {}

    def sent(self, mark: int, original: Original) -> None:
        """A producer made it; no two are alike."""
        assert self._originals.get(mark, original) == original, original
        self._originals[mark] = original

    def get(self, mark: int) -> Original | None:
        """The batch of that fingerprint."""
        return self._originals.get(mark)

    def of(self, mark: int) -> Original:
        """The batch of that fingerprint, which is known."""
        return self._originals[mark]


def left_of(original: Original, base: int, batch: Buffer) -> set[int] | str:
    """The offsets of the records that a smaller `batch` still has; or what is wrong with it."""
    found: set[int] = set()
    for record in iter_records(batch, "t", original.home[1]):
        index = record.offset - base
        if not 0 <= index < len(original.values):
            return f"a record at {record.offset} that was never written"
        wanted = (original.keys[index], original.values[index], original.timestamps[index])
        if (record.key, record.value, record.timestamp_ms) != wanted:
            return f"{record} where {wanted} was written"
        found.add(record.offset)
    return found


@dataclass(slots=True)
class WallClock:
    """One machine's time of day, which somebody may set; the true one is the simulator's."""

    true_ms: Callable[[], int]
    small_step_ms: int
    ahead_ms: int = 0
    small_steps_ms: int = 0  # how far it was set in small steps since the boot, all added up

    def now_ms(self) -> int:
        """The time that the machine's processes see."""
        return self.true_ms() + self.ahead_ms

    def set(self, step_ms: int) -> None:
        """Somebody sets it."""
        self.ahead_ms += step_ms
        if abs(step_ms) <= self.small_step_ms:
            self.small_steps_ms += abs(step_ms)

    def rebooted(self) -> None:
        """A machine that starts asks what time it is."""
        self.ahead_ms = self.small_steps_ms = 0


@dataclass(slots=True)
class Trust:
    """The clock that deletions in one log directory may go by: what its broker saw of it.

    The clock counts as ahead by as much as it was at every look of the last `retention_ms`: all
    that was written before them is old by any clock. Small steps (those of a time service) are
    believed at once: so much earlier something may go. A broker cannot heed what it never saw: a
    clock that was right between two looks only; and on a new boot it believes what the clock says
    at the first look, for the machine may have been off for as long.
    """

    clock: WallClock
    _seen: list[tuple[int, int]] = field(default_factory=list)  # true time, how far ahead

    def started(self, *, knows_boot: bool) -> None:
        """A process begins; what earlier ones on this boot saw it knows if they wrote it down."""
        if not knows_boot:
            self._seen.clear()

    def looked(self) -> None:
        """The broker compares its clocks."""
        if not self._seen or self._seen[-1][1] != self.clock.ahead_ms:
            self._seen.append((self.clock.true_ms(), self.clock.ahead_ms))

    def believed_ms(self, retention_ms: int) -> int:
        """The latest time by which what is kept for so long may be judged old."""
        now_ms = self.clock.true_ms()
        ahead_ms = 0
        if self._seen:
            since_ms = now_ms - retention_ms
            until = [at for at, _ in self._seen[1:]] + [now_ms]
            ahead_ms = min(
                ahead for (_, ahead), end in zip(self._seen, until, strict=True) if end >= since_ms
            )
        return now_ms + max(0, ahead_ms) + self.clock.small_steps_ms


def may_forget(config: TopicConfig, timestamp: int, bytes_behind: int, trust: Trust) -> str | None:
    """The reason why retention must not take a batch of that time, with so many bytes behind it; or
    None.
    """
    if "delete" not in config.cleanup_policy:
        return f"cleanup.policy is {config.cleanup_policy}"
    if 0 <= config.retention_bytes <= bytes_behind:
        return None
    age = trust.believed_ms(config.retention_ms) - timestamp
    if 0 <= config.retention_ms < age:
        return None
    return (
        f"its age is {age} ms of {config.retention_ms}, and {bytes_behind} bytes of "
        f"{config.retention_bytes} are behind it"
    )
