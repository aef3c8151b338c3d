"""Writing the snapshot of a log that knows many producers, on a thread of its own.

The loop would stand still over it: 10 ms for 20,000 producers. It hands a copy of the table over
instead, whose entries never change. The files bear temporary names until the loop says that the
log still wants them; a crash leaves the snapshots before, and what a start clears away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from crc32c import crc32c

from pylog_broker.storage.files import Files
from pylog_broker.storage.producers.producer_snapshot import (
    COMPANION_VERSION,
    SNAPSHOT_VERSION,
    START_BYTES,
    companion_rows,
    companion_start,
    file_start,
    snapshot_rows,
    snapshot_start,
)

SLICE: Final = 1_000
"""Producers between two writes. A write lets go of the interpreter, so that the loop need not wait
for it until it is taken away (5 ms)."""

_ENDING: Final = ".tmp"


class SnapshotTask:
    """`run()` on a pool thread, then `Log.on_snapshot`. `unwanted`: the log has lost what was to be
    written, or its place; the loop says so at any time.
    """

    def __init__(
        self,
        files: Files,
        paths: tuple[str, str],
        offset: int,
        entries: dict[int, bytes],
        *,
        forgot: bool,
    ) -> None:
        """`paths`: of the snapshot and of its companion. `entries` are taken over."""
        self._files = files
        self._paths = paths
        self._entries = entries
        self._forgot = forgot
        self.offset = offset
        self.is_second = False
        """One like it was refused before, and that was told."""
        self.unwanted = False
        self.error: OSError | None = None

    def run(self) -> None:
        """Never raises; `error` tells."""
        snapshot, companion = self._paths
        count = len(self._entries)
        try:
            start = companion_start(count, forgot=self._forgot)
            self._write(companion, COMPANION_VERSION, start, companion_rows)
            self._write(snapshot, SNAPSHOT_VERSION, snapshot_start(count), snapshot_rows)
        except OSError as error:
            self.error = error

    def _write(
        self,
        path: str,
        version: int,
        start: bytes,
        rows: Callable[[Iterable[tuple[int, bytes]]], bytes],
    ) -> None:
        files = self._files
        handle = files.open(path + _ENDING, create=True)
        try:
            if files.size(handle):
                files.truncate(handle, 0)
            position = files.write_at(handle, [bytes(START_BYTES), start], 0)
            crc = crc32c(start)
            entries = iter(self._entries.items())
            while (data := rows(islice(entries, SLICE))) and not self.unwanted:
                crc = crc32c(data, crc)
                position += files.write_at(handle, [data], position)
            files.write_at(handle, [file_start(version, crc)], 0)
        finally:
            files.close(handle)

    def again(self) -> SnapshotTask:
        """One that tries the same once more."""
        task = SnapshotTask(
            self._files, self._paths, self.offset, self._entries, forgot=self._forgot
        )
        task.is_second = True
        return task

    def put_in_place(self) -> None:
        """Give the files their names. OSError."""
        for path in reversed(self._paths):
            self._files.rename(path + _ENDING, path)

    def discard(self) -> None:
        """Remove what there is of them; what cannot be removed is left to the next start."""
        for path in self._paths:
            with contextlib.suppress(OSError):
                self._files.unlink(path + _ENDING)
