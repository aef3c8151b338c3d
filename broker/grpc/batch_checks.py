"""The deep check of compressed batches, away from the loop when they are large.

To look at the records of a compressed batch it must be unpacked, and one batch of a hundred
kilobytes may unpack to many megabytes: on the loop everybody else would wait for that. Both steps
leave Python's lock, so the pool really works beside the loop.

The way to a thread and back costs 20 to 30 microseconds of CPU, and more time when the loop is
busy. A batch of a few kilobytes is unpacked and checked in 5 to 20, so it stays on the loop, under
a cap of its own: what passes that, and what is wrong, goes to the pool after all. An uncompressed
batch never goes there.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from dataclasses import replace
from typing import Final

from broker.replication.messages import PartitionBatch, Produce
from pylog.errors import PylogError
from pylog.records.batch import CODEC_MASK, HEADER_SIZE, read_header
from pylog.records.kernels_pure import RecordsSummary
from pylog.records.validate import check_records

INLINE_BYTES_MAX: Final = 16 * 1024
"""Of compressed batches in one request that are checked on the loop: the default `batch.size`."""
INLINE_UNPACKED_MAX: Final = 32 * 1024
"""What one of them may unpack to there."""

_ATTRIBUTES_LOW_BYTE: Final = 22  # of a batch: bytes 21 and 22, big endian


def is_compressed(batch: bytes) -> bool:
    """Whether the batch says so. One too short to say anything is not."""
    return len(batch) >= HEADER_SIZE and batch[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK != 0


class BatchChecks:
    """Runs `check_records` for what is compressed."""

    def __init__(self, pool: Executor, decompressed_bytes_max: int) -> None:
        """Each thread of `pool` may have twice `decompressed_bytes_max` in memory."""
        self._pool = pool
        self._decompressed_bytes_max = decompressed_bytes_max

    async def run(self, request: Produce) -> Produce:
        """The request, with what the check said beside each compressed batch."""
        packed = sum(len(item.batch) for item in request.batches if is_compressed(item.batch))
        if packed <= INLINE_BYTES_MAX:
            limit = min(INLINE_UNPACKED_MAX, self._decompressed_bytes_max)
            looked = tuple(_look(item, limit) for item in request.batches)
            if not any(isinstance(item.checked, PylogError) for item in looked):
                return replace(request, batches=looked)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._checked, request)

    def _checked(self, request: Produce) -> Produce:
        limit = self._decompressed_bytes_max
        return replace(request, batches=tuple(_look(item, limit) for item in request.batches))


def _look(item: PartitionBatch, limit: int) -> PartitionBatch:
    if not is_compressed(item.batch):
        return item
    return replace(item, checked=_outcome(item.batch, limit))


def _outcome(batch: bytes, limit: int) -> RecordsSummary | PylogError:
    """An error is not raised here but where the log would: other checks come before it."""
    try:
        return check_records(batch, read_header(batch), max_decompressed_bytes=limit)
    except PylogError as error:
        # Its traceback holds on to all that was unpacked until somebody has been answered.
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
