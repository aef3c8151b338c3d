"""Kafka's own dump tool over partition directories: everything that it finds wrong.

The tool prints a line for each thing that it sees, complains in between in a dozen ways, and says
nothing of bytes that it did not look at. So what is not an expected line is a complaint, and the
batches and entries that it printed must add up to the size of the file. Two of its complaints are
about compaction itself, and come for what Kafka's own cleaner wrote, too: those are left out.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_TOOL: Final = "kafka.tools.DumpLogSegments"
_TIMEOUT_S: Final = 300

_ENTRY_BYTES: Final = {".index": 8, ".timeindex": 12, ".txnindex": 34, ".snapshot": 46}
_ENTRIES: Final = {
    ".index": re.compile(r"offset: \d+ position: \d+"),
    ".timeindex": re.compile(r"timestamp: -?\d+ offset: \d+"),
    ".txnindex": re.compile(
        r"version: 0 producerId: \d+ firstOffset: \d+ lastOffset: \d+ lastStableOffset: \d+"
    ),
    ".snapshot": re.compile(r"producerId: \d+ producerEpoch: -?\d+ coordinatorEpoch: .*"),
}
_SNAPSHOT_HEAD_BYTES: Final = 10
_BATCH: Final = re.compile(r"baseOffset: .* size: (\d+) magic: 2 compresscodec: \w+ crc: \d+ (.*)")
_OF_COMPACTION: Final = re.compile(
    r"(?:Found timestamp mismatch in :|Non-consecutive offsets in )(.*)"
)
_OF_EMPTY_BATCH: Final = re.compile(
    r"  (?:Index timestamp: \d+, log timestamp: -1|\d+ is followed by \d+)"
)
_RECORD: Final = re.compile(r"\| offset: \d+ .*")


def files_of(directory: Path) -> list[Path]:
    """The files of a partition directory that the tool can read."""
    return sorted(
        path
        for path in directory.iterdir()
        if path.suffix in SUFFIXES and re.fullmatch(r"\d{20}", path.stem)
    )


def run(libs: Path, files: Iterable[Path], *options: str) -> tuple[str, str]:
    """The tool's output about the files, and its errors, its exit status included."""
    names = ",".join(map(str, files))
    command = ["java", "-cp", f"{libs}/*", _TOOL, "--files", names, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    end = f"ended with {done.returncode}\n" if done.returncode else ""
    return done.stdout, done.stderr + end


def complaints(printed: str, sizes: Mapping[str, int]) -> list[str]:
    """The faults in the output of `--deep-iteration` over files of these sizes, by path."""
    found: list[str] = []
    seen: dict[str, int] = {}
    name, suffix = "", ""
    for line in printed.split("\n"):
        if line.startswith("Dumping "):
            name = line.removeprefix("Dumping ")
            suffix = Path(name).suffix
            seen[name] = _SNAPSHOT_HEAD_BYTES if suffix == ".snapshot" else 0
        elif suffix == ".log" and (batch := _BATCH.fullmatch(line)):
            seen[name] += int(batch[1])
            if batch[2] != "isvalid: true":
                found.append(f"{name}: {line}")
        elif suffix in _ENTRIES and _ENTRIES[suffix].fullmatch(line.rstrip()):
            seen[name] += _ENTRY_BYTES[suffix]
        elif not _is_quiet(line, suffix):
            found.append(f"{name}: {line}")
    found += [
        f"{path}: {seen.get(path, 0)} of its {size} bytes were seen"
        for path, size in sizes.items()
        if seen.get(path) != size
    ]
    return found


def _is_quiet(line: str, suffix: str) -> bool:
    if not line or line.endswith(" is empty."):
        return True
    return suffix == ".log" and bool(
        _RECORD.fullmatch(line) or line.startswith("Log starting offset: ")
    )


def error_complaints(errors: str) -> list[str]:
    """The faults in its last words, but for those that are true of every compacted log.

    Such a log has holes between its offsets. And when the cleaner has taken all records of a batch
    that must stay (a producer's last), the batch and its index entry keep a timestamp which no
    record has.
    """
    found: list[str] = []
    of_compaction = False
    for line in errors.split("\n"):
        if not line.startswith("  "):
            block = _OF_COMPACTION.fullmatch(line)
            of_compaction = block is not None and is_cleaned(Path(block[1]).parent)
            head = line
        if not line or (of_compaction and (line == head or _OF_EMPTY_BATCH.fullmatch(line))):
            continue
        found.append(line if line == head else f"{head} {line.strip()}")
    return found


def is_cleaned(directory: Path) -> bool:
    """Whether a cleaner has been over that partition, by the checkpoint beside it."""
    checkpoint = directory.parent / "cleaner-offset-checkpoint"
    topic, _, partition = directory.name.rpartition("-")
    return checkpoint.exists() and any(
        line.startswith(f"{topic} {partition} ") for line in checkpoint.read_text().splitlines()
    )


def sanity_complaints(printed: str, files: Iterable[Path]) -> list[str]:
    """The faults in the output of `--index-sanity-check`."""
    lines = dict.fromkeys(printed.split("\n"))
    lines.pop("", None)
    found = []
    for file in map(str, files):
        lines.pop(f"Dumping {file}", None)
        words = f"{file} passed sanity check.", f"{file} is empty."
        if not any(word in lines for word in words):
            found.append(f"{file}: its sanity was not confirmed")
        for word in words:
            lines.pop(word, None)
    return found + list(lines)


def check(libs: Path, directories: Iterable[Path]) -> tuple[int, list[str]]:
    """(number of files, complaints): deep iteration and the indexes' sanity checks."""
    files = [file for directory in directories for file in files_of(directory)]
    indexes = [file for file in files if file.suffix in (".index", ".timeindex")]
    sizes = {str(file): file.stat().st_size for file in files}
    printed, errors = run(libs, files, "--deep-iteration")
    found = complaints(printed, sizes) + error_complaints(errors)
    printed, errors = run(libs, indexes, "--index-sanity-check")
    return len(files), found + sanity_complaints(printed, indexes) + error_complaints(errors)
