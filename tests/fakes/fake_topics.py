"""The topics of a `FakeCluster`: logs in memory that check sequences as a broker does."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pylog import errors
from pylog.records.batch import BatchHeader, crc_matches, iter_headers, with_offset_and_epoch
from pylog.rpc.v1 import log_pb2


@dataclass
class FakePartition:
    leader: int
    epoch: int = 0
    batches: list[tuple[BatchHeader, bytes]] = field(default_factory=list)
    log_start: int = 0
    end: int = 0
    producers: dict[tuple[int, int], deque[tuple[int, int, int]]] = field(default_factory=dict)
    """By id and epoch the last batches: sequence, records, offset."""
    epoch_ends: dict[int, int] = field(default_factory=dict)
    """Leader epochs that ended, and where."""
    committed: int | None = None
    """The high watermark, where it is not the end."""
    stable: int | None = None
    """The last stable offset, where it is not the high watermark."""
    aborted: list[tuple[int, int]] = field(default_factory=list)
    """Transactions: producer id and first offset."""
    followers: list[int] = field(default_factory=list)
    """Brokers in sync beside the leader."""
    damaged: tuple[int, int] | None = None
    """Offsets that have rotted, the last exclusive: their batches must be taken out."""

    def readable(self, isolation: int) -> int:
        committed = self.end if self.committed is None else self.committed
        if isolation == log_pb2.READ_COMMITTED and self.stable is not None:
            return self.stable
        return committed

    def append(self, batch: bytes) -> tuple[int, int]:
        """(error code, base offset)."""
        ((_, header),) = iter_headers(batch)
        if not crc_matches(batch, 0, header):
            return errors.CorruptMessage.code, -1
        if header.producer_id >= 0 and not header.is_control:
            producer = header.producer_id, header.producer_epoch
            recent = self.producers.setdefault(producer, deque(maxlen=5))
            for sequence, count, offset in recent:
                if (sequence, count) == (header.base_sequence, header.record_count):
                    return 0, offset
            expected = 0
            if recent:
                expected = (recent[-1][0] + recent[-1][1]) & 0x7FFFFFFF
            if header.base_sequence != expected:
                return errors.OutOfOrderSequenceNumber.code, -1
            recent.append((header.base_sequence, header.record_count, self.end))
        placed = b"".join(with_offset_and_epoch(batch, self.end, self.epoch))
        ((_, stored),) = iter_headers(placed)
        self.batches.append((stored, placed))
        base_offset, self.end = self.end, self.end + header.record_count
        return 0, base_offset

    def read(self, offset: int, max_bytes: int, end: int | None = None) -> bytes:
        chosen: list[bytes] = []
        size = 0
        for header, batch in self.batches:
            if header.last_offset < offset:
                continue
            if end is not None and header.last_offset >= end:
                break
            if self.damaged is not None and offset < self.damaged[0] <= header.base_offset:
                break
            if chosen and size + len(batch) > max_bytes:
                break
            chosen.append(batch)
            size += len(batch)
        return b"".join(chosen)


@dataclass
class FakeTopic:
    topic_id: str
    partitions: list[FakePartition]
