"""All shards of one kind of coordinator that this broker leads, with their time. Pure.

Events in, effects out, as everywhere: the shell reads and appends, tells high watermarks, and calls
`flush` at the end of a turn of its loop in which anything was decided. An effect that fails comes
back as an event that names the partition and the epoch; one of an earlier epoch is not heard.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from struct import iter_unpack
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from pylog.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    PylogError,
    UnknownServerError,
)
from pylog.model import LeaderEpoch, Offset, TopicPartition
from pylog_broker.coordinator.runtime.decision import (
    CancelTimer,
    Codec,
    Coordinator,
    Record,
    Reply,
    RequestId,
    Send,
    SetTimer,
)
from pylog_broker.coordinator.runtime.shard import (
    Append,
    Leaving,
    Operation,
    ReadLog,
    Shard,
    ShardPhase,
)
from pylog_broker.delayed.timing_wheel import TimerEntry, TimingWheel
from pylog_broker.replicated.state_machine import LogSlice

RELOAD_AFTER_MS: Final = 200
"""The time for which a shard that failed rests before its log is read again."""

CoordinatorT = TypeVar("CoordinatorT", bound=Coordinator)
CoordinatorT_co = TypeVar("CoordinatorT_co", bound=Coordinator, covariant=True)


class Defect(NamedTuple):
    """A fault of this program ended a decision, or the loading of a shard. The request heard
    UNKNOWN_SERVER_ERROR, and the shard is loaded anew, as nobody knows what the decision had
    changed. Log it loudly.
    """

    topic_partition: TopicPartition
    error: Exception


class ShardLoaded(NamedTuple):
    """The shard decides from now on."""

    topic_partition: TopicPartition
    epoch: LeaderEpoch
    since_ms: int
    """The time at which it began to load."""


class ShardFailed(NamedTuple):
    """The shard's log could not be read or written; it is read again a little later."""

    topic_partition: TopicPartition
    epoch: LeaderEpoch
    error: PylogError


class Sent(NamedTuple):
    """The coordinator of the partition, in that epoch, wants this done."""

    topic_partition: TopicPartition
    epoch: LeaderEpoch
    message: object


RuntimeEffect = ReadLog | Append | Reply | Sent | Defect | ShardLoaded | ShardFailed


class MakeCoordinator(Protocol[CoordinatorT_co]):
    """Makes the empty coordinator of a partition."""

    def __call__(self, partition: int) -> CoordinatorT_co: ...


class _Timer(NamedTuple):
    """A timer of the coordinator."""

    partition: int
    key: Hashable


class _RequestTimeout(NamedTuple):
    partition: int
    request_id: RequestId


class _Reload(NamedTuple):
    partition: int


_Due = _Timer | _RequestTimeout | _Reload


@dataclass(slots=True)
class _Led(Generic[CoordinatorT]):
    """A partition that this broker leads."""

    shard: Shard[CoordinatorT]
    since_ms: int
    high_watermark: Offset = Offset(0)
    """As it was told last: a shard that begins again is not told again."""
    timers: dict[_Due, TimerEntry[_Due]] = field(default_factory=dict)


class CoordinatorRuntime(Generic[CoordinatorT]):
    """Invariants: a partition that is led has a shard; a resigned one rests, and has the timer that
    begins another. A timer belongs to the shard that set it, and goes with it.
    """

    def __init__(
        self, topic: str, make: MakeCoordinator[CoordinatorT], codec: Codec, *, now_ms: int
    ) -> None:
        self.topic = topic
        self._make = make
        self._codec = codec
        self._wheel = TimingWheel[_Due](now_ms)
        self._led: dict[int, _Led[CoordinatorT]] = {}
        self._unflushed: dict[int, None] = {}

    # ---- leadership ------------------------------------------------------------------------------

    def on_leadership_began(
        self, now_ms: int, partition: int, epoch: LeaderEpoch
    ) -> list[RuntimeEffect]:
        """This broker leads the partition from that epoch on: load it."""
        out = self.on_leadership_ended(partition)
        shard = self._new_shard(partition, epoch)
        self._led[partition] = _Led(shard, now_ms)
        return [*out, shard.next_read()]

    def on_leadership_ended(self, partition: int) -> list[RuntimeEffect]:
        """Another broker leads the partition, or nobody."""
        led = self._led.pop(partition, None)
        if led is None:
            return []
        self._unflushed.pop(partition, None)
        return [*self._resign(led, NotCoordinator(f"{led.shard.topic_partition} has moved"))]

    def _new_shard(self, partition: int, epoch: LeaderEpoch) -> Shard[CoordinatorT]:
        name = TopicPartition(self.topic, partition)
        return Shard(name, epoch, self._make(partition), self._codec)

    def _resign(self, led: _Led[CoordinatorT], error: PylogError) -> list[Reply]:
        for entry in led.timers.values():
            entry.cancel()
        led.timers.clear()
        if led.shard.phase is ShardPhase.RESIGNED:
            return []
        return led.shard.resign(error)

    def _rest(self, now_ms: int, partition: int, error: PylogError) -> list[RuntimeEffect]:
        """The shard is over, and another one begins a little later."""
        led = self._led[partition]
        self._unflushed.pop(partition, None)
        out: list[RuntimeEffect] = [*self._resign(led, error)]
        self._set_timer(led, now_ms + RELOAD_AFTER_MS, _Reload(partition))
        return out

    def _current(self, partition: int, epoch: LeaderEpoch) -> _Led[CoordinatorT] | None:
        """The partition, if it is still led in that epoch and its shard is not over."""
        led = self._led.get(partition)
        if led is None or led.shard.epoch != epoch or led.shard.phase is ShardPhase.RESIGNED:
            return None
        return led

    # ---- the log ---------------------------------------------------------------------------------

    def on_read(
        self,
        now_ms: int,
        wall_ms: int,
        partition: int,
        epoch: LeaderEpoch,
        read: LogSlice[Record],
        end_offset: Offset,
    ) -> list[RuntimeEffect]:
        """A slice of the log, which ends at `end_offset` as long as this broker leads it."""
        led = self._current(partition, epoch)
        if led is None or led.shard.phase is not ShardPhase.LOADING:
            return []
        shard = led.shard
        try:
            is_whole = shard.load(read, end_offset)
        except Exception as error:  # noqa: BLE001 -- told as a defect, with its traceback
            refusal = CoordinatorNotAvailable(f"{shard.topic_partition} cannot be read")
            defect = Defect(shard.topic_partition, error)
            return [defect, *self._rest(now_ms, partition, refusal)]
        if not is_whole:
            return [shard.next_read()]
        loaded = ShardLoaded(shard.topic_partition, epoch, led.since_ms)
        return [
            loaded,
            *self._run(now_ms, partition, led, lambda each: each.on_loaded(now_ms, wall_ms)),
        ]

    def on_read_failed(
        self, now_ms: int, partition: int, epoch: LeaderEpoch, error: PylogError
    ) -> list[RuntimeEffect]:
        """The log could not be read."""
        return self._on_failed(now_ms, partition, epoch, error)

    def on_append_failed(
        self, now_ms: int, partition: int, epoch: LeaderEpoch, error: PylogError
    ) -> list[RuntimeEffect]:
        """An append was refused, or nobody knows what became of it. The shard has decided on top of
        it, so it begins again from what the log holds.
        """
        return self._on_failed(now_ms, partition, epoch, error)

    def _on_failed(
        self, now_ms: int, partition: int, epoch: LeaderEpoch, error: PylogError
    ) -> list[RuntimeEffect]:
        led = self._current(partition, epoch)
        if led is None:
            return []
        name = led.shard.topic_partition
        refusal = CoordinatorNotAvailable(f"{name} cannot be written or read now: {error}")
        out: list[RuntimeEffect] = [ShardFailed(name, epoch, error)]
        return out + self._rest(now_ms, partition, refusal)

    def on_high_watermark(self, partition: int, offset: Offset) -> list[RuntimeEffect]:
        """Everything below `offset` is committed."""
        led = self._led.get(partition)
        if led is None:
            return []
        led.high_watermark = max(led.high_watermark, offset)
        if led.shard.phase is ShardPhase.RESIGNED:
            return []
        self._unflushed.pop(partition, None)
        return self._leaving(led, led.shard.on_high_watermark(offset))

    # ---- requests --------------------------------------------------------------------------------

    def run(
        self,
        now_ms: int,
        partition: int,
        request_id: RequestId,
        operation: Operation[CoordinatorT],
        *,
        timeout_ms: int | None = None,
    ) -> list[RuntimeEffect]:
        """Decide a request. Its `Reply` is among these effects, or among later ones; with a
        `timeout_ms` it is COORDINATOR_NOT_AVAILABLE when nothing else came by then, as in Kafka:
        the client looks for the coordinator anew. NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS
        come at once.
        """
        led = self._led.get(partition)
        name = TopicPartition(self.topic, partition)
        if led is None:
            return [Reply(request_id, NotCoordinator(f"{name} has another leader"))]
        if led.shard.phase is not ShardPhase.ACTIVE:
            return [Reply(request_id, CoordinatorLoadInProgress(f"{name} is being read"))]
        if timeout_ms is not None:
            self._set_timer(led, now_ms + timeout_ms, _RequestTimeout(partition, request_id))
        return self._run(now_ms, partition, led, operation, request_id)

    def tell(self, now_ms: int, operation: Operation[CoordinatorT]) -> list[RuntimeEffect]:
        """Let every shard that decides hear of something: a topic is gone, for example."""
        return [
            effect
            for partition, led in list(self._led.items())
            if led.shard.phase is ShardPhase.ACTIVE
            for effect in self._run(now_ms, partition, led, operation)
        ]

    def tell_one(
        self,
        now_ms: int,
        partition: int,
        epoch: LeaderEpoch,
        operation: Operation[CoordinatorT],
    ) -> list[RuntimeEffect]:
        """Likewise one shard, as long as it decides in that epoch."""
        if not self.decides(partition, epoch):
            return []
        return self._run(now_ms, partition, self._led[partition], operation)

    def flush(self) -> list[RuntimeEffect]:
        """The effects that leave at the end of a turn."""
        out: list[RuntimeEffect] = []
        unflushed, self._unflushed = self._unflushed, {}
        for partition in unflushed:
            led = self._led[partition]
            out += self._leaving(led, led.shard.flush())
        return out

    @property
    def must_flush(self) -> bool:
        """Whether `flush` has something to do."""
        return bool(self._unflushed)

    @property
    def loading(self) -> list[int]:
        """The partitions whose shards do not decide yet."""
        return [n for n, led in self._led.items() if led.shard.phase is not ShardPhase.ACTIVE]

    def coordinators(self) -> dict[int, CoordinatorT]:
        """Those of the shards that decide, by partition: to look at, for metrics and tests."""
        return {
            partition: led.shard.coordinator
            for partition, led in self._led.items()
            if led.shard.phase is ShardPhase.ACTIVE
        }

    def decides(self, partition: int, epoch: LeaderEpoch) -> bool:
        """Whether the shard of that epoch decides now."""
        led = self._led.get(partition)
        return led is not None and (led.shard.epoch, led.shard.phase) == (epoch, ShardPhase.ACTIVE)

    def _run(
        self,
        now_ms: int,
        partition: int,
        led: _Led[CoordinatorT],
        operation: Operation[CoordinatorT],
        request_id: RequestId | None = None,
    ) -> list[RuntimeEffect]:
        out: list[RuntimeEffect]
        try:
            effects = led.shard.run(operation, request_id)
        except Exception as error:  # noqa: BLE001 -- told as a defect, with its traceback
            name = led.shard.topic_partition
            out = [Defect(name, error)]
            if request_id is not None:
                refusal = UnknownServerError(f"{name}: the broker's log tells more")
                out += self._leaving(led, led.shard.give_up(request_id, refusal))
            again = CoordinatorNotAvailable(f"{name} begins again after a fault of the broker")
            return out + self._rest(now_ms, partition, again)
        self._unflushed[partition] = None
        out = []
        for effect in effects:
            match effect:
                case SetTimer(key, delay_ms):
                    self._set_timer(led, now_ms + delay_ms, _Timer(partition, key))
                case CancelTimer(key):
                    self._cancel_timer(led, _Timer(partition, key))
                case _:
                    out += self._leaving(led, (effect,))
        return out

    def _leaving(self, led: _Led[CoordinatorT], effects: Sequence[Leaving]) -> list[RuntimeEffect]:
        """These, now: a request that is answered does not time out."""
        name = led.shard.topic_partition
        out: list[RuntimeEffect] = []
        for effect in effects:
            if isinstance(effect, Send):
                out.append(Sent(name, led.shard.epoch, effect.message))
                continue
            if isinstance(effect, Reply):
                self._cancel_timer(led, _RequestTimeout(name.partition, effect.request_id))
            out.append(effect)
        return out

    # ---- time ------------------------------------------------------------------------------------

    def _set_timer(self, led: _Led[CoordinatorT], at_ms: int, due: _Due) -> None:
        self._cancel_timer(led, due)
        led.timers[due] = self._wheel.add(at_ms, due)

    def _cancel_timer(self, led: _Led[CoordinatorT], due: _Due) -> None:
        entry = led.timers.pop(due, None)
        if entry is not None:
            entry.cancel()

    @property
    def next_deadline_ms(self) -> int | None:
        """The time at which `on_time` has something to do; None: without another event never."""
        return self._wheel.next_deadline

    def on_time(self, now_ms: int, wall_ms: int) -> list[RuntimeEffect]:
        """The effects of all timers that are due."""
        out: list[RuntimeEffect] = []
        for due in self._wheel.advance(now_ms):
            led = self._led.get(due.partition)
            if led is None or led.timers.get(due) is None or led.timers[due].pending:
                continue  # what came before it in this list has ended it, or set it again
            del led.timers[due]
            out += self._on_due(now_ms, wall_ms, led, due)
        return out

    def _on_due(
        self, now_ms: int, wall_ms: int, led: _Led[CoordinatorT], due: _Due
    ) -> list[RuntimeEffect]:
        match due:
            case _Timer(partition, key):
                return self._run(
                    now_ms, partition, led, lambda each: each.on_timer(now_ms, wall_ms, key)
                )
            case _RequestTimeout(_, request_id):
                name = led.shard.topic_partition
                late = CoordinatorNotAvailable(
                    f"{name} has not committed the request in time; it may do so yet"
                )
                return self._leaving(led, led.shard.give_up(request_id, late))
            case _Reload(partition):
                led.shard = self._new_shard(partition, led.shard.epoch)
                led.shard.on_high_watermark(led.high_watermark)
                led.since_ms = now_ms
                return [led.shard.next_read()]


def partition_for(key: str, partitions: int) -> int:
    """The partition of an internal topic that a group or a transactional id belongs to: Java's
    `String.hashCode` without its sign, modulo; Kafka's clients and tools count on it.
    """
    text = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for (unit,) in iter_unpack(">H", text):
        value = (31 * value + unit) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
