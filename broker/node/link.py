"""The broker's line to the controller: calls, and the two streams. Carries; decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

import grpc
import grpc.aio

from pylog import errors
from pylog.model import BrokerEpoch, BrokerId, Offset
from pylog.rpc.channel import ERROR_CODE_KEY, aio_channel, sync_channel
from pylog.rpc.v1 import cluster_pb2, cluster_pb2_grpc
from pylog_broker.metadata import codec
from pylog_broker.metadata.admin import CreateTopics, TopicsCreated
from pylog_broker.metadata.messages import (
    AlterPartition,
    BrokerClaim,
    BrokerRegistered,
    ClaimBroker,
    EnsureInternalTopic,
    Failure,
    FailuresNoted,
    InternalTopicEnsured,
    MetadataBatch,
    PartitionsAltered,
    ProducerIdBlock,
    RegisterBroker,
    ReplicasFailed,
    ShutdownPermitted,
)
from pylog_broker.net.cluster_proof import BrokerSession
from pylog_broker.node.link_session import Handshake

CALL_SECONDS_MAX: Final = 10.0


def fault_of(target: str, error: grpc.RpcError) -> errors.PylogError:
    """The error of a failed call: the one that the controller named, or that it is unreachable."""
    metadata: Any = error.trailing_metadata() if isinstance(error, grpc.Call) else None
    if isinstance(error, grpc.aio.AioRpcError):
        metadata = error.trailing_metadata()
    details = str(getattr(error, "details", lambda: error)())
    for key, value in metadata or ():
        if key == ERROR_CODE_KEY:
            return errors.from_code(int(value), details)
    return errors.BrokerUnreachable(f"controller at {target}: {details}")


class ControllerLink:
    """One channel to the controller. Every method raises errors.PylogError when the call fails."""

    def __init__(self, target: str, secret: bytes) -> None:
        self.target = target
        self._secret = secret
        self._session: BrokerSession | None = None
        self._beginning = asyncio.Lock()  # calls that come together begin one session
        self._channel = aio_channel(target)
        self._stub: Any = cluster_pb2_grpc.ClusterStub(self._channel)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Drop the channel and what runs on it."""
        await self._channel.close(None)

    async def _begin(self, seconds: float | None) -> BrokerSession:
        """A session of its own; `seconds` None: as long as the controller cannot be reached."""
        handshake = Handshake(self._secret)
        authenticate = self._stub.Authenticate
        try:
            answer = await authenticate(handshake.first, timeout=seconds, wait_for_ready=True)
            second = handshake.second(answer)
            await authenticate(second, timeout=CALL_SECONDS_MAX, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise fault_of(self.target, error) from None
        return handshake.session

    async def _call(self, name: str, request: Any, seconds: float = CALL_SECONDS_MAX) -> Any:
        """A controller that has started again does not know its predecessor's sessions: then the
        call, which it has not looked at, is made once more in a new one.
        """
        for last in (False, True):
            async with self._beginning:
                session = self._session
                if session is None:
                    session = self._session = await self._begin(seconds)
            try:
                return await getattr(self._stub, name)(
                    request, metadata=session.metadata(name), timeout=seconds, wait_for_ready=True
                )
            except grpc.aio.AioRpcError as error:
                fault = fault_of(self.target, error)
                if last or not isinstance(fault, errors.ClusterAuthorizationFailed):
                    raise fault from None
                if self._session is session:
                    self._session = None
        raise AssertionError

    async def claim(self, request: ClaimBroker, seconds: float) -> BrokerClaim | Failure:
        """The broker that this process shall be."""
        answer = await self._call("ClaimBroker", codec.encode_claim(request), seconds)
        return codec.decode_claimed(answer)

    async def register(self, request: RegisterBroker) -> BrokerRegistered | Failure:
        """The epoch of this incarnation."""
        answer = await self._call("RegisterBroker", codec.encode_registration(request))
        return codec.decode_registered(answer)

    async def alter_partition(self, request: AlterPartition) -> PartitionsAltered:
        """ISR changes."""
        answer = await self._call("AlterPartition", codec.encode_alter(request))
        return codec.decode_altered(answer)

    async def replicas_failed(self, request: ReplicasFailed) -> FailuresNoted | Failure:
        """Failed logs of this broker."""
        answer = await self._call("ReplicasFailed", codec.encode_replicas_failed(request))
        return codec.decode_failures_noted(answer)

    async def allocate_producer_ids(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch
    ) -> ProducerIdBlock | Failure:
        """A block of producer ids that nobody else has."""
        request = cluster_pb2.AllocateProducerIdsRequest(
            broker_id=broker_id, broker_epoch=broker_epoch
        )
        answer = await self._call("AllocateProducerIds", request)
        return codec.decode_producer_ids(answer)

    async def ensure_internal_topic(
        self, request: EnsureInternalTopic
    ) -> InternalTopicEnsured | Failure:
        """An internal topic is made, if it is not there."""
        answer = await self._call("EnsureInternalTopic", codec.encode_ensure(request))
        return codec.decode_ensured(answer)

    async def create_streams_topics(self, request: CreateTopics) -> TopicsCreated:
        """Internal topics of a streams group are made."""
        answer = await self._call("CreateStreamsTopics", codec.encode_streams_topics(request))
        return codec.decode_streams_topics_created(answer)

    async def controlled_shutdown(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, seconds: float
    ) -> ShutdownPermitted | Failure:
        """Answered when this broker leads nothing any more."""
        request = cluster_pb2.ControlledShutdownRequest(
            broker_id=broker_id, broker_epoch=broker_epoch
        )
        answer = await self._call("ControlledShutdown", request, seconds)
        return codec.decode_shutdown(answer)

    async def session(
        self, requests: AsyncIterator[cluster_pb2.SessionRequest]
    ) -> AsyncGenerator[cluster_pb2.SessionResponse, None]:
        """The controller's words, while `requests` go the other way; ends by raising."""
        session = await self._begin(None)
        metadata = session.metadata("Session")
        call = self._stub.Session(requests, metadata=metadata, wait_for_ready=True)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise fault_of(self.target, error) from None
        finally:
            call.cancel()
        raise errors.BrokerUnreachable(f"controller at {self.target} ended the session")

    async def watch_metadata(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, from_offset: Offset
    ) -> AsyncGenerator[MetadataBatch, None]:
        """Committed metadata from an offset on; ends by raising."""
        request = cluster_pb2.WatchMetadataRequest(
            broker_id=broker_id, broker_epoch=broker_epoch, from_offset=from_offset
        )
        session = await self._begin(None)
        metadata = session.metadata("WatchMetadata")
        call = self._stub.WatchMetadata(request, metadata=metadata, wait_for_ready=True)
        try:
            async for message in call:
                yield codec.decode_batch(message)
        except grpc.aio.AioRpcError as error:
            raise fault_of(self.target, error) from None
        finally:
            call.cancel()
        raise errors.BrokerUnreachable(f"controller at {self.target} ended the metadata stream")


class LeaseLine:
    """The lease thread's own blocking channel."""

    def __init__(self, target: str, secret: bytes) -> None:
        self._secret = secret
        self._session: BrokerSession | None = None
        self._channel = sync_channel(target)
        self._stub: Any = cluster_pb2_grpc.ClusterStub(self._channel)  # type: ignore[no-untyped-call]

    def renew(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, seconds: float) -> None:
        """One heartbeat; ConnectionError when it did not arrive.

        The controller's answer matters to the session, not here.
        """
        request = cluster_pb2.HeartbeatRequest(broker_id=broker_id, broker_epoch=broker_epoch)
        session = self._session
        for new in (session is None, True):
            try:
                if session is None:
                    session = self._begin(seconds)
                metadata = session.metadata("Heartbeat")
                self._stub.Heartbeat(request, metadata=metadata, timeout=seconds)
            except (grpc.RpcError, errors.PylogError) as error:
                session = None  # a controller that has started again does not know it
                if new:
                    raise ConnectionError(str(error)) from None
            else:
                return
            finally:
                self._session = session

    def _begin(self, seconds: float) -> BrokerSession:
        handshake = Handshake(self._secret)
        answer = self._stub.Authenticate(handshake.first, timeout=seconds)
        self._stub.Authenticate(handshake.second(answer), timeout=seconds)
        return handshake.session

    def close(self) -> None:
        """Drop the channel."""
        self._channel.close()


class Backoff:
    """Waits between attempts: doubling from `first` to `last` seconds."""

    def __init__(self, first: float, last: float) -> None:
        self._first = first
        self._last = last
        self._next = first

    def reset(self) -> None:
        """The attempt worked."""
        self._next = self._first

    async def wait(self) -> None:
        """Wait for the next attempt."""
        seconds, self._next = self._next, min(self._last, self._next * 2)
        await asyncio.sleep(seconds)
