"""ShareFetch and ShareAcknowledge at the leader: sessions, acknowledgements, and the long poll.

A fetch reads the log by an ordinary long poll of the replica manager, from the first record that
may be acquired; of several members that wait for the same partition one reads and the others wait
for their turn. An event that makes records available to it meanwhile ends its poll, and it looks
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pylog import errors
from pylog.clock import Clock
from pylog.errors import InvalidRequest, PylogError
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pylog_broker.api.limits import PARTITIONS_PER_REQUEST_MAX
from pylog_broker.metadata.messages import failure_of
from pylog_broker.node.engine import Engine
from pylog_broker.node.share.led_partitions import LedSharePartition, LedSharePartitions
from pylog_broker.replication.fetch_messages import Fetch, PartitionData, PartitionFetch
from pylog_broker.share.log_batches import LogBatch, log_batches, with_records_of
from pylog_broker.share.requests import (
    ShareAcknowledge,
    ShareAcknowledged,
    ShareFetch,
    ShareFetched,
    SharePartitionAck,
    SharePartitionData,
    SharePartitionFetch,
)
from pylog_broker.share.sessions import (
    LAST_EPOCH,
    NEW_SESSION,
    SessionKey,
    SharePartitionKey,
    ShareSession,
    ShareSessions,
)

SESSION_IDLE_MS_MAX: Final = 5 * 60 * 1000
"""A session whose member has not asked for so long is over: over gRPC nobody tells that a
connection has ended.
"""
WAIT_MS_MAX: Final = 5 * 60 * 1000
DURABLE_SECONDS: Final = 1.0
"""So long a fetch waits for its acknowledgements to be durable before it acquires nothing."""
READ_MORE: Final = 1.5
READ_BYTES_MIN: Final = 64 * 1024
"""A fetch of few records does not read all that it may: half as much again as those records take,
and this much more.
"""

_log = logging.getLogger("pylog.share")


class _Reading(NamedTuple):
    """A partition that a fetch reads from that offset on."""

    led: LedSharePartition
    offset: Offset


class ShareFetches:
    """Lives on the broker's loop."""

    def __init__(
        self, engine: Engine, clock: Clock, led: LedSharePartitions, sessions: ShareSessions
    ) -> None:
        self.led = led
        self.sessions = sessions
        self._engine = engine
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._looked_ms = clock.monotonic_ms()

    # ---- sessions --------------------------------------------------------------------------------

    def _session(
        self, key: SessionKey, epoch: int, connection: str, *, may_begin: bool
    ) -> ShareSession:
        now_ms = self._clock.monotonic_ms()
        self._end_idle(now_ms)
        if epoch == NEW_SESSION and may_begin:
            present = self.sessions.get(key)
            if present is not None:
                self._close(present, delivered=True)
            return self.sessions.open(now_ms, key, connection)
        return self.sessions.next(now_ms, key, epoch, connection)

    def _end_idle(self, now_ms: int) -> None:
        if now_ms - self._looked_ms < SESSION_IDLE_MS_MAX // 10:
            return
        self._looked_ms = now_ms
        for session in self.sessions.unused_since(now_ms - SESSION_IDLE_MS_MAX):
            self._close(session, delivered=True)

    def _close(self, session: ShareSession, *, delivered: bool) -> None:
        """The session is over, and what its member has is given back. `delivered`: nobody knows how
        much of that its program has seen, so the delivery counts.
        """
        self.sessions.close(session)
        for key in session.partitions:
            led = self.led.find(key)
            if led is not None:
                self.led.release(led, session.key.member_id, delivered=delivered)
        if not self.sessions.of_group(session.key.group_id):
            self.led.unused(session.key.group_id)

    def on_connection_closed(self, connection: str) -> None:
        """Records of the members that came by it are given back at once."""
        for session in self.sessions.by_connection(connection):
            self._close(session, delivered=True)

    # ---- requests --------------------------------------------------------------------------------

    async def fetch(self, connection: str, request: ShareFetch) -> ShareFetched:
        """The records that the member has acquired, when there are some, or its time is over; and
        the outcome of its acknowledgements, when that is durable.

        Raises ShareSessionNotFound, InvalidShareSessionEpoch, ShareSessionLimitReached,
        InvalidRequest.
        """
        key = SessionKey(request.group_id, request.member_id)
        epoch = request.session_epoch
        if epoch == NEW_SESSION and any(each.acknowledgements for each in request.partitions):
            raise InvalidRequest("the first fetch of a share session has no acknowledgements")
        session = self._session(key, epoch, connection, may_begin=True)
        wanted = [
            SharePartitionKey(key.group_id, each.topic_id, each.partition)
            for each in request.partitions
        ]
        if epoch != LAST_EPOCH:
            if len(session.partitions.keys() | wanted) > PARTITIONS_PER_REQUEST_MAX:
                raise InvalidRequest(
                    f"a share session has {PARTITIONS_PER_REQUEST_MAX} partitions at most"
                )
            begun = [
                name
                for name, each in zip(wanted, request.partitions, strict=True)
                if not each.acknowledgements or name not in session.partitions
            ]
            session.add(wanted)
            self._begin(session, begun)
        session.forget(SharePartitionKey(key.group_id, *each) for each in request.forgotten)
        acks = self._acknowledge(key, request.partitions, may_renew=request.is_renew_ack)
        found: dict[SharePartitionKey, SharePartitionData] = {}
        if epoch == LAST_EPOCH:
            self._close(session, delivered=False)
        elif not request.is_renew_ack and await _durable_soon(acks.values()):
            found = await _Poll(self, session, request).run()
        for each, future in acks.items():
            answer = found.get(each, SharePartitionData(each.topic_id, each.partition))
            error = await _outcome(future)
            leader, leader_epoch = self._leader_for(each, error)
            found[each] = answer._replace(
                acknowledge_failure=failure_of(error),
                current_leader=max(answer.current_leader, leader),
                current_leader_epoch=max(answer.current_leader_epoch, leader_epoch),
            )
        return ShareFetched(self._lock_ms(key.group_id), tuple(found.values()))

    async def acknowledge(self, connection: str, request: ShareAcknowledge) -> ShareAcknowledged:
        """The outcome of each partition's acknowledgements, when that is durable. Raises
        ShareSessionNotFound, InvalidShareSessionEpoch.
        """
        key = SessionKey(request.group_id, request.member_id)
        session = self._session(key, request.session_epoch, connection, may_begin=False)
        acks = self._acknowledge(key, request.partitions, may_renew=request.is_renew_ack)
        if request.session_epoch == LAST_EPOCH:
            self._close(session, delivered=False)
        answers = []
        for each, future in acks.items():
            error = await _outcome(future)
            answers.append(
                SharePartitionAck(
                    each.topic_id,
                    each.partition,
                    failure_of(error),
                    *self._leader_for(each, error),
                )
            )
        return ShareAcknowledged(self._lock_ms(key.group_id), tuple(answers))

    def _begin(self, session: ShareSession, partitions: Iterable[SharePartitionKey]) -> None:
        """The member reads these from now on. It may have joined since offsets were altered, so
        what is here of them may be of the state before.
        """
        for key in partitions:
            led = self.led.find(key)
            if led is not None:
                session.unconfirmed[key] = self.led.confirm(led)

    def _lock_ms(self, group_id: str) -> int:
        return self.led.settings_of(group_id).record_lock_duration_ms

    def _acknowledge(
        self, key: SessionKey, partitions: Iterable[SharePartitionFetch], *, may_renew: bool
    ) -> dict[SharePartitionKey, asyncio.Future[None] | PylogError]:
        acks: dict[SharePartitionKey, asyncio.Future[None] | PylogError] = {}
        for each in partitions:
            if not each.acknowledgements:
                continue
            name = SharePartitionKey(key.group_id, each.topic_id, each.partition)
            try:
                led = self.led.get(name)
                acks[name] = self.led.acknowledge(
                    led, key.member_id, each.acknowledgements, may_renew=may_renew
                )
            except PylogError as error:
                acks[name] = error
        return acks

    def _leader_for(
        self, key: SharePartitionKey, error: PylogError | None
    ) -> tuple[BrokerId, LeaderEpoch]:
        if not isinstance(error, errors.NotLeaderOrFollower | errors.FencedLeaderEpoch):
            return BrokerId(-1), LeaderEpoch(-1)
        return self.led.current_leader(key)

    # ---- for polls -------------------------------------------------------------------------------

    def is_open(self, session: ShareSession) -> bool:
        """Whether it is its member's session yet."""
        return self.sessions.get(session.key) is session

    def may_read(self, session: ShareSession, led: LedSharePartition) -> bool:
        """Whether the member may have records of the partition."""
        if led.state is None or session.unconfirmed.get(led.key, 0) > led.confirmed:
            return False
        session.unconfirmed.pop(led.key, None)
        return True

    async def read(self, request: Fetch, woken: asyncio.Event) -> Sequence[PartitionData] | None:
        """The log's answer; None when the poll is woken before that."""
        found: asyncio.Future[Sequence[PartitionData]] = self._loop.create_future()

        def done(partitions: Sequence[PartitionData]) -> None:
            if not found.done():
                found.set_result(partitions)

        manager = self._engine.manager
        self._engine.tell(lambda now_ms: manager.fetch(now_ms, request, done))
        if found.done():
            return found.result()
        waking = self._loop.create_task(woken.wait())
        try:
            await asyncio.wait((found, waking), return_when=asyncio.FIRST_COMPLETED)
            return found.result() if found.done() else None
        finally:
            waking.cancel()
            if not found.done():
                found.cancel()
                manager.cancel(done)

    def now_ms(self) -> int:
        """The time."""
        return self._clock.monotonic_ms()


async def _durable_soon(acks: Iterable[asyncio.Future[None] | PylogError]) -> bool:
    """Whether nothing of that is to be waited for long: the answer leaves after it, and the locks
    of what is acquired with it would be half over.
    """
    due = [each for each in acks if isinstance(each, asyncio.Future) and not each.done()]
    if due:
        _, late = await asyncio.wait(due, timeout=DURABLE_SECONDS)
        return not late
    return True


async def _outcome(ack: asyncio.Future[None] | PylogError) -> PylogError | None:
    if isinstance(ack, PylogError):
        return ack
    try:
        await ack
    except PylogError as error:
        return error
    return None


class _Poll:
    """One fetch's wait for records."""

    def __init__(self, fetches: ShareFetches, session: ShareSession, request: ShareFetch) -> None:
        self._fetches = fetches
        self._session = session
        self._request = request
        self._woken = asyncio.Event()
        self._found: dict[SharePartitionKey, SharePartitionData] = {}

    async def run(self) -> dict[SharePartitionKey, SharePartitionData]:
        """By partition: what was acquired, or why nothing can be."""
        fetches = self._fetches
        begun_ms = fetches.now_ms()
        until_ms = begun_ms + min(max(self._request.max_wait_ms, 0), WAIT_MS_MAX)
        confirmed_by_ms = begun_ms + int(DURABLE_SECONDS * 1000)
        watched: list[LedSharePartition] = []
        try:
            while fetches.is_open(self._session):
                self._woken.clear()
                self._unwatch(watched)
                for led in watched:
                    if led.ended is not None and not self._is_new_to(led):
                        self._fail(led.key, led.ended)
                watched = self._watch()
                left_ms = 0 if self._found else until_ms - fetches.now_ms()
                has_moved = await self._read(watched, left_ms)
                by_ms = until_ms
                if self._awaits_confirmation(watched):
                    # A client that waits for nothing would name them again, and wait for ever.
                    by_ms = max(until_ms, confirmed_by_ms)
                left_ms = by_ms - fetches.now_ms()
                if self._found or left_ms <= 0:
                    break
                if not has_moved:
                    await self._sleep(left_ms)
        finally:
            self._unwatch(watched)
        return self._found

    def _is_new_to(self, led: LedSharePartition) -> bool:
        """Whether the member has nothing of what has ended: it begins with what is loaded next."""
        return self._session.unconfirmed.pop(led.key, None) is not None

    def _awaits_confirmation(self, watched: Iterable[LedSharePartition]) -> bool:
        """Whether it is about to be known of one of them that its state here is the group's."""
        asked = self._session.unconfirmed
        return any(
            led.state is not None and led.ended is None and asked.get(led.key, 0) > led.confirmed
            for led in watched
        )

    def _watch(self) -> list[LedSharePartition]:
        """The session's partitions, in turn; those that cannot be read are found to have failed."""
        watched = []
        for key in self._session.in_turn():
            if key in self._found:
                continue
            try:
                led = self._fetches.led.get(key)
            except PylogError as error:
                self._fail(key, error)
                continue
            led.waiting[self] = self._woken.set
            watched.append(led)
        return watched

    def _unwatch(self, watched: Iterable[LedSharePartition]) -> None:
        for led in watched:
            led.waiting.pop(self, None)

    def _fail(self, key: SharePartitionKey, error: PylogError) -> None:
        leader, epoch = BrokerId(-1), LeaderEpoch(-1)
        if isinstance(error, errors.NotLeaderOrFollower | errors.FencedLeaderEpoch):
            leader, epoch = self._fetches.led.current_leader(key)
        self._found[key] = SharePartitionData(
            key.topic_id,
            key.partition,
            failure_of(error),
            current_leader=leader,
            current_leader_epoch=epoch,
        )

    async def _sleep(self, ms: int) -> None:
        try:
            async with asyncio.timeout(ms / 1000):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _read(self, watched: Iterable[LedSharePartition], wait_ms: int) -> bool:
        """Read for those partitions that nobody else reads for, and acquire. Whether one of them is
        to be read from elsewhere by now.
        """
        readings: dict[TopicPartition, _Reading] = {}
        for led in watched:
            if led.reader is None and self._fetches.may_read(self._session, led):
                assert led.state is not None
                offset = led.state.fetch_offset()
                if offset is not None:
                    readings[led.name] = _Reading(led, offset)
        if not readings:
            return False
        if self._found:
            wait_ms = 0
        for led, offset in readings.values():
            led.reader, led.read_from = self, offset
        try:
            data = await self._fetches.read(self._ask(readings, wait_ms), self._woken)
            if data is not None and self._fetches.is_open(self._session):
                await self._take(readings, data)
        finally:
            for led, _ in readings.values():
                led.reader = led.read_from = None
                led.waiting.pop(self, None)
                led.changed()  # another one may read
        return any(
            led.state is None or led.state.fetch_offset() != offset
            for led, offset in readings.values()
        )

    def _ask(self, readings: dict[TopicPartition, _Reading], wait_ms: int) -> Fetch:
        request = self._request
        settings = self._fetches.led.settings_of(request.group_id)
        return Fetch(
            max(wait_ms, 0),
            request.min_bytes,
            request.max_bytes,
            tuple(
                PartitionFetch(
                    name, led.key.topic_id, offset, self._bytes_of(led), led.leader_epoch
                )
                for name, (led, offset) in readings.items()
            ),
            settings.reads_committed,
        )

    def _bytes_of(self, led: LedSharePartition) -> int:
        """As much of the log as may be acquired, about."""
        request = self._request
        if not led.record_bytes:
            return request.max_bytes
        wanted = int(READ_MORE * led.record_bytes * request.wanted.max_records) + READ_BYTES_MIN
        return min(request.max_bytes, max(wanted, request.min_bytes))

    async def _take(
        self, readings: dict[TopicPartition, _Reading], data: Sequence[PartitionData]
    ) -> None:
        left = self._request.wanted.max_records
        for item in data:
            reading = readings.get(item.topic_partition)
            if reading is None or reading.led.ended is not None or reading.led.state is None:
                continue
            if item.failure is not None:
                await self._on_failure(reading, item)
            elif left > 0:
                left -= self._acquire(reading, item, left)

    async def _on_failure(self, reading: _Reading, item: PartitionData) -> None:
        led, offset = reading
        assert item.failure is not None
        error = errors.from_code(item.failure.code, item.failure.message)
        if isinstance(error, errors.OffsetOutOfRange):
            try:
                await self._fetches.led.log_bounds(led)
            except PylogError as unknown:  # a new leader may not know its log's end yet
                self._fail(led.key, unknown)
        elif isinstance(error, errors.CorruptMessage) and item.damaged_end > offset:
            _log.error("%s has rotted from offset %d to %d", led.name, offset, item.damaged_end)
            lost = [LogBatch(offset, item.damaged_end - 1, is_for_members=False)]
            self._acquire(reading, item, 1, lost)
        else:
            self._fail(led.key, error)

    def _acquire(
        self,
        reading: _Reading,
        item: PartitionData,
        most: int,
        batches: Sequence[LogBatch] | None = None,
    ) -> int:
        """The number of records that the member has acquired."""
        led, offset = reading
        state = led.state
        assert state is not None
        if not self._fetches.is_open(self._session):
            return 0
        state.on_log_start(item.log_start_offset)
        if batches is None:
            batches = log_batches(item.records, item.aborted)
        records = sum(last - first + 1 for first, last, _ in batches)
        if records and item.records:
            led.record_bytes = len(item.records) / records
        wanted = self._request.wanted._replace(max_records=most)
        member_id, now_ms = self._session.key.member_id, self._fetches.now_ms()
        acquired = state.acquire(now_ms, member_id, offset, batches, wanted)
        self._fetches.led.settle(led)
        if not acquired:
            return 0
        ranges = [(each.first_offset, each.last_offset) for each in acquired]
        self._found[led.key] = SharePartitionData(
            led.key.topic_id,
            led.key.partition,
            records=with_records_of(item.records, ranges),
            acquired=tuple(acquired),
        )
        count = sum(last - first + 1 for first, last in ranges)
        self._fetches.led.acquired += count
        return count
