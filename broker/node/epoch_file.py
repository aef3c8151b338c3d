"""The highest controller epoch that this broker has seen, kept in its directory.

A controller that was set back to an older state (a restored disk, a second one started by mistake)
would hand out epochs again that are already used. Whoever has seen a higher one refuses it.
"""

from __future__ import annotations

import logging
from typing import Final

from broker.storage.files import NO_ROOM, Files
from pylog.model import ControllerEpoch

NAME: Final = "controller-epoch"

_log = logging.getLogger("pylog.node")


class EpochFile:
    """Owns the file `controller-epoch` of a broker's directory."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{NAME}"
        self.highest = ControllerEpoch(-1)
        self._behind = False
        if files.exists(self._path):
            text = files.read_all(self._path).decode("ascii", "replace").strip()
            # A damaged file protects no more, but must not keep the broker from starting.
            if text.isdecimal():
                self.highest = ControllerEpoch(int(text))

    def raise_to(self, epoch: ControllerEpoch) -> None:
        """Durably remember `epoch` if it is new.

        A full disk is no reason to leave the cluster: the next call tries again. Until then only
        this life of the broker is protected. OSError when the disk fails otherwise.
        """
        if epoch > self.highest:
            self.highest = epoch
            self._behind = True
        if not self._behind:
            return
        try:
            self._files.write_atomic(self._path, f"{self.highest}\n".encode())
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            _log.warning("%s cannot be written yet: %s", self._path, error)
        else:
            self._behind = False
