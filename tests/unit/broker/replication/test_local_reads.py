"""Files for readers on the broker's machine: what is given, what ends it, and what is read of it.

The property test reads a partition from the files alone, block by block, while everything happens
that may happen to it, and compares each block with the leader's own answer of that moment.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pylog import errors
from pylog.client.ranges.local_files import Aborted, LocalRead, OpenFile
from pylog.model import BrokerId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition
from pylog.records.batch import last_header
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog.records.transactions import without_aborted
from pylog_broker.metadata.messages import Failure
from pylog_broker.net.file_door import OVER
from pylog_broker.replication import local_reads
from pylog_broker.replication.effects import (
    ColdRead,
    Effect,
    FetchDone,
    LocalReadEnded,
    LocalReadsOpened,
)
from pylog_broker.replication.fetch_messages import Fetch, PartitionFetch
from pylog_broker.replication.local_reads import LocalReads, OpenRead
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.produce_messages import PartitionBatch, Produce, WriteMarker
from pylog_broker.replication.range_messages import LocalAborted, LocalReadAnswer, LocalReadQuery
from pylog_broker.replication.settings import ReplicationSettings
from pylog_broker.storage.segments.local_range import FileRange
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup
from tests.fakes.paged_files import PagedFiles

ONE, TWO = BrokerId(1), BrokerId(2)
BATCH = encode_batch([b"v" * 100] * 2, timestamps=WALL_MS)
SIZE = len(BATCH)
SETTINGS = ReplicationSettings(local_read_max_descriptors=3, local_read_max_ms=5_000)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    """Ten records in five batches, three in a segment."""
    group = BrokerGroup(tmp_path, settings=SETTINGS)
    group.create_topic(config={"segment.bytes": "1024"})
    group.run()
    for _ in range(5):
        group.produce(1, batch=BATCH)
    group.run()
    return group


def query(start: int = 0, end: int = 10, **rest: Any) -> LocalReadQuery:
    return LocalReadQuery(T0, "", start, end, **rest)


def ask(group: BrokerGroup, wanted: LocalReadQuery, broker: BrokerId = ONE) -> LocalReadAnswer:
    [effect] = group.managers[broker].open_local_read(group.now_ms, wanted, "token")
    assert isinstance(effect, LocalReadsOpened)
    assert effect.token == "token"
    [answer] = effect.answers
    return answer


def refusal(group: BrokerGroup, wanted: LocalReadQuery, broker: BrokerId = ONE) -> Failure:
    before = group.managers[broker].local_reads.descriptors
    answer = ask(group, wanted, broker)
    assert answer.failure is not None
    assert answer == LocalReadAnswer(wanted.topic_partition, answer.failure)
    assert group.managers[broker].local_reads.descriptors == before
    return answer.failure


def paths(group: BrokerGroup, broker: BrokerId = ONE) -> list[str]:
    log = group.logs[broker].get(T0)
    assert log is not None
    return [segment.log_path for segment in log.segments]


# ---- what is given -------------------------------------------------------------------------------


def test_the_files_of_a_range(group: BrokerGroup) -> None:
    first, second = paths(group)
    files = FileRange(first, 0, 3 * SIZE), FileRange(second, 0, 2 * SIZE)
    assert ask(group, query()) == LocalReadAnswer(T0, None, 1, 10, files)
    files = (FileRange(first, 0, 2 * SIZE),)
    assert ask(group, query(1, 3)) == LocalReadAnswer(T0, None, 2, 3, files)
    assert group.managers[ONE].local_reads.descriptors == 3


def test_only_committed_bytes(group: BrokerGroup) -> None:
    group.produce(1, batch=BATCH)  # nobody has fetched it
    second = paths(group)[1]
    answer = ask(group, query(8, 99))
    assert (answer.end_offset, answer.files) == (10, (FileRange(second, 0, 2 * SIZE),))
    assert refusal(group, query(10, 99)).code == errors.OffsetNotAvailable.code


def test_others_than_the_leader_refuse(group: BrokerGroup) -> None:
    assert refusal(group, query(), TWO).code == errors.NotLeaderOrFollower.code
    old = query(current_leader_epoch=LeaderEpoch(0))
    group.elect(1)
    group.tell()
    assert refusal(group, old).code == errors.FencedLeaderEpoch.code
    new = query(current_leader_epoch=LeaderEpoch(9))
    assert refusal(group, new).code == errors.UnknownLeaderEpoch.code
    elsewhere = LocalReadQuery(TopicPartition("none", 0), "", 0, 1)
    assert refusal(group, elsewhere).code == errors.UnknownTopicOrPartition.code
    other = LocalReadQuery(T0, "another id", 0, 10)
    assert refusal(group, other).code == errors.UnknownTopicId.code
    assert ask(group, LocalReadQuery(T0, TOPIC_ID, 0, 10)).failure is None


def test_what_is_deleted(group: BrokerGroup) -> None:
    log = group.logs[ONE].get(T0)
    assert log is not None
    log.advance_log_start(Offset(4))
    assert refusal(group, query(3)).code == errors.OffsetOutOfRange.code
    assert ask(group, query(4)).failure is None
    assert refusal(group, query(11, 12)).code == errors.OffsetOutOfRange.code


def test_the_number_of_files_is_bounded(group: BrokerGroup) -> None:
    manager = group.managers[ONE]
    assert len(ask(group, query()).files) == 2
    answer = ask(group, query())  # the one that is left
    assert (len(answer.files), answer.end_offset) == (1, 6)
    failure = refusal(group, query())
    assert failure.code == errors.ThrottlingQuotaExceeded.code
    assert "hold 3 files of this broker, and local.read.max.descriptors is 3" in failure.message
    manager.close_local_read(1)
    manager.close_local_read(1)
    assert manager.local_reads.descriptors == 1
    assert ask(group, query()).failure is None


def test_switched_off(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, settings=ReplicationSettings(local_read_max_descriptors=0))
    group.create_topic()
    group.run()
    failure = refusal(group, query())
    assert failure.code == errors.ResourceNotFound.code
    assert "local.read.max.descriptors is 0" in failure.message


def test_cold_pages_are_read_elsewhere_first(group: BrokerGroup) -> None:
    log = group.logs[ONE].get(T0)
    assert log is not None
    log._reader._files = PagedFiles()
    manager = group.managers[ONE]
    [cold] = manager.open_local_read(group.now_ms, query(0, 3), "token")
    assert isinstance(cold, ColdRead)
    assert manager.local_reads.reads == {}
    cold.read()  # type: ignore[operator]
    [opened] = manager.on_cold_read(group.now_ms, cold)
    assert isinstance(opened, LocalReadsOpened)
    [again] = manager.open_local_read(group.now_ms, query(9, 10), "other")
    assert isinstance(again, LocalReadsOpened)  # it ends with the log: nothing is to be looked up
    log._reader._files = PagedFiles()
    [cold] = manager.open_local_read(group.now_ms, query(0, 3), "third")
    manager.cancel("third")
    assert isinstance(cold, ColdRead)
    assert manager.on_cold_read(group.now_ms, cold) == []


def test_too_many_aborted_transactions(group: BrokerGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_reads, "ABORTED_MAX", 1)
    writer = Writer(group, random.Random(1))
    for _ in range(2):
        writer.write(transactional=True)
        writer.mark(commits=False)
    group.run()
    end = group.marks(1)[1]
    failure = refusal(group, query(10, end, read_committed=True))
    assert failure.code == errors.ThrottlingQuotaExceeded.code
    assert "2 transactions were aborted between offsets 10 and" in failure.message
    found = ask(group, query(0, 12, read_committed=True))
    assert found.aborted == (LocalAborted(Writer.ID, 10, 12),)
    assert ask(group, query(8, 12)).aborted == ()


# ---- what ends it --------------------------------------------------------------------------------


def ended(effects: Iterable[Effect]) -> list[LocalReadEnded]:
    return [effect for effect in effects if isinstance(effect, LocalReadEnded)]


def posted(group: BrokerGroup) -> list[LocalReadEnded]:
    group.run()
    found = ended(effect for _, effect in group.other_effects)
    group.other_effects.clear()
    return found


def test_a_change_of_leaders_ends_it(group: BrokerGroup) -> None:
    ask(group, query())
    group.set_isr(1, 2)
    group.tell()
    assert posted(group) == []  # who is in sync does not matter
    group.elect(2)
    group.tell()
    assert posted(group) == [LocalReadEnded(1, "leader_change")]
    assert ended(group.managers[ONE].check_local_reads(group.now_ms)) == []  # told once
    assert group.managers[ONE].local_reads.descriptors == 2  # until the holder has closed it


def test_a_new_epoch_of_the_same_leader_ends_it(group: BrokerGroup) -> None:
    """As after an unclean election: another may have led in between."""
    ask(group, query())
    group.elect(1)
    group.tell()
    assert posted(group) == [LocalReadEnded(1, "leader_change")]


def test_the_end_is_told_before_anything_else_happens(group: BrokerGroup) -> None:
    ask(group, query())
    group.elect(2)
    image = group.images[ONE]
    before = Path(paths(group)[0]).read_bytes()
    group.tell(ONE)
    sender, effect = next(
        item for item in group._mail if item[0] == ONE and isinstance(item[1], LocalReadEnded)
    )
    assert (sender, effect) == (ONE, LocalReadEnded(1, "leader_change"))
    assert Path(paths(group)[0]).read_bytes()[: 3 * SIZE] == before[: 3 * SIZE]
    assert image.offset == group.image.offset


def test_the_deletion_of_the_topic_ends_it(group: BrokerGroup) -> None:
    ask(group, query())
    group.delete_topic()
    group.tell()
    assert posted(group) == [LocalReadEnded(1, "deleted")]


def test_retention_ends_it_when_it_reaches_the_range(group: BrokerGroup) -> None:
    ask(group, query(4, 10))
    log, manager = group.logs[ONE].get(T0), group.managers[ONE]
    assert log is not None
    log.advance_log_start(Offset(4))
    assert ended(manager.check_local_reads(group.now_ms)) == []
    log.advance_log_start(Offset(6))
    assert ended(manager.check_local_reads(group.now_ms)) == [LocalReadEnded(1, "log_start")]


def test_a_disk_that_fails_ends_it(group: BrokerGroup) -> None:
    ask(group, query())
    log, manager = group.logs[ONE].get(T0), group.managers[ONE]
    assert log is not None
    log.take_offline(errors.KafkaStorageError("the disk is gone"))
    assert ended(manager.check_local_reads(group.now_ms)) == [LocalReadEnded(1, "storage")]


def test_time_ends_it(group: BrokerGroup) -> None:
    ask(group, query())
    manager = group.managers[ONE]
    assert ended(manager.check_local_reads(group.now_ms + 4_999)) == []
    assert ended(manager.check_local_reads(group.now_ms + 5_000)) == [LocalReadEnded(1, "expired")]


# ---- what is read of it --------------------------------------------------------------------------

Row = tuple[int, bytes | None, bytes | None]


def rows(data: Any, start: int, end: int) -> list[Row]:
    found = iter_records(data, "t", 0, from_offset=start)
    return [(record.offset, record.key, record.value) for record in found if record.offset < end]


class Writer:
    """Writes to whoever leads, in transactions or not."""

    ID = ProducerId(7)

    def __init__(self, group: BrokerGroup, rng: random.Random) -> None:
        self._group = group
        self._rng = rng
        self._epoch = 0
        self._sequence = 0

    @property
    def leader(self) -> BrokerId:
        return self._group.record().leader

    def write(self, *, transactional: bool) -> None:
        rng, manager = self._rng, self._group.managers[self.leader]
        keys = [b"%d" % rng.randrange(8) for _ in range(rng.randrange(1, 5))]
        values = [b"%d" % rng.randrange(10**6) * rng.randrange(1, 20) for _ in keys]
        producer: dict[str, Any] = {}
        if transactional:
            producer = {
                "producer_id": self.ID,
                "producer_epoch": self._epoch,
                "base_sequence": self._sequence,
                "transactional": True,
            }
            self._sequence += len(keys)
        data = encode_batch(
            values,  # type: ignore[arg-type]
            keys=keys,  # type: ignore[arg-type]
            timestamps=WALL_MS,
            compression=rng.choice(["none", "lz4"]),
            **producer,
        )
        item = PartitionBatch(T0, None, data)
        request = Produce(1, 0, (item,), transactional_id="t" if transactional else None)
        unverified = manager.transactions.unverified(request)
        for each in unverified:
            item = item._replace(guard=each.guard)
        self._group.send(self.leader, request._replace(batches=(item,)))
        manager.transactions.release(unverified)

    def mark(self, *, commits: bool) -> None:
        self._epoch, self._sequence = self._epoch + 1, 0
        manager = self._group.managers[self.leader]
        marker = WriteMarker(T0, self.ID, ProducerEpoch(self._epoch), commits, 3, 2)
        batch = manager.transactions.batch_of(WALL_MS, marker)
        if isinstance(batch, PartitionBatch):
            self._group.send(self.leader, Produce(1, 0, (batch,), internal=True))


class Brokers(BrokerGroup):
    """Holders of local reads hear that they are over in the very step that ends them."""

    on_ended: Callable[[BrokerId, int], None]

    def _post(self, broker: BrokerId, effects: Iterable[Effect]) -> None:
        kept = []
        for effect in effects:
            if isinstance(effect, LocalReadEnded):
                self.on_ended(broker, effect.read_id)
            else:
                kept.append(effect)
        super()._post(broker, kept)


class Held(NamedTuple):
    broker: BrokerId
    read_id: int
    read: LocalRead
    door: socket.socket
    at_open: list[Row]


class World:
    """Three brokers, a writer, and a reader that knows files alone."""

    def __init__(
        self,
        root: Path,
        rng: random.Random,
        *,
        committed: bool,
        compacted: bool,
        manager_type: type[ReplicaManager] = ReplicaManager,
    ) -> None:
        self.rng = rng
        self.committed = committed
        self.group = Brokers(root, manager_type=manager_type)
        self.group.on_ended = self.on_ended
        config = {"segment.bytes": "1024", "index.interval.bytes": rng.choice(["1", "300", "4096"])}
        if compacted:
            config |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
        self.group.create_topic(config=config)
        self.group.run()
        self.writer = Writer(self.group, rng)
        self.position = 0
        self.held: Held | None = None
        self.cleaned = False
        self.blocks = self.stops = self.differences = 0

    # ---- the reader

    def on_ended(self, broker: BrokerId, read_id: int) -> None:
        if self.held is not None and (self.held.broker, self.held.read_id) == (broker, read_id):
            self.held.door.send(OVER)

    def open(self) -> None:
        leader = self.writer.leader
        end = self.group.marks(leader)[1] + self.rng.randrange(3)
        if self.held is not None or self.position >= end:
            return
        manager = self.group.managers[leader]
        wanted = query(self.position, end, read_committed=self.committed)
        opened, rest = None, []
        for effect in manager.open_local_read(self.group.now_ms, wanted, "token"):
            if isinstance(effect, LocalReadsOpened):
                [opened] = effect.answers
            else:
                rest.append(effect)
        self.group._post(leader, rest)
        if opened is None:
            return
        if opened.failure is not None:
            if opened.failure.code == errors.OffsetOutOfRange.code:
                self.position = max(self.position, self.group.marks(leader)[0])
                self.position = min(self.position, self.group.marks(leader)[2])
            return
        door, connection = socket.socketpair()
        files = [
            OpenFile(os.open(each.path, os.O_RDONLY), each.begin, each.end) for each in opened.files
        ]
        read = LocalRead(
            connection,
            files,
            self.position,
            min(opened.end_offset, end),
            [Aborted(*each) for each in opened.aborted],
        )
        at_open = self.answer(leader, self.position, read.end)
        self.held = Held(leader, opened.read_id, read, door, at_open)
        self.cleaned = False

    def step(self) -> None:
        """Read a block, and compare it with what the leader would answer now."""
        held = self.held
        if held is None:
            return
        start = held.read.position
        block = held.read.next_block()
        end = held.read.position
        if block is None:
            self.stops += bool(held.read.fault)
            assert not held.read.is_damaged, held.read.fault
            self.give_back()
            # What is left of the range holds no record, or the read was stopped before.
            if not held.read.fault:
                assert self.answer(held.broker, start, end) == []
            self.position = end
            return
        found, wanted = rows(block, start, end), self.answer(held.broker, start, end)
        if self.cleaned:
            # No record that both know is missing, twice or another; the others were there.
            self.differences += found != wanted
            assert [row for row in found if row in wanted] == wanted
            assert [row for row in held.at_open if start <= row[0] < end] == found
        else:
            assert found == wanted
        self.blocks += 1
        self.position = end

    def give_back(self) -> None:
        held, self.held = self.held, None
        if held is not None:
            held.read.close()
            held.read.connection.close()
            held.door.close()
            if held.broker in self.group.managers:
                self.group.managers[held.broker].close_local_read(held.read_id)

    def answer(self, broker: BrokerId, start: int, end: int) -> list[Row]:
        """The records of a range by fetches, which the broker must answer as leader."""
        found: list[Row] = []
        while start < end:
            item = PartitionFetch(T0, None, Offset(start), 1 << 20, LeaderEpoch(-1))
            request = Fetch(0, 1, 1 << 20, (item,), self.committed)
            effects = self.group.managers[broker].fetch(self.group.now_ms, request, "twin")
            [done] = [effect for effect in effects if isinstance(effect, FetchDone)]
            self.group._post(broker, [effect for effect in effects if effect is not done])
            [data] = done.partitions
            assert data.failure is None, data.failure
            if not len(data.records):
                break
            last = last_header(data.records)
            assert last is not None
            found += rows(without_aborted(data.records, data.aborted), start, end)
            start = last.next_offset
        return found

    # ---- what happens

    def happen(self) -> None:
        rng, group = self.rng, self.group
        chance = rng.random()
        if chance < 0.35:
            self.writer.write(transactional=rng.random() < 0.4)
        elif chance < 0.43:
            self.writer.mark(commits=rng.random() < 0.5)
        elif chance < 0.50:
            self.open()
        elif chance < 0.75:
            self.step()
        elif chance < 0.88:
            group.run()
        elif chance < 0.91:
            self.clean()
        elif chance < 0.94:
            self.delete()
        elif chance < 0.97:
            group.elect(rng.choice(group.record().isr))
            self.told()
        else:
            self.elect_uncleanly()
        for broker, manager in group.managers.items():
            group._post(broker, manager.check_local_reads(group.now_ms))

    def told(self) -> None:
        self.group.tell(*self.rng.sample(sorted(self.group.managers), 3))
        if self.rng.random() < 0.8:
            self.group.run()

    def elect_uncleanly(self) -> None:
        """A replica leads that may lack what was committed; the others truncate."""
        group = self.group
        leader = self.rng.randrange(1, 4)
        group.elect(leader, isr=[leader])
        self.told()
        group.set_isr(1, 2, 3)
        group.tell()
        self.position = min(self.position, group.marks(self.writer.leader)[1])
        if self.held is not None:
            self.position = min(self.position, self.held.read.position)

    def delete(self) -> None:
        log = self.group.logs[self.writer.leader].get(T0)
        assert log is not None
        start, mark = log.log_start_offset, self.group.marks(self.writer.leader)[1]
        if mark > start:
            log.advance_log_start(Offset(self.rng.randint(start, min(mark, start + 12))))

    def clean(self) -> None:
        logs = self.group.logs[self.writer.leader]
        [manager] = logs.live
        task = manager.cleaner.next_task(
            WALL_MS, {T0: Offset(self.group.marks(self.writer.leader)[1])}
        )
        if task is not None:
            task.run()
            while manager.cleaner.on_ran(task):
                task.run()
            self.cleaned = True

    def close(self) -> None:
        self.give_back()
        for broker in list(self.group.managers):
            assert self.group.managers[broker].local_reads.descriptors == 0
            self.group.stop(broker)


def play(root: Path, seed: int, steps: int = 300, **kind: Any) -> World:
    rng = random.Random(seed)
    world = World(root, rng, committed=seed % 2 == 0, compacted=seed % 3 == 0, **kind)
    try:
        for _ in range(steps):
            world.happen()
    finally:
        if world.held is not None:
            world.give_back()
    world.close()
    return world


def test_the_same_rows_as_the_leader_would_answer(tmp_path: Path) -> None:
    worlds = [play(tmp_path / str(seed), seed) for seed in range(30)]
    assert sum(world.blocks for world in worlds) > 300
    assert sum(world.stops for world in worlds) > 30
    assert sum(world.differences for world in worlds) > 0


class _NeverOver(LocalReads):
    def _cause(self, read: OpenRead) -> str:
        return ""


class _OnlyLate(LocalReads):
    """It forgets that leaders change."""

    def _cause(self, read: OpenRead) -> str:
        cause = super()._cause(read)
        return "" if cause == "leader_change" else cause


class _BeyondTheMark(LocalReads):
    """It gives bytes that are not committed."""

    def _answer(self, partition: Any, query: LocalReadQuery, nowait: bool) -> LocalReadAnswer:
        mark = partition.high_watermark
        partition.high_watermark = partition.log.log_end_offset
        try:
            return super()._answer(partition, query, nowait)
        finally:
            partition.high_watermark = mark


class _ForgetsAborted(LocalReads):
    def _aborted(self, log: Any, query: LocalReadQuery, end: int) -> tuple[LocalAborted, ...]:
        return ()


@pytest.mark.parametrize("bug", [_NeverOver, _OnlyLate, _BeyondTheMark, _ForgetsAborted])
def test_planted_bugs_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: type[LocalReads]
) -> None:
    monkeypatch.setattr("pylog_broker.replication.manager.LocalReads", bug)
    for seed in range(30):
        try:
            play(tmp_path / str(seed), seed)
        except AssertionError:
            return
    raise AssertionError(f"{bug.__name__} was not noticed")
