"""The calls of one process to the coordinators of sinks, asked again as `SinkCalls` of the product
does it: until they are answered or their time is up, of whichever broker coordinates the sink then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.client.admin import sink_wire as admin_wire
from pylog.client.admin.sink_types import SinkListing
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
    broker: int | None = None
    """The broker that is asked in place of the coordinator."""
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
        self,
        sink: SinkKey,
        api: UnaryApi[Any, Any],
        request: Any,
        heard: Heard,
        timeout_ms: int,
        *,
        broker: int | None = None,
    ) -> None:
        """`heard` gets the answer, the error of the coordinator, or of the `broker`, or
        RequestTimedOut.
        """
        asking = _Asking(sink, api, request, heard, self._now_ms() + timeout_ms, broker)
        self._actor.timer(timeout_ms, self._done, asking, errors.RequestTimedOut(api.name))
        self._try(asking)

    def list_sinks(self, sink_id: str, heard: Heard, timeout_ms: int) -> None:
        """`heard` gets the sinks of that id, as each live broker lists those that it coordinates;
        or the error of one.
        """
        image = self._cluster.image
        waiting = {each for each in image.brokers if image.is_live(each)}
        request = admin_wire.list_request(None, sink_id, receipts=True)
        found: list[SinkListing] = []

        def answered(broker: BrokerId, answer: Any) -> None:
            if broker not in waiting:
                return
            if isinstance(answer, errors.PylogError):
                waiting.clear()
                heard(answer)
                return
            waiting.discard(broker)
            found.extend(admin_wire.listing_of(each, broker) for each in answer.sinks)
            if not waiting:
                heard(found)

        if not waiting:
            wait_ms = min(BACKOFF_MS_MAX, timeout_ms)
            self._actor.timer(wait_ms, self._list_again, sink_id, heard, timeout_ms - wait_ms)
        for each in sorted(waiting):
            self.ask(
                SinkKey("", sink_id),
                apis.LIST_SINKS,
                request,
                partial(answered, each),
                timeout_ms,
                broker=each,
            )

    def _list_again(self, sink_id: str, heard: Heard, timeout_ms: int) -> None:
        """No broker was live."""
        if timeout_ms > 0:
            self.list_sinks(sink_id, heard, timeout_ms)
        else:
            heard(errors.RequestTimedOut(apis.LIST_SINKS.name))

    def any_broker(self) -> int:
        """One that may be asked for coordinators."""
        return self._rng.choice(sorted(self._cluster.owners))

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
        broker = asking.broker
        if broker is None:
            broker = self._coordinators.get(asking.sink)
        if broker is None:
            self._find(asking)
            return

        def answered(answer: Any) -> None:
            if answer is None:
                self._cluster.sometimes[f"sinks: {asking.api.name} not answered"] += 1
            self._answered(asking, answer)

        self.call(broker, asking.api, asking.request, answered, REQUEST_MS)

    def _find(self, asking: _Asking) -> None:
        broker = self.any_broker()
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

        self.call(broker, apis.FIND_COORDINATOR, request, found, FIND_MS)

    def call(
        self,
        broker: int,
        api: UnaryApi[Any, Any],
        request: Any,
        heard: Heard,
        within_ms: int,
        *,
        of_groups: bool = False,
    ) -> None:
        """`heard` gets the answer of that broker, which may be Refused, or None."""
        process = self._cluster.process(BrokerId(broker))
        services = (None, None) if process is None else (process.transactions, process.groups)
        service = services[of_groups]
        if process is None or service is None:
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
        rpc.request(service.serve, call, answered, None)
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
