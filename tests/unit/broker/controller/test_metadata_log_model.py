"""The metadata log against a dumb twin: a list of batches, searched from its beginning."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pylog.model import LeaderEpoch, Offset
from pylog_broker.controller import metadata_batches
from pylog_broker.controller.effects import AppendRecords
from pylog_broker.controller.metadata_log import MetadataLog
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.records import (
    ClusterRecord,
    ConfigRecord,
    ConfigResourceType,
    MetadataRecord,
)
from tests.fakes.memory_files import MemoryFiles

PART_RECORDS = 3


class Batch(NamedTuple):
    """`append`: which one it belongs to, `left`: how many batches of that follow."""

    first: int
    records: tuple[MetadataRecord, ...]
    epoch: int
    append: int
    left: int

    @property
    def end(self) -> int:
        return self.first + len(self.records)


class Logs(RuleBasedStateMachine):
    """One log with its twin through appends, cuts, snapshots, kills and stops."""

    @initialize()
    def begin(self) -> None:
        self.bound = metadata_batches.BATCH_RECORDS_MAX
        metadata_batches.BATCH_RECORDS_MAX = PART_RECORDS  # type: ignore[misc]
        self.files = MemoryFiles()
        self.log = self.opened()
        self.batches: list[Batch] = []
        self.snapshots: list[int] = []
        self.epoch = 1
        self.number = 0
        self.add([ClusterRecord("c")])
        self.log.flush()
        self.log.remember_cluster("c")

    def teardown(self) -> None:
        metadata_batches.BATCH_RECORDS_MAX = self.bound  # type: ignore[misc]

    def opened(self) -> MetadataLog:
        return MetadataLog.open(self.files, "/controller", boot_id="boot")

    # ---- the twin

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    @property
    def start(self) -> int:
        return self.snapshots[-2] if len(self.snapshots) > 1 else 0

    def whole(self) -> list[tuple[int, MetadataRecord]]:
        """The records of the appends of which every batch is there."""
        whole = {batch.append for batch in self.batches if batch.left == 0}
        return [
            pair
            for batch in self.batches
            if batch.append in whole
            for pair in enumerate(batch.records, batch.first)
        ]

    def image(self) -> MetadataImage:
        image = MetadataImage()
        for offset, record in self.whole():
            image.replay(record, Offset(offset))
        return image

    def epochs(self) -> list[tuple[int, int]]:
        """Each epoch and its first offset behind the older snapshot."""
        firsts: dict[int, int] = {}
        for batch in self.batches:
            firsts.setdefault(batch.epoch, batch.first)
        older = [epoch for epoch, first in firsts.items() if first <= self.start]
        known = [(older[-1], self.start)] if older else []
        return known + [pair for pair in firsts.items() if pair[1] > self.start]

    def end_for(self, epoch: int) -> tuple[int, int]:
        known = self.epochs()
        if not known or epoch < 0 or epoch > known[-1][0]:
            return (-1, -1)
        newer = [first for other, first in known if other > epoch]
        floor = max((other for other, _ in known if other <= epoch), default=epoch)
        return (floor, newer[0] if newer else self.end)

    # ---- what happens

    def add(self, records: list[MetadataRecord]) -> None:
        append = AppendRecords(Offset(self.end), tuple(records))
        self.log.append(append, epoch=LeaderEpoch(self.epoch), wall_ms=self.number)
        parts = [
            tuple(records[first : first + PART_RECORDS])
            for first in range(0, len(records), PART_RECORDS)
        ]
        for number, part in enumerate(parts, 1):
            left = len(parts) - number
            self.batches.append(Batch(self.end, part, self.epoch, self.number, left))

    @rule(count=st.integers(1, 8), leaders=st.integers(0, 2))
    def append(self, count: int, leaders: int) -> None:
        self.epoch += leaders
        self.number += count
        names = [f"name-{self.number + n}" for n in range(count)]
        self.add([ConfigRecord(ConfigResourceType.TOPIC, "a", name, "5") for name in names])

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == self.end - 1

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        lowest = self.snapshots[-1] if self.snapshots else 1
        offset = data.draw(st.integers(lowest, self.end + 1))
        self.batches = [batch for batch in self.batches if batch.end <= offset]
        assert self.log.truncate_to(Offset(offset)) == self.end
        self.epoch += 1  # only another leader has somebody truncate

    @rule()
    def snapshot(self) -> None:
        image = self.image()
        if image.offset + 1 > (self.snapshots[-1] if self.snapshots else 0):
            self.log.flush()
            task = self.log.snapshot_task(image)
            task.run()
            self.log.on_snapshot(task)
            self.snapshots.append(image.offset + 1)

    @rule(clean=st.booleans())
    def start_again(self, clean: bool) -> None:
        if clean:
            self.log.close()
        else:
            self.files.kill()
        self.log = self.opened()
        assert self.log.image == self.image()

    @invariant()
    def they_say_the_same(self) -> None:
        assert self.log.end_offset == self.end
        assert self.log.end_for_epoch(LeaderEpoch(-1)) == (-1, -1)
        # A start may know older ones: its log begins with a segment, not with a snapshot's end.
        for epoch in range(self.epochs()[0][0], self.epoch + 2):
            assert self.log.end_for_epoch(LeaderEpoch(epoch)) == self.end_for(epoch), epoch
        known = [
            (offset, record)
            for read in self.log.slices(Offset(self.start))
            for append in read.appends
            for offset, record in enumerate(append.records, append.first_offset)
        ]
        assert known == [pair for pair in self.whole() if pair[0] >= self.start]


TestLogs = Logs.TestCase
TestLogs.settings = settings(max_examples=40, stateful_step_count=30)
