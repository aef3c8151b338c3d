"""Kafka's own dump tool over partition directories: everything that it finds wrong.

The tool prints a line for each thing that it sees, complains in between in a dozen ways, and says
nothing of bytes that it did not look at. So what is not an expected line is a complaint, and the
batches and entries that it printed must add up to the size of the file.
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
_RECORD: Final = re.compile(r"\| offset: \d+ .*")


def files_of(directory: Path) -> list[Path]:
    """What the tool can read of a partition directory."""
    return sorted(
        path
        for path in directory.iterdir()
        if path.suffix in SUFFIXES and re.fullmatch(r"\d{20}", path.stem)
    )


def run(libs: Path, files: Iterable[Path], *options: str) -> str:
    """What the tool prints about the files, errors and its end included."""
    names = ",".join(map(str, files))
    command = ["java", "-cp", f"{libs}/*", _TOOL, "--files", names, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    printed = done.stdout + done.stderr
    return printed + (f"ended with {done.returncode}\n" if done.returncode else "")


def complaints(printed: str, sizes: Mapping[str, int]) -> list[str]:
    """What is wrong by the output of `--deep-iteration` over files of these sizes, by path."""
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


def sanity_complaints(printed: str, files: Iterable[Path]) -> list[str]:
    """What is wrong by the output of `--index-sanity-check`."""
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
    found = complaints(run(libs, files, "--deep-iteration"), sizes)
    return len(files), found + sanity_complaints(
        run(libs, indexes, "--index-sanity-check"), indexes
    )
