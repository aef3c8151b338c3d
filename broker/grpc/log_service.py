"""The Log service of a broker: what producers and consumers call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import grpc

from pylog import errors
from pylog.clock import Clock
from pylog.model import BrokerId, LeaderEpoch, ProducerId
from pylog.rpc.produce_wire import requests_of
from pylog.rpc.v1 import log_pb2, log_pb2_grpc
from pylog_broker.clients.answer_memory import SMALL_BYTES
from pylog_broker.clients.producer_id_quota import ProducerIdQuota, address_of
from pylog_broker.clients.requests import (
    PRODUCE_PIPELINE_MAX,
    ClientRequests,
    Perform,
    Unheard,
    bound,
)
from pylog_broker.clients.wire import error_of, fetched
from pylog_broker.grpc import wire
from pylog_broker.grpc.answering import Call
from pylog_broker.grpc.guard import Context, refuse, told
from pylog_broker.grpc.metadata_view import metadata_response
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import Endpoint
from pylog_broker.replication.messages import (
    EpochEndQuery,
    OffsetAnswer,
    PartitionData,
    ReplicaEpochQuery,
)

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

CONSUMER: Final = BrokerId(-1)
SERVICE: Final = "pylog.v1.Log"


class LogService(log_pb2_grpc.LogServicer):
    """Requests of clients, handed to the replica manager in the order of their arrival. Lives on
    the broker's loop.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        perform: Perform,
        clock: Clock,
        requests: ClientRequests,
        *,
        image: Callable[[], MetadataImage],
        controller: Callable[[], Endpoint | None],
        take_producer_id: Callable[[], Any],
        producer_id_quota: ProducerIdQuota,
        report: Callable[[str], None],
    ) -> None:
        """`report`: a line about a stream that was ended; bounded by who takes it."""
        self._manager = manager
        self._perform = perform
        self._clock = clock
        self._requests = requests
        self._image = image
        self._controller = controller
        self._take_producer_id = take_producer_id
        self._producer_id_quota = producer_id_quota
        self._answers = requests.answers
        self._report = report

    # ---- metadata ------------------------------------------------------------------------------

    async def Metadata(
        self, request: log_pb2.MetadataRequest, context: Context
    ) -> log_pb2.MetadataResponse:
        """What leads where, as far as this broker has heard."""
        return metadata_response(self._image(), request, self._controller())

    # ---- produce -------------------------------------------------------------------------------

    async def _produce(
        self, message: log_pb2.ProduceRequest, unheard: Unheard
    ) -> asyncio.Future[log_pb2.ProduceResponse]:
        """Hand a message's requests over, now or when their compressed batches are checked; the
        future gets the answer, `unheard` what no answer tells.
        """
        answer: asyncio.Future[log_pb2.ProduceResponse]
        answer = asyncio.get_running_loop().create_future()

        def done(response: bytes) -> None:
            if not answer.done():
                answer.set_result(log_pb2.ProduceResponse.FromString(response))

        checking = self._requests.produce(requests_of(message), done, unheard)
        if checking is not None:
            await checking
        return answer

    async def Produce(
        self, request: log_pb2.ProduceRequest, context: Context
    ) -> log_pb2.ProduceResponse:
        """One request; for acks=0 an answer without acks, or the batch's error."""
        faults: list[errors.PylogError] = []
        answer = await (await self._produce(request, faults.append))
        if faults:
            await refuse(context, faults[0])
        return answer

    async def ProduceStream(
        self, requests: AsyncIterator[log_pb2.ProduceRequest], context: Context
    ) -> None:
        """Requests are appended as they come, a message at a time; answers keep their order, and a
        message of which nobody wants acks gets none: a batch in it that is refused ends the stream.

        One that is being checked in the pool holds back those behind it in its own stream only.
        """
        answers: asyncio.Queue[asyncio.Future[log_pb2.ProduceResponse] | None]
        answers = asyncio.Queue(PRODUCE_PIPELINE_MAX)
        faults: list[errors.PylogError] = []

        async def read() -> None:
            try:
                async for message in requests:
                    answer = await self._produce(message, faults.append)
                    if faults:
                        return
                    if message.acks != 0 or any(r.acks != 0 for r in message.following):
                        await answers.put(answer)
            finally:
                await answers.put(None)

        reader = asyncio.ensure_future(read())
        try:
            while (answer := await answers.get()) is not None:
                await context.write(await answer)
            await reader
        finally:
            reader.cancel()
        if faults:
            self._report(f"produce stream: closed {context.peer()}: {told(faults[0])}")
            await refuse(context, faults[0])

    # ---- fetch ---------------------------------------------------------------------------------

    async def _find(self, request: log_pb2.FetchRequest) -> Sequence[PartitionData]:
        future: asyncio.Future[Sequence[PartitionData]]
        future = asyncio.get_running_loop().create_future()

        def done(partitions: Sequence[PartitionData]) -> None:
            if not future.done():
                future.set_result(partitions)

        token = self._requests.fetch(request, done)
        try:
            return await future
        finally:
            if future.cancelled():
                self._requests.cancel(token)

    async def _fetch(self, request: log_pb2.FetchRequest, call: Call) -> bytes:
        """One long poll. What does not fit among the answers that others have not taken is looked
        for again when it may.
        """
        while True:
            await call.room()
            partitions = await self._find(request)
            if self._answers.fits(sum(len(item.records) for item in partitions)):
                return b"".join(fetched(request.correlation, partitions))
            call.must_wait = True

    async def Fetch(self, request: log_pb2.FetchRequest, context: Context) -> bytes:
        """One long poll; a client that hangs up frees its place. Gives a FetchResponse's bytes."""
        call = Call(self._answers)
        try:
            answer = await self._fetch(request, call)
        except BaseException:
            call.over()
            raise
        if len(answer) > SMALL_BYTES:
            call.holds(len(answer))
            context.add_done_callback(cast(Any, call.on_done))
        return answer

    async def FetchStream(
        self, requests: AsyncIterator[log_pb2.FetchRequest], context: Context
    ) -> None:
        """One long poll after the other."""
        call = Call(self._answers)
        try:
            async for request in requests:
                answer = await self._fetch(request, call)
                await call.give(answer, context)
        finally:
            call.over()

    # ---- offsets -------------------------------------------------------------------------------

    async def ListOffsets(
        self, request: log_pb2.ListOffsetsRequest, context: Context
    ) -> log_pb2.ListOffsetsResponse:
        """Offsets by time."""
        bound(len(request.partitions))
        queries = wire.queries_from(request)
        twice = _named_twice(query.topic_partition for query in queries)
        answers = [
            OffsetAnswer(query.topic_partition, twice)
            if twice
            else self._manager.list_offsets(query)
            for query in queries
        ]
        self._perform(self._manager.take_effects())
        return log_pb2.ListOffsetsResponse(partitions=map(wire.offset_answer, answers))

    async def DeleteRecords(
        self, request: log_pb2.DeleteRecordsRequest, context: Context
    ) -> log_pb2.DeleteRecordsResponse:
        """New log start offsets."""
        bound(len(request.partitions))
        future: asyncio.Future[log_pb2.DeleteRecordsResponse]
        future = asyncio.get_running_loop().create_future()

        def done(watermarks: Sequence[Any]) -> None:
            if not future.done():
                future.set_result(wire.low_watermarks(watermarks))

        now_ms = self._clock.monotonic_ms()
        self._perform(self._manager.delete_records(now_ms, wire.cuts_from(request), done))
        try:
            return await future
        finally:
            if future.cancelled():
                self._manager.cancel(done)

    async def OffsetForLeaderEpoch(
        self, request: log_pb2.OffsetForLeaderEpochRequest, context: Context
    ) -> log_pb2.OffsetForLeaderEpochResponse:
        """Where leader epochs end."""
        bound(len(request.partitions))
        twice = _named_twice((item.topic, item.partition) for item in request.partitions)
        return log_pb2.OffsetForLeaderEpochResponse(
            partitions=[self._epoch_end(item, twice) for item in request.partitions]
        )

    def _epoch_end(
        self, item: log_pb2.PartitionEpoch, fault: Failure | None
    ) -> log_pb2.PartitionEpochEnd:
        topic = self._image().topics_by_name.get(item.topic)
        answer = log_pb2.PartitionEpochEnd(
            error=error_of(fault),
            topic=item.topic,
            partition=item.partition,
            leader_epoch=-1,
            end_offset=-1,
        )
        if fault is not None:
            return answer
        if topic is None:
            answer.error.code = errors.UnknownTopicOrPartition.code
            answer.error.message = f"topic {item.topic} does not exist"
            return answer
        query = ReplicaEpochQuery(
            topic.topic_id,
            item.partition,
            LeaderEpoch(item.current_leader_epoch),
            LeaderEpoch(item.leader_epoch),
        )
        for end in self._manager.epoch_ends(EpochEndQuery(CONSUMER, (query,))).ends:
            answer.leader_epoch = end.leader_epoch
            answer.end_offset = end.end_offset
            if end.failure:
                answer.error.code = end.failure.code
                answer.error.message = end.failure.message
        return answer

    # ---- producer ids --------------------------------------------------------------------------

    async def InitProducerId(
        self, request: log_pb2.InitProducerIdRequest, context: Context
    ) -> log_pb2.InitProducerIdResponse:
        """A fresh producer id, epoch 0."""
        if request.transactional_id:
            error: errors.PylogError = errors.NotOffered(
                "transactions are not offered yet: leave transactional_id out"
            )
            return _no_producer_id(error)
        try:
            self._producer_id_quota.admit(
                self._clock.monotonic_ms(),
                address_of(context.peer()),
                request.client_id,
                request.delivery_timeout_ms,
            )
            producer_id: ProducerId = await self._take_producer_id()
        except errors.PylogError as fault:
            return _no_producer_id(fault)
        return log_pb2.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


class _Handlers:
    """Takes the generated code's handlers, in place of a server."""

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, _handlers: Any) -> None:
        """They come by name, too."""

    def add_registered_method_handlers(self, _service: str, handlers: dict[str, Any]) -> None:
        self.by_name.update(handlers)


def add_log_service(service: LogService, server: Any) -> None:
    """Have the server offer the service. Fetches give their message's bytes themselves, so that
    protobuf copies no batches.
    """
    handlers = _Handlers()
    log_pb2_grpc.add_LogServicer_to_server(service, handlers)  # type: ignore[no-untyped-call]
    parse = log_pb2.FetchRequest.FromString
    handlers.by_name["Fetch"] = grpc.unary_unary_rpc_method_handler(service.Fetch, parse)
    stream = grpc.stream_stream_rpc_method_handler(service.FetchStream, parse)
    handlers.by_name["FetchStream"] = stream
    generic = grpc.method_handlers_generic_handler(SERVICE, handlers.by_name)
    server.add_generic_rpc_handlers((generic,))
    server.add_registered_method_handlers(SERVICE, handlers.by_name)


def _no_producer_id(fault: errors.PylogError) -> log_pb2.InitProducerIdResponse:
    wait_ms = fault.throttle_time_ms if isinstance(fault, errors.ThrottlingQuotaExceeded) else 0
    return log_pb2.InitProducerIdResponse(
        error=error_of(Failure(fault.code, str(fault))),
        producer_id=-1,
        producer_epoch=-1,
        throttle_time_ms=wait_ms,
    )


def _named_twice(partitions: Iterable[tuple[str, int]]) -> Failure | None:
    """Why a request is refused that names a partition more than once; None when none does."""
    seen: set[tuple[str, int]] = set()
    for name in partitions:
        if name in seen:
            return Failure(
                errors.InvalidRequest.code,
                f"{name[0]}-{name[1]} stands in the request more than once",
            )
        seen.add(name)
    return None


class GatewayLog(log_pb2_grpc.LogServicer):
    """The gateway's part of the Log service: metadata only."""

    def __init__(
        self, image: Callable[[], MetadataImage], controller: Callable[[], Endpoint | None]
    ) -> None:
        self._image = image
        self._controller = controller

    async def Metadata(
        self, request: log_pb2.MetadataRequest, context: Context
    ) -> log_pb2.MetadataResponse:
        """What leads where, as committed."""
        response = metadata_response(self._image(), request, self._controller())
        response.gateway = True
        return response

    async def _elsewhere(self, request: Any, context: Context) -> None:
        raise errors.NotOffered(
            "this is the gateway, which serves metadata and administration; send this call to the "
            "broker that its metadata names, or connect to it through here (client.routing=gateway)"
        )

    ProduceStream = Produce = FetchStream = Fetch = _elsewhere
    ListOffsets = InitProducerId = DeleteRecords = OffsetForLeaderEpoch = _elsewhere
