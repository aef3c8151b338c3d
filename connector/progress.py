"""How far a source has come with a batch, for the task that commits it. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from pylog.model import OffsetAndMetadata, TopicPartition
from pylog_connector.group_progress import flat
from pylog_connector.offsets import StreamOffset
from pylog_connector.ranges import ReadRange


@dataclass(frozen=True, slots=True)
class Progress:
    """The positions behind a batch. Equal ones have the same digest."""

    positions: tuple[tuple[TopicPartition, OffsetAndMetadata], ...]

    @classmethod
    def of(cls, end: StreamOffset) -> Progress:
        """The positions of all partitions of a stream, also of those in which nothing is read."""
        position = {name: topic.partitions for name, topic in end.topics.items()}
        return cls(
            tuple(
                (tp, OffsetAndMetadata(at.offset, "", at.epoch if at.epoch >= 0 else None))
                for tp, at in sorted(flat(position).items())
            )
        )

    @property
    def digest(self) -> str:
        """Tells apart what two sources have come to."""
        text = json.dumps([(*tp, at.offset) for tp, at in self.positions])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class RangesWithProgress:
    """The work of the task that takes a batch's positions along."""

    ranges: tuple[ReadRange, ...]
    progress: Progress
