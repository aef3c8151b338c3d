"""One partition's order of sequences, as the producer's sender keeps it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pylog.client.sending.producer_batch import Batch, BatchState
from pylog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition

SEQUENCE_MAX: Final = 2**31 - 1
_IN_FLIGHT: Final = BatchState.IN_FLIGHT


def next_sequence(sequence: int, count: int) -> int:
    """The sequence after a batch of `count` records; wraps from 2^31-1 to 0 (KAFKA-5283)."""
    following = sequence + count
    return following if following <= SEQUENCE_MAX else following - SEQUENCE_MAX - 1


class LaneState(Enum):
    """The rules for sending behind unresolved batches. Without idempotence all states but GAP mean
    the same, and GAP does not occur.
    """

    FIRST = "nothing was acknowledged under its producer id: one batch at a time"
    STEADY = "batches follow each other"
    GAP = (
        "a batch that had a sequence is lost or refused: nothing new follows until that is settled"
    )

    following: tuple[LaneState, ...]


NEXT_STATES: Final = {
    LaneState.FIRST: (LaneState.STEADY, LaneState.GAP),
    LaneState.STEADY: (LaneState.GAP, LaneState.FIRST),
    LaneState.GAP: (LaneState.STEADY, LaneState.FIRST),
}
"""The states that may follow each one: the first acknowledgement makes a lane steady. A gap ends
where a later batch was accepted, or with a fresh producer id; a topic that was made anew begins
with one as well.
"""
for _state, _following in NEXT_STATES.items():
    _state.following = _following  # for each batch a look-up by an enum would cost too much
_FIRST: Final = LaneState.FIRST
_STEADY: Final = LaneState.STEADY
_GAP: Final = LaneState.GAP


@dataclass(slots=True)
class Lane:
    """One partition's unresolved batches, in the order of their sequences.

    Invariants: sequences in `unresolved` rise; with a gap nothing is taken from the accumulator.
    """

    topic_partition: TopicPartition
    topic_id: str = ""
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    next_sequence: int = 0
    acked_sequence: int = NO_SEQUENCE  # the last one that a broker acknowledged
    unresolved: deque[Batch] = field(default_factory=deque)
    broker: int = -1  # that one of its batches was last sent to
    retry_at_ms: int = 0
    state: LaneState = LaneState.FIRST

    def become(self, state: LaneState) -> None:
        """Change the state, as far as the table allows it."""
        assert state in self.state.following, (
            f"{self.topic_partition}: a lane that is {self.state.name} cannot become {state.name}"
        )
        self.state = state

    @property
    def gap(self) -> bool:
        """Whether a batch is missing, and what comes of it is open."""
        return self.state is _GAP

    def open_gap(self) -> None:
        """A batch is missing."""
        if not self.gap:
            self.become(LaneState.GAP)

    @property
    def all_in_flight(self) -> bool:
        """Whether nothing in it waits to be sent (again)."""
        for batch in self.unresolved:  # noqa: SIM110  for each batch: a generator costs twice as much
            if batch.state is not _IN_FLIGHT:
                return False
        return True

    @property
    def any_in_flight(self) -> bool:
        """Whether an answer is still to come."""
        return any(batch.state is _IN_FLIGHT for batch in self.unresolved)

    def is_at(self, broker: int) -> bool:
        """Whether all of it was last sent to that broker, whose stream keeps its order."""
        for batch in self.unresolved:  # noqa: SIM110  as above
            if batch.broker != broker:
                return False
        return True

    @property
    def has_begun(self) -> bool:
        """Whether a broker has acknowledged anything under the present producer id. Until then a
        leader that never heard of the producer might take the second of two batches as its first.
        """
        return self.state is _STEADY

    @property
    def may_move(self) -> bool:
        """Whether all that is unresolved can go under a fresh producer id: certainly none of it is
        stored, and nothing that would then stand before it.
        """
        return not any(batch.maybe_stored or batch.overtaken for batch in self.unresolved)

    @property
    def bridged(self) -> bool:
        """Whether a batch after the lost one was accepted, so that the broker has the lost one as
        well.
        """
        acked = self.acked_sequence
        return acked != NO_SEQUENCE and next_sequence(acked, 1) == self.next_sequence

    def sequence(self, batch: Batch) -> None:
        """Give the batch the lane's next sequence."""
        batch.producer_id, batch.producer_epoch = self.producer_id, self.producer_epoch
        batch.base_sequence = self.next_sequence
        self.next_sequence = next_sequence(self.next_sequence, batch.count)

    def acknowledge(self, batch: Batch) -> None:
        """A broker has the batch. Also when it was given up before: then this closes the gap that
        it left. Those before it that are unresolved are overtaken: where they certainly are not
        stored their place is gone, and the leader must not be asked again, which may have lost the
        producer once more.
        """
        if batch.producer_id != self.producer_id or batch.base_sequence == NO_SEQUENCE:
            return
        if batch.producer_epoch != self.producer_epoch:
            return  # of a transaction before
        self.acked_sequence = next_sequence(batch.base_sequence, batch.count - 1)
        if self.state is _FIRST:
            self.become(_STEADY)
        if batch.resolved:
            return
        for earlier in self.unresolved:  # none, but where a leader has lost the producer
            if earlier is batch:
                return
            earlier.overtaken = True
            if not earlier.maybe_stored:
                self.open_gap()
                if earlier.state is BatchState.WAITING:
                    earlier.become(BatchState.REFUSED)

    def take_back(self, batch: Batch) -> bool:
        """Give the sequence of a batch that certainly is not stored to the next one. Only the
        lane's last batch can do so: those behind it have their sequences in their bytes.
        """
        if batch.in_flight or batch.maybe_stored or self.unresolved[-1] is not batch:
            return False
        if batch.producer_id == self.producer_id and not self.gap:
            self.next_sequence = batch.base_sequence
            return True
        return False

    def replace(self, batch: Batch, parts: Sequence[Batch]) -> None:
        """`parts` hold the records of `batch`, and so share its sequences out among them."""
        sequence = batch.base_sequence
        for part in parts:
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            part.base_sequence = sequence
            part.attempts = batch.attempts
            part.leader_epoch = batch.leader_epoch
            part.maybe_stored = batch.maybe_stored
            part.overtaken = batch.overtaken
            if sequence != NO_SEQUENCE:
                sequence = next_sequence(sequence, part.count)
        self.unresolved = deque(
            one for old in self.unresolved for one in (parts if old is batch else (old,))
        )

    def start_over(self, topic_id: str) -> None:
        """The topic is another one: the next batch goes there as the first of a fresh id."""
        self.topic_id = topic_id
        self.producer_id, self.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self._begin()

    def adopt(self, producer_id: int, producer_epoch: int) -> None:
        """Go on under a fresh producer id, with the batches that are left, which may move."""
        assert self.may_move
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._begin()
        for batch in self.unresolved:
            if batch.state is BatchState.REFUSED:
                batch.become(BatchState.WAITING)
            self.sequence(batch)

    def _begin(self) -> None:
        self.next_sequence = 0
        self.acked_sequence = NO_SEQUENCE
        if self.state is not LaneState.FIRST:
            self.become(LaneState.FIRST)
