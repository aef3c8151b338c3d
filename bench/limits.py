"""The bare limits of this machine, beside which pylog's figures stand."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import stopwatch


def pwrite_mb_per_s(total_bytes: int, chunk_bytes: int = 256 * 1024) -> float:
    """Megabytes a second of plain `os.pwrite` into a fresh file, without fsync."""
    chunk = os.urandom(chunk_bytes)
    with tempfile.TemporaryDirectory() as folder:
        fd = os.open(Path(folder) / "file", os.O_WRONLY | os.O_CREAT)
        try:
            with stopwatch() as elapsed:
                for position in range(0, total_bytes, chunk_bytes):
                    os.pwrite(fd, chunk, position)
                seconds = elapsed()
        finally:
            os.close(fd)
    return total_bytes / seconds / 1e6


@contextmanager
def echo_server() -> Iterator[str]:
    """A gRPC server, in a process of its own, that sends back what it gets; yields its address."""
    import subprocess
    import sys

    server = subprocess.Popen(
        [sys.executable, "-m", "bench.limits"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait()


def echo_run(address: str, messages: int, size: int, in_flight: int) -> tuple[float, list[float]]:
    """Seconds for `messages` of `size` bytes over one stream, and each one's round trip in ms."""
    from pylog.rpc import channel

    channel.tune_process()
    import grpc

    payload = os.urandom(size)
    times: list[float] = []
    window = threading.Semaphore(in_flight)
    with grpc.insecure_channel(address, options=channel.channel_options()) as wire:
        call = wire.stream_stream("/bench/Echo")
        started: list[float] = []
        with stopwatch() as elapsed:

            def requests() -> Iterator[bytes]:
                for _ in range(messages):
                    window.acquire()
                    started.append(elapsed())
                    yield payload

            for number, _ in enumerate(call(requests())):
                times.append((elapsed() - started[number]) * 1000)
                window.release()
            seconds = elapsed()
    return seconds, times


async def _serve() -> None:
    from pylog.rpc import channel

    channel.tune_process()
    import grpc

    async def echo(requests: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request[:1]

    handler: Callable[..., Any] = grpc.stream_stream_rpc_method_handler
    server = grpc.aio.server(options=channel.channel_options())
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bench", {"Echo": handler(echo)}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve())
