"""`pylog local`: a cluster on this machine without Spark, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import click

from pylog.cli.context import Settings, print_json, with_settings


@click.command()
@click.option("--brokers", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the data stays. Default: a temporary folder, removed at the end.",
)
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="For all brokers.")
@with_settings
def local(settings: Settings, brokers: int, data_dir: Path | None, configs: tuple[str, ...]) -> int:
    """Run a cluster of broker processes here; stops in order on Ctrl-C or SIGTERM."""
    from pylog.local import LocalCluster

    config = {}
    for item in configs:
        key, equals, value = item.partition("=")
        if not equals:
            raise click.UsageError(f"--config {item}: write KEY=VALUE")
        config[key] = value
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with LocalCluster(brokers, data_dir=data_dir, config=config) as cluster:
        if settings.as_json:
            print_json({"bootstrap_servers": cluster.bootstrap_servers, "brokers": brokers})
        else:
            click.echo(f"pylog ready: brokers={brokers} bootstrap={cluster.bootstrap_servers}")
        sys.stdout.flush()
        stop.wait()
    return 0
