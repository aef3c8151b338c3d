"""A follower that truncated asks for more once its log knows its producers again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog.model import BrokerId
from pylog.records.builder import encode_batch
from pylog_broker.replication.effects import SendReplicaFetch
from pylog_broker.storage.producers import producer_history
from pylog_broker.storage.producers.rebuild_task import RebuildTask
from tests.fakes.broker_group import T0, BrokerGroup

ONE, TWO = BrokerId(1), BrokerId(2)


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerGroup:
    """Broker 2 led last; broker 1, which has records that 2 lacks, hears of that."""
    monkeypatch.setattr(producer_history, "READ_AT_ONCE_BYTES", 0)
    group = BrokerGroup(tmp_path, 2)
    group.create_topic([1, 2])
    group.run()
    group.produce(1, batch=batch(0, b"both"))
    group.run()
    group.cut_links = {(TWO, ONE)}
    group.produce(1, batch=batch(1, b"lost"), acks=1)
    group.run()
    group.elect(2)
    group.tell(TWO)
    group.run()
    group.cut_links = set()
    group.produce(2, batch=batch(1, b"kept"), acks=1)
    group.run()
    group.reads_wait = True
    group.tell(ONE)
    group.run()
    return group


def batch(sequence: int, value: bytes) -> bytes:
    return encode_batch([value], producer_id=7, producer_epoch=0, base_sequence=sequence)


def test_it_fetches_when_the_task_is_back(group: BrokerGroup) -> None:
    log = group.logs[ONE].get(T0)
    assert log is not None
    [(broker, read)] = group.waiting_reads
    assert broker == ONE
    assert isinstance(read.token, RebuildTask)
    assert log.log_end_offset == 1
    assert not log.is_settled
    group.advance(3_000)
    assert log.log_end_offset == 1  # nothing was asked for, and nothing else touched the log
    assert not log.is_settled
    group.read(ONE, read)
    group.run()
    assert log.is_settled
    assert group.stored(1) == group.stored(2)
    entry = log.producers.get(7)
    assert entry is not None
    assert [each.first_sequence for each in entry.batches] == [0, 1]


def test_one_that_leads_before_the_task_is_back_reads_by_itself(group: BrokerGroup) -> None:
    [(_, read)] = group.waiting_reads
    group.elect(1)
    group.tell()
    group.run()
    group.reads_wait = False
    token = group.produce(1, batch=batch(1, b"again"), acks=1)
    group.run()
    assert group.error(token) == 0
    group.read(ONE, read)
    group.advance(1_000)
    assert group.stored(1) == group.stored(2)
    assert not any(isinstance(effect, SendReplicaFetch) for _, effect in group.other_effects)


def test_one_that_stops_meanwhile_is_left_alone(group: BrokerGroup) -> None:
    [(_, read)] = group.waiting_reads
    manager = group.managers[ONE]
    group.delete_topic()
    group.tell()
    group.run()
    assert callable(read.read)
    read.read()
    assert [*manager.on_cold_read(group.now_ms, read)] == []
    assert manager._rebuilds._running == {}
