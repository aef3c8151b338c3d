"""Where a read starts and ends: `earliest`, `latest`, or JSON with one offset per partition.

Pure: text to values, and values against what the cluster has. The shape is Spark's Kafka
connector's: `{"topic":{"0":23,"1":-2}}`, where -2 means earliest and -1 latest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from connector.errors import InvalidOption, UnknownTopic

EARLIEST: Final = -2
LATEST: Final = -1
OFFSET_MAX: Final = 2**63 - 1

Positions = int | Mapping[str, Mapping[int, int]]
"""`EARLIEST` or `LATEST` for every partition, or topic -> partition -> offset, -1 or -2."""


class _Duplicate(ValueError):
    pass


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise _Duplicate(f"the key {json.dumps(key)} stands there twice")
        found[key] = value
    return found


def parse_positions(option: str, text: str) -> Positions:
    """The positions that an option's text means.

    InvalidOption names the option and, within JSON, the path of what is wrong.
    """
    word = text.strip()
    if word.lower() == "earliest":
        return EARLIEST
    if word.lower() == "latest":
        return LATEST
    remedy = 'use earliest, latest, or JSON like {"topic":{"0":23,"1":-2}} (-2 earliest, -1 latest)'
    if not word.startswith("{"):
        raise InvalidOption(f"{option}={_shown(text)}: {remedy}")
    try:
        value = json.loads(word, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"{option} is not valid JSON: {error}; {remedy}") from None
    if not value:
        raise InvalidOption(f"{option}={{}} names no topic; {remedy}")
    return {topic: _topic(option, topic, partitions) for topic, partitions in value.items()}


def _topic(option: str, topic: str, partitions: object) -> dict[int, int]:
    path = f"{option}.{topic}"
    if not isinstance(partitions, dict) or not partitions:
        raise InvalidOption(
            f"{path}={_shown(partitions)}: give an object with one offset for each partition, "
            'like {"0":23,"1":-2}'
        )
    offsets = {}
    for key, offset in partitions.items():
        if not (key.isascii() and key.isdigit() and str(int(key)) == key and int(key) < 2**31):
            raise InvalidOption(
                f'{path}."{key}": a partition is a whole number in quotes, like "0"'
            )
        if not isinstance(offset, int) or isinstance(offset, bool):
            raise InvalidOption(f'{path}."{key}"={_shown(offset)}: an offset is a whole number')
        if not EARLIEST <= offset <= OFFSET_MAX:
            raise InvalidOption(
                f'{path}."{key}"={offset}: an offset is 0 or more; -2 means earliest, -1 latest'
            )
        offsets[int(key)] = offset
    return offsets


def check_assigned(
    option: str, positions: Positions, assigned: Mapping[str, Sequence[int]]
) -> None:
    """That JSON names exactly the partitions that are read.

    UnknownTopic or InvalidOption with the path of the first one too many or missing. A missing
    partition is not given a default: nobody would see that records were skipped or read again.
    """
    if isinstance(positions, int):
        return
    for topic, offsets in positions.items():
        if topic not in assigned:
            raise UnknownTopic(
                f"{option}.{topic}: the topic is not among those subscribed to "
                f"({', '.join(sorted(assigned))}); take it out or add it to subscribe"
            )
        for partition in offsets:
            if partition not in assigned[topic]:
                raise InvalidOption(
                    f'{option}.{topic}."{partition}": the topic has no such partition; '
                    f"it has {len(assigned[topic])}"
                )
    for topic, partitions in assigned.items():
        if topic not in positions:
            raise InvalidOption(
                f"{option}.{topic} is missing: JSON must name every topic and partition that is "
                "read (-2 earliest, -1 latest)"
            )
        for partition in partitions:
            if partition not in positions[topic]:
                raise InvalidOption(
                    f'{option}.{topic}."{partition}" is missing: JSON must name every partition '
                    "(-2 earliest, -1 latest)"
                )


def position_of(positions: Positions, topic: str, partition: int) -> int:
    """The position of one partition: an offset, `EARLIEST` or `LATEST`."""
    return positions if isinstance(positions, int) else positions[topic][partition]


def symbolic(positions: Positions, meaning: int) -> str | None:
    """Where `meaning` (`EARLIEST` or `LATEST`) occurs: a JSON path, empty for everywhere, or None.

    For checks like "a batch cannot start at latest".
    """
    if isinstance(positions, int):
        return "" if positions == meaning else None
    for topic, offsets in positions.items():
        for partition, offset in offsets.items():
            if offset == meaning:
                return f'.{topic}."{partition}"'
    return None


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return repr(text) if len(text) <= 80 else repr(text[:77] + "...")
