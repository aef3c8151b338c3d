"""The first pass of a start: the names in a partition directory, and the files that go.

Leftovers of deletions and of unfinished writes go. A cleaned segment whose log already bears
`.swap` is whole and synced: it takes the place of the segments that it was made of. An index
without a log goes. Foreign files are left alone, with one warning.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Final

from pylog_broker.storage.checkpoints.checkpoints import EPOCH_CHECKPOINT
from pylog_broker.storage.errors import CorruptSegment
from pylog_broker.storage.files import Files
from pylog_broker.storage.segments.scan import BadBatch, scan
from pylog_broker.storage.segments.segment import (
    CACHE_SUFFIXES,
    CLEANED_ENDING,
    CUT_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    PRODUCERS_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_ENDING,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)

PARTITION_METADATA: Final = "partition.metadata"
GAPS_ALLOWED: Final = "gaps-allowed"
"""A file of no content in a log that may have gaps between its batches: compaction left them, here
or on the leader that this replica copied from."""

_LEFTOVERS: Final = (DELETED_SUFFIX, ".tmp", CLEANED_ENDING, SWAP_ENDING)
_INDEXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_PRODUCERS: Final = (SNAPSHOT_SUFFIX, PRODUCERS_SUFFIX)
_SEGMENT_NAME: Final = re.compile(r"[0-9]{20}")
_KNOWN: Final = frozenset({EPOCH_CHECKPOINT, PARTITION_METADATA, GAPS_ALLOWED})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Survey:
    """The base offsets of the segments in order, all names that stay, and warnings."""

    bases: tuple[int, ...]
    names: tuple[str, ...]
    warnings: tuple[str, ...]


def survey(files: Files, directory: str) -> Survey:
    """Look at a partition directory and clear away what is left over.

    Raises OSError, and CorruptSegment for a segment whose name or kind makes no sense.
    """
    warnings = _finish_swaps(files, directory)
    names = files.listdir(directory)
    bases: list[int] = []
    kept: list[str] = []
    foreign = []
    for name in names:
        path = f"{directory}/{name}"
        stem, dot, extension = name.partition(".")
        suffix = dot + extension
        is_ours = _SEGMENT_NAME.fullmatch(stem) is not None
        if name.endswith(_LEFTOVERS):
            files.unlink(path)
            continue
        if suffix == LOG_SUFFIX:
            if not is_ours:
                raise CorruptSegment(f"{path}: a segment's name must be 20 digits")
            status = files.stat(path)
            if status is None or status.kind != "file":
                raise CorruptSegment(f"{path} is not a file; move it away")
            bases.append(int(stem))
        elif suffix in _INDEXES and is_ours:
            if f"{stem}{LOG_SUFFIX}" not in names:
                warnings.append(f"{path} has no segment: removed")
                files.unlink(path)
                continue
        elif not (suffix in _PRODUCERS and is_ours) and (
            name not in _KNOWN and not name.endswith(CUT_SUFFIX)
        ):
            foreign.append(name)
        kept.append(name)
    if foreign:
        warnings.append(f"{directory} holds what is not pylog's, ignored: {foreign[:10]}")
    for warning in warnings:
        logger.warning("%s", warning)
    return Survey(tuple(bases), tuple(kept), tuple(warnings))


def _finish_swaps(files: Files, directory: str) -> list[str]:
    """Put cleaned segments in their places; the warnings."""
    warnings = []
    ending = f"{LOG_SUFFIX}{SWAP_ENDING}"
    names = files.listdir(directory)
    for name in names:
        stem = name.removesuffix(ending)
        if name.endswith(ending) and _SEGMENT_NAME.fullmatch(stem):
            warnings.append(_finish_swap(files, directory, stem, names))
    if any(name.endswith(ending) for name in names):
        files.fsync_dir(directory)
    return warnings


def _finish_swap(files: Files, directory: str, stem: str, names: list[str]) -> str:
    path = f"{directory}/{stem}{LOG_SUFFIX}"
    end = _end_of(files, path + SWAP_ENDING)
    if end is None:
        if f"{stem}{LOG_SUFFIX}" not in names:
            raise CorruptSegment(f"{path}{SWAP_ENDING} is damaged, and what it replaces is gone")
        return f"{path}{SWAP_ENDING} is damaged: removed, {path} stays"
    replaced = [
        name
        for name in names
        if name.endswith(LOG_SUFFIX)
        and _SEGMENT_NAME.fullmatch(name.removesuffix(LOG_SUFFIX))
        and int(stem) <= int(name.removesuffix(LOG_SUFFIX)) < max(end, int(stem) + 1)
    ]
    for name in replaced:
        old = name.removesuffix(LOG_SUFFIX)
        for suffix in (LOG_SUFFIX, *CACHE_SUFFIXES):
            if not (old == stem and suffix in _PRODUCERS):
                files.unlink(f"{directory}/{old}{suffix}")
    for suffix in (*_INDEXES, LOG_SUFFIX):
        if files.exists(f"{directory}/{stem}{suffix}{SWAP_ENDING}"):
            files.rename(f"{directory}/{stem}{suffix}{SWAP_ENDING}", f"{directory}/{stem}{suffix}")
    return f"{path}: the end of its cleaning was made up for"


def _end_of(files: Files, path: str) -> int | None:
    """The offset behind a segment file's last batch, 0 without one; None when it is damaged."""
    handle = files.open(path)
    try:
        end = 0
        for _, header in scan(files, handle, 0, files.size(handle), verify=True):
            end = header.last_offset + 1
    except BadBatch:
        return None
    finally:
        files.close(handle)
    return end
