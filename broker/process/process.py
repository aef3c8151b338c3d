"""The shared part of both kinds of processes: signals, the owner's death, readiness, logging, exit.

The owner is whoever must not be outlived: a notebook's kernel, a test run. Its end is seen through
a pidfd; PR_SET_PDEATHSIG would fire when the *thread* ends that happened to start the process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from pylog import errors
from pylog.properties import read_properties
from pylog_broker import logs
from pylog_broker.process.secret import SECRET_VARIABLE

OWNER_DEATH_SECONDS_MAX: Final = 2.0
"""After the owner's death nobody waits for us: crash recovery is good enough by then."""
HURRY_SECONDS_MAX: Final = 10.0

EXIT_FAULT: Final = 1
EXIT_INCURABLE: Final = 2
"""Starting again with the same arguments cannot help."""

_log = logging.getLogger("pylog.process")


@dataclass(slots=True)
class Stops:
    """The requests to end the process. `hurry`: flush, but wait for nobody else."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that head and node share."""
    parser.add_argument("--data-dir", required=True, help="root of this host's data")
    parser.add_argument("--listen", help="host:port of the gRPC server")
    parser.add_argument("--advertised-host", help="the name that goes into metadata")
    parser.add_argument(
        "--allow-plaintext", action="store_true", help="listen without TLS beyond loopback"
    )
    parser.add_argument("--secret-file", help=f"file with the secret; default: ${SECRET_VARIABLE}")
    parser.add_argument(
        "--config", action="append", default=[], metavar="NAME=VALUE", help="a broker setting"
    )
    parser.add_argument(
        "--config-file", metavar="FILE", help="broker settings, as Java's properties; --config wins"
    )
    parser.add_argument("--parent-pid", type=int, help="end when this process ends")
    parser.add_argument("--ready-fd", type=int, help="say here, as a line of JSON, when serving")


def read_config(items: list[str], file: str | None = None) -> dict[str, str]:
    """`NAME=VALUE` arguments over what a properties file says; a later one wins."""
    config = {} if file is None else read_properties(file)
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise errors.InvalidConfig(f"--config {item!r}: it must be NAME=VALUE")
        config[name.strip()] = value.strip()
    return config


def say_ready(descriptor: int | None, answer: dict[str, Any]) -> None:
    """Tell the process that started us, once."""
    if descriptor is not None:
        os.write(descriptor, json.dumps(answer).encode() + b"\n")
        os.close(descriptor)


def settle_memory() -> None:
    """Take what start-up made out of the garbage collector's sight, and make it run less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def end_at_the_latest(seconds: float) -> None:
    """End this process then, whatever it does."""
    timer = threading.Timer(seconds, os._exit, (EXIT_FAULT,))
    timer.daemon = True
    timer.start()


def _watch_owner(pid: int, on_end: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        on_end()
        return

    def ended() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        on_end()

    loop.add_reader(descriptor, ended)


def _handle_stops(stops: Stops, parent_pid: int | None) -> None:
    loop = asyncio.get_running_loop()

    def on_stop() -> None:
        stops.stop.set()

    def on_hurry() -> None:
        end_at_the_latest(HURRY_SECONDS_MAX)
        stops.hurry.set()
        stops.stop.set()

    def on_owner_end() -> None:
        _log.warning("the owning process %s has ended: stopping", parent_pid)
        end_at_the_latest(OWNER_DEATH_SECONDS_MAX)
        stops.hurry.set()
        stops.stop.set()

    loop.add_signal_handler(signal.SIGTERM, on_stop)
    loop.add_signal_handler(signal.SIGINT, on_stop)
    loop.add_signal_handler(signal.SIGHUP, on_hurry)
    if parent_pid is not None:
        _watch_owner(parent_pid, on_owner_end)


def run_process(
    arguments: argparse.Namespace, main: Callable[[Stops], Coroutine[Any, Any, int]]
) -> int:
    """Run `main` on a loop of its own until it returns the exit status."""
    logs.set_up({})

    async def supervised() -> int:
        stops = Stops()
        _handle_stops(stops, arguments.parent_pid)
        return await main(stops)

    try:
        logs.set_up(read_config(arguments.config, arguments.config_file))
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(supervised())
    except (errors.PylogError, OSError) as fault:
        code = fault.code if isinstance(fault, errors.PylogError) else -1
        _log.error("%s", fault)
        say_ready(arguments.ready_fd, {"error": code, "message": str(fault)})
        return EXIT_FAULT if getattr(fault, "retriable", False) else EXIT_INCURABLE
