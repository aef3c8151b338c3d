"""Fetches that stand: one question, several answers, and a user who moves about meanwhile."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from pylog import errors
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.fetching.consumer_core import ConsumerCore
from pylog.client.fetching.fetch_events import CancelFetch, Effect, Fetch, Fetched, FetchItem
from pylog.client.fetching.fetch_state import FetcherSettings, Partition
from pylog.client.fetching.flights import CUT_AFTER_MS, LANES
from pylog.client.fetching.leader_finder import STUCK_AFTER_MS
from pylog.model import TopicPartition
from pylog.records.batch import read_header
from pylog.records.builder import encode_batch

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))


def batch(offset: int, size: int = 10) -> bytes:
    return encode_batch([b"x" * size], base_offset=offset, leader_epoch=0)


def item(tp: TopicPartition, offset: int, last: int = -1) -> FetchItem:
    return FetchItem(tp, "id", offset, 0, last)


class World:
    def __init__(self) -> None:
        self.now_ms = 1_000
        metadata = ClusterMetadata()
        brokers = (BrokerInfo(1, Address("h", 1)),)
        topic = TopicInfo("t", "id", False, (PartitionInfo(1, 0),) * 3)
        metadata.update(ClusterSnapshot("c", 1, brokers, None, (topic,)))
        settings = FetcherSettings(max_partition_fetch_bytes=1_000)
        self.core = ConsumerCore(settings, metadata, lambda: 0.5, lambda: 1_000_000)
        self.core.fetcher.active = True
        self.positions = self.core.positions

    def at(self, tp: TopicPartition, offset: int) -> Partition:
        self.positions.add(tp, found_later=False)
        partition = self.positions.partitions[tp]
        self.positions.seek(partition, offset)
        return partition

    def poll(self) -> list[Effect]:
        return self.core.poll(self.now_ms).requests

    def answer(self, correlation: int, *answers: Fetched, stands: bool = True) -> list[Effect]:
        return self.core.on_fetched(self.now_ms, 1, correlation, answers, stands).requests


def test_a_fetch_that_stands_is_not_asked_again() -> None:
    world = World()
    partition = world.at(T0, 0)
    assert world.poll() == [Fetch(1, 1, 500, (item(T0, 0),))]
    for offset in range(3):
        assert world.answer(1, Fetched(T0, batches=batch(offset))) == []
    assert world.answer(1) == []  # nothing came, in time
    last = Fetched(T0, batches=batch(3))
    assert world.answer(1, last, stands=False) == [Fetch(1, 2, 500, (item(T0, 4, last=0),))]
    assert [chunk.next_offset for chunk in partition.buffer] == [1, 2, 3, 4]


def test_each_answer_gives_it_time() -> None:
    world = World()
    world.at(T0, 0)
    world.poll()
    world.now_ms += 400
    world.answer(1)
    assert world.core.poll(world.now_ms).deadline_ms == world.now_ms + 500 + STUCK_AFTER_MS


def test_a_seek_takes_its_place_on_the_same_stream() -> None:
    world = World()
    partition = world.at(T0, 0)
    world.poll()
    world.answer(1, Fetched(T0, batches=batch(0)))
    world.positions.seek(partition, 100)
    assert world.poll() == [Fetch(1, 2, 500, (item(T0, 100),))]
    assert world.answer(1, Fetched(T0, batches=batch(1))) == []
    assert not partition.buffer
    assert world.answer(2, Fetched(T0, batches=batch(100))) == []
    assert partition.fetch_offset == 101


def test_a_seek_to_where_it_stands_is_another_question() -> None:
    world = World()
    partition = world.at(T0, 0)
    world.poll()
    world.answer(1, Fetched(T0, batches=batch(0)))
    world.positions.seek(partition, 1)
    assert world.poll() == [Fetch(1, 2, 500, (item(T0, 1),))]
    assert world.answer(1, Fetched(T0, batches=batch(1))) == []
    assert not partition.buffer


def test_with_both_lanes_taken_one_that_stands_makes_room() -> None:
    world = World()
    world.at(T0, 0)
    world.poll()
    world.at(T1, 0)
    assert world.poll() == [Fetch(1, 2, 500, (item(T1, 0),), lane=1)]
    world.answer(1, Fetched(T0, batches=batch(0)))
    world.at(T2, 0)
    (fetch,) = world.poll()
    assert isinstance(fetch, Fetch)
    assert (fetch.lane, set(fetch.items)) == (0, {item(T0, 1, last=0), item(T2, 0)})
    assert world.poll() == []


def test_what_cannot_be_read_is_not_gone_past() -> None:
    world = World()
    partition = world.at(T0, 0)
    world.poll()
    assert world.answer(1, Fetched(T0, batches=b"nonsense")) == []
    assert isinstance(partition.error, errors.CorruptMessage)
    world.answer(1, Fetched(T0, batches=batch(1)))
    assert not partition.buffer
    partition.error = None
    assert world.poll() == [Fetch(1, 2, 500, (item(T0, 0),), lane=1)]


def test_a_partition_given_up_and_taken_again_begins_anew() -> None:
    world = World()
    world.at(T0, 0)
    world.poll()
    world.answer(1, Fetched(T0, batches=batch(0)))
    world.positions.assign([])
    partition = world.at(T0, 1)
    world.answer(1, Fetched(T0, batches=batch(1)))
    assert not partition.buffer
    world.now_ms += CUT_AFTER_MS
    (fetch,) = [e for e in world.poll() if isinstance(e, Fetch)] or [None]
    assert fetch is None or fetch.items == (item(T0, 1),)


# ---- against a dumb twin ------------------------------------------------------------------------


@dataclass
class Lane:
    """One stream: what is under way in each direction, and what its broker has to answer."""

    asked: deque[Fetch] = field(default_factory=deque)
    answers: deque[tuple[int, list[Fetched], bool]] = field(default_factory=deque)
    waiting: Fetch | None = None
    given: int = 0


class Broker:
    """Answers as brokers do: a fetch that stands until another one comes."""

    def __init__(self, rng: random.Random) -> None:
        self.ends = dict.fromkeys((T0, T1, T2), 0)
        self.lanes = {lane: Lane() for lane in LANES}
        self.rng = rng

    def take(self, lane: Lane) -> None:
        """The next request comes in: behind a first answer, or in the place of what stands."""
        if lane.asked and (lane.waiting is None or lane.given):
            lane.waiting, lane.given = lane.asked.popleft(), 0

    def answer(self, lane: Lane) -> None:
        fetch = lane.waiting
        if fetch is None:
            return
        found, items = [], []
        for asked in fetch.items:
            tp, end = asked.topic_partition, self.ends[asked.topic_partition]
            stop = min(end, asked.offset + self.rng.randrange(3))
            data = b"".join(batch(offset) for offset in range(asked.offset, stop))
            found.append(Fetched(tp, high_watermark=end, batches=data))
            items.append(asked._replace(offset=max(asked.offset, stop)))
        stands = self.rng.random() < 0.8
        lane.answers.append((fetch.correlation, found, stands))
        lane.given += 1
        lane.waiting = fetch._replace(items=tuple(items)) if stands else None


@pytest.mark.parametrize("seed", range(60))
def test_whatever_the_user_does_he_reads_on_from_where_he_is(seed: int) -> None:
    rng = random.Random(seed)
    world, broker = World(), Broker(rng)
    positions = world.positions
    for tp in (T0, T1, T2):
        world.at(tp, 0)

    def perform(effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, CancelFetch):
                broker.lanes[effect.lane] = Lane()
            elif isinstance(effect, Fetch):
                broker.lanes[effect.lane].asked.append(effect)

    def read(partition: Partition) -> None:
        if partition.buffer and not partition.paused:
            chunk = positions.take(partition)
            assert read_header(chunk.batches, 0).base_offset == partition.position
            partition.position = chunk.next_offset

    def act() -> None:
        partition = rng.choice(list(positions.partitions.values()))
        lane = broker.lanes[rng.choice(LANES)]
        match rng.randrange(12):
            case 0 | 1:
                broker.ends[partition.topic_partition] += rng.randrange(4)
            case 2 | 3:
                broker.take(lane)
            case 4 | 5:
                broker.answer(lane)
            case 6 | 7:
                if lane.answers:
                    correlation, found, stands = lane.answers.popleft()
                    perform(world.answer(correlation, *found, stands=stands))
            case 8 | 9:
                read(partition)
            case 10:
                partition.paused = not partition.paused
            case 11 if rng.random() < 0.3:
                positions.seek(partition, rng.randrange(broker.ends[partition.topic_partition] + 1))
            case 11 if rng.random() < 0.2:
                positions.assign(rng.sample((T0, T1, T2), 2))
                for tp in (T0, T1, T2):
                    if tp not in positions.partitions:
                        world.at(tp, rng.randrange(broker.ends[tp] + 1))
        perform(world.poll())
        world.now_ms += rng.choice((0, 0, 1, 15))

    for _ in range(600):
        act()
    for partition in positions.partitions.values():
        positions.resume(partition)
    for _ in range(400):  # all is delivered in the end
        perform(world.poll())
        for lane in broker.lanes.values():
            broker.take(lane)
            broker.answer(lane)
        for lane in broker.lanes.values():
            while lane.answers:
                correlation, found, stands = lane.answers.popleft()
                perform(world.answer(correlation, *found, stands=stands))
        for partition in positions.partitions.values():
            read(partition)
        world.now_ms += CUT_AFTER_MS
    for tp, partition in positions.partitions.items():
        assert partition.error is None
        assert partition.position == broker.ends[tp]
