"""The share coordinator, request by request; every record passes through its bytes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from pylog.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest
from pylog.model import Offset, TopicId
from pylog_broker.coordinator.generated.share_snapshot import ShareSnapshotKey
from pylog_broker.coordinator.runtime.decision import Decision, Reply
from pylog_broker.coordinator.share_state.codec import ShareStateCodec
from pylog_broker.coordinator.share_state.coordinator import (
    COLD,
    ShareCoordinator,
    ShareStateConfig,
)
from pylog_broker.kafka_primitives import MalformedMessage
from pylog_broker.share.persisted import (
    InitializeState,
    ReadState,
    StateRead,
    StateSummary,
    WriteState,
)
from pylog_broker.share.record_states import RecordState, StateBatch
from pylog_broker.share.sessions import SharePartitionKey
from pylog_broker.share.state_batches import changed, combined, fault_in, newer

KEY = SharePartitionKey("g", TopicId("AAAAAAAAAAAAAAAAAAAAAQ"), 3)
ACKED, FREE, GONE = RecordState.ACKNOWLEDGED, RecordState.AVAILABLE, RecordState.ARCHIVED


class Shard:
    """A coordinator over a log in memory."""

    def __init__(self, **config: int) -> None:
        self.config = ShareStateConfig(**config)
        self.codec = ShareStateCodec()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.coordinator = ShareCoordinator(self.config)

    def do(self, decision: Decision) -> Any:
        for record in decision.records:
            encoded = self.codec.encode(record)
            assert self.codec.decode(*encoded) == record
            self.coordinator.replay(record, Offset(len(self.log)))
            self.log.append(encoded)
        for effect in decision.effects:
            if isinstance(effect, Reply):
                return effect.response
        return None

    def initialize(self, state_epoch: int = 1, start_offset: int = -1) -> None:
        request = InitializeState(KEY, state_epoch, start_offset)
        assert self.do(self.coordinator.initialize(5, 1, request)) is None

    def read(self, leader_epoch: int) -> Any:
        return self.do(self.coordinator.read(6, 1, ReadState(KEY, leader_epoch)))

    def write(self, *batches: StateBatch, start: int = 0, state: int = 1, leader: int = 0) -> None:
        request = WriteState(KEY, state, leader, start, 0, batches)
        assert self.do(self.coordinator.write(7, 1, request)) is None

    def restarted(self, before: int = 0) -> ShareCoordinator:
        """Another coordinator, which reads the log from there on."""
        made = ShareCoordinator(self.config)
        for offset, (key, value) in enumerate(self.log[before:], before):
            record = self.codec.decode(key, value)
            assert record is not None
            made.replay(record, Offset(offset))
        return made


def test_what_was_written_is_read() -> None:
    shard = Shard()
    shard.initialize()
    assert shard.read(0) == StateRead(1, -1, ())
    shard.write(StateBatch(2, 5, FREE, 1), StateBatch(6, 6, ACKED, 1), start=2)
    shard.write(StateBatch(4, 4, GONE, 5), start=3)
    expected = (
        StateBatch(3, 3, FREE, 1),
        StateBatch(4, 4, GONE, 5),
        StateBatch(5, 5, FREE, 1),
        StateBatch(6, 6, ACKED, 1),
    )
    assert shard.read(0) == StateRead(1, 3, expected)
    assert shard.restarted().partitions == shard.coordinator.partitions


def test_to_initialize_again_changes_nothing_but_in_a_later_epoch() -> None:
    shard = Shard()
    shard.initialize(2)
    shard.write(start=7, state=2)
    shard.initialize(2)
    assert shard.read(0).start_offset == 7
    with pytest.raises(FencedStateEpoch, match="is of epoch 2, and the request is of epoch 1"):
        shard.initialize(1)
    shard.initialize(3, 40)
    assert shard.read(0) == StateRead(3, 40, ())
    with pytest.raises(FencedStateEpoch, match="is of epoch 3, and the write is of epoch 2"):
        shard.write(start=8, state=2)


def test_a_leader_that_was_replaced_writes_no_more() -> None:
    shard = Shard()
    shard.initialize()
    shard.read(4)
    shard.write(start=1, leader=4)
    shard.read(5)
    with pytest.raises(FencedLeaderEpoch, match="leader is of epoch 5"):
        shard.write(start=2, leader=4)
    with pytest.raises(FencedLeaderEpoch, match="of epoch 4"):
        shard.read(4)
    assert shard.restarted().partitions[KEY].leader_epoch == 5
    shard.write(start=3, leader=6)
    summary = shard.do(shard.coordinator.summary(1, KEY))
    assert summary == StateSummary(1, 6, 3, 0)


def test_a_read_is_answered_when_a_record_of_it_is_committed_also_in_the_same_epoch() -> None:
    """So a coordinator that was replaced, which commits nothing, does not answer."""
    shard = Shard()
    shard.initialize()
    for _ in range(2):
        records = len(shard.log)
        assert shard.read(4) == StateRead(1, -1, ())
        assert len(shard.log) == records + 1
        assert shard.restarted().partitions[KEY].leader_epoch == 4


def test_a_copy_of_a_write_that_comes_late_sets_nothing_back() -> None:
    shard = Shard()
    shard.initialize()
    shard.read(0)
    early = (StateBatch(0, 0, ACKED, 1), StateBatch(1, 4, FREE, 1))
    shard.write(*early, start=1)
    shard.write(StateBatch(1, 1, ACKED, 2), StateBatch(3, 3, FREE, 2), start=2)
    known = shard.read(0)
    assert known.batches == (
        StateBatch(2, 2, FREE, 1),
        StateBatch(3, 3, FREE, 2),
        StateBatch(4, 4, FREE, 1),
    )
    records = len(shard.log)
    shard.write(*early, start=1)
    shard.write(start=0)
    assert len(shard.log) == records
    assert shard.read(0) == known


def test_of_a_late_write_that_was_not_there_yet_counts_what_is_new() -> None:
    for updates in (500, 1):
        shard = Shard(updates_per_snapshot=updates)
        shard.initialize()
        shard.write(StateBatch(0, 1, ACKED, 1), start=2)
        shard.write(StateBatch(0, 0, FREE, 1), StateBatch(5, 5, FREE, 1), start=0)
        assert shard.read(0) == StateRead(1, 2, (StateBatch(5, 5, FREE, 1),))
        assert shard.restarted().partitions == shard.coordinator.partitions


@pytest.mark.parametrize("updates", [500, 1])
def test_a_leader_whose_log_has_lost_records_sets_the_state_back(updates: int) -> None:
    shard = Shard(updates_per_snapshot=updates)
    shard.initialize()
    shard.read(1)
    shard.write(StateBatch(7, 9, ACKED, 1), start=6, leader=1)
    shard.read(2)
    shard.write(start=3, leader=2)
    shard.write(StateBatch(7, 8, FREE, 1), start=3, leader=2)
    expected = (StateBatch(7, 8, FREE, 1), StateBatch(9, 9, ACKED, 1))
    assert shard.read(2) == StateRead(1, 3, expected)
    shard.write(StateBatch(7, 7, ACKED, 2), start=4, leader=2)
    shard.write(StateBatch(7, 8, FREE, 1), start=3, leader=2)  # late
    expected = (StateBatch(7, 7, ACKED, 2), StateBatch(8, 8, FREE, 1), StateBatch(9, 9, ACKED, 1))
    assert shard.read(2) == StateRead(1, 4, expected)


def test_without_state_nothing_is_read_or_written() -> None:
    shard = Shard()
    for ask in (
        lambda: shard.read(0),
        lambda: shard.write(start=1),
        lambda: shard.coordinator.summary(1, KEY),
    ):
        with pytest.raises(InvalidRequest, match=r"partition 3 of topic .* has no state"):
            ask()
    assert shard.do(shard.coordinator.delete(1, KEY)) is None
    assert shard.log == []
    shard.initialize()
    shard.do(shard.coordinator.delete(1, KEY))
    assert shard.coordinator.partitions == shard.restarted().partitions == {}


def test_batches_that_make_no_sense_are_refused() -> None:
    shard = Shard()
    shard.initialize()
    for batches in (
        (StateBatch(5, 4, ACKED, 1),),
        (StateBatch(5, 9, ACKED, 1), StateBatch(9, 9, FREE, 1)),
        (StateBatch(-5, 4, ACKED, 1),),
    ):
        with pytest.raises(InvalidRequest, match="state batch"):
            shard.write(*batches)


def test_after_so_many_updates_a_snapshot_is_written_and_all_before_it_is_redundant() -> None:
    shard = Shard(updates_per_snapshot=3)
    shard.initialize()
    for offset in range(7):
        shard.write(StateBatch(offset, offset, FREE, 1))
    keys = [shard.codec.decode(*record) for record in shard.log]
    snapshots = [n for n, each in enumerate(keys) if each and isinstance(each[0], ShareSnapshotKey)]
    assert snapshots == [0, 3, 6]
    assert shard.coordinator.redundant_before() == 6
    assert shard.restarted(before=6).partitions == shard.coordinator.partitions
    assert shard.coordinator.partitions[KEY].snapshot_epoch == 2
    assert shard.coordinator.partitions[KEY].batches == (StateBatch(0, 6, FREE, 1),)


def test_partitions_that_are_not_written_get_a_snapshot_once() -> None:
    shard = Shard(updates_per_snapshot=2)
    shard.initialize()
    other = KEY._replace(partition=4)
    shard.do(shard.coordinator.initialize(5, 1, InitializeState(other, 1)))
    for offset in range(6):
        shard.write(StateBatch(offset, offset, FREE, 1))
    assert shard.coordinator.redundant_before() == 1  # the other one's
    shard.do(shard.coordinator.on_timer(0, 9, COLD))
    before = len(shard.log)
    assert shard.coordinator.redundant_before() >= 6
    shard.do(shard.coordinator.on_timer(0, 9, COLD))
    shard.do(shard.coordinator.on_timer(0, 9, COLD))
    assert len(shard.log) <= before + 2
    assert shard.restarted().partitions == shard.coordinator.partitions


def test_updates_that_are_older_than_the_snapshot_say_nothing() -> None:
    shard = Shard()
    shard.initialize(1)
    shard.write(StateBatch(0, 0, ACKED, 1))
    shard.initialize(2, 10)
    shard.log.append(shard.log[1])
    assert shard.restarted().partitions == shard.coordinator.partitions


def test_a_key_without_a_type_is_malformed_and_one_of_another_type_is_passed_over() -> None:
    codec = ShareStateCodec()
    with pytest.raises(MalformedMessage):
        codec.decode(b"\0", None)
    assert codec.decode(b"\0\x09", b"") is None


@pytest.mark.parametrize("seed", range(200))
def test_batches_are_combined_as_single_records_are(seed: int) -> None:
    rng = random.Random(seed)
    present: tuple[StateBatch, ...] = ()
    twin: dict[int, tuple[RecordState, int]] = {}
    start = 0
    for _ in range(10):
        news, offset = [], rng.randrange(10)
        while rng.random() < 0.7:
            last = offset + rng.randrange(6)
            news.append(StateBatch(offset, last, rng.choice((FREE, ACKED, GONE)), rng.randrange(2)))
            offset = last + 1 + rng.randrange(3)
        rng.shuffle(news)
        assert fault_in(news) is None
        start = max(start, rng.randrange(12))
        present = combined(present, news, start)
        for batch in news:
            for each in range(batch.first_offset, batch.last_offset + 1):
                twin[each] = batch.state, batch.delivery_count
        twin = {each: found for each, found in twin.items() if each >= start}
        assert fault_in(present) is None
        assert {
            each: (batch.state, batch.delivery_count)
            for batch in present
            for each in range(batch.first_offset, batch.last_offset + 1)
        } == twin


@pytest.mark.parametrize("seed", range(200))
def test_what_is_no_news_is_left_out_as_of_single_records(seed: int) -> None:
    rng = random.Random(seed)
    states = (FREE, ACKED, GONE, RecordState.ARCHIVING)
    kinds = [(state, count) for state in states for count in (1, 2)]

    def made() -> list[StateBatch]:
        batches, offset = [], rng.randrange(4)
        while rng.random() < 0.8:
            last = offset + rng.randrange(5)
            batches.append(StateBatch(offset, last, *rng.choice(kinds)))
            offset = last + 1 + rng.randrange(3)
        return batches

    def single(batches: Iterable[StateBatch]) -> dict[int, tuple[RecordState, int]]:
        return {
            each: (batch.state, batch.delivery_count)
            for batch in batches
            for each in range(batch.first_offset, batch.last_offset + 1)
        }

    def may_follow(known: tuple[RecordState, int], told: tuple[RecordState, int]) -> bool:
        later = {FREE: states, RecordState.ARCHIVING: (RecordState.ARCHIVING, GONE)}
        may_be = told[0] in later.get(known[0], (known[0],)) and told[1] >= known[1]
        return may_be and told != known

    present, told = made(), made()
    known = single(present)
    start = rng.randrange(6)
    found = newer(present, rng.sample(told, len(told)), start)
    assert fault_in(found) is None
    assert single(found) == {
        each: fate
        for each, fate in single(told).items()
        if each >= start and (each not in known or may_follow(known[each], fate))
    }
    assert single(changed(present, told)) == {
        each: fate for each, fate in single(told).items() if known.get(each) != fate
    }
