"""One partition's order of sequences, as the producer's sender keeps it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pylog.client.sending.producer_batch import Batch
from pylog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition

SEQUENCE_MAX: Final = 2**31 - 1


def next_sequence(sequence: int, count: int) -> int:
    """The sequence after a batch of `count` records; wraps from 2^31-1 to 0 (KAFKA-5283)."""
    following = sequence + count
    return following if following <= SEQUENCE_MAX else following - SEQUENCE_MAX - 1


@dataclass(slots=True)
class Lane:
    """One partition's unresolved batches, in the order of their sequences.

    Invariants: sequences in `unresolved` rise; with a `gap` nothing is taken from the accumulator.
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
    gap: bool = False

    @property
    def all_in_flight(self) -> bool:
        """Whether nothing in it waits to be sent (again)."""
        return all(batch.in_flight for batch in self.unresolved)

    @property
    def any_in_flight(self) -> bool:
        """Whether an answer is still to come."""
        return any(batch.in_flight for batch in self.unresolved)

    def is_at(self, broker: int) -> bool:
        """Whether all of it was last sent to that broker, whose stream keeps its order."""
        return all(batch.broker == broker for batch in self.unresolved)

    @property
    def has_begun(self) -> bool:
        """Whether a broker has acknowledged anything under the present producer id. Until then a
        leader that never heard of the producer might take the second of two batches as its first.
        """
        return self.acked_sequence != NO_SEQUENCE

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
        self.acked_sequence = next_sequence(batch.base_sequence, batch.count - 1)
        if batch.resolved:
            return
        for earlier in self.unresolved:  # none, but where a leader has lost the producer
            if earlier is batch:
                return
            earlier.overtaken = True
            if not earlier.maybe_stored:
                earlier.refused = self.gap = True

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
        self.next_sequence = 0
        self.acked_sequence = NO_SEQUENCE

    def adopt(self, producer_id: int, producer_epoch: int) -> None:
        """Go on under a fresh producer id, with the batches that are left, which may move."""
        assert self.may_move
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.next_sequence = 0
        self.acked_sequence = NO_SEQUENCE
        for batch in self.unresolved:
            batch.refused = False
            self.sequence(batch)
