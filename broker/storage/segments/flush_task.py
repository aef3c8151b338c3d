"""A sync of full segments, with their indexes, that may run on any thread."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait

from pylog.model import Offset
from pylog_broker.storage.files import Files, SyncFailed, sync


class SyncHistory:
    """Whether a sync of one log has failed, on whatever thread.

    The kernel tells of a failure once, and the next sync succeeds over what was dropped. So a sync
    is believed only when none has failed and no other one is `running`, which may have been told.
    Steps on several threads, each of them atomic: a failure is there before its sync runs no more.
    Only a log that is being closed waits for what runs.
    """

    def __init__(self) -> None:
        self.failure: SyncFailed | None = None
        self.running: dict[FlushTask, Future[None]] = {}

    def begin(self, task: FlushTask) -> None:
        """It runs."""
        self.running[task] = Future()

    def end(self, task: FlushTask) -> None:
        """It runs no more."""
        self.running.pop(task).set_result(None)

    def wait(self, seconds: float) -> None:
        """Return when none runs, or after that time."""
        wait(list(self.running.values()), seconds)


class FlushTask:
    """Syncs the segments below `up_to`: `run()` on a pool thread, then `Log.on_flushed`.

    `generation` is the log's when the task was made: a log that was cut since gains nothing.
    """

    def __init__(
        self,
        files: Files,
        paths: Sequence[str],
        up_to: Offset,
        generation: int,
        history: SyncHistory,
    ) -> None:
        self._files = files
        self._paths = paths
        self._history = history
        self.up_to = up_to
        self.generation = generation
        self.error: OSError | None = None

    def run(self) -> None:
        """Never raises; `error` tells."""
        self._history.begin(self)
        try:
            for path in self._paths:
                self._sync(path)
        except SyncFailed as error:
            self.error = self._history.failure = error
        except OSError as error:
            self.error = error
        finally:
            self._history.end(self)

    def _sync(self, path: str) -> None:
        try:
            handle = self._files.open(path)
        except FileNotFoundError:
            return  # deleted meanwhile, or a segment without that file
        try:
            sync(self._files, handle)
        finally:
            self._files.close(handle)
