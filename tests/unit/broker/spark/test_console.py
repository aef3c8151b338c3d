"""The console of the driver, as the process that it is."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

import pytest

from pylog import errors
from pylog_broker.spark.console import ConsoleProcess
from tests.fakes.waiting import eventually


def new_console(listen: str) -> ConsoleProcess:
    return ConsoleProcess(
        "127.0.0.1:9", listen, allow_writes=False, allow_plaintext=False, host_name=None
    )


@pytest.mark.slow
def test_it_starts_says_where_it_is_and_ends_when_told() -> None:
    async def main() -> int:
        console = new_console("127.0.0.1:0")
        await console.start()
        assert console.address.startswith("http://127.0.0.1:")
        assert console._process is not None
        console.stop()
        async with asyncio.timeout(30):
            return await asyncio.to_thread(console._process.wait)

    assert asyncio.run(main()) == 0


@pytest.mark.slow
def test_one_that_is_killed_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog_broker.spark.console.START_AGAIN_SECONDS", 0.0)

    async def main() -> None:
        console = new_console("127.0.0.1:0")
        await console.start()
        first = console._process
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)

        def is_back() -> bool:
            return console._process is not first and bool(console.address) and console._starts >= 2

        await asyncio.to_thread(eventually, 60, is_back, "the console is back")
        console.stop()
        assert console._process is not None
        await asyncio.to_thread(console._process.wait, 30)

    asyncio.run(main())


@pytest.mark.slow
def test_a_port_in_use_is_named_by_the_setting() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(errors.BrokerNotAvailable, match=r"spark\.pylog\.console\.listen="):
            asyncio.run(new_console(address).start())
        with pytest.raises(errors.InvalidConfig, match=r"spark\.pylog\.allow\.plaintext=true"):
            asyncio.run(new_console("0.0.0.0:0").start())
