"""The work of a pass over a log: the newest offset of each key, then new segments with what stays.

Touches nothing that the loop owns: it reads the full segments by their names and writes new ones,
named `.cleaned`. Loads numba: `clean_task.py` imports it when there is something to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from pylog.errors import CorruptMessage
from pylog.records.batch import HEADER_SIZE, BatchHeader, crc_matches, read_header
from pylog.records.compression import DECOMPRESSED_BYTES_MAX
from pylog.records.sections import Section, open_section
from pylog_broker.storage.cleaner.batch_filter import delete_horizon, empty_batch, filtered_batch
from pylog_broker.storage.cleaner.clean_plan import Cleaned, CleanPlan, CleanStats, Source
from pylog_broker.storage.cleaner.offset_map import OffsetMap, fields_of
from pylog_broker.storage.cleaner.transactions import Transactions
from pylog_broker.storage.errors import CorruptSegment
from pylog_broker.storage.files import Files
from pylog_broker.storage.indexes.offset_index import RELATIVE_MAX
from pylog_broker.storage.producers.producer_entry import last_record
from pylog_broker.storage.segments.segment import (
    CLEANED_ENDING,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    BatchPlace,
    Segment,
    segment_name,
)

_WINDOW: Final = 1024 * 1024
_WRITE_BYTES: Final = 1024 * 1024


class Rewriting:
    """The steps of one pass: `note_keys`, then `clean` for each of `groups`. Both raise OSError and
    PylogError, CorruptSegment among them.
    """

    def __init__(
        self,
        files: Files,
        plan: CleanPlan,
        map_bytes: int,
        seed: bytes,
        pace: Callable[[int], None],
    ) -> None:
        self.stats = CleanStats()
        self.clean_to = plan.first_dirty
        """Up to here keys were noted: the log is clean so far when the pass has ended."""
        self.groups: list[tuple[Source, ...]] = []
        self.unfinished: Segment | None = None
        self._plan = plan
        self._files = files
        self._map_bytes = map_bytes
        self._seed = seed
        self._pace = pace
        self._map: OffsetMap | None = None
        self._transactions = Transactions(plan.aborted)

    # ---- the newest offset of each key ----------------------------------------------------------

    def note_keys(self) -> None:
        """Read the dirty part, and say which segments are to be written anew."""
        plan = self._plan
        records = plan.end_offset - plan.first_dirty
        found = OffsetMap(self._map_bytes, records, self._seed)
        transactions = Transactions(plan.aborted)
        full = False
        for source in plan.sources:
            if source.end_offset <= plan.first_dirty:
                continue
            for header, batch in self._batches(source):
                if header.is_control:
                    transactions.ended(header, batch)
                elif (
                    not transactions.is_aborted(header)
                    and header.last_offset >= plan.first_dirty
                    and header.record_count
                ):
                    section = open_section(batch, 0, header, max_bytes=DECOMPRESSED_BYTES_MAX)
                    if not found.put(section, header):
                        full = True
                        break
                self.clean_to = max(self.clean_to, header.last_offset + 1)
            if full:
                break
            self.clean_to = source.end_offset
        if full and self.clean_to == plan.first_dirty:
            raise CorruptSegment(
                f"{plan.directory}: the batch at offset {self.clean_to} has more keys than "
                f"log.cleaner.dedupe.buffer.size={self._map_bytes} takes ({found.room}); raise it"
            )
        self._map = found
        self.stats.keys = len(found)
        self.groups = list(self._grouped())

    def _grouped(self) -> Iterator[tuple[Source, ...]]:
        """Segments that become one together: by any measure, all of them fit into one."""
        plan = self._plan
        group: list[Source] = []
        sums = [0, 0, 0]
        for source in plan.sources:
            if source.base_offset >= self.clean_to:
                break
            sizes = (source.size, *self._index_sizes(source))
            sums = [total + size for total, size in zip(sums, sizes, strict=True)]
            distant = source.end_offset - 1 - group[0].base_offset if group and source.size else 0
            if group and (
                sums[0] > plan.segment_bytes
                or max(sums[1:]) > plan.index_bytes
                or distant > RELATIVE_MAX
            ):
                yield tuple(group)
                group, sums = [], list(sizes)
            group.append(source)
        if group:
            yield tuple(group)

    def _index_sizes(self, source: Source) -> tuple[int, int]:
        stem = f"{self._plan.directory}/{segment_name(source.base_offset)}"
        found = (self._files.stat(stem + suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        offsets, times = (0 if status is None else status.size for status in found)
        return offsets, times

    # ---- one new segment ------------------------------------------------------------------------

    def clean(self, group: Sequence[Source]) -> Cleaned:
        """One segment with all that is left of some."""
        plan = self._plan
        segment = self.unfinished = Segment(
            self._files,
            plan.directory,
            group[0].base_offset,
            index_interval_bytes=plan.index_interval_bytes,
            created_ms=group[0].modified_ms,
            ending=CLEANED_ENDING,
        )
        segment.unlink()  # what another pass left
        segment.create()
        pending: list[tuple[BatchPlace, bytes]] = []
        waiting = 0
        changed = len(group) > 1
        transactions = self._transactions
        for source in group:
            for header, batch in self._batches(source):
                self.stats.bytes_read += header.size
                self.stats.records_read += header.record_count
                kept = self._kept(header, batch)
                changed = changed or kept is not batch
                if kept is None:
                    continue
                new = read_header(kept)
                self.stats.records_kept += new.record_count
                place = (len(kept), new.base_offset, new.last_offset, new.max_timestamp)
                pending.append((place, kept))
                waiting += len(kept)
                if waiting >= _WRITE_BYTES:
                    self._write(segment, pending)
                    pending, waiting = [], 0
        self._write(segment, pending)
        segment.txn_index.replace(transactions.take_aborted())
        segment.seal()
        segment.fsync()
        segment.rest()
        self.unfinished = None
        if not changed:
            segment.unlink()
            return Cleaned(tuple(group), None)
        return Cleaned(tuple(group), segment)

    def _write(self, segment: Segment, batches: list[tuple[BatchPlace, bytes]]) -> None:
        if batches:
            segment.append([batch for _, batch in batches], [place for place, _ in batches])
            written = sum(len(batch) for _, batch in batches)
            self.stats.bytes_written += written
            self._pace(written)

    def _kept(self, header: BatchHeader, batch: bytes) -> bytes | None:
        """The part of a batch that stays: itself, a smaller one, an empty one, or nothing.

        By Kafka's rules. A batch without records stays for two reasons only: it is the last data
        of a producer that is still known (its sequences), or its last marker when no data is known
        (its epoch); or it ends where the part that may be cleaned ends, so that a log that is
        cleaned up to its active segment still says what comes next (KAFKA-17076).
        """
        plan, transactions = self._plan, self._transactions
        if header.is_control:
            may_go = transactions.ended(header, batch)
            horizon = delete_horizon(header)
            gone = may_go and self._has_passed(horizon)
        else:
            gone = transactions.is_aborted(header)
        stays = header.next_offset == plan.end_offset or self._tells_of_producer(header)
        nothing = empty_batch(header) if stays else None
        if gone or not header.record_count:
            return batch if nothing == batch else nothing
        if header.is_control:
            return self._with_horizon(header, batch) if may_go and horizon is None else batch
        kept = self._filtered(header, batch)
        return nothing if kept is None else kept

    def _tells_of_producer(self, header: BatchHeader) -> bool:
        known = self._plan.producers.get(header.producer_id)
        if known is None:
            return False
        last_data_offset, epoch = last_record(known)
        if last_data_offset >= 0:
            return header.last_offset == last_data_offset
        return header.is_control and header.producer_epoch == epoch

    def _filtered(self, header: BatchHeader, batch: bytes) -> bytes | None:
        """The records that no newer one replaces; None without any."""
        assert self._map is not None
        section = open_section(batch, 0, header, max_bytes=DECOMPRESSED_BYTES_MAX)
        fields = fields_of(section, header)
        horizon = delete_horizon(header)
        kept, count, tombstones = self._map.select(
            section,
            header,
            fields,
            end_offset=self.clean_to,
            keeps_tombstones=not self._has_passed(horizon),
        )
        if not count:
            return None
        new_horizon = self._new_horizon if tombstones and horizon is None else None
        if count == header.record_count and new_horizon is None:
            return batch
        return filtered_batch(section, header, fields, kept, new_horizon)

    @property
    def _new_horizon(self) -> int:
        return self._plan.wall_ms + self._plan.delete_retention_ms

    def _with_horizon(self, header: BatchHeader, batch: bytes) -> bytes:
        """A marker none of whose records were met: it goes `delete.retention.ms` from now."""
        section = Section(batch, HEADER_SIZE, len(batch))
        fields = fields_of(section, header)
        everything = np.ones(fields.shape[1], np.uint8)
        return filtered_batch(section, header, fields, everything, self._new_horizon)

    def _has_passed(self, horizon: int | None) -> bool:
        now_ms = self._plan.trusted_ms
        return horizon is not None and now_ms is not None and horizon <= now_ms

    # ---- reading --------------------------------------------------------------------------------

    def _batches(self, source: Source) -> Iterator[tuple[BatchHeader, bytes]]:
        """Every batch of a full segment, its CRC and its place checked. CorruptSegment: a batch
        that has rotted is neither written anew nor stepped over, it is evidence and may be healed.
        """
        path = f"{self._plan.directory}/{segment_name(source.base_offset)}{LOG_SUFFIX}"
        handle = self._files.open(path)
        try:
            position, expected = 0, source.base_offset
            window, start = b"", 0
            while position < source.size:
                at = position - start
                if at + HEADER_SIZE > len(window):
                    wanted = min(_WINDOW, source.size - position)
                    window, start, at = self._read(handle, wanted, position), position, 0
                try:
                    header = read_header(window, at)
                except CorruptMessage as error:
                    raise CorruptSegment(f"{path} is damaged at {position}: {error}") from error
                if at + header.size > len(window):
                    wanted = min(max(_WINDOW, header.size), source.size - position)
                    window, start, at = self._read(handle, wanted, position), position, 0
                if not crc_matches(window, at, header):
                    raise CorruptSegment(
                        f"{path} is damaged at {position}: the batch of offsets "
                        f"{header.base_offset} to {header.last_offset} does not match its CRC"
                    )
                if header.base_offset < expected or header.next_offset > source.end_offset:
                    raise CorruptSegment(
                        f"{path} is damaged at {position}: offsets {header.base_offset} to "
                        f"{header.last_offset} where {expected} should follow, or a later one"
                    )
                yield header, window[at : at + header.size]
                position, expected = position + header.size, header.next_offset
        finally:
            self._files.close(handle)

    def _read(self, handle: int, length: int, position: int) -> bytes:
        found = self._files.pread(handle, length, position)
        self._pace(len(found))
        return found
