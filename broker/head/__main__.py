"""`python -m pylog_broker.head`: controller and gateway of a cluster without Spark."""

from __future__ import annotations

import argparse
import sys

from pylog_broker.head.settings import HeadSettings
from pylog_broker.process.process import (
    EXIT_FAULT,
    Stops,
    add_arguments,
    read_config,
    run_process,
    say_ready,
)
from pylog_broker.process.secret import read_secret

CLUSTER_STOP_SECONDS_MAX = 15.0


def main() -> int:
    """Parse the arguments, serve, give the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pylog_broker.head",
        description="The controller and gateway of a pylog cluster.",
    )
    parser.add_argument("--brokers", type=int, default=1, help="how many brokers there shall be")
    add_arguments(parser)
    arguments = parser.parse_args()

    async def serve(stops: Stops) -> int:
        from pylog_broker.head.head import Head

        head = Head(
            HeadSettings(
                data_dir=arguments.data_dir,
                brokers=arguments.brokers,
                secret=read_secret(arguments.secret_file),
                listen=arguments.listen or "127.0.0.1:9092",
                advertised_host=arguments.advertised_host,
                allow_plaintext=arguments.allow_plaintext,
                config=read_config(arguments.config, arguments.config_file),
            )
        )
        endpoint = await head.start()
        say_ready(
            arguments.ready_fd,
            {
                "cluster": head.cluster_id,
                "host": endpoint.host,
                "port": endpoint.port,
                "metrics": head.metrics_address,
            },
        )
        failed = await head.serve_until(stops.stop)
        if not failed and not stops.hurry.is_set():
            await head.stop_cluster(CLUSTER_STOP_SECONDS_MAX)
        await head.stop()
        return EXIT_FAULT if failed else 0

    return run_process(arguments, serve)


if __name__ == "__main__":
    sys.exit(main())
