"""The leader epochs of a log, each with the offset at which it begins (KIP-101, KIP-279).

Pure. `Log` keeps it beside the segments and writes it to `leader-epoch-checkpoint`. A follower
cuts its log where its epochs leave the leader's, never at the high watermark.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Final, NamedTuple

from pylog.model import LeaderEpoch, Offset

UNDEFINED_EPOCH: Final = LeaderEpoch(-1)
UNDEFINED_OFFSET: Final = Offset(-1)


class EpochEntry(NamedTuple):
    """An epoch and the offset of its first record."""

    epoch: LeaderEpoch
    start_offset: Offset


class EpochEndOffset(NamedTuple):
    """The largest known epoch at or below an asked one, and where it ends (exclusive)."""

    epoch: LeaderEpoch
    end_offset: Offset


class LeaderEpochCache:
    """Epochs and start offsets, both strictly increasing.

    `changed` says that the checkpoint file is behind; the caller that writes it calls `written()`.
    """

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest = UNDEFINED_EPOCH
        """The newest epoch, -1 when none is known."""
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.changed = False

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    @property
    def latest_entry(self) -> EpochEntry | None:
        """The newest epoch and its start."""
        return self._entries[-1] if self._entries else None

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """From `start_offset` on, records are of `epoch`.

        Does nothing when the epoch is known already. Entries that contradict the new one (a later
        epoch, or a start at or behind it) are dropped: a log was cut and written again.
        """
        assert epoch >= 0, epoch
        assert start_offset >= 0, start_offset
        latest = self.latest_entry
        if latest is not None:
            if latest.epoch == epoch and latest.start_offset <= start_offset:
                return
            while self._entries and (
                self._entries[-1].epoch >= epoch or self._entries[-1].start_offset >= start_offset
            ):
                self._entries.pop()
        self._entries.append(EpochEntry(epoch, start_offset))
        self.latest = epoch
        self.changed = True

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEndOffset:
        """The end offset of `epoch`, or of the largest one below it.

        (-1, -1) when `epoch` is newer than all that is known here. An epoch older than all that is
        known ends where the oldest known one begins.
        """
        if epoch == self.latest and epoch != UNDEFINED_EPOCH:
            return EpochEndOffset(epoch, log_end_offset)
        above = self._above(epoch)
        if epoch == UNDEFINED_EPOCH or above == len(self._entries):
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        end = self._entries[above].start_offset
        floor = self._entries[above - 1].epoch if above else epoch
        return EpochEndOffset(floor, end)

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch of the record at `offset`, -1 when it is older than all that is known."""
        index = bisect_right(self._entries, offset, key=itemgetter(1))
        return self._entries[index - 1].epoch if index else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Forget epochs that begin at or behind `end_offset`: their records were cut."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
            self.changed = True
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Forget epochs that end at or before `start_offset`; the one that holds it starts there.

        Keeping that one (moved up) lets a follower that begins at the log start compare epochs.
        """
        index = bisect_right(self._entries, start_offset, key=itemgetter(1)) - 1
        if index < 0 or (index == 0 and self._entries[0].start_offset == start_offset):
            return
        kept = self._entries[index]
        self._entries[: index + 1] = [EpochEntry(kept.epoch, start_offset)]
        self.changed = True

    def clear(self) -> None:
        """Forget everything."""
        self.changed = self.changed or bool(self._entries)
        self._entries.clear()
        self.latest = UNDEFINED_EPOCH

    def written(self) -> None:
        """The checkpoint file now holds these entries."""
        self.changed = False

    def _above(self, epoch: LeaderEpoch) -> int:
        return bisect_right(self._entries, epoch, key=itemgetter(0))
