"""Requests about transactions, and their answers. Plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pylog.errors import PylogError
from pylog.model import Offset, TopicId, TopicPartition
from pylog_broker.coordinator.transactions.transaction import NO_IDENTITY, Identity


class InitProducer(NamedTuple):
    """An instance of a producer begins. `expected`: the identity that it has, if it is no new one.
    `two_phase`: its transactions stay open until somebody ends them; `keeps_prepared`: also the one
    that is open now.
    """

    transactional_id: str
    timeout_ms: int
    expected: Identity = NO_IDENTITY
    two_phase: bool = False
    keeps_prepared: bool = False


class ProducerBegun(NamedTuple):
    """The identity of the instance. `ongoing`: of the transaction that it keeps."""

    identity: Identity
    ongoing: Identity = NO_IDENTITY


class NeedsProducerId(NamedTuple):
    """Nothing was decided: ask again with a producer id that nobody has."""


class AddPartitions(NamedTuple):
    """Partitions that the producer is about to write to. `verify_only`: refuse those that the
    transaction does not have.
    """

    transactional_id: str
    identity: Identity
    partitions: tuple[TopicPartition, ...]
    version: int = 2
    verify_only: bool = False


class PartitionsAdded(NamedTuple):
    """The outcome of each partition."""

    partitions: dict[TopicPartition, PylogError | None]


class EndTransaction(NamedTuple):
    """The transaction is to commit, or to abort."""

    transactional_id: str
    identity: Identity
    commits: bool
    version: int = 2


class TransactionEnded(NamedTuple):
    """It is decided. `identity`: with which the producer goes on."""

    identity: Identity


class NewStart(NamedTuple):
    """The offset at which a partition of an overwritten topic begins, with the commit's marker."""

    topic_id: TopicId
    offset: Offset


NO_STARTS: Final[Mapping[TopicPartition, NewStart]] = {}


class Overwrite(NamedTuple):
    """The partitions that the commit of a batch overwrites, with their new starts. The transaction
    of each member ends with the new starts of its partitions; that of the first member, by its
    number, ends on all overwritten partitions, so that those to which nothing was written have a
    marker, too.
    """

    first: int
    starts: Mapping[TopicPartition, NewStart]

    def starts_of(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, NewStart]:
        """Those that these partitions have."""
        starts = self.starts
        return {each: starts[each] for each in partitions if each in starts} if starts else starts


NO_OVERWRITE: Final = Overwrite(-1, NO_STARTS)


class SendMarkers(NamedTuple):
    """Tell these partitions how the transaction has ended, again and again until each has it.
    `starts`: where overwritten ones begin with that.
    """

    transactional_id: str
    identity: Identity
    commits: bool
    partitions: frozenset[TopicPartition]
    version: int
    starts: Mapping[TopicPartition, NewStart] = NO_STARTS


class DescribedTransaction(NamedTuple):
    """A transactional id. Without a transaction: no partitions, and `started_ms` is -1."""

    transactional_id: str
    state: str
    timeout_ms: int
    started_ms: int
    identity: Identity
    partitions: tuple[TopicPartition, ...]


class TransactionFilter(NamedTuple):
    """The transactions to list: in one of these states, of one of these producers, and open for
    longer than so many milliseconds; empty, and below 0: all.
    """

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1


class ListedTransaction(NamedTuple):
    """One line of a list of transactions."""

    transactional_id: str
    producer_id: int
    state: str
