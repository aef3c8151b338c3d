"""A producer that brokers ask to wait: for its id, and for its first batch in a partition."""

from __future__ import annotations

from collections import deque

from pylog import errors
from pylog.client.producer.encoding import batch_bytes
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_events import (
    Ack,
    BatchDone,
    BatchFailed,
    Effect,
    RequestProducerId,
    SendRequest,
)
from pylog.client.sending.send_settings import SenderSettings
from pylog.model import LeaderEpoch
from pylog.records.compression import Compression
from pylog_broker.storage.log.log import Environment, Log
from pylog_broker.storage.producers.producer_budget import ProducerBudget
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import WALL_MS, batch_of, open_log, values_of
from tests.fakes.memory_files import MemoryFiles
from tests.fakes.sender_world import OK, T0, World, refused

NONE = Compression.of("none")
THROTTLED = refused(errors.ThrottlingQuotaExceeded)


def test_the_next_id_is_asked_for_when_the_broker_says() -> None:
    world = World(producer_id=None)
    batch = world.add()
    assert world.poll() == [RequestProducerId()]
    throttled = errors.ThrottlingQuotaExceeded("by the test", throttle_time_ms=5_000)
    assert world.sender.on_producer_id_failed(world.now_ms, throttled) == []
    assert world.sender.next_deadline_ms(world.now_ms) == world.now_ms + 5_000
    assert world.poll(4_999) == []
    assert world.poll(1) == [RequestProducerId()]
    assert world.sender.on_producer_id(world.now_ms, 9, 0) == [SendRequest(1, 1, (batch,))]


def test_a_producer_that_waited_for_an_id_too_long_says_what_for() -> None:
    world = World(producer_id=None, settings=SenderSettings(delivery_timeout_ms=1_000))
    batch = world.add()
    world.poll()
    throttled = errors.ThrottlingQuotaExceeded("address 10.0.0.1", throttle_time_ms=5_000)
    world.sender.on_producer_id_failed(world.now_ms, throttled)
    (failed,) = world.poll(1_000)
    assert isinstance(failed, BatchFailed)
    assert failed.batch is batch
    assert "no producer id: address 10.0.0.1" in str(failed.error)
    assert "never sent" in str(failed.error)


def test_a_throttled_first_batch_is_sent_again_as_it_was() -> None:
    world = World()
    batch = world.add()
    assert world.poll() == [SendRequest(1, 1, (batch,))]
    assert world.acks(1, 1, THROTTLED) == []
    assert world.poll(10_000) == [SendRequest(1, 2, (batch,))]
    assert (batch.producer_id, batch.base_sequence) == (7, 0)
    assert world.acks(1, 2, OK) == [BatchDone(batch, 0, -1)]


def test_what_was_throttled_to_the_end_leaves_its_sequence_to_the_next() -> None:
    world = World(settings=SenderSettings(delivery_timeout_ms=1_000))
    world.add()
    world.poll()
    world.acks(1, 1, THROTTLED)
    (failed,) = world.poll(1_000)
    assert isinstance(failed, BatchFailed)
    assert "records are not stored; last fault: THROTTLING_QUOTA_EXCEEDED" in str(failed.error)
    later = world.add()
    assert world.poll() == [SendRequest(1, 2, (later,))]
    assert (later.producer_id, later.base_sequence) == (7, 0)


class Leader:
    """A log with places for a few producers, which strangers flood; it answers a sender."""

    def __init__(self, places: int) -> None:
        self.budget = ProducerBudget(partition_max=places)
        environment = Environment(TailBudget(1 << 20), producer_budget=self.budget)
        self.log: Log = open_log(MemoryFiles(), environment=environment)
        self.strangers = 1_000

    def flood(self, count: int) -> None:
        """So many batches, each of an id that nobody has seen."""
        for _ in range(count):
            self.strangers += 1
            self.answer(batch_of(b"flood", producer=(self.strangers, 0, 0)))

    def answer(self, data: bytes) -> Ack:
        try:
            info = self.log.append_as_leader(data, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
        except errors.PylogError as error:
            return Ack(error.code, str(error))
        return Ack(0, base_offset=info.base_offset)


def add(world: World, value: bytes) -> Batch:
    """A closed batch of one record."""
    accumulator, buffer = world.accumulator, world.accumulator.topics["t"]
    accumulator.open_batch(world.now_ms, buffer, T0.partition, 10)
    batch = buffer.open[T0.partition]
    batch.add(value, None, None, world.now_ms, 10)
    accumulator.close_batch(buffer, T0.partition)
    return batch


def test_a_producer_amid_a_flood_of_ids_stores_everything_once_and_in_order() -> None:
    """Three answers are lost, so that it sends again what is stored."""
    leader, world = Leader(places=50), World(settings=SenderSettings(delivery_timeout_ms=10**9))
    leader.flood(200)
    assert len(leader.log.producers) == 50
    wanted = [b"%d" % number for number in range(12)]
    for value in wanted:
        add(world, value)
    lost = 0
    while world.accumulator.incomplete:
        effects: deque[Effect] = deque(world.poll(1_000))
        leader.flood(20)
        if world.now_ms > 60_000:
            leader.budget.partition_max = 51  # there is room for one, and it is asked next
        while effects:
            effect = effects.popleft()
            assert not isinstance(effect, BatchFailed)
            if not isinstance(effect, SendRequest):
                continue
            acks = [leader.answer(batch_bytes(batch, NONE)) for batch in effect.batches]
            if acks[0].code == 0 and lost < 3:
                lost += 1
                effects.clear()  # what was on its way behind it is lost, too
                effects += world.sender.on_disconnected(world.now_ms, effect.broker, "by the test")
            else:
                effects += world.acks(effect.broker, effect.correlation, *acks)
        assert len(leader.log.producers) <= 51
        assert world.now_ms < 500_000
    assert lost == 3
    assert leader.budget.refused["partition"] > 200
    assert [value for _, value in values_of(leader.log) if value != b"flood"] == wanted
