"""Whether offsets may be missing between a log's batches, and up to where that is no loss.

The file `gaps-allowed` of a log that compaction has been over, here or on the leader that it was
copied from. It holds an offset, or nothing: everything below was synced before the cleaner put the
first gap there. So a gap below is never the end of a segment that a loss of power took, whatever
the recovery point says; that one stands in a file of the whole directory, which may be lost, or be
an older one.
"""

from __future__ import annotations

import logging
from typing import Final

from pylog_broker.storage.files import Files
from pylog_broker.storage.recovery.survey import GAPS_ALLOWED

_NOTHING: Final = 0

logger = logging.getLogger(__name__)


class Gaps:
    """The gaps of one log. `synced_to`: gaps below are the cleaner's."""

    def __init__(self, files: Files, directory: str) -> None:
        self.allowed = False
        self.synced_to = _NOTHING
        self._files = files
        self._path = f"{directory}/{GAPS_ALLOWED}"

    def load(self) -> None:
        """Look for the file. OSError; one that makes no sense promises nothing."""
        self.allowed, self.synced_to = False, _NOTHING
        try:
            text = self._files.read_all(self._path)
        except FileNotFoundError:
            return
        self.allowed = True
        if text.strip().isdigit():
            self.synced_to = int(text)
        elif text:
            logger.warning("ignoring what %s says: %r", self._path, text[:100])

    def note(self, synced_to: int = _NOTHING) -> None:
        """From here on there may be some, and all below `synced_to` is synced. Durable when it
        returns. OSError.
        """
        if not self.allowed or synced_to > self.synced_to:
            self._write(max(synced_to, self.synced_to))

    def cut(self, offset: int) -> None:
        """Before the records from `offset` on go: what takes their place is not synced. OSError."""
        if offset < self.synced_to:
            self._write(offset)

    def _write(self, synced_to: int) -> None:
        self._files.write_atomic(self._path, b"%d\n" % synced_to if synced_to else b"")
        self.allowed, self.synced_to = True, synced_to
