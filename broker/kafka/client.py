"""A follower's connections: one to each leader broker, made for the first request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from pylog.model import BrokerId
from pylog_broker.kafka import follower_fetch
from pylog_broker.kafka.generated import fetch
from pylog_broker.kafka.headers import response_body
from pylog_broker.kafka.peer_connection import OnAnswer, PeerConnection
from pylog_broker.kafka_primitives import Chunks, MalformedMessage
from pylog_broker.metadata.records import Endpoint
from pylog_broker.replication.replica_fetch_messages import ReplicaFetch, ReplicaFetched

ANSWER_SECONDS_MAX: Final = 30.0
"""`replica.socket.timeout.ms`: on top of a fetch's own wait."""
FETCH_VERSION: Final = follower_fetch.VERSION
EPOCHS_VERSION: Final = 4


class LeaderConnections:
    """The way from this broker to all others. Lives on the broker's loop."""

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
        self._connections: dict[BrokerId, PeerConnection] = {}
        self._closed = False

    def fetch(
        self,
        leader: BrokerId,
        request: ReplicaFetch,
        done: Callable[[ReplicaFetched | None], None],
    ) -> None:
        """Send a fetch; `done` gets its answer or None, never from within this call."""

        def on_answer(buffer: memoryview | None) -> None:
            if buffer is None:
                done(None)
                return
            try:
                body = response_body(buffer, fetch.KEY, FETCH_VERSION)
                fetched = follower_fetch.decode_response(buffer, body)
            except MalformedMessage:
                done(None)
                raise
            done(fetched)

        body = follower_fetch.encode_request(request)
        seconds = ANSWER_SECONDS_MAX + request.max_wait_ms / 1000
        self._send(leader, fetch.KEY, FETCH_VERSION, body, seconds, on_answer)

    def close(self) -> None:
        """Drop all connections; what waits is answered with None."""
        self._closed = True
        for connection in list(self._connections.values()):
            connection.fail("this broker stops", quiet=True)
        self._connections.clear()

    def _send(
        self,
        leader: BrokerId,
        api_key: int,
        version: int,
        body: Chunks,
        seconds: float,
        on_answer: OnAnswer,
    ) -> None:
        endpoint = None if self._closed else self._endpoint_of(leader)
        if endpoint is None:
            asyncio.get_running_loop().call_soon(on_answer, None)
            return
        connection = self._connections.get(leader)
        if connection is not None and (
            connection.broken
            or (connection.endpoint is not endpoint and connection.endpoint != endpoint)
        ):
            connection.fail(f"broker {leader} is now at {endpoint}", quiet=connection.broken)
            connection = None
        if connection is None:
            connection = PeerConnection(
                leader, endpoint, self._client_id, self._secret, self._report
            )
            self._connections[leader] = connection
        connection.send(api_key, version, body, seconds, on_answer)
