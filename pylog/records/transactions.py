"""The records that readers of committed records leave out of a fetch: the records of aborted
transactions.

A broker tells with each fetch which transactions were aborted; which batches are theirs, their
headers tell. Markers are batches like others here: decoders leave control batches out.
"""

from __future__ import annotations

from collections.abc import Iterable

from pylog.errors import CorruptMessage
from pylog.records.batch import Buffer, iter_headers

AbortedTransaction = tuple[int, int]
"""Its producer's id, and the offset of its first record."""


def without_aborted(batches: Buffer, aborted: Iterable[AbortedTransaction]) -> Buffer:
    """`batches` less those of aborted transactions; the very same buffer where there are none.

    `aborted` are all transactions with records in the fetch that were aborted, also those that
    began before it. A batch that cannot be read stays, and all behind it: the decoder raises its
    error.
    """
    waiting = sorted(aborted, key=lambda entry: entry[1], reverse=True)
    if not waiting:
        return batches
    view = memoryview(batches)
    kept: list[Buffer] = []
    begun = 0  # of what is kept and not in `kept` yet
    inside: set[int] = set()
    try:
        for position, header in iter_headers(batches):
            while waiting and waiting[-1][1] <= header.last_offset:
                inside.add(waiting.pop()[0])
            if header.is_control:
                inside.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in inside:
                kept.append(view[begun:position])
                begun = position + header.size
    except CorruptMessage:
        pass
    if not kept:
        return batches
    kept.append(view[begun:])
    return b"".join(kept)
