"""The port that does what a test says."""

from __future__ import annotations

import asyncio

from pylog.rpc import calls, streams
from tests.fakes.fake_call_port import BROKER, FakeCallPort


def test_it_greets_keeps_calls_and_says_what_it_is_told_to() -> None:
    async def test() -> None:
        async with FakeCallPort(calls_max=7) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            writer.write(streams.hello(streams.CALLS, "c", BROKER, "me"))
            welcome = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            assert streams.read_welcome(memoryview(welcome)).calls_max == 7
            writer.writelines(calls.call_frame(5, 3, 0, 100, b"asked"))
            await port.until(lambda: bool(port.peers and port.peers[0].calls))
            (peer,) = port.peers
            assert peer.said.client_id == "me"
            peer.echo(5)
            peer.hang_up()
            await port.until(lambda: peer.is_gone)
            writer.close()

    asyncio.run(test())
