"""The options with which a console starts, and its limits."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Any, Final

from pylog import errors

DEFAULT_LISTEN: Final = "127.0.0.1:9096"
VIEWERS_MAX: Final = 50
"""Open streams of news; each browser tab has one."""
TAILS_MAX: Final = 10
"""Topics that are followed at the same time; each has a consumer of its own."""
READS_MAX: Final = 4
"""Searches in topics at the same time."""
CONNECTIONS_MAX: Final = 200
FORM_BYTES_MAX: Final = 4 << 20
QUERY_BYTES_MAX: Final = 32 << 10
ASK_SECONDS: Final = 10.0
"""The time-out of one page's questions to the cluster."""
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Listen:
    """An address to listen on. Port 0: a free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """The options of one console. `client`: keyword arguments of every client object that it makes.

    `host_names`: names, beside localhost and numeric addresses, under which browsers may come.
    `schemas`: Avro schemas of values by topic, as JSON text.
    """

    client: dict[str, Any]
    allow_writes: bool = False
    host_names: frozenset[str] = frozenset()
    schemas: dict[str, str] = field(default_factory=dict)


def parse_listen(text: str, what: str) -> Listen:
    """`host:port` as an address; InvalidConfig names the setting and what is wrong."""
    host, _, number = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (number.isascii() and number.isdigit() and int(number) <= 65535):
        raise errors.InvalidConfig(f"{what}={text!r}: it must be host:port, such as 127.0.0.1:9096")
    return Listen(host, int(number))


def check_listen(listen: Listen, what: str, *, allow_plaintext: bool, remedy: str) -> None:
    """InvalidConfig for an address that other machines reach, unless somebody wants that."""
    if not listen.is_loopback and not allow_plaintext:
        raise errors.InvalidConfig(
            f"{what}={listen.host}:{listen.port}: the console asks nobody for a password and "
            f"encrypts nothing, and other machines would reach it there; give a loopback address, "
            f"or {remedy} to let them"
        )


def check_host_name(name: str, what: str) -> str:
    """The name in small letters; InvalidConfig for what is no host name."""
    if _NAME.fullmatch(name) is None:
        raise errors.InvalidConfig(f"{what}={name!r}: it must be a host name without a port")
    return name.lower()
