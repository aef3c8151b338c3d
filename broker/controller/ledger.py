"""What the controller has decided, what of it is committed, and what waits for the difference.

Two images: `decided` replays a record when it is written, so that the next decision sees it while
the disk is still busy; `committed` follows when the shell says so, and only it is shown to anyone.

Why deciding on uncommitted records is safe. They leave the controller in one order, and a commit
always covers everything before it, so a decision never commits without those it rests on. Nobody
learns of a decision before its commit: every effect other than the append itself is held back
until all that was decided before it is committed, refusals included (a "topic already exists" may
rest on an uncommitted topic). If an append fails, the process ends (see `AppendRecords`) and the
next one starts from what is durable: nothing has to be taken back in memory. Apache Kafka's
QuorumController does the same; its rollback is for a voter that loses leadership but lives on,
which a controller with a quorum here would do by building a new Controller from the log.
"""

from __future__ import annotations

from collections import deque
from itertools import takewhile

from pylog.model import NO_LEADER, Offset
from pylog_broker.controller.effects import AppendRecords, Effect, Publish
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import MetadataBatch
from pylog_broker.metadata.records import MetadataRecord, PartitionRecord


class ElectionCounts:
    """Elections that this start of the controller has committed.

    An election is unclean when nobody of the ISR that goes with it was in the ISR before, or
    eligible (KIP-966): acknowledged records may be lost. The leader itself may be new there: a
    leader that stops in order hands over in the record that takes its successor into the ISR.
    """

    __slots__ = ("elections", "unclean")

    def __init__(self) -> None:
        self.elections = 0
        self.unclean = 0

    def note(self, before: PartitionRecord | None, record: PartitionRecord) -> None:
        """A partition's record is about to be committed after `before` (None: a new partition)."""
        if (
            before is None
            or record.leader == NO_LEADER
            or record.leader_epoch == before.leader_epoch
        ):
            return
        self.elections += 1
        if set(record.isr).isdisjoint((*before.isr, *before.eligible_leader_replicas)):
            self.unclean += 1


class Ledger:
    """Invariants: `committed.offset <= decided.offset`; held effects are in the order in which
    they were decided; the tail ends at `committed.offset` and holds whole appends.
    """

    def __init__(self, image: MetadataImage, *, tail_records_max: int) -> None:
        self.committed = image
        self.decided = MetadataImage.from_records(image.records(), image.offset)
        self._open: list[MetadataRecord] = []  # written since the last append
        self._appended: deque[AppendRecords] = deque()
        self._held: deque[tuple[Offset, Effect]] = deque()
        self._tail: deque[AppendRecords] = deque()
        self._tail_records = 0
        self._tail_records_max = tail_records_max
        self.elections = ElectionCounts()

    @property
    def next_offset(self) -> Offset:
        """Where the next written record will lie."""
        return Offset(self.decided.offset + 1)

    def write(self, record: MetadataRecord) -> None:
        """Decides `record`: it is in `decided` at once, and in the next append."""
        self.decided.replay(record, self.next_offset)
        self._open.append(record)

    def seal(self, effects: list[Effect]) -> list[Effect]:
        """What may leave now: the append of everything written, then those of `effects` that rest
        on nothing uncommitted; the others are held.
        """
        out: list[Effect] = []
        if self._open:
            first = Offset(self.decided.offset - len(self._open) + 1)
            append = AppendRecords(first, tuple(self._open))
            self._open.clear()
            self._appended.append(append)
            out.append(append)
        if self.decided.offset == self.committed.offset:
            assert not self._held
            out.extend(effects)
        else:
            self._held.extend((self.decided.offset, effect) for effect in effects)
        return out

    def commit(self, offset: Offset) -> list[Effect]:
        """What leaves because everything up to `offset` is durable. A repeat changes nothing."""
        assert not self._open
        assert offset <= self.decided.offset, "committed what was never appended"
        out: list[Effect] = []
        while self._appended and self._appended[0].last_offset <= offset:
            append = self._appended.popleft()
            for record in append.records:
                if isinstance(record, PartitionRecord):
                    key = (record.topic_id, record.partition)
                    self.elections.note(self.committed.partition(*key), record)
                self.committed.replay(record, Offset(self.committed.offset + 1))
            assert self.committed.offset == append.last_offset
            self._remember(append)
            out.append(Publish(self._batch(append)))
        while self._held and self._held[0][0] <= self.committed.offset:
            out.append(self._held.popleft()[1])
        return out

    def batches_since(self, from_offset: Offset) -> tuple[MetadataBatch, ...]:
        """Committed records from `from_offset` on (the first batch may begin before it), or one
        snapshot when they are no longer in memory. Nothing new: no batch.
        """
        if from_offset > self.committed.offset:
            return ()
        if self._tail and from_offset >= self._tail[0].first_offset:
            # From the end: who watches lacks the last few of maybe 50,000.
            newer = takewhile(lambda each: each.last_offset >= from_offset, reversed(self._tail))
            return tuple(reversed([self._batch(append) for append in newer]))
        return (
            MetadataBatch(
                self.committed.controller_epoch,
                self.committed.offset,
                self.committed.records(),
                snapshot=True,
                committed_offset=self.committed.offset,
            ),
        )

    def _batch(self, append: AppendRecords) -> MetadataBatch:
        return MetadataBatch(
            self.committed.controller_epoch,
            append.first_offset,
            append.records,
            committed_offset=self.committed.offset,
        )

    def _remember(self, append: AppendRecords) -> None:
        self._tail.append(append)
        self._tail_records += len(append.records)
        while self._tail_records > self._tail_records_max and len(self._tail) > 1:
            self._tail_records -= len(self._tail.popleft().records)
