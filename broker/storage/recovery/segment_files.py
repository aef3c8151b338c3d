"""The segment files of a log that is opened: looked at, and set aside where they go.

Not here: the reasons. The plan and the scan decide (`trust`, `segment_scan`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from pylog.records.batch import BatchHeader
from pylog_broker.config import TopicConfig
from pylog_broker.storage.files import NO_ROOM, Files
from pylog_broker.storage.recovery.last_stop import RecoveryReport, warned
from pylog_broker.storage.recovery.trust import Look, Step, TrustPlan
from pylog_broker.storage.segments.scan import BadBatch, only_zeros
from pylog_broker.storage.segments.segment import CUT_SUFFIX, Segment, SegmentFacts
from pylog_broker.storage.segments.segment_facts import read_facts

_CUT_KEPT_MAX: Final = 16 * 1024 * 1024


class _Visited(NamedTuple):
    segment: Segment
    size: int


class SegmentFiles:
    """The segments of one directory. One that was asked for stays open until `close`, or until the
    log has it; its size is looked up once. Every method may raise OSError.
    """

    def __init__(self, files: Files, directory: str, config: TopicConfig, wall_ms: int) -> None:
        self.files = files
        self.directory = directory
        self.wall_ms = wall_ms
        self.look = Look(self.size, self._holds_nothing, self.any_data, self._ends)
        self._config = config
        self._visited: dict[int, _Visited] = {}

    def close(self) -> None:
        """Give the handles of all segments back, and forget them."""
        for visited in self._visited.values():
            visited.segment.close()
        self._visited.clear()

    # ---- looks ----------------------------------------------------------------------------------

    def segment(self, base: int) -> Segment:
        """The segment; always the same one."""
        return self._visit(base).segment

    def size(self, base: int) -> int:
        """The size of its file with the batches."""
        return self._visit(base).size

    def _visit(self, base: int) -> _Visited:
        visited = self._visited.get(base)
        if visited is None:
            segment = self._made(base)
            visited = self._visited[base] = _Visited(segment, self._size(segment))
        return visited

    def _made(self, base: int) -> Segment:
        return Segment(
            self.files,
            self.directory,
            base,
            index_interval_bytes=self._config.index_interval_bytes,
            created_ms=self.wall_ms,
        )

    def _size(self, segment: Segment) -> int:
        status = self.files.stat(segment.log_path)
        return status.size if status is not None else 0

    @contextmanager
    def glance(self, base: int) -> Iterator[_Visited]:
        """The segment and its size, only for a moment."""
        segment = self._made(base)
        try:
            yield _Visited(segment, self._size(segment))
        finally:
            segment.close()

    def any_data(self, bases: Sequence[int]) -> bool:
        """Whether any of these segments may hold a batch."""
        for base in bases:
            with self.glance(base) as visited:
                if not self._is_void(*visited):
                    return True
        return False

    def _holds_nothing(self, base: int) -> bool:
        return self._is_void(*self._visit(base))

    def _is_void(self, segment: Segment, size: int) -> bool:
        """Whether there was never a batch in a file: it is empty, or as it was preallocated."""
        return not size or only_zeros(self.files, segment.handle(), 0, size)

    def _ends(self, base: int) -> tuple[SegmentFacts, BatchHeader, BatchHeader] | None:
        return read_facts(self.files, *self._visit(base))

    # ---- what goes ------------------------------------------------------------------------------

    def carry_out(self, plan: TrustPlan) -> tuple[list[Segment], RecoveryReport]:
        """The segments that the plan trusts, and what became of those that it does not want."""
        segments = []
        for base, facts, _ in plan.adopted:
            segment = self.segment(base)
            segment.adopt(facts)
            segments.append(segment)
        told = [self.remove(base, step) for base, step in plan.removed]
        told += self.cut(plan.cut)
        return segments, RecoveryReport.total(told)

    def remove(self, base: int, step: Step) -> RecoveryReport:
        """Remove a segment that holds nothing."""
        segment = self.segment(base)
        report = warned(f"{segment.log_path} {step.value}")
        segment.unlink()
        return report

    def cut(self, bases: Sequence[int]) -> list[RecoveryReport]:
        """Set whole segments aside that follow a cut; those without a batch are removed."""
        told = []
        for base in reversed(bases):
            with self.glance(base) as (segment, size):
                if not self._is_void(segment, size):
                    kept = segment.log_path + CUT_SUFFIX
                    message = f"{segment.log_path} follows a cut: its {size} bytes go to {kept}"
                    told.append(warned(message, bytes_cut=size, segments_cut=1))
                    self.files.rename(segment.log_path, kept)
                segment.unlink()
        return told

    def cut_tail(self, segment: Segment, bad: BadBatch, size: int) -> RecoveryReport:
        """Cut a segment where its bytes are no batch any more; what was not zero is kept once."""
        handle = segment.handle()
        removed = size - bad.position
        tail = self.files.pread(handle, min(removed, _CUT_KEPT_MAX), bad.position)
        kept = segment.log_path + CUT_SUFFIX
        aside = ""
        if tail.strip(b"\0") and not self.files.exists(kept):
            aside = self._keep(kept, tail)
        self.files.truncate(handle, bad.position)
        return warned(
            f"{segment.log_path}: cut the last {removed} bytes from position {bad.position} "
            f"({bad.reason}){aside}",
            bytes_cut=removed,
        )

    def _keep(self, path: str, tail: bytes) -> str:
        """Put what is cut aside, for somebody to look at, if there is room; what to say of it."""
        try:
            self.files.write_atomic(path, tail)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.files.unlink(f"{path}.tmp")
            return "; there is no room to keep them"
        return f"; they are kept in {path}"
