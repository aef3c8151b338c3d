"""Share sessions, fetches and acknowledgements over a real log, with a share coordinator that can
be held up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerId, Offset, TopicId
from pylog.records.batch import iter_headers
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog_broker.metadata.image import MetadataDelta
from pylog_broker.node.engine import Engine
from pylog_broker.node.share import fetches
from pylog_broker.node.share.fetches import ShareFetches
from pylog_broker.node.share.led_partitions import LedSharePartitions
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.offset_messages import DeleteRecords, OffsetAnswer, OffsetQuery
from pylog_broker.replication.produce_messages import PartitionBatch, Produce
from pylog_broker.share.persisted import InitializeState
from pylog_broker.share.requests import (
    ShareAcknowledge,
    ShareAcknowledged,
    ShareFetch,
    ShareFetched,
    SharePartitionFetch,
)
from pylog_broker.share.sessions import SharePartitionKey, ShareSessions
from pylog_broker.share.settings import ShareSettings
from pylog_broker.share.share_partition import AcknowledgementBatch, Wanted
from tests.fakes.broker_group import T0, TOPIC_ID, BrokerGroup
from tests.fakes.dead_letters import FakeDeadLetters
from tests.fakes.share_states import FakeShareStates

ONE = BrokerId(1)
KEY = SharePartitionKey("g", TOPIC_ID, 0)
ACCEPT, RELEASE, REJECT, RENEW = b"\x01", b"\x02", b"\x03", b"\x04"
LONG_MS = 20_000
NO_TOPIC = TopicId("Z" * 21 + "A")

Acks = tuple[AcknowledgementBatch, ...]


async def _unreached(request: object) -> None:
    return None


def acks(*batches: tuple[int, int, bytes]) -> Acks:
    return tuple(AcknowledgementBatch(*batch) for batch in batches)


class Broker:
    """One broker that leads t-0."""

    def __init__(self, group: BrokerGroup, pool: ThreadPoolExecutor) -> None:
        self.group = group
        self.manager: ReplicaManager = group.managers[ONE]
        self.faults: list[str] = []
        self.engine = Engine(
            self.manager,
            SYSTEM_CLOCK,
            pool,
            alter_partition=_unreached,
            remove_directory=lambda _: None,
            report_failed=lambda *_: None,
            on_fault=self.faults.append,
        )
        self.settings = ShareSettings(auto_offset_reset="earliest")
        self.states = FakeShareStates()
        self.dead_letters = FakeDeadLetters()
        self.sessions = ShareSessions(10)
        self.led = LedSharePartitions(
            self.engine,
            SYSTEM_CLOCK,
            self.states,
            lambda: group.image,
            ONE,
            lambda _: self.settings,
            lambda group_id: self.sessions.of_group(group_id) > 0,
            self.dead_letters,
        )
        self.fetches = ShareFetches(self.engine, SYSTEM_CLOCK, self.led, self.sessions)

    def produce(self, *values: bytes, batch: bytes = b"") -> None:
        made = PartitionBatch(T0, TOPIC_ID, batch or encode_batch(values, timestamps=0))
        request = Produce(1, 5_000, (made,), internal=True)
        self.engine.tell(
            lambda now_ms: self.manager.produce(now_ms, 0, request, lambda answer: None)
        )

    def member(self, name: str, connection: str = "") -> Member:
        return Member(self, name, connection or f"c-{name}")

    async def settled(self) -> None:
        """All that is due to happen at once has."""
        for _ in range(20):
            await asyncio.sleep(0)


class Member:
    """Sends what the test says."""

    def __init__(self, broker: Broker, name: str, connection: str) -> None:
        self.broker = broker
        self.name = name
        self.connection = connection
        self.epoch = 0

    def request(self, given: Acks = (), **changes: Any) -> ShareFetch:
        """It names the partition in the first one, and with acknowledgements."""
        named = (SharePartitionFetch(TOPIC_ID, 0, given),)
        partitions = named if self.epoch == 0 or given else ()
        made = ShareFetch(
            "g", self.name, self.epoch, 0, 1, 1 << 20, Wanted(500, 500), partitions=partitions
        )
        return made._replace(**changes)

    async def fetch(self, given: Acks = (), **changes: Any) -> ShareFetched:
        request = self.request(given, **changes)
        self.epoch = max(request.session_epoch, 0) + 1
        return await self.broker.fetches.fetch(self.connection, request)

    async def acquire(self, given: Acks = (), **changes: Any) -> list[tuple[int, int, int]]:
        """First and last offset and delivery count of what it got."""
        answer = await self.fetch(given, **changes)
        found = []
        for each in answer.partitions:
            assert (each.failure, each.acknowledge_failure) == (None, None)
            found += [tuple(records) for records in each.acquired]
        return found  # type: ignore[return-value]

    async def acknowledge(self, given: Acks, **changes: Any) -> ShareAcknowledged:
        partitions = (SharePartitionFetch(TOPIC_ID, 0, given),)
        request = ShareAcknowledge("g", self.name, self.epoch, False, partitions)._replace(
            **changes
        )
        self.epoch += 1
        return await self.broker.fetches.acknowledge(self.connection, request)

    async def ends(self, *batches: tuple[int, int, bytes]) -> int:
        """Acknowledges; the code of the answer."""
        (ack,) = (await self.acknowledge(acks(*batches))).partitions
        return ack.failure.code if ack.failure else 0


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    made = BrokerGroup(tmp_path, 1)
    made.create_topic((1,))
    made.run()
    return made


def run(group: BrokerGroup, main: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        with ThreadPoolExecutor(1) as pool:
            async with asyncio.timeout(30):
                broker = Broker(group, pool)
                await broker.states.initialize(InitializeState(KEY, 1))
                await main(broker)
                broker.led.stop()
                broker.engine.stop()
                assert broker.faults == []

    asyncio.run(whole())


# ---- acquiring -----------------------------------------------------------------------------------


def test_members_have_different_records_of_one_partition(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(*[b"v"] * 10)
        a, b = broker.member("a"), broker.member("b")
        few = Wanted(4, 500, record_limit=True)
        assert await a.acquire(wanted=few, max_wait_ms=LONG_MS) == [(0, 3, 1)]
        assert await b.acquire(wanted=few, max_wait_ms=LONG_MS) == [(4, 7, 1)]
        # Whole batches, unless they are taken apart already.
        assert await a.acquire(wanted=Wanted(1, 500)) == [(8, 9, 1)]
        assert await b.acquire() == []

    run(group, main)


def test_only_batches_with_acquired_records_are_sent(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        for value in (b"a", b"b", b"c"):
            broker.produce(value, value)
        limit = Wanted(2, 500, record_limit=True)
        answer = await broker.member("a").fetch(wanted=limit, max_wait_ms=LONG_MS)
        (data,) = answer.partitions
        assert [header.base_offset for _, header in iter_headers(data.records)] == [0]
        assert answer.lock_ms == 30_000

    run(group, main)


def test_a_fetch_waits_for_records_that_are_produced(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        a, b = broker.member("a"), broker.member("b")
        waiting = [asyncio.ensure_future(each.acquire(max_wait_ms=LONG_MS)) for each in (a, b)]
        await broker.settled()
        broker.produce(b"one")
        done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result() for each in done] == [[(0, 0, 1)]]
        broker.produce(b"two")
        assert [await each for each in left] == [[(1, 1, 1)]]

    run(group, main)


def test_a_fetch_that_finds_nothing_ends_when_its_time_is_over(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        assert await broker.member("a").acquire(max_wait_ms=30) == []
        assert broker.led.find(KEY) is not None

    run(group, main)


def test_a_fetch_waits_for_records_that_another_member_releases(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v", b"w")
        a, b = broker.member("a"), broker.member("b")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 1, 1)]
        waiting = asyncio.ensure_future(b.acquire(max_wait_ms=LONG_MS))
        await broker.settled()
        assert await a.ends((0, 0, ACCEPT), (1, 1, RELEASE)) == 0
        assert await waiting == [(1, 1, 2)]

    run(group, main)


def test_what_is_released_is_not_delivered_before_that_is_durable(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v")
        a, b = broker.member("a"), broker.member("b")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 0, 1)]
        broker.states.held.clear()
        releasing = asyncio.ensure_future(a.ends((0, 0, RELEASE)))
        assert await b.acquire(max_wait_ms=30) == []
        assert not releasing.done()
        broker.states.held.set()
        assert await releasing == 0
        assert await b.acquire() == [(0, 0, 2)]

    run(group, main)


def test_what_somebody_else_has_accepted_is_answered_when_that_is_durable(
    group: BrokerGroup,
) -> None:
    async def main(broker: Broker) -> None:
        broker.settings = ShareSettings(record_lock_duration_ms=40, auto_offset_reset="earliest")
        broker.produce(b"v", b"w")
        a, b = broker.member("a"), broker.member("b")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 1, 1)]
        assert await b.acquire(max_wait_ms=LONG_MS) == [(0, 1, 2)]
        broker.states.held.clear()
        first = asyncio.ensure_future(b.ends((0, 0, ACCEPT)))
        await broker.settled()
        second = asyncio.ensure_future(b.ends((1, 1, ACCEPT)))
        await broker.settled()
        # a's lock has ended: its records are passed over
        late = [asyncio.ensure_future(a.ends((n, n, ACCEPT))) for n in (0, 1)]
        await broker.settled()
        assert not any(each.done() for each in (first, second, *late))
        broker.states.held.set()
        assert [await each for each in (first, second, *late)] == [0] * 4
        assert broker.states.writes[-1].start_offset == 2
        assert await a.ends((0, 1, ACCEPT)) == 0
        renewal = await a.acknowledge(acks((1, 1, RENEW)), is_renew_ack=True)
        assert renewal.partitions[0].failure is not None
        assert renewal.partitions[0].failure.code == errors.InvalidRecordState.code

    run(group, main)


def test_nothing_is_acquired_while_acknowledgements_wait_for_long(
    group: BrokerGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetches, "DURABLE_SECONDS", 0.02)

    async def main(broker: Broker) -> None:
        a, b = broker.member("a"), broker.member("b")
        for each in (a, b):
            assert await each.acquire(max_wait_ms=30) == []  # has begun to read
        broker.produce(b"v", b"w")
        limit = Wanted(1, 500, record_limit=True)
        assert await a.acquire(wanted=limit, max_wait_ms=LONG_MS) == [(0, 0, 1)]
        broker.states.held.clear()
        going_on = asyncio.ensure_future(a.acquire(acks((0, 0, ACCEPT)), max_wait_ms=LONG_MS))
        await asyncio.wait((going_on,), timeout=0.1)
        assert not going_on.done()
        assert await b.acquire() == [(1, 1, 1)]
        broker.states.held.set()
        assert await going_on == []

    run(group, main)


def test_locks_end(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.settings = ShareSettings(record_lock_duration_ms=40, auto_offset_reset="earliest")
        broker.produce(b"v")
        a, b = broker.member("a"), broker.member("b")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 0, 1)]
        assert await b.acquire(max_wait_ms=LONG_MS) == [(0, 0, 2)]
        assert broker.led.expired_locks == 1
        assert await a.ends((0, 0, ACCEPT)) == errors.InvalidRecordState.code

    run(group, main)


def test_records_that_members_must_not_see_are_passed_over(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(
            batch=encode_batch(
                [b"v"],
                timestamps=0,
                transactional=True,
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
            )
        )
        broker.produce(
            batch=encode_control_batch(
                ControlType.ABORT,
                producer_id=7,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=0,
            )
        )
        broker.produce(b"last")
        broker.settings = ShareSettings(
            auto_offset_reset="earliest", isolation_level="read_committed"
        )
        a = broker.member("a")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(2, 2, 1)]
        assert await a.ends((2, 2, ACCEPT)) == 0
        assert broker.states.coordinator.partitions[KEY].start_offset == 3

    run(group, main)


# ---- where a group begins ------------------------------------------------------------------------


def test_latest_begins_at_the_end_and_keeps_to_it(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.settings = ShareSettings()
        broker.produce(b"old")
        a = broker.member("a")
        assert await a.acquire(max_wait_ms=30) == []
        assert broker.states.coordinator.partitions[KEY].start_offset == 1
        broker.produce(b"new")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(1, 1, 1)]

    run(group, main)


def test_a_log_that_begins_later_moves_the_group_on(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        for _ in range(3):
            broker.produce(b"v", b"v")
        a = broker.member("a")
        limit = Wanted(1, 500, record_limit=True)
        assert await a.acquire(wanted=limit, max_wait_ms=LONG_MS) == [(0, 0, 1)]
        request = DeleteRecords(((T0, Offset(4)),), 1_000)
        broker.engine.tell(
            lambda now_ms: broker.manager.delete_records(now_ms, request, lambda _: None)
        )
        assert await a.acquire(max_wait_ms=LONG_MS) == [(4, 5, 1)]
        assert await a.ends((0, 0, ACCEPT)) == 0  # whatever became of it

    run(group, main)


# ---- sessions ------------------------------------------------------------------------------------


def test_the_end_of_a_session_gives_back_what_was_not_seen(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v", b"w")
        a, b = broker.member("a"), broker.member("b")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 1, 1)]
        answer = await a.fetch(acks((0, 0, ACCEPT)), session_epoch=-1)
        assert [each.acknowledge_failure for each in answer.partitions] == [None]
        assert await b.acquire(max_wait_ms=LONG_MS) == [(1, 1, 1)]
        a.epoch = 2
        with pytest.raises(errors.ShareSessionNotFound):
            await a.fetch()

    run(group, main)


def test_the_end_of_a_connection_gives_back_at_once_and_counts(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v")
        a, b = broker.member("a"), broker.member("b")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 0, 1)]
        waiting = asyncio.ensure_future(b.acquire(max_wait_ms=LONG_MS))
        await broker.settled()
        broker.fetches.on_connection_closed("c-a")
        assert await waiting == [(0, 0, 2)]

    run(group, main)


def test_a_fetch_whose_session_ends_meanwhile_acquires_nothing(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        a = broker.member("a")
        waiting = asyncio.ensure_future(a.acquire(max_wait_ms=LONG_MS))
        await broker.settled()
        await broker.member("a").fetch(session_epoch=0, max_wait_ms=0)  # a new one in its place
        broker.produce(b"v")
        assert await waiting == []

    run(group, main)


def test_a_fetch_that_is_given_up_lets_others_read(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        a, b = broker.member("a"), broker.member("b")
        first = asyncio.ensure_future(a.acquire(max_wait_ms=LONG_MS))
        await broker.settled()
        second = asyncio.ensure_future(b.acquire(max_wait_ms=LONG_MS))
        await broker.settled()
        first.cancel()
        await broker.settled()
        broker.produce(b"v")
        assert await second == [(0, 0, 1)]

    run(group, main)


def test_without_members_nothing_is_kept(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v")
        a = broker.member("a")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 0, 1)]
        await a.fetch(session_epoch=-1)
        await broker.settled()
        assert (len(broker.led), len(broker.sessions)) == (0, 0)
        assert await broker.member("b").acquire(max_wait_ms=LONG_MS) == [(0, 0, 1)]

    run(group, main)


def test_epochs_and_firsts_are_checked(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        a = broker.member("a")
        with pytest.raises(errors.InvalidRequest, match="first fetch of a share session"):
            await a.fetch(acks((0, 0, ACCEPT)))
        with pytest.raises(errors.ShareSessionNotFound):
            await broker.member("b").acknowledge(acks((0, 0, ACCEPT)), session_epoch=1)
        a.epoch = 0
        await a.fetch()
        with pytest.raises(errors.InvalidShareSessionEpoch):
            await a.fetch(session_epoch=5)

    run(group, main)


# ---- failures ------------------------------------------------------------------------------------


def test_a_write_that_fails_has_the_partition_loaded_anew(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v", b"w")
        a = broker.member("a")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 1, 1)]
        broker.states.fault = errors.CoordinatorNotAvailable("it is gone")
        assert await a.ends((0, 0, ACCEPT)) == errors.CoordinatorNotAvailable.code
        assert broker.led.find(KEY) is None
        # Nothing of it is known, so both are delivered: the first one was never acknowledged.
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 1, 1)]

    run(group, main)


def test_offsets_that_were_set_elsewhere_fence_what_is_here(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v", b"w", b"x")
        a = broker.member("a")
        limit = Wanted(1, 500, record_limit=True)
        assert await a.acquire(wanted=limit, max_wait_ms=LONG_MS) == [(0, 0, 1)]
        await broker.states.initialize(InitializeState(KEY, 2, 2))
        assert await a.ends((0, 0, ACCEPT)) == errors.NotLeaderOrFollower.code
        assert await a.acquire(max_wait_ms=LONG_MS) == [(2, 2, 1)]

    run(group, main)


@pytest.mark.parametrize("start", [0, 2])
def test_a_member_that_begins_to_read_begins_where_offsets_were_set(
    group: BrokerGroup, start: int
) -> None:
    """The session of a member that died keeps what was loaded of the state before."""

    async def main(broker: Broker) -> None:
        broker.produce(b"v", b"w", b"x")
        dead, late = broker.member("dead"), broker.member("late")
        limit = Wanted(1, 500, record_limit=True)
        assert await dead.acquire(wanted=limit, max_wait_ms=LONG_MS) == [(0, 0, 1)]
        assert await dead.ends((0, 0, ACCEPT)) == 0
        await broker.states.initialize(InitializeState(KEY, 2, start))
        first = (start, start, 1)
        assert await late.acquire(wanted=limit, max_wait_ms=LONG_MS) == [first]
        assert await late.ends((start, start, ACCEPT)) == 0
        assert broker.states.coordinator.partitions[KEY].start_offset == start + 1

    run(group, main)


def test_a_member_that_joins_again_in_its_session_names_the_partition_again(
    group: BrokerGroup,
) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v", b"w", b"x")
        a = broker.member("a")
        limit = Wanted(1, 500, record_limit=True)
        assert await a.acquire(wanted=limit, max_wait_ms=LONG_MS) == [(0, 0, 1)]
        await broker.states.initialize(InitializeState(KEY, 2, 2))
        again = (SharePartitionFetch(TOPIC_ID, 0),)
        assert await a.acquire(partitions=again, max_wait_ms=LONG_MS) == [(2, 2, 1)]

    run(group, main)


def test_a_member_that_waits_for_nothing_gets_of_what_it_names_each_time(
    group: BrokerGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetches, "DURABLE_SECONDS", 30)

    async def main(broker: Broker) -> None:
        broker.produce(b"v", b"w", b"x")
        a = broker.member("a")
        limit, again = Wanted(1, 500, record_limit=True), (SharePartitionFetch(TOPIC_ID, 0),)
        assert await a.acquire(wanted=limit, max_wait_ms=LONG_MS) == [(0, 0, 1)]
        for offset in (1, 2):
            got = await a.acquire(partitions=again, wanted=limit, max_wait_ms=0)
            assert got == [(offset, offset, 1)]
        monkeypatch.setattr(fetches, "DURABLE_SECONDS", 0.05)
        broker.produce(b"y")
        broker.states.held.clear()  # the write that confirms the state is not answered
        assert await a.acquire(partitions=again, wanted=limit, max_wait_ms=0) == []
        broker.states.held.set()

    run(group, main)


def test_a_state_that_was_read_before_offsets_were_set_is_not_begun_with(
    group: BrokerGroup,
) -> None:
    """The share coordinator has answered the leader, which does not know yet where its log begins,
    when offsets are set and another member comes.
    """

    async def main(broker: Broker) -> None:
        broker.produce(b"v", b"w", b"x")
        a, b = broker.member("a"), broker.member("b")
        limit = Wanted(1, 500, record_limit=True)
        offsets, may_go_on = broker.led.offsets, asyncio.Event()

        async def slow_offsets(queries: Sequence[OffsetQuery]) -> Sequence[OffsetAnswer]:
            await may_go_on.wait()
            return await offsets(queries)

        broker.led.offsets = slow_offsets  # type: ignore[method-assign]
        first = asyncio.ensure_future(a.fetch(wanted=limit, max_wait_ms=LONG_MS))
        await broker.settled()
        await broker.states.initialize(InitializeState(KEY, 2, 2))
        broker.states.held.clear()
        second = asyncio.ensure_future(b.acquire(wanted=limit, max_wait_ms=LONG_MS))
        await broker.settled()
        may_go_on.set()
        await first  # has begun to read before, and gets what was there
        assert not second.done()
        broker.states.held.set()
        assert await second == [(2, 2, 1)]

    run(group, main)


def test_members_that_read_already_go_on_while_another_one_begins(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        a, b = broker.member("a"), broker.member("b")
        assert await a.acquire(max_wait_ms=30) == []
        broker.states.held.clear()
        late = asyncio.ensure_future(b.acquire(max_wait_ms=LONG_MS))
        await broker.settled()
        broker.produce(b"v")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 0, 1)]
        broker.produce(b"w")
        await broker.settled()
        assert not late.done()
        broker.states.held.set()
        assert await late == [(1, 1, 1)]

    run(group, main)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (errors.CoordinatorNotAvailable("it is gone"), None),
        (None, errors.UnknownTopicOrPartition.code),
    ],
)
def test_a_member_that_begins_hears_of_a_failure_that_lasts(
    group: BrokerGroup, fault: errors.PylogError | None, code: int | None
) -> None:
    """The first failure ends the loaded state, and the member has it loaded anew."""

    async def main(broker: Broker) -> None:
        a, b = broker.member("a"), broker.member("b")
        assert await a.acquire(max_wait_ms=30) == []
        broker.produce(b"v")
        broker.states.fault = fault
        if code is not None:
            await broker.states.delete(KEY)
        (data,) = (await b.fetch(max_wait_ms=LONG_MS)).partitions
        assert (data.failure.code if data.failure else None) == code
        assert [*map(tuple, data.acquired)] == ([(0, 0, 1)] if code is None else [])

    run(group, main)


def test_without_state_a_fetch_hears_so(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        await broker.states.delete(KEY)
        answer = await broker.member("a").fetch(max_wait_ms=LONG_MS)
        (data,) = answer.partitions
        assert data.failure is not None
        assert data.failure.code == errors.UnknownTopicOrPartition.code
        assert "has no state" in data.failure.message

    run(group, main)


def test_of_partitions_that_are_not_here_a_fetch_hears_and_of_others_it_gets(
    group: BrokerGroup,
) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v")
        a = broker.member("a")
        wanted = (SharePartitionFetch(NO_TOPIC, 0),)
        await a.fetch(max_wait_ms=0)  # loads what is there
        await broker.settled()
        answer = await a.fetch(partitions=wanted, max_wait_ms=LONG_MS)
        by_topic = {each.topic_id: each for each in answer.partitions}
        failure = by_topic[NO_TOPIC].failure
        assert failure is not None
        assert failure.code == errors.UnknownTopicId.code
        assert [*map(tuple, by_topic[TOPIC_ID].acquired)] == [(0, 0, 1)]

    run(group, main)


def test_another_leader_ends_it_all(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v")
        a, b = broker.member("a"), broker.member("b")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 0, 1)]
        broker.states.held.clear()
        ending = asyncio.ensure_future(a.ends((0, 0, ACCEPT)))
        waiting = asyncio.ensure_future(b.fetch(max_wait_ms=LONG_MS))
        await broker.settled()
        record = group.elect(1)
        broker.led.on_metadata(MetadataDelta(partitions=(record,)))
        assert await ending == errors.NotLeaderOrFollower.code
        broker.states.held.set()
        (data,) = (await waiting).partitions  # the same broker leads in a later epoch
        assert data.failure is not None or data.acquired

    run(group, main)


def test_a_topic_that_is_gone_ends_it(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        a = broker.member("a")
        waiting = asyncio.ensure_future(a.fetch(max_wait_ms=LONG_MS))
        await broker.settled()
        record = group.record()
        group.delete_topic()
        broker.led.on_metadata(MetadataDelta(partitions=(record,)))
        (data,) = (await waiting).partitions
        assert data.failure is not None
        assert data.failure.code == errors.UnknownTopicId.code

    run(group, main)


# ---- dead letters --------------------------------------------------------------------------------


def with_dead_letters(broker: Broker, **changes: Any) -> None:
    broker.settings = ShareSettings(
        auto_offset_reset="earliest", dead_letter_topic="dlq.t", **changes
    )


def stored(broker: Broker) -> list[tuple[int, int, int, int]]:
    """The share coordinator's state of the records, after the start offset that it knows."""
    state = broker.states.coordinator.partitions[KEY]
    return [
        (state.start_offset, 0, 0, 0),
        *(
            (each.first_offset, each.last_offset, each.state.value, each.delivery_count)
            for each in state.batches
        ),
    ]


async def until(broker: Broker, holds: Callable[[], bool]) -> None:
    while not holds():
        await broker.settled()


def test_what_is_rejected_goes_to_the_dead_letter_topic_before_it_is_archived(
    group: BrokerGroup,
) -> None:
    async def main(broker: Broker) -> None:
        with_dead_letters(broker)
        broker.dead_letters.held.clear()
        broker.produce(b"v", b"w", b"x")
        a = broker.member("a")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 2, 1)]
        assert await a.ends((0, 1, REJECT), (2, 2, ACCEPT)) == 0  # durable, and not yet there
        assert stored(broker) == [(0, 0, 0, 0), (0, 1, 3, 1), (2, 2, 2, 1)]
        assert broker.dead_letters.asked == [("g", T0, 2)]
        broker.dead_letters.held.set()
        await until(broker, lambda: stored(broker) == [(3, 0, 0, 0)])
        assert broker.dead_letters.written == [(0, 1, True), (1, 1, True)]

    run(group, main)


def test_what_was_delivered_as_often_as_may_be_goes_to_the_dead_letter_topic(
    group: BrokerGroup,
) -> None:
    async def main(broker: Broker) -> None:
        with_dead_letters(broker, delivery_count_limit=2)
        broker.produce(b"v", b"w")
        a = broker.member("a")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 1, 1)]
        assert await a.ends((0, 0, RELEASE), (1, 1, ACCEPT)) == 0
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 0, 2)]
        broker.fetches.on_connection_closed("c-a")
        await until(broker, lambda: broker.led.find(KEY) is None)
        assert broker.dead_letters.written == [(0, 2, False)]
        assert stored(broker) == [(2, 0, 0, 0)]

    run(group, main)


def test_without_a_dead_letter_topic_nothing_goes_anywhere(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v")
        a = broker.member("a")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 0, 1)]
        assert await a.ends((0, 0, REJECT)) == 0
        assert stored(broker) == [(1, 0, 0, 0)]
        assert broker.dead_letters.asked == []

    run(group, main)


def test_dead_letters_that_wait_hold_places_and_others_go_on(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        with_dead_letters(broker, partition_max_record_locks=3)
        broker.dead_letters.held.clear()
        broker.produce(*[b"v"] * 5)
        a = broker.member("a")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 2, 1)]
        assert await a.ends((0, 1, REJECT), (2, 2, RELEASE)) == 0
        assert await a.acquire(max_wait_ms=LONG_MS) == [(2, 2, 2)]
        assert await a.ends((2, 2, REJECT)) == 0
        assert await a.acquire(max_wait_ms=30) == []
        waiting = asyncio.ensure_future(a.acquire(max_wait_ms=LONG_MS))
        await broker.settled()
        assert broker.dead_letters.asked == [("g", T0, 2)]  # one batch at a time
        broker.dead_letters.held.set()
        assert await waiting == [(3, 4, 1)]
        await until(broker, lambda: stored(broker)[0][0] == 3)
        assert [each[0] for each in broker.dead_letters.written] == [0, 1, 2]

    run(group, main)


def test_another_leader_brings_what_this_one_has_not(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        with_dead_letters(broker, delivery_count_limit=3)
        broker.dead_letters.held.clear()
        broker.produce(b"v", b"w")
        a = broker.member("a")
        for count in (1, 2, 3):
            ((_, _, delivered),) = await a.acquire(max_wait_ms=LONG_MS)
            assert delivered == count
            given = (0, 0, RELEASE), (1, 1, REJECT if count == 3 else RELEASE)
            assert await a.ends(*given) == 0
        led = broker.led.find(KEY)
        assert led is not None
        broker.led.end(led, errors.NotLeaderOrFollower(""))
        broker.dead_letters.held.set()
        assert broker.dead_letters.written == []
        assert await a.acquire(max_wait_ms=30) == []
        await until(broker, lambda: stored(broker) == [(2, 0, 0, 0)])
        # The reason is not stored: both were delivered as often as may be.
        assert broker.dead_letters.written == [(0, 3, False), (1, 3, False)]

    run(group, main)


def test_without_members_dead_letters_are_brought_and_then_nothing_is_kept(
    group: BrokerGroup,
) -> None:
    async def main(broker: Broker) -> None:
        with_dead_letters(broker)
        broker.dead_letters.held.clear()
        broker.produce(b"v")
        a = broker.member("a")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 0, 1)]
        assert await a.ends((0, 0, REJECT)) == 0
        await a.acknowledge((), session_epoch=-1)
        await broker.settled()
        assert broker.led.find(KEY) is not None
        broker.dead_letters.held.set()
        await until(broker, lambda: broker.led.find(KEY) is None)
        assert stored(broker) == [(1, 0, 0, 0)]

    run(group, main)


def test_settings_that_change_hold_for_what_comes_next(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.produce(b"v", b"w")
        a = broker.member("a")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 1, 1)]
        assert await a.ends((0, 0, REJECT)) == 0
        with_dead_letters(broker, delivery_count_limit=1)
        broker.fetches.on_connection_closed("c-a")  # without another fetch
        await until(broker, lambda: broker.led.find(KEY) is None)
        assert broker.dead_letters.written == [(1, 1, False)]

    run(group, main)


def test_a_lock_that_may_not_be_renewed(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        broker.settings = ShareSettings(auto_offset_reset="earliest", may_renew=False)
        broker.produce(b"v")
        a = broker.member("a")
        assert await a.acquire(max_wait_ms=LONG_MS) == [(0, 0, 1)]
        answer = await a.acknowledge(acks((0, 0, RENEW)), is_renew_ack=True)
        failure = answer.partitions[0].failure
        assert failure is not None
        assert failure.code == errors.InvalidRecordState.code
        assert "share.renew.acknowledge.enable" in failure.message
        broker.settings = ShareSettings(auto_offset_reset="earliest")
        answer = await a.acknowledge(acks((0, 0, RENEW)), is_renew_ack=True)
        assert answer.partitions[0].failure is None

    run(group, main)
