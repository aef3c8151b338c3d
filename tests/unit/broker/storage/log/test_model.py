"""A log against a plain list, through random appends, rolls, cuts, kills and losses of power."""

from __future__ import annotations

import random

import pytest

from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import iter_headers
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.log import Environment, Log
from pylog_broker.storage.recovery.recovery import LastStop
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import WALL_MS, batch_of, open_log, read_all
from tests.fakes.memory_files import MemoryFiles


class Model:
    """The log as a list of (base offset, end offset, epoch, value)."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.files = MemoryFiles()
        self.config = TopicConfig(
            segment_bytes=self.rng.choice([400, 2000, 100_000]),
            index_interval_bytes=self.rng.choice([0, 150, 4096]),
        )
        self.batches: list[tuple[int, int, int]] = []
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.checkpointed = 0
        self.stored_start = 0
        self.log = self._open(LastStop())

    def _open(self, last_stop: LastStop) -> Log:
        tail = self.rng.choice([0, 500, 100_000])

        def lowered(offset: int) -> None:
            self.checkpointed = min(self.checkpointed, offset)

        def moved(offset: int) -> None:
            self.stored_start = offset

        return open_log(
            self.files,
            config=self.config,
            last_stop=last_stop,
            log_start_offset=self.stored_start,
            environment=Environment(
                TailBudget(tail), tail, recovery_point_lowered=lowered, log_start_moved=moved
            ),
        )

    def step(self) -> None:
        moves = [
            (self.append, 30),
            (self.append_as_follower, 5),
            (self.read, 15),
            (self.truncate, 4),
            (self.restart_elsewhere, 1),
            (self.advance_start, 2),
            (self.roll, 2),
            (self.flush, 4),
            (self.kill, 3),
            (self.lose_power, 2),
            (self.stop, 1),
        ]
        names, weights = zip(*moves, strict=True)
        self.rng.choices(names, weights)[0]()
        self.check()

    def append(self) -> None:
        count = self.rng.randrange(1, 5)
        self.epoch += self.rng.random() < 0.1
        batch = batch_of(*[b"v" * self.rng.randrange(60)] * count)
        info = self.log.append_as_leader(
            batch, leader_epoch=LeaderEpoch(self.epoch), wall_ms=WALL_MS
        )
        assert (info.base_offset, info.last_offset) == (self.end, self.end + count - 1)
        self._appended(count)

    def append_as_follower(self) -> None:
        parts, end = [], self.end
        for _ in range(self.rng.randrange(1, 6)):
            count = self.rng.randrange(1, 4)
            parts.append(batch_of(*[b"f" * 30] * count, base_offset=end, epoch=self.epoch))
            end += count
            self._appended(count)
        self.log.append_as_follower(b"".join(parts))

    def _appended(self, count: int) -> None:
        self.batches.append((self.end, self.end + count, self.epoch))
        self.end += count

    def read(self) -> None:
        offset = self.rng.randrange(self.start, self.end + 1)
        upper = self.rng.randrange(self.start, self.end + 1)
        found = self.log.read(offset, self.rng.randrange(1, 500), upper_bound=upper)
        bases = [header.base_offset for _, header in iter_headers(found.records)]
        wanted = [base for base, end, _ in self.batches if end > offset and end <= upper]
        assert bases == wanted[: len(bases)]
        assert bool(bases) == bool(wanted and offset < upper)

    def truncate(self) -> None:
        target = self.rng.randrange(self.start, self.end + 1)
        end = self.log.truncate_to(Offset(target))
        kept = [batch for batch in self.batches if batch[1] <= target]
        self.end = min(target, self.end)
        if len(kept) < len(self.batches) and self.batches[len(kept)][0] < target:
            self.end = max(self.batches[len(kept)][0], self.start)
        self.batches = kept
        assert end == self.end

    def restart_elsewhere(self) -> None:
        self.end = self.start = self.end + self.rng.randrange(50)
        self.batches.clear()
        self.log.truncate_fully_and_start_at(Offset(self.end))

    def advance_start(self) -> None:
        target = self.rng.randrange(self.start, self.end + 1)
        self.log.advance_log_start(Offset(target))
        self.start = target
        self.log.delete_old_segments()
        first = self.log.segments[0].base_offset
        self.batches = [batch for batch in self.batches if batch[0] >= first]

    def roll(self) -> None:
        self.log.roll(WALL_MS)

    def flush(self) -> None:
        self.log.flush()
        self.checkpointed = self.log.recovery_point

    def kill(self) -> None:
        self.files.kill()
        self.log = self._open(LastStop(self.checkpointed, self.checkpointed))
        assert self.log.log_end_offset == self.end

    def stop(self) -> None:
        self.log.close(clean=True)
        assert not self.files.handles
        self.log = self._open(LastStop.clean())
        assert self.log.recovery.indexes_rebuilt == 0
        assert self.log.recovery_point == self.end

    def lose_power(self) -> None:
        synced = self.log.recovery_point
        # only what was not synced can come back as something else
        torn = {name for name, file in self.files.names.items() if file.data != file.synced}
        self.files.lose_power()
        for name, file in self.files.names.items():
            if name.endswith(".log") and name in torn and self.rng.random() < 0.3:
                file.data += self.rng.choice([bytes(100), self.rng.randbytes(100)])
        self.log = self._open(LastStop(self.checkpointed, self.checkpointed, False))
        end = self.log.log_end_offset
        assert synced <= end <= max(self.end, self.start), "a prefix, at least what was synced"
        assert not self.log.recovery.lost_durable
        self.end = end
        self.batches = [batch for batch in self.batches if batch[1] <= end]
        self.start = self.log.log_start_offset

    def check(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.recovery_point <= log.log_end_offset
        found = [
            (header.base_offset, header.last_offset + 1, header.partition_leader_epoch)
            for _, header in iter_headers(read_all(log, max_bytes=self.rng.randrange(1, 3000)))
        ]
        assert found == [batch for batch in self.batches if batch[1] > self.start]
        expected: dict[int, int] = {}
        for base, _, epoch in self.batches:
            expected.setdefault(epoch, base)
        for epoch, base in expected.items():
            if base >= self.start:
                assert log.epochs.epoch_at(Offset(base)) == epoch


@pytest.mark.parametrize("seed", range(40))
def test_a_log_is_a_list(seed: int) -> None:
    model = Model(seed)
    for _ in range(80):
        model.step()
