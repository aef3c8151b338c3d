"""What a log knows of its producers: sequences, duplicates, open transactions (KIP-98).

Pure. Built from batch headers alone, so leader, follower and recovery arrive at the same state.

Rules for a batch of a producer id (each is a row of the unit test):

- same epoch, the first and last sequence of one of its last five batches: a duplicate, answered
  with that batch's offsets;
- same epoch, first sequence = last sequence + 1 (2^31-1 is followed by 0): appended;
- same epoch, anything else: OUT_OF_ORDER_SEQUENCE_NUMBER;
- older epoch: INVALID_PRODUCER_EPOCH;
- newer epoch: the first sequence must be 0, else OUT_OF_ORDER_SEQUENCE_NUMBER;
- unknown producer id: the first sequence must be 0, unless the log has lost its beginning
  (log start offset above 0) or has forgotten producers for their age: then its state may have gone
  with them, and any sequence is taken. Kafka takes any sequence always; but a first batch that is
  not sequence 0 in a complete log means that an earlier one was lost on the way, and taking it
  would be a gap.

A producer is forgotten `producer.id.expiration.ms` after the broker last heard of it. Kafka goes by
its records' timestamps alone; then a producer of old records would be forgotten while it writes.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple

from broker.storage.indexes.txn_index import AbortedTransaction
from pylog.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber, PylogError
from pylog.records.batch import CONTROL_BIT, SEQUENCE_MAX, TRANSACTIONAL_BIT, BatchHeader
from pylog.records.builder import ControlType, read_control
from pylog.records.reader import decode_columns

BATCHES_KEPT: Final = 5
"""As many as an idempotent producer may have in flight."""


class AppendedBatch(NamedTuple):
    """One of a producer's newest batches."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry(NamedTuple):
    """One producer: its newest epoch, and its last batches in that epoch, oldest first.

    `transaction_start` is the first offset of its open transaction, -1 without one. `timestamp` is
    that of its newest batch or marker, `seen_ms` when this broker was given that (-1: unknown),
    `coordinator_epoch` that of its newest marker.
    """

    epoch: int
    batches: tuple[AppendedBatch, ...]
    transaction_start: int = -1
    timestamp: int = -1
    coordinator_epoch: int = -1
    seen_ms: int = -1


class Marker(NamedTuple):
    """What a control batch says about its producer's transaction."""

    aborts: bool
    coordinator_epoch: int


def read_marker(batch: bytes, header: BatchHeader) -> Marker | None:
    """What a control batch says; None when it is no end of a transaction."""
    try:
        columns = decode_columns(batch, 0, header)
        kind, coordinator_epoch = read_control(columns.keys()[0], columns.values()[0])
    except (PylogError, IndexError):
        return None
    return Marker(kind is ControlType.ABORT, coordinator_epoch)


class ProducerStates:
    """All producers of one log. `forgot`: some were forgotten for their age."""

    def __init__(
        self, entries: dict[int, ProducerEntry] | None = None, *, forgot: bool = False
    ) -> None:
        self._entries: dict[int, ProducerEntry] = dict(entries or {})
        self.forgot = forgot
        # (first offset, offset of the end marker) of transactions that ended, oldest marker first,
        # until the high watermark passes the marker
        self._completed: list[tuple[int, int]] = []
        self._open: dict[int, int] = {  # first offset -> producer id
            entry.transaction_start: producer_id
            for producer_id, entry in sorted(self._entries.items())
            if entry.transaction_start >= 0
        }

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        """What is known of a producer."""
        return self._entries.get(producer_id)

    @property
    def entries(self) -> dict[int, ProducerEntry]:
        """All producers by id. To look at, not to change."""
        return self._entries

    def last_records(self) -> dict[int, tuple[int, int]]:
        """(offset of the newest record, -1 when none is known; epoch) of each producer."""
        return {
            producer_id: (entry.batches[-1].last_offset if entry.batches else -1, entry.epoch)
            for producer_id, entry in self._entries.items()
        }

    def check(self, header: BatchHeader, *, log_start_offset: int) -> AppendedBatch | None:
        """None when the batch may be appended; the earlier batch when it is a duplicate.

        Raises OutOfOrderSequenceNumber and InvalidProducerEpoch by the rules above.
        """
        first = header.base_sequence
        entry = self._entries.get(header.producer_id)
        if entry is None:
            if first != 0 and log_start_offset == 0 and not self.forgot:
                raise _out_of_order(
                    header, "nothing of this producer is in the log yet: expected 0"
                )
            return None
        if header.producer_epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} sent epoch {header.producer_epoch}; epoch "
                f"{entry.epoch} is in the log, so a newer producer has taken its place"
            )
        if header.producer_epoch > entry.epoch:
            if first != 0:
                raise _out_of_order(header, "a new epoch begins with sequence 0")
            return None
        if not entry.batches:
            return None  # known from a transaction marker only
        last = header.last_sequence
        for batch in reversed(entry.batches):
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        newest = entry.batches[-1].last_sequence
        expected = 0 if newest == SEQUENCE_MAX else newest + 1
        if first != expected:
            raise _out_of_order(header, f"expected {expected}")
        return None

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
        last_offset = base_offset + header.last_offset_delta
        entry = self._entries.get(producer_id) or ProducerEntry(header.producer_epoch, ())
        batches = entry.batches if entry.epoch == header.producer_epoch else ()
        start = entry.transaction_start
        coordinator_epoch = entry.coordinator_epoch
        aborted = None
        attributes = header.attributes
        if attributes & CONTROL_BIT:
            if marker is not None:
                coordinator_epoch = marker.coordinator_epoch
            if start >= 0:
                del self._open[start]
                self._completed.append((start, last_offset))
                if marker is not None and marker.aborts:
                    stable = min(self._open, default=last_offset + 1)
                    aborted = AbortedTransaction(producer_id, start, last_offset, stable)
            start = -1
        else:
            batch = AppendedBatch(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                last_offset,
                header.max_timestamp,
            )
            batches = (*batches[-(BATCHES_KEPT - 1) :], batch)
            if attributes & TRANSACTIONAL_BIT and start < 0:
                start = base_offset
                self._open[start] = producer_id
        self._entries[producer_id] = ProducerEntry(
            header.producer_epoch, batches, start, header.max_timestamp, coordinator_epoch, seen_ms
        )
        return aborted

    def learn(self, earlier: ProducerStates) -> None:
        """What `earlier` says of the same batches, of producers whose newest batch is the same in
        both. It may know more of those before, which a cleaner has taken, or less: a snapshot of
        Kafka's knows one, and so does one whose companion a crash has torn.
        """
        for producer_id, entry in self._entries.items():
            known = earlier.get(producer_id)
            if known is None or known.epoch != entry.epoch or not (entry.batches and known.batches):
                continue
            if known.batches[-1][:4] == entry.batches[-1][:4]:
                both = {batch.first_offset: batch for batch in (*known.batches, *entry.batches)}
                batches = [both[offset] for offset in sorted(both)]
                self._entries[producer_id] = entry._replace(
                    batches=tuple(batches[-BATCHES_KEPT:]),
                    seen_ms=max(entry.seen_ms, known.seen_ms),
                )

    def expire(self, wall_ms: int, expiration_ms: int) -> int:
        """Forget producers without an open transaction that were not heard of for so long; how
        many.

        One whose time is not known (it stood in a snapshot of Kafka's) counts as heard of now.
        """
        old = []
        for producer_id, entry in self._entries.items():
            if entry.transaction_start >= 0:
                continue
            if entry.seen_ms < 0:
                self._entries[producer_id] = entry._replace(seen_ms=wall_ms)
            elif max(entry.seen_ms, entry.timestamp) + expiration_ms <= wall_ms:
                old.append(producer_id)
        for producer_id in old:
            del self._entries[producer_id]
        self.forgot = self.forgot or bool(old)
        return len(old)

    def keep_only(self, known: Container[int]) -> None:
        """Forget the others, as far as they have no open transaction."""
        old = [
            producer_id
            for producer_id, entry in self._entries.items()
            if producer_id not in known and entry.transaction_start < 0
        ]
        for producer_id in old:
            del self._entries[producer_id]
        self.forgot = self.forgot or bool(old)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it, every transaction has ended and its marker is committed."""
        if not self._open and not self._completed:
            return high_watermark
        while self._completed and self._completed[0][1] < high_watermark:
            del self._completed[0]
        unstable = min((*self._open, *(first for first, _ in self._completed)), default=None)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._open.clear()
        self._completed.clear()
        self.forgot = False


def _out_of_order(header: BatchHeader, reason: str) -> OutOfOrderSequenceNumber:
    return OutOfOrderSequenceNumber(
        f"producer {header.producer_id} epoch {header.producer_epoch} sent sequence "
        f"{header.base_sequence}; {reason}"
    )
