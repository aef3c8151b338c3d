"""The input of a pass over a log, and its outcome. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pylog_broker.storage.indexes.txn_index import AbortedTransaction
from pylog_broker.storage.segments.segment import Segment


class Source(NamedTuple):
    """A full segment as it was when the pass began. `end_offset`: where the next one begins."""

    base_offset: int
    end_offset: int
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """The input of a pass. `sources`: all full segments from the log's beginning to `end_offset`;
    keys are noted from `first_dirty` on. `producers`: each in bytes, as its log keeps it. A new
    delete horizon goes by the wall clock, whether one has passed by `trusted_ms` (None: it cannot
    be told), which may be behind.
    """

    directory: str
    generation: int
    sources: tuple[Source, ...]
    first_dirty: int
    end_offset: int
    aborted: tuple[AbortedTransaction, ...]
    producers: dict[int, bytes]
    wall_ms: int
    trusted_ms: int | None
    delete_retention_ms: int
    segment_bytes: int
    index_bytes: int
    index_interval_bytes: int


@dataclass(slots=True)
class CleanStats:
    """The outcome of a pass: bytes and records that it read, kept and made."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    keys: int = 0


@dataclass(slots=True)
class Cleaned:
    """A new segment for these old ones; `segment` None: nothing of them went, they stay."""

    sources: tuple[Source, ...]
    segment: Segment | None
