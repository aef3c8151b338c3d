"""`python -m pylog_broker.node`: one broker process."""

from __future__ import annotations

import argparse
import logging
import sys

from pylog_broker.node.settings import ANY_BROKER, NodeReady, NodeSettings
from pylog_broker.process.process import (
    EXIT_FAULT,
    EXIT_INCURABLE,
    Stops,
    add_arguments,
    read_config,
    run_process,
    say_ready,
)
from pylog_broker.process.secret import read_secret

_log = logging.getLogger("pylog.node")


def main() -> int:
    """Parse the arguments, serve, give the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pylog_broker.node", description="One pylog broker."
    )
    parser.add_argument("--controller", required=True, help="host:port of the gateway")
    parser.add_argument("--replication-listen", default="127.0.0.1:0", help="for other brokers")
    parser.add_argument("--stream-listen", help="for framed streams of clients; empty: off")
    parser.add_argument(
        "--only-broker", type=int, default=ANY_BROKER, help="be this broker; 0: a new one"
    )
    parser.add_argument(
        "--rack", action="append", default=[], help="of broker 1; once more: of broker 2, and so on"
    )
    add_arguments(parser)
    arguments = parser.parse_args()

    async def serve(stops: Stops) -> int:
        from pylog_broker.node.broker import run_broker

        settings = NodeSettings(
            data_dir=arguments.data_dir,
            controller=arguments.controller,
            secret=read_secret(arguments.secret_file),
            listen=arguments.listen or "127.0.0.1:0",
            replication_listen=arguments.replication_listen,
            stream_listen=arguments.stream_listen,
            advertised_host=arguments.advertised_host,
            allow_plaintext=arguments.allow_plaintext,
            config=read_config(arguments.config, arguments.config_file),
            only_broker=arguments.only_broker,
            racks=tuple(arguments.rack),
        )

        said = False

        def on_ready(ready: NodeReady) -> None:
            nonlocal said
            said = True
            answer = {
                "broker": ready.broker_id,
                "host": ready.host,
                "port": ready.port,
                "metrics": ready.metrics,
            }
            say_ready(arguments.ready_fd, answer)

        ended = await run_broker(settings, stops.stop, hurry=stops.hurry, on_ready=on_ready)
        (_log.info if ended.clean else _log.error)("ended: %s", ended.reason)
        if ended.error_code and not said:
            say_ready(arguments.ready_fd, {"error": ended.error_code, "message": ended.reason})
        if ended.clean:
            return 0
        return EXIT_FAULT if ended.curable else EXIT_INCURABLE

    return run_process(arguments, serve)


if __name__ == "__main__":
    sys.exit(main())
