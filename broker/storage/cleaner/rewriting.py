"""The work of a pass over a log: the newest offset of each key, then new segments with what stays.

Touches nothing that the loop owns: it reads the full segments by their names and writes new ones,
named `.cleaned`. Loads numba: `clean_task.py` imports it when there is something to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from broker.storage.cleaner.batch_filter import delete_horizon, empty_batch, filtered_batch
from broker.storage.cleaner.clean_task import Cleaned, CleanPlan, CleanStats, Source
from broker.storage.cleaner.offset_map import OffsetMap, fields_of
from broker.storage.errors import CorruptSegment
from broker.storage.files import Files
from broker.storage.offset_index import RELATIVE_MAX
from broker.storage.producer_state import read_marker
from broker.storage.segment import (
    CLEANED_ENDING,
    LOG_SUFFIX,
    BatchPlace,
    Segment,
    segment_name,
)
from broker.storage.txn_index import AbortedTransaction
from pylog.errors import CorruptMessage
from pylog.records.batch import HEADER_SIZE, BatchHeader, crc_matches, read_header
from pylog.records.compression import DECOMPRESSED_BYTES_MAX
from pylog.records.sections import Section, open_section

_WINDOW: Final = 1024 * 1024
_WRITE_BYTES: Final = 1024 * 1024


@dataclass(slots=True)
class _Transactions:
    """What the batches read so far say about transactions: who is inside one that was aborted, and
    whose transaction still has records.
    """

    waiting: list[AbortedTransaction]
    inside: dict[int, AbortedTransaction] = field(default_factory=dict)
    with_records: set[int] = field(default_factory=set)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch belongs to an aborted transaction."""
        while self.waiting and self.waiting[0].first_offset <= header.last_offset:
            entry = self.waiting.pop(0)
            self.inside[entry.producer_id] = entry
        entry_now = self.inside.get(header.producer_id)
        return (
            entry_now is not None
            and header.is_transactional
            and not header.is_control
            and entry_now.first_offset <= header.base_offset <= entry_now.last_offset
        )

    def marker(self, header: BatchHeader) -> bool:
        """A marker: whether records of its transaction are still there."""
        self.inside.pop(header.producer_id, None)
        held = header.producer_id in self.with_records
        self.with_records.discard(header.producer_id)
        return held


class Rewriting:
    """The steps of one pass: `note_keys`, then `clean` for each of `groups`. Both raise OSError and
    PylogError, CorruptSegment among them.
    """

    def __init__(self, files: Files, plan: CleanPlan, map_bytes: int, seed: bytes) -> None:
        self.stats = CleanStats()
        self.clean_to = plan.first_dirty
        """Up to here keys were noted: the log is clean so far when the pass has ended."""
        self.groups: list[tuple[Source, ...]] = []
        self.unfinished: Segment | None = None
        self._plan = plan
        self._files = files
        self._map_bytes = map_bytes
        self._seed = seed
        self._map: OffsetMap | None = None
        self._transactions = _Transactions(sorted(plan.aborted, key=lambda entry: entry[1]))

    # ---- the newest offset of each key ----------------------------------------------------------

    def note_keys(self) -> None:
        """Read the dirty part, and say which segments are to be written anew."""
        plan = self._plan
        records = plan.end_offset - plan.first_dirty
        found = OffsetMap(self._map_bytes, records, self._seed)
        transactions = _Transactions(sorted(plan.aborted, key=lambda entry: entry[1]))
        full = False
        for source in plan.sources:
            if source.end_offset <= plan.first_dirty or full:
                continue
            for header, batch in self._batches(source):
                aborted = transactions.is_aborted(header)
                if header.is_control:
                    transactions.marker(header)
                elif (
                    header.last_offset >= plan.first_dirty and header.record_count and (not aborted)
                ):
                    section = open_section(batch, 0, header, max_bytes=DECOMPRESSED_BYTES_MAX)
                    if not found.put(section, header):
                        full = True
                        break
                self.clean_to = max(self.clean_to, header.last_offset + 1)
        if full and self.clean_to == plan.first_dirty:
            raise CorruptSegment(
                f"{plan.directory}: the batch at offset {self.clean_to} has more keys than "
                f"log.cleaner.dedupe.buffer.size={self._map_bytes} takes ({found.room}); raise it"
            )
        if not full:
            self.clean_to = plan.end_offset
        self._map = found
        self.stats.keys = len(found)
        self.groups = list(self._grouped())

    def _grouped(self) -> Iterator[tuple[Source, ...]]:
        """Segments that become one together: what is left of them fits by any measure."""
        plan = self._plan
        group: list[Source] = []
        entries_max = plan.index_bytes // 12 - 1
        for source in plan.sources:
            if source.base_offset >= self.clean_to:
                break
            size = sum(s.size for s in group) + source.size
            entries = size // max(1, plan.index_interval_bytes)
            if group and (
                size > plan.segment_bytes
                or entries > entries_max
                or source.end_offset - 1 - group[0].base_offset > RELATIVE_MAX
            ):
                yield tuple(group)
                group = []
            group.append(source)
        if group:
            yield tuple(group)

    # ---- one new segment ------------------------------------------------------------------------

    def clean(self, group: Sequence[Source]) -> Cleaned:
        """What is left of some segments, as one."""
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
        last_offset = group[-1].end_offset - 1
        aborted = []
        for source in group:
            for header, batch in self._batches(source):
                self.stats.bytes_read += header.size
                self.stats.records_read += header.record_count
                kept = self._kept(header, batch, is_last=header.last_offset == last_offset)
                changed = changed or kept is not batch
                if kept is None:
                    continue
                new = read_header(kept)
                self.stats.records_kept += new.record_count
                place = BatchPlace(len(kept), new.base_offset, new.last_offset, new.max_timestamp)
                pending.append((place, kept))
                waiting += len(kept)
                if header.is_control and new.record_count:
                    aborted += [e for e in plan.aborted if e.last_offset == header.base_offset]
                if waiting >= _WRITE_BYTES:
                    self._write(segment, pending)
                    pending, waiting = [], 0
        self._write(segment, pending)
        segment.txn_index.replace(aborted)
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
            self.stats.bytes_written += sum(len(batch) for _, batch in batches)

    def _kept(self, header: BatchHeader, batch: bytes, *, is_last: bool) -> bytes | None:
        """What stays of a batch: itself, a smaller one, an empty one, or nothing.

        The last batch of each new segment stays in any case, so that it ends where the old ones
        did; and the last one of each producer, so that its sequences are known.
        """
        plan = self._plan
        transactions = self._transactions
        aborted = transactions.is_aborted(header)
        must_stay = is_last or plan.producers_last.get(header.producer_id) == header.last_offset
        nothing = empty_batch(header) if must_stay else None
        if nothing is not None and not header.record_count:
            nothing = batch
        if header.base_offset >= self.clean_to:
            if header.is_transactional and not header.is_control and not aborted:
                transactions.with_records.add(header.producer_id)
            return batch
        if header.is_control:
            return self._kept_marker(header, batch, nothing)
        if aborted or not header.record_count:
            return nothing
        section = open_section(batch, 0, header, max_bytes=DECOMPRESSED_BYTES_MAX)
        kept = self._filtered(section, header, batch)
        if kept is None:
            return nothing
        if header.is_transactional:
            transactions.with_records.add(header.producer_id)
        return kept

    def _filtered(self, section: Section, header: BatchHeader, batch: bytes) -> bytes | None:
        assert self._map is not None
        fields = fields_of(section, header)
        horizon = delete_horizon(header)
        kept, count, tombstones = self._map.select(
            section,
            header,
            fields,
            end_offset=self.clean_to,
            keeps_tombstones=horizon is None or horizon > self._plan.wall_ms,
        )
        if not count:
            return None
        new_horizon = None
        if tombstones and horizon is None:
            new_horizon = self._plan.wall_ms + self._plan.delete_retention_ms
        if count == header.record_count and new_horizon is None:
            return batch
        return filtered_batch(section, header, fields, kept, new_horizon)

    def _kept_marker(
        self, header: BatchHeader, batch: bytes, nothing: bytes | None
    ) -> bytes | None:
        """A marker stays while records of its transaction do, and `delete.retention.ms` longer."""
        if self._transactions.marker(header) or not header.record_count:
            return batch if header.record_count else nothing
        if read_marker(batch, header) is None:
            return batch  # not the end of a transaction: not ours to judge
        horizon = delete_horizon(header)
        if horizon is None:
            section = Section(batch, HEADER_SIZE, len(batch))
            fields = fields_of(section, header)
            everything = (fields[0] == fields[0]).astype("u1")
            until = self._plan.wall_ms + self._plan.delete_retention_ms
            return filtered_batch(section, header, fields, everything, until)
        return batch if horizon > self._plan.wall_ms else nothing

    # ---- reading --------------------------------------------------------------------------------

    def _batches(self, source: Source) -> Iterator[tuple[BatchHeader, bytes]]:
        """Every batch of a full segment, its CRC checked. CorruptSegment."""
        path = f"{self._plan.directory}/{segment_name(source.base_offset)}{LOG_SUFFIX}"
        handle = self._files.open(path)
        try:
            position = 0
            window, start = b"", 0
            while position < source.size:
                at = position - start
                if at + HEADER_SIZE > len(window):
                    wanted = min(_WINDOW, source.size - position)
                    window, start, at = self._files.pread(handle, wanted, position), position, 0
                try:
                    header = read_header(window, at)
                except CorruptMessage as error:
                    raise CorruptSegment(f"{path} is damaged at {position}: {error}") from error
                if at + header.size > len(window):
                    wanted = min(max(_WINDOW, header.size), source.size - position)
                    window, start, at = self._files.pread(handle, wanted, position), position, 0
                if not crc_matches(window, at, header):
                    raise CorruptSegment(
                        f"{path} is damaged at {position}: the batch of offsets "
                        f"{header.base_offset} to {header.last_offset} does not match its CRC"
                    )
                yield header, window[at : at + header.size]
                position += header.size
        finally:
            self._files.close(handle)
