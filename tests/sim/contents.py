"""What producers put into batches, and the rules by which records may go again.

A batch is known by its CRC wherever it lies, until a cleaner takes records out of it: then what is
left must be records of the batch that was written at that offset, and whatever is missing must be
what the rules allow. The rules are those of the promises, in plain terms and in the simulator's own
time; nothing of the product's way to them is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.config import TopicConfig
from pylog.model import TopicId
from pylog.records.batch import Buffer
from pylog.records.reader import iter_records


class Original(NamedTuple):
    """A batch as its producer made it; all records have one timestamp."""

    home: tuple[TopicId, int]
    keys: tuple[bytes | None, ...]
    values: tuple[bytes | None, ...]
    timestamp: int


class Contents:
    """Every batch that was ever sent, by CRC."""

    def __init__(self) -> None:
        self._originals: dict[int, Original] = {}

    def sent(self, crc: int, original: Original) -> None:
        """A producer made it; no two are alike."""
        assert crc not in self._originals, original
        self._originals[crc] = original

    def get(self, crc: int) -> Original | None:
        """The batch of that CRC."""
        return self._originals.get(crc)

    def of(self, crc: int) -> Original:
        """The batch of that CRC, which is known."""
        return self._originals[crc]


def left_of(original: Original, base: int, batch: Buffer) -> set[int] | str:
    """The offsets of the records that a smaller `batch` still has; or what is wrong with it."""
    found: set[int] = set()
    for record in iter_records(batch, "t", original.home[1]):
        index = record.offset - base
        if not 0 <= index < len(original.values):
            return f"a record at {record.offset} that was never written"
        wanted = (original.keys[index], original.values[index], original.timestamp)
        if (record.key, record.value, record.timestamp_ms) != wanted:
            return f"{record} where {wanted} was written"
        found.add(record.offset)
    return found


@dataclass(slots=True)
class WallClock:
    """One broker's time of day, which somebody may set; the true one is the simulator's.

    `believed_ms` is what deletions may go by: a large step forward counts once `retention_ms` has
    passed since, when all that was written before it is old by any clock. Small steps (those of a
    time service) are believed at once: so much earlier something may go.

    Steps between two looks of the broker are one step: what it never saw it cannot heed, and a
    clock that was right for a moment only was as wrong before as after.
    """

    true_ms: Callable[[], int]
    small_step_ms: int
    ahead_ms: int = 0
    _steps: list[tuple[int, int]] = field(default_factory=list)  # true time, how far
    _looked: int = 0  # so many steps the broker has had a look after

    def now_ms(self) -> int:
        """What the broker sees."""
        return self.true_ms() + self.ahead_ms

    def set(self, step_ms: int) -> None:
        """Somebody sets it."""
        self.ahead_ms += step_ms
        unseen = sum(step for _, step in self._steps[self._looked :])
        self._steps[self._looked :] = [(self.true_ms(), unseen + step_ms)]

    def looked(self) -> None:
        """The broker compares its clocks."""
        self._looked = len(self._steps)

    def rebooted(self) -> None:
        """A machine that starts asks what time it is."""
        self.ahead_ms = self._looked = 0
        self._steps = []

    def believed_ms(self, retention_ms: int) -> int:
        """The latest time by which a record of that retention may be judged old."""
        now_ms = self.true_ms()
        small = sum(abs(s) for _, s in self._steps if abs(s) <= self.small_step_ms)
        large = [at for at, step in self._steps if step > self.small_step_ms]
        believed = now_ms
        if large and now_ms - max(large) > retention_ms:
            believed = max(believed, self.now_ms())
        return believed + small


def may_forget(
    config: TopicConfig, timestamp: int, bytes_behind: int, clock: WallClock
) -> str | None:
    """Why retention must not take a batch of that time, with so many bytes behind it; or None."""
    if "delete" not in config.cleanup_policy:
        return f"cleanup.policy is {config.cleanup_policy}"
    if 0 <= config.retention_bytes <= bytes_behind:
        return None
    age = clock.believed_ms(config.retention_ms) - timestamp
    if 0 <= config.retention_ms < age:
        return None
    return (
        f"its age is {age} ms of {config.retention_ms}, and {bytes_behind} bytes of "
        f"{config.retention_bytes} are behind it"
    )
