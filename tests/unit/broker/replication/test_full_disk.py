"""Q-P15: what a full disk does to the replicas of one broker, and that it passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, Offset
from pylog_broker.replication.effects import ReplicaFailed
from pylog_broker.replication.offset_messages import DeleteRecords
from pylog_broker.replication.without_room import RETRY_MS
from pylog_broker.storage.errors import DiskFull
from pylog_broker.storage.log.log import Log
from tests.fakes.broker_group import T0, BrokerGroup

ONE, TWO = BrokerId(1), BrokerId(2)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path)
    group.create_topic()
    group.run()
    return group


def fault(group: BrokerGroup, token: object) -> tuple[int, str]:
    failure = group.ack(token).failure
    assert failure is not None
    return failure.code, failure.message


def test_the_leader_hands_over_to_those_who_have_room(group: BrokerGroup) -> None:
    stored = group.produce(1, b"before")
    group.run()
    assert group.error(stored) == 0
    group.files[ONE].full = True
    refused = group.produce(1, b"lost")
    group.run()
    code, message = fault(group, refused)
    assert code == errors.KafkaStorageError.code
    assert "no room on the disk of" in message
    assert (group.record().leader, group.record().isr) == (2, (2, 3))
    group.tell()
    group.run()
    stored = group.produce(2, b"after")
    group.advance(1_000)
    assert group.error(stored) == 0
    # With room again it catches up and is in sync.
    group.files[ONE].full = False
    group.advance(5_000)
    assert set(group.record().isr) == {1, 2, 3}
    assert group.stored(1) == group.stored(2)


def test_a_leader_that_is_alone_stays_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, brokers=1)
    group.create_topic(replicas=(1,))
    group.run()
    group.files[ONE].full = True
    refused = group.produce(1, b"lost")
    group.run()
    assert fault(group, refused)[0] == errors.KafkaStorageError.code
    assert group.record().leader == 1
    group.files[ONE].full = False
    stored = group.produce(1, b"after")
    group.run()
    assert group.error(stored) == 0


def test_a_log_that_found_no_room_is_made_when_there_is_some(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, brokers=1)
    group.files[ONE].full = True
    group.create_topic(replicas=(1,))
    group.run()
    refused = group.produce(1, b"lost")
    group.run()
    code, message = fault(group, refused)
    assert code == errors.KafkaStorageError.code
    assert "t-0 is offline here" in message
    assert "no room on the disk of" in message
    failed = [effect for _, effect in group.other_effects if isinstance(effect, ReplicaFailed)]
    assert [effect.topic_id for effect in failed] == [None]  # it passes: nobody is told
    group.advance(3 * RETRY_MS)
    assert len(group.other_effects) == len(failed)
    group.files[ONE].full = False
    group.advance(RETRY_MS)
    stored = group.produce(1, b"after")
    group.run()
    assert group.error(stored) == 0


def test_a_topic_that_is_deleted_while_it_has_no_room_is_forgotten(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, brokers=1)
    group.files[ONE].full = True
    group.create_topic(replicas=(1,))
    group.run()
    group.delete_topic()
    group.tell()
    group.run()
    group.files[ONE].full = False
    group.advance(3 * RETRY_MS)
    assert group.managers[ONE].describe() == []
    assert group.logs[ONE].logs == []


def test_a_follower_without_room_hears_of_deletions_that_make_some(group: BrokerGroup) -> None:
    group.produce(1, b"a", b"b")
    group.advance(10)
    group.files[TWO].full = True
    group.produce(1, b"more")
    deletion = DeleteRecords(((T0, Offset(2)),), 5_000)
    group.send(1, deletion)
    group.run()
    log = group.logs[TWO].get(T0)
    assert log is not None
    assert (log.log_end_offset, log.log_start_offset) == (2, 0)  # not even the start can be written
    group.files[TWO].full = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "append_as_follower", no_room)
        group.advance(2_000)
    assert (log.log_end_offset, log.log_start_offset) == (2, 2)
    group.advance(5_000)
    assert group.stored(1) == group.stored(2)


def no_room(*_args: object, **_kwargs: object) -> None:
    raise DiskFull("no room")
