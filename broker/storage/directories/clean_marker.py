"""The clean-stop marker: that everything is synced and closed, and what it was that was closed.

Kafka's file (`.kafka_cleanshutdown`, JSON with `version` and `brokerEpoch`). pylog adds what each
log consists of: size and time of every file, so that files changed behind a clean stop are
noticed, and what each segment amounts to, so that an unchanged log is opened without being read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pylog_broker.storage.checkpoints.checkpoints import EPOCH_CHECKPOINT
from pylog_broker.storage.files import Files
from pylog_broker.storage.recovery.survey import GAPS_ALLOWED
from pylog_broker.storage.segments.segment import CACHE_SUFFIXES, LOG_SUFFIX, Segment, SegmentFacts

CLEAN_MARKER: Final = ".kafka_cleanshutdown"

_VERSION: Final = 0

logger = logging.getLogger(__name__)


class ClosedLog(NamedTuple):
    """A log as a clean stop left it: [size, time in ns] by file name, facts by base offset."""

    files: dict[str, list[int]]
    facts: dict[int, SegmentFacts]


class CleanMarker(NamedTuple):
    """The words of a marker. `by_kafka`: Kafka's own, which does not say what was closed."""

    logs: dict[str, ClosedLog]
    by_kafka: bool = False


def closed_log(files: Files, directory: str, segments: Iterable[Segment]) -> ClosedLog:
    """The facts about a closed log."""
    return ClosedLog(
        _stats(files, directory), {segment.base_offset: segment.facts for segment in segments}
    )


def _stats(files: Files, directory: str) -> dict[str, list[int]]:
    stats = {}
    for name in files.listdir(directory):
        if name.endswith((LOG_SUFFIX, *CACHE_SUFFIXES)) or name in (EPOCH_CHECKPOINT, GAPS_ALLOWED):
            status = files.stat(f"{directory}/{name}")
            if status is not None:
                stats[name] = [status.size, status.modified_ns]
    return stats


def unchanged(files: Files, directory: str, closed: ClosedLog) -> tuple[bool, bool]:
    """Whether the segments in a partition directory are those that the marker saw; and whether all
    the rest is too, so that the facts hold.
    """
    found = _stats(files, directory)
    same_logs = all(
        found.get(name) == closed.files.get(name)
        for name in {*found, *closed.files}
        if name.endswith(LOG_SUFFIX)
    )
    return same_logs, found == closed.files and bool(closed.facts)


def write_clean_marker(files: Files, directory: str, logs: Mapping[str, ClosedLog]) -> None:
    """Say that everything is synced and closed."""
    content = {
        "version": _VERSION,
        "brokerEpoch": -1,
        "logs": {
            name: {"files": log.files, "segments": {str(b): list(f) for b, f in log.facts.items()}}
            for name, log in logs.items()
        },
    }
    data = json.dumps(content, sort_keys=True, separators=(",", ":")).encode("utf-8")
    files.write_atomic(f"{directory}/{CLEAN_MARKER}", data)


def take_clean_marker(files: Files, directory: str) -> CleanMarker | None:
    """The words of the marker; None without one. It is gone, durably, when this returns: a crash
    while loading must not look like a clean stop.
    """
    path = f"{directory}/{CLEAN_MARKER}"
    if not files.exists(path):
        return None
    marker = CleanMarker({})
    try:
        content = json.loads(files.read_all(path))
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']}")
        if "logs" in content:
            marker = CleanMarker({name: _decode(log) for name, log in content["logs"].items()})
        else:
            marker = CleanMarker({}, by_kafka=True)
            logger.info("%s is Apache Kafka's: every log is read", path)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        logger.warning("%s made no sense (%s): every log is checked", path, error)
    files.unlink(path)
    files.fsync_dir(directory)
    return marker


def _decode(log: dict[str, dict[str, list[int]]]) -> ClosedLog:
    facts = {int(base): SegmentFacts(*fields) for base, fields in log["segments"].items()}
    return ClosedLog(log["files"], facts)
