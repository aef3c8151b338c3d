"""Memory whose end is guarded: one byte read past it ends the process.

For code that reads by address, where Python would not notice.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PROT_NONE: Final = 0


class GuardedMemory:
    """Room for `size` bytes; `hold(data)` gives a view of a copy that ends where the room ends."""

    def __init__(self, size: int) -> None:
        self._room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, self._room + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        guard = ctypes.c_void_p(start + self._room)
        if _LIBC.mprotect(guard, ctypes.c_size_t(mmap.PAGESIZE), _PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def hold(self, data: bytes) -> memoryview:
        """A read-only view; the one before is overwritten."""
        first = self._room - len(data)
        view = memoryview(self._map)[first : self._room]
        view[:] = data
        return view.toreadonly()
