"""Calls between brokers over a loopback socket, with a handler that is told when to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

import pytest
import uvloop

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerId
from pylog_broker.api.context import RequestContext
from pylog_broker.kafka import calls
from pylog_broker.kafka.broker_apis import (
    ADD_PARTITIONS_TO_TXN,
    WRITE_TXN_MARKERS,
    BoundBrokerApi,
)
from pylog_broker.kafka.calls import BrokerCalls
from pylog_broker.kafka.generated import add_partitions_to_txn as add
from pylog_broker.kafka.generated import write_txn_markers as markers
from pylog_broker.kafka.server import ReplicationServer
from pylog_broker.metadata.records import Endpoint
from pylog_broker.metrics.counters import RequestCounters

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

SECRET = b"s" * 32
OTHER = BrokerId(1)


def asked(name: str) -> add.AddPartitionsToTxnRequest:
    return add.AddPartitionsToTxnRequest([add.AddPartitionsToTxnTransaction(name, 7, 1)])


def answered(name: str) -> add.AddPartitionsToTxnResponse:
    return add.AddPartitionsToTxnResponse(0, 0, [add.AddPartitionsToTxnResult(name)])


class Coordinator:
    """Answers by what it is asked: at once, when it is told to, or never."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    async def handle(
        self, _: RequestContext, request: add.AddPartitionsToTxnRequest
    ) -> add.AddPartitionsToTxnResponse:
        name = request.transactions[0].transactional_id
        self.asked.append(name)
        if name == "refused":
            raise errors.NotCoordinator("not here")
        if name == "defect":
            raise RuntimeError("a defect")
        if name.startswith("held"):
            await self.gates.setdefault(name, asyncio.Event()).wait()
        return answered(name)

    def refused(
        self, _: add.AddPartitionsToTxnRequest, error: errors.PylogError
    ) -> add.AddPartitionsToTxnResponse:
        return add.AddPartitionsToTxnResponse(0, error.code, [])


class Pair:
    """A listener that answers one API, and a broker that calls it."""

    def __init__(self, secret: bytes) -> None:
        self.coordinator = Coordinator()
        self.reports: list[str] = []
        self.endpoint: Endpoint | None = None
        self.server = self._server()
        self.client = BrokerCalls(
            "pylog-2", secret, lambda broker: self.endpoint, report=self.reports.append
        )

    def _server(self) -> ReplicationServer:
        server = ReplicationServer(
            cast("ReplicaManager", None), lambda effects: None, SYSTEM_CLOCK, SECRET,
            name_of=lambda topic_id: None, id_of=lambda name: None, report=self.reports.append,
            counters=RequestCounters(),
        )  # fmt: skip
        coordinator = self.coordinator
        server.offer(
            [BoundBrokerApi(ADD_PARTITIONS_TO_TXN, coordinator.handle, coordinator.refused)]
        )
        return server

    async def start(self) -> Pair:
        self.endpoint = Endpoint("127.0.0.1", await self.server.start("127.0.0.1", 0))
        return self

    async def start_again(self) -> None:
        assert self.endpoint is not None
        self.server = self._server()
        await self.server.start("127.0.0.1", self.endpoint.port)

    async def ask(self, name: str, seconds: float = 9) -> add.AddPartitionsToTxnResponse:
        return await self.client.call(
            OTHER, ADD_PARTITIONS_TO_TXN, asked(name), timeout_seconds=seconds
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0)


def run(test: Callable[[Pair], Coroutine[Any, Any, None]], secret: bytes = SECRET) -> None:
    async def main() -> None:
        pair = await Pair(secret).start()
        try:
            async with asyncio.timeout(20):
                await test(pair)
        finally:
            pair.client.close()
            await pair.server.close()

    # Brokers run on uvloop, whose transports differ in small ways.
    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())


def test_a_call_is_answered_over_one_connection() -> None:
    async def test(pair: Pair) -> None:
        assert await pair.ask("one") == answered("one")
        assert await pair.ask("two") == answered("two")
        assert len(pair.server.connections) == 1
        assert pair.reports == []

    run(test)


def test_a_refusal_and_a_defect_are_answers_and_the_connection_lives_on() -> None:
    async def test(pair: Pair) -> None:
        assert (await pair.ask("refused")).error_code == errors.NotCoordinator.code
        assert (await pair.ask("defect")).error_code == errors.UnknownServerError.code
        assert await pair.ask("one") == answered("one")
        assert len(pair.server.connections) == 1
        counts = pair.server.counters.errors
        assert counts[ADD_PARTITIONS_TO_TXN.counted_as, errors.NotCoordinator.code] == 1

    run(test)


def test_a_slow_call_holds_up_no_other() -> None:
    async def test(pair: Pair) -> None:
        held = asyncio.ensure_future(pair.ask("held"))
        await pair.until(lambda: "held" in pair.coordinator.gates)
        assert await pair.ask("one") == answered("one")
        pair.coordinator.gates["held"].set()
        assert await held == answered("held")

    run(test)


def test_so_many_calls_are_under_way_and_the_rest_wait() -> None:
    async def test(pair: Pair) -> None:
        names = [f"held-{number}" for number in range(calls.UNDER_WAY_MAX + 2)]
        held = [asyncio.ensure_future(pair.ask(name)) for name in names]
        await pair.until(lambda: len(pair.coordinator.asked) == calls.UNDER_WAY_MAX)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(pair.coordinator.asked) == calls.UNDER_WAY_MAX
        pair.coordinator.gates[names[0]].set()
        await pair.until(lambda: len(pair.coordinator.asked) == calls.UNDER_WAY_MAX + 1)
        await pair.until(lambda: len(pair.coordinator.gates) == calls.UNDER_WAY_MAX + 1)
        for name in names:
            pair.coordinator.gates.setdefault(name, asyncio.Event()).set()
        assert await asyncio.gather(*held) == [answered(name) for name in names]

    run(test)


def test_more_than_may_wait_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "WAITING_MAX", 1)

    async def test(pair: Pair) -> None:
        held = asyncio.ensure_future(pair.ask("held"))
        await pair.until(lambda: "held" in pair.coordinator.gates)
        with pytest.raises(errors.ThrottlingQuotaExceeded, match="wait for broker 1"):
            await pair.ask("one")
        pair.coordinator.gates["held"].set()
        await held

    run(test)


def test_a_call_that_takes_too_long_is_given_up_and_its_late_answer_is_for_nobody() -> None:
    async def test(pair: Pair) -> None:
        with pytest.raises(errors.RequestTimedOut, match=r"within 0\.05 s"):
            await pair.ask("held", 0.05)
        pair.coordinator.gates["held"].set()
        assert await pair.ask("one") == answered("one")
        assert len(pair.server.connections) == 1
        assert pair.reports == []

    run(test)


def test_a_connection_that_breaks_ends_its_calls_and_is_made_again() -> None:
    async def test(pair: Pair) -> None:
        held = asyncio.ensure_future(pair.ask("held"))
        await pair.until(lambda: "held" in pair.coordinator.gates)
        await pair.server.close()
        with pytest.raises(errors.NetworkException, match="broker 1"):
            await held
        with pytest.raises(errors.NetworkException, match="broker 1"):
            await pair.ask("one")
        lane = pair.client._lanes[OTHER, ADD_PARTITIONS_TO_TXN.key]
        assert lane.back_off_seconds == 2 * calls.BACK_OFF_SECONDS_MIN
        await pair.start_again()
        assert await pair.ask("one") == answered("one")
        assert lane.back_off_seconds == 0

    run(test)


def test_a_broker_that_is_not_registered_is_not_called() -> None:
    async def test(pair: Pair) -> None:
        pair.endpoint = None
        with pytest.raises(errors.BrokerNotAvailable, match="not registered"):
            await pair.ask("one")

    run(test)


def test_a_stopping_broker_ends_its_calls() -> None:
    async def test(pair: Pair) -> None:
        held = asyncio.ensure_future(pair.ask("held"))
        await pair.until(lambda: "held" in pair.coordinator.gates)
        pair.client.close()
        with pytest.raises(errors.NetworkException):
            await held
        with pytest.raises(errors.BrokerNotAvailable, match="stops"):
            await pair.ask("one")

    run(test)


def test_a_wrong_secret_calls_nothing() -> None:
    async def test(pair: Pair) -> None:
        with pytest.raises(errors.NetworkException):
            await pair.ask("one")
        assert any("does not hold this cluster's secret" in line for line in pair.reports)
        assert pair.coordinator.asked == []

    run(test, secret=b"x" * 32)


def test_an_api_that_nobody_answers_ends_the_connection_with_a_line() -> None:
    async def test(pair: Pair) -> None:
        request = markers.WriteTxnMarkersRequest([])
        with pytest.raises(errors.NetworkException):
            await pair.client.call(OTHER, WRITE_TXN_MARKERS, request, timeout_seconds=5)
        assert any("api key 27 version 2 is not offered" in line for line in pair.reports)
        assert await pair.ask("one") == answered("one")

    run(test)


def test_a_caller_that_goes_leaves_the_connection_as_it_is() -> None:
    async def test(pair: Pair) -> None:
        held = asyncio.ensure_future(pair.ask("held"))
        await pair.until(lambda: "held" in pair.coordinator.gates)
        held.cancel()
        assert await pair.ask("one") == answered("one")
        pair.coordinator.gates["held"].set()
        assert await pair.ask("two") == answered("two")
        assert len(pair.server.connections) == 1

    run(test)
