"""The settings of a broker process, checked before anything else happens. Imports cheaply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pylog.errors import InvalidConfig
from pylog.model import BrokerId
from pylog_broker.process.secret import SECRET_BYTES_MIN, SECRET_VARIABLE

ANY_BROKER: Final = -1
NEW_BROKER: Final = 0


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
    racks: tuple[str, ...] = ()
    """The racks of brokers 1, 2 and so on, again from the first after the last, where one set of
    settings is for all brokers. They win over `broker.rack`.
    """
    slot: int = -1
    """The Spark partition number, only to tell tasks apart in messages."""
    host_id: str = ""
    """For placement: replicas spread over hosts. Empty: this machine's name."""
    incarnation_id: str = ""
    """Names this life of the broker, for `Head.task_ended`. Empty: a new one."""
    gateway: str = ""
    """The gateway's address for clients; empty: the same as `controller`."""
    only_broker: int = ANY_BROKER
    """The directory to offer: that of this broker, NEW_BROKER for none, ANY_BROKER for all."""

    def of_broker(self, broker: BrokerId) -> NodeSettings:
        """These settings, once it is known which broker this is."""
        if not self.racks:
            return self
        rack = self.racks[(broker - 1) % len(self.racks)]
        return replace(self, config={**self.config, "broker.rack": rack})

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
    """The end of a broker. `curable`: starting it again may help. `error_code`: Kafka's number of
    the error that ended it; 0: none, -1: of no PylogError.
    """

    reason: str
    clean: bool
    curable: bool = True
    error_code: int = 0
