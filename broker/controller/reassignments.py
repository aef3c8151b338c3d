"""Moves of partitions to other brokers by command: what is refused and why, and what goes on.

Every partition is checked by itself, and answered by itself. `reassigning.py` knows how one
partition moves; `election.py` ends a move when the last new replica is in sync.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from pylog import errors
from pylog.model import BrokerId
from pylog_broker.controller.effects import Report
from pylog_broker.controller.election import Elections
from pylog_broker.controller.ledger import Ledger
from pylog_broker.controller.reassigning import NobodyIsLeft, retargeted, reverted
from pylog_broker.metadata.admin import (
    AlteredReassignment,
    AlterPartitionReassignments,
    ListPartitionReassignments,
    NewReplicas,
    OngoingReassignment,
    PartitionReassignmentsAltered,
)
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import PartitionRecord

REPLICAS_MAX: Final = 32_767
"""The largest replication factor, as in Apache Kafka."""

NAMES_MAX: Final = 5
"""The most partitions that one line of the log names."""


class _Refused(Exception):
    """A partition cannot move as the request asks; `why` says the reason."""

    def __init__(self, error: type[errors.PylogError], why: str) -> None:
        super().__init__(why)
        self.code = error.code


class Reassignments:
    """Writes the begin of moves, and their cancelling, to the ledger. Owns no state."""

    def __init__(self, ledger: Ledger, elections: Elections) -> None:
        self._ledger = ledger
        self._elections = elections

    def alter(
        self, request: AlterPartitionReassignments
    ) -> tuple[PartitionReassignmentsAltered, list[Report]]:
        """Writes what can be moved; the answer, and what operators should find later."""
        named = Counter((wanted.topic, wanted.partition) for wanted in request.partitions)
        altered: list[AlteredReassignment] = []
        begun: list[str] = []
        cancelled: list[str] = []
        for wanted in request.partitions:
            name = f"{wanted.topic[:249]}-{wanted.partition}"
            failure = None
            try:
                if named[wanted.topic, wanted.partition] > 1:
                    raise _Refused(errors.InvalidRequest, "the request names it twice")
                self._alter(wanted, may_change_factor=request.allow_replication_factor_change)
                (cancelled if wanted.replicas is None else begun).append(name)
            except _Refused as refused:
                failure = Failure(refused.code, f"{name}: {refused}")
            altered.append(AlteredReassignment(wanted.topic, wanted.partition, failure))
        reports = [
            Report(f"{what} by command: {_shown(names)}")
            for what, names in (("replicas move", begun), ("moves are cancelled", cancelled))
            if names
        ]
        return PartitionReassignmentsAltered(tuple(altered)), reports

    def _alter(self, wanted: NewReplicas, *, may_change_factor: bool) -> None:
        image = self._ledger.decided
        topic = image.topics_by_name.get(wanted.topic)
        partition = None if topic is None else topic.partitions.get(wanted.partition)
        if partition is None:
            raise _Refused(errors.UnknownTopicOrPartition, "there is no such partition")
        if wanted.replicas is None:
            if not partition.is_reassigning:
                raise _Refused(errors.NoReassignmentInProgress, "it does not move")
            moved = reverted(partition)
        else:
            self._check(partition, wanted.replicas, may_change_factor=may_change_factor)
            moved = retargeted(partition, wanted.replicas, image.directory_for)
        try:
            self._elections.with_replicas(partition, moved)
        except NobodyIsLeft:
            holding = sorted({*partition.isr, *partition.eligible_leader_replicas})
            raise _Refused(
                errors.InvalidReplicaAssignment,
                f"only the brokers {holding} hold all committed records, and none of them would "
                "stay; let one of them be among the replicas, or wait for the others",
            ) from None

    def _check(
        self, partition: PartitionRecord, target: tuple[BrokerId, ...], *, may_change_factor: bool
    ) -> None:
        image = self._ledger.decided

        def refuse(why: str) -> _Refused:
            return _Refused(errors.InvalidReplicaAssignment, why)

        if not target:
            raise refuse("the list of replicas is empty")
        if len(target) > REPLICAS_MAX:
            raise refuse(f"{len(target)} replicas; the limit is {REPLICAS_MAX}")
        twice = [broker for broker, count in Counter(target).items() if count > 1]
        if twice:
            raise refuse(f"broker {twice[0]} is named more than once")
        for broker in target:
            if broker not in image.brokers:
                raise refuse(f"broker {broker} is not registered")
            if broker not in partition.replicas and not image.is_live(broker):
                state = "fenced" if image.brokers[broker].fenced else "stopping"
                raise refuse(
                    f"broker {broker} is {state}: it could not copy anything now; start it first"
                )
        before, after = len(partition.original_replicas), len(target)
        if before != after and not may_change_factor:
            raise _Refused(
                errors.InvalidReplicationFactor,
                f"it has {before} replicas and would have {after}; allow_replication_factor_change "
                "must be set for that",
            )

    def ongoing(self, question: ListPartitionReassignments) -> tuple[OngoingReassignment, ...]:
        """The moves that go on, as committed, topics in the order of creation."""
        return tuple(
            OngoingReassignment(
                self._ledger.committed.topics_by_id[partition.topic_id].name,
                partition.partition,
                partition.replicas,
                partition.adding_replicas,
                partition.removing_replicas,
            )
            for partition in self._asked(question)
            if partition.is_reassigning
        )

    def _asked(self, question: ListPartitionReassignments) -> Iterator[PartitionRecord]:
        image = self._ledger.committed
        if question.partitions is None:
            yield from image.partitions()
            return
        for name, number in dict.fromkeys(question.partitions):
            topic = image.topics_by_name.get(name)
            partition = None if topic is None else topic.partitions.get(number)
            if partition is not None:
                yield partition


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more
