"""The offset checkpoints of a log directory as they are written: at once, or staged on a pool.

A staged write waits for the disk on any thread, under a name of its own, and is put in its place by
the loop that owns the logs. So the loop decides the order, and two threads never touch the same
thing: what the loop wrote meanwhile is newer, and the staged file is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pylog.model import Offset, TopicPartition
from pylog_broker.storage.checkpoints.checkpoints import encode_offsets, read_offsets
from pylog_broker.storage.files import Files

STAGED_SUFFIX: Final = ".next.tmp"
"""Not the name that `Files.write_atomic` uses; and what a crash leaves is removed at the start."""

AWAITED_SUFFIX: Final = ".awaited.tmp"
"""The suffix of a write that a caller waits for: the periodic write of the same file may be under
way."""


class StagedCheckpoint:
    """A snapshot on its way to the disk."""

    def __init__(
        self,
        files: Files,
        path: str,
        offsets: dict[TopicPartition, Offset],
        suffix: str = STAGED_SUFFIX,
    ) -> None:
        self.offsets = offsets
        self.path = f"{path}{suffix}"
        self.is_written = False
        self._files = files

    def write(self) -> None:
        """Make the staged file, durably. On any thread. OSError when the disk refuses."""
        self._files.unlink(self.path)
        handle = self._files.open(self.path, create=True)
        try:
            self._files.append(handle, [encode_offsets(self.offsets)])
            self._files.fsync(handle)
        finally:
            self._files.close(handle)
        self.is_written = True


class OffsetCheckpoint:
    """One checkpoint file. Owned by the loop.

    `_maybe` are the names for which a crash, also one of the machine, could leave an entry: those
    of the file as it was made durable last, and of what took its place since.
    """

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._staged: StagedCheckpoint | None = None
        self.found = read_offsets(files, path)
        self._content: dict[TopicPartition, Offset] | None = None  # None: not known for sure
        self._maybe = set(self.found)

    def may_hold(self, topic_partition: TopicPartition) -> bool:
        """Whether a start after a crash could find an entry of that name, now or a little later."""
        staged = self._staged
        return topic_partition in self._maybe or (
            staged is not None and topic_partition in staged.offsets
        )

    def write(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Replace the file, durably, now. OSError when the disk refuses."""
        self._staged = self._content = None
        self._maybe.update(offsets)
        self._files.write_atomic(self._path, encode_offsets(offsets))
        self._content = dict(offsets)
        self._maybe = set(offsets)

    def stage(self, offsets: Mapping[TopicPartition, Offset]) -> StagedCheckpoint | None:
        """A write of these offsets, for `place` when it has run; None when the file holds them."""
        self._staged = None
        if offsets != self._content:
            self._staged = StagedCheckpoint(self._files, self._path, dict(offsets))
        return self._staged

    def stage_awaited(self, offsets: Mapping[TopicPartition, Offset]) -> StagedCheckpoint:
        """A write of these offsets that somebody waits for; a write staged before is dropped."""
        self._staged = StagedCheckpoint(self._files, self._path, dict(offsets), AWAITED_SUFFIX)
        return self._staged

    def place_awaited(self, staged: StagedCheckpoint) -> bool:
        """Put it in its place; durable when the directory is synced, so say `synced` then. False
        when something newer is there. OSError when the disk refuses.
        """
        if staged is not self._staged:
            return False
        self.place(staged, directory_synced=False)
        return True

    def synced(self, staged: StagedCheckpoint) -> bool:
        """The directory was synced after that was put in its place; whether it is still there."""
        is_there = self._content is staged.offsets
        if is_there:
            self._maybe = set(staged.offsets)
        return is_there

    def place(self, staged: StagedCheckpoint | None, *, directory_synced: bool) -> None:
        """Put a staged file in its place, unless something newer is there.

        `directory_synced`: since the stage, so the name points durably to what was there then.
        OSError when the disk refuses.
        """
        if staged is not self._staged:
            return
        self._staged = None
        if directory_synced and self._content is not None:
            self._maybe = set(self._content)
        if staged is not None and staged.is_written:
            self._content = None
            self._maybe.update(staged.offsets)
            self._files.rename(staged.path, self._path)
            self._content = staged.offsets


class CheckpointTask:
    """Staged checkpoints of one directory: `run()` on a pool thread, then
    `LogManager.on_checkpointed` on the loop.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        parts: Sequence[tuple[OffsetCheckpoint, StagedCheckpoint | None]],
    ) -> None:
        self.error: OSError | None = None
        self._files = files
        self._directory = directory
        self._parts = parts
        self._directory_synced = False

    def run(self) -> None:
        """Never raises; `error` tells."""
        try:
            staged = [part for _, part in self._parts if part is not None]
            if staged:
                # The last task had put it in its place; nothing waits for this task's own.
                self._files.fsync_dir(self._directory)
                self._directory_synced = True
            for part in staged:
                part.write()
        except OSError as error:
            self.error = error

    def settle(self) -> None:
        """It has run; on the loop. OSError: the one that it met, or a new one."""
        for checkpoint, staged in self._parts:
            checkpoint.place(staged, directory_synced=self._directory_synced)
        if self.error is not None:
            raise self.error


class LogStartsTask:
    """The log starts of one directory, which somebody waits for.

    Two steps: `run()` on a pool thread, then `LogManager.on_log_starts_written` on the loop, and
    both again while that says so. The first writes a file, the second makes its name durable.
    """

    def __init__(
        self, files: Files, directory: str, checkpoint: OffsetCheckpoint, staged: StagedCheckpoint
    ) -> None:
        self.offsets = staged.offsets
        self.error: OSError | None = None
        self.is_written = False
        """The checkpoint has them, durably. False at the end: something newer is there."""
        self._files = files
        self._directory = directory
        self._checkpoint = checkpoint
        self._staged = staged
        self._is_placed = False

    def run(self) -> None:
        """Never raises; `error` tells."""
        try:
            if self._is_placed:
                self._files.fsync_dir(self._directory)
            else:
                self._staged.write()
        except OSError as error:
            self.error = error

    def settle(self) -> bool:
        """A step has run; on the loop. Whether another one is to follow. OSError: the one that it
        met, or a new one.
        """
        if self.error is not None:
            raise self.error
        if self._is_placed:
            self.is_written = self._checkpoint.synced(self._staged)
            return False
        self._is_placed = self._checkpoint.place_awaited(self._staged)
        return self._is_placed
