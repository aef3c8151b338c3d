"""The limits of a process's connections, out of its settings and of what it may have open."""

from __future__ import annotations

from collections.abc import Callable

from pylog.clock import Clock
from pylog_broker.config import BrokerConfig
from pylog_broker.net.acceptor import Gate
from pylog_broker.net.overrides import parse_overrides
from pylog_broker.net.quotas import Limits
from pylog_broker.net.shares import last_descriptor


def limits_of(config: BrokerConfig, files_max: int) -> Limits:
    """The limits that all listeners of the process share."""
    return Limits(
        per_ip=config.max_connections_per_ip,
        overrides=parse_overrides(config.max_connections_per_ip_overrides),
        creation_rate=config.max_connection_creation_rate,
        last_descriptor=last_descriptor(files_max),
    )


def gate_of(
    config: BrokerConfig, files_max: int, clock: Clock, report: Callable[[str], None]
) -> Gate:
    """A gate with these limits."""
    return Gate(clock, report, limits_of(config, files_max))
