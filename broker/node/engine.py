"""Performs what the replica manager asks for: the only place where its effects meet the world."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, assert_never, cast

from pylog.clock import Clock, ticks
from pylog.deadline_timer import DeadlineTimer
from pylog.model import TopicId
from pylog_broker.kafka.client import LeaderConnections
from pylog_broker.metadata.messages import AlterPartition, PartitionsAltered
from pylog_broker.metrics.counters import Histogram
from pylog_broker.node.skew import SkewWatch
from pylog_broker.replication.effects import (
    ColdRead,
    DeleteRecordsDone,
    DeleteReplicaLater,
    Effect,
    FetchDone,
    FetchStands,
    HighWatermarkMoved,
    InternalAppended,
    InternalRead,
    LeadershipBegan,
    LeadershipEnded,
    LocalReadEnded,
    LocalReadsOpened,
    OffsetsListed,
    OperationFailed,
    ProduceDone,
    RangesSplit,
    RangeTransactionsDescribed,
    RecordsArrived,
    ReplicaFailed,
    ReplicaFetchDone,
    SendAlterPartition,
    SendReplicaFetch,
    SyncLog,
    WriteLogStarts,
)
from pylog_broker.replication.replica_fetch_messages import ReplicaFetched

if TYPE_CHECKING:
    from pylog_broker.replication.leaderships import LeadershipListener
    from pylog_broker.replication.manager import ReplicaManager
    from pylog_broker.storage.segments.flush_task import FlushTask

_log = logging.getLogger("pylog.node")

_Rare = (
    SendAlterPartition
    | ColdRead
    | SyncLog
    | WriteLogStarts
    | DeleteRecordsDone
    | OffsetsListed
    | RangesSplit
    | RangeTransactionsDescribed
    | RecordsArrived
    | LocalReadsOpened
    | LocalReadEnded
    | InternalRead
    | InternalAppended
    | DeleteReplicaLater
    | ReplicaFailed
    | OperationFailed
    | LeadershipBegan
    | LeadershipEnded
    | HighWatermarkMoved
)
"""Effects that are not performed in `Engine.perform` itself."""

Answer = Callable[[object], None]
"""The token that edges give."""


def _tell(
    listener: LeadershipListener, effect: LeadershipBegan | LeadershipEnded | HighWatermarkMoved
) -> None:
    match effect:
        case LeadershipBegan():
            listener.on_leadership_began(effect)
        case LeadershipEnded():
            listener.on_leadership_ended(effect)
        case HighWatermarkMoved():
            listener.on_high_watermark_moved(effect)


class Engine:
    """Owns the manager's time and its effects. Lives on the broker's loop.

    Effects are performed in order. Effects that they cause at once (an answer that wakes a client,
    which asks again) are queued behind them, so the manager is never called from within a call.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        clock: Clock,
        pool: Executor,
        *,
        alter_partition: Callable[[AlterPartition], Awaitable[PartitionsAltered | None]],
        remove_directory: Callable[[str], None],
        report_failed: Callable[[TopicId, int, str], None],
        on_fault: Callable[[str], None],
    ) -> None:
        """`report_failed`: tell the controller of a replica, and why. `on_fault`: the broker cannot
        go on, and why.
        """
        self.manager = manager
        self.connections: LeaderConnections | None = None
        self.leaderships: LeadershipListener | None = None
        """The one that hears of the internal partitions led here; set before the first metadata."""
        self.local_read_ended: Callable[[int, str], None] | None = None
        """The one that tells holders of local reads; set before the first of them."""
        self._clock = clock
        self._pool = pool
        self._alter_partition = alter_partition
        self._remove_directory = remove_directory
        self._report_failed = report_failed
        self._on_fault = on_fault
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Effect] = deque()
        self._performing = False
        self._timer = DeadlineTimer(self._on_timer)
        self._deletions: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self.replication_bytes_in = 0
        """Bytes of batches that leaders have sent."""
        self.skew = SkewWatch()
        self.cold_reads = 0
        self.flush_seconds = Histogram()
        """The time that syncs of logs took, with their wait for a thread."""

    def perform(self, effects: Sequence[Effect]) -> None:
        """Carry the effects out, in order, and set the timer for what comes next.

        After `stop` nobody is left to whom an effect would matter.
        """
        if self._stopped:
            return
        self._queue.extend(effects)
        if self._performing:
            return
        self._performing = True
        queue = self._queue
        try:
            while queue:
                effect = queue.popleft()
                if isinstance(effect, (ProduceDone, FetchDone, ReplicaFetchDone)):  # nearly all are
                    answer: Any = effect[0]
                    answer(effect[1])
                elif isinstance(effect, FetchStands):
                    standing: Any = effect[0]
                    standing.stands(effect[1])
                elif isinstance(effect, SendReplicaFetch):
                    self._send_fetch(effect)
                else:
                    self._perform_one(effect)
        finally:
            self._performing = False
        if not self._stopped:
            now_ms = self._clock.monotonic_ms()
            self._timer.set(self._loop, now_ms, self.manager.next_deadline_ms)

    def tell(self, event: Callable[[int], Sequence[Effect]]) -> None:
        """Let the manager hear of something at this time, and carry out what it makes of that.

        After `stop` it hears nothing: the session goes on, and with it metadata come, while the
        logs belong to the thread that closes them.
        """
        if not self._stopped:
            self.perform(event(self._clock.monotonic_ms()))

    def stop(self) -> None:
        """No timer, no request, no answer, no news from now on. Work on threads goes on."""
        self._stopped = True
        self._timer.cancel()
        for timer in self._deletions.values():
            timer.cancel()
        self._deletions.clear()
        for task in self._tasks:
            task.cancel()

    def _perform_one(self, effect: _Rare) -> None:
        match effect:
            case SendAlterPartition():
                self._spawn(self._alter(effect))
            case ColdRead():
                self._spawn(self._read(effect))
            case SyncLog():
                self._spawn(self._sync(effect))
            case WriteLogStarts():
                self._spawn(self._write_starts(effect))
            case (
                DeleteRecordsDone(token, answer)
                | OffsetsListed(token, answer)
                | RangesSplit(token, answer)
                | RangeTransactionsDescribed(token, answer)
                | RecordsArrived(token, answer)
                | LocalReadsOpened(token, answer)
                | InternalRead(token, answer)
                | InternalAppended(token, answer)
            ):
                cast(Answer, token)(answer)
            case LocalReadEnded(read_id, cause):
                if self.local_read_ended is not None:
                    self.local_read_ended(read_id, cause)
            case DeleteReplicaLater(directory, delay_ms):
                timer = self._loop.call_later(delay_ms / 1000, self._delete, directory)
                self._deletions[directory] = timer
            case ReplicaFailed():
                self._on_replica_failed(effect)
            case OperationFailed():
                _log.error(
                    "a defect of the broker ended a waiting request with an error: %s",
                    effect.reason,
                    exc_info=effect.error,
                )
            case LeadershipBegan() | LeadershipEnded() | HighWatermarkMoved():
                if self.leaderships is not None:
                    _tell(self.leaderships, effect)
            case _:
                assert_never(effect)

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a background step of the broker failed", exc_info=error)
            self._on_fault(f"unexpected error: {error!r}")

    # ---- requests to other processes -------------------------------------------------------------

    def _send_fetch(self, effect: SendReplicaFetch) -> None:
        def done(fetched: ReplicaFetched | None) -> None:
            if fetched is not None:
                for item in fetched.partitions:
                    self.replication_bytes_in += len(item.records)
            if not self._stopped:
                clock = self._clock
                self.perform(
                    self.manager.on_replica_fetched(
                        clock.monotonic_ms(),
                        clock.wall_ms(),
                        effect.leader,
                        effect.request_id,
                        fetched,
                    )
                )

        if self.connections is None:
            self._loop.call_soon(done, None)
        else:
            self.connections.fetch(effect.leader, effect.request, done)

    async def _alter(self, effect: SendAlterPartition) -> None:
        answer = await self._alter_partition(effect.request)
        if not self._stopped:
            now_ms = self._clock.monotonic_ms()
            self.perform(self.manager.on_partitions_altered(now_ms, effect.request_id, answer))

    # ---- disk ------------------------------------------------------------------------------------

    async def _read(self, effect: ColdRead) -> None:
        self.cold_reads += 1
        await self._loop.run_in_executor(self._pool, cast(Callable[[], object], effect.read))
        if not self._stopped:
            self.perform(self.manager.on_cold_read(self._clock.monotonic_ms(), effect))

    async def _sync(self, effect: SyncLog) -> None:
        await self.flush(effect.task)
        if not self._stopped:
            self.perform(self.manager.on_synced(self._clock.monotonic_ms(), effect))

    async def flush(self, task: FlushTask) -> None:
        """Have the pool run it."""
        begun = ticks()
        await self._loop.run_in_executor(self._pool, task.run)
        self.flush_seconds.observe(ticks() - begun)

    async def _write_starts(self, effect: WriteLogStarts) -> None:
        await self._loop.run_in_executor(self._pool, effect.task.run)
        if not self._stopped:
            now_ms = self._clock.monotonic_ms()
            self.perform(self.manager.on_log_starts_written(now_ms, effect))

    def delete_at_once(self, root: str) -> None:
        """Replicas below that log directory that wait for their deletion wait no longer."""
        for directory in [path for path in self._deletions if path.startswith(f"{root}/")]:
            self._deletions[directory].cancel()
            self._delete(directory)

    def _delete(self, directory: str) -> None:
        del self._deletions[directory]
        if not self._stopped:
            self._spawn(self._remove(directory))

    async def _remove(self, directory: str) -> None:
        try:
            await self._loop.run_in_executor(self._pool, self._remove_directory, directory)
        except OSError as error:
            _log.warning("%s of a deleted topic could not be removed: %s", directory, error)

    def _on_replica_failed(self, effect: ReplicaFailed) -> None:
        level = logging.DEBUG if effect.directory_failed else logging.ERROR
        _log.log(level, "replica %s went offline: %s", effect.topic_partition, effect.reason)
        if effect.topic_id is not None:
            partition = effect.topic_partition.partition
            self._report_failed(effect.topic_id, partition, effect.reason)

    # ---- time ------------------------------------------------------------------------------------

    def _on_timer(self) -> None:
        clock = self._clock
        self.perform(self.manager.on_time(clock.monotonic_ms(), clock.wall_ms()))
