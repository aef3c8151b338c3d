"""A stream's position as Spark stores it in the checkpoint: versioned JSON in canonical order.

    {"boot":{"t":{"a":{"0":0}}},
     "t":{"a":{"id":"<topic id>","p":{"0":{"e":3,"o":120},"1":{"e":3,"o":98}}}},
     "v":1}

`o` is the next offset to read and `e` the leader epoch under which it was learned, so that a cut
log is noticed. The topic id tells a re-created topic. Positions as people write them,
`{"a":{"0":23,"1":98}}`, are read as well; they know neither ids nor epochs. `boot` stands only in
the end of the first batch and repeats where that batch starts: Spark asks for the initial offset
again when it replays the first batch, and "latest" would have moved by then. Two equal positions
must be equal texts, because Spark compares texts: everything is built in sorted order. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pylog_connector.errors import CheckpointInvalid
from pylog_connector.values import shown

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """The next offset of one partition, and the leader epoch that was current (-1: unknown)."""

    offset: int
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """A topic's identity and its partitions' positions."""

    topic_id: str
    partitions: Mapping[int, PartitionPosition]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A position in all topics; `boot` (topic -> partition -> offset): the first batch's start."""

    topics: Mapping[str, TopicPosition]
    boot: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON value, with sorted keys."""
        value: dict[str, Any] = {}
        if self.boot:
            value["boot"] = {
                "t": {
                    topic: {str(p): offsets[p] for p in _by_text(offsets)}
                    for topic, offsets in sorted(self.boot.items())
                }
            }
        value["t"] = {
            name: {
                "id": topic.topic_id,
                "p": {
                    str(p): {"e": topic.partitions[p].epoch, "o": topic.partitions[p].offset}
                    for p in _by_text(topic.partitions)
                },
            }
            for name, topic in sorted(self.topics.items())
        }
        value["v"] = VERSION
        return value

    def moved(self, other: StreamOffset) -> bool:
        """Whether there is something to read or to record between the two.

        Neither another leader epoch nor a new partition without records makes a batch.
        """
        return self._plain() != other._plain()

    def _plain(self) -> dict[str, tuple[str, dict[int, int]]]:
        return {
            name: (
                topic.topic_id,
                {p: at.offset for p, at in topic.partitions.items() if at.offset},
            )
            for name, topic in self.topics.items()
        }

    def booted_at(self, start: StreamOffset) -> StreamOffset:
        """This position as the end of the first batch, which began at `start`."""
        return StreamOffset(
            self.topics,
            {
                name: {p: at.offset for p, at in topic.partitions.items()}
                for name, topic in start.topics.items()
            },
        )


def _by_text(partitions: Mapping[int, object]) -> list[int]:
    # "10" sorts before "2": the order of the texts is what json.dumps(sort_keys=True) gives.
    return sorted(partitions, key=str)


def read_offset(value: Any) -> StreamOffset:
    """The position that a checkpoint holds; CheckpointInvalid says what is wrong with it."""
    if not isinstance(value, dict):
        raise _damaged(f"it is {shown(value)}, not an object")
    version = value.get("v")
    if value and version is None and all(isinstance(at, dict) and at for at in value.values()):
        return _read_plain(value)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _damaged('it has no version "v"')
    if version > VERSION:
        raise CheckpointInvalid(
            f"the checkpoint's offset has version {version}, and this connector knows up to "
            f"{VERSION}: it was written by a later version; run that one, or start with a new "
            "checkpoint"
        )
    unknown = set(value) - {"boot", "t", "v"}
    if unknown:
        raise _damaged(f"it has an unknown field {min(unknown)!r}")
    topics = {name: _read_topic(name, topic) for name, topic in _object(value, "t").items()}
    boot = {}
    if "boot" in value:
        for name, offsets in _object(_object(value, "boot"), "t").items():
            if not isinstance(offsets, dict):
                raise _damaged(f"boot.t.{name} is not an object")
            boot[name] = {
                _partition(name, key): _whole(f"boot.t.{name}.{key}", offset)
                for key, offset in offsets.items()
            }
    return StreamOffset(topics, boot)


def _read_plain(value: dict[str, Any]) -> StreamOffset:
    topics = {}
    for name, offsets in value.items():
        topics[name] = TopicPosition(
            "",
            {
                _partition(name, key): PartitionPosition(_whole(f"{name}.{key}", offset))
                for key, offset in offsets.items()
            },
        )
    return StreamOffset(topics)


def _read_topic(name: str, value: Any) -> TopicPosition:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str) or not value["id"]:
        raise _damaged(f"t.{name} has no topic id")
    partitions = {}
    for key, at in _object(value, "p", f"t.{name}.").items():
        path = f"t.{name}.p.{key}"
        if not isinstance(at, dict):
            raise _damaged(f"{path} is not an object")
        partitions[_partition(name, key)] = PartitionPosition(
            offset=_whole(f"{path}.o", at.get("o")), epoch=_whole(f"{path}.e", at.get("e"), low=-1)
        )
    return TopicPosition(value["id"], partitions)


def _object(value: dict[str, Any], field_name: str, path: str = "") -> dict[str, Any]:
    found = value.get(field_name)
    if not isinstance(found, dict):
        raise _damaged(f"{path}{field_name} is not an object")
    return found


def _partition(topic: str, key: str) -> int:
    if not (key.isascii() and key.isdigit()):
        raise _damaged(f"t.{topic} has a partition {key!r}")
    return int(key)


def _whole(path: str, value: Any, low: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise _damaged(f"{path} is {value!r}, not a whole number of at least {low}")
    return value


def _damaged(what: str) -> CheckpointInvalid:
    return CheckpointInvalid(
        f"the checkpoint's offset is not one of this connector: {what}; restore the checkpoint "
        "folder, or start with a new one and startingOffsets"
    )
