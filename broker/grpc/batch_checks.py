"""The deep check of compressed batches, away from the loop.

To look at the records of a compressed batch it must be unpacked, and one batch of a hundred
kilobytes may unpack to many megabytes: on the loop everybody else would wait for that. Both steps
leave Python's lock, so the pool really works beside the loop. An uncompressed batch is checked on
the loop, where a look at the records costs less than the way to a thread.
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
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._checked, request)

    def _checked(self, request: Produce) -> Produce:
        return replace(request, batches=tuple(map(self._look, request.batches)))

    def _look(self, item: PartitionBatch) -> PartitionBatch:
        if not is_compressed(item.batch):
            return item
        return replace(item, checked=self._outcome(item.batch))

    def _outcome(self, batch: bytes) -> RecordsSummary | PylogError:
        """An error is not raised here but where the log would: other checks come before it."""
        try:
            header = read_header(batch)
            limit = self._decompressed_bytes_max
            return check_records(batch, header, max_decompressed_bytes=limit)
        except PylogError as error:
            # Its traceback holds on to all that was unpacked until somebody has been answered.
            error.__cause__ = error.__context__ = None
            return error.with_traceback(None)
