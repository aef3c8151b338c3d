"""One Spark task, one broker: what runs inside an executor's Python worker.

Spark forks workers from a daemon, so gRPC and everything that starts threads is imported here, in
the task, and not before. The broker ends when the cluster stops, when its worker is told to
(SIGTERM, SIGHUP), and when the daemon or the executor above it dies: an orphan would serve under an
identity that Spark is already giving to its successor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pylog_broker.process.process import Stops

DATA_DIR_VARIABLE: Final = "PYLOG_DATA_DIR"
"""In an executor's environment: its data root, instead of `spark.pylog.data.dir`."""
ADVERTISED_HOST_VARIABLE: Final = "PYLOG_ADVERTISED_HOST"
"""In an executor's environment: what others call its host, where it cannot know by itself."""
RACK_VARIABLE: Final = "PYLOG_BROKER_RACK"
"""In an executor's environment: where its broker stands, instead of `broker.rack` for all."""

BACKOFF_FIRST_MS: Final = 500
BACKOFF_MAX_MS: Final = 15_000
# After a death above, an orderly end takes well under this; a hung one must not hold the locks.
ORPHAN_DEADLINE_SECONDS: Final = 5.0

logger = logging.getLogger("pylog.spark.executor")


class BrokerEnded(Exception):
    """This life of the broker is over, and Spark shall give it another."""


class BrokerCannotRun(Exception):
    """Starting this broker again would fail the same way: the driver stops and prints why."""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The settings that the driver sends to each task. Pickled inside Spark's own RPC."""

    application_id: str
    data_dir: str
    controller: str
    gateway: str
    secret: bytes = field(repr=False)
    broker_listen: str
    replication_listen: str
    stream_listen: str | None
    advertised_host: str | None
    allow_plaintext: bool
    config: dict[str, str]
    executor_memory: str = ""
    """The heap of the JVM beside the broker, as Spark writes it."""


def incarnation(application_id: str, slot: int, attempt: int) -> str:
    """Names one life of the broker in a slot; the driver derives the same from Spark's events."""
    return f"{application_id}.{slot}.{attempt}"


def data_root(settings: TaskSettings, slot: int) -> Path:
    """This host's data root; BrokerCannotRun when Spark would clean it away."""
    root = Path(os.environ.get(DATA_DIR_VARIABLE) or settings.data_dir.replace("{slot}", str(slot)))
    forbidden = [Path(p) for p in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if p]
    here = Path.cwd()
    if here.parent.name.startswith("app-"):  # a standalone worker's <work>/<application>/<executor>
        forbidden.append(here.parent.parent)
    places = [(root, "the data directory", "spark.pylog.data.dir")]
    entries = (entry.strip() for entry in settings.config.get("log.dirs", "").split(","))
    places += [
        (Path(entry), "the log directory", "spark.pylog.broker.log.dirs")
        for entry in entries
        if entry.startswith("/")
    ]
    for folder in forbidden:
        for place, what, setting in places:
            if place.resolve().is_relative_to(folder.resolve()):
                raise BrokerCannotRun(
                    f"{what} {place} lies under {folder}, which Spark cleans away; set {setting} "
                    "to a folder outside of it"
                )
    return root


def config_here(settings: TaskSettings) -> dict[str, str]:
    """The settings of this executor's broker."""
    rack = os.environ.get(RACK_VARIABLE, "").strip()
    return {**settings.config, "broker.rack": rack} if rack else settings.config


def run_task(slot: int, _: Iterable[object], settings: TaskSettings) -> Iterator[str]:
    """The task's body: serve as a broker until told to stop; yields why it ended.

    Raises BrokerCannotRun when no restart can help, and BrokerEnded when one is wanted.
    """
    from pylog_broker import logs
    from pylog_broker.spark.memory import machine_bytes, memory_warning

    logs.set_up(settings.config)
    warning = memory_warning(settings.executor_memory, machine_bytes())
    if warning:
        logger.warning("%s", warning)
    yield _Task(slot, settings).run()


class _Task:
    """Owned by the worker's main thread, on which the broker's loop runs."""

    def __init__(self, slot: int, settings: TaskSettings) -> None:
        from pyspark import TaskContext

        from pylog_broker.node.settings import NodeSettings

        context = TaskContext.get()
        attempt = context.attemptNumber() if context is not None else 0
        self._ready = False
        self._parents = _above()
        self._settings = NodeSettings(
            data_dir=str(data_root(settings, slot)),
            controller=settings.controller,
            gateway=settings.gateway,
            secret=settings.secret,
            listen=settings.broker_listen,
            replication_listen=settings.replication_listen,
            stream_listen=settings.stream_listen,
            advertised_host=os.environ.get(ADVERTISED_HOST_VARIABLE) or settings.advertised_host,
            allow_plaintext=settings.allow_plaintext,
            config=config_here(settings),
            slot=slot,
            incarnation_id=incarnation(settings.application_id, slot, attempt),
        )

    def run(self) -> str:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(self._serve())

    async def _serve(self) -> str:
        """Start the broker, again and again with growing pauses while it does not get ready."""
        from pylog import errors
        from pylog_broker.node.broker import run_broker
        from pylog_broker.process.process import Stops

        stops = Stops()
        self._listen_for_the_end(stops)
        pause_ms = BACKOFF_FIRST_MS
        while True:
            try:
                ended = await run_broker(
                    self._settings, stops.stop, hurry=stops.hurry, on_ready=self._on_ready
                )
            except errors.InvalidConfig as error:
                raise BrokerCannotRun(str(error)) from None
            if stops.stop.is_set() or (self._ready and not ended.clean):
                # Only a task that fails is started again, and only the cluster's own stop is the
                # end of a slot. A fresh process is the cleanest restart, and Spark gives one.
                raise BrokerEnded(ended.reason)
            if ended.clean:
                return ended.reason
            if not ended.curable:
                raise BrokerCannotRun(ended.reason)
            logger.warning("broker did not start (%s); again in %d ms", ended.reason, pause_ms)
            try:
                await asyncio.wait_for(stops.stop.wait(), pause_ms / 1000)
            except TimeoutError:
                pause_ms = min(2 * pause_ms, BACKOFF_MAX_MS)
            else:
                raise BrokerEnded(ended.reason)

    def _on_ready(self, _: object) -> None:
        self._ready = True

    def _listen_for_the_end(self, stops: Stops) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._end, stops, "SIGTERM", False)
        loop.add_signal_handler(signal.SIGHUP, self._end, stops, "SIGHUP", True)
        for name, fd in self._parents:
            loop.add_reader(fd, self._orphaned, stops, name, fd)

    def _end(self, stops: Stops, why: str, hurry: bool) -> None:
        logger.info("stopping: %s", why)
        stops.stop.set()
        if hurry:
            stops.hurry.set()

    def _orphaned(self, stops: Stops, name: str, fd: int) -> None:
        asyncio.get_running_loop().remove_reader(fd)
        self._end(stops, f"the {name} above this broker has died", True)
        last_resort = threading.Timer(ORPHAN_DEADLINE_SECONDS, os._exit, (1,))
        last_resort.daemon = True
        last_resort.start()


def _above() -> list[tuple[str, int]]:
    """A pidfd for the pyspark daemon and one for the executor's JVM above it."""
    daemon = os.getppid()
    stat = Path(f"/proc/{daemon}/stat").read_text()
    executor = int(stat.rpartition(")")[2].split()[1])
    return [
        (name, os.pidfd_open(pid))
        for name, pid in (("pyspark daemon", daemon), ("executor", executor))
        if pid > 1
    ]
