"""`pylog local`: a cluster on this machine without Spark, until Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pylog import errors
from pylog.cli import failures
from pylog.cli.background_cluster import READY, start_in_background
from pylog.cli.context import Settings, key_values, print_json, with_settings
from pylog.cli.restarts import STARTS_MAX, GiveUp, Restarts, StartAgain, TellEnded
from pylog.clock import SYSTEM_CLOCK
from pylog.properties import read_properties

if TYPE_CHECKING:
    from pylog.local import EndedProcess, LocalCluster

LOOK_S: Final = 0.2


@click.command()
@click.option("--brokers", type=click.IntRange(min=1), default=1, show_default=True,
              help="How many broker processes to start.")  # fmt: skip
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="The address for clients; a loopback address. Default: a free port of 127.0.0.1.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the data stays. Default: a temporary folder, removed at the end.",
)
@click.option(
    "--rack",
    "racks",
    multiple=True,
    help="The rack of broker 1; given once more, that of broker 2, and so on.",
)
@click.option(
    "--config", "configs", metavar="KEY=VALUE", multiple=True, help="A setting of all brokers."
)
@click.option(
    "--config-file",
    type=click.Path(exists=True, dir_okay=False),
    help="Settings of all brokers as a properties file; --config wins.",
)
@click.option(
    "--daemon",
    is_flag=True,
    help="Return when the cluster is ready, and leave it running; needs --data-dir.",
)
@click.option("--console", is_flag=True,
              help="Serve web pages of the cluster as well, at a free port.")  # fmt: skip
@click.option("--console-allow-writes", is_flag=True,
              help="With --console: pages that also change something.")  # fmt: skip
@with_settings
def local(
    settings: Settings,
    brokers: int,
    listen: str | None,
    data_dir: Path | None,
    racks: tuple[str, ...],
    configs: tuple[str, ...],
    config_file: str | None,
    daemon: bool,
    console: bool,
    console_allow_writes: bool,
) -> int:
    """Run a cluster of broker processes here; stops in order on Ctrl-C or SIGTERM.

    A process that ends before is started again, after a wait that grows from 1 to 30 seconds. One
    that ends over and over is given up after 6 starts; without the controller, or without any
    broker, the command ends with status 1.

    \b
    pylog local --brokers 3 --listen 127.0.0.1:9092
    pylog local --console
    pylog local --data-dir ./data --config min.insync.replicas=2 --config log.retention.ms=60000
    pylog local --data-dir ./data --config-file server.properties --daemon
    """
    config = read_properties(config_file) if config_file is not None else {}
    config |= key_values(configs, "--config")
    if len(racks) > brokers:
        raise click.UsageError(f"--rack: {len(racks)} racks, but --brokers is {brokers}")
    if daemon:
        if data_dir is None:
            raise click.UsageError("--daemon needs --data-dir: nobody would remove the folder")
        if console or console_allow_writes:
            raise click.UsageError("--console ends with this command; with --daemon: pylog console")
        return start_in_background(settings, brokers, listen, data_dir.absolute(), racks, config)
    from pylog.local import LocalCluster

    stop = _Stop()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop.on_signal)
    with LocalCluster(
        brokers, data_dir, config, listen=listen, racks=racks,
        console=console or console_allow_writes, console_allow_writes=console_allow_writes,
    ) as cluster:  # fmt: skip
        pages = cluster.console_url
        if settings.as_json:
            told = {"bootstrap_servers": cluster.bootstrap_servers, "brokers": brokers}
            print_json(told | ({} if pages is None else {"console": pages}))
        else:
            also = "" if pages is None else f" console={pages}"
            ready = f"brokers={brokers} bootstrap={cluster.bootstrap_servers}{also}"
            click.echo(f"{READY}{ready}")
        sys.stdout.flush()
        return _watch(cluster, stop)


class _StopAskedError(Exception):
    """Breaks off the start of a process, which may take a minute."""


class _Stop:
    """Whether somebody wants the cluster to stop."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.breaks_off = False

    def on_signal(self, *_: object) -> None:
        """On the main thread."""
        self.asked.set()
        if self.breaks_off:
            self.breaks_off = False
            raise _StopAskedError


def _watch(cluster: LocalCluster, stop: _Stop) -> int:
    """Start again what ends, until somebody wants to stop or nothing is left; the exit status."""
    restarts = Restarts()
    while not stop.asked.wait(LOOK_S):
        ended = {process.name: process for process in cluster.ended()}
        for effect in restarts.look(SYSTEM_CLOCK.monotonic_ms(), ended):
            process = ended[effect.name]
            match effect:
                case TellEnded(name, wait_ms):
                    _tell(
                        f"{name} ended ({_how(process.status)}), its log is {process.log}; it is "
                        f"started again in {wait_ms // 1000} s"
                    )
                case GiveUp(name):
                    _tell(
                        f"{name} ended ({_how(process.status)}) after {STARTS_MAX} starts in a "
                        f"row and is not started again; its log {process.log} tells why"
                    )
                case StartAgain(name):
                    try:
                        _start(cluster, process, stop)
                    except _StopAskedError:
                        return 0
                    restarts.on_started(SYSTEM_CLOCK.monotonic_ms(), name)
        gone = [process for process in ended.values() if process.name in restarts.given_up]
        if any(process.broker is None for process in gone) or len(gone) == len(cluster.brokers):
            _tell("the cluster stops: what it needs does not stay alive")
            return 1
    return 0


def _start(cluster: LocalCluster, process: EndedProcess, stop: _Stop) -> None:
    stop.breaks_off = not stop.asked.is_set()
    try:
        if process.broker is None:
            cluster.start_controller()
        else:
            cluster.start(process.broker)
    except errors.PylogError as error:
        stop.breaks_off = False
        _tell(f"{process.name} could not be started again: {' '.join(str(error).split())}")
        if isinstance(error, errors.RequestTimedOut):  # it hangs; else it ends by itself
            _kill(cluster, process)
    else:
        _tell(f"{process.name} runs again")
    finally:
        stop.breaks_off = False


def _kill(cluster: LocalCluster, process: EndedProcess) -> None:
    if process.broker is None:
        cluster.kill_controller()
    else:
        cluster.kill(process.broker)


def _how(status: int) -> str:
    try:
        return f"status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):
        failures.tell(text)
