"""`SinkDecider`: a driver's calls to the coordinator of a sink, by a thread that waits, without a
client.

Spark begins a process for the end of each batch of a streaming query, and to load gRPC there would
take longer than the call itself. So the tasks' messages say where the coordinator and the other
brokers are, and the call goes over one framed connection. Asked again it gives the same answer, so
it is asked again, of whichever broker coordinates the sink by then, until the time is up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pylog import errors
from pylog.client.connection.blocking_call import call_over_frames
from pylog.client.sinks import sink_wire
from pylog.client.sinks.sink_types import (
    CoordinatorPorts,
    FramedPort,
    SinkBatch,
    SinkDecision,
    SinkKey,
)
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.rpc import apis, streams
from pylog.rpc.v1 import log_pb2

ATTEMPT_S_MAX: Final = 10.0
"""A coordinator that does not answer for so long is looked for among the others."""
FIND_S_MAX: Final = 2.0
"""The same for a broker that is asked who coordinates the sink."""
BACKOFF_MS: Final = 50
BACKOFF_MS_MAX: Final = 1_000

T = TypeVar("T")


class BrokersAway(Exception):
    """No broker takes a connection where the tasks have met it. All may have come up elsewhere."""


Call = Callable[[FramedPort, Any, Any, float], Any]
"""Asks a broker: its port, the API, the request, within so many seconds."""


class SinkDecider:
    """One thread. `call` is for tests."""

    def __init__(
        self,
        where: CoordinatorPorts,
        client_id: str,
        timeout_ms: int,
        *,
        call: Call | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._cluster_id = where.cluster_id
        self._client_id = client_id
        self._ports = {port.broker: port for port in where.ports}
        self._coordinator: int | None = where.coordinator
        self._timeout_ms = timeout_ms
        self._call: Call = call or self._over_frames
        self._clock = clock

    def decide(self, batch: SinkBatch) -> tuple[SinkDecision, bool]:
        """The decision, and whether it was made by this call.

        Raises the coordinator's error; RequestTimedOut when none has answered, BrokersAway when
        none can be reached, and then the batch may be decided or not.
        """
        request = sink_wire.decide_request(batch)
        response = self._ask(batch.sink, apis.DECIDE_SINK_BATCH, request)
        return sink_wire.decision_of(response.decision), response.is_new

    def abort(self, sink: SinkKey, run_id: str, batch_id: int, *, ends_run: bool) -> int:
        """The number of open attempts that were aborted, of the batch or, where it `ends_run`, of
        the whole run, which writes nothing more then. Raises as `decide`.
        """
        request = sink_wire.abort_request(sink, run_id, batch_id, ends_run=ends_run)
        return int(self._ask(sink, apis.ABORT_SINK_BATCH, request).attempts)

    # ---- asking -------------------------------------------------------------------------------

    def _ask(self, sink: SinkKey, api: Any, request: Any) -> Any:
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms
        failures = 0
        while True:
            left_s = (deadline_ms - self._clock.monotonic_ms()) / 1000
            try:
                response = self._call(
                    self._port(sink, left_s), api, request, min(left_s, ATTEMPT_S_MAX)
                )
                sink_wire.raise_fault(response.error.code, response.error.message)
            except errors.PylogError as error:
                if not error.retriable or isinstance(error, errors.ThrottlingQuotaExceeded):
                    raise
                self._coordinator = None
                failures += 1
                wait_ms = min(BACKOFF_MS << min(failures - 1, 10), BACKOFF_MS_MAX)
                if self._clock.monotonic_ms() + wait_ms >= deadline_ms:
                    raise errors.RequestTimedOut(
                        f"{sink}: its coordinator has not answered within "
                        f"{self._timeout_ms / 1000:.3g} s; last fault: {error.name}: {error}"
                    ) from None
                self._clock.sleep(wait_ms / 1000)
            else:
                return response

    def _port(self, sink: SinkKey, left_s: float) -> FramedPort:
        """The port of the sink's coordinator, as a message or else the first broker that answers
        says.
        """
        if self._coordinator is None:
            self._coordinator = self._find(sink, min(left_s, FIND_S_MAX))
        port = self._ports.get(self._coordinator)
        if port is None:
            broker, self._coordinator = self._coordinator, None
            raise errors.CoordinatorNotAvailable(f"its coordinator, broker {broker}, is away")
        return port

    def _find(self, sink: SinkKey, timeout_s: float) -> int:
        found = self._first_answer(
            lambda port: self._call(
                port, apis.FIND_COORDINATOR, sink_wire.find_request(sink), timeout_s
            )
        )
        coordinator = sink_wire.coordinator_in(found, sink)
        # It may be a broker that no task knew, or be at another address by now.
        told = self._first_answer(
            lambda port: self._call(port, apis.METADATA, log_pb2.MetadataRequest(), timeout_s)
        )
        self._ports.update((port.broker, port) for port in sink_wire.ports_in(told))
        return coordinator

    def _first_answer(self, ask: Callable[[FramedPort], T]) -> T:
        for port in list(self._ports.values()):
            with contextlib.suppress(errors.BrokerUnreachable):
                return ask(port)
        raise BrokersAway

    def _over_frames(self, port: FramedPort, api: Any, request: Any, timeout_s: float) -> Any:
        hello = streams.hello(streams.CALLS, self._cluster_id, port.broker, self._client_id)
        address = port.host, port.port
        return call_over_frames(port.broker, address, hello, api, request, max(timeout_s, 0.001))
