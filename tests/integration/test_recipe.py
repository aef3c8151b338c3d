"""The recipe for adding an API (CONTRIBUTING.md), followed for one that is in the tests alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from pylog import errors
from pylog.rpc import calls, streams
from pylog.rpc.channel import ERROR_CODE_KEY
from pylog_broker.head.head import Head
from pylog_broker.head.settings import HeadSettings
from pylog_broker.node import service
from pylog_broker.node.settings import NodeReady, NodeSettings
from pylog_broker.protobuf.log_apis import log_apis
from tests.recipe.echo_client import echo
from tests.recipe.echo_codec import echo_api
from tests.recipe.echo_handler import Echoed, EchoHandler

pytestmark = pytest.mark.integration

RECIPE = Path(__file__).parents[1] / "recipe"
LINES_MAX = 120
SECRET = bytes(16)
PATIENCE_S = 60


class Held(EchoHandler):
    """Answers no text that begins with "wait"."""

    async def handle(self, context: Any, text: str) -> Echoed:
        if text.startswith("wait"):
            await asyncio.get_running_loop().create_future()
        return await super().handle(context, text)


class Broker:
    """A driver and a broker that answers Echo, too, in this process."""

    def __init__(self, root: Path) -> None:
        self.stop = asyncio.Event()
        self.ready: asyncio.Future[NodeReady] = asyncio.get_running_loop().create_future()
        self.root = root
        self.head = Head(
            HeadSettings(data_dir=str(root), brokers=1, secret=SECRET, listen="127.0.0.1:0")
        )

    async def start(self) -> None:
        await self.head.start()
        settings = NodeSettings(
            data_dir=str(self.root), controller=self.head.bootstrap, secret=SECRET
        )
        self.broker = service.BrokerService(
            settings, self.stop, asyncio.Event(), self.ready.set_result
        )
        self.running = asyncio.ensure_future(self.broker.run())
        await self.ready

    async def end(self) -> None:
        self.stop.set()
        assert (await self.running).clean
        await self.head.stop()

    @asynccontextmanager
    async def over_grpc(self) -> AsyncIterator[Any]:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.ready.result().port}") as channel:

            async def call(api: Any, request: Any) -> Any:
                method = channel.unary_unary(
                    api.path, api.request.SerializeToString, api.response.FromString
                )
                try:
                    return await method(request, timeout=10)
                except grpc.aio.AioRpcError as error:
                    codes = dict(error.trailing_metadata() or ())
                    raise errors.from_code(int(codes[ERROR_CODE_KEY]), error.details()) from None

            yield call

    @asynccontextmanager
    async def framed(self) -> AsyncIterator[Any]:
        endpoint = self.broker._stream_endpoint
        assert endpoint is not None
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(
            streams.hello(
                streams.CALLS, self.head.cluster_id, self.ready.result().broker_id, "echoes"
            )
        )

        async def frame() -> memoryview:
            size = int.from_bytes(await reader.readexactly(4), "big")
            return memoryview(await reader.readexactly(size))

        assert streams.read_welcome(await frame()).calls_max
        numbers = iter(range(1, 1000))

        async def call(api: Any, request: Any) -> Any:
            number = next(numbers)
            said = request.SerializeToString()
            writer.writelines(calls.call_frame(number, api.key, api.version_max, 10_000, said))
            answered, answer = calls.read_answer(await frame())
            assert answered == number
            if isinstance(answer, errors.PylogError):
                raise answer
            return api.response.FromString(bytes(answer))

        try:
            yield call
        finally:
            writer.close()


@pytest.fixture
def with_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line more in the table of what a broker answers."""
    monkeypatch.setattr(service, "log_apis", lambda api: (*log_apis(api), echo_api(Held())))


def run(tmp_path: Path, test: Callable[[Broker], Coroutine[None, None, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S):
            broker = Broker(tmp_path)
            await broker.start()
            try:
                await test(broker)
            finally:
                await broker.end()

    asyncio.run(main())


@pytest.mark.usefixtures("with_echo")
def test_an_api_is_written_once_and_answered_over_both_carriers(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        counters = broker.broker._counters
        for count, (over, listener, client) in enumerate(
            ((broker.over_grpc, "grpc", ""), (broker.framed, "streams", "echoes"))
        ):
            async with over() as call:
                said = await echo(call, "hello")
                assert (said["text"], said["listener"], said["client_id"]) == (
                    "hello", listener, client,
                )  # fmt: skip
                assert said["address"] == "127.0.0.1"
                with pytest.raises(errors.InvalidRequest, match="1001 characters; the limit is"):
                    await echo(call, "x" * 1001)
                assert (await echo(call, "still here"))["text"] == "still here"
            assert sum(counters.seconds["Echo"].counts) == 2 * (count + 1)
            assert counters.errors["Echo", errors.InvalidRequest.code] == count + 1
        assert said["software_name"] == streams.SOFTWARE

    run(tmp_path, test)


@pytest.mark.usefixtures("with_echo")
def test_a_broker_that_stops_leaves_no_call_without_an_answer(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        async with broker.framed() as framed, broker.over_grpc() as over_grpc:
            waiting = [asyncio.ensure_future(echo(call, "wait")) for call in (framed, over_grpc)]
            await echo(over_grpc, "the others are there")
            broker.stop.set()
            ends = await asyncio.gather(*waiting, return_exceptions=True)
            assert isinstance(ends[0], errors.NetworkException)
            assert "this broker stops" in str(ends[0])
            assert isinstance(ends[1], BaseException)

    run(tmp_path, test)


def test_the_recipe_is_short() -> None:
    written = [path.read_text().splitlines() for path in RECIPE.glob("*.py")]
    assert len(written) == 4
    assert sum(map(len, written)) <= LINES_MAX
