"""A dead-letter topic in memory, which a test may hold up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pylog.model import LeaderEpoch, TopicPartition
from pylog_broker.share.dead_letters import offsets_of
from pylog_broker.share.sessions import SharePartitionKey
from pylog_broker.share.share_partition import DeadLetters


class FakeDeadLetters:
    """A `DeadLetterSink`. While `held` is not set, nothing is written."""

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.held.set()
        self.asked: list[tuple[str, TopicPartition, int]] = []
        """Group, partition and number of records of each call."""
        self.written: list[tuple[int, int, bool]] = []
        """Offset, delivery count and whether it was rejected."""

    async def write(
        self,
        key: SharePartitionKey,
        origin: TopicPartition,
        leader_epoch: LeaderEpoch,
        letters: Sequence[DeadLetters],
    ) -> None:
        """See `DeadLetterSink`."""
        found = [
            (offset, each.delivery_count, each.is_rejected) for offset, each in offsets_of(letters)
        ]
        self.asked.append((key.group_id, origin, len(found)))
        await self.held.wait()
        self.written += found
