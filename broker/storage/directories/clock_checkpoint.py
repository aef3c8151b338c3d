"""The word of one life of a broker to the next about the clocks, so that a wall clock that was set
in between is noticed.

The monotonic clock runs on over restarts of a process, and begins anew with the machine: what was
noted on another boot says nothing, and a machine that was off for days has not jumped.
"""

from __future__ import annotations

import logging
from typing import Final

from pylog_broker.storage.directories.partition_directories import CLOCK_CHECKPOINT
from pylog_broker.storage.files import Files, is_of_the_moment
from pylog_broker.storage.segments.retention import ClockReading, ClockStep

_INTERVAL_MS: Final = 3_600_000
"""The clocks drift apart by less than a second meanwhile."""
_AGAIN_MS: Final = 60_000
_VERSION: Final = "0"

logger = logging.getLogger(__name__)


def parse_reading(numbers: str) -> ClockReading:
    """The file's last line: both clocks, then size and time of each step. ValueError."""
    now_ms, wall_ms, *rest = map(int, numbers.split())
    steps = zip(rest[::2], rest[1::2], strict=True)
    return ClockReading(now_ms, wall_ms, tuple(ClockStep(*step) for step in steps))


class ClockCheckpoint:
    """The file of a broker directory. A hint: one that is missing or damaged costs nothing else."""

    def __init__(self, files: Files, directory: str, boot_id: str) -> None:
        self._files = files
        self._path = f"{directory}/{CLOCK_CHECKPOINT}"
        self._boot_id = boot_id
        self._due_ms = 0

    def read(self) -> ClockReading | None:
        """The reading of an earlier life on this boot. OSError of the moment."""
        try:
            text = self._files.read_all(self._path).decode("ascii")
            version, boot_id, numbers = text.rstrip("\n").split("\n")
            known = parse_reading(numbers)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            if is_of_the_moment(error):
                raise
            logger.warning("%s cannot be read, and is made anew: %s", self._path, error)
            return None
        if version != _VERSION or boot_id != self._boot_id:
            return None
        return known

    def write(self, known: ClockReading, *, at_once: bool) -> None:
        """Now and then, and `at_once` after a jump."""
        if known.now_ms < self._due_ms and not at_once:
            return
        steps = (number for step in known.steps for number in step)
        numbers = " ".join(map(str, (known.now_ms, known.wall_ms, *steps)))
        text = f"{_VERSION}\n{self._boot_id}\n{numbers}\n"
        try:
            self._files.write_atomic(self._path, text.encode("ascii"))
        except OSError as error:
            self._due_ms = known.now_ms + _AGAIN_MS
            logger.warning("%s cannot be written: %s", self._path, error)
        else:
            self._due_ms = known.now_ms + _INTERVAL_MS
