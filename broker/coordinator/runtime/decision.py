"""The decisions of a coordinator about a request, a timer or news: records, answers, timers.
Pure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from pylog.model import Offset, ProducerEpoch, ProducerId

DECISION_BYTES_MAX: Final = 1_000_000
"""The bytes that the records of one atomic decision may take, which is never taken apart: with its
batch's header it is below the default of `max.message.bytes`, so that every tool reads what is
written.
"""
RECORD_EXTRA_BYTES: Final = 16
"""The most bytes of a record beside its key and value."""

RequestId = int
"""The id of a request that waits for its answer: unique over all shards of a broker."""


class Record(NamedTuple):
    """One record of an internal topic, as values: `key` and `value` are of a generated module.
    Without a value it is a tombstone. With a `producer_id` it is of that producer's transaction,
    and counts when the transaction commits. A `TransactionEnd` as key says how one has ended.
    """

    key: Any
    value: Any | None
    producer_id: int = -1


class Producer(NamedTuple):
    """The producer in whose transaction records are written."""

    producer_id: ProducerId
    epoch: ProducerEpoch


class TransactionEnd(NamedTuple):
    """The marker of a transaction, in the log of a coordinator."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    commits: bool
    coordinator_epoch: int


class Reply(NamedTuple):
    """The answer to a request, or the error that it ends with. It leaves when all that the
    coordinator has decided before is committed.
    """

    request_id: RequestId
    response: object


class Send(NamedTuple):
    """Something for other brokers to do, which nobody waits for. Like a reply it leaves when all
    that the coordinator has decided before is committed; a shard that ends before drops it, and its
    successor sends it again.
    """

    message: object


class SetTimer(NamedTuple):
    """Call `on_timer` with that key when so many milliseconds have passed. One that was set under
    the same key before is gone.
    """

    key: Hashable
    delay_ms: int


class CancelTimer(NamedTuple):
    """Nothing happens under that key any more."""

    key: Hashable


Effect = Reply | Send | SetTimer | CancelTimer


@dataclass(slots=True)
class Decision:
    """Records are replayed together, and effects are in order. `is_atomic`: they are appended
    together, too, all or none; else, of any number, in as many appends as they take. `producer`:
    they are of its transaction. A record that is a marker is the only one of its decision.
    """

    records: list[Record] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    is_atomic: bool = True
    producer: Producer | None = None


class Coordinator(Protocol):
    """The rules of one shard: its state is what `replay` has made of records. State that is not in
    them (who waits, who was heard of when) belongs to the leader alone, and ends with it.

    Decisions are made on the state at once, and a decision's records are replayed before the next
    one is made.
    """

    def replay(self, record: Record, offset: Offset) -> None:
        """Takes in a record. The same records give the same state, on every broker."""

    def on_loaded(self, now_ms: int, wall_ms: int) -> Decision:
        """The log is replayed, and the shard decides from now on: set what timers it needs."""

    def on_timer(self, now_ms: int, wall_ms: int, key: Hashable) -> Decision:
        """The time of a timer has come."""


class Codec(Protocol):
    """Records of one internal topic as bytes."""

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Key and value."""

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """The record; None for one of a type that this release does not know, which newer ones may
        write. Raises MalformedMessage.
        """
