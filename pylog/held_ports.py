"""TCP ports of this machine that stay somebody's own while nobody listens on them.

A server that ends and comes back wants its old port. On Linux a socket that is bound to it and does
not listen keeps it from all who look for a free one, and not from the server: both set
SO_REUSEADDR. On other systems a port is only looked at.
"""

from __future__ import annotations

import random
import socket
import sys
from typing import Final

from pylog import errors

# Below Linux's range of ports for outgoing connections: a port there could be taken by any
# connection while its server is down.
PORTS: Final = range(20_000, 32_000)
LOOPBACK: Final = "127.0.0.1"
_ATTEMPTS_MAX: Final = 1_000
_CAN_HOLD: Final = sys.platform == "linux"


class HeldPorts:
    """Ports taken for one owner, until `close`."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._sockets: list[socket.socket] = []

    def any(self) -> int:
        """A port of `PORTS` on 127.0.0.1 that nobody has; BrokerNotAvailable when all are taken."""
        for _ in range(_ATTEMPTS_MAX):
            port = random.choice(PORTS)
            if port in self._taken:
                continue
            holder = socket.socket()
            try:
                # Without SO_REUSEADDR: a port that another one holds counts as taken.
                holder.bind((LOOPBACK, port))
            except OSError:
                holder.close()
                continue
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._keep(holder, port)
            return port
        raise errors.BrokerNotAvailable(
            f"no free port from {PORTS[0]} to {PORTS[-1]} on {LOOPBACK}"
        )

    def take(self, host: str, port: int) -> None:
        """This port of an address of this machine; OSError where somebody listens on it."""
        holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((host, port))
        except OSError:
            holder.close()
            raise
        self._keep(holder, port)

    def close(self) -> None:
        """Let go of all of them."""
        for holder in self._sockets:
            holder.close()
        self._sockets.clear()
        self._taken.clear()

    def _keep(self, holder: socket.socket, port: int) -> None:
        self._taken.add(port)
        if _CAN_HOLD:
            self._sockets.append(holder)
        else:
            holder.close()
