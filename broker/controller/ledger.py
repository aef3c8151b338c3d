"""The controller's replicated state: the cluster's metadata, and its newest batches for brokers.

`replicated.state_machine` says why decisions may run ahead of commits, and what is held back. Here
is what the controller adds to that: a commit is published, the last batches stay in memory for
brokers that lack little, and committed elections are counted.

If an append fails, the process ends (see `AppendRecords`) and the next one starts from what is
durable: nothing has to be taken back in memory. A controller of a quorum that loses its lead would
resign, and be built anew from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from itertools import takewhile
from typing import Final, NamedTuple

from pylog.model import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch, Offset
from pylog_broker.controller.effects import Effect, MetadataAppend, MetadataMachine, Publish
from pylog_broker.metadata.messages import MetadataBatch
from pylog_broker.metadata.records import MetadataRecord, PartitionRecord


class ElectionCounts:
    """Elections that this start of the controller has committed.

    An election is unclean when the new leader was neither in the ISR before nor eligible (KIP-966):
    acknowledged records may be lost. Except that it may join the ISR in the same record: a leader
    that stops in order hands over as soon as it finds a successor in sync.
    """

    __slots__ = ("_decided", "elections", "unclean")

    def __init__(self) -> None:
        self.elections = 0
        self.unclean = 0
        self._decided: deque[tuple[Offset, bool]] = deque()  # and whether it is unclean

    def decided(
        self,
        offset: Offset,
        before: PartitionRecord | None,
        record: PartitionRecord,
        in_sync: Collection[BrokerId],
    ) -> None:
        """A partition's record is decided after `before` (None: a new partition). `in_sync`: as
        `Ledger.write` says.
        """
        if (
            before is None
            or record.leader == NO_LEADER
            or record.leader_epoch == before.leader_epoch
        ):
            return
        known = (*before.isr, *before.eligible_leader_replicas, *in_sync)
        self._decided.append((offset, record.leader not in known))

    def committed(self, offset: Offset) -> None:
        """Everything up to `offset` is committed."""
        while self._decided and self._decided[0][0] <= offset:
            self.elections += 1
            self.unclean += self._decided.popleft()[1]


class _Committed(NamedTuple):
    append: MetadataAppend
    previous_offset: Offset
    """The offset of the record before the append's first one."""


class Ledger:
    """Invariant: the tail ends at `committed.offset` and holds whole appends."""

    def __init__(
        self,
        machine: MetadataMachine,
        *,
        epoch: ControllerEpoch,
        tail_records_max: int,
        next_offset: Offset | None = None,
    ) -> None:
        """`machine` has loaded what was written before, all of it committed, and leads from now on
        under `epoch`. `next_offset` is where the log ends, which may hold what is no metadata
        behind what was loaded; None: right there.
        """
        self._machine = machine
        self.committed: Final = machine.committed
        self.decided: Final = machine.decided
        self.epoch: Final = epoch
        if next_offset is None:
            next_offset = machine.next_offset
        machine.lead(LeaderEpoch(epoch), next_offset)
        self._tail: deque[_Committed] = deque()
        self._tail_records = 0
        self._tail_records_max = tail_records_max
        self.elections = ElectionCounts()

    @property
    def next_offset(self) -> Offset:
        """The offset of the next record to be written."""
        return self._machine.next_offset

    def write(self, record: MetadataRecord, *, in_sync: Collection[BrokerId] = ()) -> None:
        """Decides `record`: it is in `decided` at once, and in the next append. `in_sync`: for a
        partition, replicas that its leader finds in sync, beside those that are known to be.
        """
        if isinstance(record, PartitionRecord):
            before = self.decided.partition(record.topic_id, record.partition)
            self.elections.decided(self.next_offset, before, record, in_sync)
        self._machine.write(record)

    def seal(self, effects: list[Effect]) -> list[Effect]:
        """The effects that may leave now: the append of everything written, then those of
        `effects` that rest on nothing uncommitted; the others are held.
        """
        return self._machine.seal(effects)

    def commit(self, offset: Offset) -> list[Effect]:
        """The effects that leave now that everything up to `offset` is durable; none twice."""
        published: list[Effect] = []
        released: list[Effect] = []
        for append in self._machine.uncommitted(offset):
            committed = _Committed(append, self.committed.offset)
            released += self._machine.commit(append.last_offset)
            self.elections.committed(append.last_offset)
            self._remember(committed)
            published.append(Publish(self._batch(committed)))
        return [*published, *released, *self._machine.commit(offset)]

    def batches_since(self, from_offset: Offset) -> tuple[MetadataBatch, ...]:
        """Committed records from `from_offset` on (the first batch may begin before it), or one
        snapshot when they are no longer in memory. Nothing new: no batch.
        """
        if from_offset > self.committed.offset:
            return ()
        if self._tail and from_offset > self._tail[0].previous_offset:
            # From the end: a broker lacks the last few of maybe 50,000.
            newer = takewhile(
                lambda each: each.append.last_offset >= from_offset, reversed(self._tail)
            )
            return tuple(reversed([self._batch(committed) for committed in newer]))
        return (
            MetadataBatch(
                self.committed.controller_epoch,
                self.committed.offset,
                self.committed.records(),
                snapshot=True,
                committed_offset=self.committed.offset,
            ),
        )

    def _batch(self, committed: _Committed) -> MetadataBatch:
        append, previous = committed
        return MetadataBatch(
            self.committed.controller_epoch,
            append.first_offset,
            append.records,
            committed_offset=self.committed.offset,
            previous_offset=None if previous == append.first_offset - 1 else previous,
        )

    def _remember(self, committed: _Committed) -> None:
        self._tail.append(committed)
        self._tail_records += len(committed.append.records)
        while self._tail_records > self._tail_records_max and len(self._tail) > 1:
            self._tail_records -= len(self._tail.popleft().append.records)
