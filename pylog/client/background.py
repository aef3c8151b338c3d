"""The one asyncio loop, in one daemon thread, that all client objects of a process share.

One, not one per object: gRPC's asyncio layer has a single poller per process and wakes every loop
at each event, so a second loop costs both of them. Users' callbacks run on this thread; they must
be short, and must not wait for pylog itself.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, Protocol, TypeVar

from pylog import errors
from pylog.client.callers import kept_waiting

logger = logging.getLogger("pylog.client")

AFTER_DEFECT_MS: Final = 1_000
"""A client whose step has failed by a defect looks again then: one that comes each time keeps no
processor busy.
"""

T = TypeVar("T")


class _Closeable(Protocol):
    def _close_at_exit(self) -> None: ...
    def _on_fork(self) -> None:
        """This process is a fork of the one that made the client, which has its loop. Take no lock:
        a thread that is not here may hold it.
        """


class LoopThread:
    """A running asyncio loop (uvloop) and its thread."""

    def __init__(self) -> None:
        import uvloop

        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self.pid = os.getpid()
        self.ended = False  # with the program; nothing would run any more
        self._thread = threading.Thread(target=self._run, name="pylog-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def closed(self, client: str) -> errors.ClientClosed:
        """The error for the use of a closed client, or in a forked child of its parent's client."""
        if self.pid != os.getpid():
            return errors.ClientClosed(
                f"{client} belongs to process {self.pid}, which forked this one: use it there"
            )
        return errors.ClientClosed(f"{client} is closed")

    def check_here(self, client: str) -> None:
        """ClientClosed in a forked child, which has not this loop."""
        if self.pid != os.getpid():
            raise self.closed(client)

    def check_runs(self) -> None:
        """ClientClosed when the program ends and has closed all clients."""
        if self.ended:
            raise errors.ClientClosed(
                "the program ends, and has closed all of pylog's clients: an atexit handler that "
                "needs one is registered after the first client was made, so as to run before that"
            )

    def is_current(self) -> bool:
        """Whether the caller runs on the loop's thread (in a callback of ours)."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Run `function` on the loop soon."""
        self.loop.call_soon_threadsafe(function, *args)

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; the future is for other threads. ClientClosed when the
        program ends.
        """
        if self.ended:
            coroutine.close()
        self.check_runs()
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it. The coroutine bounds its own time.

        ClientClosed when the client was closed meanwhile, by another thread; asyncio's
        CancelledError when the caller gave up.
        """
        if self.is_current():
            coroutine.close()
            raise errors.WrongThread(
                "a blocking call inside a callback: it would wait for the thread that it runs on; "
                "make the call from another thread"
            )
        future = self.start(coroutine)
        try:
            with kept_waiting(future.cancel):
                try:
                    return future.result()
                except CancelledError:
                    closed = "the client was closed while the call waited"
                    raise errors.ClientClosed(closed) from None
        except BaseException:
            future.cancel()  # Ctrl-C, or the caller gave up: nobody waits for it any more
            raise

    def stop(self) -> None:
        """End the loop and its thread."""
        self.ended = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=2.0)


_lock = threading.Lock()
_shared: LoopThread | None = None
_open: weakref.WeakSet[Any] = weakref.WeakSet()


def shared_loop() -> LoopThread:
    """The process's loop thread, started at the first call.

    Raises ForkedProcess where the process that forked this one had started it, and ClientClosed
    when the program ends.
    """
    global _shared
    with _lock:
        if _shared is None:
            _shared = LoopThread()
            atexit.register(_at_exit)
        if _shared.pid != os.getpid():
            raise errors.ForkedProcess(
                f"this process was forked from one that has had pylog clients (process "
                f"{_shared.pid}), and gRPC does not outlive a fork; start it by "
                f'multiprocessing.get_context("spawn"), or fork it before the first client is made'
            )
        _shared.check_runs()
        return _shared


def on_loop_thread() -> bool:
    """Whether the caller is one of our callbacks, which must not wait for us."""
    return _shared is not None and _shared.is_current()


def log_or_raise(error: BaseException, what: str) -> None:
    """Log what a user's callback has raised. SystemExit and KeyboardInterrupt go on, but not on our
    thread: they would end its loop, and every client of the process would wait for ever.
    """
    if not isinstance(error, Exception) and not on_loop_thread():
        raise error
    logger.error(what, exc_info=error)


def as_defect(error: Exception, what: str) -> errors.UnknownServerError:
    """The error for the user where something of ours raised what nobody expects: a defect, or a
    lack of memory. It is logged, with its place.
    """
    logger.error("%s failed by a defect of this client", what, exc_info=error)
    defect = errors.UnknownServerError(f"{what} failed by a defect of this client: {error!r}")
    defect.__cause__ = error
    return defect


def close_at_exit(client: _Closeable) -> None:
    """Have the client closed when the interpreter ends, unless it is gone by then."""
    _open.add(client)


def _in_forked_child() -> None:
    global _lock
    _lock = threading.Lock()
    for client in list(_open):
        client._on_fork()
    _open.clear()


os.register_at_fork(after_in_child=_in_forked_child)


def _at_exit() -> None:
    if _shared is None or _shared.pid != os.getpid():
        return
    for client in list(_open):
        try:
            client._close_at_exit()
        except errors.PylogError as error:
            logger.warning("a client was not closed before the program ended: %s", error)
        except Exception:
            logger.exception("a client could not be closed when the program ended")
    _shared.stop()
