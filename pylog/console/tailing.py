"""Follows a topic: its new records as they come, or samples of them where they are too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pylog.console.reading import CONSUMER_SETTINGS, Keep
from pylog.console.wanted import Wanted
from pylog.model import TopicPartition

if TYPE_CHECKING:
    from pylog.client.consumer.async_consumer import AsyncConsumer

SHOWN_MAX: Final = 40
"""Records in one piece of news; a person reads fewer."""
LOOKED_AT_MAX: Final = 2_000
"""Records of one turn that a filter looks at."""
TURN_SECONDS: Final = 0.5
POLL_SECONDS: Final = 5.0

OpenAsyncConsumer = Callable[..., "AsyncConsumer"]


@dataclass(slots=True)
class News:
    """The records of one turn. `passed`: further ones that were not looked at, as there were too
    many; `matched`: those that the filter let through but that are not shown.
    """

    kept: list[Any] = field(default_factory=list)
    passed: int = 0


async def follow(
    open_consumer: OpenAsyncConsumer, wanted: Wanted, keep: Keep
) -> AsyncIterator[News]:
    """News without end, from the topic's end on; an empty one now and then while nothing comes."""
    isolation = "read_committed" if wanted.committed else "read_uncommitted"
    settings = {**CONSUMER_SETTINGS, "auto_offset_reset": "latest", "max_poll_records": SHOWN_MAX}
    settings |= {"fetch_max_bytes": 1 << 20, "max_partition_fetch_bytes": 128 << 10}
    if wanted.filters:
        settings["max_poll_records"] = LOOKED_AT_MAX
    async with open_consumer(**settings, isolation_level=isolation) as consumer:
        numbers = await consumer.partitions_for(wanted.topic)
        if wanted.partition is not None:
            numbers = [number for number in numbers if number == wanted.partition]
        partitions = [TopicPartition(wanted.topic, number) for number in numbers]
        consumer.assign(partitions)
        await consumer.seek_to_end()
        yield News()
        while True:
            news = News()
            for record in await consumer.poll(POLL_SECONDS):
                if not wanted.matches(record):
                    continue
                if len(news.kept) < SHOWN_MAX:
                    news.kept.append(keep(record))
                else:
                    news.passed += 1
            if news.kept or news.passed:
                news.passed += await _skip(consumer, int(settings["max_poll_records"]))
            yield news
            await asyncio.sleep(TURN_SECONDS)


async def _skip(consumer: AsyncConsumer, behind_max: int) -> int:
    """Jump near to the end when more has come than can be shown; how many are left out so."""
    positions: dict[TopicPartition, int] = await consumer.position()
    ends = await consumer.end_offsets()
    behind = {tp: ends[tp] - at for tp, at in positions.items() if tp in ends}
    if sum(behind.values()) <= behind_max:
        return 0
    left_out = 0
    share = max(behind_max // (2 * len(behind)), 1)
    for tp, lag in behind.items():
        if lag > share:
            consumer.seek(tp, ends[tp] - share)
            left_out += lag - share
    return left_out
