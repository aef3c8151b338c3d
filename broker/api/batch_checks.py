"""The deep check of compressed batches, away from the loop when they are large.

To look at the records of a compressed batch it must be unpacked, and one batch of a hundred
kilobytes may unpack to many megabytes: on the loop everybody else would wait for that. Both steps
leave Python's lock, so the pool really works beside the loop.

The way to a thread and back costs 20 to 30 microseconds of CPU, and more time when the loop is
busy. A batch of a few kilobytes is unpacked and checked in 5 to 20, so it stays on the loop, under
a cap of its own: what passes that, and what is wrong, goes to the pool after all. An uncompressed
batch goes there only when its topic keeps another codec than its producer chose, as every batch
does for which that holds: packing costs far more than unpacking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final

from pylog.errors import PylogError
from pylog.model import TopicPartition
from pylog.records.batch import CODEC_MASK, HEADER_SIZE, Buffer
from pylog.records.compression import Compression
from pylog.records.kernels_pure import RecordsSummary
from pylog_broker.config import TopicConfig
from pylog_broker.replication.produce_messages import PartitionBatch, Produce
from pylog_broker.storage.log.recompression import (
    Recompressed,
    checked_and_recompressed,
    wanted_compression,
)

INLINE_BYTES_MAX: Final = 16 * 1024
"""The most bytes of compressed batches in one request that are checked on the loop: the default
`batch.size`."""
INLINE_UNPACKED_MAX: Final = 32 * 1024
"""The size to which one of them may unpack there."""

_KEEPS_PLAIN: Final = ("producer", "uncompressed")
_ATTRIBUTES_LOW_BYTE: Final = 22  # of a batch: bytes 21 and 22, big endian


def codec_of(batch: Buffer) -> int:
    """The codec that the batch says it is in; 0 for one too short to say anything."""
    return batch[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK if len(batch) >= HEADER_SIZE else 0


class BatchChecks:
    """Runs `check_records`, and the change to a topic's codec, for what needs them."""

    def __init__(
        self,
        pool: Executor,
        decompressed_bytes_max: int,
        config_of: Callable[[TopicPartition], TopicConfig | None],
    ) -> None:
        """Each thread of `pool` may have three times `decompressed_bytes_max` in memory.

        `config_of`: the settings of a partition that is here, None for others.
        """
        self._pool = pool
        self._decompressed_bytes_max = decompressed_bytes_max
        self._config_of = config_of

    def needed(self, request: Produce) -> bool:
        """Whether a batch of the request is compressed, or is to be stored in another codec."""
        for item in request.batches:  # asked of every request: no generator, no calls to spare
            batch = item.batch
            if len(batch) >= HEADER_SIZE and batch[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK:
                return True
            config = self._config_of(item.topic_partition)
            if config is not None and config.compression_type not in _KEEPS_PLAIN:
                return True
        return False

    def at_once(self, request: Produce) -> Produce | None:
        """The request, with what the check said beside each batch that needs one; None when that
        is more than the loop takes upon itself.
        """
        packed = sum(len(item.batch) for item in request.batches if codec_of(item.batch))
        wanted = tuple(map(self._compression, request.batches))
        if packed > INLINE_BYTES_MAX or any(wanted):
            return None
        limit = min(INLINE_UNPACKED_MAX, self._decompressed_bytes_max)
        looked = _look_at(request, wanted, limit)
        if any(isinstance(item.checked, PylogError) for item in looked.batches):
            return None
        return looked

    async def in_pool(self, request: Produce) -> Produce:
        """The same, away from the loop and whatever it costs."""
        wanted = tuple(map(self._compression, request.batches))
        loop = asyncio.get_running_loop()
        limit = self._decompressed_bytes_max
        return await loop.run_in_executor(self._pool, _look_at, request, wanted, limit)

    def _compression(self, item: PartitionBatch) -> Compression | None:
        config = self._config_of(item.topic_partition)
        return None if config is None else wanted_compression(config, codec_of(item.batch))


def _look_at(request: Produce, wanted: Sequence[Compression | None], limit: int) -> Produce:
    batches = tuple(
        item._replace(checked=_outcome(item.batch, compression, limit))
        if compression is not None or codec_of(item.batch)
        else item
        for item, compression in zip(request.batches, wanted, strict=True)
    )
    return request._replace(batches=batches)


def _outcome(
    batch: Buffer, compression: Compression | None, limit: int
) -> RecordsSummary | Recompressed | PylogError:
    """An error is not raised here but where the log would: other checks come before it."""
    try:
        return checked_and_recompressed(batch, compression, max_decompressed_bytes=limit)
    except PylogError as error:
        # Its traceback holds on to all that was unpacked until somebody has been answered.
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
