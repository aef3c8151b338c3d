"""Addresses to listen on, and whether it is safe and useful to listen there. Imports cheaply."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from pylog.errors import InvalidConfig


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen on."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether nobody outside this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for all interfaces, and so cannot be told to anyone as an address."""
        return self.host in ("0.0.0.0", "::", "")


def parse_address(text: str, what: str) -> Address:
    """`host:port` or `[v6]:port`; InvalidConfig names `what` and the text."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not _is_port(port):
        raise InvalidConfig(f"{what}={text!r}: it must be host:port with a port from 0 to 65535")
    return Address(host, int(port))


def _is_port(text: str) -> bool:
    # int() would take digits of other scripts, and raises its own error from 4300 of any on.
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535


def _check_host(host: str) -> None:
    if ":" in host:
        try:
            fine = ipaddress.ip_address(host).version == 6
        except ValueError:
            fine = False
    else:
        fine = bool(host) and all(letter.isalnum() or letter in "-._" for letter in host)
    if not fine:
        raise InvalidConfig(
            f"spark.pylog.advertised.host={host!r} (--advertised-host): it must be a host name or "
            "an address, without scheme and port"
        )


def check_listener(
    address: Address, what: str, *, allow_plaintext: bool, advertised_host: str | None
) -> str:
    """The host to tell others; InvalidConfig when the listener is unsafe or cannot be told."""
    if not address.is_loopback and not allow_plaintext:
        raise InvalidConfig(
            f"{what}={address}: it is not loopback and has no TLS, so anyone in the network could "
            "read and write; set spark.pylog.allow.plaintext=true (--allow-plaintext) to accept it"
        )
    if advertised_host is not None:
        _check_host(advertised_host)
    host = advertised_host or address.host
    if advertised_host is not None and Address(host, 1).is_wildcard:
        raise InvalidConfig(
            f"spark.pylog.advertised.host={host!r} (--advertised-host) stands for all interfaces, "
            "and clients cannot be sent there; give the name or address of this host"
        )
    if Address(host, 1).is_wildcard:
        raise InvalidConfig(
            f"{what}={address} stands for all interfaces, and clients cannot be sent there; set "
            "spark.pylog.advertised.host (--advertised-host)"
        )
    return host


def check_reachable(
    listener: Address, what: str, *, told: str, controller: str, controller_is_here: bool
) -> None:
    """InvalidConfig when a broker would tell an address of its own machine only, to others."""
    if Address(told, 1).is_loopback and not controller_is_here:
        raise InvalidConfig(
            f"{what}={listener}: this broker would be known as {told}, which means another machine "
            f"to everybody else, and the driver is on another one ({controller}); set "
            f"spark.pylog.{what}=0.0.0.0:{listener.port} and spark.pylog.allow.plaintext=true"
        )
