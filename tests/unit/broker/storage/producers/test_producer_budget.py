"""The number of producers that a log and a broker know: new ones are refused, known ones never."""

from __future__ import annotations

import pytest

from pylog.errors import OutOfOrderSequenceNumber, ThrottlingQuotaExceeded
from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import read_header
from pylog.records.builder import ControlType, encode_control_batch
from pylog_broker.config import BrokerConfig
from pylog_broker.storage.log.log import Environment, Log
from pylog_broker.storage.log.validator import INTERNAL, Origin
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.manager.upkeep import EXPIRED_AT_ONCE
from pylog_broker.storage.producers.producer_budget import RESERVED, ProducerBudget
from pylog_broker.storage.producers.producer_entry import ProducerEntry
from pylog_broker.storage.producers.producer_state import ProducerStates
from pylog_broker.storage.recovery.recovery import LastStop
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, batch_of, open_log, read_all
from tests.fakes.managers import OTHER, OTHER_ID, ROOT, log_of, open_manager
from tests.fakes.memory_files import MemoryFiles

EPOCH = LeaderEpoch(0)
DAY_MS = 86_400_000


def limited(*, partition_max: int = 2, broker_max: int = 1_000) -> tuple[ProducerBudget, Log]:
    budget = ProducerBudget(partition_max=partition_max, broker_max=broker_max)
    environment = Environment(TailBudget(1 << 20), producer_budget=budget)
    return budget, open_log(MemoryFiles(), environment=environment)


def put(log: Log, pid: int, sequence: int = 0, *, wall_ms: int = WALL_MS) -> tuple[int, bool]:
    """Append a batch; its offset, and whether it was a duplicate."""
    batch = batch_of(b"v", producer=(pid, 0, sequence))
    info = log.append_as_leader(batch, leader_epoch=EPOCH, wall_ms=wall_ms)
    return info.base_offset, info.duplicate


def test_a_full_partition_refuses_a_new_producer_and_no_known_one() -> None:
    budget, log = limited()
    assert [put(log, 1), put(log, 2)] == [(0, False), (1, False)]
    with pytest.raises(ThrottlingQuotaExceeded, match=r"max\.producer\.ids\.per\.partition=2"):
        put(log, 3)
    assert [put(log, 1, 1), put(log, 2), put(log, 2, 1)] == [(2, False), (1, True), (3, False)]
    assert log.log_end_offset == 4
    assert budget.refused == {"partition": 1, "broker": 0}


def test_a_batch_without_a_producer_id_needs_no_place() -> None:
    _, log = limited(partition_max=1)
    put(log, 1)
    log.append_as_leader(batch_of(b"v"), leader_epoch=EPOCH, wall_ms=WALL_MS)
    assert log.log_end_offset == 2


def test_a_sequence_that_can_never_be_right_is_not_put_off() -> None:
    _, log = limited(partition_max=1)
    put(log, 1)
    with pytest.raises(OutOfOrderSequenceNumber):
        put(log, 2, 5)


def test_a_refused_producer_goes_on_in_order_when_there_is_room() -> None:
    _, log = limited(partition_max=1)
    put(log, 1)
    with pytest.raises(ThrottlingQuotaExceeded):
        put(log, 2)
    assert log.expire_producers(WALL_MS + DAY_MS, DAY_MS) == 1
    # what was forgotten may have been more than one producer: sequence 0 is what it sends
    assert [put(log, 2), put(log, 2), put(log, 2, 1)] == [(1, False), (1, True), (2, False)]


def test_a_limit_that_is_raised_counts_at_once() -> None:
    budget, log = limited(partition_max=1)
    put(log, 1)
    with pytest.raises(ThrottlingQuotaExceeded):
        put(log, 2)
    budget.configure(BrokerConfig(max_producer_ids_per_partition=2))
    assert put(log, 2) == (1, False)


def test_a_full_broker_leaves_each_partition_some_places() -> None:
    budget, log = limited(partition_max=1_000, broker_max=RESERVED + 10)
    budget.counted("/elsewhere", RESERVED + 10)
    for pid in range(RESERVED):
        put(log, pid)
    with pytest.raises(ThrottlingQuotaExceeded, match=r"max\.producer\.ids=110 "):
        put(log, RESERVED)
    assert put(log, 5, 1) == (RESERVED, False)
    assert budget.refused == {"partition": 0, "broker": 1}
    budget.counted("/elsewhere", 0)
    assert put(log, RESERVED) == (RESERVED + 1, False)


def test_followers_and_starts_take_what_a_leader_stored_whatever_the_limit() -> None:
    _, leader = limited(partition_max=50)
    for pid in range(50):
        put(leader, pid)
    files = MemoryFiles()
    environment = Environment(TailBudget(1 << 20), producer_budget=ProducerBudget(partition_max=3))
    follower = open_log(files, environment=environment)
    follower.append_as_follower(read_all(leader), wall_ms=WALL_MS)
    assert follower.producers.entries == leader.producers.entries
    for stop in (LastStop(), LastStop(50, 50)):
        files.kill()
        again = open_log(files, last_stop=stop, environment=environment)
        assert again.producers.ids == leader.producers.ids
    # and as the next leader it refuses as the one before: new ones, and no known one
    assert put(again, 7, 1) == (50, False)
    with pytest.raises(ThrottlingQuotaExceeded):
        put(again, 50)


# ---- what is counted ----------------------------------------------------------------------------


def filled(count: int, config: BrokerConfig | None = None) -> tuple[LogManager, Log]:
    """A manager whose one log knows so many producers."""
    manager = open_manager(MemoryFiles(), config=config)
    log = manager.create(TOPIC, TOPIC_ID)
    header = read_header(batch_of(b"v", producer=(0, 0, 0)))
    for pid in range(count):
        log.producers.apply(header._replace(producer_id=pid), pid, seen_ms=WALL_MS)
    return manager, log


def test_all_logs_of_a_broker_are_counted_and_those_that_go_are_not() -> None:
    manager, log = filled(5)
    other = manager.create(OTHER, OTHER_ID)
    put(other, 1)
    assert manager.producer_budget.known == 6
    manager.maintain(0, WALL_MS)
    assert manager.producer_budget.known == 6
    log.expire_producers(WALL_MS + DAY_MS, DAY_MS)
    manager.maintain(1_000, WALL_MS)
    assert manager.producer_budget.known == 1
    manager.delete(OTHER)
    manager.maintain(2_000, WALL_MS)
    assert manager.producer_budget.known == 0


def test_the_limits_of_a_running_broker_change() -> None:
    manager, log = filled(2, BrokerConfig(max_producer_ids_per_partition=2))
    with pytest.raises(ThrottlingQuotaExceeded):
        put(log, 2)
    manager.reconfigure(BrokerConfig(max_producer_ids_per_partition=3))
    assert put(log, 2) == (0, False)


# ---- forgetting ---------------------------------------------------------------------------------


def test_idle_producers_are_looked_for_some_at_a_time() -> None:
    count = 2 * EXPIRED_AT_ONCE + 10
    manager, log = filled(count)
    later_ms = WALL_MS + DAY_MS
    manager.maintain(DAY_MS, later_ms)  # both clocks went on, so that this one is believed
    left = [len(log.producers)]
    for turn in range(1, 4):
        manager.maintain(DAY_MS + turn, later_ms + turn)
        left.append(len(log.producers))
    assert left == [count - EXPIRED_AT_ONCE, 10, 0, 0]
    assert log.producers.forgot
    put(log, 1, wall_ms=later_ms)
    manager.maintain(DAY_MS + 2, later_ms + DAY_MS)
    assert len(log.producers) == 1  # the next look is due ten minutes after the last one began


def test_a_producer_that_comes_while_others_are_forgotten_stays() -> None:
    manager, log = filled(EXPIRED_AT_ONCE + 10)
    later_ms = WALL_MS + DAY_MS
    manager.maintain(DAY_MS, later_ms)
    put(log, EXPIRED_AT_ONCE + 5, 1, wall_ms=later_ms)  # not looked at yet
    put(log, 10**6, wall_ms=later_ms)
    manager.maintain(DAY_MS + 1, later_ms + 1)
    assert set(log.producers.ids) == {EXPIRED_AT_ONCE + 5, 10**6}


def test_no_young_producer_and_none_with_an_open_transaction_is_forgotten() -> None:
    log = open_log(MemoryFiles())
    verified = Origin(transaction_verified=True)
    batch = batch_of(b"t", producer=(1, 0, 0), transactional=True)
    log.append_as_leader(batch, leader_epoch=EPOCH, wall_ms=WALL_MS, origin=verified)
    put(log, 2, wall_ms=WALL_MS + 1)
    assert log.expire_producers(WALL_MS + DAY_MS, DAY_MS) == 0
    assert log.expire_producers(WALL_MS + 10 * DAY_MS, DAY_MS) == 1
    assert set(log.producers.ids) == {1}
    end = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0,
        timestamp_ms=WALL_MS,
    )  # fmt: skip
    log.append_as_leader(end, leader_epoch=EPOCH, wall_ms=WALL_MS, origin=INTERNAL)
    assert log.last_stable_offset(Offset(3)) == 3
    assert log.expire_producers(WALL_MS + DAY_MS, DAY_MS) == 1


def test_a_producer_of_unknown_time_counts_as_heard_of_now() -> None:
    states = ProducerStates({1: ProducerEntry(0, (), timestamp=5)})
    assert states.expire(WALL_MS, DAY_MS) == 0
    assert states.expire(WALL_MS + DAY_MS - 1, DAY_MS) == 0
    assert states.expire(WALL_MS + DAY_MS, DAY_MS) == 1


def test_a_directory_that_is_opened_again_knows_its_producers() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    log = manager.create(TOPIC, TOPIC_ID)
    for pid in range(3):
        put(log, pid)
    manager.close(clean=True)
    files.kill()
    again = open_manager(files, config=BrokerConfig(max_producer_ids_per_partition=3))
    again.maintain(0, WALL_MS)
    assert again.producer_budget.known == 3
    with pytest.raises(ThrottlingQuotaExceeded):
        put(log_of(again), 3)
    assert put(log_of(again), 2) == (2, True)
    assert files.exists(f"{ROOT}/{TOPIC}/{3:020d}.snapshot")
