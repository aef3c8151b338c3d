"""The driver: controller and gateway on this loop, and the Spark job whose tasks are the brokers.

Threads: the main thread runs the loop and owns everything; `spark` runs the (blocking) Spark job;
py4j's callback thread reports signals to the JVM and ended tasks, which it hands to the loop.
Spark's JVM is another process. Whichever half ends, the other must: see `guardian`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import logging
import os
import re
import secrets
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext

from pylog import errors
from pylog_broker import logs
from pylog_broker.process.addresses import parse_address
from pylog_broker.process.host import is_this_machine
from pylog_broker.spark import checks, executor, jvm
from pylog_broker.spark.console import ConsoleProcess
from pylog_broker.spark.guardian import command as guardian_command
from pylog_broker.spark.memory import executor_memory
from pylog_broker.spark.settings import SparkSettings, parse_settings

logger = logging.getLogger("pylog.spark")

# All of an orderly stop must fit into the two seconds after which both halves are gone.
STOP_BROKERS_SECONDS: Final = 0.7
STOP_SPARK_SECONDS: Final = 0.8
STOP_SECONDS_MAX: Final = 1.7
"""Anything that has not ended by then ends as in a crash: a slow disk or a busy machine holds
nothing up."""
HALT_SECONDS: Final = 0.3
"""A JVM that has not ended by then, though it was told to, hangs, and is killed."""

_PIDFD_GETFD: Final = 438  # the system call's number, the same on every architecture

_CANNOT_RUN: Final = re.compile(r"BrokerCannotRun: (.+)")


class CannotStart(Exception):
    """An error that the user has to cure first; printed without a traceback."""


def main() -> int:
    """Run until stopped; the process's exit status. Prints why when it cannot."""
    _log_to_stderr()
    try:
        driver = _prepare()
        import uvloop

        # Clients' data pass here when they come through the gateway.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(driver.run())
    except (CannotStart, errors.PylogError) as error:
        sys.stderr.write(f"pylog: {error}\n")
        return 1


def _log_to_stderr() -> None:
    """Standard error to where spark-submit's goes, and the log to it.

    Spark's runner sends a Python driver's standard error to standard output, which is for the ready
    line alone. The parent is that runner's JVM. Where the system does not give us its stream (a
    file, and a kernel that forbids looking into other processes), all stays in one stream.
    """
    with contextlib.suppress(OSError):
        fd = _stderr_of(os.getppid())
        os.dup2(fd, 2)
        os.close(fd)
    logs.set_up({})
    logging.getLogger("py4j").setLevel(logging.WARNING)


def _stderr_of(process: int) -> int:
    """A descriptor of the standard error of another process; OSError when it cannot be had."""
    owner = os.pidfd_open(process)
    try:
        fd = ctypes.CDLL(None).syscall(_PIDFD_GETFD, owner, 2, 0)
    finally:
        os.close(owner)
    if fd >= 0:
        return int(fd)
    # A terminal or a pipe can be opened again; a file cannot: it would have two positions.
    path = Path(f"/proc/{process}/fd/2")
    kind = path.stat().st_mode
    if not (stat.S_ISCHR(kind) or stat.S_ISFIFO(kind)):
        raise OSError("not a terminal or pipe")
    return os.open(path, os.O_WRONLY | os.O_NOCTTY)


def _prepare() -> Driver:
    """Read and check the configuration; nothing is bound or written yet."""
    view = jvm.start_jvm()
    conf = SparkConf()
    values = dict(conf.getAll())
    master = values.get("spark.master", "")
    settings = parse_settings(values, submit_dir=str(Path.cwd()), master=master)
    logs.set_up(settings.broker_config)
    found = checks.problems(values, brokers=settings.brokers)
    host = checks.master_host(master)
    found += checks.gateway_problems(
        master,
        parse_address(settings.listen, "spark.pylog.listen"),
        settings.advertised_host,
        master_is_here=bool(host) and is_this_machine(host),
    )
    if found:
        lines = "\n  ".join(str(problem) for problem in found)
        raise CannotStart(f"brokers cannot live under these Spark settings:\n  {lines}")
    for door in checks.open_doors(values):
        logger.warning("%s", door)
    if master.startswith("local"):
        # Executors are on this machine: they shall run what the driver runs.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if values.get("spark.driver.bindAddress") == "127.0.0.1":
            jvm.bind_to_loopback(view)
    if master.startswith("local-cluster"):
        _check_work_dir(view)
    return Driver(settings, conf, jvm.process_id(view))


def _check_work_dir(view: Any) -> None:
    """local-cluster writes its executors' files to $SPARK_HOME/work."""
    home = os.environ.get("SPARK_HOME") or view.java.lang.System.getenv("SPARK_HOME")
    if not home:
        return
    work = Path(os.environ.get("SPARK_WORKER_DIR") or Path(home) / "work")
    probe = work if work.exists() else work.parent
    if not os.access(probe, os.W_OK):
        raise CannotStart(
            f"local-cluster writes to {work}, which this user may not; make it writable or point "
            "SPARK_WORKER_DIR to a folder that is"
        )


class Driver:
    """Owned by the main thread's loop, but for `_supervise`, which runs on the thread `spark`."""

    def __init__(self, settings: SparkSettings, conf: SparkConf, jvm_pid: int) -> None:
        self._settings = settings
        self._conf = conf
        self._jvm_pid = jvm_pid
        self._jvm = -1
        """A descriptor of its process, once it is watched."""
        self._runtime: Any = None
        self._secret = secrets.token_bytes(32)
        self._one_host = conf.get("spark.master", "").startswith("local")
        self._application_id = ""
        self._status = 0
        self._loop: asyncio.AbstractEventLoop
        self._stopping = asyncio.Event()
        self._head: Any = None
        self._console: ConsoleProcess | None = None
        self._jvm_gone = False
        self._only_spark_is_left = False

    async def run(self) -> int:
        """Head first, then the brokers; the exit status once all is stopped. Does not return to
        Python's own shutdown: Spark's threads could hold it up."""
        from pylog_broker.head.head import Head
        from pylog_broker.head.settings import HeadSettings

        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._loop.add_signal_handler(number, self.stop, signal.Signals(number).name)
        self._watch_jvm()
        self._runtime = jvm.runtime()
        guardian = self._start_guardian()
        settings = self._settings
        self._head = Head(
            HeadSettings(
                data_dir=settings.data_dir.replace("{slot}", "driver"),
                brokers=settings.brokers,
                secret=self._secret,
                listen=settings.listen,
                advertised_host=settings.advertised_host,
                allow_plaintext=settings.allow_plaintext,
                config=settings.broker_config,
            )
        )
        try:
            await self._head.start()
        except OSError as error:
            raise CannotStart(
                f"the gateway cannot listen on {settings.listen}: {error.strerror or error}; "
                "set spark.pylog.listen to a free address"
            ) from None
        await self._start_console()
        threading.Thread(target=self._supervise, name="spark", daemon=True).start()
        announce = self._loop.create_task(self._announce())
        await self.until_stopped(self._head)
        announce.cancel()
        last_resort = threading.Timer(STOP_SECONDS_MAX, self._end_now)
        last_resort.daemon = True
        last_resort.start()
        await self._stop_all()
        self._only_spark_is_left = True
        logger.info("stopped")
        sys.stdout.flush()
        sys.stderr.flush()
        # From here on the threads of py4j and pyspark only report that the JVM goes, which it is
        # meant to, and some of them past the log.
        logging.disable(logging.CRITICAL)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        await self._stop_spark()
        # Not sys.exit: Spark's threads could hold Python's own shutdown up. The guardian, which
        # nobody waits for, sees both halves go and goes too.
        del guardian
        os._exit(self._status)

    # ---- starting ------------------------------------------------------------------------------

    def _watch_jvm(self) -> None:
        self._jvm = os.pidfd_open(self._jvm_pid)
        self._loop.add_reader(self._jvm, self._on_jvm_end)

    def _on_jvm_end(self) -> None:
        self._loop.remove_reader(self._jvm)
        self._jvm_gone = True
        self._status = 1
        self.stop("Spark's JVM has ended")

    def _start_guardian(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            guardian_command(self._jvm_pid, os.getpid()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )

    async def _start_console(self) -> None:
        settings = self._settings
        if not settings.console_listen:
            return
        self._console = ConsoleProcess(
            self._head.bootstrap,
            settings.console_listen,
            allow_writes=settings.console_allow_writes,
            allow_plaintext=settings.allow_plaintext,
            host_name=settings.advertised_host,
        )
        try:
            await self._console.start()
        except errors.PylogError as error:
            raise CannotStart(str(error)) from None

    def _supervise(self) -> None:
        """The thread `spark`: the job of N tasks, for as long as the application lives."""
        try:
            jvm.hand_over_signals(self._from_thread(self.stop))
            context = SparkContext.getOrCreate(self._conf)
            self._application_id = context.applicationId or ""
            jvm.watch_tasks(
                context,
                self._from_thread(self._on_task_end),
                self._from_thread(self._on_executor_lost),
            )
            slots = self._settings.brokers
            task = functools.partial(executor.run_task, settings=self._task_settings())
            context.parallelize(range(slots), slots).mapPartitionsWithIndex(task).collect()
            reason = "the broker job has ended"
        except Exception as error:  # noqa: BLE001 - the top of a thread: hand it to the loop
            reason = f"the Spark job failed: {_first_line(error)}"
        self._loop.call_soon_threadsafe(self._on_job_end, reason)

    def _task_settings(self) -> executor.TaskSettings:
        settings = self._settings
        return executor.TaskSettings(
            application_id=self._application_id,
            data_dir=settings.data_dir,
            controller=self._head.inner_address(one_host=self._one_host),
            gateway=self._head.bootstrap,
            secret=self._secret,
            broker_listen=settings.broker_listen,
            replication_listen=settings.replication_listen,
            stream_listen=settings.stream_listen,
            # One name cannot be that of several hosts.
            advertised_host=settings.advertised_host if self._one_host else None,
            allow_plaintext=settings.allow_plaintext,
            config=settings.broker_config,
            executor_memory=executor_memory(dict(self._conf.getAll())),
        )

    def _from_thread(self, callback: Any) -> Any:
        return functools.partial(self._loop.call_soon_threadsafe, callback)

    async def _announce(self) -> None:
        """The ready line; while it does not come, what is missing."""
        wanted = self._settings.brokers
        seconds = self._settings.start_timeout_ms / 1000
        while True:
            try:
                async with asyncio.timeout(seconds):
                    await self._head.all_registered(wanted)
                break
            except TimeoutError:
                self._say_what_is_missing(seconds)
            except errors.KafkaStorageError:
                return  # the metadata log has failed, which ends the driver
        sys.stdout.write(
            f"pylog ready: cluster={self._head.cluster_id} brokers={wanted} "
            f"bootstrap={self._head.bootstrap}{self._console_words()}\n"
        )
        sys.stdout.flush()

    def _console_words(self) -> str:
        return "" if self._console is None else f" console={self._console.address}/"

    def _say_what_is_missing(self, seconds: float) -> None:
        live = sorted(self._head.live_brokers())
        missing = self._settings.brokers - len(live)
        logger.error(
            "after %.0f s %d of %d brokers are registered (ids: %s; known but missing: %s): %d "
            "task slots are missing or their brokers cannot start; see the executors' stderr, and "
            "give Spark as many executors as spark.pylog.brokers",
            seconds,
            len(live),
            self._settings.brokers,
            ", ".join(map(str, live)) or "none",
            ", ".join(map(str, self._head.missing_brokers())) or "none",
            missing,
        )

    # ---- what Spark reports --------------------------------------------------------------------

    def _on_task_end(self, slot: int, attempt: int, status: str, reason: str) -> None:
        if self._stopping.is_set():
            return
        self._head.task_ended(executor.incarnation(self._application_id, slot, attempt))
        fatal = _CANNOT_RUN.search(reason)
        if fatal:
            sys.stderr.write(f"pylog: a broker cannot run: {fatal[1]}\n")
            self._status = 1
            self.stop("a broker cannot run")
        else:
            logger.warning("task %d, attempt %d: %s; Spark restarts it", slot, attempt, status)

    def _on_executor_lost(self, executor_id: str, reason: str) -> None:
        if not self._stopping.is_set():
            logger.warning("executor %s is lost (%s); Spark replaces it", executor_id, reason)

    def _on_job_end(self, reason: str) -> None:
        if not self._stopping.is_set():
            self._status = 1
            self.stop(reason)

    # ---- stopping --------------------------------------------------------------------------------

    def stop(self, why: str) -> None:
        """End everything in order; more calls change nothing."""
        if not self._stopping.is_set():
            logger.info("stopping: %s", why)
            self._stopping.set()

    def _end_now(self) -> None:
        """Both halves, whatever they wait for. On a thread of its own."""
        logger.error("the stop took longer than %.1f s; what is left is ended", STOP_SECONDS_MAX)
        sys.stderr.flush()
        if self._only_spark_is_left:  # which has nothing to lose
            last = threading.Timer(HALT_SECONDS, self._kill)
            last.daemon = True
            last.start()
            jvm.halt(self._runtime, self._status)
        else:
            self._status = self._status or 1
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._jvm, signal.SIGKILL)
        os._exit(self._status)

    async def until_stopped(self, head: Any) -> int:
        """The exit status so far, once the head is to end: it was told to, or its metadata log
        cannot be written, and the next driver goes on from what is durable.
        """
        if await head.serve_until(self._stopping):
            self._status = 1
            self.stop("the metadata log cannot be written")
        return self._status

    async def _stop_all(self) -> None:
        if self._console is not None:
            self._console.stop()
        if self._head is None:
            return
        if not await self._head.stop_cluster(STOP_BROKERS_SECONDS):
            logger.warning("not all brokers ended within %.1f s", STOP_BROKERS_SECONDS)
        await self._head.stop()

    async def _stop_spark(self) -> None:
        """End Spark in order as far as the time allows, then the JVM with our exit status."""
        if self._jvm_gone:
            return
        context = SparkContext._active_spark_context
        if context is not None:
            # Executors that end in the midst of a stop are no news, and fill pages.
            await self._loop.run_in_executor(None, jvm.silence, context)
            stopping = self._loop.run_in_executor(None, context.stop)
            with contextlib.suppress(Exception):
                # Anything that Spark reports at this point changes nothing: its JVM ends next.
                await asyncio.wait_for(asyncio.shield(stopping), STOP_SPARK_SECONDS)
        await self._loop.run_in_executor(None, jvm.halt, self._runtime, self._status)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
