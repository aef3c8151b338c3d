"""Every file operation of a broker's logs is refused once, by an error that passes.

The life of some logs is played once undisturbed, and then again for each of its operations. A
refused operation is asked for once more. After each step the logs are as they were in the
undisturbed life, and so they are after a kill. `PASSING_ERRORS_EVERY=1` takes all operations with
all codes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from pylog.errors import PylogError
from pylog.model import LeaderEpoch, Offset, TopicId, TopicPartition
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog.records.reader import iter_records
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.errors import PassingStorageError
from pylog_broker.storage.files import OF_THE_MOMENT, is_of_the_moment
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.log.validator import INTERNAL
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.producers.producer_entry import unpack
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, batch_of, read_all
from tests.fakes.managers import log_of, open_manager, write_log_starts
from tests.fakes.memory_files import MemoryFiles
from tests.fakes.short_files import Shortage, refuse_one_of

EVERY: Final = int(os.environ.get("PASSING_ERRORS_EVERY", "17"))
CODES: Final = sorted(OF_THE_MOMENT)

COMPACTED: Final = TopicPartition("c", 0)
COMPACTED_ID: Final = TopicId("c" * 21 + "A")
SHORT_LIVED: Final = TopicPartition("s", 0)
SHORT_LIVED_ID: Final = TopicId("s" * 21 + "A")

PLAIN_CONFIG: Final = TopicConfig(
    segment_bytes=400, index_interval_bytes=0, flush_messages=3, file_delete_delay_ms=0
)
COMPACT_CONFIG: Final = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=300,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=0,
    file_delete_delay_ms=0,
    preallocate=True,
)
BROKER: Final = BrokerConfig(log_tail_cache_max_bytes=0, log_initial_task_delay_ms=0)

Portrait = dict[str, object]


class Life:
    """One life of three logs, step by step, over files of which one operation is refused."""

    def __init__(self, shortage: Shortage) -> None:
        self.shortage = shortage
        self.files = MemoryFiles()
        refuse_one_of(self.files, shortage)
        self.now_ms = 1_000
        self.wall_ms = WALL_MS
        self.mark = 0
        self.sequence = 0
        self.manager: LogManager

    # ---- asking again

    def ask(self, request: Callable[[], Any]) -> Any:
        """The result of a request, asked once more when it was refused for now."""
        try:
            return request()
        except (OSError, PylogError) as error:
            if not (isinstance(error, PassingStorageError) or is_of_the_moment(error)):
                raise
        self.look_for_lies()
        return request()

    def look_for_lies(self) -> None:
        """Every answer while something is unfinished is true, or an error."""
        if not hasattr(self, "manager"):
            return
        with self.shortage.not_now():
            for log in self.manager.logs:
                start, end = log.log_start_offset, log.log_end_offset
                assert start <= end
                assert log.recovery_point <= end
                assert log.last_stable_offset(end) <= end
                latest = log.epochs.latest_entry
                assert latest is None or latest.start_offset <= end

    @property
    def log(self) -> Log:
        return log_of(self.manager)

    # ---- steps

    def steps(self) -> Iterator[str]:
        """Does one step after the other, and names each."""
        yield from self._begin()
        yield from self._write()
        yield from self._cut()
        yield from self._forget()
        yield from self._end()

    def _begin(self) -> Iterator[str]:
        self.open("start")
        yield "start"
        for name, topic_id, config in (
            (TOPIC, TOPIC_ID, PLAIN_CONFIG),
            (COMPACTED, COMPACTED_ID, COMPACT_CONFIG),
            (SHORT_LIVED, SHORT_LIVED_ID, PLAIN_CONFIG),
        ):
            self.ask(lambda: self.manager.create(name, topic_id, config))  # noqa: B023
        yield "create"

    def open(self, boot: str) -> None:
        """A new process on the same files."""
        self.manager = self.ask(lambda: open_manager(self.files, config=BROKER, boot=boot))
        configs = {TOPIC: PLAIN_CONFIG, COMPACTED: COMPACT_CONFIG}
        for log in self.manager.logs:
            log.config = configs.get(log.topic_partition, PLAIN_CONFIG)

    def append(self, *values: bytes, epoch: int = 0) -> None:
        batch = batch_of(*values, timestamps=self.wall_ms, producer=(7, 0, self.sequence))
        self.sequence += len(values)
        epoch_of = LeaderEpoch(epoch)

        def request() -> Any:
            log = self.log
            return log.append_as_leader(batch, leader_epoch=epoch_of, wall_ms=self.wall_ms)

        info = self.ask(request)
        assert not info.duplicate
        with self.shortage.not_now():
            assert request().duplicate

    def put(self, key: bytes, value: bytes) -> None:
        batch = encode_batch([value], keys=[key], timestamps=self.wall_ms)
        log = log_of(self.manager, COMPACTED)
        self.ask(
            lambda: log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=self.wall_ms)
        )

    def _write(self) -> Iterator[str]:
        for number in range(6):
            self.append(b"%d" % number * 90)
            yield f"append {number}"
        transaction = encode_batch(
            [b"undone"], timestamps=self.wall_ms, producer_id=9, producer_epoch=0, base_sequence=0,
            transactional=True,
        )  # fmt: skip
        marker = encode_control_batch(
            ControlType.ABORT, producer_id=9, producer_epoch=0, coordinator_epoch=0,
            timestamp_ms=self.wall_ms,
        )  # fmt: skip
        for batch in (transaction, marker):
            self.ask(
                lambda: self.log.append_as_leader(
                    batch,  # noqa: B023
                    leader_epoch=LeaderEpoch(0),
                    wall_ms=self.wall_ms,
                    origin=INTERNAL,
                )
            )
        yield "abort a transaction"
        self.ask(self.sync)
        yield "sync"
        self.ask(lambda: self.log.flush())
        yield "flush"
        for number in range(9):
            self.put(b"k%d" % (number % 2), b"v%d" % number * 50)
        yield "put"
        self.checkpoint()
        yield "checkpoint"

    def sync(self) -> None:
        task = self.log.sync_task()
        task.run()
        self.log.on_flushed(task)

    def checkpoint(self) -> None:
        """The second one makes up for what the first one could not write."""
        for _ in range(2):
            task = self.manager.checkpoint_task({TOPIC: Offset(self.mark)})
            task.run()
            self.manager.on_checkpointed(task)

    def _cut(self) -> Iterator[str]:
        self.append(b"x" * 90, b"y" * 90, epoch=1)
        self.append(b"z" * 90, epoch=1)
        for to in (9, 7, 5):  # a batch, a batch and a segment, a whole number of segments
            self.ask(lambda: self.log.truncate_to(Offset(to)))  # noqa: B023
            yield f"truncate to {to}"
            self.known_sequence()
            self.append(b"after" * 20, epoch=2)
            yield f"append after the cut at {to}"
        self.ask(lambda: self.log.truncate_fully_and_start_at(Offset(20)))
        self.sequence = 0
        yield "start over"
        follower = batch_of(b"a", b"b", base_offset=19, epoch=3)
        self.ask(lambda: self.log.append_as_follower(follower, wall_ms=self.wall_ms))
        yield "a batch that begins before the start"
        for number in range(5):
            self.append(b"%d" % number * 90, epoch=4)
        self.mark = int(self.log.log_end_offset)
        yield "append again"

    def known_sequence(self) -> None:
        known = self.log.producers.get(7)
        self.sequence = known.batches[-1].last_sequence + 1 if known else 0

    def _forget(self) -> Iterator[str]:
        self.ask(lambda: self.log.advance_log_start(Offset(22)))
        yield "delete records"
        self.wall_ms += PLAIN_CONFIG.retention_ms + 1
        self.append(b"young" * 20, epoch=4)
        self.mark = int(self.log.log_end_offset) - 1
        self.maintain()
        yield "retention"
        self.clean()
        yield "compaction"
        self.maintain()
        yield "upkeep"
        self.ask(lambda: self.manager.delete(SHORT_LIVED))
        yield "delete a log"
        self.ask(lambda: self.manager.create(SHORT_LIVED, SHORT_LIVED_ID, PLAIN_CONFIG))
        yield "make it again"

    def maintain(self) -> None:
        """Do the upkeep; work that could not be done is done the next time."""
        for _ in range(3):
            self.now_ms += 300_000
            marks = {log.topic_partition: log.log_end_offset for log in self.manager.logs}
            self.manager.maintain(self.now_ms, self.wall_ms, marks | {TOPIC: Offset(self.mark)})
            with suppress(PassingStorageError):
                write_log_starts(self.manager)
            for log, task in self.manager.flush_tasks():
                task.run()
                with suppress(PassingStorageError):
                    log.on_flushed(task)
            if (removal := self.manager.removal_task(self.now_ms)) is not None:
                removal.run()

    def clean(self) -> None:
        """Passes until nothing is dirty; one that meets the error is made again."""
        cleaner = self.manager.cleaner
        for _ in range(4):
            marks = {log.topic_partition: log.log_end_offset for log in self.manager.logs}
            task = cleaner.next_task(self.wall_ms, marks)
            if task is not None:
                task.run()
                while cleaner.on_ran(task):
                    task.run()
        assert not cleaner.uncleanable

    def _end(self) -> Iterator[str]:
        self.ask(lambda: list(map(read_all, self.manager.logs)))
        yield "read"
        self.ask(lambda: self.log.offset_for_timestamp(self.wall_ms))
        self.ask(lambda: self.log.max_timestamp())
        self.ask(lambda: self.log.bytes_between(22, self.mark))
        yield "look up"
        self.files.kill()
        self.open("start")
        yield "kill and start"
        self.append(b"last" * 20, epoch=5)
        self.ask(lambda: self.log.roll(self.wall_ms))
        self.append(b"lastest" * 20, epoch=5)
        yield "append after the kill"
        try:
            self.manager.close(clean=True)
        except (OSError, PylogError) as error:
            if not is_of_the_moment(error):
                raise
        self.files.kill()
        self.open("start")
        yield "stop and start"

    # ---- what the logs are

    def portrait(self) -> Portrait:
        """All that a step must have left behind, and that a kill must not change."""
        with self.shortage.not_now():
            assert not self.manager.failed
            found: Portrait = {}
            for log in self.manager.logs:
                assert log.failure is None
                found[str(log.topic_partition)] = _portrait_of(log)
            return found

    def portrait_after_a_kill(self) -> Portrait:
        """The portrait of the logs as another process would find them now."""
        with self.shortage.not_now():
            other = Life(Shortage(-1, 0))
            other.files.names = {
                name: type(file)(bytearray(file.data), file.synced, file.changes)
                for name, file in self.files.names.items()
            }
            other.open("start")
            return other.portrait()


def _portrait_of(log: Log) -> dict[str, object]:
    start, end = log.log_start_offset, log.log_end_offset
    return {
        "start": start,
        "end": end,
        "records": [
            (record.offset, record.key, record.value)
            for record in iter_records(read_all(log), "t", 0, from_offset=start)
        ],
        "epochs": log.epochs.entries,
        "producers": {
            producer: (entry.epoch, entry.batches, entry.transaction_start)
            for producer, entry in (
                (producer, unpack(packed)) for producer, packed in log.producers.entries.items()
            )
        },
        "stable": log.last_stable_offset(end),
        "aborted": log.aborted_transactions(start, end),
        "by time": [log.offset_for_timestamp(WALL_MS), log.max_timestamp()],
    }


def play(life: Life) -> list[tuple[str, Portrait, Portrait]]:
    """Each step with the logs after it, and as a kill would leave them."""
    return [(step, life.portrait(), life.portrait_after_a_kill()) for step in life.steps()]


@pytest.fixture(scope="module")
def undisturbed() -> tuple[int, list[tuple[str, Portrait, Portrait]]]:
    """The number of operations in a life, and its portraits."""
    shortage = Shortage(-1, 0)
    told = play(Life(shortage))
    return shortage.seen, told


def test_the_undisturbed_life_is_what_it_should_be(
    undisturbed: tuple[int, list[tuple[str, Portrait, Portrait]]],
) -> None:
    operations, told = undisturbed
    assert operations > 500
    for step, portrait, after_a_kill in told:
        for name in portrait:
            now: Any = portrait[name]
            then: Any = after_a_kill[name]
            for what in ("start", "end", "records", "stable", "aborted", "by time"):
                assert now[what] == then[what], (step, name, what)
    last: Any = told[-1][1][str(TOPIC)]
    assert [value for _, _, value in last["records"]] == [
        b"young" * 20, b"last" * 20, b"lastest" * 20
    ]  # fmt: skip
    compacted: Any = told[-1][1][str(COMPACTED)]
    assert [offset for offset, _, _ in compacted["records"]][-1] == 8
    assert len(compacted["records"]) < 9


@pytest.mark.parametrize("part", range(8))
def test_no_operation_that_is_refused_once_leaves_a_trace(
    part: int, undisturbed: tuple[int, list[tuple[str, Portrait, Portrait]]]
) -> None:
    operations, told = undisturbed
    codes = CODES if EVERY == 1 else [CODES[part % len(CODES)]]
    for number in range(part * EVERY, operations, 8 * EVERY):
        for code in codes:
            shortage = Shortage(number, code)
            life = Life(shortage)
            for before, (step, portrait, after_a_kill) in zip(life.steps(), told, strict=True):
                where = f"operation {number}, {shortage.refused}, {errno.errorcode[code]}: {step}"
                assert before == step
                assert life.portrait() == portrait, where
                assert life.portrait_after_a_kill() == after_a_kill, where
            assert shortage.refused, number
