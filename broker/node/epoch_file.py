"""The highest controller epoch that this broker has seen, kept in its directory.

A controller that was set back to an older state (a restored disk, a second one started by mistake)
would hand out epochs again that are already used. Whoever has seen a higher one refuses it.
"""

from __future__ import annotations

from typing import Final

from broker.storage.files import Files
from pylog.model import ControllerEpoch

NAME: Final = "controller-epoch"


class EpochFile:
    """Owns the file `controller-epoch` of a broker's directory."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{NAME}"
        self.highest = ControllerEpoch(-1)
        if files.exists(self._path):
            text = files.read_all(self._path).decode("ascii", "replace").strip()
            # A damaged file protects no more, but must not keep the broker from starting.
            if text.isdecimal():
                self.highest = ControllerEpoch(int(text))

    def raise_to(self, epoch: ControllerEpoch) -> None:
        """Durably remember `epoch` if it is new."""
        if epoch > self.highest:
            self._files.write_atomic(self._path, f"{epoch}\n".encode())
            self.highest = epoch
