"""What a process asks its machine: its name, and whether memory survived since last time."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Changes with every boot of the machine; empty where the machine does not tell."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def host_id() -> str:
    """The machine's name, for placement."""
    return socket.gethostname()
