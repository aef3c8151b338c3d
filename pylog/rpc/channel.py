"""gRPC channels, and what must be set in a process before gRPC is imported.

Measured on two cores: without the malloc settings each large buffer is mapped and faulted anew
(3 to 5 times slower from 256 KB up); without the variables gRPC's own threads take a third of a
small message's round trip, and starting a program may fail. All are left alone where the user has
set them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pylog.config import INT_MAX

if TYPE_CHECKING:
    import grpc
    import grpc.aio

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Upper bound of one gRPC message in both directions; brokers bound requests tighter."""

ERROR_CODE_KEY: Final = "pylog-error-code"
"""Trailing metadata with Kafka's number of the error, beside the gRPC status."""

BROKER_HOST_PREFIX: Final = "broker-"
"""The gateway's names of its brokers in HTTP CONNECT: `broker-3:0` is broker 3, wherever it is."""

_GRPC_VARIABLES: Final = {
    "GRPC_EXPERIMENTS": "-event_engine_client,-event_engine_listener",
    "GRPC_POLL_STRATEGY": "poll",
    # Under this strategy nobody looks at a channel's sockets while no call is in flight, but for a
    # backup poller: by default every 5 s, so that a failed channel would not even reconnect.
    "GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS": "100",
    "GRPC_VERBOSITY": "ERROR",
    # Its handler polls in the child that `subprocess` makes, of which it crashes one in twenty
    # before their program starts (grpc issue 43055): Spark's Java gateway, for example.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
}
_MALLOC_VARIABLES: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_")
# glibc's mallopt parameters: name in malloc.h, number, value
_M_TRIM_THRESHOLD: Final = (-1, 2**31 - 1)
_M_TOP_PAD: Final = (-2, 64 << 20)
_M_MMAP_THRESHOLD: Final = (-3, 1 << 30)

_tuned = False


def tune_process() -> None:
    """Set up malloc and gRPC's variables, once, quietly where it cannot be done.

    Call it before the first `import grpc` of the process; later it does no harm and less good.
    """
    global _tuned
    if _tuned:
        return
    _tuned = True
    for name, value in _GRPC_VARIABLES.items():
        os.environ.setdefault(name, value)
    if sys.platform != "linux" or any(name in os.environ for name in _MALLOC_VARIABLES):
        return
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value_bytes in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD, _M_TOP_PAD):
            mallopt(parameter, value_bytes)


def channel_options(message_bytes_max: int = MESSAGE_BYTES_MAX) -> list[tuple[str, int]]:
    """The options with which every channel of pylog is opened.

    Calls that should wait for a connection set `wait_for_ready` and a time-out; without it they
    fail at once while the channel backs off (0.1 s growing to 1 s, unless
    `reconnecting` says otherwise). Keepalive finds a peer that is gone without a FIN (a cut cable,
    a stopped machine). A retry is the caller's decision, because gRPC does not know which calls
    may be repeated.
    """
    return [
        ("grpc.max_send_message_length", message_bytes_max),
        ("grpc.max_receive_message_length", message_bytes_max),
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 0),
        *reconnecting(50, 1_000),
        *connected_within(3_000),
        ("grpc.enable_retries", 0),
        # Each channel has connections of its own: one stuck peer must not hold up another's user.
        ("grpc.use_local_subchannel_pool", 1),
    ]


def reconnecting(first_ms: int, longest_ms: int) -> list[tuple[str, int]]:
    """The options for a channel's pause after a failed attempt to connect: the first one and the
    longest."""
    return [
        ("grpc.initial_reconnect_backoff_ms", min(first_ms, longest_ms, INT_MAX)),
        ("grpc.max_reconnect_backoff_ms", min(longest_ms, INT_MAX)),
    ]


def connected_within(attempt_ms: int) -> list[tuple[str, int]]:
    """The option for the time that one attempt to connect may take."""
    # Despite its name.
    return [("grpc.min_reconnect_backoff_ms", min(attempt_ms, INT_MAX))]


def idle_at_most(idle_ms: int) -> list[tuple[str, int]]:
    """The option for the time that a channel keeps a connection without calls; -1: for ever."""
    return [("grpc.client_idle_timeout_ms", min(idle_ms, INT_MAX) if idle_ms >= 0 else INT_MAX)]


def through_gateway(broker: int) -> list[tuple[str, int | str]]:
    """Options of a channel to the gateway that ends at this broker: gRPC asks the gateway to
    connect it through by HTTP CONNECT, at every connection anew, before it speaks HTTP/2.

    Proxies of the environment stay out of it: their rules are about the machine, not about pylog.
    """
    return [
        ("grpc.enable_http_proxy", 0),
        ("grpc.http_connect_server", f"{BROKER_HOST_PREFIX}{broker}:0"),
    ]


def sync_channel(target: str, *, message_bytes_max: int = MESSAGE_BYTES_MAX) -> grpc.Channel:
    """A blocking plaintext channel to `host:port`."""
    tune_process()
    import grpc

    return grpc.insecure_channel(target, options=channel_options(message_bytes_max))


def aio_channel(
    target: str,
    *,
    message_bytes_max: int = MESSAGE_BYTES_MAX,
    options: Sequence[tuple[str, int | str]] = (),
) -> grpc.aio.Channel:
    """A plaintext channel to `host:port` for the running loop; `options` beside the usual ones."""
    tune_process()
    import grpc.aio

    together = {**dict(channel_options(message_bytes_max)), **dict(options)}
    return grpc.aio.insecure_channel(target, options=list(together.items()))
