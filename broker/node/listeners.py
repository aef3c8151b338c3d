"""The listeners of a broker, and the addresses that it registers for them."""

from __future__ import annotations

from dataclasses import dataclass

from pylog_broker.node.settings import NodeSettings
from pylog_broker.process.addresses import (
    Address,
    check_listener,
    check_reachable,
    parse_address,
)
from pylog_broker.process.host import address_towards, is_this_machine


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to bind, and the host by which peers connect."""

    address: Address
    host: str


@dataclass(frozen=True, slots=True)
class Listeners:
    """A broker's; None for one that is off."""

    clients: Listener
    streams: Listener | None
    replication: Listener
    metrics: Listener | None

    @classmethod
    def of(cls, settings: NodeSettings, metrics_listen: str) -> Listeners:
        """Out of the settings. Raises what the check of an address raises."""
        controller = parse_address(settings.controller, "controller")
        clients = _checked(settings, controller, "broker.listen", settings.listen, for_clients=True)
        stream_listen = settings.stream_listen
        if stream_listen is None:
            stream_listen = str(Address(clients.address.host, 0))
        return cls(
            clients,
            _checked(settings, controller, "broker.stream.listen", stream_listen, for_clients=True)
            if stream_listen
            else None,
            _checked(settings, controller, "replication.listen", settings.replication_listen),
            _checked(settings, controller, "metrics.listen", metrics_listen)
            if metrics_listen
            else None,
        )


def _checked(
    settings: NodeSettings,
    controller: Address,
    what: str,
    text: str,
    *,
    for_clients: bool = False,
) -> Listener:
    """Clients get the advertised host, others our own."""
    address = parse_address(text, what)
    here = is_this_machine(controller.host)
    told = settings.advertised_host
    if not for_clients and not address.is_wildcard:
        told = None
    elif address.is_wildcard and not here and (told is None or not for_clients):
        # No setting can name the hosts of all brokers when there are several.
        told = address_towards(controller.host, controller.port) or told
    host = check_listener(
        address, what, allow_plaintext=settings.allow_plaintext, advertised_host=told
    )
    check_reachable(address, what, told=host, controller=str(controller), controller_is_here=here)
    return Listener(address, host)
