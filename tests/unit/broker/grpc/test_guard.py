"""The guard before every handler: a message that does not come, and one that never was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
import pytest

from pylog import errors
from pylog.rpc.channel import tune_process
from pylog.rpc.v1 import log_pb2, log_pb2_grpc
from pylog_broker.api.calls import Calls
from pylog_broker.api.metadata import MetadataHandler
from pylog_broker.grpc import guard
from pylog_broker.grpc.log_service import SERVICE, add_gateway_log
from pylog_broker.grpc.server import GrpcServer
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.protobuf.log_apis import metadata_api
from pylog_broker.protobuf.unary import UnaryApis
from tests.fakes.raw_http2 import Call

MESSAGE = b"\0\0\0\0\x03\x0a\x01t"  # a MetadataRequest with the topic "t"


def with_server(check: Callable[[str], None]) -> None:
    """Run `check` on another thread against a gateway that serves on this one."""

    tune_process()  # gRPC reads its variables once, for all tests of this process

    async def main() -> None:
        server = GrpcServer(1 << 20)
        handler = MetadataHandler(MetadataImage, lambda: None, is_gateway=True)
        apis = UnaryApis(Calls(RequestCounters()), [metadata_api(handler)])
        server.offer(partial(add_gateway_log, apis), SERVICE)
        port = await server.start("127.0.0.1:0")
        try:
            await asyncio.get_running_loop().run_in_executor(None, check, f"127.0.0.1:{port}")
        finally:
            await server.stop(0)

    asyncio.run(main())


def test_a_message_that_does_not_arrive_ends_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad input 42: a slow body."""
    monkeypatch.setattr(guard, "REQUEST_SECONDS_MAX", 0.1)

    def check(server: str) -> None:
        for sent in (b"", MESSAGE[:3], MESSAGE[:-1]):
            with Call(server, "/pylog.v1.Log/Metadata") as call:
                call.send(sent)
                assert call.status(seconds=5) == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
        with Call(server, "/pylog.v1.Log/Metadata") as call:
            call.send(MESSAGE)
            assert call.status(seconds=5) == 0

    with_server(check)


def test_what_has_expired_on_arrival_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad input 45."""
    done = []
    metadata = MetadataHandler.handle

    async def counting(self: MetadataHandler, context: Any, query: Any) -> Any:
        done.append(query)
        return await metadata(self, context, query)

    monkeypatch.setattr(MetadataHandler, "handle", counting)

    def check(server: str) -> None:
        for timeout in [b"0n", b"0m"] * 25:
            with Call(server, "/pylog.v1.Log/Metadata", (b"grpc-timeout", timeout)) as call:
                call.send(MESSAGE, end=True)
                expired = grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
                assert call.status(seconds=30) in (expired, None)
        assert done == []
        for timeout in (b"8760H", b"99999999H"):
            with Call(server, "/pylog.v1.Log/Metadata", (b"grpc-timeout", timeout)) as call:
                call.send(MESSAGE, end=True)
                assert call.status(seconds=30) == 0

    with_server(check)


def test_a_call_without_a_message_is_refused() -> None:
    def check(server: str) -> None:
        with Call(server, "/pylog.v1.Log/Metadata") as call:
            call.send(b"", end=True)
            assert call.status(seconds=5) == grpc.StatusCode.INVALID_ARGUMENT.value[0]

    with_server(check)


def test_what_is_unary_for_clients_stays_so() -> None:
    def check(server: str) -> None:
        with grpc.insecure_channel(server) as channel:
            stub = log_pb2_grpc.LogStub(channel)  # type: ignore[no-untyped-call]
            answer = stub.Metadata(log_pb2.MetadataRequest(topics=["t", "t"]), timeout=5)
            assert [topic.name for topic in answer.topics] == ["t"]
            with pytest.raises(grpc.RpcError) as caught:
                stub.Produce(log_pb2.ProduceRequest(), timeout=5)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    with_server(check)


@pytest.mark.parametrize("char", ["t", "%", "ü", "\U0001f4a9", "\n"])
def test_an_error_of_many_words_arrives(monkeypatch: pytest.MonkeyPatch, char: str) -> None:
    """A client takes 8 KiB of metadata, and would drop the error as a whole."""

    async def refusing(self: MetadataHandler, context: Any, query: Any) -> Any:
        raise errors.InvalidRequest(char * 70_000)

    monkeypatch.setattr(MetadataHandler, "handle", refusing)

    def check(server: str) -> None:
        with grpc.insecure_channel(server) as channel:
            stub = log_pb2_grpc.LogStub(channel)  # type: ignore[no-untyped-call]
            with pytest.raises(grpc.RpcError) as caught:
                stub.Metadata(log_pb2.MetadataRequest(), timeout=30)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details().startswith("INVALID_REQUEST: " + char * 300)
        assert caught.value.details().endswith("more characters)")

    with_server(check)


@pytest.mark.parametrize(
    ("error", "is_defect"),
    [
        (grpc.aio.InternalError("the client has gone"), False),
        (grpc.aio.BaseError("the server stops"), False),
        (grpc.aio.UsageError("the call has ended"), True),
        (KeyError("x"), True),
    ],
)
def test_only_a_defect_is_logged_as_one(
    error: Exception, is_defect: bool, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[grpc.StatusCode] = []

    class Told:
        async def abort(self, status: grpc.StatusCode, *_words: object) -> None:
            told.append(status)

    async def fail() -> None:
        raise error

    async def main() -> None:
        call = guard._guarded(Told(), "Session", fail(), RequestCounters())  # type: ignore[arg-type]
        await asyncio.gather(asyncio.create_task(call), return_exceptions=True)

    asyncio.run(main())
    assert ("failed unexpectedly" in caplog.text) is is_defect
    assert len(told) == is_defect


def test_an_answer_that_a_client_did_not_wait_for_is_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        GrpcServer(1 << 20)

    asyncio.run(main())
    for name in ("grpc._cython.cygrpc", "asyncio"):
        for error in (grpc.aio.InternalError("not written"), KeyError("x")):
            logging.getLogger(name).error("raised by a method", exc_info=error)
    assert ["KeyError" in (record.exc_text or "") for record in caplog.records] == [True, True]
