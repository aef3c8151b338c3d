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
  (log start offset above 0): then its state may have gone with the deleted records, and any
  sequence is taken. Kafka takes any sequence always; but a first batch that is not sequence 0 in a
  complete log means that an earlier one was lost on the way, and taking it would be a gap.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pylog.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from pylog.records.batch import SEQUENCE_MAX, BatchHeader

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

    `transaction_start` is the first offset of its open transaction, -1 without one.
    """

    epoch: int
    batches: tuple[AppendedBatch, ...]
    transaction_start: int = -1


class ProducerSnapshot(NamedTuple):
    """The state before the record at `offset`."""

    offset: int
    entries: dict[int, ProducerEntry]
    completed: tuple[tuple[int, int], ...]


class ProducerStates:
    """All producers of one log."""

    def __init__(self, snapshot: ProducerSnapshot | None = None) -> None:
        self._entries: dict[int, ProducerEntry] = dict(snapshot.entries) if snapshot else {}
        # (first offset, offset of the end marker) of transactions that ended, oldest marker first,
        # until the high watermark passes the marker
        self._completed: list[tuple[int, int]] = list(snapshot.completed) if snapshot else []
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

    def snapshot(self, offset: int) -> ProducerSnapshot:
        """A copy, to come back to when the log is cut to `offset` or a little behind it."""
        return ProducerSnapshot(offset, dict(self._entries), tuple(self._completed))

    def check(self, header: BatchHeader, *, log_start_offset: int) -> AppendedBatch | None:
        """None when the batch may be appended; the earlier batch when it is a duplicate.

        Raises OutOfOrderSequenceNumber and InvalidProducerEpoch by the rules above.
        """
        first = header.base_sequence
        entry = self._entries.get(header.producer_id)
        if entry is None:
            if first != 0 and log_start_offset == 0:
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

    def apply(self, header: BatchHeader, base_offset: int) -> None:
        """The batch is in the log at `base_offset`; a batch without producer id changes nothing."""
        if header.producer_id < 0:
            return
        last_offset = base_offset + header.last_offset_delta
        entry = self._entries.get(header.producer_id) or ProducerEntry(header.producer_epoch, ())
        batches = entry.batches if entry.epoch == header.producer_epoch else ()
        start = entry.transaction_start
        if header.is_control:
            if start >= 0:
                del self._open[start]
                self._completed.append((start, last_offset))
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
            if header.is_transactional and start < 0:
                start = base_offset
                self._open[start] = header.producer_id
        self._entries[header.producer_id] = ProducerEntry(header.producer_epoch, batches, start)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it, every transaction has ended and its marker is committed."""
        while self._completed and self._completed[0][1] < high_watermark:
            del self._completed[0]
        unstable = min((*self._open, *(first for first, _ in self._completed)), default=None)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._open.clear()
        self._completed.clear()


def _out_of_order(header: BatchHeader, reason: str) -> OutOfOrderSequenceNumber:
    return OutOfOrderSequenceNumber(
        f"producer {header.producer_id} epoch {header.producer_epoch} sent sequence "
        f"{header.base_sequence}; {reason}"
    )
