"""The connection between Spark's JVM and this Python worker, made to answer at once.

Spark's JVM tells a worker its task in two writes, and neither end sets TCP_NODELAY: the second one
waits until the first is acknowledged, which the kernel here puts off by 40 ms as soon as the
connection looks like a conversation (Nagle's algorithm meets delayed acknowledgements). For a task
of a few records that is half of its time. The worker's end can say "acknowledge at once", but not
for ever: what it writes makes the kernel forget. So it is said again between two tasks, when Spark
has the worker collect garbage.

Does nothing where there is no such connection (Unix sockets, another system, another Spark).
"""

from __future__ import annotations

import contextlib
import gc
import socket
import sys
from typing import Any, Final

_QUICK_ACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)  # Linux only
_OLDEST_GENERATION: Final = 2


def hasten() -> socket.socket | None:
    """Have the connection to Spark of the task that calls this answer at once, from now on; the
    handle on it that is kept for that.
    """
    connection = _connection()
    if connection is None or _QUICK_ACK is None:
        return None
    option = _QUICK_ACK
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def collected(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == _OLDEST_GENERATION:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, option, 1)

    gc.callbacks.append(collected)
    return connection


def _connection() -> socket.socket | None:
    """A handle of its own on the TCP connection that Spark's worker answers on: the worker's main
    function, which is on the stack, calls the file over it `outfile`.
    """
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        outfile = frame.f_locals.get("outfile")
        if outfile is None:
            continue
        with contextlib.suppress(OSError, AttributeError, TypeError, ValueError):
            opened = socket.fromfd(outfile.fileno(), socket.AF_INET, socket.SOCK_STREAM)
            if opened.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == socket.IPPROTO_TCP:
                return opened
            opened.close()
    return None
