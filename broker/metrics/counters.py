"""Counters of one process: plain numbers that its loop adds to and a scrape reads.

No locks, no clock: durations are given in seconds. Counting costs well under a microsecond, so that
it is done per request and per batch whether or not anybody scrapes; never per record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from typing import Final

BOUNDS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    2.5, 10.0,
)  # fmt: skip
"""Upper bounds of the latency buckets, in seconds; one more bucket holds the rest."""

TOPICS_MAX: Final = 1_000
OTHER_TOPICS: Final = "(other)"
"""The label of every topic beyond `TOPICS_MAX`. No topic can have this name."""


class Histogram:
    """The number of values under each of `BOUNDS`, and their sum."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one value."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds


PARTS: Final = ("queue", "local", "remote", "response")
"""The parts of a request's time."""


class RequestSeconds(Histogram):
    """Seconds from requests to their answers, and how many of them went where: `queue`, until the
    handler; `local`, in it; `remote`, waiting. `response`, from the answer to its bytes in the
    connection's buffer, comes on top.
    """

    __slots__ = PARTS

    def __init__(self) -> None:
        super().__init__()
        self.queue = self.local = self.remote = self.response = 0.0


class TopicBytes:
    """Bytes by topic. More topics than `TOPICS_MAX` share one entry: a million topics do not
    make as many time series.
    """

    __slots__ = ("by_topic",)

    def __init__(self) -> None:
        self.by_topic: dict[str, int] = {}

    def add(self, topic: str, size: int) -> None:
        """Count `size` bytes."""
        by_topic = self.by_topic
        if topic in by_topic:
            by_topic[topic] += size
            return
        if len(by_topic) >= TOPICS_MAX:
            topic = OTHER_TOPICS
        by_topic[topic] = by_topic.get(topic, 0) + size

    def keep_only(self, topics: Iterable[str]) -> None:
        """Forget topics that are no more."""
        gone = self.by_topic.keys() - set(topics) - {OTHER_TOPICS}
        for topic in gone:
            del self.by_topic[topic]


class IsrChanges:
    """The number of times that the in-sync replicas of partitions led here became fewer, and
    more."""

    __slots__ = ("expands", "shrinks")

    def __init__(self) -> None:
        self.shrinks = 0
        self.expands = 0

    def note(self, before: Collection[int], after: Collection[int]) -> None:
        """The committed ISR went from `before` to `after` while this broker led."""
        if len(after) < len(before):
            self.shrinks += 1
        elif len(after) > len(before):
            self.expands += 1


class RequestCounters:
    """Requests by type: how long until the answer, which errors, how many bytes.

    A type is Kafka's name of the request (`Produce`, `Fetch`, `FetchFollower`, `ListOffsets`, …);
    an error is Kafka's code. Errors of single partitions count one by one, as in Apache Kafka.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, RequestSeconds] = {}
        self.errors: dict[tuple[str, int], int] = {}
        self.bytes_in = TopicBytes()
        self.bytes_out = TopicBytes()
        self.replication_bytes_out = 0

    def answered(self, request: str, local: float, queue: float = 0.0, remote: float = 0.0) -> None:
        """One request was answered after so many seconds, whatever the answer."""
        spent = self.seconds.get(request)
        if spent is None:
            spent = self.seconds[request] = RequestSeconds()
        seconds = queue + local + remote
        spent.counts[bisect_left(BOUNDS, seconds)] += 1
        spent.sum += seconds
        spent.queue += queue
        spent.local += local
        spent.remote += remote

    def sent(self, request: str, seconds: float) -> None:
        """An answer was written in `seconds`; of a type of which `answered` has counted some."""
        spent = self.seconds.get(request)
        if spent is not None:
            spent.response += seconds

    def failed(self, request: str, code: int) -> None:
        """One error in an answer, or instead of one."""
        key = (request, code)
        self.errors[key] = self.errors.get(key, 0) + 1


class LocalReadCounts:
    """Reads of files that this broker gave to processes on its machine. `fallbacks` counts by cause
    how often a reader had to ask again or to read over the network.
    """

    def __init__(self) -> None:
        self.opened = 0
        self.bytes_read = TopicBytes()
        self.fallbacks: dict[str, int] = {}

    def fell_back(self, cause: str) -> None:
        """One more of this cause, of which there are few."""
        self.fallbacks[cause] = self.fallbacks.get(cause, 0) + 1
