"""A share partition against a dumb twin that keeps one entry for each record."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from pylog.errors import InvalidRecordState, PylogError
from pylog.model import Offset
from pylog_broker.share.log_batches import LogBatch
from pylog_broker.share.record_states import RecordState, StateBatch
from pylog_broker.share.settings import ShareSettings
from pylog_broker.share.share_partition import (
    AcknowledgementBatch,
    AcquiredRecords,
    SharePartition,
    Wanted,
)

LOG_END = 120
MEMBERS = ("a", "b", "c")
STEPS = 200


@dataclass
class Entry:
    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member: str = ""
    until_ms: int = 0
    write: int = 0
    is_rejected: bool = False
    is_leaving: bool = False

    @property
    def is_dead_letter(self) -> bool:
        return self.state is RecordState.ARCHIVING and not self.write

    @property
    def is_free(self) -> bool:
        return self.state is RecordState.AVAILABLE and not self.write


class Twin:
    """Every record for itself."""

    def __init__(self, start: int, settings: ShareSettings) -> None:
        self.start = start
        self.settings = settings
        self.entries: dict[int, Entry] = {}
        self.writes = 0
        self.durable: dict[int, tuple[RecordState, int]] = {}
        self.durable_start = start

    @property
    def next(self) -> int:
        return max(self.entries, default=self.start - 1) + 1

    def settle(self) -> None:
        while self.start in self.entries and self.entries[self.start].state.is_final:
            del self.entries[self.start]
            self.start += 1
        while self.entries:
            last = self.entries[max(self.entries)]
            if not last.is_free or last.count:
                break
            del self.entries[max(self.entries)]

    def at(self, offset: int) -> Entry:
        for each in range(self.next, offset + 1):
            self.entries[each] = Entry()
        return self.entries[offset]

    def fetch_offset(self) -> int | None:
        for offset in range(self.start, self.next):
            if self.entries[offset].is_free:
                return offset
        full = self.next - self.start >= self.settings.partition_max_record_locks
        return None if full else self.next

    def archive(self, entry: Entry) -> None:
        if entry.is_free:
            entry.state, entry.write = RecordState.ARCHIVED, self.writes + 1

    def acquire(
        self, now_ms: int, member: str, begin: int, batches: list[LogBatch], wanted: Wanted
    ) -> list[tuple[int, int]]:
        most = self.start + self.settings.partition_max_record_locks
        got: list[tuple[int, int]] = []
        cursor = max(begin, self.start)
        for batch in batches:
            if len(got) >= wanted.max_records or cursor > self.next:
                break
            for offset in range(cursor, batch.first_offset):
                self.archive(self.at(offset))
            for offset in range(max(cursor, batch.first_offset), batch.last_offset + 1):
                if not batch.is_for_members:
                    self.archive(self.at(offset))
                    continue
                if wanted.record_limit and len(got) >= wanted.max_records:
                    break
                if offset >= self.next and offset >= most:
                    break
                entry = self.at(offset)
                if entry.is_free:
                    entry.state, entry.member = RecordState.ACQUIRED, member
                    entry.until_ms = now_ms + self.settings.record_lock_duration_ms
                    entry.count += 1
                    got.append((offset, entry.count))
            cursor = max(cursor, batch.last_offset + 1)
        self.settle()
        return got

    def give_back(self, entry: Entry) -> None:
        if entry.count >= self.settings.delivery_count_limit:
            self.give_up(entry, is_rejected=False)
            return
        entry.state = RecordState.AVAILABLE
        entry.member, entry.until_ms, entry.write = "", 0, self.writes + 1

    def give_up(self, entry: Entry, *, is_rejected: bool) -> None:
        has_topic = bool(self.settings.dead_letter_topic)
        entry.state = RecordState.ARCHIVING if has_topic else RecordState.ARCHIVED
        entry.is_rejected = has_topic and is_rejected
        entry.member, entry.until_ms, entry.write = "", 0, self.writes + 1

    def acknowledge(self, now_ms: int, member: str, each: dict[int, int]) -> bool:
        wanted = {n: type_ for n, type_ in each.items() if n >= self.start or type_ == 4}
        for offset in wanted:
            entry = self.entries.get(offset, Entry())
            if entry.state is not RecordState.ACQUIRED or entry.member != member:
                return False
        for offset, type_ in wanted.items():
            entry = self.entries[offset]
            if type_ == 4:
                entry.until_ms = now_ms + self.settings.record_lock_duration_ms
            elif type_ == 2:
                self.give_back(entry)
            elif type_ == 3:
                self.give_up(entry, is_rejected=True)
            else:
                entry.state = RecordState.ACKNOWLEDGED if type_ == 1 else RecordState.ARCHIVED
                entry.member, entry.until_ms, entry.write = "", 0, self.writes + 1
        self.settle()
        return True

    def release(self, member: str, *, delivered: bool) -> None:
        for entry in self.entries.values():
            if entry.member == member:
                if delivered:
                    self.give_back(entry)
                else:
                    entry.state, entry.member, entry.until_ms = RecordState.AVAILABLE, "", 0
                    entry.count -= 1
        self.settle()

    def on_time(self, now_ms: int) -> None:
        for entry in self.entries.values():
            if entry.state is RecordState.ACQUIRED and entry.until_ms <= now_ms:
                self.give_back(entry)
        self.settle()

    def on_log_start(self, offset: int) -> None:
        for each in [each for each in self.entries if each < offset]:
            del self.entries[each]
        self.start = max(self.start, offset)
        self.settle()

    def on_log_end(self, offset: int) -> None:
        for each in [each for each in self.entries if each >= offset]:
            del self.entries[each]
        self.start = min(self.start, offset)
        self.settle()

    def take_dead_letters(self, most: int) -> list[tuple[int, int, bool]]:
        found = []
        for offset in range(self.start, self.next):
            entry = self.entries[offset]
            if entry.is_dead_letter and len(found) < most:
                entry.is_leaving = True
                found.append((offset, entry.count, entry.is_rejected))
        return found

    def on_dead_letters_done(self) -> None:
        for entry in self.entries.values():
            if entry.is_leaving:
                entry.state, entry.write = RecordState.ARCHIVED, self.writes + 1
                entry.is_leaving = entry.is_rejected = False
        self.settle()


def made_log(rng: random.Random) -> list[LogBatch]:
    """With gaps between batches, and control batches."""
    log, offset = [], 0
    while offset < LOG_END:
        offset += rng.choice((0, 0, 0, 1, 5))
        last = offset + rng.choice((0, 1, 4, 9))
        log.append(LogBatch(offset, last, rng.random() > 0.15))
        offset = last + 1
    return log


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.settings = ShareSettings(
            record_lock_duration_ms=100,
            delivery_count_limit=self.rng.choice((1, 2, 5)),
            partition_max_record_locks=self.rng.choice((5, 20, 1000)),
            dead_letter_topic=self.rng.choice(("", "dlq.t")),
        )
        self.log = made_log(self.rng)
        self.now_ms = 0
        self.subject = SharePartition(Offset(0), (), self.settings)
        self.twin = Twin(0, self.settings)
        self.in_flight = 0
        # The share coordinator's state: offset -> state and count.
        self.stored: dict[int, tuple[RecordState, int]] = {}
        self.stored_start = 0
        self.sent: dict[int, tuple[RecordState, int]] = {}
        self.sent_start = 0
        self.leaving: list[tuple[int, int, bool]] | None = None
        self.dead: set[int] = set()
        """The records in the dead-letter topic."""
        self.lost: set[int] = set()
        """The offsets that the log does not have any more, or with other records."""

    def step(self) -> None:
        rng, subject, twin = self.rng, self.subject, self.twin
        member = rng.choice(MEMBERS)
        match rng.randrange(11):
            case 0 | 1 | 2:
                self.acquire(member)
            case 3 | 4 | 5:
                self.acknowledge(member)
            case 6:
                delivered = rng.random() < 0.5
                subject.release(member, delivered=delivered)
                twin.release(member, delivered=delivered)
            case 7:
                self.now_ms += rng.choice((10, 60, 150))
                subject.on_time(self.now_ms)
                twin.on_time(self.now_ms)
            case 8:
                self.write()
            case 9 if rng.random() < 0.1:
                offset = subject.start_offset + rng.randrange(6)
                self.lost.update(range(offset))
                subject.on_log_start(Offset(offset))
                twin.on_log_start(offset)
            case 9 if rng.random() < 0.1:
                offset = subject.next_offset - rng.randrange(4)
                if offset >= 0:
                    self.lost.update(range(offset, 2 * LOG_END))
                    subject.on_log_end(Offset(offset))
                    twin.on_log_end(offset)
            case 9 if rng.random() < 0.2:
                self.reload()
            case 10:
                self.dead_letters()
        self.compare()

    def acquire(self, member: str) -> None:
        offset = self.subject.fetch_offset()
        assert offset == self.twin.fetch_offset()
        if offset is None:
            return
        batches = [each for each in self.log if each.last_offset >= offset]
        batches = batches[: self.rng.randrange(6)]
        wanted = Wanted(self.rng.choice((1, 3, 500)), 4, self.rng.random() < 0.5)
        got = self.subject.acquire(self.now_ms, member, offset, batches, wanted)
        expected = self.twin.acquire(self.now_ms, member, offset, batches, wanted)
        flat = [
            (each, records.delivery_count)
            for records in got
            for each in range(records.first_offset, records.last_offset + 1)
        ]
        assert flat == expected
        assert all(each.last_offset - each.first_offset < 4 for each in got)

    def acknowledge(self, member: str) -> None:
        rng = self.rng
        offsets = [n for n, entry in self.twin.entries.items() if entry.member == member]
        offsets = sorted(rng.sample(offsets, rng.randint(0, len(offsets))))
        if rng.random() < 0.1:
            offsets = sorted({*offsets, rng.randrange(LOG_END)})
        each = {offset: rng.choice((0, 1, 1, 1, 2, 3, 4)) for offset in offsets}
        batches = [AcknowledgementBatch(n, n, bytes((type_,))) for n, type_ in each.items()]
        if offsets and offsets[-1] - offsets[0] + 1 == len(offsets) and rng.random() < 0.7:
            batches = [AcknowledgementBatch(offsets[0], offsets[-1], bytes(each.values()))]
        passed_over = any(offset < self.twin.start for offset in each)
        taken = self.twin.acknowledge(self.now_ms, member, each)
        if taken:
            number = self.subject.acknowledge(self.now_ms, member, batches, may_renew=True)
            changed = {n for n in each if each[n] != 4 and n in self.twin.entries}
            if passed_over and number <= self.in_flight:
                assert not changed
                sure = self.sent_start if number else self.stored_start
                assert self.twin.start <= sure
            elif number:
                assert number == self.twin.writes + 1
        else:
            with pytest.raises(InvalidRecordState):
                self.subject.acknowledge(self.now_ms, member, batches, may_renew=True)

    def write(self) -> None:
        if self.in_flight:
            before = self.stored
            self.stored = {n: each for n, each in self.stored.items() if n >= self.sent_start}
            self.stored |= self.sent
            self.stored_start = self.sent_start
            # A record that is durable as one that is given up stays so until it is a dead letter.
            for n in self.archiving(before) - self.archiving(self.stored):
                assert n in self.dead | self.lost
            self.subject.on_written(self.in_flight)
            for entry in self.twin.entries.values():
                if entry.write <= self.in_flight:
                    entry.write = 0
            self.twin.settle()
            self.in_flight = 0
        elif self.subject.must_write:
            write = self.subject.take_write()
            self.in_flight = self.twin.writes = write.number
            assert write.start_offset == self.twin.start
            done = [each for each in self.twin.entries.values() if each.state.is_final]
            assert write.delivery_complete_count == len(done)
            self.sent_start = write.start_offset
            self.sent = {
                n: (batch.state, batch.delivery_count)
                for batch in write.batches
                for n in range(batch.first_offset, batch.last_offset + 1)
            }
            assert self.sent == {
                n: (entry.state, entry.count)
                for n, entry in self.twin.entries.items()
                if entry.write == write.number
            }

    @staticmethod
    def archiving(stored: dict[int, tuple[RecordState, int]]) -> set[int]:
        return {n for n, (state, _) in stored.items() if state is RecordState.ARCHIVING}

    def dead_letters(self) -> None:
        """Dead letters on their way arrive, and the partition hears of it or not yet; or some
        leave."""
        if self.leaving is not None:
            self.dead.update(n for n, _, _ in self.leaving)
            if self.rng.random() < 0.3:
                return
            self.subject.on_dead_letters_done()
            self.twin.on_dead_letters_done()
            self.leaving = None
            return
        due = [entry for entry in self.twin.entries.values() if entry.is_dead_letter]
        assert self.subject.may_give_dead_letters == bool(due)
        if due:
            most = self.rng.choice((1, 3, 500))
            self.leaving = self.twin.take_dead_letters(most)
            assert self.leaving == [
                (n, each.delivery_count, each.is_rejected)
                for each in self.subject.take_dead_letters(most)
                for n in range(each.first_offset, each.last_offset + 1)
            ]
            assert not self.subject.may_give_dead_letters

    def reload(self) -> None:
        """Another leader begins with what the coordinator has."""
        stored = {n: each for n, each in self.stored.items() if n >= self.stored_start}
        batches = [StateBatch(n, n, state, count) for n, (state, count) in stored.items()]
        self.rng.shuffle(batches)
        self.subject = SharePartition(Offset(self.stored_start), batches, self.settings)
        self.twin = Twin(self.stored_start, self.settings)
        for n, (state, count) in sorted(stored.items()):
            entry = self.twin.at(n)
            entry.state, entry.count = state, count
            few = count < self.settings.delivery_count_limit
            entry.is_rejected = state is RecordState.ARCHIVING and few
        self.twin.settle()
        self.in_flight = 0
        self.leaving = None

    def compare(self) -> None:
        subject, twin = self.subject, self.twin
        assert (subject.start_offset, subject.next_offset) == (twin.start, twin.next)
        expanded = {
            n: (batch.state, batch.delivery_count)
            for batch in subject.states()
            for n in range(batch.first_offset, batch.last_offset + 1)
        }
        assert expanded == {n: (each.state, each.count) for n, each in twin.entries.items()}
        assert subject.fetch_offset() == twin.fetch_offset()
        archiving = [each.state is RecordState.ARCHIVING for each in twin.entries.values()]
        assert subject.has_dead_letters == any(archiving)
        ends = [each.until_ms for each in twin.entries.values() if each.member]
        if ends:
            assert subject.next_deadline_ms is not None
            assert subject.next_deadline_ms <= min(ends)


@pytest.mark.parametrize("seed", range(25))
def test_a_partition_does_as_its_twin(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()


@pytest.mark.parametrize("seed", range(5))
def test_with_one_who_accepts_everything_is_done_and_nothing_is_left(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    end = world.log[-1].last_offset + 1
    for _ in range(5 * LOG_END):
        world.now_ms += 200
        world.subject.on_time(world.now_ms)
        while world.subject.must_write or world.in_flight:
            if world.in_flight:
                world.subject.on_written(world.in_flight)
                world.in_flight = 0
            else:
                world.in_flight = world.subject.take_write().number
        if world.leaving is not None or world.subject.may_give_dead_letters:
            if world.leaving is None:
                world.subject.take_dead_letters(500)
            world.subject.on_dead_letters_done()
            world.leaving = None
            continue
        offset = world.subject.fetch_offset()
        assert offset is not None
        batches = [each for each in world.log if each.last_offset >= offset]
        got = world.subject.acquire(world.now_ms, "a", offset, batches, Wanted(500, 500))
        acks = [AcknowledgementBatch(each[0], each[1], b"\x01") for each in got]
        world.subject.acknowledge(world.now_ms, "a", acks, may_renew=False)
        if world.subject.start_offset >= end:
            break
    assert world.subject.start_offset == world.subject.next_offset >= end
    assert [*world.subject.states()] == []


def test_ranges_are_as_long_as_the_member_wants() -> None:
    subject = SharePartition(Offset(0), (), ShareSettings(partition_max_record_locks=7))
    got = subject.acquire(0, "a", Offset(0), [LogBatch(0, 9)], Wanted(100, 3))
    assert got == [AcquiredRecords(0, 2, 1), AcquiredRecords(3, 5, 1), AcquiredRecords(6, 6, 1)]
    with pytest.raises(PylogError, match="offset 7 is not acquired by member 'a'"):
        subject.acknowledge(0, "a", [AcknowledgementBatch(5, 7, b"\x01")], may_renew=False)
