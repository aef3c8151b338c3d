"""Opening a log: what a partition directory holds, cut to what is whole. In passes, each of which
takes what is known and returns what it found:

1. `survey`: the names. Leftovers go, segments are put in order;
2. `trust`: the plan. Segments that nothing can have happened to are trusted: all of them after a
   clean stop whose files are as it left them, those below the recovery point after a crash. The
   rest is to be read. Where files contradict each other a second plan trusts nothing;
3. here: what is known where reading begins, the epochs of the checkpoint and the producers' newest
   snapshot, and what trusted batches say after it;
4. `segment_scan`: the rest is read, with CRCs where the last stop was not a clean one, from the
   recovery point on: that makes indexes, epochs and producers' state anew, and finds gaps;
5. `settling`: what was cut or is behind is written and synced.

The outcome of pass 4 decides:

- bytes that are no batch, and nothing valid behind them: a torn tail (zeros, garbage, a cut batch).
  It is cut; what was not zero is kept once in `<segment>.log.cut`;
- the same with valid batches behind: after a loss of power, behind the recovery point, pages may
  have been written out of order, and everything from there on is cut. Otherwise the middle of the
  log has rotted: nothing is cut, and the log opens with a hole there (`Segment.holes`);
- no batch and nothing behind it, in a log that was closed cleanly: CorruptSegment, nothing is cut;
- a segment without a batch inside the one before it: a roll that was given up left it, and the log
  went on in the one before. It is removed, be it empty or preallocated;
- a segment missing, overlapping or misnamed: CorruptSegment names the files.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pylog.model import Offset
from pylog_broker.config import TopicConfig
from pylog_broker.storage.checkpoints.checkpoints import EPOCH_CHECKPOINT, read_epochs
from pylog_broker.storage.checkpoints.leader_epochs import LeaderEpochCache
from pylog_broker.storage.files import Files
from pylog_broker.storage.indexes.txn_index import AbortedTransaction
from pylog_broker.storage.producers.producer_history import ProducerHistory, headers
from pylog_broker.storage.recovery.gaps import Gaps
from pylog_broker.storage.recovery.last_stop import Knowledge, LastStop, RecoveryReport
from pylog_broker.storage.recovery.segment_files import SegmentFiles
from pylog_broker.storage.recovery.segment_scan import scan_segments
from pylog_broker.storage.recovery.settling import settle
from pylog_broker.storage.recovery.survey import GAPS_ALLOWED, PARTITION_METADATA, survey
from pylog_broker.storage.recovery.trust import Distrust, TrustPlan, plan_trust
from pylog_broker.storage.segments.scan import BadBatch
from pylog_broker.storage.segments.segment import Segment

__all__ = ["GAPS_ALLOWED", "PARTITION_METADATA", "LastStop", "RecoveryReport", "recover"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The segments of a log in order, none when the directory holds none, and its epochs, which say
    whether the checkpoint is behind. `unindexed`: segments whose index of aborted transactions
    found no room, in order, and the entries that each must get before anybody reads them.
    """

    segments: tuple[Segment, ...]
    epochs: LeaderEpochCache
    report: RecoveryReport
    unindexed: tuple[tuple[Segment, tuple[AbortedTransaction, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class _Begun:
    """A plan that was carried out: the trusted segments, and the epochs where reading begins."""

    plan: TrustPlan
    trusted: tuple[Segment, ...]
    epochs: LeaderEpochCache
    report: RecoveryReport


def recover(
    files: Files,
    directory: str,
    config: TopicConfig,
    last_stop: LastStop,
    producers: ProducerHistory,
    *,
    wall_ms: int,
    log_start_offset: int | None = None,
) -> Recovered:
    """What the directory holds; the producers' history is at the log's end afterwards.

    Raises OSError, BadBatch, and CorruptSegment for what cannot be a log.
    """
    gaps = Gaps(files, directory)
    gaps.load()
    checkpoint = LeaderEpochCache(read_epochs(files, f"{directory}/{EPOCH_CHECKPOINT}"))
    found = survey(files, directory)
    producers.find(found.names)
    first = found.bases[0] if found.bases else 0
    known = Knowledge(
        directory=directory,
        stop=last_stop,
        log_start=log_start_offset,
        begins_at=first if log_start_offset is None else log_start_offset,
        gaps_allowed=config.compacted or last_stop.cleaned or gaps.allowed,
        recovery_point=max(last_stop.recovery_point, gaps.synced_to),
        checkpoint=checkpoint,
    )
    told = [RecoveryReport(warnings=found.warnings)]
    shelf = SegmentFiles(files, directory, config, wall_ms)
    try:
        begun = _begin(shelf, known, plan_trust(known, found.bases, shelf.look), producers)
        if isinstance(begun, Distrust):
            logger.warning("%s: %s; all of it is read", directory, begun.reason)
            told.append(begun.report)
            shelf.close()
            left = tuple(base for base in found.bases if base not in begun.gone)
            plan = plan_trust(known, left, shelf.look, trusts=False)
            begun = _begin(shelf, known, plan, producers)
            assert isinstance(begun, _Begun), begun
        scanned = scan_segments(shelf, known, begun.plan, begun.trusted, begun.epochs, producers)
        told += [begun.report, scanned.report]
        bytes_cut = RecoveryReport.total(told).bytes_cut
        settled = settle(files, known, begun.trusted, scanned, bytes_cut=bytes_cut)
    except BaseException:
        shelf.close()
        raise
    settled.epochs.changed = settled.epochs.entries != checkpoint.entries
    report = RecoveryReport.total([*told, settled.report])
    unindexed = tuple((read.segment, read.unindexed) for read in scanned.read if read.unindexed)
    return Recovered(settled.segments, settled.epochs, report, unindexed)


def _begin(
    shelf: SegmentFiles, known: Knowledge, plan: TrustPlan | Distrust, producers: ProducerHistory
) -> _Begun | Distrust:
    """The third pass: carry the plan out, and take what is known where reading begins."""
    if isinstance(plan, Distrust):
        return plan
    trusted, cleared = shelf.carry_out(plan)
    epochs = LeaderEpochCache(known.checkpoint.entries if trusted else ())
    epochs.truncate_from_end(Offset(plan.read_from))
    bases = (segment.base_offset for segment in trusted)
    used = producers.load(bases, plan.read_from, keeps_later=known.stop.in_order)
    try:
        for header, marker in headers(shelf.files, trusted, used):
            producers.apply(header, marker)
    except BadBatch as bad:
        return Distrust(f"a batch at position {bad.position}: {bad.reason}", plan.gone, cleared)
    report = RecoveryReport(segments_trusted=len(trusted), has_gaps=plan.has_gaps)
    report = RecoveryReport.total([cleared, report])
    return _Begun(plan, tuple(trusted), epochs, report)
