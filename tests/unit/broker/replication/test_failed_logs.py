"""A log fails on one broker: everybody is answered, the controller is to be told, others go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, PartitionEpoch
from pylog_broker.replication.effects import FetchDone, ReplicaFailed, ReplicaFetchDone
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.manager import LogManager
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup
from tests.fakes.replica_fetches import fetch_of

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    made = BrokerGroup(tmp_path)
    made.create_topic()
    made.run()
    return made


def log_of(group: BrokerGroup, broker: BrokerId) -> Log:
    log = group.logs[broker].get(T0)
    assert log is not None
    return log


def fail_in_upkeep(group: BrokerGroup, broker: BrokerId) -> None:
    """As when a sync fails: nobody has asked for anything."""
    log_of(group, broker)._guard.fail(errors.KafkaStorageError("syncing of t-0 failed"))
    failed = group.logs[broker].take_new_failures()
    assert [log.topic_partition for log in failed] == [T0]
    manager = group.managers[broker]
    group._post(broker, manager.on_logs_failed(group.now_ms, failed))
    assert manager.on_logs_failed(group.now_ms, failed) == []


def failures(group: BrokerGroup) -> list[tuple[BrokerId, ReplicaFailed]]:
    return [(b, e) for b, e in group.other_effects if isinstance(e, ReplicaFailed)]


def controller_noted(group: BrokerGroup, failed: BrokerId, leader: BrokerId) -> None:
    """Commit what the controller would, upon the report."""
    old = group.record()
    group.append(
        replace(
            old,
            leader=leader,
            leader_epoch=LeaderEpoch(old.leader_epoch + (leader != old.leader)),
            partition_epoch=PartitionEpoch(old.partition_epoch + 1),
            isr=tuple(broker for broker in old.isr if broker != failed),
            failed_replicas=(failed,),
        )
    )
    group.tell()


def old_segments_gone(group: BrokerGroup) -> None:
    """Broker 1 starts again, and what it has not looked into since is taken from its disk: a
    segment of two batches, and the one behind it.
    """
    for values in ((b"a", b"b"), (b"c",)):
        for value in values:
            group.produce(1, value)
            group.run()
        log_of(group, ONE).roll(WALL_MS)
    marks = group.managers.pop(ONE).high_watermarks()
    logs = group.logs.pop(ONE)
    logs.checkpoint_high_watermarks(marks)
    logs.close(clean=True)
    group.start(ONE)
    group.run()
    for name in Path(log_of(group, ONE).directory).glob(f"{0:020d}.*"):
        name.unlink()


def test_a_fetch_that_asks_how_much_there_is_meets_the_failure(group: BrokerGroup) -> None:
    old_segments_gone(group)
    asked = group.fetch(1, 1, min_bytes=1_000, max_wait_ms=500)
    group.run()
    done = group.answers[asked]
    assert isinstance(done, FetchDone)
    failure = done.partitions[0].failure
    assert failure is not None
    assert failure.code == errors.KafkaStorageError.code
    assert [broker for broker, _ in failures(group)] == [ONE]


def test_so_does_a_followers(group: BrokerGroup) -> None:
    old_segments_gone(group)
    request = fetch_of(group, 2, 1, last_epoch=-1)._replace(min_bytes=1_000)
    [done] = [
        effect
        for effect in group.managers[ONE].replica_fetch(group.now_ms, request, "x")
        if isinstance(effect, ReplicaFetchDone)
    ]
    failure = done.fetched.partitions[0].failure
    assert failure is not None
    assert failure.code == errors.KafkaStorageError.code


def test_a_leader_that_fails_in_upkeep_answers_who_waits_and_another_goes_on(
    group: BrokerGroup,
) -> None:
    group.cut_links |= {(TWO, ONE), (THREE, ONE)}
    waiting = group.produce(1, b"a")
    fail_in_upkeep(group, ONE)
    group.run()
    assert group.error(waiting) == errors.KafkaStorageError.code
    told = ReplicaFailed(T0, "syncing of t-0 failed", topic_id=TOPIC_ID)
    assert failures(group) == [(ONE, told)]
    controller_noted(group, ONE, leader=TWO)
    after = group.produce(2, b"b")
    group.run()
    assert group.error(after) == 0
    assert group.state(1).fault == "syncing of t-0 failed"


def test_a_follower_that_fails_holds_the_others_up_no_longer_than_the_controller_takes(
    group: BrokerGroup,
) -> None:
    first = group.produce(1, b"a")
    group.run()
    assert group.error(first) == 0
    fail_in_upkeep(group, THREE)
    waiting = group.produce(1, b"b")
    group.run()
    assert waiting not in group.answers  # broker 3 is in the ISR, and was caught up just now
    controller_noted(group, THREE, leader=ONE)
    group.run()
    assert group.error(waiting) == 0
    group.start(THREE)
    group.append(
        replace(
            group.record(),
            failed_replicas=(),
            partition_epoch=PartitionEpoch(group.record().partition_epoch + 1),
        )
    )
    group.tell()
    group.run()
    assert set(group.record().isr) == {ONE, TWO, THREE}


def test_a_log_that_cannot_be_opened_is_told_as_soon_as_its_place_is_known(
    group: BrokerGroup, tmp_path: Path
) -> None:
    group.produce(1, b"a")
    group.run()
    group.stop(THREE)
    # a segment that does not follow the first one
    (tmp_path / "broker-3" / "t-0" / f"{7:020d}.log").write_bytes(b"x" * 100)
    group.start(THREE)
    group.run()
    assert group.logs[THREE].failed_replicas == ((TOPIC_ID, 0),)
    ((broker, told),) = failures(group)
    assert (broker, told.topic_partition, told.topic_id) == (THREE, T0, TOPIC_ID)


def test_a_log_that_failed_before_it_had_a_role_is_offline(tmp_path: Path) -> None:
    """A sync may fail between the registration and the metadata that says who leads."""
    group = BrokerGroup(tmp_path)
    group.create_topic()
    group.run()
    group.stop(TWO)
    opened = LogManager.open

    def fails_soon(*args: Any, **kwargs: Any) -> LogManager:
        logs = opened(*args, **kwargs)
        log = logs.get(T0)
        assert log is not None
        log._guard.fail(errors.KafkaStorageError("syncing of t-0 failed"))
        return logs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogManager, "open", fails_soon)
        group.start(TWO)
    group.run()
    (state,) = group.managers[TWO].describe()
    assert state.fault == "syncing of t-0 failed"
    assert [(b, e.topic_id, e.reason) for b, e in failures(group)] == [
        (TWO, TOPIC_ID, "syncing of t-0 failed")
    ]
