"""The knowledge of transactions that a pass needs: whose records go, and which markers have
nothing to end.

Follows Kafka's rules batch by batch, in the log's order: what is left of a marker, and of the index
of aborted transactions, depends on which batches of its transaction this pass has met.
"""

from __future__ import annotations

from collections.abc import Iterable

from pylog.records.batch import BatchHeader
from pylog_broker.storage.indexes.txn_index import AbortedTransaction
from pylog_broker.storage.producers.producer_state import read_marker


class Transactions:
    """Fed with every batch that a pass reads: markers to `ended`, others to `is_aborted`."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted`: all that have records in what is read."""
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._inside: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()
        self._still_aborted: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch belongs to an aborted transaction: none of its records stays."""
        self._begin(header.last_offset)
        if not header.is_transactional:
            return False
        self._met.add(header.producer_id)
        entry = self._inside.get(header.producer_id)
        return entry is not None and header.last_offset < entry.last_offset

    def ended(self, header: BatchHeader, batch: bytes) -> bool:
        """Take note of a marker; whether it may go, now that no batch of its transaction was met.

        A marker stays as long as a pass meets one, also one of which this pass leaves nothing: only
        the next pass knows for sure that it is gone.
        """
        self._begin(header.last_offset)
        if not header.record_count:
            return True
        marker = read_marker(batch, header)
        if marker is None:
            return False  # not the end of a transaction: not ours to judge
        met = header.producer_id in self._met
        self._met.discard(header.producer_id)
        entry = self._inside.pop(header.producer_id, None)
        if met and entry is not None and entry.last_offset == header.last_offset:
            self._still_aborted.append(entry)
        return not met

    def take_aborted(self) -> list[AbortedTransaction]:
        """The aborted transactions whose markers were met since the last call, with batches."""
        found, self._still_aborted = self._still_aborted, []
        return found

    def _begin(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            entry = self._waiting.pop()
            self._inside[entry.producer_id] = entry  # an earlier one ended where nobody reads now
