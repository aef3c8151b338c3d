"""The listener for other brokers: framing, authentication first, then Fetch, epoch ends and calls.

One connection's requests are handled as they come and answered in order, but for calls
(`broker_apis`), each of which is answered when its answer is there. Nothing but ApiVersions
and the handshake is taken from a peer that has not proved itself, and only in small frames. Such
peers have a few places of their own, and the oldest gives way to who comes: so they take no place
from brokers, which prove themselves at once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, cast

from pylog.clock import Clock, ticks
from pylog.errors import (
    PylogError,
    SaslAuthenticationFailed,
    ThrottlingQuotaExceeded,
    UnsupportedVersion,
)
from pylog.rpc.framing import FrameCutter, FrameRefused, frame
from pylog_broker.api.calls import Calls
from pylog_broker.api.context import RequestContext, bounded_client_id
from pylog_broker.api.request_log import RequestTimes
from pylog_broker.kafka import follower_fetch
from pylog_broker.kafka.broker_apis import AnyBoundBrokerApi
from pylog_broker.kafka.generated import (
    api_versions,
    fetch,
    offset_for_leader_epoch,
    sasl_authenticate,
    sasl_handshake,
)
from pylog_broker.kafka.handshake import MECHANISM, NONCE_BYTES, ServerHandshake
from pylog_broker.kafka.headers import (
    OFFERED,
    RequestHeader,
    decode_request_header,
    encode_response_header,
)
from pylog_broker.kafka.translate import (
    IdOf,
    NameOf,
    ends_to_wire,
    fetch_from_wire,
    fetched_to_wire,
    query_from_wire,
)
from pylog_broker.kafka_primitives import Chunks, MalformedMessage
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.net.acceptor import Acceptor, Gate, Place
from pylog_broker.net.connection import Connection, Slot, take_ready
from pylog_broker.net.connections import IdleClose, Newcomers
from pylog_broker.net.quotas import ConnectionQuotas
from pylog_broker.net.shares import REPLICATION_MAX, UNPROVEN_MAX
from pylog_broker.replication.effects import Effect
from pylog_broker.replication.replica_fetch_messages import ReplicaFetched

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Requests of followers are small: 33 bytes a partition."""
FRAME_BYTES_BEFORE_AUTHENTICATION_MAX: Final = 4 * 1024
HANDSHAKE_SECONDS_MAX: Final = 5.0
"""A proof must be there when it is looked for a second time, after 5 to 10 seconds."""
LISTENER: Final = "replication"
UNPROVEN: Final = "replication, unproven"
BUFFER_BYTES_UNPROVEN: Final = 8 * 1024
PENDING_MAX: Final = 64
"""Requests of one connection that wait for their answer, calls among them; then its reading pauses.
"""

_HEADER: Final = Struct(">iB")
"""The header of an answer of `follower_fetch`: the correlation id, and no tags."""
_FETCHES: Final = OFFERED[fetch.KEY]
_OWN: Final = frozenset(
    module.KEY
    for module in (
        api_versions,
        fetch,
        offset_for_leader_epoch,
        sasl_authenticate,
        sasl_handshake,
    )
)
"""The APIs that are answered here."""

Perform = Callable[[Sequence[Effect]], None]


class ReplicationServer:
    """Followers' requests, handed to the replica manager. Lives on the broker's loop."""

    def __init__(
        self,
        manager: ReplicaManager,
        perform: Perform,
        clock: Clock,
        secret: bytes,
        *,
        name_of: NameOf,
        id_of: IdOf,
        report: Callable[[str], None],
        counters: RequestCounters,
        report_stranger: Callable[[str], None] | None = None,
        gate: Gate | None = None,
        connections_max: int = REPLICATION_MAX,
        unproven_max: int = UNPROVEN_MAX,
        idle_ms_max: int = -1,
    ) -> None:
        """`report`: a line about a broker. `report_stranger`: about any other peer; bounded by who
        takes it. `gate`: of all listeners of the process. `idle_ms_max`: -1: no limit.
        """
        self.manager = manager
        self.perform = perform
        self.clock = clock
        self.secret = secret
        self.name_of = name_of
        self.id_of = id_of
        self.report = report
        self.report_stranger = report_stranger or report
        self.counters = counters
        self.connections: set[_Connection] = set()
        self.unproven = Newcomers(HANDSHAKE_SECONDS_MAX, _proves_too_late)
        self.calls = Calls(counters)
        self.bound: Mapping[int, AnyBoundBrokerApi] = {}
        self._gate = gate or Gate(clock, report)
        self._gate.quotas.add_listener(LISTENER, connections_max)
        self._unproven_max = unproven_max
        self.idle = IdleClose(self.connections, idle_ms_max)
        """Closes those of brokers that follow nothing here any more."""
        self._acceptor: Acceptor | None = None

    def offer(self, bound: Iterable[AnyBoundBrokerApi]) -> None:
        """Answer these calls, too, from now on."""
        self.bound = {**self.bound, **{each.api.key: each for each in bound}}

    async def start(self, host: str, port: int) -> int:
        """Listen; gives the port. OSError when the address cannot be bound."""
        self._acceptor = Acceptor(
            self._gate,
            UNPROVEN,
            self._unproven_max,
            lambda place: _Connection(self, place),
            make_room=self.unproven.make_room,
            has_rate=False,
        )
        self.idle.start()
        self.unproven.start()
        return await self._acceptor.start(host, port)

    @property
    def quotas(self) -> ConnectionQuotas:
        """The quotas that count its connections."""
        return self._gate.quotas

    def count(self, fetched: ReplicaFetched) -> None:
        """Count the faults and the bytes of an answer to a follower."""
        counters = self.counters
        if fetched.failure is not None:
            counters.failed("FetchFollower", fetched.failure.code)
        for item in fetched.partitions:
            if item.failure is not None:
                counters.failed("FetchFollower", item.failure.code)
            else:
                counters.replication_bytes_out += len(item.records)

    async def close(self) -> None:
        """Stop listening and drop every connection; waiting fetches are forgotten."""
        self.idle.stop()
        self.unproven.stop()
        for connection in list(self.connections):
            connection.abort()
        if self._acceptor is not None:
            await self._acceptor.close()


class _Slot(Slot):
    """It is the manager's token for its request, too."""

    __slots__ = ("connection", "header", "timed")

    def __init__(self, connection: _Connection, header: RequestHeader) -> None:
        self.answer = None
        self.timed = RequestTimes()
        self.connection = connection
        self.header = header

    def __call__(self, fetched: ReplicaFetched) -> None:
        """Answer a Fetch."""
        server = self.connection.server
        answered = self.timed.count(server.counters, "FetchFollower")
        server.count(fetched)
        header = self.header
        version = header.api_version
        if version == follower_fetch.VERSION:
            body = follower_fetch.encode_response(fetched)
            self.answer = frame([_HEADER.pack(header.correlation_id, 0), *body])
            self.connection.flush()
        else:
            self.complete(fetch.encode_response(fetched_to_wire(fetched), version))
        server.counters.sent("FetchFollower", ticks() - answered)

    def complete(self, body: Chunks) -> None:
        """Answer with `body`."""
        header = self.header
        head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
        self.answer = frame([head, *body])
        self.connection.flush()


class _Connection(Connection):
    """One follower's connection."""

    def __init__(self, server: ReplicationServer, place: Place) -> None:
        super().__init__(
            place, FrameCutter(FRAME_BYTES_BEFORE_AUTHENTICATION_MAX, BUFFER_BYTES_UNPROVEN)
        )
        self.server = server
        self._handshake = ServerHandshake(server.secret, secrets.token_bytes(NONCE_BYTES))
        self._pending: deque[_Slot] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._is_known = False  # it has proved itself

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # uvloop would write only when all that came together has been handled.
        cast(asyncio.Transport, transport).set_write_buffer_limits(0)
        self.server.connections.add(self)
        self.server.unproven.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.server.connections.discard(self)
        self.server.unproven.discard(self)
        self.server.idle.forget(self)
        pending, self._pending = self._pending, deque()
        for slot in pending:
            if slot.answer is None:
                self.server.manager.cancel(slot)
        for call in self._calls:
            call.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is due to a broker that has proved itself."""
        return self._is_known and not self._pending and not self._calls

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes
        try:
            for body in self._cutter.received(nbytes):
                if self._transport is None or self._transport.is_closing():
                    return
                self._on_frame(body)
        except (FrameRefused, MalformedMessage, PylogError) as fault:
            self._refuse(fault)

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._regulate()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._regulate()

    def _regulate(self) -> None:
        """Read on only while answers can be given."""
        due = len(self._pending) + len(self._calls)
        self.hold_reading(self._writing_paused or due >= PENDING_MAX)

    def _refuse(self, fault: PylogError) -> None:
        report = self.server.report if self._is_known else self.server.report_stranger
        report(f"replication listener: closed {self.peer}: {fault}")
        if self._transport is not None:
            self._transport.close()

    def end_unproven(self) -> None:
        """End a connection that has not proved itself in time."""
        what = f"not authenticated within {HANDSHAKE_SECONDS_MAX:g} s"
        self._refuse(SaslAuthenticationFailed(what))

    def flush(self) -> None:
        """Send the answers that are next in order."""
        chunks = take_ready(self._pending)
        if chunks and self._transport is not None:
            self._transport.writelines(chunks)
        if self._reading_paused:
            self._regulate()

    def _on_frame(self, buffer: memoryview) -> None:
        header = decode_request_header(buffer)
        slot = _Slot(self, header)
        if self._is_known and header.api_key == fetch.KEY and header.api_version in _FETCHES:
            self._pending.append(slot)
            if len(self._pending) >= PENDING_MAX:
                self._regulate()
            self._on_fetch(buffer, slot)
            return
        bound = self.server.bound.get(header.api_key)
        is_offered = header.api_key in _OWN or bound is not None
        if not is_offered or header.api_version not in OFFERED[header.api_key]:
            if header.api_key != api_versions.KEY:
                raise UnsupportedVersion(
                    f"api key {header.api_key} version {header.api_version} is not offered here"
                )
            # KIP-511: an unknown version of this one is answered in the form of v0.
            self._pending.append(slot)
            slot.complete(self._offered(0, UnsupportedVersion.code))
            return
        if bound is not None and self._is_known:
            self._on_call(buffer, header, bound)
            return
        self._pending.append(slot)
        self._regulate()
        if header.api_key == api_versions.KEY:
            api_versions.decode_request(buffer, header.body, header.api_version)
            slot.complete(self._offered(header.api_version, 0))
        elif header.api_key == sasl_handshake.KEY:
            self._on_mechanism(buffer, slot)
        elif header.api_key == sasl_authenticate.KEY:
            self._on_authenticate(buffer, slot)
        elif not self._is_known:
            raise SaslAuthenticationFailed(
                f"api key {header.api_key} before authentication; this port is for brokers of "
                "this cluster, and Kafka's protocol is not served to clients yet"
            )
        else:
            self._on_epoch_query(buffer, slot)

    def _on_mechanism(self, buffer: memoryview, slot: _Slot) -> None:
        request = sasl_handshake.decode_request(buffer, slot.header.body, slot.header.api_version)
        response = sasl_handshake.SaslHandshakeResponse(mechanisms=[MECHANISM])
        fault: PylogError | None = None
        try:
            self._handshake.on_mechanism(request.mechanism)
        except PylogError as error:
            fault, response.error_code = error, error.code
        slot.complete(sasl_handshake.encode_response(response, slot.header.api_version))
        if fault:
            raise fault

    def _on_authenticate(self, buffer: memoryview, slot: _Slot) -> None:
        request = sasl_authenticate.decode_request(
            buffer, slot.header.body, slot.header.api_version
        )
        response = sasl_authenticate.SaslAuthenticateResponse()
        fault: PylogError | None = None
        try:
            response.auth_bytes = self._handshake.on_bytes(request.auth_bytes)
        except PylogError as error:
            fault, response.error_code, response.error_message = error, error.code, str(error)
        slot.complete(sasl_authenticate.encode_response(response, slot.header.api_version))
        if fault:
            raise fault
        if self._handshake.done:
            if self._place.listener is None or not self._place.move(LISTENER):
                raise ThrottlingQuotaExceeded("this broker takes no more brokers here")
            self._is_known = True
            self.server.unproven.discard(self)
            self._cutter.frame_bytes_max = FRAME_BYTES_MAX

    def _on_fetch(self, buffer: memoryview, slot: _Slot) -> None:
        version, body = slot.header.api_version, slot.header.body
        if version == follower_fetch.VERSION:
            request = follower_fetch.decode_request(buffer, body)
        else:
            request = fetch_from_wire(fetch.decode_request(buffer, body, version))
        server = self.server
        effects = server.manager.replica_fetch(server.clock.monotonic_ms(), request, slot)
        slot.timed.handed_over = ticks()
        server.perform(effects)

    def _on_epoch_query(self, buffer: memoryview, slot: _Slot) -> None:
        version = slot.header.api_version
        message = offset_for_leader_epoch.decode_request(buffer, slot.header.body, version)
        ends = self.server.manager.epoch_ends(query_from_wire(message, self.server.id_of))
        answer = ends_to_wire(ends, self.server.name_of)
        slot.complete(offset_for_leader_epoch.encode_response(answer, version))

    def _offered(self, version: int, error_code: int) -> Chunks:
        response = api_versions.ApiVersionsResponse(
            error_code=error_code,
            api_keys=[
                api_versions.ApiVersion(key, versions[0], versions[-1])
                for key, versions in sorted(OFFERED.items())
                if key in _OWN or key in self.server.bound
            ],
        )
        return api_versions.encode_response(response, version)

    # ---- calls ---------------------------------------------------------------------------------

    def _on_call(self, buffer: memoryview, header: RequestHeader, bound: AnyBoundBrokerApi) -> None:
        # Read whole before the buffer is filled anew.
        request = bound.api.decode_request(buffer, header.body, header.api_version)
        call = asyncio.get_running_loop().create_task(self._answer(header, bound, request))
        self._calls.add(call)
        call.add_done_callback(partial(self._on_answered, bound.api.counted_as))
        self._regulate()

    async def _answer(
        self, header: RequestHeader, bound: AnyBoundBrokerApi, request: object
    ) -> None:
        host = self.peer.rpartition(":")[0]
        context = RequestContext(
            LISTENER, host, self.peer, bounded_client_id(header.client_id or "")
        )
        try:
            response = await self.server.calls.make(
                bound.api.counted_as, context, bound.handle, request
            )
        except PylogError as fault:
            response = bound.refused(request, fault)
        if self._transport is not None:
            key, version = header.api_key, header.api_version
            head = encode_response_header(key, version, header.correlation_id)
            body = bound.api.encode_response(response, version)
            self._transport.writelines(frame([head, *body]))

    def _on_answered(self, counted_as: str, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if not call.cancelled() and (error := call.exception()) is not None:
            self.server.report(f"replication listener: {counted_as} of {self.peer}: {error!r}")
            self.abort()
        if self._reading_paused:
            self._regulate()


def _proves_too_late(connection: _Connection) -> None:
    connection.end_unproven()
