"""The last pass of a start: what was cut or is behind is written and synced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pylog.model import Offset
from pylog_broker.storage.checkpoints.leader_epochs import LeaderEpochCache
from pylog_broker.storage.files import Files
from pylog_broker.storage.recovery.last_stop import Knowledge, RecoveryReport, warned
from pylog_broker.storage.recovery.segment_scan import Scanned
from pylog_broker.storage.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class Settled:
    """All segments of the log, ready to be used, and its epochs."""

    segments: tuple[Segment, ...]
    epochs: LeaderEpochCache
    report: RecoveryReport


def settle(
    files: Files, known: Knowledge, trusted: Sequence[Segment], scanned: Scanned, *, bytes_cut: int
) -> Settled:
    """Sync what was changed, bring the index files in order, keep few handles open. `bytes_cut`:
    by all passes together. OSError, BadBatch.
    """
    segments = (*trusted, *(read.segment for read in scanned.read))
    if not segments:
        return Settled((), scanned.epochs, RecoveryReport())
    active, end = segments[-1], segments[-1].end_offset
    told: list[RecoveryReport] = []
    recovered = known.stop.verify_from is not None
    if recovered and end < known.recovery_point:
        message = (
            f"{known.directory} ends at offset {end}; up to {known.recovery_point} it had "
            "been synced, so this replica has lost records"
        )
        told += [RecoveryReport(lost_durable=True), warned(message)]
    if recovered and (bytes_cut or not known.stop.memory_survived):
        for segment in segments:
            if segment.end_offset > known.stop.recovery_point or segment is active:
                segment.fsync()
        files.fsync_dir(known.directory)
    epochs = with_stored_epochs(known.checkpoint, scanned.epochs, scanned.epochs_agree, end)
    for read in scanned.read:
        segment = read.segment
        if segment is not active:
            segment.note_sealed()
        if read.indexes_hold:
            segment.indexes.load(segment.size, segment.end_offset)
        elif not segment.index_files_match():
            segment.write_indexes(behind_only=False)
            told.append(RecoveryReport(indexes_rebuilt=1))
    for segment in segments[:-1]:
        segment.rest()
    active.activate()
    return Settled(segments, epochs, RecoveryReport.total(told))


def with_stored_epochs(
    checkpoint: LeaderEpochCache, epochs: LeaderEpochCache, agree: bool, end: int
) -> LeaderEpochCache:
    """The epochs of a log that ends at `end`, with those that the checkpoint knows and no batch can
    show: an epoch that began at the log's end and wrote nothing, and epochs whose first records the
    cleaner took.
    """
    latest = checkpoint.latest_entry
    if latest is None:
        return epochs
    if agree:
        epochs = LeaderEpochCache(checkpoint.entries)
        epochs.truncate_from_end(Offset(end))
    if latest.epoch > epochs.latest and latest.start_offset == end:
        epochs.assign(latest.epoch, latest.start_offset)
    return epochs
