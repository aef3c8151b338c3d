"""Fetch sessions at the leader (KIP-227): what is not named again still counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pylog.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pylog_broker.metadata.records import ConfigRecord, ConfigResourceType
from pylog_broker.replication.effects import (
    ColdRead,
    Effect,
    ReplicaFetchDone,
    SendAlterPartition,
    SendReplicaFetch,
)
from pylog_broker.replication.isr import IsrEffect, LeaderState
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.replica_fetch_messages import (
    ReplicaFetch,
    ReplicaFetched,
    ReplicaPartitionFetch,
)
from pylog_broker.replication.sessions import EPOCH_MAX, next_epoch
from pylog_broker.storage.log.log import LogRead
from pylog_broker.storage.segments.segment_reader import PagesCold
from tests.fakes.broker_group import TOPIC_ID, WALL_MS, BrokerGroup

ONE, TWO = BrokerId(1), BrokerId(2)


class Leader:
    """Broker 1, asked by hand in the name of broker 2."""

    def __init__(
        self, root: Path, partitions: int = 3, manager_type: type[ReplicaManager] = ReplicaManager
    ) -> None:
        self.group = BrokerGroup(root, brokers=2, manager_type=manager_type)
        self.group.cut_links = {(TWO, ONE)}
        self.group.create_topic(replicas=(1, 2), partitions=partitions)
        self.group.run()
        self.core = self.group.managers[ONE]
        self.token = 0

    def ask(
        self,
        session: int,
        epoch: int,
        *offsets: tuple[int, int],
        max_bytes: int = 1 << 20,
        forgotten: tuple[int, ...] = (),
    ) -> list[Effect]:
        """Fetch (partition, offset)s; the effects."""
        items = tuple(
            ReplicaPartitionFetch(
                TOPIC_ID, number, LeaderEpoch(0), Offset(offset),
                LeaderEpoch(0 if offset else -1), Offset(0), 1 << 20, Offset(0),
            )
            for number, offset in offsets
        )  # fmt: skip
        life = self.group.image.brokers[TWO].broker_epoch
        gone = tuple((TOPIC_ID, number) for number in forgotten)
        request = ReplicaFetch(TWO, life, 500, 1, max_bytes, items, session, epoch, gone)
        self.token += 1
        return self.core.replica_fetch(self.group.now_ms, request, self.token)

    def open(self, *offsets: tuple[int, int]) -> int:
        """A new session, answered after its wait; the id."""
        assert self.ask(0, 0, *offsets) == []
        [done] = self.wait()
        return done.session_id

    def wait(self, ms: int = 500) -> list[ReplicaFetched]:
        self.group.now_ms += ms
        return fetched(self.core.on_time(self.group.now_ms, WALL_MS))

    def produce(self, partition: int) -> list[ReplicaFetched]:
        before = len(self.group._mail)
        self.group.produce(1, b"value", name=TopicPartition("t", partition), acks=1)
        return fetched([effect for _, effect in list(self.group._mail)[before:]])


@pytest.fixture
def leader(tmp_path: Path) -> Leader:
    return Leader(tmp_path)


def fetched(effects: list[Effect]) -> list[ReplicaFetched]:
    return [effect.fetched for effect in effects if isinstance(effect, ReplicaFetchDone)]


def told(answer: ReplicaFetched) -> list[int]:
    return [data.partition for data in answer.partitions]


def test_a_partition_that_was_not_named_again_is_answered_for(leader: Leader) -> None:
    session = leader.open((0, 0), (1, 0), (2, 0))
    assert leader.ask(session, 1) == []
    [answer] = leader.produce(2)
    assert answer.session_id == session
    assert told(answer) == [2]


def test_what_was_answered_is_answered_again_until_it_is_asked_further(leader: Leader) -> None:
    session = leader.open((0, 0))
    leader.ask(session, 1)
    leader.produce(0)
    [again] = fetched(leader.ask(session, 2))
    assert told(again) == [0]
    assert fetched(leader.ask(session, 3, (0, 1))) == []


def test_who_did_not_fit_comes_before_who_was_answered(leader: Leader) -> None:
    session = leader.open((0, 0), (1, 0))
    for number in (0, 1, 0):
        leader.produce(number)
    [first] = fetched(leader.ask(session, 1, max_bytes=1))
    assert [data.partition for data in first.partitions if data.records] == [0]
    [second] = fetched(leader.ask(session, 2, (0, 1), max_bytes=1))
    assert [data.partition for data in second.partitions if data.records] == [1]


def test_a_forgotten_partition_is_silent(leader: Leader) -> None:
    session = leader.open((0, 0), (1, 0))
    assert leader.ask(session, 1, forgotten=(1,)) == []
    assert leader.produce(1) == []
    assert [told(answer) for answer in leader.produce(0)] == [[0]]


def test_unknown_sessions_and_skipped_fetches_are_refused(leader: Leader) -> None:
    session = leader.open((0, 0))
    for wrong, epoch, code in (
        (session + 1, 1, FetchSessionIdNotFound.code),
        (0, 1, FetchSessionIdNotFound.code),
        (session, 2, InvalidFetchSessionEpoch.code),
        (session, EPOCH_MAX, InvalidFetchSessionEpoch.code),
    ):
        [answer] = fetched(leader.ask(wrong, epoch))
        assert answer.failure is not None
        assert answer.failure.code == code
        assert answer.partitions == ()
    assert leader.ask(session, 1) == []


def test_a_fetch_that_names_everything_ends_the_session_before(leader: Leader) -> None:
    first = leader.open((0, 0), (1, 0))
    second = leader.open((0, 0))
    assert second != first
    [refused] = fetched(leader.ask(first, 1))
    assert refused.failure is not None
    assert leader.produce(1) == []


def test_a_cancelled_fetch_takes_its_session_with_it(leader: Leader) -> None:
    session = leader.open((0, 0))
    leader.ask(session, 1)
    leader.core.cancel(leader.token)
    assert leader.core.waiting_requests == 0
    [refused] = fetched(leader.ask(session, 2))
    assert refused.failure is not None


def test_epochs_never_become_zero() -> None:
    assert next_epoch(EPOCH_MAX) == 1


def test_an_idle_follower_stays_in_sync_when_records_come_after_hours(tmp_path: Path) -> None:
    """Its fetches named the partition hours ago; since then each said that nothing changed."""
    group = BrokerGroup(tmp_path, brokers=2)
    group.create_topic(replicas=(1, 2))
    group.advance(3 * 3_600_000)
    group.cut_links = {(TWO, ONE)}
    group.produce(1, b"a", acks=1)
    group.advance(group.settings.replica_lag_time_max_ms // 2)
    assert group.record().isr == (ONE, TWO)
    group.advance(group.settings.replica_lag_time_max_ms)
    assert group.record().isr == (ONE,)


def test_a_follower_joins_again_while_all_is_idle(tmp_path: Path) -> None:
    """Nothing of its questions changes, and yet each fetch is a chance."""
    group = BrokerGroup(tmp_path, brokers=2)
    group.create_topic(replicas=(1, 2))
    group.advance(1_000)
    group.set_isr(1)
    group.tell()
    group.advance(1_000)
    assert group.record().isr == (ONE, TWO)


class Weighing(LeaderState):
    """Counts the fetches that were looked at."""

    fetches = 0

    def on_follower_fetch(self, *fetch: Any) -> Sequence[IsrEffect]:
        Weighing.fetches += 1
        return super().on_follower_fetch(*fetch)


class WeighingManager(ReplicaManager):
    leader_state = Weighing


def test_a_fetch_that_names_nothing_costs_nothing_where_its_follower_is_outside_the_isr(
    tmp_path: Path,
) -> None:
    """Behind, it gets further by naming the partition; stopping, not at all."""
    leader = Leader(tmp_path, manager_type=WeighingManager)
    for number in range(3):
        leader.produce(number)
        leader.group.set_isr(1, partition=number)
    stopping = leader.group.image.brokers[TWO]
    leader.group.append(replace(stopping, in_controlled_shutdown=True))
    leader.group.tell(ONE)
    session = fetched(leader.ask(0, 0, (0, 0), (1, 0), (2, 1)))[0].session_id
    before = Weighing.fetches
    leader.ask(session, 1)
    leader.ask(session, 2)
    assert Weighing.fetches == before
    leader.group.append(stopping)
    leader.group.tell(ONE)
    effects = [*leader.ask(session, 3), *leader.ask(session, 4)]
    assert Weighing.fetches == before + 1
    [proposed] = [effect for effect in effects if isinstance(effect, SendAlterPartition)]
    assert [wish.partition for wish in proposed.request.partitions] == [2]


def test_fetches_of_an_idle_broker_name_nothing(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, brokers=2)
    group.create_topic(replicas=(1, 2), partitions=100)
    group.run()
    sent: list[SendReplicaFetch] = []
    follower = group.managers[TWO]
    for _ in range(20):
        group.advance(500)
        sent += [e for _, e in group._waiting_fetches.values()]
    assert follower.waiting_requests == 0
    assert {len(effect.request.partitions) for effect in sent[2:]} == {0}


def test_a_leader_that_lost_its_sessions_is_told_everything_at_once(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, brokers=2)
    group.create_topic(replicas=(1, 2), partitions=3)
    group.advance(1_000)
    session = group.managers[ONE]._room.replica_fetches.by_follower.get(TWO)
    assert session is not None
    group.managers[ONE]._room.replica_fetches.close(session)
    # the fetch that waited in it is gone as well: its connection broke
    [(token, (_, effect))] = list(group._waiting_fetches.items())
    del group._waiting_fetches[token]
    group._answer_fetch(TWO, ONE, effect.request_id, None)
    token = group.produce(1, b"a")
    group.advance(1_000)
    assert group.error(token) == 0
    assert replace(group.state(2), fault="").log_end_offset == 1


class Cold(PagesCold):
    """Pages that are warm once somebody has waited for them."""

    def __init__(self) -> None:
        Exception.__init__(self, "cold")

    def warm(self) -> None:
        pass


def make_cold(leader: Leader, partition: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's log of a partition is never in memory."""
    log = leader.group.logs[ONE].get(TopicPartition("t", partition))
    assert log is not None
    read = log.read

    def cold_at_first(*place: int, nowait: bool = False, **more: Any) -> LogRead:
        if nowait:
            raise Cold
        return read(*place, nowait=nowait, **more)

    monkeypatch.setattr(log, "read", cold_at_first)


def test_a_refusal_is_told_though_the_rest_of_the_answer_waited_for_the_disk(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = leader.open((0, 0), (1, 0))
    leader.produce(0)
    make_cold(leader, 0, monkeypatch)
    leader.group.elect(2, partition=1)  # it is led elsewhere now
    leader.group.tell(ONE)
    effects = leader.ask(session, 1)
    [cold] = [effect for effect in effects if isinstance(effect, ColdRead)]
    [answer] = fetched(leader.core.on_cold_read(leader.group.now_ms, cold))
    refused = {data.partition for data in answer.partitions if data.failure is not None}
    assert refused == {1}
    assert {data.partition for data in answer.partitions if data.records} == {0}


@pytest.mark.parametrize("cold", [(), (0,), (0, 1)])
def test_a_throttled_answer_counts_once_though_its_pages_were_read_first(
    leader: Leader, monkeypatch: pytest.MonkeyPatch, cold: tuple[int, ...]
) -> None:
    group = leader.group
    for number in (0, 1):
        group.set_isr(1, partition=number)
    group.append(
        ConfigRecord(ConfigResourceType.TOPIC, "t", "leader.replication.throttled.replicas", "*"),
        ConfigRecord(ConfigResourceType.CLUSTER, "", "leader.replication.throttled.rate", "10"),
    )
    group.tell()
    for number in (0, 1):
        leader.produce(number)
    for number in cold:
        make_cold(leader, number, monkeypatch)
    group.now_ms += 60_000  # a second's worth may pass at once
    before = group.now_ms
    effects = leader.ask(0, 0, (0, 0), (1, 0))
    for effect in effects:
        if isinstance(effect, ColdRead):
            effects = leader.core.on_cold_read(before, effect)
    [answer] = fetched(effects)
    sizes = [len(data.records) for data in answer.partitions]
    throttle = leader.core._hosted.throttles.leader
    assert throttle.account == before - 1_000 + sum(sizes) * 100
