"""The state of a sink, and of the tasks that write for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pylog.model import NO_TIMESTAMP, Offset, TopicPartition
from pylog_broker.coordinator.transactions.messages import NO_OVERWRITE, NewStart, Overwrite
from pylog_broker.coordinator.transactions.sink_messages import DecidedBatch


class Attempt(NamedTuple):
    """One attempt of a task to write its rows of a batch; or, with a `group`, to commit there how
    far a source has come with it: `digest` is of these positions.
    """

    run_number: int
    batch_id: int
    task: int
    attempt: int
    group: str = ""
    digest: str = ""


class TaskState(NamedTuple):
    """The attempt that has a transactional id, and since when it is in this state. A prepared one
    is aborted `timeout_ms` later.
    """

    attempt: Attempt
    is_prepared: bool = False
    since_ms: int = NO_TIMESTAMP
    timeout_ms: int = 0


@dataclass(slots=True)
class SinkState:
    """The state of one sink, as its records tell it.

    Invariants: a transactional id is in `tasks`, in `free`, or in neither; `attempts` has the
    ids of all `tasks`, and `unheld` some that are in `free`.
    """

    first_number: int = 0
    run_ids: tuple[str, ...] = ()
    ended_ms: int = NO_TIMESTAMP
    """Since when the newest run writes nothing more."""
    decision: DecidedBatch | None = None
    committed: frozenset[int] = frozenset()
    """The numbers of the transactional ids that the decision commits."""
    overwrite: Overwrite = NO_OVERWRITE
    """The partitions that the decision overwrites."""
    tasks: dict[str, TaskState] = field(default_factory=dict)
    attempts: dict[Attempt, str] = field(default_factory=dict)
    free: dict[str, None] = field(default_factory=dict)
    unheld: dict[str, Attempt] = field(default_factory=dict)
    """The attempts that had free ids last, of those with a group: no positions are held there."""
    made: int = 0
    """As many numbers were given to its transactional ids."""

    @property
    def run_number(self) -> int:
        """The number of the current run; -1 before the first."""
        return self.first_number + len(self.run_ids) - 1

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of it."""
        return not (self.run_ids or self.decision or self.tasks or self.free)

    @property
    def has_ended(self) -> bool:
        """Whether the newest run writes nothing more."""
        return self.ended_ms != NO_TIMESTAMP

    @property
    def last_batch(self) -> int:
        """The batch that was decided last; -1 before the first."""
        return -1 if self.decision is None else self.decision.batch_id

    def is_over(self, attempt: Attempt) -> bool:
        """Whether its run has ended, a newer one has begun since, or its batch, or a later one, is
        decided.
        """
        is_of_newest = attempt.run_number == self.run_number and not self.has_ended
        return not is_of_newest or attempt.batch_id <= self.last_batch

    def counts(self, transactional_id: str) -> bool:
        """Whether the decision commits what the attempt with that id has written. Since then the
        id may have been given to another one.
        """
        made, attempt = self.decision, self.tasks[transactional_id].attempt
        return (
            made is not None
            and (made.run_number, made.batch_id) == (attempt.run_number, attempt.batch_id)
            and number_of(transactional_id) in self.committed
        )


def number_of(transactional_id: str) -> int:
    """The number of a transactional id in its sink, from 0; it is behind the last `/`."""
    return int(transactional_id.rpartition("/")[2])


def overwrite_of(made: DecidedBatch | None, committed: Iterable[int]) -> Overwrite:
    """The partitions that the decision overwrites, and where they begin. The member with the lowest
    number of those that are `committed` carries it.
    """
    if made is None or not made.overwritten:
        return NO_OVERWRITE
    starts = {
        TopicPartition(topic, partition): NewStart(topic_id, Offset(offset))
        for topic, topic_id, offsets in made.overwritten
        for partition, offset in enumerate(offsets)
    }
    return Overwrite(min(committed, default=-1), starts)
