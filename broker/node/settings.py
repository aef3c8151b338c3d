"""What a broker process is started with, checked before anything else happens. Imports cheaply."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pylog.errors import InvalidConfig
from pylog.model import BrokerId

SECRET_VARIABLE: Final = "PYLOG_CLUSTER_SECRET"
"""Environment variable with the cluster's secret in hexadecimal; never an argument, because every
user of the machine can read those."""
SECRET_BYTES_MIN: Final = 16

ANY_BROKER: Final = -1
NEW_BROKER: Final = 0


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """One broker. `data_dir` is the host's root: the broker's own directory lies below it."""

    data_dir: str
    controller: str
    secret: bytes = field(repr=False)
    listen: str = "127.0.0.1:0"
    replication_listen: str = "127.0.0.1:0"
    stream_listen: str | None = None
    """For framed streams of clients. None: the host of `listen`, a free port; empty: off."""
    advertised_host: str | None = None
    allow_plaintext: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    """Broker configuration by Kafka's names, over the defaults."""
    slot: int = -1
    """The Spark partition number, only to tell tasks apart in messages."""
    host_id: str = ""
    """For placement: replicas spread over hosts. Empty: this machine's name."""
    incarnation_id: str = ""
    """Names this life of the broker, for `Head.task_ended`. Empty: a new one."""
    gateway: str = ""
    """What clients are told of the gateway; empty: the same as `controller`."""
    only_broker: int = ANY_BROKER
    """Which directory to offer: that of this broker, NEW_BROKER for none, ANY_BROKER for all."""

    def __post_init__(self) -> None:
        if len(self.secret) < SECRET_BYTES_MIN:
            raise InvalidConfig(
                f"the cluster secret has {len(self.secret)} bytes; at least {SECRET_BYTES_MIN} are "
                f"needed ({SECRET_VARIABLE} holds it in hexadecimal)"
            )


@dataclass(frozen=True, slots=True)
class NodeReady:
    """The broker is registered and unfenced."""

    broker_id: BrokerId
    host: str
    port: int
    replication_port: int
    directory: str
    metrics: str = ""
    """`host:port` of its metrics; empty: off."""


@dataclass(frozen=True, slots=True)
class NodeExit:
    """Why a broker ended. `curable`: starting it again may help. `error_code`: Kafka's number of
    the error that ended it; 0: none, -1: of no PylogError.
    """

    reason: str
    clean: bool
    curable: bool = True
    error_code: int = 0
