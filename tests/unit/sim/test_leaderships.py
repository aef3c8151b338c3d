"""The logs that the simulator compares after a step of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog.errors import KafkaStorageError
from pylog.model import BrokerId, TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.replication.effects import Effect
from pylog_broker.replication.produce_messages import PartitionBatch, Produce
from pylog_broker.storage.log.log import Log, LogRead
from tests.fakes.broker_group import WALL_MS, BrokerGroup
from tests.sim.leaderships import logs_to_check

ONE = BrokerId(1)
NAME = "__consumer_offsets"
P0 = TopicPartition(NAME, 0)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    """One broker that leads a partition, whose commits are told."""
    made = BrokerGroup(tmp_path, brokers=1)
    made.create_topic((1,), name=NAME)
    made.run()
    return made


def log_of(group: BrokerGroup) -> Log:
    log = group.logs[ONE].get(P0)
    assert log is not None
    return log


def write(group: BrokerGroup) -> list[Effect]:
    batch = PartitionBatch(P0, None, encode_batch([b"a"]))
    request = Produce(-1, 10_000, (batch,), internal=True)
    return group.managers[ONE].produce_all(group.now_ms, WALL_MS, [(request, "write")])


def checked(group: BrokerGroup, effects: list[Effect]) -> dict[TopicPartition, Log]:
    return logs_to_check(effects, group.managers[ONE].partitions())


def test_a_log_that_works_is_checked_and_one_that_has_failed_is_not(group: BrokerGroup) -> None:
    log = log_of(group)
    assert checked(group, write(group)) == {P0: log}
    log._guard.fail(KafkaStorageError("syncing failed"))
    assert checked(group, []) == {}
    assert checked(group, write(group)) == {}


def test_a_log_that_fails_over_what_a_commit_wakes_is_checked(group: BrokerGroup) -> None:
    """The commit holds: others have been answered."""
    log = log_of(group)

    def broken(*_: object, **__: object) -> LogRead:
        raise log._guard.fail(KafkaStorageError("reading failed"))

    group.fetch(1, 0, max_wait_ms=5_000, name=P0)
    log._reader.read = broken  # type: ignore[method-assign]
    effects = write(group)
    assert log.failure is not None
    assert checked(group, effects) == {P0: log}
    assert checked(group, []) == {}
