"""The output of Kafka's dump tool for the directories in `kafka/`, as plain data.

Nothing of pylog is used here: these are the facts that pylog's readers are compared with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "kafka"

_FIELD: Final = re.compile(r"(\w+): (OptionalLong\[-?\d+\]|OptionalLong\.empty|\S+)")
_RECORD: Final = re.compile(
    r"\| offset: (?P<offset>\d+) \w+: (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+) "
    r"valueSize: (?P<value_size>-?\d+) sequence: (?P<sequence>-?\d+)"
    r"(?: headerKeys: \[(?P<headers>.*?)\])?(?P<rest>.*)"
)


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """One line of a record. `key` and `value` are None for null; a long value is its digest."""

    offset: int
    timestamp: int
    sequence: int
    key_size: int
    value_size: int
    header_keys: tuple[str, ...]
    key: str | None
    value: str | None
    marker: str | None  # COMMIT or ABORT


@dataclass(frozen=True, slots=True)
class DumpedBatch:
    """One line of a batch, its fields by the tool's names, and the records below it."""

    fields: dict[str, str]
    records: list[DumpedRecord] = field(default_factory=list)

    def number(self, name: str) -> int:
        return int(self.fields[name])

    def flag(self, name: str) -> bool:
        return self.fields[name] == "true"


@dataclass(frozen=True, slots=True)
class Dump:
    """One partition directory, each file by its name."""

    logs: dict[str, list[DumpedBatch]]
    rows: dict[str, list[dict[str, str]]]
    """Lines of indexes and snapshots, their fields by the tool's names."""


@cache
def dump(directory: str) -> Dump:
    """The dump of a directory such as `clean/plain-0`."""
    logs: dict[str, list[DumpedBatch]] = {}
    rows: dict[str, list[dict[str, str]]] = {}
    name = ""
    # Not splitlines: a value may hold any character, also those that it takes for line ends.
    for line in (FOLDER / "dumps" / f"{directory}.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("Dumping "):
            name = line.removeprefix("Dumping ")
            if name.endswith(".log"):
                logs[name] = []
            else:
                rows[name] = []
        elif line.startswith("| "):
            logs[name][-1].records.append(_record(line))
        elif line.startswith("baseOffset: "):
            logs[name].append(DumpedBatch(dict(_FIELD.findall(line))))
        elif name.endswith(".log"):
            assert line in ("",) or line.startswith("Log starting offset"), line
        elif line and not line.endswith("is empty."):
            fields = dict(_FIELD.findall(line))
            assert fields, line
            rows[name].append(fields)
    return Dump(logs, rows)


def _record(line: str) -> DumpedRecord:
    found = _RECORD.fullmatch(line)
    assert found, line
    rest, key_size, value_size = found["rest"], int(found["key_size"]), int(found["value_size"])
    marker = re.match(r" endTxnMarker: (\w+) ", rest)
    key = value = None
    if marker is None:
        if key_size >= 0:
            rest = rest.removeprefix(" key: ")
            key = rest[:key_size]  # the keys are ASCII
            rest = rest[key_size:]
        if value_size >= 0:
            value = rest.removeprefix(" payload: ")
    headers = tuple(found["headers"].split(",")) if found["headers"] else ()
    return DumpedRecord(
        int(found["offset"]),
        int(found["timestamp"]),
        int(found["sequence"]),
        key_size,
        value_size,
        headers,
        key,
        value,
        marker[1] if marker else None,
    )
