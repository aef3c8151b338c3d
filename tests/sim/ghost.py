"""What must be true of all replicas together, checked after every step of a broker.

The ghost state is the simulator's own: `committed` is what some leader ever called committed, in
order; a `Shadow` is what a replica's log holds. A batch stands for its records: producers never
send the same bytes twice, so base offset, leader epoch and CRC identify it. Checks are
incremental: a step costs what it changed. The numbers are those of ARCHITECTURE's invariants.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.metadata.records import PartitionRecord
from broker.replication.messages import PartitionState
from pylog.model import BrokerId, TopicId

PartitionKey = tuple[TopicId, int]


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


class Batch(NamedTuple):
    """A record batch in a log."""

    base: int
    last: int
    epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    sequence: int


class SequenceBook:
    """I11: per producer, the sequences of what is committed have no gap and no repeat."""

    def __init__(self) -> None:
        self._next: dict[tuple[int, int], int] = {}

    def add(self, batch: Batch) -> None:
        """Note a committed batch."""
        if batch.producer_id < 0:
            return
        producer = (batch.producer_id, batch.producer_epoch)
        wanted = self._next.get(producer, 0)
        if batch.sequence != wanted:
            raise Violation("I11", f"sequence {batch.sequence} instead of {wanted}: {batch}")
        self._next[producer] = (batch.sequence + batch.last - batch.base + 1) % 2**31


@dataclass(slots=True)
class Shadow:
    """One replica's log, batch by batch from `start` on."""

    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    epochs: tuple[int, int] = (-1, -1)  # of the leader and of the partition, as last seen there
    agreed: int = 0  # number of leading batches that are known to equal `committed`
    intact: bool = True  # False from a power loss until the controller took the new registration

    def agreed_end(self) -> int:
        """The offset up to which the log equals `committed`."""
        return self.batches[self.agreed - 1].last + 1 if self.agreed else self.start


class PartitionGhost:
    """One partition over all its replicas."""

    def __init__(self, key: PartitionKey) -> None:
        self.key = key
        self.committed: list[Batch] = []
        self.committed_end = 0
        self.deleted_to = 0  # log starts may move up to here
        self.shadows: dict[BrokerId, Shadow] = {}
        self.leader_of: dict[int, BrokerId] = {}
        self.newest_epoch = -1
        self.record: PartitionRecord | None = None  # as the controller last published it
        self.members: tuple[BrokerId, ...] = ()  # its ISR and ELR
        self._sequences = SequenceBook()
        self._links: dict[tuple[int, int], tuple[int, int, int]] = {}
        self._bases: list[int] = []

    # ---- logs

    def shadow(self, broker: BrokerId) -> Shadow:
        """What `broker`'s log of this partition holds; empty at first."""
        return self.shadows.setdefault(broker, Shadow())

    def grow(self, broker: BrokerId, batches: list[Batch]) -> None:
        """`broker` appended."""
        shadow = self.shadow(broker)
        for batch in batches:
            if batch.base < shadow.end:
                raise Violation("I3", f"{self._name(broker)}: offsets go back at {batch}")
            self._link(broker, shadow, batch)
            shadow.batches.append(batch)
            shadow.end = batch.last + 1

    def replace(self, broker: BrokerId, start: int, batches: list[Batch], end: int) -> None:
        """`broker`'s log was read anew, after a cut or a restart."""
        shadow = self.shadow(broker)
        same = 0
        if shadow.start == start:
            for old, new in zip(shadow.batches, batches, strict=False):
                if old != new:
                    break
                same += 1
        del shadow.batches[same:]
        shadow.agreed = min(shadow.agreed, same)
        shadow.start = start
        shadow.end = shadow.batches[-1].last + 1 if shadow.batches else start
        self.grow(broker, batches[same:])
        shadow.end = end

    def _link(self, broker: BrokerId, shadow: Shadow, batch: Batch) -> None:
        """I8: equal epoch at equal offset means an equal batch and an equal past."""
        if not shadow.intact:
            return
        place = (batch.base, batch.epoch)
        before = shadow.batches[-1] if shadow.batches else None
        known = self._links.get(place)
        if before is None:
            if known is not None and known[0] != batch.crc:
                raise Violation("I8", f"{self._name(broker)}: two batches {batch} at one place")
            return
        if before.epoch > batch.epoch:
            raise Violation("I8", f"{self._name(broker)}: epoch falls from {before} to {batch}")
        link = (batch.crc, before.base, before.epoch)
        if known is None:
            self._links[place] = link
        elif known != link:
            raise Violation(
                "I8", f"{self._name(broker)}: {batch} after {before}; elsewhere {known}"
            )

    # ---- checks

    def observe(self, broker: BrokerId, state: PartitionState) -> None:
        """Check one replica after a step of its broker, its shadow being up to date."""
        shadow = self.shadow(broker)
        epochs = (state.leader_epoch, state.partition_epoch)
        if state.partition_epoch >= 0 and (
            epochs[0] < shadow.epochs[0] or epochs[1] < shadow.epochs[1]
        ):
            raise Violation("I2", f"{self._name(broker)}: epochs {shadow.epochs}, then {epochs}")
        shadow.epochs = epochs
        start, hw, end = state.log_start_offset, state.high_watermark, state.log_end_offset
        if end != shadow.end:
            raise Violation("I15", f"{self._name(broker)}: log end {end}, batches {shadow.end}")
        if start > self.deleted_to:
            raise Violation(
                "I3", f"{self._name(broker)}: starts at {start}, nobody deleted records"
            )
        if not start <= hw <= end:
            raise Violation("I6", f"{self._name(broker)}: start {start} hw {hw} end {end}")
        if state.leader == broker:
            self._acting_leader(broker, state, shadow)
        shadow.high_watermark = hw
        if self._agreed_end(shadow) < min(hw, end):
            raise Violation(
                "I6",
                f"{self._name(broker)}: below its hw {hw} the log equals what is committed "
                f"(to {self.committed_end}) only up to {self._agreed_end(shadow)}",
            )

    def _acting_leader(self, broker: BrokerId, state: PartitionState, shadow: Shadow) -> None:
        epoch = state.leader_epoch
        if self.leader_of.setdefault(epoch, broker) != broker:
            raise Violation("I1", f"{self._name(broker)} and {self.leader_of[epoch]} lead {epoch}")
        if epoch > self.newest_epoch:
            self.newest_epoch = epoch
        if epoch == self.newest_epoch and self._agreed_end(shadow) < self.committed_end:
            raise Violation(
                "I5",
                f"{self._name(broker)} leads epoch {epoch} and equals what is committed only up "
                f"to {self._agreed_end(shadow)} of {self.committed_end}",
            )
        if state.high_watermark > self.committed_end:
            self._commit(broker, shadow, state.high_watermark)

    def _commit(self, broker: BrokerId, shadow: Shadow, high_watermark: int) -> None:
        """I3: the leader calls everything below `high_watermark` committed."""
        if self._agreed_end(shadow) < self.committed_end:
            raise Violation(
                "I3",
                f"{self._name(broker)} moves its hw to {high_watermark} over other records than "
                f"those committed from {self._agreed_end(shadow)} to {self.committed_end}",
            )
        first = bisect_left(shadow.batches, self.committed_end, key=_base)
        for batch in shadow.batches[first:]:
            if batch.last >= high_watermark:
                break
            self._sequences.add(batch)
            self.committed.append(batch)
            self._bases.append(batch.base)
            self.committed_end = batch.last + 1
        if self.committed_end != high_watermark:
            raise Violation(
                "I3", f"{self._name(broker)}: hw {high_watermark} is not at the end of a batch"
            )
        self.check_members()

    def check_members(self) -> None:
        """I4: every intact member of the controller's ISR and ELR holds all that is committed."""
        for broker in self.members:
            shadow = self.shadow(broker)
            if shadow.intact and self._agreed_end(shadow) < self.committed_end:
                raise Violation(
                    "I4",
                    f"{self._name(broker)} is in {self.members} and equals what is committed only "
                    f"up to {self._agreed_end(shadow)} of {self.committed_end}",
                )

    def _agreed_end(self, shadow: Shadow) -> int:
        """Advance the shadow's pointer over what equals `committed`."""
        batches, committed = shadow.batches, self.committed
        while shadow.agreed < len(batches):
            batch = batches[shadow.agreed]
            index = bisect_left(self._bases, batch.base)
            if index >= len(committed) or committed[index] != batch:
                break
            shadow.agreed += 1
        return shadow.agreed_end()

    def committed_at(self, offset: int) -> Batch | None:
        """The committed batch that begins at `offset`."""
        index = bisect_left(self._bases, offset)
        if index < len(self.committed) and self.committed[index].base == offset:
            return self.committed[index]
        return None

    def check_ok(self, broker: BrokerId, base: int, crc: int) -> None:
        """I10: an acks=all "ok" is for a batch that is committed, at the offset told."""
        batch = self.committed_at(base)
        if batch is None or batch.crc != crc:
            raise Violation(
                "I10",
                f"{self._name(broker)} acknowledges offset {base}; committed there: {batch} "
                f"(end {self.committed_end})",
            )
        if batch.last >= self.shadow(broker).high_watermark:
            raise Violation("I10", f"{self._name(broker)} acknowledges {batch} above its hw")

    def _name(self, broker: BrokerId) -> str:
        return f"broker {broker} partition {self.key[1]}"


def _base(batch: Batch) -> int:
    return batch.base
