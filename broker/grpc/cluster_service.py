"""The Cluster service of the controller: brokers' claims, sessions, metadata, ISR changes.

Every call carries a proof of the cluster's secret (`broker/net/cluster_proof.py`). A call's request
goes to the controller as it comes; messages that the controller sends of its own accord (`tell`,
`reject`, `published`) go out on open streams.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from pylog import errors
from pylog.clock import Clock
from pylog.model import BrokerEpoch, BrokerId, Offset
from pylog.rpc.v1 import cluster_pb2, cluster_pb2_grpc
from pylog_broker.api.admin import Ask
from pylog_broker.controller.controller import Controller
from pylog_broker.controller.effects import Effect, RejectSession, TellSession
from pylog_broker.grpc.guard import Context
from pylog_broker.metadata import codec
from pylog_broker.metadata.messages import Failure, MetadataBatch
from pylog_broker.metadata.record_codec import encode_record
from pylog_broker.net.cluster_proof import METADATA_KEY, NONCE_BYTES, ClusterSessions

STREAM_QUEUE_MAX: Final = 100
"""Messages that a session stream has not taken; a broker that is so far behind reconnects."""

RECORDS_AT_ONCE: Final = 1_000
"""A record of a partition takes some 10 us to encode; others want the loop meanwhile."""


async def _encoded(batch: MetadataBatch) -> cluster_pb2.MetadataBatch:
    """The message, made in slices."""
    records = batch.records
    message = codec.encode_batch(replace(batch, records=records[:RECORDS_AT_ONCE]))
    for begin in range(RECORDS_AT_ONCE, len(records), RECORDS_AT_ONCE):
        await asyncio.sleep(0)
        message.records.extend(map(encode_record, records[begin : begin + RECORDS_AT_ONCE]))
    return message


class _Stream:
    """One open session stream."""

    def __init__(self) -> None:
        self.out: asyncio.Queue[cluster_pb2.SessionResponse | Failure | None]
        self.out = asyncio.Queue(STREAM_QUEUE_MAX)

    def put(self, item: cluster_pb2.SessionResponse | Failure | None) -> None:
        if self.out.full():
            self.out.get_nowait()  # each message states all there is to know: the last one counts
        self.out.put_nowait(item)


class ClusterService(cluster_pb2_grpc.ClusterServicer):
    """Lives on the controller's loop."""

    def __init__(
        self,
        controller: Controller,
        ask: Ask,
        perform: Callable[[Sequence[Effect]], None],
        clock: Clock,
        secret: bytes,
    ) -> None:
        self._controller = controller
        self._ask = ask
        self._perform = perform
        self._clock = clock
        self._sessions = ClusterSessions(secret, secrets.token_bytes(NONCE_BYTES))
        self._streams: dict[tuple[BrokerId, BrokerEpoch], list[_Stream]] = {}
        self._news: set[asyncio.Event] = set()

    @property
    def open_sessions(self) -> int:
        """The number of open session streams."""
        return sum(map(len, self._streams.values()))

    def _check(self, context: Context, method: str) -> None:
        """Raises ClusterAuthorizationFailed for a call that proves nothing."""
        metadata: Any = context.invocation_metadata() or ()
        said = next((str(value) for key, value in metadata if key == METADATA_KEY), "")
        self._sessions.check(method, said)

    async def Authenticate(
        self, request: cluster_pb2.AuthenticateRequest, context: Context
    ) -> cluster_pb2.AuthenticateResponse:
        """One of two steps."""
        now_ms = self._clock.monotonic_ms()
        if request.proof:
            self._sessions.begin(now_ms, request.client_nonce, request.server_nonce, request.proof)
            return cluster_pb2.AuthenticateResponse()
        server_nonce, proof = self._sessions.challenge(now_ms, request.client_nonce)
        return cluster_pb2.AuthenticateResponse(server_nonce=server_nonce, proof=proof)

    # ---- what the controller says of its own accord ----------------------------------------------

    def tell(self, effect: TellSession) -> None:
        """Send the broker its state."""
        response = cluster_pb2.SessionResponse(
            fenced=effect.fenced,
            should_stop=effect.should_stop,
            controller_epoch=effect.controller_epoch,
        )
        for stream in self._streams.get((effect.broker_id, effect.broker_epoch), ()):
            stream.put(response)

    def reject(self, effect: RejectSession) -> None:
        """End the broker's streams with a failure."""
        for stream in self._streams.get((effect.broker_id, effect.broker_epoch), ()):
            stream.put(effect.failure)

    def published(self) -> None:
        """Records were committed: wake the streams that watch."""
        for event in self._news:
            event.set()

    # ---- streams ---------------------------------------------------------------------------------

    async def Session(
        self, requests: AsyncIterator[cluster_pb2.SessionRequest], context: Context
    ) -> None:
        """A broker's life line; the first message says whose it is."""
        self._check(context, "Session")
        first = await anext(requests, None)
        if first is None:
            return
        broker, epoch = BrokerId(first.broker_id), BrokerEpoch(first.broker_epoch)
        stream = _Stream()
        self._streams.setdefault((broker, epoch), []).append(stream)
        now_ms = self._clock.monotonic_ms
        self._perform(
            self._controller.session_opened(now_ms(), broker, epoch, first.incarnation_id)
        )
        reader = asyncio.ensure_future(self._read_session(first, requests, stream))
        try:
            while (item := await stream.out.get()) is not None:
                if isinstance(item, Failure):
                    raise errors.from_code(item.code, item.message)
                await context.write(item)
            await reader
        finally:
            reader.cancel()
            streams = self._streams[broker, epoch]
            streams.remove(stream)
            if not streams:
                del self._streams[broker, epoch]
            self._perform(self._controller.session_broken(now_ms(), broker, epoch))

    async def _read_session(
        self,
        first: cluster_pb2.SessionRequest,
        requests: AsyncIterator[cluster_pb2.SessionRequest],
        stream: _Stream,
    ) -> None:
        request: cluster_pb2.SessionRequest | None = first
        try:
            while request is not None:
                self._perform(
                    self._controller.session_progress(
                        self._clock.monotonic_ms(),
                        BrokerId(request.broker_id),
                        BrokerEpoch(request.broker_epoch),
                        Offset(request.metadata_offset),
                        request.want_unfence,
                    )
                )
                request = await anext(requests, None)
        finally:
            stream.put(None)

    async def WatchMetadata(
        self, request: cluster_pb2.WatchMetadataRequest, context: Context
    ) -> None:
        """Committed metadata from an offset on, as it comes."""
        self._check(context, "WatchMetadata")
        news = asyncio.Event()
        self._news.add(news)
        offset = Offset(request.from_offset)
        try:
            while True:
                news.clear()
                for batch in self._controller.batches_since(offset):
                    await context.write(await _encoded(batch))
                    covered = 1 if batch.snapshot else len(batch.records)
                    offset = Offset(batch.first_offset + covered)
                await news.wait()
        finally:
            self._news.discard(news)

    # ---- calls -----------------------------------------------------------------------------------

    async def ClaimBroker(
        self, request: cluster_pb2.ClaimBrokerRequest, context: Context
    ) -> cluster_pb2.ClaimBrokerResponse:
        """Answer which broker the process shall be."""
        self._check(context, "ClaimBroker")
        claim = codec.decode_claim(request)
        answer = await self._ask(
            lambda now, token: self._controller.claim_broker(now, claim, token)
        )
        return codec.encode_claimed(answer)

    async def RegisterBroker(
        self, request: cluster_pb2.RegisterBrokerRequest, context: Context
    ) -> cluster_pb2.RegisterBrokerResponse:
        """A new incarnation."""
        self._check(context, "RegisterBroker")
        wanted = codec.decode_registration(request)
        answer = await self._ask(
            lambda now, token: self._controller.register_broker(now, wanted, token)
        )
        return codec.encode_registered(answer)

    async def Heartbeat(
        self, request: cluster_pb2.HeartbeatRequest, context: Context
    ) -> cluster_pb2.HeartbeatResponse:
        """The lease."""
        self._check(context, "Heartbeat")
        broker, epoch = BrokerId(request.broker_id), BrokerEpoch(request.broker_epoch)
        answer = await self._ask(
            lambda now, token: self._controller.heartbeat(now, broker, epoch, token)
        )
        return codec.encode_heartbeat(answer)

    async def AlterPartition(
        self, request: cluster_pb2.AlterPartitionRequest, context: Context
    ) -> cluster_pb2.AlterPartitionResponse:
        """ISR changes."""
        self._check(context, "AlterPartition")
        wanted = codec.decode_alter(request)
        answer = await self._ask(
            lambda now, token: self._controller.alter_partition(now, wanted, token)
        )
        return codec.encode_altered(answer)

    async def ReplicasFailed(
        self, request: cluster_pb2.ReplicasFailedRequest, context: Context
    ) -> cluster_pb2.ReplicasFailedResponse:
        """Failed logs of a broker."""
        self._check(context, "ReplicasFailed")
        report = codec.decode_replicas_failed(request)
        answer = await self._ask(
            lambda now, token: self._controller.replicas_failed(now, report, token)
        )
        return codec.encode_failures_noted(answer)

    async def AllocateProducerIds(
        self, request: cluster_pb2.AllocateProducerIdsRequest, context: Context
    ) -> cluster_pb2.AllocateProducerIdsResponse:
        """A block of producer ids."""
        self._check(context, "AllocateProducerIds")
        broker, epoch = BrokerId(request.broker_id), BrokerEpoch(request.broker_epoch)
        answer = await self._ask(
            lambda now, token: self._controller.allocate_producer_ids(now, broker, epoch, token)
        )
        return codec.encode_producer_ids(answer)

    async def EnsureInternalTopic(
        self, request: cluster_pb2.EnsureInternalTopicRequest, context: Context
    ) -> cluster_pb2.EnsureInternalTopicResponse:
        """An internal topic for a coordinator."""
        self._check(context, "EnsureInternalTopic")
        wanted = codec.decode_ensure(request)
        answer = await self._ask(
            lambda now, token: self._controller.ensure_internal_topic(now, wanted, token)
        )
        return codec.encode_ensured(answer)

    async def CreateStreamsTopics(
        self, request: cluster_pb2.CreateStreamsTopicsRequest, context: Context
    ) -> cluster_pb2.CreateStreamsTopicsResponse:
        """Internal topics of a streams group."""
        self._check(context, "CreateStreamsTopics")
        wanted = codec.decode_streams_topics(request)
        answer = await self._ask(
            lambda now, token: self._controller.create_topics(now, wanted, token)
        )
        return codec.encode_streams_topics_created(answer)

    async def ControlledShutdown(
        self, request: cluster_pb2.ControlledShutdownRequest, context: Context
    ) -> cluster_pb2.ControlledShutdownResponse:
        """Move the broker's leaders away."""
        self._check(context, "ControlledShutdown")
        broker, epoch = BrokerId(request.broker_id), BrokerEpoch(request.broker_epoch)
        answer = await self._ask(
            lambda now, token: self._controller.controlled_shutdown(now, broker, epoch, token)
        )
        return codec.encode_shutdown(answer)
