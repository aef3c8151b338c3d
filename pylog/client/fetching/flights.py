"""The fetches that a consumer has in flight, and its streams to each broker that carry them.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pylog.client.fetching.fetch_state import InFlight, Partition

LANES: Final = (0, 1)
"""Streams to each broker. One long poll is enough while it asks for all partitions; the second is
for those that it had to leave out, because their buffers were full, and that the user has read.
"""
CUT_AFTER_MS: Final = 20
"""A fetch that is out for so long brings no data by itself: it may be cut for what the user waits
for. A younger one is on its way back, most likely."""


class Flights:
    """By broker and lane; part of the fetcher."""

    def __init__(self) -> None:
        self.cut_at_ms = 0
        """The time at which a fetch may be cut that is too young for it now; 0: there is none."""
        self._flights: dict[tuple[int, int], InFlight] = {}

    def __iter__(self) -> Iterator[tuple[int, int, InFlight]]:
        """(broker, lane, fetch) of all; they may be removed meanwhile."""
        for (broker, lane), flight in list(self._flights.items()):
            yield broker, lane, flight

    def clear(self) -> None:
        """None is awaited any more."""
        self._flights.clear()

    def put(self, broker: int, lane: int, flight: InFlight) -> None:
        """It goes out, on a lane that is free."""
        assert (broker, lane) not in self._flights
        self._flights[broker, lane] = flight

    def pop(self, broker: int, lane: int) -> InFlight | None:
        """It is over; None when there is none."""
        return self._flights.pop((broker, lane), None)

    def stands(self, broker: int, correlation: int) -> bool:
        """Whether that fetch was answered before, and goes on."""
        for lane in LANES:
            flight = self._flights.get((broker, lane))
            if flight is not None and flight.correlation == correlation:
                return flight.stands
        return False

    def answered(self, now_ms: int, broker: int, correlation: int, stands: bool) -> InFlight | None:
        """The fetch that this is an answer to; None for one that was given up."""
        for lane in LANES:
            flight = self._flights.get((broker, lane))
            if flight is not None and flight.correlation == correlation:
                flight.stands, flight.sent_ms = stands, now_ms
                if not stands:
                    del self._flights[broker, lane]
                return flight
        return None

    def ask_for(self, broker: int, partition: Partition) -> bool:
        """Whether one of them asks the broker for what the partition needs next."""
        for lane in LANES:
            flight = self._flights.get((broker, lane))
            if flight is not None and flight.asks_for(partition):
                return True
        return False

    def free_lane(self, broker: int) -> int | None:
        """A stream that nothing is awaited on."""
        return next((lane for lane in LANES if (broker, lane) not in self._flights), None)

    def end_standing(self, broker: int, asked: Sequence[Partition]) -> int | None:
        """The lane of a fetch that stands in the way of these: it asks for them otherwise, or no
        other lane is free. Its broker ends it when the next one comes there.
        """
        standing = [
            lane
            for lane in LANES
            if (flight := self._flights.get((broker, lane))) is not None and flight.stands
        ]
        for lane in standing:
            wanted = self._flights[broker, lane].wanted
            if any(partition.topic_partition in wanted for partition in asked):
                del self._flights[broker, lane]
                return lane
        if standing and self.free_lane(broker) is None:
            del self._flights[broker, standing[0]]
            return standing[0]
        return None

    def must_cut(self, now_ms: int, broker: int, partitions: Sequence[Partition]) -> bool:
        """Whether a long poll is in the user's way: it asks for another position, or all of them
        leave out what the user has come to.
        """
        flights = [f for lane in LANES if (f := self._flights.get((broker, lane))) is not None]
        for partition in partitions:
            if not partition.urgent or not flights or self.ask_for(broker, partition):
                continue
            if any(partition.topic_partition in flight.wanted for flight in flights):
                return True
            if len(flights) == len(LANES):
                self.cut_at_ms = max(flight.sent_ms for flight in flights) + CUT_AFTER_MS
                return self.cut_at_ms <= now_ms
        return False
