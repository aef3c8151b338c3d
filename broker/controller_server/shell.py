"""Performs what the controller asks for: appends, fsyncs, replies, timers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, assert_never, cast

from pylog.clock import Clock, ticks
from pylog.deadline_timer import DeadlineTimer
from pylog.errors import KafkaStorageError, PylogError
from pylog.model import LeaderEpoch, Offset
from pylog_broker.controller.controller import Controller
from pylog_broker.controller.effects import (
    AppendRecords,
    Effect,
    MetadataAppend,
    Publish,
    RejectSession,
    Reply,
    Report,
    SnapshotDue,
    TellSession,
)
from pylog_broker.controller.metadata_log import MetadataLog
from pylog_broker.controller.metadata_snapshots import SnapshotTask
from pylog_broker.grpc.cluster_service import ClusterService
from pylog_broker.metadata.messages import Failure
from pylog_broker.metrics.counters import Histogram
from pylog_broker.storage.errors import PassingStorageError
from pylog_broker.storage.files import PASSES

_log = logging.getLogger("pylog.controller")


ROOM_RETRY_SECONDS: Final = 0.5


class _Written(NamedTuple):
    """The number of effects that were appended, the last offset of them, and the error that stopped
    the rest."""

    appended: int
    offset: Offset | None
    full: PassingStorageError | None


class ControllerShell:
    """Owns the controller's time, its log and its effects. Lives on the head's loop.

    One thread at a time writes: it appends everything that has queued while the last fsync ran,
    syncs once, and the loop then tells the controller how far it is durable. A snapshot is written
    on another one. A failed write ends the process
    (`failed`): the controller has decided on top of records that are not there. A full disk does
    not: decisions wait, in order, until somebody made room, and administrators are told
    (`no_room`), so that few decisions wait.
    """

    def __init__(
        self,
        controller: Controller,
        log: MetadataLog,
        clock: Clock,
        *,
        on_published: Callable[[], None] = lambda: None,
    ) -> None:
        self.controller = controller
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._changed = asyncio.Event()
        self._on_published = on_published
        self.service: ClusterService | None = None
        self._log = log
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="pylog-metadata")
        self._effects: deque[Effect] = deque()
        self._performing = False
        self._appends: list[MetadataAppend] = []
        self._appended_at: deque[float] = deque()
        self.queue_seconds = Histogram()
        """From a decision to its fsync."""
        self._due_snapshot: SnapshotTask | None = None
        self._snapshot: asyncio.Task[None] | None = None
        self._written_snapshot: SnapshotTask | None = None
        self._unsynced = False  # something was appended since the last sync
        self._writer: asyncio.Task[None] | None = None
        self._timer = DeadlineTimer(self._on_timer)
        self._stopped = False
        self.no_room = ""
        """The reason why nothing can be changed at the moment: the disk is full. Else empty."""
        self._no_room = asyncio.Event()

    async def ask_unless_full(self, call: Callable[[int, object], list[Effect]]) -> Any:
        """As `ask`, but a Failure with KAFKA_STORAGE_ERROR while the disk is full."""
        if self.no_room:
            return Failure(KafkaStorageError.code, f"nothing was changed: {self.no_room}")
        asked = asyncio.ensure_future(self.ask(call))
        full = asyncio.ensure_future(self._no_room.wait())
        try:
            await asyncio.wait((asked, full), return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            why = f"the change waits for room, and is made then: {self.no_room}"
            return Failure(KafkaStorageError.code, why)
        finally:
            full.cancel()
            asked.cancel()

    async def ask(self, call: Callable[[int, object], list[Effect]]) -> Any:
        """The reply to a call of the controller: a response or a Failure."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def reply(response: object) -> None:
            if not future.done():
                future.set_result(response)

        self.perform(call(self._clock.monotonic_ms(), reply))
        return await future

    def perform(self, effects: Sequence[Effect]) -> None:
        """Carry the effects out, in order."""
        if self._stopped:
            return
        self._effects.extend(effects)
        if self._performing:
            return
        self._performing = True
        try:
            while self._effects:
                self._perform_one(self._effects.popleft())
        finally:
            self._performing = False
        if self._appends:
            self._begin_writing()
        if self._due_snapshot is not None and self._snapshot is None:
            self._snapshot = self._loop.create_task(self._write_snapshot())
        self._look_again()

    @property
    def queue_size(self) -> int:
        """Decisions that are not written yet."""
        return len(self._appended_at)

    async def next_change(self) -> None:
        """Wait for a commit or news of a session; KafkaStorageError when none will come."""
        if not self.failed.done():
            self._changed.clear()
            await self._changed.wait()
        if self.failed.done():
            raise KafkaStorageError(self.failed.result())

    async def stop(self) -> None:
        """No effect from now on; appended records are synced and the log is closed."""
        self._stopped = True
        self._timer.cancel()
        if self._snapshot is not None:
            await self._snapshot
        if self._writer is not None:
            await self._writer
        self._log.close()
        self._pool.shutdown()

    def _perform_one(self, effect: Effect) -> None:
        match effect:
            case AppendRecords():
                self._appends.append(effect)
                self._appended_at.append(ticks())
            case Reply(token, response):
                cast(Callable[[object], None], token)(response)
            case Publish():
                self._changed.set()
                self._on_published()
                if self.service is not None:
                    self.service.published()
            case TellSession():
                self._changed.set()
                if self.service is not None:
                    self.service.tell(effect)
            case RejectSession():
                if self.service is not None:
                    self.service.reject(effect)
            case SnapshotDue():
                self._due_snapshot = self._log.snapshot_task(self.controller.image)
            case Report(message, warning):
                _log.log(logging.WARNING if warning else logging.INFO, "%s", message)
            case _:
                assert_never(effect)

    # ---- the log ---------------------------------------------------------------------------------

    def _begin_writing(self) -> None:
        if self._writer is None:
            self._writer = self._loop.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._appends or self._written_snapshot or self._unsynced:
                if self._written_snapshot is not None:
                    task, self._written_snapshot = self._written_snapshot, None
                    await self._loop.run_in_executor(self._pool, self._settle_snapshot, task)
                    continue
                appends, self._appends = self._appends, []
                epoch = LeaderEpoch(self.controller.controller_epoch)
                written = await self._loop.run_in_executor(self._pool, self._append, appends, epoch)
                now = ticks()
                for _ in range(written.appended):
                    self.queue_seconds.observe(now - self._appended_at.popleft())
                if written.offset is not None and not self._stopped:
                    now_ms = self._clock.monotonic_ms()
                    self.perform(self.controller.on_committed(now_ms, written.offset))
                self._appends = appends[written.appended :] + self._appends
                self._note_room(written.full)
                if written.full is not None:
                    if self._stopped:
                        return
                    await asyncio.sleep(ROOM_RETRY_SECONDS)
        except Exception as error:  # noqa: BLE001  the top of a task: the process ends
            self._stopped = True
            if isinstance(error, OSError | PylogError):
                _log.error("the metadata log cannot be written: %s; the controller ends", error)
            else:
                _log.exception("a defect of the controller; it ends")
            if not self.failed.done():
                self.failed.set_result(str(error) or repr(error))
                self._changed.set()
        finally:
            self._writer = None

    def _append(self, appends: list[MetadataAppend], epoch: LeaderEpoch) -> _Written:
        count, offset, full = 0, None, None
        for effect in appends:
            try:
                self._log.append(effect, epoch=epoch, wall_ms=self._clock.wall_ms())
            except PassingStorageError as error:
                full = error
                break
            count += 1
        self._unsynced = self._unsynced or count > 0
        if self._unsynced:
            try:
                offset = self._log.flush()
                self._unsynced = False
            except PassingStorageError as error:
                full = error
        return _Written(count, offset, full)

    def _note_room(self, full: PassingStorageError | None) -> None:
        if full is not None:
            if not self.no_room:
                _log.error("%s; until then nothing can be changed", full)
            self.no_room = str(full)
            self._no_room.set()
        elif self.no_room:
            _log.warning("the metadata log can be written again: changes go on")
            self.no_room = ""
            self._no_room.clear()

    async def _write_snapshot(self) -> None:
        """Beside the writer, which takes up what is written: appends and syncs go on meanwhile."""
        while self._due_snapshot is not None and not self._stopped:
            task, self._due_snapshot = self._due_snapshot, None
            await self._loop.run_in_executor(self._pool, task.run)
            if not self._stopped:
                self._written_snapshot = task
                self._begin_writing()
        self._snapshot = None

    def _settle_snapshot(self, task: SnapshotTask) -> None:
        """Without a snapshot the next start only reads more of the log."""
        try:
            self._log.on_snapshot(task)
        except (OSError, PassingStorageError) as error:
            if isinstance(error, OSError) and error.errno not in PASSES:
                raise
            _log.warning("no snapshot of the metadata is written now: %s", error)

    # ---- time ------------------------------------------------------------------------------------

    def _look_again(self) -> None:
        """Set the timer to the controller's next deadline."""
        if not self._stopped:
            now_ms = self._clock.monotonic_ms()
            self._timer.set(self._loop, now_ms, self.controller.next_deadline_ms)

    def _on_timer(self) -> None:
        self.perform(self.controller.on_time(self._clock.monotonic_ms()))
