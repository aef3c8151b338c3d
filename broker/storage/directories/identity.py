"""The identity of a directory (`meta.properties`), kept up to date as its state changes."""

from __future__ import annotations

import logging
from dataclasses import replace

from pylog_broker.storage.directories.directory import MetaProperties, write_meta
from pylog_broker.storage.files import PASSES, Files

logger = logging.getLogger(__name__)


class Identity:
    """The identity of a directory that was claimed. Owned by the LogManager.

    After an error that passes, the file is written later: what it says until then is of an earlier
    life, and makes the next one trust the directory no more than it may; or what it should say is
    found again, or told again, by then.
    """

    def __init__(
        self, files: Files, directory: str, meta: MetaProperties, *, is_written: bool
    ) -> None:
        self.meta = meta
        self._files = files
        self._directory = directory
        self._is_behind = not is_written

    @property
    def hides_doubt(self) -> bool:
        """Whether records may be gone, and the file does not say so."""
        return self._is_behind and not self.meta.intact

    def set_intact(self, intact: bool) -> None:
        """Notes that records may be gone (False), or that the controller knows so (True).

        OSError when the disk refuses.
        """
        if self.meta.intact != intact:
            self.meta = replace(self.meta, intact=intact)
            self._write()

    def catch_up(self) -> None:
        """Write what could not be written. OSError when the disk refuses."""
        if self._is_behind:
            self._write()

    def _write(self) -> None:
        self._is_behind = True
        try:
            write_meta(self._files, self._directory, self.meta)
        except OSError as error:
            if error.errno not in PASSES:
                raise
            logger.warning("what %s says of itself is not written now: %s", self._directory, error)
        else:
            self._is_behind = False
