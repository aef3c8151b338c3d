"""Replicas in several log directories: one fails or is missing, the others go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, TopicId, TopicPartition
from pylog_broker.replication.effects import DeleteReplicaLater, ProduceDone, ReplicaFailed
from tests.fakes.broker_group import T0, TOPIC_ID, BrokerGroup

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
T1 = TopicPartition("t", 1)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    """Brokers that each have t-0 in the directory a and t-1 in b. Broker 1 leads both."""
    made = BrokerGroup(tmp_path, log_dirs=("a", "b"))
    made.create_topic(partitions=2)
    made.run()
    return made


def fail(group: BrokerGroup, broker: BrokerId, name: TopicPartition = T1) -> None:
    """The disk below a log fails, and the shell hears of it."""
    log = group.logs[broker].get(name)
    assert log is not None
    log._guard.failed_disk = True
    log._guard.fail(errors.KafkaStorageError(f"syncing of {name} failed"))
    failed = group.logs[broker].take_new_failures()
    group._post(broker, group.managers[broker].on_logs_failed(group.now_ms, failed))
    group.run()


def failures(group: BrokerGroup) -> list[tuple[BrokerId, ReplicaFailed]]:
    return [(b, e) for b, e in group.other_effects if isinstance(e, ReplicaFailed)]


def code_of(group: BrokerGroup, token: object) -> int:
    done = group.answers[token]
    assert isinstance(done, ProduceDone)
    failure = done.acks[0].failure
    return 0 if failure is None else failure.code


def test_replicas_are_where_the_metadata_have_them(group: BrokerGroup) -> None:
    found = {str(log.topic_partition): log.directory for log in group.logs[TWO].logs}
    assert found == {
        "t-0": f"{group.root}/broker-2/a/t-0",
        "t-1": f"{group.root}/broker-2/b/t-1",
    }
    assert group.state(2, 1).directory_id == "dir-2-2"


def test_all_of_a_failed_directory_and_nothing_else_is_offline(group: BrokerGroup) -> None:
    group.create_topic(name="u", topic_id=TopicId("u" * 22), partitions=2)
    group.run()
    fail(group, ONE)
    told = {e.topic_partition: e for b, e in failures(group) if b == ONE}
    assert set(told) == {T1, TopicPartition("u", 1)}
    assert all(e.directory_failed and e.topic_id is not None for e in told.values())
    assert "the log directory" in told[TopicPartition("u", 1)].reason
    refused, taken = (group.produce(1, b"v", name=name) for name in (T1, T0))
    group.run()
    assert code_of(group, refused) == errors.KafkaStorageError.code
    assert code_of(group, taken) == 0


def test_whoever_waits_there_is_answered(group: BrokerGroup) -> None:
    group.cut_links = {(TWO, ONE), (THREE, ONE)}
    waits, goes_on = (group.produce(1, b"v", name=name) for name in (T1, T0))
    assert waits not in group.answers
    fail(group, ONE)
    assert code_of(group, waits) != 0
    assert goes_on not in group.answers


def test_a_followers_directory_stops_following(group: BrokerGroup) -> None:
    fail(group, TWO)
    assert [e.topic_partition for b, e in failures(group)] == [T1]
    group.produce(1, b"v", name=T0)
    group.produce(1, b"v", name=T1)
    group.run()
    assert group.marks(2, 0)[2] == 1
    assert group.logs[THREE].get(T1).log_end_offset == 1  # type: ignore[union-attr]


def test_a_missing_directorys_replicas_are_not_made_anew(group: BrokerGroup) -> None:
    group.produce(1, b"v", name=T1)
    group.run()
    disk = group.root / "broker-3" / "b"
    away = disk.rename(group.root / "away")
    group.other_effects.clear()
    group.start(THREE)
    group.run()
    ((broker, failed),) = failures(group)
    assert (broker, failed.topic_partition, failed.topic_id) == (THREE, T1, TOPIC_ID)
    assert f"{disk}, which is offline" in failed.reason
    assert [str(log.topic_partition) for log in group.logs[THREE].logs] == ["t-0"]
    assert not disk.exists()
    group.managers.pop(THREE)
    group.logs.pop(THREE).close(clean=False)
    away.rename(disk)
    group.start(THREE)
    group.run()
    assert group.marks(3, 1)[2] == 1


def test_what_was_deleted_meanwhile_goes_when_its_directory_is_back(group: BrokerGroup) -> None:
    disk = group.root / "broker-3" / "b"
    group.stop(THREE)
    away = disk.rename(group.root / "away")
    group.start(THREE)
    group.delete_topic()
    group.tell()
    group.create_topic(topic_id=TopicId("n" * 22), partitions=2)
    group.run()
    group.stop(THREE)
    away.rename(disk)
    group.other_effects.clear()
    group.start(THREE)
    group.run()
    deleted = [e.directory for b, e in group.other_effects if isinstance(e, DeleteReplicaLater)]
    assert [Path(path).parent for path in deleted] == [disk]
    ids = {log.topic_id for log in group.logs[THREE].logs}
    assert ids == {"n" * 22}
    assert {log.directory for log in group.logs[THREE].logs} == {
        f"{group.root}/broker-3/a/t-0", f"{disk}/t-1",
    }  # fmt: skip
