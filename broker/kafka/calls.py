"""Calls from this broker to others: one connection for each broker and API.

Answers to calls come in any order, unlike those to fetches, and a call of one API never waits
behind one of another: two brokers that wait for each other's answers cannot stop each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from pylog.errors import (
    BrokerNotAvailable,
    NetworkException,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
)
from pylog.model import BrokerId
from pylog_broker.kafka.broker_apis import BrokerApi, RequestT, ResponseT
from pylog_broker.kafka.headers import response_body
from pylog_broker.kafka.peer_connection import PeerConnection
from pylog_broker.kafka_primitives import MalformedMessage
from pylog_broker.metadata.records import Endpoint

TIMEOUT_SECONDS: Final = 30.0
"""Kafka's `request.timeout.ms` between brokers."""
UNDER_WAY_MAX: Final = 64
"""Calls on one connection; the server reads no more before one of them is answered."""
WAITING_MAX: Final = 4_096
"""Calls of one API to one broker, with those that wait for a place or for the connection."""
BACK_OFF_SECONDS_MIN: Final = 0.05
BACK_OFF_SECONDS_MAX: Final = 1.0
_OVERDUE_SECONDS: Final = 30.0
"""Behind its time-out a call that is not answered breaks its connection."""


class _Lane:
    """The way to one broker for one API."""

    def __init__(self) -> None:
        self.connection: PeerConnection | None = None
        self.places = asyncio.Semaphore(UNDER_WAY_MAX)
        self.waiting = 0
        self.back_off_seconds = 0.0
        self.not_before = 0.0


class BrokerCalls:
    """Calls other brokers. Lives on the broker's loop."""

    def __init__(
        self,
        client_id: str,
        secret: bytes,
        endpoint_of: Callable[[BrokerId], Endpoint | None],
        *,
        report: Callable[[str], None],
    ) -> None:
        self._client_id = client_id
        self._secret = secret
        self._endpoint_of = endpoint_of
        self._report = report
        self._lanes: dict[tuple[BrokerId, int], _Lane] = {}
        self._closed = False

    async def call(
        self,
        broker: BrokerId,
        api: BrokerApi[RequestT, ResponseT],
        request: RequestT,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> ResponseT:
        """The broker's answer.

        Raises BrokerNotAvailable when the broker is not registered or this one stops,
        NetworkException when the connection cannot be made or breaks, RequestTimedOut, and
        ThrottlingQuotaExceeded when too many calls wait already. Of what the broker did, none of
        these tells anything.
        """
        lane = self._lanes.setdefault((broker, api.key), _Lane())
        if lane.waiting >= WAITING_MAX:
            raise ThrottlingQuotaExceeded(
                f"{lane.waiting} calls of {api.counted_as} wait for broker {broker}: no more may"
            )
        lane.waiting += 1
        try:
            async with asyncio.timeout(timeout_seconds):
                async with lane.places:
                    return await self._call(broker, lane, api, request, timeout_seconds)
        except TimeoutError:
            raise RequestTimedOut(
                f"broker {broker} did not answer {api.counted_as} within {timeout_seconds:g} s"
            ) from None
        finally:
            lane.waiting -= 1

    def close(self) -> None:
        """Drop all connections; calls that wait end with BrokerNotAvailable or NetworkException."""
        self._closed = True
        for lane in self._lanes.values():
            if lane.connection is not None:
                lane.connection.fail("this broker stops", quiet=True)

    async def _call(
        self,
        broker: BrokerId,
        lane: _Lane,
        api: BrokerApi[RequestT, ResponseT],
        request: RequestT,
        timeout_seconds: float,
    ) -> ResponseT:
        connection = await self._connection(broker, lane)
        body = api.encode_request(request, api.version)
        answer: asyncio.Future[ResponseT | None] = asyncio.get_running_loop().create_future()

        def on_answer(buffer: memoryview | None) -> None:
            if buffer is None:
                if not answer.done():
                    answer.set_result(None)
                return
            try:
                position = response_body(buffer, api.key, api.version)
                response = api.decode_response(buffer, position, api.version)
            except MalformedMessage:
                if not answer.done():
                    answer.set_result(None)
                raise
            lane.back_off_seconds = 0.0
            if not answer.done():
                answer.set_result(response)

        seconds = timeout_seconds + _OVERDUE_SECONDS
        connection.send(api.key, api.version, body, seconds, on_answer)
        response = await answer
        if response is None:
            self._rest(lane, connection)
            raise NetworkException(f"the connection to broker {broker} broke, or was not made")
        return response

    async def _connection(self, broker: BrokerId, lane: _Lane) -> PeerConnection:
        """One that may be used. After a failure it is made anew a little later."""
        while True:
            endpoint = None if self._closed else self._endpoint_of(broker)
            if endpoint is None:
                raise BrokerNotAvailable(
                    "this broker stops" if self._closed else f"broker {broker} is not registered"
                )
            connection = lane.connection
            if connection is not None and not connection.broken:
                if connection.endpoint == endpoint:
                    return connection
                connection.fail(f"broker {broker} is now at {endpoint}")
            wait = lane.not_before - asyncio.get_running_loop().time()
            if wait <= 0 or (connection is not None and connection.endpoint != endpoint):
                lane.connection = PeerConnection(
                    broker, endpoint, self._client_id, self._secret, self._report
                )
                return lane.connection
            await asyncio.sleep(wait)

    def _rest(self, lane: _Lane, connection: PeerConnection) -> None:
        """The connection failed: the next one is not made at once."""
        if lane.connection is not connection:
            return
        lane.connection = None
        doubled = min(2 * lane.back_off_seconds, BACK_OFF_SECONDS_MAX)
        lane.back_off_seconds = max(doubled, BACK_OFF_SECONDS_MIN)
        lane.not_before = asyncio.get_running_loop().time() + lane.back_off_seconds
