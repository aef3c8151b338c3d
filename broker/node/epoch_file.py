"""The highest controller epoch that this broker has seen, kept in its directory.

A controller that was set back to an older state (a restored disk, a second one started by mistake)
would hand out epochs again that are already used. A broker that has seen a higher one refuses it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from pylog.model import ControllerEpoch
from pylog_broker.storage.files import PASSES, Files, is_of_the_moment

NAME: Final = "controller-epoch"

_log = logging.getLogger("pylog.node")


class EpochFile:
    """Owns the file `controller-epoch` of a broker's log directories: each has it, the highest
    counts.
    """

    def __init__(self, files: Files, directories: Sequence[str]) -> None:
        self._files = files
        self._paths = [f"{directory}/{NAME}" for directory in directories]
        self.highest = max(map(self._read, self._paths))
        self._behind = False

    def _read(self, path: str) -> ControllerEpoch:
        # A damaged file protects no more, but must not keep the broker from starting.
        try:
            text = self._files.read_all(path).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return ControllerEpoch(-1)
        except OSError as error:
            if len(self._paths) == 1 or is_of_the_moment(error):
                raise
            _log.warning("%s cannot be read: %s", path, error)
            return ControllerEpoch(-1)
        return ControllerEpoch(int(text) if text.isdecimal() else -1)

    def raise_to(self, epoch: ControllerEpoch) -> None:
        """Durably remember `epoch` if it is new.

        A full disk, or an error of the moment, is no reason to leave the cluster: the next call
        tries again. Until then only this life of the broker is protected. OSError when every disk
        fails otherwise; one of several is left out from then on.
        """
        if epoch > self.highest:
            self.highest = epoch
            self._behind = True
        if not self._behind:
            return
        self._behind = not all([self._write(path) for path in tuple(self._paths)])

    def close(self) -> None:
        """Remember in memory only from now on: the directories are given back."""
        self._paths.clear()

    def _write(self, path: str) -> bool:
        try:
            self._files.write_atomic(path, f"{self.highest}\n".encode())
        except OSError as error:
            passes = error.errno in PASSES
            if not passes and len(self._paths) == 1:
                raise
            if not passes:
                self._paths.remove(path)
            _log.warning("%s cannot be written: %s", path, error)
            return not passes
        return True
