"""The origin of a call over gRPC."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from pylog_broker.api.context import RequestContext, bounded_client_id
from pylog_broker.grpc.guard import Context

LISTENER: Final = "grpc"


def context_of(call: Context, client_id: str = "") -> RequestContext:
    """The context of a call, or of all requests of a stream."""
    host, connection = _place(call.peer())
    return RequestContext(LISTENER, host, connection, bounded_client_id(client_id))


@lru_cache(maxsize=4096)
def _place(peer: str) -> tuple[str, str]:
    """Host, and host with port, of a peer as gRPC names it (`ipv4:10.0.0.1:5000`,
    `ipv6:%5B::1%5D:5000`). Any other name stands for itself.
    """
    kind, _, place = unquote(peer).partition(":")
    host, colon, _ = place.rpartition(":")
    if kind not in ("ipv4", "ipv6") or not colon:
        return peer, peer
    return host.strip("[]"), place
