"""Records of coordinators as Apache Kafka 4.2 writes and shows them, to compare ours with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

COORDINATOR_RECORDS = Path(__file__).parents[1] / "golden" / "kafka_coordinator" / "records.jsonl"
"""A line of JSON for each: `record key value key_bytes value_bytes`."""


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def by_our_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {snake(name): by_our_names(each) for name, each in value.items()}
    return [*map(by_our_names, value)] if isinstance(value, list) else value


def covers(ours: Any, kafkas: Any) -> bool:
    """Whether all that Kafka shows is the same: it leaves out tagged fields that are not set, and
    fields that a version does not have.
    """
    if isinstance(kafkas, dict):
        return isinstance(ours, dict) and all(
            name in ours and covers(ours[name], each) for name, each in kafkas.items()
        )
    if isinstance(kafkas, list):
        return len(ours) == len(kafkas) and all(map(covers, ours, kafkas))
    return bool(ours == kafkas)
