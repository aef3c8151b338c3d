"""Serving one process's metrics, where `metrics.listen` says."""

from __future__ import annotations

from typing import Final

from pylog.errors import InvalidConfig
from pylog_broker.metrics.http import MetricsServer, Source
from pylog_broker.metrics.process import LoopLag, process_metrics

PORT_MAX: Final = 65_535


def metrics_port(base: int, broker: int) -> int:
    """The port of one broker (0: the driver); any free one when `base` is 0.

    InvalidConfig when there is no such port.
    """
    if base == 0:
        return 0
    if base + broker > PORT_MAX:
        raise InvalidConfig(
            f"metrics.listen has port {base}, so broker {broker} would serve metrics on "
            f"{base + broker}; the highest port is {PORT_MAX}"
        )
    return base + broker


class Metrics:
    """The server and what it measures by itself. Made, started and stopped on the loop."""

    def __init__(self, source: Source, loop_lag: LoopLag) -> None:
        self._lag = loop_lag
        self._server = MetricsServer(source, process_metrics())

    def start(self, host: str, base_port: int, broker: int) -> int:
        """Listen; gives the port. Errors as of `metrics_port`, and BrokerNotAvailable."""
        port = self._server.start(host, metrics_port(base_port, broker))
        self._lag.start()
        return port

    def stop(self) -> None:
        """End both."""
        self._lag.stop()
        self._server.stop()
