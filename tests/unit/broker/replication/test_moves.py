"""Replicas that a reassignment adds and takes away, as the brokers live through it."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, PartitionEpoch
from pylog_broker.metadata.records import PartitionRecord
from pylog_broker.replication.effects import DeleteReplicaLater
from tests.fakes.broker_group import T0, BrokerGroup


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def change(group: BrokerGroup, **changes: object) -> PartitionRecord:
    """Commit a change of the partition and tell everyone."""
    old = group.record()
    epoch = PartitionEpoch(old.partition_epoch + 1)
    new = replace(old, partition_epoch=epoch, **changes)  # type: ignore[arg-type]
    group.append(new)
    group.tell()
    return new


def begin(group: BrokerGroup, *target: int) -> None:
    old = group.record()
    leaving = tuple(b for b in old.replicas if b not in target)
    replicas = (*ids(*target), *leaving)
    change(
        group,
        replicas=replicas,
        adding_replicas=tuple(b for b in ids(*target) if b not in old.replicas),
        removing_replicas=leaving,
        directories=tuple(f"dir-{broker}-1" for broker in replicas),
    )


def end(group: BrokerGroup) -> None:
    old = group.record()
    target = old.target_replicas
    change(
        group,
        replicas=target,
        isr=tuple(b for b in old.isr if b in target),
        leader=target[0],
        leader_epoch=LeaderEpoch(old.leader_epoch + 1),
        adding_replicas=(),
        removing_replicas=(),
        directories=tuple(f"dir-{broker}-1" for broker in target),
    )


def deleted(group: BrokerGroup) -> list[BrokerId]:
    return [b for b, effect in group.other_effects if isinstance(effect, DeleteReplicaLater)]


@pytest.fixture
def moving(tmp_path: Path) -> BrokerGroup:
    """A partition on brokers 1 and 2 of four, with a record."""
    group = BrokerGroup(tmp_path, 4)
    group.create_topic((1, 2))
    group.run()
    group.produce(1, b"a")
    group.run()
    return group


def test_new_replicas_copy_the_log_and_join(moving: BrokerGroup) -> None:
    begin(moving, 3, 4)
    moving.advance(1_000)
    assert set(moving.record().isr) == {1, 2, 3, 4}
    token = moving.produce(1, b"b")
    moving.run()
    assert moving.error(token) == 0
    assert moving.stored(3) == moving.stored(4) == moving.stored(1)


def test_those_that_leave_stop_and_delete_their_logs(moving: BrokerGroup) -> None:
    begin(moving, 3, 4)
    moving.advance(1_000)
    before = moving.stored(1)
    moving.cut_links = {(BrokerId(2), BrokerId(1))}
    waiting = moving.produce(1, b"b")  # 2 does not get it
    moving.run()
    assert waiting not in moving.answers
    end(moving)
    moving.cut_links = set()
    moving.run()
    # the old leader's word is not needed any more; the producer asks who leads
    assert moving.error(waiting) == errors.NotLeaderOrFollower.code
    assert deleted(moving) == [1, 2]
    for broker in (1, 2):
        assert moving.managers[BrokerId(broker)].describe() == []
        assert moving.logs[BrokerId(broker)].get(T0) is None
    token = moving.produce(3, b"c")
    moving.run()
    assert moving.error(token) == 0
    assert moving.stored(3) == moving.stored(4)
    assert moving.stored(3).startswith(before)


def test_a_cancelled_move_leaves_nothing_behind(moving: BrokerGroup) -> None:
    moving.cut_links = {(BrokerId(4), BrokerId(1))}
    begin(moving, 3, 4)
    moving.run()
    assert set(moving.record().isr) == {1, 2, 3}
    change(
        moving,
        replicas=ids(1, 2),
        isr=ids(1, 2),
        leader_epoch=LeaderEpoch(1),
        adding_replicas=(),
        removing_replicas=(),
        directories=("dir-1-1", "dir-2-1"),
    )
    moving.cut_links = set()
    moving.run()
    assert deleted(moving) == [3, 4]
    token = moving.produce(1, b"b")
    moving.run()
    assert moving.error(token) == 0


def test_a_fetch_of_the_replica_that_was_taken_away_proves_nothing(moving: BrokerGroup) -> None:
    """Broker 2 loses its replica and gets an empty one. Its fetches of before are refused."""
    leader = moving.managers[BrokerId(1)]
    old = moving.record()
    moving.append(
        taken := replace(
            old, replicas=ids(1), isr=ids(1), directories=("dir-1-1",),
            leader_epoch=LeaderEpoch(1), partition_epoch=PartitionEpoch(old.partition_epoch + 1),
        )
    )  # fmt: skip
    moving.append(
        replace(
            taken, replicas=ids(1, 2), adding_replicas=ids(2), directories=("dir-1-1", "dir-2-1"),
            partition_epoch=PartitionEpoch(taken.partition_epoch + 1),
        )
    )  # fmt: skip
    moving.tell(BrokerId(1))  # at once
    assert leader.partitions()[0].isr == (1,)
    moving.advance(1_000)
    assert moving.record().isr == (1,)  # 2 fetches under the old epoch and is refused
    moving.tell()
    moving.advance(1_000)
    assert set(moving.record().isr) == {1, 2}


def short_of_files(group: BrokerGroup, broker: int) -> None:
    """Logs of this broker cannot be renamed for the moment."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    group.files[BrokerId(broker)].rename = refuse  # type: ignore[method-assign]


def test_a_replica_that_comes_back_before_its_log_is_deleted(moving: BrokerGroup) -> None:
    short_of_files(moving, 2)
    change(
        moving, replicas=ids(1), isr=ids(1), leader_epoch=LeaderEpoch(1), directories=("dir-1-1",)
    )
    moving.run()
    begin(moving, 1, 2)
    moving.advance(3_000)
    assert moving.record().isr == (1,)  # the name is not free yet
    assert deleted(moving) == []
    del moving.files[BrokerId(2)].rename
    moving.advance(3_000)
    assert deleted(moving) == [2]  # the old log, once
    assert set(moving.record().isr) == {1, 2}
    assert moving.stored(2) == moving.stored(1)


def test_a_replica_that_came_back_elsewhere_is_not_deleted(tmp_path: Path) -> None:
    """The old log is in one log directory, where it cannot be renamed; the new one in another."""
    group = BrokerGroup(tmp_path, 2, log_dirs=("a", "b"))
    group.create_topic((1, 2))
    group.run()
    group.produce(1, b"a")
    group.run()
    short_of_files(group, 2)
    change(
        group, replicas=ids(1), isr=ids(1), leader_epoch=LeaderEpoch(1), directories=("dir-1-1",)
    )
    group.run()
    change(group, replicas=ids(1, 2), adding_replicas=ids(2), directories=("dir-1-1", "dir-2-2"))
    group.run()
    del group.files[BrokerId(2)].rename
    group.advance(3_000)
    assert set(group.record().isr) == {1, 2}
    assert deleted(group) == []
    assert group.stored(2) == group.stored(1)


def test_replicas_that_are_added_do_not_stop_writes(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, 3)
    group.create_topic((1,), min_isr=2)
    group.run()
    group.cut_links = {(BrokerId(2), BrokerId(1)), (BrokerId(3), BrokerId(1))}
    begin(group, 1, 2, 3)
    group.run()
    token = group.produce(1, b"a")
    group.run()
    assert group.error(token) == 0
    change(group, adding_replicas=(), leader_epoch=LeaderEpoch(1))
    group.run()
    token = group.produce(1, b"b")
    group.run()
    assert group.error(token) == errors.NotEnoughReplicas.code
