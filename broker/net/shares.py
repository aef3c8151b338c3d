"""The number of connections that a process may have, by the number of files that it may have open.
Pure.

Connections and logs take their descriptors from the same number. A log that gets none is a fault
of the disk in all but name, and takes its replica offline; a connection that gets none tries again.
So logs come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

CONNECTIONS_MAX: Final = 10_000
"""The most connections of one listener, however many files may be open: each costs some KiB of
memory as well."""
REPLICATION_MAX: Final = 1_000
"""Brokers that have proved themselves."""
UNPROVEN_MAX: Final = 64
"""Peers of the replication listener that have not, yet. A proof takes a millisecond."""
FRONT_DESCRIPTORS: Final = 3
"""The file descriptors of one connection at the gateway: the client's end, and both ends of the way
to gRPC."""


def files_kept_for_logs(open_files_max: int) -> int:
    """The part that connections never get: half. Each partition has three files open for its
    active segment, and up to three more for each older one that is read.
    """
    return open_files_max // 2


def last_descriptor(open_files_max: int) -> int:
    """Connections are refused from this descriptor on. The kernel gives the lowest that is free, so
    as many are in use, whatever for: where logs have taken more than their half, connections stay
    away from the last eighth all the same.
    """
    return open_files_max - open_files_max // 8


@dataclass(frozen=True, slots=True)
class BrokerShares:
    """The most connections of each listener of a broker."""

    streams: int
    grpc: int
    replication: int
    unproven: int

    @classmethod
    def of(cls, open_files_max: int, max_connections: int) -> Self:
        """`max_connections`: the setting, for each listener of clients."""
        left = open_files_max - files_kept_for_logs(open_files_max)
        unproven = min(UNPROVEN_MAX, left // 16)
        replication = min(REPLICATION_MAX, left // 4)
        clients = min(CONNECTIONS_MAX, (left - replication - unproven) // 2, max_connections)
        return cls(clients, clients, replication, unproven)


def gateway_connections_max(open_files_max: int, max_connections: int) -> int:
    """The most connections of a driver's gateway."""
    left = open_files_max - files_kept_for_logs(open_files_max)
    return min(CONNECTIONS_MAX, left // FRONT_DESCRIPTORS, max_connections)
