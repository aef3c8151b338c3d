"""The Log service: produce and fetch in gRPC's ways, and its unary APIs out of their table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, cast

import grpc

from pylog import errors
from pylog.rpc.produce_wire import requests_of
from pylog.rpc.v1 import log_pb2, log_pb2_grpc
from pylog_broker.api.answer_memory import SMALL_BYTES
from pylog_broker.api.api import DataApi
from pylog_broker.api.context import RequestContext
from pylog_broker.api.produce import PRODUCE_PIPELINE_MAX, Answers, Unheard
from pylog_broker.grpc.answering import Call
from pylog_broker.grpc.guard import Context, refuse
from pylog_broker.grpc.guard import told as status_text
from pylog_broker.grpc.peers import context_of
from pylog_broker.grpc.unary import add_handlers, unary_handlers
from pylog_broker.protobuf.produce_and_fetch import (
    all_produced,
    fetch_from,
    fetched,
    produce_from,
)
from pylog_broker.protobuf.unary import UnaryApis
from pylog_broker.replication.fetch_messages import PartitionData

SERVICE: Final = "pylog.v1.Log"


class LogService(log_pb2_grpc.LogServicer):
    """Requests of clients, handed to their handlers in the order of their arrival. Lives on the
    broker's loop.
    """

    def __init__(self, data: DataApi, report: Callable[[str], None]) -> None:
        """`report`: takes a line about a stream that was ended, and bounds the number of lines."""
        self._produce_handler = data.produce
        self._fetch_handler = data.fetch
        self._answers = data.fetch.answers
        self._report = report

    # ---- produce -------------------------------------------------------------------------------

    async def _produce(
        self, context: RequestContext, message: log_pb2.ProduceRequest, unheard: Unheard
    ) -> asyncio.Future[log_pb2.ProduceResponse]:
        """Hand a message's requests over, now or when their compressed batches are checked; the
        future gets the answer, `unheard` what no answer tells.
        """
        future: asyncio.Future[log_pb2.ProduceResponse]
        future = asyncio.get_running_loop().create_future()
        requests = requests_of(message)

        def done(answers: Answers) -> None:
            if not future.done():
                response = all_produced(requests, answers)
                future.set_result(log_pb2.ProduceResponse.FromString(response))

        values = [*map(produce_from, requests)]
        checking = self._produce_handler.handle(context, values, done, unheard)
        if checking is not None:
            await checking
        return future

    async def Produce(
        self, request: log_pb2.ProduceRequest, context: Context
    ) -> log_pb2.ProduceResponse:
        """One request; for acks=0 an answer without acks, or the batch's error."""
        faults: list[errors.PylogError] = []
        origin = context_of(context, request.client_id)
        answer = await (await self._produce(origin, request, faults.append))
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
                origin = None
                async for message in requests:
                    origin = origin or context_of(context, message.client_id)
                    answer = await self._produce(origin, message, faults.append)
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
            self._report(f"produce stream: closed {context.peer()}: {status_text(faults[0])}")
            await refuse(context, faults[0])

    # ---- fetch ---------------------------------------------------------------------------------

    async def _find(
        self, origin: RequestContext, request: log_pb2.FetchRequest
    ) -> Sequence[PartitionData]:
        future: asyncio.Future[Sequence[PartitionData]]
        future = asyncio.get_running_loop().create_future()

        def done(partitions: Sequence[PartitionData]) -> None:
            if not future.done():
                future.set_result(partitions)

        token = self._fetch_handler.handle(origin, fetch_from(request), done)
        try:
            return await future
        finally:
            if future.cancelled():
                self._fetch_handler.cancel(token)

    async def _fetch(
        self, origin: RequestContext, request: log_pb2.FetchRequest, call: Call
    ) -> bytes:
        """One long poll. An answer that does not fit among those that others have not taken is
        looked for again when it may.
        """
        while True:
            await call.room()
            partitions = await self._find(origin, request)
            if self._answers.fits(sum(len(item.records) for item in partitions)):
                return b"".join(fetched(request.correlation, partitions))
            call.must_wait = True

    async def Fetch(self, request: log_pb2.FetchRequest, context: Context) -> bytes:
        """One long poll; a client that hangs up frees its place. Gives a FetchResponse's bytes."""
        call = Call(self._answers)
        try:
            origin = context_of(context, request.client_id)
            answer = await self._fetch(origin, request, call)
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
            origin = None
            async for request in requests:
                origin = origin or context_of(context, request.client_id)
                answer = await self._fetch(origin, request, call)
                await call.give(answer, context)
        finally:
            call.over()


class _Handlers:
    """Takes the generated code's handlers, in place of a server."""

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, _handlers: Any) -> None:
        """They come by name, too."""

    def add_registered_method_handlers(self, _service: str, handlers: dict[str, Any]) -> None:
        self.by_name.update(handlers)


def _generated(servicer: log_pb2_grpc.LogServicer) -> dict[str, Any]:
    handlers = _Handlers()
    log_pb2_grpc.add_LogServicer_to_server(servicer, handlers)  # type: ignore[no-untyped-call]
    return handlers.by_name


def add_log_service(service: LogService, apis: UnaryApis, server: Any) -> None:
    """Have the server offer a broker's service. Fetches give their message's bytes themselves, so
    that protobuf copies no batches.
    """
    handlers = _generated(service)
    parse = log_pb2.FetchRequest.FromString
    handlers["Fetch"] = grpc.unary_unary_rpc_method_handler(service.Fetch, parse)
    handlers["FetchStream"] = grpc.stream_stream_rpc_method_handler(service.FetchStream, parse)
    add_handlers(SERVICE, handlers | unary_handlers(apis, "Log"), server)


class _NotHere(log_pb2_grpc.LogServicer):
    """The calls of the Log service that a gateway does not offer."""

    async def _elsewhere(self, request: Any, context: Context) -> None:
        raise errors.NotOffered(
            "this is the gateway, which serves metadata and administration; send this call to the "
            "broker that its metadata names, or connect to it through here (client.routing=gateway)"
        )

    ProduceStream = Produce = FetchStream = Fetch = _elsewhere
    ListOffsets = InitProducerId = DeleteRecords = OffsetForLeaderEpoch = _elsewhere
    SplitRanges = AwaitRecords = DescribeTransactionsInRange = LeaseReads = _elsewhere
    OpenLocalRead = _elsewhere


def add_gateway_log(apis: UnaryApis, server: Any) -> None:
    """Have the server offer the gateway's part of the service: metadata only."""
    add_handlers(SERVICE, _generated(_NotHere()) | unary_handlers(apis, "Log"), server)
