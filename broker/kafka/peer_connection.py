"""One connection to another broker: requests pipelined by correlation id.

Both sides prove that they hold the cluster's secret before the first request leaves. When the
connection cannot be made, breaks, or an answer is overdue, every request on it is answered with
None at once; whoever asked decides when to try again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final, Protocol, cast

from pylog.errors import PylogError, SaslAuthenticationFailed, from_code
from pylog.model import BrokerId
from pylog.rpc.framing import FrameCutter, frame
from pylog_broker.kafka.generated import sasl_authenticate, sasl_handshake
from pylog_broker.kafka.handshake import MECHANISM, NONCE_BYTES, ClientHandshake
from pylog_broker.kafka.headers import correlation_of, encode_request_header, response_body
from pylog_broker.kafka_primitives import Chunks
from pylog_broker.metadata.records import Endpoint

CONNECT_SECONDS_MAX: Final = 5.0
FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""A fetch answer may exceed the asked size by one batch for each partition (KIP-74)."""


class OnAnswer(Protocol):
    def __call__(self, buffer: memoryview | None) -> None:
        """Take the answer's frame, or None when there will be none.

        MalformedMessage, once the asker has been told, breaks the connection.
        """


class PeerConnection(asyncio.BufferedProtocol):
    """One connection: connecting, then authenticating, then open, then broken for good."""

    def __init__(
        self,
        leader: BrokerId,
        endpoint: Endpoint,
        client_id: str,
        secret: bytes,
        report: Callable[[str], None],
    ) -> None:
        self.endpoint = endpoint
        self.broken = False
        self._leader = leader
        self._client_id = client_id
        self._handshake = ClientHandshake(secret, secrets.token_bytes(NONCE_BYTES))
        self._report = report
        self._cutter = FrameCutter(FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._open = False
        self._waiting: list[Chunks] = []
        # who waits for which answer, and until when on the loop's clock
        self._answers: dict[int, tuple[OnAnswer, float]] = {}
        self._overdue: asyncio.TimerHandle | None = None
        self._correlation_id = 0
        self._loop = asyncio.get_running_loop()
        self._connecting = self._loop.create_task(self._connect())

    def send(
        self, api_key: int, version: int, body: Chunks, seconds: float, on_answer: OnAnswer
    ) -> None:
        """Send now, or as soon as the connection is open."""
        chunks = self._request(api_key, version, body, seconds, on_answer)
        if self._open and self._transport is not None:
            self._transport.writelines(chunks)
        else:
            self._waiting.append(chunks)

    def _request(
        self, api_key: int, version: int, body: Chunks, seconds: float, on_answer: OnAnswer
    ) -> Chunks:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._answers[self._correlation_id] = (on_answer, self._loop.time() + seconds)
        # One timer for all: what comes in time, as nearly everything does, never touches it.
        if self._overdue is None:
            self._overdue = self._loop.call_later(seconds, self._look_for_overdue)
        header = encode_request_header(api_key, version, self._correlation_id, self._client_id)
        return frame([header, *body])

    def _look_for_overdue(self) -> None:
        """Break the connection when an answer is overdue; else look again when the next one is."""
        self._overdue = None
        if not self._answers:
            return
        earliest = min(until for _, until in self._answers.values())
        wait = earliest - self._loop.time()
        if wait > 0:
            self._overdue = self._loop.call_later(wait, self._look_for_overdue)
        else:
            self.fail("an answer is overdue")

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await self._loop.create_connection(
                    lambda: self, self.endpoint.host, self.endpoint.port
                )
                await self._authenticate()
        except TimeoutError:
            self.fail(f"not connected within {CONNECT_SECONDS_MAX:g} s")
        except (OSError, PylogError) as error:
            self.fail(str(error) or type(error).__name__)
        else:
            self._open = True
            waiting, self._waiting = self._waiting, []
            if self._transport is not None:
                for chunks in waiting:
                    self._transport.writelines(chunks)

    async def _authenticate(self) -> None:
        handshake_body = sasl_handshake.encode_request(
            sasl_handshake.SaslHandshakeRequest(MECHANISM), 1
        )
        buffer = await self._ask(sasl_handshake.KEY, 1, handshake_body)
        chosen = sasl_handshake.decode_response(
            buffer, response_body(buffer, sasl_handshake.KEY, 1), 1
        )
        if chosen.error_code:
            raise from_code(chosen.error_code, f"offered: {', '.join(chosen.mechanisms)}")
        proof = self._handshake.on_challenge(await self._step(self._handshake.nonce))
        await self._step(proof)

    async def _step(self, data: bytes) -> bytes:
        body = sasl_authenticate.encode_request(sasl_authenticate.SaslAuthenticateRequest(data), 2)
        buffer = await self._ask(sasl_authenticate.KEY, 2, body)
        answer = sasl_authenticate.decode_response(
            buffer, response_body(buffer, sasl_authenticate.KEY, 2), 2
        )
        if answer.error_code:
            raise from_code(answer.error_code, answer.error_message or "")
        return answer.auth_bytes

    async def _ask(self, api_key: int, version: int, body: Chunks) -> memoryview:
        future: asyncio.Future[memoryview | None] = self._loop.create_future()

        def on_answer(buffer: memoryview | None) -> None:
            if not future.done():
                future.set_result(buffer)

        chunks = self._request(api_key, version, body, CONNECT_SECONDS_MAX, on_answer)
        if self._transport is not None:
            self._transport.writelines(chunks)
        answer = await future
        if answer is None:
            raise SaslAuthenticationFailed("the connection broke during authentication")
        return answer

    def fail(self, reason: str, *, quiet: bool = False) -> None:
        """Break the connection and answer everything on it with None, on the next loop turn."""
        if self.broken:
            return
        self.broken = True
        self._connecting.cancel()
        if not quiet:
            self._report(f"broker {self._leader} at {self.endpoint}: {reason}")
        if self._transport is not None:
            self._transport.abort()
        answers, self._answers = self._answers, {}
        if self._overdue is not None:
            self._overdue.cancel()
        for on_answer, _ in answers.values():
            self._loop.call_soon(on_answer, None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        # uvloop would write only when all that came together has been handled.
        self._transport.set_write_buffer_limits(0)
        if self.broken:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        # A leader closes what was idle: nothing was lost.
        idle = exc is None and self._open and not self._answers
        self.fail(f"connection lost{f': {exc}' if exc else ''}", quiet=idle)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._cutter.free_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for buffer in self._cutter.received(nbytes):
                waiting = self._answers.pop(correlation_of(buffer), None)
                if waiting is not None:
                    waiting[0](buffer)
        except PylogError as fault:
            self.fail(str(fault))
