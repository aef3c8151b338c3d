"""The Log service of a broker: what producers and consumers call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import grpc

from broker.grpc import wire
from broker.grpc.batch_checks import BatchChecks
from broker.grpc.guard import Context
from broker.grpc.metadata_view import metadata_response
from broker.metadata.image import MetadataImage
from broker.metadata.messages import Failure
from broker.metadata.records import Endpoint
from broker.metrics.counters import RequestCounters
from broker.replication.messages import (
    Effect,
    EpochEndQuery,
    OffsetAnswer,
    PartitionAck,
    PartitionData,
    Produce,
    ReplicaEpochQuery,
)
from pylog import errors
from pylog.clock import Clock, ticks
from pylog.model import BrokerId, LeaderEpoch, ProducerId
from pylog.rpc.v1 import log_pb2, log_pb2_grpc

if TYPE_CHECKING:
    from broker.replication.manager import ReplicaManager

PRODUCE_PIPELINE_MAX: Final = 64
"""Messages of one produce stream that wait for their answer; then its reading pauses."""
FOLLOWING_MAX: Final = 64
"""Requests behind the first one of a message."""
PARTITIONS_PER_REQUEST_MAX: Final = 20_000
CONSUMER: Final = BrokerId(-1)
SERVICE: Final = "pylog.v1.Log"

Perform = Callable[[Sequence[Effect]], None]


class _Answers:
    """The answers to one message's requests; `future` gets them when the last one is there."""

    __slots__ = ("_answers", "_due", "future")

    def __init__(self, count: int) -> None:
        self.future: asyncio.Future[log_pb2.ProduceResponse]
        self.future = asyncio.get_running_loop().create_future()
        self._answers: list[log_pb2.ProduceResponse | None] = [None] * count
        self._due = count

    def put(self, index: int, answer: log_pb2.ProduceResponse) -> None:
        """Answer the request at `index`, once."""
        assert self._answers[index] is None
        self._answers[index] = answer
        self._due -= 1
        if self._due or self.future.done():
            return
        first, *others = (answer for answer in self._answers if answer is not None)
        first.following.extend(others)
        self.future.set_result(first)


class LogService(log_pb2_grpc.LogServicer):
    """Requests of clients, handed to the replica manager in the order of their arrival.

    Lives on the broker's loop. `in_flight_bytes` counts the batches whose answer is still due, so
    that slow replication refuses new ones instead of filling the memory.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        perform: Perform,
        clock: Clock,
        *,
        image: Callable[[], MetadataImage],
        controller: Callable[[], Endpoint | None],
        take_producer_id: Callable[[], Any],
        checks: BatchChecks,
        in_flight_bytes_max: int,
        counters: RequestCounters,
    ) -> None:
        self._manager = manager
        self._perform = perform
        self._clock = clock
        self._image = image
        self._controller = controller
        self._take_producer_id = take_producer_id
        self._checks = checks
        self._in_flight_bytes_max = in_flight_bytes_max
        self._counters = counters
        self.in_flight_bytes = 0
        self.answer_bytes = 0
        """Of fetches whose clients have not taken the answer yet."""

    # ---- metadata ------------------------------------------------------------------------------

    async def Metadata(
        self, request: log_pb2.MetadataRequest, context: Context
    ) -> log_pb2.MetadataResponse:
        """What leads where, as far as this broker has heard."""
        return metadata_response(self._image(), request, self._controller())

    # ---- produce -------------------------------------------------------------------------------

    async def _produce(
        self, message: log_pb2.ProduceRequest
    ) -> asyncio.Future[log_pb2.ProduceResponse]:
        """Hand a message's requests over, now or when their compressed batches are checked; the
        future gets the answer.
        """
        requests = _requests_of(message)
        answers = _Answers(len(requests))
        taken: list[tuple[Produce, Callable[[Sequence[PartitionAck]], None]]] = []
        taken_bytes = 0
        try:
            for index, request in enumerate(requests):
                # Protobuf copies a batch each time it is asked for it.
                produce = wire.produce_from(request)
                sizes = [len(item.batch) for item in produce.batches]
                size = sum(sizes)
                if self.in_flight_bytes + size > self._in_flight_bytes_max and self.in_flight_bytes:
                    answers.put(index, self._throttled(request))
                    continue
                self.in_flight_bytes += size
                taken_bytes += size
                if self._checks.needed(produce):
                    produce = await self._checks.run(produce)
                taken.append((produce, self._when_done(answers, index, request, sizes)))
        except BaseException:
            self.in_flight_bytes -= taken_bytes  # nobody waits any more, and nothing was appended
            raise
        clock = self._clock
        self._perform(self._manager.produce_all(clock.monotonic_ms(), clock.wall_ms(), taken))
        return answers.future

    def _when_done(
        self, answers: _Answers, index: int, request: log_pb2.ProduceRequest, sizes: list[int]
    ) -> Callable[[Sequence[PartitionAck]], None]:
        correlation, wants_acks = request.correlation, request.acks != 0
        size, began = sum(sizes), ticks()

        def done(acks: Sequence[PartitionAck]) -> None:
            self.in_flight_bytes -= size
            self._count_produce(acks, sizes, ticks() - began)
            answers.put(index, wire.produced(correlation, acks if wants_acks else ()))

        return done

    def _count_produce(
        self, acks: Sequence[PartitionAck], sizes: Sequence[int], seconds: float
    ) -> None:
        counters = self._counters
        counters.answered("Produce", seconds)
        for ack, size in zip(acks, sizes, strict=True):
            if ack.failure is None:
                counters.bytes_in.add(ack.topic_partition.topic, size)
            else:
                counters.failed("Produce", ack.failure.code)

    def _throttled(self, request: log_pb2.ProduceRequest) -> log_pb2.ProduceResponse:
        self._counters.failed("Produce", errors.ThrottlingQuotaExceeded.code)
        failure = Failure(
            errors.ThrottlingQuotaExceeded.code,
            f"{self.in_flight_bytes} bytes of batches wait for their acknowledgement on this "
            f"broker; the limit is {self._in_flight_bytes_max} (queued.max.request.bytes); retry",
        )
        return log_pb2.ProduceResponse(
            correlation=request.correlation,
            acks=[
                log_pb2.PartitionAck(
                    error=wire.error_of(failure),
                    topic=item.topic,
                    partition=item.partition,
                    base_offset=-1,
                    log_append_time_ms=-1,
                    log_start_offset=-1,
                    current_leader=-1,
                    current_leader_epoch=-1,
                    record_index=-1,
                )
                for item in request.batches
            ],
        )

    async def Produce(
        self, request: log_pb2.ProduceRequest, context: Context
    ) -> log_pb2.ProduceResponse:
        """One request; for acks=0 an answer without acks."""
        return await (await self._produce(request))

    async def ProduceStream(
        self, requests: AsyncIterator[log_pb2.ProduceRequest], context: Context
    ) -> None:
        """Requests are appended as they come, a message at a time; answers keep their order, and a
        message of which nobody wants acks gets none.

        One that is being checked in the pool holds back those behind it in its own stream only.
        """
        answers: asyncio.Queue[asyncio.Future[log_pb2.ProduceResponse] | None]
        answers = asyncio.Queue(PRODUCE_PIPELINE_MAX)

        async def read() -> None:
            try:
                async for message in requests:
                    answer = await self._produce(message)
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

    # ---- fetch ---------------------------------------------------------------------------------

    async def _fetch(self, request: log_pb2.FetchRequest) -> bytes:
        _bound(len(request.partitions))
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        began = ticks()

        def done(partitions: Sequence[PartitionData]) -> None:
            if not future.done():
                self._count_fetch(partitions, ticks() - began)
                future.set_result(wire.fetched(request.correlation, partitions))

        now_ms = self._clock.monotonic_ms()
        self._perform(self._manager.fetch(now_ms, wire.fetch_from(request), done))
        try:
            return await future
        finally:
            if future.cancelled():
                self._manager.cancel(done)

    def _count_fetch(self, partitions: Sequence[PartitionData], seconds: float) -> None:
        counters = self._counters
        counters.answered("Fetch", seconds)
        for item in partitions:
            if item.failure is not None:
                counters.failed("Fetch", item.failure.code)
            elif item.records:
                counters.bytes_out.add(item.topic_partition.topic, len(item.records))

    async def Fetch(self, request: log_pb2.FetchRequest, context: Context) -> bytes:
        """One long poll; a client that hangs up frees its place. Gives a FetchResponse's bytes."""
        return await self._fetch(request)

    async def FetchStream(
        self, requests: AsyncIterator[log_pb2.FetchRequest], context: Context
    ) -> None:
        """One long poll after the other."""
        async for request in requests:
            answer = await self._fetch(request)
            self.answer_bytes += len(answer)
            try:
                await context.write(answer)
            finally:
                self.answer_bytes -= len(answer)

    # ---- offsets -------------------------------------------------------------------------------

    async def ListOffsets(
        self, request: log_pb2.ListOffsetsRequest, context: Context
    ) -> log_pb2.ListOffsetsResponse:
        """Offsets by time."""
        _bound(len(request.partitions))
        queries = wire.queries_from(request)
        twice = _named_twice(query.topic_partition for query in queries)
        return log_pb2.ListOffsetsResponse(
            partitions=[
                wire.offset_answer(
                    OffsetAnswer(query.topic_partition, twice)
                    if twice
                    else self._manager.list_offsets(query)
                )
                for query in queries
            ]
        )

    async def DeleteRecords(
        self, request: log_pb2.DeleteRecordsRequest, context: Context
    ) -> log_pb2.DeleteRecordsResponse:
        """New log start offsets."""
        _bound(len(request.partitions))
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
        _bound(len(request.partitions))
        twice = _named_twice((item.topic, item.partition) for item in request.partitions)
        return log_pb2.OffsetForLeaderEpochResponse(
            partitions=[self._epoch_end(item, twice) for item in request.partitions]
        )

    def _epoch_end(
        self, item: log_pb2.PartitionEpoch, fault: Failure | None
    ) -> log_pb2.PartitionEpochEnd:
        topic = self._image().topics_by_name.get(item.topic)
        answer = log_pb2.PartitionEpochEnd(
            error=wire.error_of(fault),
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
    return log_pb2.InitProducerIdResponse(
        error=wire.error_of(Failure(fault.code, str(fault))), producer_id=-1, producer_epoch=-1
    )


def _requests_of(message: log_pb2.ProduceRequest) -> list[log_pb2.ProduceRequest]:
    """The requests in a message, the first one first; InvalidRequest if there are too many."""
    requests = [message, *message.following]
    if len(requests) > 1 + FOLLOWING_MAX:
        raise errors.InvalidRequest(
            f"{len(requests) - 1} following requests in one message; the limit is {FOLLOWING_MAX}"
        )
    for request in requests:
        _bound(len(request.batches))
        if request is not message and request.following:
            raise errors.InvalidRequest("a following request has no following ones of its own")
    return requests


def _bound(partitions: int) -> None:
    if partitions > PARTITIONS_PER_REQUEST_MAX:
        raise errors.InvalidRequest(
            f"{partitions} partitions in one request; the limit is {PARTITIONS_PER_REQUEST_MAX}"
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
