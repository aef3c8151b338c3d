"""The admin client's calls about transactions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

from pylog import errors
from pylog.client.admin import transaction_admin, transaction_wire
from pylog.client.admin.transaction_types import (
    FencedProducer,
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from pylog.client.arguments import several
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.metadata import ClusterSnapshot
from pylog.client.cluster.offsets import raise_faults
from pylog.client.topics_and_partitions import check_topic, one_partition, some_partitions
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition

T = TypeVar("T")

HANGING_AFTER_MS: Final = 900_000
"""A transaction that is open for longer than any may be (the default of the brokers'
transaction.max.timeout.ms) is suspect.
"""


class TransactionUse(ABC):
    """A part of `AdminClient`, whose means of asking it uses."""

    _cluster: Cluster

    @abstractmethod
    def _milliseconds(self, timeout: float | None) -> int: ...

    @abstractmethod
    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    @abstractmethod
    def _snapshot(
        self, topics: Iterable[str], *, all_topics: bool, timeout_ms: int
    ) -> ClusterSnapshot: ...

    def list_transactions(
        self,
        states: str | Iterable[str] | None = None,
        *,
        producer_ids: int | Iterable[int] | None = None,
        older_than_ms: int | None = None,
        pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """All transactional ids in their order; only those in these states ("Ongoing", ...), of
        these producers, with a transaction that is open for longer, or whose whole id matches
        `pattern` (RE2), where that is given.

        Every live broker is asked for those that it coordinates. PartialFailure holds the lists of
        the brokers that answered and the errors of the others, by broker id.
        """
        request = transaction_wire.list_request(states, producer_ids, older_than_ms, pattern)
        asking = transaction_admin.list_transactions(
            self._cluster, request, self._milliseconds(timeout)
        )
        listed, faults = self._run(asking)
        raise_faults(listed, faults)
        return sorted(
            {each.transactional_id: each for part in listed.values() for each in part}.values()
        )

    def describe_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Transactional ids as their coordinators know them. Raises TransactionalIdNotFound."""
        ids = transaction_wire.transactional_ids(transactional_ids)
        timeout_ms = self._milliseconds(timeout)
        asking = transaction_admin.describe_transactions(self._cluster, ids, timeout_ms)
        outcomes = self._run(asking)
        raise_faults(outcomes.in_order(), outcomes.faults)
        return outcomes.in_order()

    def describe_producers(
        self,
        partitions: TopicPartition | Iterable[TopicPartition],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, list[ProducerState]]:
        """The producers, idempotent or transactional, that the leader of each partition knows."""
        wanted = some_partitions((partitions,))
        timeout_ms = self._milliseconds(timeout)
        asking = transaction_admin.describe_producers(self._cluster, wanted, timeout_ms)
        results, faults = self._run(asking)
        raise_faults(results, faults)
        return {tp: results[tp] for tp in wanted}

    def abort_transaction(
        self,
        transaction: str | TopicPartition,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Abort an open transaction.

        Of a transactional id: its producer is fenced, and the coordinator aborts what is open, also
        what was prepared for somebody else's decision. In a partition, for one that hangs: that
        which begins at `start_offset`, or is of `producer_id`, is ended there alone by its leader.
        Records of a transaction that its coordinator is still to commit would be lost: look first
        (`find_hanging_transactions`).

        Raises TransactionalIdNotFound, and InvalidTxnState where no such transaction is open.
        """
        timeout_ms = self._milliseconds(timeout)
        if isinstance(transaction, str):
            if start_offset is not None or producer_id is not None:
                raise errors.InvalidRequest(
                    "start_offset and producer_id are of a partition, not of a transactional id"
                )
            self.describe_transactions(transaction, timeout=timeout)  # it would be made
            self.fence_producers(transaction, timeout=timeout)
            return
        tp = one_partition(transaction)
        if (start_offset is None) == (producer_id is None):
            raise errors.InvalidRequest(f"{tp}: give start_offset or producer_id, one of them")
        found = self._open_in(tp, start_offset, producer_id, timeout)
        self._run(transaction_admin.write_abort(self._cluster, tp, found, timeout_ms))

    def _open_in(
        self,
        tp: TopicPartition,
        start_offset: int | None,
        producer_id: int | None,
        timeout: float | None,
    ) -> ProducerState:
        for producer in self.describe_producers(tp, timeout=timeout)[tp]:
            if producer.start_offset is not None and (
                producer.start_offset == start_offset or producer.producer_id == producer_id
            ):
                return producer
        where = f"of producer {producer_id}"
        if producer_id is None:
            where = f"that begins at offset {start_offset}"
        raise errors.InvalidTxnState(f"{tp}: no transaction {where} is open")

    def fence_producers(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        """Fence the producers of transactional ids, and abort what they have open. An id that was
        never used is made with that.
        """
        ids = transaction_wire.transactional_ids(transactional_ids)
        asking = transaction_admin.fence_producers(self._cluster, ids, self._milliseconds(timeout))
        outcomes = self._run(asking)
        raise_faults(outcomes.in_order(), outcomes.faults)
        return outcomes.in_order()

    def find_hanging_transactions(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        older_than_ms: int = HANGING_AFTER_MS,
        timeout: float | None = None,
    ) -> list[HangingTransaction]:
        """Transactions that are open in partitions of these topics (None given: of all, internal
        ones as well), whose last record is older than that, and that no coordinator will end.

        PartialFailure holds those that were found, and the errors of partitions that could not be
        looked at, by partition.
        """
        age_ms = transaction_wire.whole(older_than_ms, "older_than_ms")
        timeout_ms = self._milliseconds(timeout)
        chosen = [topics] if isinstance(topics, str) else topics
        wanted = () if chosen is None else several(chosen, "topics", "a name, or several")
        for name in wanted:
            check_topic(name)
        snapshot = self._snapshot(wanted, all_topics=chosen is None, timeout_ms=timeout_ms)
        partitions = [
            TopicPartition(topic.name, number)
            for topic in snapshot.topics
            for number in range(len(topic.partitions))
        ]
        for topic in snapshot.topics:
            if topic.error is not None and chosen is not None:
                raise topic.error
        asking = transaction_admin.describe_producers(self._cluster, partitions, timeout_ms)
        producers, faults = self._run(asking)
        latest_ms = SYSTEM_CLOCK.wall_ms() - age_ms
        opened = [
            (tp, producer)
            for tp, each in sorted(producers.items())
            for producer in each
            if producer.start_offset is not None and (producer.last_timestamp_ms or 0) <= latest_ms
        ]
        found = self._hanging(opened, timeout) if opened else []
        raise_faults({each.partition: each for each in found}, faults)
        return found

    def _hanging(
        self, opened: list[tuple[TopicPartition, ProducerState]], timeout: float | None
    ) -> list[HangingTransaction]:
        """Those of them that their coordinators do not know."""
        ids = sorted({producer.producer_id for _, producer in opened})
        listed = self.list_transactions(producer_ids=ids, timeout=timeout)
        names = {each.producer_id: each.transactional_id for each in listed}
        known = {}
        if names:
            known = self.describe_transactions(sorted(names.values()), timeout=timeout)
        return transaction_admin.hanging(opened, names, known)
