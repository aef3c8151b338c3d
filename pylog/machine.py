"""What two processes compare to learn whether they run on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Another with every boot of every machine; empty where the machine does not tell. Containers
    on one machine have the same.
    """
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
