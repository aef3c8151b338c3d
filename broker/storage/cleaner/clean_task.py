"""One pass over a log, step by step.

`run()` does the next step on a pool thread. Between two steps the loop puts what was made in its
place (`Log.replace_segments`), or gives up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pylog.errors import PylogError
from pylog_broker.storage.cleaner.clean_plan import Cleaned, CleanPlan, CleanStats
from pylog_broker.storage.files import Files
from pylog_broker.storage.segments.flush_task import FlushTask

if TYPE_CHECKING:
    from pylog_broker.storage.cleaner.rewriting import Rewriting


class CleanTask:
    """Steps of one pass. `error` ends it; `cleaned` is what the last step made, the first makes
    nothing. `flush` is done with the first, and its error ends the pass, too.
    """

    def __init__(
        self,
        files: Files,
        plan: CleanPlan,
        map_bytes: int,
        seed: bytes,
        flush: FlushTask | None,
        pace: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`pace` hears of bytes that were read or written, on the thread of `run`, and may wait."""
        self.plan = plan
        self.flush = flush
        self.error: Exception | None = None
        self.cleaned: Cleaned | None = None
        self.done = False
        self._files = files
        self._map_bytes = map_bytes
        self._seed = seed
        self._pace = pace
        self._rewriting: Rewriting | None = None

    @property
    def clean_to(self) -> int:
        """The offset up to which the log is clean when the pass has ended."""
        return self._rewriting.clean_to if self._rewriting else self.plan.first_dirty

    @property
    def stats(self) -> CleanStats:
        """So far."""
        return self._rewriting.stats if self._rewriting else CleanStats()

    def run(self) -> None:
        """The next step. Never raises; `error` tells."""
        from pylog_broker.storage.cleaner.rewriting import Rewriting

        self.cleaned = None
        try:
            if self._rewriting is None:
                if self.flush is not None:
                    self.flush.run()
                    if self.flush.error is not None:
                        self.done = True  # what a read gave now need not be what was written
                        return
                self._rewriting = Rewriting(
                    self._files, self.plan, self._map_bytes, self._seed, self._pace
                )
                self._rewriting.note_keys()
            else:
                self.cleaned = self._rewriting.clean(self._rewriting.groups.pop(0))
            self.done = not self._rewriting.groups
        except (OSError, PylogError) as error:
            self.error = error
            self.done = True

    def discard(self) -> None:
        """Remove what the last step made and nobody took. OSError."""
        unfinished = self._rewriting.unfinished if self._rewriting else None
        for segment in (unfinished, self.cleaned.segment if self.cleaned else None):
            if segment is not None:
                segment.unlink()
        self.cleaned = None
