"""A process is short of files or memory for a moment: a request is refused, no replica is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from pylog import errors
from pylog.model import BrokerId, Offset, TopicId, TopicPartition
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog_broker.metadata.records import ConfigRecord, ConfigResourceType
from pylog_broker.replication.effects import (
    DeleteRecordsDone,
    FetchDone,
    OffsetsListed,
    ReplicaFailed,
)
from pylog_broker.replication.log_starts import RETRY_MS as START_RETRY_MS
from pylog_broker.replication.offset_messages import DeleteRecords, OffsetQuery
from pylog_broker.replication.settings import ReplicationSettings
from pylog_broker.replication.syncs import RETRY_MS as SYNC_RETRY_MS
from pylog_broker.replication.without_room import RETRY_MS
from pylog_broker.storage.errors import ShortOfResources
from pylog_broker.storage.files import OF_THE_MOMENT
from pylog_broker.storage.log.log import Log
from tests.fakes.broker_group import T0, WALL_MS, BrokerGroup
from tests.fakes.logs import read_all
from tests.fakes.short_files import Shortage, refuse_one_of

ONE, TWO = BrokerId(1), BrokerId(2)
NEW, NEW_ID = TopicPartition("new", 0), TopicId("nnnnnnnnnnnnnnnnnnnnnA")
EVERY: Final = int(os.environ.get("PASSING_ERRORS_EVERY", "23"))
CODES: Final = sorted(OF_THE_MOMENT)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    made = BrokerGroup(tmp_path)
    made.create_topic(min_isr=2)
    made.run()
    for number in range(4):
        made.produce(1, batch=encode_batch([b"v%d" % number], timestamps=WALL_MS))
    made.run()
    return made


def refuse_next(group: BrokerGroup, broker: BrokerId, operation: str, part: str) -> Shortage:
    """The next such operation on a path with `part` in it is refused, once."""

    class Next(Shortage):
        def refuses(self, name: str, target: object) -> OSError | None:
            if name != operation or part not in str(target) or self.refused:
                return None
            self.refused = f"{name}({target})"
            return OSError(errno.EMFILE, "Too many open files")

    shortage = Next(0, errno.EMFILE)
    refuse_one_of(group.files[broker], shortage)
    return shortage


def log_of(group: BrokerGroup, broker: BrokerId, name: TopicPartition = T0) -> Log:
    log = group.logs[broker].get(name)
    assert log is not None
    return log


def nobody_failed(group: BrokerGroup) -> None:
    """No replica is offline, and none was reported to the controller."""
    told = [effect for _, effect in group.other_effects if isinstance(effect, ReplicaFailed)]
    assert [effect for effect in told if effect.topic_id is not None] == []
    for broker in group.managers:
        assert [state.fault for state in group.managers[broker].describe() if state.fault] == []


def values(group: BrokerGroup, broker: int) -> list[bytes | None]:
    return [record.value for record in iter_records(group.stored(broker), "t", 0)]


def make_cold(group: BrokerGroup, broker: BrokerId) -> None:
    """The next read of the first segment must open it."""
    log = log_of(group, broker)
    log.roll(WALL_MS)
    log._tail.clear()
    log.segments[0].rest()


def test_a_cold_read_is_refused_and_the_leader_leads_on(group: BrokerGroup) -> None:
    make_cold(group, ONE)
    refuse_next(group, ONE, "open", ".log")
    token = group.fetch(1, 0)
    group.run()
    done = group.answers[token]
    assert isinstance(done, FetchDone)
    failure = done.partitions[0].failure
    assert failure is not None
    assert failure.code == errors.KafkaStorageError.code
    assert errors.KafkaStorageError.retriable
    assert "try again later" in failure.message
    nobody_failed(group)
    stored = group.produce(1, b"next")
    again = group.fetch(1, 0)
    group.run()
    assert group.error(stored) == 0
    done = group.answers[again]
    assert isinstance(done, FetchDone)
    assert done.partitions[0].failure is None
    nobody_failed(group)


def test_a_batch_that_needs_a_new_segment_is_refused_and_taken_the_next_time(
    group: BrokerGroup,
) -> None:
    log = log_of(group, ONE)
    log.config = replace(log.config, segment_bytes=300)
    refuse_next(group, ONE, "open", "04.index")
    refused = group.produce(1, b"w" * 60)
    group.run()
    assert group.error(refused) == errors.KafkaStorageError.code
    nobody_failed(group)
    stored = group.produce(1, b"w" * 60)
    group.run()
    assert group.error(stored) == 0
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    assert log.log_end_offset == 5


def test_a_follower_that_cannot_append_for_now_asks_again(group: BrokerGroup) -> None:
    refuse_next(group, TWO, "append", "")
    stored = group.produce(1, b"next")
    group.run()
    group.advance(5_000)
    assert group.error(stored) == 0
    assert group.marks(2) == group.marks(1)
    nobody_failed(group)


def test_a_leader_that_cannot_read_for_its_follower_now_is_asked_again(
    group: BrokerGroup,
) -> None:
    group.cut_links.add((TWO, ONE))
    group.advance(1)
    group.produce(1, b"next", acks=1)
    group.run()
    make_cold(group, ONE)
    group.start(TWO)
    refuse_next(group, ONE, "open", ".log")
    group.cut_links.clear()
    group.advance(5_000)
    assert group.marks(2) == group.marks(1)
    nobody_failed(group)


def test_a_deletion_that_could_not_be_written_is_answered_when_it_could(
    tmp_path: Path,
) -> None:
    group = BrokerGroup(tmp_path, 1)
    group.create_topic((1,))
    for number in range(4):
        group.produce(1, b"v%d" % number)
    group.run()
    refuse_next(group, ONE, "open", "log-start")
    token = group.send(1, DeleteRecords(((T0, Offset(3)),), 1_000))
    group.run()
    assert token not in group.answers, "a restart would bring the records back"
    group.advance(START_RETRY_MS)
    done = group.answers[token]
    assert isinstance(done, DeleteRecordsDone)
    assert done.watermarks[0].failure is None
    group.start(ONE)
    group.run()
    assert group.marks(1)[0] == 3
    nobody_failed(group)


def test_an_offset_that_cannot_be_looked_up_now_is_found_later(group: BrokerGroup) -> None:
    make_cold(group, ONE)
    refuse_next(group, ONE, "open", ".log")
    failure = group.offset_of(1, OffsetQuery(T0, WALL_MS)).failure
    found = group.offset_of(1, OffsetQuery(T0, WALL_MS))
    assert (failure and failure.code) == errors.KafkaStorageError.code
    assert (found.failure, found.offset) == (None, 0)
    nobody_failed(group)


def test_a_log_that_fails_over_a_look_up_is_told_of_at_once(group: BrokerGroup) -> None:
    make_cold(group, ONE)
    files, code = group.files[ONE], errno.EIO

    def broken(path: str, *, create: bool = False) -> int:
        raise OSError(code, "Input/output error")

    files.open = broken  # type: ignore[method-assign]
    manager = group.managers[ONE]
    told = manager.list_offsets(group.now_ms, (OffsetQuery(T0, WALL_MS),), "token")
    [listed] = [effect for effect in told if isinstance(effect, OffsetsListed)]
    assert listed.answers[0].failure is not None
    assert [e.topic_partition for e in told if isinstance(e, ReplicaFailed)] == [T0]


def test_a_sync_that_could_not_be_made_is_made_again(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, 1)
    group.create_topic((1,))
    group.append(ConfigRecord(ConfigResourceType.TOPIC, "t", "flush.messages", "1"))
    group.tell()
    group.run()
    refused = refuse_next(group, ONE, "open", ".log")
    token = group.produce(1, b"a")
    group.run()
    assert refused.refused
    assert token not in group.answers
    more = group.produce(1, b"b")
    group.advance(SYNC_RETRY_MS - 1)
    assert token not in group.answers
    group.advance(1)
    assert (group.error(token), group.error(more)) == (0, 0)
    assert log_of(group, ONE).synced_offset == 2
    nobody_failed(group)


def test_a_log_that_cannot_be_made_now_is_made_later(group: BrokerGroup) -> None:
    refused = refuse_next(group, ONE, "mkdir", "new-0")
    group.create_topic((1,), name="new", topic_id=NEW_ID)
    group.run()
    assert refused.refused
    assert group.state(1, topic="new").fault
    group.advance(RETRY_MS)
    stored = group.produce(1, b"v", name=NEW)
    group.run()
    assert group.error(stored) == 0
    nobody_failed(group)


def test_a_log_that_cannot_be_deleted_now_is_deleted_later(group: BrokerGroup) -> None:
    refuse_next(group, ONE, "rename", "t-0")
    group.delete_topic()
    group.tell()
    group.run()
    assert (tmp := group.root / "broker-1" / "t-0").exists()
    group.advance(RETRY_MS)
    assert not tmp.exists()
    assert not group.logs[ONE].failed
    nobody_failed(group)


@pytest.mark.parametrize("operation", ["truncate", "open"])
def test_a_replica_whose_cut_was_interrupted_leads_without_what_was_cut(
    group: BrokerGroup, operation: str
) -> None:
    """It is elected before it could ask again: the next batch stands where the cut was."""
    log = log_of(group, TWO)
    log.segments[-1].close()
    refused = refuse_next(group, TWO, operation, "" if operation == "truncate" else ".index")
    with pytest.raises(ShortOfResources):
        log.truncate_to(Offset(2))
    assert refused.refused
    group.elect(2, isr=(2,))
    group.tell(TWO)
    assert log.log_end_offset == 2
    group.append(ConfigRecord(ConfigResourceType.TOPIC, "t", "min.insync.replicas", "1"))
    group.tell(TWO)
    stored = group.produce(2, b"acknowledged")
    group.run()
    assert group.error(stored) == 0
    assert values(group, 2) == [b"v0", b"v1", b"acknowledged"]
    group.start(TWO)
    group.run()
    assert values(group, 2) == [b"v0", b"v1", b"acknowledged"]


class ShortFrom(Shortage):
    """Refuses the operation of that number, and all that come after it, while `is_short`."""

    is_short = False

    def refuses(self, name: str, target: object) -> OSError | None:
        if not self.is_short or self._looking:
            return None
        error = super().refuses(name, target)
        if error is None and self.refused:
            error = OSError(self._code, os.strerror(self._code), str(target))
        return error


def left_behind(root: Path, shortage: ShortFrom) -> BrokerGroup:
    """Broker 2 is short of something, and has less than what is left at its leader."""
    group = BrokerGroup(root, settings=ReplicationSettings(replica_lag_time_max_ms=1_000))
    group.create_topic()
    refuse_one_of(group.files[TWO], shortage)
    for value in (b"a", b"b"):
        group.produce(1, value)
    group.advance(100)
    group.cut_links |= {(TWO, ONE), (TWO, BrokerId(3))}
    for value in (b"c", b"d"):
        group.produce(1, value)
    group.advance(2_000)
    group.send(1, DeleteRecords(((T0, Offset(4)),), 1))
    group.advance(1_000)
    assert (group.marks(1), group.marks(2)[2]) == ((4, 4, 4), 2)
    shortage.is_short = True
    return group


def elect_while_it_waits(group: BrokerGroup) -> None:
    """Broker 3 leads as soon as broker 2 has tried to start over."""
    for _ in range(1_000):
        group.advance(1)
        if group.marks(2)[2] == 4:
            break
    group.elect(3, isr=(1, 3))
    group.tell()


@pytest.mark.parametrize("another_leads", [False, True])
def test_a_follower_does_not_tell_an_end_that_a_crash_would_take_back(
    tmp_path: Path, another_leads: bool
) -> None:
    """It starts over where its leader's log begins. Its leader takes it into the ISR for the end
    that it tells, and it may lead then.
    """
    told = []
    for number in count():
        shortage = ShortFrom(number, CODES[number % len(CODES)])
        group = left_behind(tmp_path / str(number), shortage)
        group.cut_links.clear()
        if another_leads:
            elect_while_it_waits(group)
        group.advance(1_000)
        leader = 3 if another_leads else 1
        told.append(dict(group.state(leader).follower_ends)[TWO])
        with shortage.not_now():
            group.start(TWO)
        assert told[-1] < 4 or group.marks(2) == (4, 4, 4), shortage.refused
        group.advance(5_000)
        nobody_failed(group)
        assert group.marks(2) == group.marks(leader)
        if not shortage.refused:
            break
    assert min(told) < 4
    assert told[-1] == 4
    assert len(told) > 5


@pytest.mark.parametrize("another_leads", [False, True])
def test_a_follower_that_could_not_start_over_now_does_it_later(
    tmp_path: Path, another_leads: bool
) -> None:
    for number in count():
        shortage = ShortFrom(number, CODES[number % len(CODES)])
        group = left_behind(tmp_path / str(number), shortage)
        group.cut_links.clear()
        if another_leads:
            elect_while_it_waits(group)
        group.advance(1_000)
        shortage.is_short = False
        group.advance(5_000)
        stored = group.produce(3 if another_leads else 1, b"e")
        group.advance(1_000)
        assert group.error(stored) == 0
        nobody_failed(group)
        assert group.marks(2) == (4, 5, 5)
        assert values(group, 2) == [b"e"]
        if not shortage.refused:
            assert number > 5
            break


def test_a_crash_before_a_tail_could_be_cut_leaves_what_is_committed(tmp_path: Path) -> None:
    for number in count():
        shortage = ShortFrom(number, CODES[number % len(CODES)])
        group = BrokerGroup(tmp_path / str(number))
        group.create_topic()
        refuse_one_of(group.files[TWO], shortage)
        for value in (b"a", b"b"):
            group.produce(1, value)
        group.advance(100)
        group.elect(2)
        group.tell()
        group.advance(100)
        group.cut_links |= {(ONE, TWO), (BrokerId(3), TWO)}
        group.produce(2, b"lost", acks=1)
        group.run()
        shortage.is_short = True
        group.elect(1, isr=(1, 3))
        group.cut_links.clear()
        group.tell()
        group.advance(1_000)
        told = dict(group.state(1).follower_ends)[TWO]
        assert told <= 2
        assert told == 2 or shortage.refused
        with shortage.not_now():
            group.start(TWO)
        assert values(group, 2) in ([b"a", b"b"], [b"a", b"b", b"lost"]), shortage.refused
        group.advance(5_000)
        nobody_failed(group)
        assert group.marks(2) == group.marks(1) == (0, 2, 2)
        assert values(group, 2) == [b"a", b"b"]
        if not shortage.refused:
            assert number > 1
            break


# ---- every operation of a group's life ----------------------------------------------------------


class GroupLife:
    """Three replicas through appends, a cut tail, deletions, a restart; `acknowledged` is what a
    client knows to be stored.
    """

    def __init__(self, root: Path, broker: BrokerId, shortage: Shortage) -> None:
        self.group = BrokerGroup(root)
        self.broker = broker
        self.shortage = shortage
        self.acknowledged: list[bytes] = []
        refuse_one_of(self.group.files[broker], shortage)

    def settle(self) -> None:
        self.group.run()
        self.group.advance(3_000)

    def produce(self, leader: int, value: bytes) -> None:
        """Asked again until it is stored."""
        for _ in range(3):
            token = self.group.produce(leader, value)
            self.settle()
            if self.group.error(token) == 0:
                self.acknowledged.append(value)
                return
        raise AssertionError(f"{value!r} is refused for ever: {self.group.ack(token).failure}")

    def fetch(self, leader: int) -> None:
        for _ in range(3):
            token = self.group.fetch(leader, self.group.marks(leader)[0])
            self.settle()
            done = self.group.answers[token]
            assert isinstance(done, FetchDone)
            if done.partitions[0].failure is None:
                return
        raise AssertionError(f"a read is refused for ever: {done}")

    def delete(self, leader: int, offset: int) -> None:
        for _ in range(3):
            token = self.group.send(leader, DeleteRecords(((T0, Offset(offset)),), 10_000))
            self.settle()
            done = self.group.answers[token]
            assert isinstance(done, DeleteRecordsDone)
            if done.watermarks[0].failure is None:
                self.acknowledged = self.acknowledged[offset:]
                return
        raise AssertionError(f"a deletion is refused for ever: {done}")

    def live(self) -> None:
        group = self.group
        group.create_topic(min_isr=2)
        self.settle()
        for broker in group.logs:
            log = log_of(group, broker)
            log.config = replace(log.config, segment_bytes=400, index_interval_bytes=0)
        for number in range(5):
            self.produce(1, b"first %d" % number + b"." * 50)
        self.lead_with_a_tail_of_its_own()
        self.produce(2, b"second" + b"." * 50)
        with self.shortage.not_now():
            for broker in (1, 2):
                log_of(group, BrokerId(broker))._tail.clear()
        self.fetch(2)
        self.delete(2, 4)
        for broker in (ONE, TWO):
            logs = group.logs[broker].opened[0]
            logs.maintain(group.now_ms, WALL_MS, group.managers[broker].high_watermarks())
        self.produce(2, b"third" + b"." * 50)

    def lead_with_a_tail_of_its_own(self) -> None:
        """Broker 1 stores what nobody else does, and follows broker 2 then."""
        group = self.group
        group.cut_links |= {(BrokerId(follower), ONE) for follower in (2, 3)}
        for number in range(3):
            group.produce(1, b"lost %d" % number + b"." * 90, acks=1)
        group.run()
        group.elect(2, isr=(2, 3))
        group.cut_links.clear()
        group.tell()
        self.settle()
        group.set_isr(1, 2, 3)
        group.tell()
        self.settle()

    def check(self) -> None:
        where = self.shortage.refused
        nobody_failed(self.group)
        for broker in (1, 2, 3):
            assert self.group.marks(broker) == self.group.marks(2), where
            start = self.group.marks(broker)[0]
            stored = read_all(log_of(self.group, BrokerId(broker)))
            found = [record.value for record in iter_records(stored, "t", 0, from_offset=start)]
            assert found == self.acknowledged, (where, broker)


def lives(tmp_path: Path) -> Iterator[GroupLife]:
    """Lives in each of which another operation of a leader or a follower is refused."""
    for broker in (ONE, TWO):
        for number in count(int(broker), EVERY):
            shortage = Shortage(number, CODES[number % len(CODES)])
            life = GroupLife(tmp_path / f"{broker}-{number}", broker, shortage)
            life.live()
            if not shortage.refused:
                assert shortage.seen > 50
                break
            yield life


def test_no_refused_operation_loses_a_record_or_a_replica(tmp_path: Path) -> None:
    for life in lives(tmp_path):
        with life.shortage.not_now():
            life.check()
            for broker in (ONE, TWO, BrokerId(3)):
                life.group.start(broker)
            life.settle()
            life.check()
