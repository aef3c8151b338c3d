"""Acknowledgements on their way: the parcels in which they are sent, and the outcome of each.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pylog import errors
from pylog.client.answers import Answer
from pylog.client.sharing.messages import AckRange, SharedPartition
from pylog.model import AcknowledgeType, TopicPartition

CommitResults = dict[TopicPartition, errors.PylogError | None]
"""By partition: why its acknowledgements do not count, None where they do."""


class AckCommit:
    """The outcome of acknowledgements, partition by partition, for a caller that waits."""

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.answer: Answer[CommitResults] = Answer()
        self._left: dict[SharedPartition, int] = {}
        self._results: CommitResults = {}

    def expects(self, partitions: Iterable[SharedPartition]) -> None:
        """Parcels of these are on their way; of none the commit is done."""
        for partition in partitions:
            self._left[partition] = self._left.get(partition, 0) + 1
        self._look()

    def settled(self, partition: SharedPartition, error: errors.PylogError | None) -> None:
        """One parcel has an outcome."""
        if self.answer.done:
            return
        tp = partition.topic_partition
        self._results[tp] = self._results.get(tp) or error
        self._left[partition] -= 1
        if not self._left[partition]:
            del self._left[partition]
        self._look()

    def expire(self) -> None:
        """Nobody waits any longer."""
        if self.answer.done:
            return
        for partition in self._left:
            self._results[partition.topic_partition] = errors.RequestTimedOut(
                f"{partition.topic_partition}: the broker has not answered in time; whether the "
                "acknowledgements count is not known"
            )
        self.answer.succeed(self._results)

    def _look(self) -> None:
        if not self._left:
            self.answer.succeed(self._results)


@dataclass(slots=True, eq=False)
class AckParcel:
    """Acknowledgements of one partition that were made together, for the share session in which
    the records were acquired.
    """

    partition: SharedPartition
    broker: int
    session: int
    ranges: tuple[AckRange, ...]
    commit: AckCommit | None = None
    deadline_ms: int = 0
    """Until then it is sent again after an error that passes."""
    by_user: bool = True
    """Whether the user has decided; else the consumer itself has."""
    renews: bool = field(init=False)

    def __post_init__(self) -> None:
        self.renews = any(AcknowledgeType.RENEW in each.types for each in self.ranges)
