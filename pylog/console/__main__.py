"""`python -m pylog.console`: the console as a process that ends with its owner."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from pylog import errors
from pylog.console.avro import AvroError, Schema
from pylog.console.options import (
    DEFAULT_LISTEN,
    ConsoleOptions,
    check_host_name,
    check_listen,
    parse_listen,
)

EXIT_FAULT = 1


def read_schemas(items: list[str]) -> dict[str, str]:
    """`TOPIC=FILE` texts as schemas by topic; InvalidConfig names the one that cannot be read."""
    schemas = {}
    for item in items:
        topic, equals, path = item.partition("=")
        if not equals or not topic or not path:
            raise errors.InvalidConfig(f"--avro-schema {item}: write TOPIC=FILE")
        try:
            text = Path(path).read_bytes().decode()
            Schema(text)
        except OSError as error:
            raise errors.InvalidConfig(
                f"--avro-schema {item}: the file cannot be read: {error.strerror or error}"
            ) from None
        except UnicodeDecodeError:
            raise errors.InvalidConfig(
                f"--avro-schema {item}: the file is no text in UTF-8; give a schema in JSON"
            ) from None
        except AvroError as error:
            raise errors.InvalidConfig(f"--avro-schema {item}: {error}") from None
        schemas[topic] = text
    return schemas


def run(options: ConsoleOptions, listen_text: str, what: str, *, allow_plaintext: bool,
        remedy: str, ready: int | None = None, parent: int | None = None,
        say: Callable[[str], None] | None = None) -> int:  # fmt: skip
    """Serve until SIGINT, SIGTERM, or the end of the process `parent`. `ready`: a descriptor on
    which one line of JSON says the address or the error; `say` is called with the address.
    """
    from pylog.console.serving import bind, serve

    try:
        listen = parse_listen(listen_text, what)
        check_listen(listen, what, allow_plaintext=allow_plaintext, remedy=remedy)
        listener = bind(listen, what)
    except errors.PylogError as error:
        if ready is None:
            raise
        _tell(ready, {"error": error.code, "message": str(error)})
        return EXIT_FAULT

    def on_ready(address: str) -> None:
        if ready is not None:
            _tell(ready, {"console": address})
        if say is not None:
            say(address)

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop.set)
        if parent is not None:
            try:
                loop.add_reader(os.pidfd_open(parent), stop.set)
            except ProcessLookupError:
                stop.set()
        await serve(options, listener, stop, on_ready)

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    return 0


def _tell(descriptor: int, answer: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(answer).encode() + b"\n")
        os.close(descriptor)


def main() -> int:
    """Parse the arguments, serve, give the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pylog.console", description="Web pages of a pylog cluster."
    )
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--listen", default=DEFAULT_LISTEN)
    parser.add_argument("--allow-writes", action="store_true")
    parser.add_argument("--allow-plaintext", action="store_true")
    parser.add_argument("--host-name", action="append", default=[])
    parser.add_argument("--ready-fd", type=int, help="where to say that it serves")
    parser.add_argument("--parent-pid", type=int, help="end when this process ends")
    parser.add_argument("--name", default="listen", help="what the address is called in errors")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        names = frozenset(check_host_name(name, "--host-name") for name in arguments.host_name)
    except errors.InvalidConfig as error:
        sys.stderr.write(f"pylog: {error}\n")
        return 2
    options = ConsoleOptions(
        {"bootstrap_servers": arguments.bootstrap_servers, "client_id": "pylog-console"},
        allow_writes=arguments.allow_writes,
        host_names=names,
    )
    return run(
        options, arguments.listen, arguments.name, allow_plaintext=arguments.allow_plaintext,
        remedy="set spark.pylog.allow.plaintext=true", ready=arguments.ready_fd,
        parent=arguments.parent_pid,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
