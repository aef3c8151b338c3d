"""The calls of one process to the coordinators of sinks, asked again as `SinkCalls` of the product
does it: until they are answered or their time is up, of whichever broker coordinates the sink then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.client.sinks import sink_wire
from pylog.client.sinks.sink_types import SinkKey
from pylog.model import BrokerId
from pylog.rpc import apis
from pylog.rpc.apis import UnaryApi
from tests.sim.coordinator_shell import Refused, UnaryCall
from tests.sim.rpc import Actor, Rpc
from tests.sim.violation import Violation

if TYPE_CHECKING:
    import random

    from tests.sim.cluster import Cluster

REQUEST_MS = 2_500
FIND_MS = 800
BACKOFF_MS = 30
BACKOFF_MS_MAX = 500
_ELSEWHERE = (errors.NotCoordinator, errors.CoordinatorNotAvailable, errors.RequestTimedOut)

Heard = Callable[[Any], None]


@dataclass(eq=False, slots=True)
class _Asking:
    """A call that has no answer yet. `heard` gets the answer, or the error as a value."""

    sink: SinkKey
    api: UnaryApi[Any, Any]
    request: Any
    heard: Heard
    until_ms: int
    failures: int = 0
    is_done: bool = False


class SinkCaller:
    """The calls of one process."""

    def __init__(self, cluster: Cluster, actor: Actor, rng: random.Random) -> None:
        self._cluster = cluster
        self._actor = actor
        self._rng = rng
        self._coordinators: dict[SinkKey, int] = {}
        self._rpcs: dict[int, Rpc] = {}

    def ask(
        self, sink: SinkKey, api: UnaryApi[Any, Any], request: Any, heard: Heard, timeout_ms: int
    ) -> None:
        """`heard` gets the answer, the coordinator's error, or RequestTimedOut."""
        asking = _Asking(sink, api, request, heard, self._now_ms() + timeout_ms)
        self._actor.timer(timeout_ms, self._done, asking, errors.RequestTimedOut(api.name))
        self._try(asking)

    def _now_ms(self) -> int:
        return self._actor.machine.now_ms()

    def _done(self, asking: _Asking, answer: Any) -> None:
        if not asking.is_done:
            asking.is_done = True
            self._cluster.scheduler.told(self._actor.name, asking.api.name, answer)
            if isinstance(answer, errors.PylogError):
                kind = f"sinks: {asking.api.name} answered {type(answer).__name__}"
                self._cluster.sometimes[kind] += 1
                if isinstance(answer, errors.UnknownServerError):
                    raise Violation("raised", f"{self._actor.name}: {asking.api.name}: {answer}")
                self._cluster.scheduler.note("hears", self._actor.name, kind, str(answer))
            asking.heard(answer)

    def _try(self, asking: _Asking) -> None:
        if asking.is_done:
            return
        broker = self._coordinators.get(asking.sink)
        if broker is None:
            self._find(asking)
            return

        def answered(answer: Any) -> None:
            if answer is None:
                self._cluster.sometimes[f"sinks: {asking.api.name} not answered"] += 1
            self._answered(asking, answer)

        self._call(broker, asking.api, asking.request, answered, REQUEST_MS)

    def _find(self, asking: _Asking) -> None:
        broker = self._rng.choice(sorted(self._cluster.owners))
        request = sink_wire.find_request(asking.sink)

        def found(answer: Any) -> None:
            if answer is None or isinstance(answer, Refused):
                self._later(asking)
                return
            try:
                self._coordinators[asking.sink] = sink_wire.coordinator_in(answer, asking.sink)
            except errors.PylogError:
                self._later(asking)
            else:
                self._try(asking)

        self._call(broker, apis.FIND_COORDINATOR, request, found, FIND_MS)

    def _call(
        self, broker: int, api: UnaryApi[Any, Any], request: Any, heard: Heard, within_ms: int
    ) -> None:
        process = self._cluster.process(BrokerId(broker))
        if process is None or process.transactions is None:
            self._actor.timer(1 + self._rng.random() * 20, heard, None)
            return
        rpc = self._rpcs.get(broker)
        if rpc is None or not rpc.open or rpc.server is not process:
            rpc = self._rpcs[broker] = Rpc(self._cluster.net, self._actor, process)
        is_done = False

        def answered(answer: Any) -> None:
            nonlocal is_done
            if not is_done:
                is_done = True
                heard(answer)

        call = UnaryCall(api.key, request, self._actor.name)
        rpc.request(process.transactions.serve, call, answered, None)
        self._actor.timer(within_ms, answered, None)

    def _answered(self, asking: _Asking, answer: Any) -> None:
        if asking.is_done:
            return
        fault: errors.PylogError | None = None
        if answer is None:
            fault = errors.RequestTimedOut("no answer")
        elif isinstance(answer, Refused):
            fault = errors.from_code(answer.code, answer.message)
        elif answer.error.code:
            fault = errors.from_code(answer.error.code, answer.error.message)
        if fault is None:
            self._done(asking, answer)
        elif isinstance(fault, errors.ThrottlingQuotaExceeded) or not fault.retriable:
            self._done(asking, fault)
        else:
            if isinstance(fault, _ELSEWHERE):
                self._coordinators.pop(asking.sink, None)
            self._later(asking)

    def _later(self, asking: _Asking) -> None:
        wait_ms = min(BACKOFF_MS * 2**asking.failures, BACKOFF_MS_MAX)
        asking.failures += 1
        self._actor.timer(wait_ms * (0.8 + 0.4 * self._rng.random()), self._try, asking)
