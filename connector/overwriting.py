"""The starts that a driver adds to the decision about a batch that overwrites topics: the offsets
at which their partitions begin with it. A partition begins with the batch's first record, or at its
end where the batch has written nothing to it.

The partitions begin anew one by one, each as its leader hears of the decision.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pylog.client.sinks.sink_types import OverwrittenTopic, SinkRange
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.errors import PylogError
from pylog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from pylog_connector.clients import bounds_reader_for
from pylog_connector.errors import UnknownTopic
from pylog_connector.options import SinkOptions

if TYPE_CHECKING:
    from pylog.client.ranges.range_reader import RangeReader

logger = logging.getLogger("pylog.connector")

_LOOK_AGAIN_S: Final = 0.02


class Overwriting:
    """The overwriting of topics by one batch, with a connection of its own: see `overwriting`."""

    def __init__(self, reader: RangeReader, clock: Clock = SYSTEM_CLOCK) -> None:
        self._reader = reader
        self._clock = clock

    def topics(self, topics: Iterable[str], written: Iterable[SinkRange]) -> list[OverwrittenTopic]:
        """These topics with their new starts, of which a batch has written so much. Raises
        UnknownTopic.
        """
        first = {TopicPartition(*each[:2]): each.first_offset for each in written}
        names = sorted(topics)
        known = self._reader.topics(names)
        missing = [name for name in names if name not in known]
        if missing:
            raise UnknownTopic(
                f"cannot overwrite topic {missing[0]}: there is no such topic; create it first"
            )
        partitions = {
            name: [TopicPartition(name, number) for number in range(len(found.partitions))]
            for name, found in known.items()
        }
        rest = [each for of_topic in partitions.values() for each in of_topic if each not in first]
        ends = self._reader.offsets(rest, LATEST_TIMESTAMP) if rest else {}
        return [
            OverwrittenTopic(
                name,
                known[name].topic_id,
                tuple(first[each] if each in first else ends[each].offset for each in of_topic),
            )
            for name, of_topic in sorted(partitions.items())
        ]

    def wait(self, topics: Iterable[OverwrittenTopic], timeout_ms: int) -> None:
        """Return when all partitions begin at their new starts; it is decided that they will, so
        that a longer wait is only warned of.
        """
        starts = {
            TopicPartition(topic, number): start
            for topic, _, offsets in topics
            for number, start in enumerate(offsets)
        }
        until_ms = self._clock.monotonic_ms() + timeout_ms
        why = "its leader has not heard of the decision"
        while starts and self._clock.monotonic_ms() < until_ms:
            try:
                found = self._reader.offsets(starts, EARLIEST_TIMESTAMP)
            except PylogError as error:
                why = f"{error.name}: {error}"
                break
            starts = {each: at for each, at in starts.items() if found[each].offset < at}
            if starts:
                self._clock.sleep(_LOOK_AGAIN_S)
        if starts:
            logger.warning(
                "%s partitions are overwritten later, %s first: %s",
                len(starts),
                min(starts),
                why,
            )


@contextmanager
def overwriting(options: SinkOptions) -> Iterator[Overwriting]:
    """Brokers can be asked until the end of the block."""
    reader = bounds_reader_for(options)
    try:
        yield Overwriting(reader)
    finally:
        reader.close()


def destinations(options: SinkOptions, ranges: Iterable[SinkRange]) -> frozenset[str]:
    """The topics that a write with mode overwrite replaces: the option's, or those that its rows
    name.
    """
    if options.topic is not None:
        return frozenset({options.topic})
    return frozenset(each.topic for each in ranges)
