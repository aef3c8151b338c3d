"""The questions of a process to its machine: its name, its addresses and its limits."""

from __future__ import annotations

import contextlib
import resource
import socket
import sys


def host_id() -> str:
    """The machine's name, for placement."""
    return socket.gethostname()


def open_files_max() -> int:
    """The number of files and connections that this process may have open: as many as it is allowed
    to ask for. The usual soft limit of 1024 is for programs that use select().
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else sys.maxsize


def is_this_machine(host: str) -> bool:
    """Whether the name or address is one of this machine's own; False when it has no address."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    return any(_is_own(family, address) for family, _, _, _, address in found)


def _is_own(family: int, address: tuple[object, ...]) -> bool:
    """Only an own address can be bound."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True


def address_towards(host: str, port: int) -> str:
    """The address that this machine has on the way to another; empty when there is no way."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, _, _, _, address = found[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)  # sends nothing: the kernel only looks the way up
            return str(probe.getsockname()[0])
    except OSError:
        return ""
