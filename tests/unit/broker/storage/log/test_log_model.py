"""A log against plain Python, through everything that can happen to it (hypothesis, stateful).

The disk is the simulator's: a kill keeps what was written, a loss of power keeps of what was not
synced a random part of the pages, one of them torn, and a first part of the changed names. A sample
runs with the unit tests; `make storage-model` runs 10,000 sequences (STORAGE_MODEL_EXAMPLES).
"""

from __future__ import annotations

import os
import random
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from pylog.model import LeaderEpoch, Offset, TopicPartition
from pylog.records.batch import iter_headers
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.log.environment import Environment
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.recovery.recovery import LastStop
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, read_all
from tests.sim.disk import DATA_ROOT, Disk
from tests.sim.files import SimFiles

EXAMPLES = int(os.environ.get("STORAGE_MODEL_EXAMPLES", "25"))
DIRECTORY = f"{DATA_ROOT}/t-0"
RETENTION_MS = 2_000

Entry = tuple[int, bytes, bytes | None]  # timestamp, key, value

entries = st.lists(
    st.tuples(
        st.integers(-1500, 1500),
        st.sampled_from([b"a", b"b", b"c", b"d"]),
        st.one_of(st.none(), st.sampled_from([b"v", b"w" * 40, b"x" * 300])),
    ),
    min_size=1,
    max_size=6,
)


class LogModel(RuleBasedStateMachine):
    """`written` holds every record that was not cut; below `exact_from` compaction may have taken
    those that a later one of their key replaces.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: Log | None = None

    @initialize(
        seed=st.integers(0, 2**32),
        compacted=st.booleans(),
        segment_bytes=st.sampled_from([400, 1500, 100_000]),
        interval=st.sampled_from([0, 150, 4096]),
        tail=st.sampled_from([0, 500, 100_000]),
        ahead=st.booleans(),
    )
    def begin(
        self,
        seed: int,
        compacted: bool,
        segment_bytes: int,
        interval: int,
        tail: int,
        ahead: bool,
    ) -> None:
        self.rng = random.Random(seed)
        self.disk = Disk()
        self.files = SimFiles(self.disk, rng=self.rng)
        self.config = TopicConfig(
            cleanup_policy=("compact", "delete") if compacted else ("delete",),
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            retention_ms=RETENTION_MS,
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=500,
            preallocate=ahead,
        )
        self.tail = tail
        self.written: dict[int, Entry] = {}
        self.bases: list[int] = []
        self.exact_from = 0
        self.start = self.end = self.mark = 0
        self.epoch = 0
        self.sequence = 0
        self.wall_ms = WALL_MS
        self.checkpointed = 0
        self.stored_start = 0
        self._open(LastStop())

    def _open(self, last_stop: LastStop) -> None:
        def lowered(offset: int) -> None:
            self.checkpointed = min(self.checkpointed, offset)

        def moved(offset: int) -> None:
            self.stored_start = offset

        def truncated(topic_partition: TopicPartition, offset: int) -> None:
            self.cleaner.truncated(topic_partition, offset)

        self.log = Log.open(
            self.files,
            DIRECTORY,
            TOPIC,
            TOPIC_ID,
            self.config,
            wall_ms=self.wall_ms,
            last_stop=last_stop,
            log_start_offset=self.stored_start,
            environment=Environment(
                TailBudget(self.tail),
                self.tail,
                recovery_point_lowered=lowered,
                log_start_moved=moved,
                truncated=truncated,
            ),
        )
        self.cleaner = LogCleaner(
            self.files,
            DATA_ROOT,
            {TOPIC: self.log},
            BrokerConfig(),
            random_bytes=self.rng.randbytes,
            save_recovery_points=self._save_recovery_point,
            remove_later=lambda log, paths: None,
        )
        self.cleaner.loaded()

    def _save_recovery_point(self) -> None:
        assert self.log is not None
        self.checkpointed = self.log.recovery_point

    # ---- writing --------------------------------------------------------------------------------

    def _batch(self, records: list[Entry], sequence: int = -1, base: int = 0) -> bytes:
        return encode_batch(
            [value for _, _, value in records],
            keys=[key for _, key, _ in records],
            timestamps=[timestamp for timestamp, _, _ in records],
            producer_id=7 if sequence >= 0 else -1,
            producer_epoch=0 if sequence >= 0 else -1,
            base_sequence=sequence,
            base_offset=base,
            leader_epoch=self.epoch,
        )

    def _note(self, records: list[Entry]) -> None:
        self.bases.append(self.end)
        for record in records:
            self.written[self.end] = record
            self.end += 1

    @rule(records=entries, new_epoch=st.booleans(), pause=st.integers(0, 400))
    def append(self, records: list[Entry], new_epoch: bool, pause: int) -> None:
        self.wall_ms += pause
        self.epoch += new_epoch and self.rng.random() < 0.2
        found = [(self.wall_ms + delta, key, value) for delta, key, value in records]
        info = self.log.append_as_leader(  # type: ignore[union-attr]
            self._batch(found), leader_epoch=LeaderEpoch(self.epoch), wall_ms=self.wall_ms
        )
        assert (info.base_offset, info.last_offset) == (self.end, self.end + len(found) - 1)
        self._note(found)

    @rule(records=entries)
    def append_idempotent(self, records: list[Entry]) -> None:
        log = self.log
        assert log is not None
        found = [(self.wall_ms + delta, key, value) for delta, key, value in records]
        known = log.producers.get(7)
        sequence = known.batches[-1].last_sequence + 1 if known else 0
        if known is None and log.log_start_offset == 0 and self.sequence:
            sequence = 0  # its batches were cut
        batch = self._batch(found, sequence)
        epoch = LeaderEpoch(self.epoch)
        info = log.append_as_leader(batch, leader_epoch=epoch, wall_ms=self.wall_ms)
        again = log.append_as_leader(batch, leader_epoch=epoch, wall_ms=self.wall_ms)
        assert again.duplicate
        assert (again.base_offset, info.base_offset) == (self.end, self.end)
        self.sequence = sequence + len(found)
        self._note(found)

    @rule(batches=st.lists(entries, min_size=1, max_size=4))
    def append_as_follower(self, batches: list[list[Entry]]) -> None:
        parts = []
        for records in batches:
            found = [(self.wall_ms + delta, key, value) for delta, key, value in records]
            parts.append(self._batch(found, base=self.end))
            self._note(found)
        self.log.append_as_follower(  # type: ignore[union-attr]
            b"".join(parts), wall_ms=self.wall_ms
        )

    # ---- what the broker does from time to time -------------------------------------------------

    @rule()
    def roll(self) -> None:
        self.log.roll(self.wall_ms)  # type: ignore[union-attr]

    @rule()
    def flush(self) -> None:
        self.log.flush()  # type: ignore[union-attr]
        self.checkpointed = self.log.recovery_point  # type: ignore[union-attr]

    @rule()
    def flush_full_segments(self) -> None:
        task = self.log.flush_task()  # type: ignore[union-attr]
        if task is not None:
            task.run()
            self.log.on_flushed(task)  # type: ignore[union-attr]
            self.checkpointed = self.log.recovery_point  # type: ignore[union-attr]

    @rule(part=st.floats(0, 1))
    def commit(self, part: float) -> None:
        """The high watermark moves."""
        self.mark += int((self.end - self.mark) * part)

    @rule(pause=st.integers(0, 1500))
    def retain(self, pause: int) -> None:
        log = self.log
        assert log is not None
        self.wall_ms += pause
        log.retain(high_watermark=self.mark, wall_ms=self.wall_ms, trusted_ms=self.wall_ms)
        assert self.start <= log.log_start_offset <= max(self.mark, self.start)
        gone = [self.written[offset] for offset in self._left(self.start, log.log_start_offset)]
        if not self.config.compacted:  # else younger ones may have been replaced before
            assert all(timestamp < self.wall_ms - RETENTION_MS for timestamp, _, _ in gone)
        self.start = int(log.log_start_offset)
        self.stored_start = self.start
        log.delete_old_segments()

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        target = self.start + int((max(self.mark, self.start) - self.start) * part)
        self.log.advance_log_start(Offset(target))  # type: ignore[union-attr]
        self.start = max(self.start, target)

    @precondition(lambda self: self.log is not None and self.config.compacted)
    @rule(pause=st.integers(0, 600))
    def compact(self, pause: int) -> None:
        self.wall_ms += pause
        task = self.cleaner.next_task(self.wall_ms, {TOPIC: Offset(self.mark)})
        if task is None:
            return
        task.run()
        while self.cleaner.on_ran(task):
            task.run()
        assert task.error is None
        self.exact_from = max(self.exact_from, task.clean_to)

    # ---- looking --------------------------------------------------------------------------------

    def _left(self, start: int, end: int) -> list[int]:
        return [offset for offset in sorted(self.written) if start <= offset < end]

    def _found(self) -> dict[int, Entry]:
        log = self.log
        assert log is not None
        records = iter_records(
            read_all(log, max_bytes=self.rng.randrange(1, 4000)), "t", 0, from_offset=self.start
        )
        return {r.offset: (r.timestamp_ms, r.key or b"", r.value) for r in records}

    @rule(part=st.floats(0, 1), limit=st.integers(1, 900))
    def read(self, part: float, limit: int) -> None:
        log = self.log
        assert log is not None
        offset = self.start + int((self.end - self.start) * part)
        upper = self.rng.randint(offset, self.end)
        found = log.read(offset, limit, upper_bound=upper)
        headers = [header for _, header in iter_headers(found.records)]
        assert all(header.last_offset < upper for header in headers)
        assert not headers or headers[0].last_offset >= offset
        if not self.config.compacted and headers:
            bases = [base for base in self.bases if base >= headers[0].base_offset]
            assert [h.base_offset for h in headers] == bases[: len(headers)]

    @rule(delta=st.integers(-3000, 3000))
    def look_up_a_time(self, delta: int) -> None:
        log = self.log
        assert log is not None
        wanted = self.wall_ms + delta
        left = sorted(self._found().items())
        expected = next(((o, t) for o, (t, _, _) in left if t >= wanted), None)
        answer = log.offset_for_timestamp(wanted)
        assert (answer and (answer.offset, answer.timestamp_ms)) == expected
        newest = max((t for _, (t, _, _) in left), default=None)
        answer = log.max_timestamp()
        first = next((o for o, (t, _, _) in left if t == newest), None)
        assert (answer and answer.offset) == first

    # ---- cuts and ends --------------------------------------------------------------------------

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        low = max(self.mark, self.start)
        target = low + int((self.end - low) * part)
        end = int(self.log.truncate_to(Offset(target)))  # type: ignore[union-attr]
        holder = max((base for base in self.bases if base < target), default=0)
        whole = target in self.bases or target == self.end
        assert end == (target if whole else max(holder, self.start))
        self._cut(end)

    def _cut(self, end: int) -> None:
        self.written = {o: entry for o, entry in self.written.items() if o < end}
        self.bases = [base for base in self.bases if base < end]
        self.end = end
        self.mark = min(self.mark, end)
        self.exact_from = min(self.exact_from, end)

    @rule(gap=st.integers(0, 30))
    def start_elsewhere(self, gap: int) -> None:
        target = self.end + gap
        self.log.truncate_fully_and_start_at(Offset(target))  # type: ignore[union-attr]
        self._cut(0)
        self.start = self.end = self.mark = self.exact_from = target

    @rule()
    def stop(self) -> None:
        log = self.log
        assert log is not None
        log.close(clean=True)
        facts = {segment.base_offset: segment.facts for segment in log.segments}
        self._new_process()
        self._open(LastStop.clean(facts))
        assert self.log.recovery.batches == 0  # type: ignore[union-attr]
        self.checkpointed = self.end

    @rule()
    def kill(self) -> None:
        self._new_process()
        self._open(LastStop(self.checkpointed, self.checkpointed))
        assert self.log.log_end_offset == self.end  # type: ignore[union-attr]

    @rule()
    def lose_power(self) -> None:
        synced = self.log.recovery_point  # type: ignore[union-attr]
        self._new_process()
        self.disk.lose_power(self.rng)
        self._open(LastStop(self.checkpointed, self.checkpointed, memory_survived=False))
        log = self.log
        assert log is not None
        end = int(log.log_end_offset)
        assert min(synced, self.end) <= end <= max(self.end, self.start), "a prefix"
        assert not log.recovery.lost_durable
        self._cut(end)
        self.start = int(log.log_start_offset)
        self.end = end
        self.mark = max(self.start, self.mark)
        self.checkpointed = int(log.recovery_point)

    def _new_process(self) -> None:
        self.files.die()
        self.files = SimFiles(self.disk, rng=self.rng)

    # ---- what always holds ----------------------------------------------------------------------

    @invariant()
    def holds_what_it_should(self) -> None:
        log = self.log
        if log is None:
            return
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.recovery_point <= log.log_end_offset
        assert log.failure is None
        found = self._found()
        expected = {o: self.written[o] for o in self._left(self.start, self.end)}
        for offset, entry in found.items():
            assert expected[offset] == entry
        newest = {key: offset for offset, (_, key, _) in expected.items()}
        for offset, (_, key, value) in expected.items():
            replaced = newest[key] > offset or value is None
            if offset >= self.exact_from or not replaced:
                assert offset in found, (offset, self.exact_from)

    def teardown(self) -> None:
        if self.log is not None:
            self.files.die()


TestLogModel: Any = LogModel.TestCase
TestLogModel.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    phases=[Phase.generate],  # a sequence of random bytes shrinks for ever
    derandomize=EXAMPLES <= 25,
    database=None,
    suppress_health_check=list(HealthCheck),
)
