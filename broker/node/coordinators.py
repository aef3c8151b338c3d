"""Coordinators over the logs of this broker: the shell of a `CoordinatorRuntime`."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final, Generic, TypeVar

from pylog import errors
from pylog.clock import Clock
from pylog.deadline_timer import DeadlineTimer
from pylog.model import LeaderEpoch, TopicPartition
from pylog_broker.coordinator.runtime.decision import (
    Codec,
    Coordinator,
    Decision,
    Record,
    Reply,
    RequestId,
)
from pylog_broker.coordinator.runtime.log_batches import batch_of, slice_of
from pylog_broker.coordinator.runtime.runtime import (
    CoordinatorRuntime,
    Defect,
    RuntimeEffect,
    Sent,
    ShardFailed,
    ShardLoaded,
)
from pylog_broker.coordinator.runtime.shard import Append, Operation, ReadLog
from pylog_broker.metadata.messages import Failure
from pylog_broker.metrics.counters import Histogram
from pylog_broker.node.engine import Engine
from pylog_broker.replicated.state_machine import LogSlice
from pylog_broker.replication.effects import HighWatermarkMoved, LeadershipBegan, LeadershipEnded
from pylog_broker.replication.internal_messages import AppendInternal, InternalData, ReadInternal
from pylog_broker.replication.leaderships import LeadershipListener

SLICE_BYTES: Final = 256 * 1024
"""The bytes of a log that are read and replayed at a time: some 3,000 committed offsets, 15 ms of
the loop."""
SMALL_SLICE_BYTES: Final = 8 * 1024
"""So much is decoded at once: to have a thread do it takes longer."""
SLOW_LOAD_MS: Final = 1_000
"""A load that takes so long is worth a line: its groups have waited."""

_log = logging.getLogger("pylog.coordinator")

CoordinatorT = TypeVar("CoordinatorT", bound=Coordinator)


class Coordinators:
    """Hears of all internal partitions led here, and tells each topic's shell of its own."""

    def __init__(self, shells: Mapping[str, LeadershipListener]) -> None:
        self._shells = shells

    def on_leadership_began(self, began: LeadershipBegan) -> None:
        """This broker leads an internal partition."""
        if shell := self._shells.get(began.topic_partition.topic):
            shell.on_leadership_began(began)

    def on_leadership_ended(self, ended: LeadershipEnded) -> None:
        """It does not any more."""
        if shell := self._shells.get(ended.topic_partition.topic):
            shell.on_leadership_ended(ended)

    def on_high_watermark_moved(self, moved: HighWatermarkMoved) -> None:
        """More of a partition is committed."""
        if shell := self._shells.get(moved.topic_partition.topic):
            shell.on_high_watermark_moved(moved)


class CoordinatorShell(Generic[CoordinatorT]):
    """Reads, appends and keeps time for all shards of one internal topic. Lives on the loop.

    Decisions of one turn of the loop are appended at its end. A reply leaves in the turn in which
    the high watermark moves; the replica manager is asked for more in a later one, as it must not
    be called from within.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[CoordinatorT],
        codec: Codec,
        engine: Engine,
        clock: Clock,
        pool: Executor,
        *,
        on_sent: Callable[[Sent], None] | None = None,
    ) -> None:
        """`on_sent`: does what coordinators want done, of which a shard needs to know nothing
        before it tells.
        """
        self.runtime = runtime
        self._on_sent = on_sent
        self._codec = codec
        self._engine = engine
        self._clock = clock
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._timer = DeadlineTimer(self._on_timer)
        self._waiting: dict[RequestId, asyncio.Future[Any]] = {}
        self._last_request = RequestId(0)
        self._for_log: deque[Append | ReadLog] = deque()
        self._turn_is_due = False
        self._decoding: set[asyncio.Task[None]] = set()
        self._stopped = False
        self.load_seconds = Histogram()
        self.failures = 0
        """The number of times that a shard began again, because of its log or of a defect."""

    # ---- requests --------------------------------------------------------------------------------

    async def call(
        self,
        number: int,
        operation: Callable[[CoordinatorT, RequestId, int], Decision],
        *,
        timeout_ms: int | None = None,
    ) -> Any:
        """The reply of the shard of that partition; raises the error that it is."""
        self._refuse_if_unwritable(number)
        self._last_request = request_id = RequestId(self._last_request + 1)
        wall_ms = self._clock.wall_ms()

        def decide(coordinator: CoordinatorT) -> Decision:
            return operation(coordinator, request_id, wall_ms)

        answer = self._waiting[request_id] = self._loop.create_future()
        try:
            now_ms = self._clock.monotonic_ms()
            self._perform(
                self.runtime.run(now_ms, number, request_id, decide, timeout_ms=timeout_ms)
            )
            return await answer
        finally:
            del self._waiting[request_id]

    def _refuse_if_unwritable(self, number: int) -> None:
        """A decision that cannot be written costs a shard all who wait at it."""
        if self._stopped:
            raise errors.CoordinatorNotAvailable("the broker stops")
        name = TopicPartition(self.runtime.topic, number)
        refusal = self._engine.manager.internal_refusal(name)
        if refusal is not None:
            raise errors.CoordinatorNotAvailable(refusal.message)

    def tell(self, operation: Operation[CoordinatorT]) -> None:
        """Let every shard here hear of something."""
        if not self._stopped:
            self._perform(self.runtime.tell(self._clock.monotonic_ms(), operation))

    def tell_shard(
        self, number: int, epoch: LeaderEpoch, operation: Callable[[CoordinatorT, int], Decision]
    ) -> None:
        """Likewise the shard of that partition, as long as it decides in that epoch."""
        if self._stopped:
            return
        clock = self._clock
        now_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
        self._perform(
            self.runtime.tell_one(
                now_ms, number, epoch, lambda coordinator: operation(coordinator, wall_ms)
            )
        )

    def stop(self) -> None:
        """Nothing is decided, read or written any more; requests that wait are refused."""
        self._stopped = True
        self._timer.cancel()
        self._for_log.clear()
        for task in self._decoding:
            task.cancel()
        for request_id in list(self._waiting):
            self._answer(Reply(request_id, errors.CoordinatorNotAvailable("the broker stops")))

    # ---- what the replica manager tells ----------------------------------------------------------

    def on_leadership_began(self, began: LeadershipBegan) -> None:
        """This broker leads a partition of the topic."""
        number, now_ms = began.topic_partition.partition, self._clock.monotonic_ms()
        self._perform(self.runtime.on_leadership_began(now_ms, number, began.leader_epoch))
        self._perform(self.runtime.on_high_watermark(number, began.high_watermark))

    def on_leadership_ended(self, ended: LeadershipEnded) -> None:
        """It does not any more."""
        self._perform(self.runtime.on_leadership_ended(ended.topic_partition.partition))

    def on_high_watermark_moved(self, moved: HighWatermarkMoved) -> None:
        """More of a partition is committed."""
        number = moved.topic_partition.partition
        self._perform(self.runtime.on_high_watermark(number, moved.offset))

    # ---- effects ---------------------------------------------------------------------------------

    def _perform(self, effects: Iterable[RuntimeEffect]) -> None:
        if self._stopped:
            return
        self._take_up(effects)
        if not self._turn_is_due:
            self._turn_is_due = True
            self._loop.call_soon(self._turn)

    def _take_up(self, effects: Iterable[RuntimeEffect]) -> None:
        for effect in effects:
            match effect:
                case Reply():
                    self._answer(effect)
                case Append() | ReadLog():
                    self._for_log.append(effect)
                case Sent():
                    assert self._on_sent is not None, effect
                    self._on_sent(effect)
                case ShardLoaded(name, epoch, since_ms):
                    took_ms = self._clock.monotonic_ms() - since_ms
                    self.load_seconds.observe(took_ms / 1000)
                    level = logging.INFO if took_ms >= SLOW_LOAD_MS else logging.DEBUG
                    _log.log(level, "%s is loaded in %d ms, epoch %d", name, took_ms, epoch)
                case ShardFailed(name, _, error):
                    self.failures += 1
                    _log.warning("%s is read again, as it failed: %s", name, error)
                case Defect(name, error):
                    self.failures += 1
                    _log.error("a defect of the coordinator of %s", name, exc_info=error)

    def _answer(self, reply: Reply) -> None:
        answer = self._waiting.get(reply.request_id)
        if answer is None or answer.done():  # nobody waits any more
            return
        if isinstance(reply.response, errors.PylogError):
            answer.set_exception(reply.response)
        else:
            answer.set_result(reply.response)

    def _turn(self) -> None:
        """The end of a turn of the loop: the decisions of the turn leave."""
        self._turn_is_due = False
        if self._stopped:
            return
        if self.runtime.must_flush:
            self._take_up(self.runtime.flush())
        while self._for_log:
            effect = self._for_log.popleft()
            if isinstance(effect, Append):
                self._append(effect)
            else:
                self._read(effect)
        now_ms = self._clock.monotonic_ms()
        self._timer.set(self._loop, now_ms, self.runtime.next_deadline_ms)

    def _append(self, effect: Append) -> None:
        clock = self._clock
        wall_ms = clock.wall_ms()
        request = AppendInternal(
            effect.topic_partition,
            effect.epoch,
            effect.first_offset,
            batch_of(effect, wall_ms),
        )
        manager = self._engine.manager
        token = partial(self._on_appended, effect)
        self._engine.tell(lambda now_ms: manager.append_internal(now_ms, wall_ms, request, token))

    def _on_appended(self, append: Append, failure: Failure | None) -> None:
        if failure is not None:
            number, now_ms = append.topic_partition.partition, self._clock.monotonic_ms()
            error = errors.from_code(failure.code, failure.message)
            self._perform(self.runtime.on_append_failed(now_ms, number, append.epoch, error))

    def _read(self, effect: ReadLog) -> None:
        manager = self._engine.manager
        request = ReadInternal(effect.topic_partition, effect.epoch, effect.offset, SLICE_BYTES)
        token = partial(self._on_read, effect)
        self._engine.tell(lambda now_ms: manager.read_internal(now_ms, request, token))

    def _on_read(self, read: ReadLog, data: InternalData) -> None:
        if data.failure is not None:
            error = errors.from_code(data.failure.code, data.failure.message)
            self._failed(read, error)
            return
        if data.lost is not None:
            _log.error(
                "%s has rotted from offset %d to %d; its coordinator goes on without it",
                read.topic_partition,
                data.lost,
                data.next_offset,
            )
        if len(data.records) <= SMALL_SLICE_BYTES:
            self._replay(read, data, self._decoded(read, data))
            return
        task = self._loop.create_task(self._decode(read, data))
        self._decoding.add(task)
        task.add_done_callback(self._decoding.discard)

    async def _decode(self, read: ReadLog, data: InternalData) -> None:
        decoded = await self._loop.run_in_executor(self._pool, self._decoded, read, data)
        self._replay(read, data, decoded)

    def _decoded(self, read: ReadLog, data: InternalData) -> LogSlice[Record] | errors.PylogError:
        offset = read.offset
        try:
            return slice_of(
                data.records, read.topic_partition, offset, data.next_offset, self._codec
            )
        except errors.PylogError as error:
            return error

    def _replay(
        self,
        read: ReadLog,
        data: InternalData,
        decoded: LogSlice[Record] | errors.PylogError,
    ) -> None:
        if isinstance(decoded, errors.PylogError):
            self._failed(read, decoded)
            return
        clock, number = self._clock, read.topic_partition.partition
        self._perform(
            self.runtime.on_read(
                clock.monotonic_ms(), clock.wall_ms(), number, read.epoch, decoded, data.end_offset
            )
        )

    def _failed(self, read: ReadLog, error: errors.PylogError) -> None:
        number, now_ms = read.topic_partition.partition, self._clock.monotonic_ms()
        self._perform(self.runtime.on_read_failed(now_ms, number, read.epoch, error))

    # ---- time ------------------------------------------------------------------------------------

    def _on_timer(self) -> None:
        clock = self._clock
        self._perform(self.runtime.on_time(clock.monotonic_ms(), clock.wall_ms()))
