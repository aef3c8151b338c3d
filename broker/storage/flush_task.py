"""A sync of full segments, with their indexes, that may run on any thread."""

from __future__ import annotations

from collections.abc import Sequence

from broker.storage.files import Files
from pylog.model import Offset


class FlushTask:
    """Syncs the segments below `up_to`: `run()` on a pool thread, then `Log.on_flushed`.

    `generation` is the log's when the task was made: a log that was cut since gains nothing.
    """

    def __init__(self, files: Files, paths: Sequence[str], up_to: Offset, generation: int) -> None:
        self._files = files
        self._paths = paths
        self.up_to = up_to
        self.generation = generation
        self.error: OSError | None = None

    def run(self) -> None:
        """Never raises; `error` tells."""
        for path in self._paths:
            try:
                handle = self._files.open(path)
            except FileNotFoundError:
                continue  # deleted meanwhile
            except OSError as error:
                self.error = error
                return
            try:
                self._files.fsync(handle)
            except OSError as error:
                self.error = error
                return
            finally:
                self._files.close(handle)
