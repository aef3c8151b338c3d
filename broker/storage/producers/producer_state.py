"""A log's view of its producers: sequences, duplicates, open transactions (KIP-98).

Pure. Built from batch headers alone, so leader, follower and recovery arrive at the same state.

Rules for a batch of a producer id (each is a row of the unit test):

- same epoch, the first and last sequence of one of its last five batches: a duplicate, answered
  with that batch's offsets;
- same epoch, first sequence = last sequence + 1 (2^31-1 is followed by 0): appended;
- same epoch, anything else: OUT_OF_ORDER_SEQUENCE_NUMBER;
- older epoch: INVALID_PRODUCER_EPOCH;
- newer epoch: the first sequence must be 0, else OUT_OF_ORDER_SEQUENCE_NUMBER;
- newer epoch, or no transactional batch, while a transaction is open: INVALID_TXN_STATE;
- unknown producer id, or one of which only a marker is known: the first sequence must be 0. Where
  the log has lost its beginning (log start offset above 0) or has forgotten producers for their
  age, what it knew may have gone with them: UNKNOWN_PRODUCER_ID; else an earlier batch was lost on
  its way: OUT_OF_ORDER_SEQUENCE_NUMBER. Kafka takes any sequence there, and with it the second of
  two batches in flight whose first was refused for a moment: that one comes too late then.

A producer is forgotten `producer.id.expiration.ms` after the broker last heard of it. Kafka goes by
its records' timestamps alone; then a producer of old records would be forgotten while it writes.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from pylog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    PylogError,
    TransactionCoordinatorFenced,
    UnknownProducerId,
)
from pylog.model import TransactionName, TransactionSpan
from pylog.records.batch import CONTROL_BIT, SEQUENCE_MAX, TRANSACTIONAL_BIT, BatchHeader
from pylog.records.builder import ControlType, read_control
from pylog.records.reader import decode_columns
from pylog_broker.storage.indexes.txn_index import AbortedTransaction
from pylog_broker.storage.producers.committed_transactions import CommittedTransactions
from pylog_broker.storage.producers.producer_budget import ProducerBudget
from pylog_broker.storage.producers.producer_entry import (
    BATCH,
    BATCHES_KEPT,
    EPOCH_AND_SEQUENCE,
    HEAD,
    AppendedBatch,
    ProducerEntry,
    batches_before_next,
    is_open,
    last_heard_ms,
    pack,
    transaction_start,
    unpack,
)

__all__ = ["BATCHES_KEPT", "AppendedBatch", "Marker", "ProducerEntry", "ProducerStates"]

SLICE: Final = 1_000
"""Producers that are looked at in one go: about a third of a millisecond."""


class Marker(NamedTuple):
    """The word of a control batch about its producer's transaction."""

    aborts: bool
    coordinator_epoch: int


def read_marker(batch: bytes, header: BatchHeader) -> Marker | None:
    """The marker in a control batch; None when it is no end of a transaction."""
    try:
        columns = decode_columns(batch, 0, header)
        kind, coordinator_epoch = read_control(columns.keys()[0], columns.values()[0])
    except (PylogError, IndexError):
        return None
    return Marker(kind is ControlType.ABORT, coordinator_epoch)


class ProducerStates:
    """All producers of one log. `forgot`: some were forgotten for their age.

    Each is kept as bytes (`producer_entry`), which never change: a copy of the table is a picture
    of this moment, for a thread of its own to work on.
    """

    def __init__(
        self,
        entries: Mapping[int, ProducerEntry] | None = None,
        *,
        forgot: bool = False,
        packed: dict[int, bytes] | None = None,
        budget: ProducerBudget | None = None,
    ) -> None:
        """`packed`: the entries as bytes, which are taken over."""
        given = {pid: pack(entry) for pid, entry in (entries or {}).items()}
        self._packed: dict[int, bytes] = given if packed is None else packed
        self._budget = budget or ProducerBudget()
        self.forgot = forgot
        self.committed = CommittedTransactions()
        """The newest transactions that were committed."""
        # (first offset, offset of the end marker) of transactions that ended, oldest marker first,
        # until the high watermark passes the marker
        self._completed: list[tuple[int, int]] = []
        self._open: dict[int, int] = {  # first offset -> producer id
            transaction_start(packed): producer_id
            for producer_id, packed in self._packed.items()
            if is_open(packed)
        }

    def __len__(self) -> int:
        return len(self._packed)

    def get(self, producer_id: int) -> ProducerEntry | None:
        """The state of a producer, as far as it is known."""
        packed = self._packed.get(producer_id)
        return None if packed is None else unpack(packed)

    @property
    def entries(self) -> Mapping[int, bytes]:
        """All producers by id, packed. To look at, not to change."""
        return self._packed

    def unpacked(self) -> dict[int, ProducerEntry]:
        """All producers by id: for tests and tools, it takes a while."""
        return {pid: unpack(packed) for pid, packed in self._packed.items()}

    @property
    def ids(self) -> Collection[int]:
        """The ids of all producers."""
        return self._packed.keys()

    def copy_of_entries(self) -> dict[int, bytes]:
        """All producers by id, packed, as they are now."""
        return self._packed.copy()

    def knows_the_same_as(self, other: ProducerStates) -> bool:
        """Whether a snapshot of the other one would be the same."""
        return self._packed == other._packed and self.forgot == other.forgot

    def check(self, header: BatchHeader, *, log_start_offset: int) -> AppendedBatch | None:
        """None when the batch may be appended; the earlier batch when it is a duplicate.

        Raises OutOfOrderSequenceNumber, UnknownProducerId and InvalidProducerEpoch by the rules
        above, and ThrottlingQuotaExceeded for an unknown producer when there is no room for one
        more.
        """
        first = header.base_sequence
        packed = self._packed.get(header.producer_id)
        if packed is None:
            if first != 0:
                raise self._not_the_first(header, log_start_offset)
            self._budget.check(header.producer_id, len(self._packed))
            return None
        epoch, newest = EPOCH_AND_SEQUENCE.unpack_from(packed)
        if header.producer_epoch < epoch:
            raise _fenced(header.producer_id, header.producer_epoch, epoch)
        if self._open and is_open(packed):
            _check_open(header, epoch)
        if header.producer_epoch > epoch:
            if first != 0:
                raise _out_of_order(header, "a new epoch begins with sequence 0")
            return None
        expected = 0 if newest == SEQUENCE_MAX else newest + 1
        if first == expected:
            return None  # no duplicate: the batches that are kept follow one another
        entry = unpack(packed)
        if not entry.batches:  # known from a transaction's marker only
            raise self._not_the_first(header, log_start_offset)
        last = header.last_sequence
        for batch in reversed(entry.batches):
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        raise _out_of_order(header, f"expected {expected}")

    def check_coordinators(self, header: BatchHeader) -> None:
        """A coordinator's batch, of a transaction, has no sequences. Raises InvalidProducerEpoch
        and InvalidTxnState by the rules above.
        """
        self.check_epoch(header.producer_id, header.producer_epoch)

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """The same before there is a batch."""
        packed = self._packed.get(producer_id)
        if packed is None:
            return
        (epoch, _) = EPOCH_AND_SEQUENCE.unpack_from(packed)
        if producer_epoch < epoch:
            raise _fenced(producer_id, producer_epoch, epoch)
        if producer_epoch > epoch and is_open(packed):
            raise _still_open(producer_id, producer_epoch, epoch)

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of the producer in that epoch is open."""
        packed = self._packed.get(producer_id) if self._open else None
        return (
            packed is not None
            and is_open(packed)
            and EPOCH_AND_SEQUENCE.unpack_from(packed)[0] == epoch
        )

    def wants_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, version: int
    ) -> bool:
        """Whether the end of a transaction is to be written; False where the log is beyond it.
        `version`: of the transaction: from 2 on the marker has the epoch that follows its batches.

        Raises TransactionCoordinatorFenced for a coordinator that another has followed, and
        InvalidProducerEpoch for a producer that has gone on.
        """
        packed = self._packed.get(producer_id)
        if packed is None:
            return True
        entry = unpack(packed)
        if coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"a marker of coordinator epoch {coordinator_epoch}; one of epoch "
                f"{entry.coordinator_epoch} has written for producer {producer_id}"
            )
        if epoch < entry.epoch:
            raise _fenced(producer_id, epoch, entry.epoch)
        # A transaction open in the marker's own epoch is the next one: the marker comes again.
        return version < 2 or epoch > entry.epoch or entry.transaction_start < 0

    def _not_the_first(self, header: BatchHeader, log_start_offset: int) -> PylogError:
        if log_start_offset == 0 and not self.forgot:
            return _out_of_order(header, "nothing of this producer is in the log yet: expected 0")
        return UnknownProducerId(
            f"producer {header.producer_id} epoch {header.producer_epoch} sent sequence "
            f"{header.base_sequence}; what the log knew of it went with deleted records, or after "
            f"producer.id.expiration.ms without a word of it: a fresh producer id begins with 0"
        )

    def apply(
        self,
        header: BatchHeader,
        base_offset: int,
        marker: Marker | None = None,
        *,
        seen_ms: int = -1,
    ) -> AbortedTransaction | None:
        """The batch is in the log at `base_offset`; a batch without producer id changes nothing.

        `marker`: what a control batch says. The transaction that it aborts, if it does.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        packed = self._packed.get(producer_id)
        if header.attributes & CONTROL_BIT:
            entry = ProducerEntry(header.producer_epoch, ()) if packed is None else unpack(packed)
            if packed is None:
                self._budget.known += 1
            return self._apply_marker(header, base_offset, marker, entry, seen_ms)
        last_offset = base_offset + header.last_offset_delta
        epoch, kept, coordinator_epoch, start = header.producer_epoch, b"", -1, -1
        if packed is None:
            self._budget.known += 1
        else:
            before, _, _, _, _, coordinator_epoch, start, _, _ = HEAD.unpack_from(packed)
            if before == epoch:
                kept = batches_before_next(packed)
        if header.attributes & TRANSACTIONAL_BIT and start < 0:
            start = base_offset
            self._open[start] = producer_id
        first, last, timestamp = header.base_sequence, header.last_sequence, header.max_timestamp
        self._packed[producer_id] = (
            HEAD.pack(
                epoch, last, last_offset, header.last_offset_delta, timestamp, coordinator_epoch,
                start, seen_ms, len(kept) // BATCH.size + 1,
            )
            + kept
            + BATCH.pack(first, last, base_offset, last_offset, timestamp)
        )  # fmt: skip
        return None

    def _apply_marker(
        self,
        header: BatchHeader,
        base_offset: int,
        marker: Marker | None,
        entry: ProducerEntry,
        seen_ms: int,
    ) -> AbortedTransaction | None:
        producer_id, start = header.producer_id, entry.transaction_start
        last_offset = base_offset + header.last_offset_delta
        aborted = None
        if start >= 0:
            del self._open[start]
            self._completed.append((start, last_offset))
            if marker is not None and marker.aborts:
                stable = min(self._open, default=last_offset + 1)
                aborted = AbortedTransaction(producer_id, start, last_offset, stable)
        if marker is None or not marker.aborts:
            if start >= 0:
                self.committed.add(producer_id, entry.epoch, start, last_offset)
            else:  # nothing written here; from version 2 on a marker has the epoch behind
                epoch = header.producer_epoch - 1
                self.committed.add(producer_id, epoch, base_offset, last_offset)
        coordinator_epoch = entry.coordinator_epoch if marker is None else marker.coordinator_epoch
        batches = entry.batches if entry.epoch == header.producer_epoch else ()
        self._packed[producer_id] = pack(
            ProducerEntry(
                header.producer_epoch,
                batches,
                -1,
                header.max_timestamp,
                coordinator_epoch,
                seen_ms,
            )
        )
        return aborted

    def learn(self, earlier: ProducerStates) -> None:
        """Take the batches from `earlier` of producers whose newest batch is the same in both. It
        may know more of those before, which a cleaner has taken, or less: a snapshot of Kafka's
        knows one, and so does one whose companion a crash has torn.
        """
        for producer_id, packed in self._packed.items():
            other = earlier._packed.get(producer_id)
            if other is None or other == packed:
                continue
            entry, known = unpack(packed), unpack(other)
            if known.epoch != entry.epoch or not (entry.batches and known.batches):
                continue
            if known.batches[-1][:4] == entry.batches[-1][:4]:
                both = {batch.first_offset: batch for batch in (*known.batches, *entry.batches)}
                batches = [both[offset] for offset in sorted(both)]
                self._packed[producer_id] = pack(
                    entry._replace(
                        batches=tuple(batches[-BATCHES_KEPT:]),
                        seen_ms=max(entry.seen_ms, known.seen_ms),
                    )
                )

    # ---- forgetting -----------------------------------------------------------------------------

    def slices_of_ids(self) -> Iterator[tuple[int, ...]]:
        """The ids that are known now, `SLICE` at a time."""
        ids = tuple(self._packed)
        return (ids[first : first + SLICE] for first in range(0, len(ids), SLICE))

    def expire(
        self, wall_ms: int, expiration_ms: int, producer_ids: Iterable[int] | None = None
    ) -> int:
        """Forget those of these producers (None: of all) without an open transaction that were not
        heard of for so long; how many.

        One whose time is not known (it stood in a snapshot of Kafka's) counts as heard of now.
        """
        expired = 0
        for producer_id in tuple(self._packed) if producer_ids is None else producer_ids:
            packed = self._packed.get(producer_id)
            if packed is None or is_open(packed):
                continue
            heard_ms = last_heard_ms(packed)
            if heard_ms < 0:
                self._packed[producer_id] = pack(unpack(packed)._replace(seen_ms=wall_ms))
            elif heard_ms + expiration_ms <= wall_ms:
                del self._packed[producer_id]
                expired += 1
        self.forgot = self.forgot or expired > 0
        return expired

    def keep_only(self, known: Container[int]) -> None:
        """Forget the others, as far as they have no open transaction."""
        old = [
            producer_id
            for producer_id, packed in self._packed.items()
            if producer_id not in known and not is_open(packed)
        ]
        for producer_id in old:
            del self._packed[producer_id]
        self.forgot = self.forgot or bool(old)

    # ---- transactions ---------------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it, every transaction has ended and its marker is committed."""
        if not self._open and not self._completed:
            return high_watermark
        while self._completed and self._completed[0][1] < high_watermark:
            del self._completed[0]
        unstable = min((*self._open, *(first for first, _ in self._completed)), default=None)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def open_transactions(self) -> list[TransactionSpan]:
        """The transactions without a marker."""
        found = []
        for first, producer_id in self._open.items():
            (epoch, _) = EPOCH_AND_SEQUENCE.unpack_from(self._packed[producer_id])
            found.append(TransactionSpan(TransactionName(producer_id, epoch), first))
        return found

    def may_have_ended(self, name: TransactionName) -> bool:
        """Whether the log may have a marker of this transaction.

        A producer that is not known has written nothing for `producer.id.expiration.ms`, and a
        transaction whose markers are on their way has not stood still so long.
        """
        packed = self._packed.get(name.producer_id)
        if packed is None:
            return False
        (epoch, _) = EPOCH_AND_SEQUENCE.unpack_from(packed)
        # Under version 1 the marker has the epoch of the batches, as an open transaction has.
        return epoch > name.producer_epoch or (epoch == name.producer_epoch and not is_open(packed))

    def count_in(self, budget: ProducerBudget) -> None:
        """Have producers that come from now on count in another budget."""
        self._budget = budget

    def clear(self) -> None:
        """Forget everything."""
        self._packed.clear()
        self._open.clear()
        self._completed.clear()
        self.committed.clear()
        self.forgot = False


def _fenced(producer_id: int, epoch: int, newest: int) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(
        f"producer {producer_id} sent epoch {epoch}; epoch {newest} is in the log, so a newer "
        "producer has taken its place, or its transaction has ended"
    )


def _check_open(header: BatchHeader, epoch: int) -> None:
    """InvalidTxnState for a batch that does not go on with the open transaction of that epoch."""
    if header.producer_epoch > epoch or not header.attributes & TRANSACTIONAL_BIT:
        raise _still_open(header.producer_id, header.producer_epoch, epoch)


def _still_open(producer_id: int, producer_epoch: int, epoch: int) -> InvalidTxnState:
    return InvalidTxnState(
        f"producer {producer_id} epoch {producer_epoch}: its transaction of epoch {epoch} is open "
        "in this partition, and the batch is not of it"
    )


def _out_of_order(header: BatchHeader, reason: str) -> OutOfOrderSequenceNumber:
    return OutOfOrderSequenceNumber(
        f"producer {header.producer_id} epoch {header.producer_epoch} sent sequence "
        f"{header.base_sequence}; {reason}"
    )
