"""The partitions that this broker leads, as share groups read them: loaded, kept and written.

A group's partition is loaded when the first member fetches it, and lives while this broker leads it
in that epoch and members have sessions here. Its state is written to the share coordinator one
write at a time; changes that come meanwhile are in the next one. Any fault ends it, and the next
fetch loads it anew from the share coordinator's state. Records on their way to the group's
dead-letter topic keep it here, too.

An administrator may set another beginning for the group meanwhile, once its members are gone. The
sessions of members that died stay for a while, and with them what was loaded. So a member that
begins to read a partition gets nothing of it before the state is written once more, which the share
coordinator refuses when it is another one by now. To ask for its epoch would not do: a coordinator
that was replaced and does not know it could answer. Apache Kafka's leader finds out when it has
something to write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final

from pylog import errors
from pylog.clock import Clock
from pylog.deadline_timer import DeadlineTimer
from pylog.errors import PylogError
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pylog_broker.kafka.share_state import ShareStates
from pylog_broker.metadata.image import MetadataDelta, MetadataImage
from pylog_broker.node.engine import Engine
from pylog_broker.node.share.dead_letters import DeadLetterSink
from pylog_broker.replication.offset_messages import OffsetAnswer, OffsetQuery
from pylog_broker.share.persisted import UNINITIALIZED_START, ReadState, WriteState
from pylog_broker.share.sessions import SharePartitionKey
from pylog_broker.share.settings import Reset, ShareSettingsOf, reset_of
from pylog_broker.share.share_partition import AcknowledgementBatch, SharePartition

LATEST: Final = -1
EARLIEST: Final = -2
DEAD_LETTERS_MAX: Final = 500
"""Records of a partition that are on their way to the dead-letter topic at a time."""

_log = logging.getLogger("pylog.share")

_LIKE_NOT_LEADER: Final = (errors.FencedLeaderEpoch, errors.FencedStateEpoch)
_LIKE_NO_COORDINATOR: Final = (errors.NotCoordinator, errors.CoordinatorLoadInProgress)


def for_members(error: PylogError) -> PylogError:
    """The error that members hear when the share coordinator refuses, as in Kafka."""
    if isinstance(error, _LIKE_NOT_LEADER):
        return errors.NotLeaderOrFollower(str(error))
    if isinstance(error, _LIKE_NO_COORDINATOR):
        return errors.CoordinatorNotAvailable(str(error))
    if isinstance(error, errors.InvalidRequest):
        return errors.UnknownTopicOrPartition(str(error))
    return error


class LedSharePartition:
    """One of them. `state` is None while it is loaded; `ended` tells why it is over.

    `reader`: the fetch that reads the log for it, one at a time, and `read_from` where. A fetch
    that waits for records to acquire is in `waiting`, and called when there may be some.

    `asked`: the last question whether this is still the group's state; `confirmed`: the last one
    before a write that was taken. A state that is loaded after a question is as good as that.
    """

    def __init__(self, key: SharePartitionKey, name: TopicPartition, epoch: LeaderEpoch) -> None:
        self.key = key
        self.name = name
        self.leader_epoch = epoch
        self.state: SharePartition | None = None
        self.state_epoch = -1
        self.ended: PylogError | None = None
        self.reader: object | None = None
        self.read_from: Offset | None = None
        self.waiting: dict[object, Callable[[], None]] = {}
        self.acknowledged: dict[int, list[asyncio.Future[None]]] = {}
        """By the write that they wait for."""
        self.task: asyncio.Task[None] | None = None
        """It is loaded, or written."""
        self.leaving: asyncio.Task[None] | None = None
        """Records go to the dead-letter topic."""
        self.asked = self.confirmed = 0
        self.is_unused = False
        self.record_bytes = 0.0
        """The mean bytes of a record of the log, about; 0: not known."""
        self.timer: DeadlineTimer

    def changed(self) -> None:
        """Records may be acquired that could not be before: waiting fetches look again."""
        if self.state is not None and self.reader is not None:
            offset = self.state.fetch_offset()
            if offset is not None and offset == self.read_from:
                return  # the reader waits for just that
        self.wake()

    def wake(self) -> None:
        """Have each fetch that waits look again."""
        for wake in [*self.waiting.values()]:
            wake()

    def written(self, number: int) -> None:
        """That write is durable."""
        for waited in [each for each in self.acknowledged if each <= number]:
            for future in self.acknowledged.pop(waited):
                if not future.done():
                    future.set_result(None)


class LedSharePartitions:
    """Lives on the broker's loop."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        states: ShareStates,
        image: Callable[[], MetadataImage],
        broker_id: BrokerId,
        settings_of: ShareSettingsOf,
        has_sessions: Callable[[str], bool],
        dead_letters: DeadLetterSink,
    ) -> None:
        self.settings_of = settings_of
        self._dead_letters = dead_letters
        self._engine = engine
        self._clock = clock
        self._states = states
        self._image = image
        self._broker_id = broker_id
        self._has_sessions = has_sessions
        self._loop = asyncio.get_running_loop()
        self._led: dict[SharePartitionKey, LedSharePartition] = {}
        self._stopped = False
        self._questions = 0
        self.acquired = 0
        """Records that members have acquired."""
        self.expired_locks = 0
        """Records that were given back as their time was over."""

    def __len__(self) -> int:
        return len(self._led)

    def find(self, key: SharePartitionKey) -> LedSharePartition | None:
        """The partition, where it is here already."""
        return self._led.get(key)

    def get(self, key: SharePartitionKey) -> LedSharePartition:
        """The partition, which is loaded if it is not here. Raises UnknownTopicId,
        UnknownTopicOrPartition, NotLeaderOrFollower.
        """
        name, epoch = self.leadership(key)
        found = self._led.get(key)
        if found is not None and found.leader_epoch != epoch:
            self.end(found, errors.NotLeaderOrFollower(f"{name} has a new leader epoch, {epoch}"))
            found = None
        if found is None:
            if self._stopped:
                raise errors.NotLeaderOrFollower("the broker stops")
            found = self._led[key] = LedSharePartition(key, name, epoch)
            found.timer = DeadlineTimer(lambda led=found: self._on_timer(led))  # type: ignore[misc]
            found.task = self._spawn(found, self._load(found))
        found.is_unused = False
        self._refresh(found)
        return found

    def _refresh(self, led: LedSharePartition) -> None:
        """The group's settings may have changed."""
        if led.state is not None:
            led.state.settings = self.settings_of(led.key.group_id)

    def leadership(self, key: SharePartitionKey) -> tuple[TopicPartition, LeaderEpoch]:
        """The partition's name and its epoch. Raises as `get` does."""
        topic = self._image().topics_by_id.get(key.topic_id)
        if topic is None:
            raise errors.UnknownTopicId(f"there is no topic of id {key.topic_id}")
        record = topic.partitions.get(key.partition)
        name = TopicPartition(topic.name, key.partition)
        if record is None:
            raise errors.UnknownTopicOrPartition(f"there is no {name}")
        if record.leader != self._broker_id:
            raise errors.NotLeaderOrFollower(f"{name} is led by broker {record.leader}")
        return name, record.leader_epoch

    def _spawn(self, led: LedSharePartition, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        def on_done(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("a defect ended %s of a share group", led.name, exc_info=error)
                self.end(led, errors.UnknownServerError())

        task = self._loop.create_task(work)
        task.add_done_callback(on_done)
        return task

    def current_leader(self, key: SharePartitionKey) -> tuple[BrokerId, LeaderEpoch]:
        """The leader of the partition, as far as this broker knows."""
        topic = self._image().topics_by_id.get(key.topic_id)
        record = None if topic is None else topic.partitions.get(key.partition)
        if record is None:
            return BrokerId(-1), LeaderEpoch(-1)
        return record.leader, record.leader_epoch

    # ---- loading ---------------------------------------------------------------------------------

    async def _load(self, led: LedSharePartition) -> None:
        settings, questions = self.settings_of(led.key.group_id), self._questions
        try:
            found = await self._states.read(ReadState(led.key, led.leader_epoch))
            start = Offset(found.start_offset)
            is_new = found.start_offset == UNINITIALIZED_START
            if is_new:
                start = await self._first_offset(led.name, settings.auto_offset_reset)
            earliest = await self._offset(led.name, EARLIEST)
        except PylogError as error:
            self.end(led, for_members(error))
            return
        if led.ended is not None:
            return
        led.state_epoch = found.state_epoch
        led.state = SharePartition(start, found.batches, settings, is_new=is_new)
        led.state.on_log_start(earliest)
        led.task = None
        led.confirmed = questions
        if led.asked > questions:
            led.state.write_again()
        self.settle(led)
        led.wake()
        self._end_unused(led)

    def confirm(self, led: LedSharePartition) -> int:
        """Ask whether the state has begun anew since it was loaded. The number of the question:
        `confirmed` gets there when it has not; else the partition ends, and is loaded anew.
        """
        self._questions += 1
        led.asked = self._questions
        if led.state is not None:
            led.state.write_again()
            self.settle(led)
        return led.asked

    async def _first_offset(self, name: TopicPartition, reset: str) -> Offset:
        kind, duration_ms = reset_of(reset)
        if kind is Reset.EARLIEST:
            return await self._offset(name, EARLIEST)
        if kind is Reset.BY_DURATION:
            found = await self._offset(name, max(self._clock.wall_ms() - duration_ms, 0))
            if found >= 0:
                return found
        return await self._offset(name, LATEST)

    async def _offset(self, name: TopicPartition, timestamp_ms: int) -> Offset:
        (answer,) = await self.offsets([OffsetQuery(name, timestamp_ms)])
        if answer.failure is not None:
            raise errors.from_code(answer.failure.code, answer.failure.message)
        return answer.offset

    async def offsets(self, queries: Sequence[OffsetQuery]) -> Sequence[OffsetAnswer]:
        """The offsets of partitions that are led here."""
        answered: asyncio.Future[Sequence[OffsetAnswer]] = self._loop.create_future()

        def done(answers: Sequence[OffsetAnswer]) -> None:
            if not answered.done():
                answered.set_result(answers)

        manager = self._engine.manager
        self._engine.tell(lambda now_ms: manager.list_offsets(now_ms, queries, done))
        try:
            return await answered
        finally:
            if not answered.done() or answered.cancelled():
                manager.cancel(done)

    async def log_bounds(self, led: LedSharePartition) -> None:
        """The log has changed at one of its ends, so that nothing could be read where the group
        is: begin where there is something.
        """
        earliest = await self._offset(led.name, EARLIEST)
        latest = await self._offset(led.name, LATEST)
        if led.ended is None and led.state is not None:
            led.state.on_log_start(earliest)
            led.state.on_log_end(latest)
            self.settle(led)

    # ---- changes ---------------------------------------------------------------------------------

    def settle(self, led: LedSharePartition) -> None:
        """After each change: the new state is written, and the acquisition locks have a timer."""
        state = led.state
        if state is None or led.ended is not None:
            return
        led.timer.set(self._loop, self._clock.monotonic_ms(), state.next_deadline_ms)
        if state.must_write and led.task is None:
            led.task = self._spawn(led, self._write(led, state))
        self._bring_dead_letters(led, state)

    async def _write(self, led: LedSharePartition, state: SharePartition) -> None:
        while state.must_write:
            asked, write = led.asked, state.take_write()
            try:
                await self._states.write(
                    WriteState(
                        led.key,
                        led.state_epoch,
                        led.leader_epoch,
                        write.start_offset,
                        write.delivery_complete_count,
                        write.batches,
                    )
                )
            except PylogError as error:
                _log.info("%s of share group %s is loaded anew: %s", led.name, led.key[0], error)
                self.end(led, for_members(error))
                return
            if led.ended is not None:
                return
            state.on_written(write.number)
            self._bring_dead_letters(led, state)
            led.written(write.number)
            if asked > led.confirmed:
                led.confirmed = asked
                led.wake()
            led.changed()
        led.task = None
        self._end_unused(led)

    def _bring_dead_letters(self, led: LedSharePartition, state: SharePartition) -> None:
        if state.may_give_dead_letters and led.leaving is None:
            led.leaving = self._spawn(led, self._bring(led, state))

    async def _bring(self, led: LedSharePartition, state: SharePartition) -> None:
        """Dead letters to their topic, as long as there are some that are durable."""
        while state.may_give_dead_letters:
            letters = state.take_dead_letters(DEAD_LETTERS_MAX)
            await self._dead_letters.write(led.key, led.name, led.leader_epoch, letters)
            if led.ended is not None:
                return
            state.on_dead_letters_done()
            self.settle(led)
            led.changed()
        led.leaving = None
        self._end_unused(led)

    def acknowledge(
        self,
        led: LedSharePartition,
        member_id: str,
        batches: Sequence[AcknowledgementBatch],
        *,
        may_renew: bool,
    ) -> asyncio.Future[None]:
        """Done when what the member says is durable. Raises what `SharePartition.acknowledge`
        raises, and what the partition has ended with.
        """
        if led.ended is not None:
            raise led.ended
        if led.state is None:
            raise errors.InvalidRecordState(
                f"{led.name} has just got a leader here: member {member_id!r} has no records of it"
            )
        now_ms = self._clock.monotonic_ms()
        self._expire(led, led.state, now_ms)
        number = led.state.acknowledge(now_ms, member_id, batches, may_renew=may_renew)
        durable: asyncio.Future[None] = self._loop.create_future()
        if number:
            led.acknowledged.setdefault(number, []).append(durable)
        else:
            durable.set_result(None)
        self.settle(led)
        led.changed()
        return durable

    def release(self, led: LedSharePartition, member_id: str, *, delivered: bool) -> None:
        """The member gives back all that it has."""
        self._refresh(led)
        if led.state is not None and led.ended is None:
            led.state.release(member_id, delivered=delivered)
            self.settle(led)
            led.changed()

    def _on_timer(self, led: LedSharePartition) -> None:
        self._refresh(led)
        if led.state is not None and led.ended is None:
            self._expire(led, led.state, self._clock.monotonic_ms())
            self.settle(led)

    def _expire(self, led: LedSharePartition, state: SharePartition, now_ms: int) -> None:
        expired = state.on_time(now_ms)
        if expired:
            self.expired_locks += expired
            self.settle(led)
            led.changed()

    # ---- the end ---------------------------------------------------------------------------------

    def end(self, led: LedSharePartition, error: PylogError) -> None:
        """It is over; the requests that wait for it are answered with `error`."""
        if led.ended is not None:
            return
        led.ended = error
        if self._led.get(led.key) is led:
            del self._led[led.key]
        led.timer.cancel()
        for task in (led.task, led.leaving):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        for futures in led.acknowledged.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # the request that waits may be gone
        led.acknowledged.clear()
        led.wake()

    def unused(self, group_id: str) -> None:
        """No member of the group has a session here any more: each of its partitions ends, as
        soon as no write and no dead letter of it is under way.
        """
        for led in [each for key, each in self._led.items() if key.group_id == group_id]:
            led.is_unused = True
            self._end_unused(led)

    def _end_unused(self, led: LedSharePartition) -> None:
        if not led.is_unused or led.task is not None or led.leaving is not None:
            return
        if not self._has_sessions(led.key.group_id):
            self.end(led, errors.NotLeaderOrFollower("no member of the group is here any more"))

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Partitions may have other leaders, and topics may be gone."""
        if not self._led:
            return
        touched: Collection[tuple[str, int]] = {
            (record.topic_id, record.partition) for record in delta.partitions
        }
        gone = {removed.topic_id for removed in delta.removed_topics}
        for key, led in [*self._led.items()]:
            if key.topic_id not in gone and (key.topic_id, key.partition) not in touched:
                continue
            try:
                _, epoch = self.leadership(key)
            except PylogError as error:
                self.end(led, error)
                continue
            if epoch != led.leader_epoch:
                why = f"{led.name} has a new leader epoch, {epoch}"
                self.end(led, errors.NotLeaderOrFollower(why))

    def stop(self) -> None:
        """Nothing is loaded or written any more."""
        self._stopped = True
        for led in [*self._led.values()]:
            self.end(led, errors.NotLeaderOrFollower("the broker stops"))
