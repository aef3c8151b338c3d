"""The questions of the driver's side to the cluster: which topics there are, and which offsets they
hold.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pylog.client.cluster.metadata import TopicInfo
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.errors import PylogError
from pylog.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    RangeSplit,
    TopicPartition,
    TransactionName,
    TransactionSpan,
)
from pylog_connector.clients import admin_for, drop_reader, reader_for
from pylog_connector.committed import CommittedStart
from pylog_connector.cut_finder import TooMany
from pylog_connector.errors import ConnectorError, InvalidOption, ReadFailed
from pylog_connector.forensics import why_deleted
from pylog_connector.lag import Unread
from pylog_connector.option_names import CONSISTENT_CUT, in_options
from pylog_connector.options import SourceOptions
from pylog_connector.planning import Bounds, PartitionBounds, TopicBounds
from pylog_connector.positions import Bound
from pylog_connector.progress_commits import left_open, take_over
from pylog_connector.selection import Selection
from pylog_connector.warming import load_once

if TYPE_CHECKING:
    from pylog.client.ranges.range_reader import RangeReader

logger = logging.getLogger("pylog.connector")

TOPICS_AGE_MS_MAX: Final = 1_000
"""The longest time until a stream that has something to read notices a new partition. A stream that
has nothing lists topics anew before it says so."""
LISTING_SHARE_MAX: Final = 0.1
"""The share of the time, about, that an idle stream spends on listing topics, unless it would not
list any for `TOPICS_AGE_MS_MAX`: a pattern has all topics of the cluster looked at."""
PARTITIONS_MAX: Final = 100_000
"""The most partitions of one query by a pattern. Each is looked up for every micro-batch."""
ATTEMPTS_MAX: Final = 4
TIMES_MS_MAX: Final = 1_000
"""For looking up how old unread records are, and their bytes: a trigger waits for it."""
BYTES_TOLD_MAX: Final = 1_000
"""Partitions that are behind: to tell the bytes of one costs its leader 60 us, twice as much as the
time of its first unread record."""
WAIT_S: Final = 0.1
"""Before the first new attempt while topics are deleted and created; doubled each time."""


def _load() -> None:
    """Import all that a look at the cluster needs; a process that only makes a source needs none of
    it.
    """
    import pylog.client.ranges.range_reader  # noqa: F401


class BoundsReader:
    """The bounds of what a source reads.

    Leaders are asked for offsets each time; which topics and partitions there are is asked once a
    second, and when it is wanted anew.
    """

    def __init__(self, options: SourceOptions, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._selection: Selection = options.selection
        self._clock = clock
        self._topics: dict[str, TopicInfo] = {}
        self._known: frozenset[str] = frozenset()
        self._asked_ms: int | None = None
        self._listing_ms = 0
        self._absent: tuple[str, ...] = ()

    def bounds(
        self,
        epochs: Mapping[TopicPartition, int] | None = None,
        known: Iterable[str] = (),
        *,
        anew: bool = False,
    ) -> Bounds:
        """The topics and partitions of the selection that exist now, with their offsets. `epochs`:
        leader epochs whose ends by now are asked for as well. `known`: topics that a pattern found
        before, which are not taken for deleted lightly. `anew`: topics and partitions are listed,
        however lately they were.

        ReadFailed says which servers were asked and why it did not work.
        """
        load_once(_load)
        retries = self._options.retries
        wait_ms = self._options.retry_ms
        reader = reader_for(self._options)
        self._known = frozenset(name for name in known if self._selection.covers(name))
        if anew:
            self._asked_ms = None
        try:
            for attempt in range(ATTEMPTS_MAX if retries is None else retries + 1):
                bounds = self._bounds(reader, epochs or {})
                if bounds is not None:
                    return bounds
                self._clock.sleep(WAIT_S * 2**attempt if wait_ms is None else wait_ms / 1000)
        except ConnectorError:
            raise
        except PylogError as error:
            why = in_options(str(error), self._options.bootstrap_option)
            raise self._failed(why) from error
        raise self._failed("topics are deleted and created all the time")

    def rest_s(self) -> float:
        """The seconds that an idle stream should wait before it has topics listed anew."""
        if self._asked_ms is None:
            return 0.0
        pause_ms = min(self._listing_ms / LISTING_SHARE_MAX, TOPICS_AGE_MS_MAX)
        return max(0.0, self._asked_ms + pause_ms - self._clock.monotonic_ms()) / 1000

    def _failed(self, why: str) -> ReadFailed:
        selection = self._selection
        named = ", ".join(selection.topics) or f"topics that {selection.pattern!r} finds"
        return ReadFailed(f"cannot look up the offsets of {named}: {why}")

    def _bounds(self, reader: RangeReader, epochs: Mapping[TopicPartition, int]) -> Bounds | None:
        """None when a topic was deleted or re-created meanwhile: look again."""
        topics = self._current(reader)
        wanted = [
            TopicPartition(name, partition)
            for name, info in sorted(topics.items())
            for partition in self._selection.chosen(name, len(info.partitions))
        ]
        # The error's class lies beside gRPC, which must not be loaded before a reader is made.
        from pylog.client.ranges.range_reader import TopicGone

        try:
            earliest, latest = reader.offsets_at(wanted, (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP))
            # An epoch that is still the newest cannot have been cut.
            older = {
                at: epoch
                for at, epoch in epochs.items()
                if at in latest and 0 <= epoch < latest[at].leader_epoch
            }
            ends = reader.epoch_ends(older) if older else {}
            marks = reader.high_watermarks(wanted)
        except TopicGone:
            self._asked_ms = None
            return None
        if any(latest[at].topic_id not in ("", topics[at.topic].topic_id) for at in wanted):
            self._asked_ms = None
            return None
        partitions: dict[str, dict[int, PartitionBounds]] = {name: {} for name in topics}
        for at in wanted:
            partitions[at.topic][at.partition] = PartitionBounds(
                earliest[at].offset,
                latest[at].offset,
                latest[at].leader_epoch,
                ends.get(at),
                marks.get(at),
            )
        return {name: TopicBounds(info.topic_id, partitions[name]) for name, info in topics.items()}

    def _current(self, reader: RangeReader) -> Mapping[str, TopicInfo]:
        now_ms = self._clock.monotonic_ms()
        if self._asked_ms is not None and now_ms - self._asked_ms < TOPICS_AGE_MS_MAX:
            return self._topics
        selection = self._selection
        if selection.pattern is None:
            self._topics = reader.topics(selection.topics)
        else:
            self._topics = reader.topics_where(
                lambda topic: selection.found(topic.name, internal=topic.internal)
            )
            count = sum(len(info.partitions) for info in self._topics.values())
            if count > PARTITIONS_MAX:
                raise InvalidOption(
                    f"subscribePattern={selection.pattern!r} finds {len(self._topics)} topics with "
                    f"{count} partitions; one query reads at most {PARTITIONS_MAX}: write it "
                    "narrower, or read the topics by several queries"
                )
            # A broker that was started a moment ago may not know all topics yet.
            doubtful = sorted(self._known - set(self._topics))
            if doubtful:
                self._topics |= reader.topics(doubtful)
        self._asked_ms, self._listing_ms = now_ms, self._clock.monotonic_ms() - now_ms
        absent = selection.absent({n: len(info.partitions) for n, info in self._topics.items()})
        if absent and absent != self._absent:
            logger.warning(
                "assign names partitions that do not exist: %s; they are left out until they do",
                ", ".join(absent),
            )
        self._absent = absent
        return self._topics

    def times(
        self, queries: Sequence[tuple[TopicPartition, int]]
    ) -> dict[tuple[TopicPartition, int], int]:
        """The first offset of each time or later, -1 where no record is that late."""
        by_time: dict[int, list[TopicPartition]] = {}
        for at, time_ms in queries:
            by_time.setdefault(time_ms, []).append(at)
        reader = reader_for(self._options)
        try:
            return {
                (at, time_ms): listed.offset
                for time_ms, places in by_time.items()
                for at, listed in reader.offsets(places, time_ms).items()
            }
        except PylogError as error:
            why = in_options(str(error), self._options.bootstrap_option)
            raise self._failed(why) from error

    def committed(self, start: CommittedStart, bounds: Bounds) -> Bound:
        """The start in these partitions at the group's committed offsets. Raises as
        `CommittedStart.bound`, and ReadFailed when its coordinator does not tell them.
        """
        options = self._options
        has_sink = options.progress_group is not None
        try:
            with admin_for(options) as admin:
                if has_sink and options.takeover:
                    take_over(admin, options)
                committed = admin.list_group_offsets(start.group, require_stable=has_sink)
        except PylogError as error:
            why = in_options(str(error), options.bootstrap_option)
            raise ReadFailed(
                f"{start.shown}: cannot look up the committed offsets: {why}"
                f"{left_open(options) if has_sink else ''}"
            ) from error
        return start.bound(bounds, committed)

    def unread(self, behind: Mapping[TopicPartition, tuple[int, int]]) -> Unread:
        """The time of the first record between these offsets, and the bytes there, as far as
        leaders tell each within `TIMES_MS_MAX`: it is for people to look at.
        """
        from pylog.client.ranges.range_reader import RangeToSplit

        reader = reader_for(self._options)
        times: dict[TopicPartition, int] = {}
        sizes: dict[TopicPartition, RangeSplit] = {}
        try:
            times = reader.times_from(
                {at: start for at, (start, _) in behind.items()}, TIMES_MS_MAX
            )
            if len(behind) <= BYTES_TOLD_MAX:
                ranges = {at: RangeToSplit(*offsets) for at, offsets in behind.items()}
                sizes = reader.split(ranges, TIMES_MS_MAX)
        except PylogError as error:
            logger.info("how old and how large unread records are is not told: %s", error)
        return Unread(times, {at: split.bytes for at, split in sizes.items()})

    def await_records(self, ends: Mapping[TopicPartition, int], count: int, wait_ms: int) -> bool:
        """Whether so many records may have come behind these ends; false after the wait, or at once
        where a leader could not be asked to wait.
        """
        if not ends or wait_ms <= 0:
            return False
        try:
            return reader_for(self._options).await_records(ends, count, wait_ms)
        except PylogError as error:
            logger.info("leaders could not be asked to wait for records: %s", error)
            return False

    def transactions(
        self,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        named: Collection[TransactionName] = (),
        *,
        spans_max: int | None = None,
    ) -> dict[TopicPartition, list[TransactionSpan]] | None:
        """The transactions of ranges, see `RangeReader.transactions`; None when a topic was deleted
        or made anew meanwhile. Raises TooMany for more than `spans_max`, and ReadFailed.
        """
        from pylog.client.ranges.range_reader import TooManyTransactions, TopicGone

        try:
            return reader_for(self._options).transactions(ranges, named, spans_max=spans_max)
        except TopicGone:
            return None
        except TooManyTransactions as error:
            raise TooMany from error
        except PylogError as error:
            why = in_options(str(error), self._options.bootstrap_option)
            raise ReadFailed(
                f"{CONSISTENT_CUT}: cannot look up the transactions of {min(ranges)}"
                f"{'' if len(ranges) == 1 else f' and {len(ranges) - 1} more'}: {why}"
            ) from error

    def story(self, at: TopicPartition) -> str:
        """The reason why a partition's oldest records are gone, to end a sentence with."""
        return why_deleted(self._options, reader_for(self._options), at)

    def close(self) -> None:
        """End the connections of this process."""
        drop_reader(self._options)
