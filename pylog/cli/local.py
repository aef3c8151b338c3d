"""`pylog local`: a cluster on this machine without Spark, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import click

from pylog.cli.context import Settings, key_values, print_json, with_settings


@click.command()
@click.option("--brokers", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="What clients bootstrap with; a loopback address. Default: a free port of 127.0.0.1.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the data stays. Default: a temporary folder, removed at the end.",
)
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="For all brokers.")
@with_settings
def local(
    settings: Settings,
    brokers: int,
    listen: str | None,
    data_dir: Path | None,
    configs: tuple[str, ...],
) -> int:
    """Run a cluster of broker processes here; stops in order on Ctrl-C or SIGTERM.

    \b
    pylog local --brokers 3 --listen 127.0.0.1:9092
    pylog local --data-dir ./data --config min.insync.replicas=2 --config log.retention.ms=60000
    """
    from pylog.local import LocalCluster

    config = key_values(configs, "--config")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with LocalCluster(brokers, data_dir=data_dir, config=config, listen=listen) as cluster:
        if settings.as_json:
            print_json({"bootstrap_servers": cluster.bootstrap_servers, "brokers": brokers})
        else:
            click.echo(f"pylog ready: brokers={brokers} bootstrap={cluster.bootstrap_servers}")
        sys.stdout.flush()
        stop.wait()
    return 0
