"""The driver's requests to its JVM: loopback only, signals handed over, task ends reported.

Everything here goes through py4j to the Spark driver's JVM. `typing.Any` stands for Java objects.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

logger = logging.getLogger("pylog.spark.jvm")


def start_jvm() -> Any:
    """The JVM's root view, before there is a SparkContext (and so before it binds anything)."""
    SparkContext._ensure_initialized()
    return SparkContext._jvm


def process_id(jvm: Any) -> int:
    """The JVM's process id."""
    return int(jvm.java.lang.ProcessHandle.current().pid())


def bind_to_loopback(jvm: Any) -> None:
    """Makes Spark's own servers (RPC, block manager, local-cluster's masters and workers) bind to
    127.0.0.1.

    Spark takes that from the environment variable SPARK_LOCAL_IP only, and by the time this file
    runs spark-submit has started the JVM. So the variable is put into the JVM's copy of its
    environment, from where executors inherit it too. The log names a JVM that does not allow it;
    then only the variable in the user's own shell helps.
    """
    utils = jvm.org.apache.spark.util.Utils
    utils.setCustomHostname("127.0.0.1")
    try:
        read_only = _static_field(jvm, "java.lang.ProcessEnvironment", "theUnmodifiableEnvironment")
        inner = jvm.java.lang.Class.forName(
            "java.util.Collections$UnmodifiableMap"
        ).getDeclaredField("m")
        inner.setAccessible(True)
        inner.get(read_only).put("SPARK_LOCAL_IP", "127.0.0.1")
    except Exception as error:  # noqa: BLE001 - whatever a JVM throws
        logger.warning(
            "could not confine Spark's web ports to loopback (%s); "
            "set SPARK_LOCAL_IP=127.0.0.1 in the environment of spark-submit",
            type(error).__name__,
        )


def _static_field(jvm: Any, class_name: str, field_name: str) -> Any:
    field = jvm.java.lang.Class.forName(class_name).getDeclaredField(field_name)
    field.setAccessible(True)
    return field.get(None)


class _SignalHandler:
    """A `sun.misc.SignalHandler` whose work is done in Python."""

    def __init__(self, on_signal: Callable[[str], None]) -> None:
        self._on_signal = on_signal

    def handle(self, java_signal: Any) -> None:
        self._on_signal(f"SIG{java_signal.getName()} to the JVM")

    class Java:
        implements = ("sun.misc.SignalHandler",)


class _TaskListener:
    """A Spark listener that hears of ended tasks and lost executors; all else passes by."""

    def __init__(
        self,
        on_task_end: Callable[[int, int, str, str], None],
        on_executor_lost: Callable[[str, str], None],
    ) -> None:
        self._on_task_end = on_task_end
        self._on_executor_lost = on_executor_lost

    def onTaskEnd(self, event: Any) -> None:
        info = event.taskInfo()
        reason = event.reason().toString()
        self._on_task_end(info.index(), info.attemptNumber(), info.status(), reason)

    def onExecutorRemoved(self, event: Any) -> None:
        self._on_executor_lost(event.executorId(), event.reason())

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on"):
            return _pass_by
        raise AttributeError(name)

    class Java:
        implements = ("org.apache.spark.scheduler.SparkListenerInterface",)


def _pass_by(*_: Any) -> None:
    return None


def hand_over_signals(on_signal: Callable[[str], None]) -> None:
    """SIGTERM and SIGINT to the JVM call `on_signal` instead of tearing Spark down at once.

    Ctrl-C reaches the JVM as well as Python. Its default would kill the executors before brokers
    can flush; the Python half decides, and the guardian makes sure that the JVM ends with it.
    """
    _start_callbacks()
    jvm: Any = SparkContext._jvm
    for name in ("TERM", "INT"):
        # A signal that was ignored when the JVM started (a job in a script's background) it keeps
        # to itself: then nobody sends it either.
        with contextlib.suppress(Py4JError):
            jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal(name), _SignalHandler(on_signal))


def silence(context: SparkContext) -> None:
    """Nothing more of Spark's reaches standard error: neither by its log nor past it, as Scala's
    thread pools print what they cannot run any more.
    """
    context.setLogLevel("OFF")
    java: Any = context._jvm
    java.java.lang.System.setErr(
        java.java.io.PrintStream(java.java.io.OutputStream.nullOutputStream())
    )


def runtime() -> Any:
    """The JVM's `Runtime`. Looking it up takes half a dozen calls, which `halt` has no time for."""
    jvm: Any = SparkContext._jvm
    return jvm.java.lang.Runtime.getRuntime()


def halt(runtime: Any, status: int) -> None:
    """Ends the JVM at once, with this exit status; what it held open, the system closes."""
    with contextlib.suppress(Py4JError, OSError):  # it dies before it can answer
        runtime.halt(status)


def watch_tasks(
    context: SparkContext,
    on_task_end: Callable[[int, int, str, str], None],
    on_executor_lost: Callable[[str, str], None],
) -> None:
    """Report each ended task and each lost executor, on py4j's thread.

    Tasks as `(slot, attempt, status, reason)`, executors as `(executor id, reason)`.
    """
    _start_callbacks()
    scala_context: Any = context._jsc.sc()
    scala_context.addSparkListener(_TaskListener(on_task_end, on_executor_lost))


def _start_callbacks() -> None:
    from pyspark import java_gateway

    gateway: Any = java_gateway
    gateway.ensure_callback_server_started(SparkContext._gateway)
