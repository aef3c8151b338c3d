"""Events and effects of the cores as short text: for transcripts, and for the simulator's reports.

A value is its name and what it says: `Fetch(1, 2, 500, [t-0 5 ...], lane=1)`. Batches are told by
their place: `t-0#3+2` are the two records from sequence 3 on.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from pylog.client.answers import Answer
from pylog.client.sending.producer_batch import Batch
from pylog.errors import CorruptMessage, PylogError
from pylog.model import TopicPartition
from pylog.records.batch import iter_headers

BYTES_MAX = 4_096


def short_text(value: Any) -> str:
    """The value in one line, without addresses: the same in each run."""
    match value:
        case Batch():
            place = "?" if value.base_sequence < 0 else str(value.base_sequence)
            return f"{value.topic_partition}#{place}+{value.count}"
        case TopicPartition() | bool() | int() | float() | None:
            return str(value)
        case str():
            return repr(value)
        case PylogError():
            return f"{value.name}: {value}"
        case bytes() | memoryview():
            return _bytes(value)
        case frozenset() | set():
            return "{" + ", ".join(sorted(map(short_text, value))) + "}"
        case dict():
            pairs = (f"{short_text(key)}: {short_text(one)}" for key, one in value.items())
            return "{" + ", ".join(pairs) + "}"
        case tuple() if hasattr(value, "_fields"):
            defaults = type(value)._field_defaults
            return _call(value, [(name, getattr(value, name), defaults) for name in value._fields])
        case tuple() | list():
            return "[" + ", ".join(map(short_text, value)) + "]"
        case _ if is_dataclass(value):
            named = {field.name: field.default for field in fields(value)}
            return _call(value, [(name, getattr(value, name), named) for name in named])
        case _:
            return type(value).__name__


def _call(value: Any, said: list[tuple[str, Any, dict[str, Any]]]) -> str:
    """Without what is as by default, and without answers that are still to come."""
    words = [
        f"{name}={short_text(one)}"
        for name, one, defaults in said
        if not (name in defaults and defaults[name] == one) and not isinstance(one, Answer)
    ]
    return f"{type(value).__name__}({', '.join(words)})"


def _bytes(value: bytes | memoryview) -> str:
    """The offsets of the record batches that it is."""
    if not len(value):
        return "no bytes"
    try:
        headers = [header for _, header in iter_headers(bytes(value[:BYTES_MAX]))]
    except CorruptMessage:
        return f"{len(value)} bytes"
    return " ".join(f"{h.base_offset}..{h.last_offset}@{h.partition_leader_epoch}" for h in headers)
