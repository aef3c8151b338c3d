"""Blocking reads of fixed offset ranges, for those who plan their own work: Spark tasks.

`RangeReader` tells a topic's bounds and yields the raw batches of `[start, end)` of a partition,
straight from its leader. It knows nothing of groups, positions or records: the caller decodes
batches, and decides what lost offsets mean. The next fetch is under way while the caller works on
this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pylog import errors
from pylog.client.background import LoopThread, close_at_exit, shared_loop
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.cluster_settings import ClusterSettings
from pylog.client.cluster.metadata import Leader, TopicInfo
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import metadata_request, snapshot_of
from pylog.client.ranges.fetch_lines import FetchLines
from pylog.client.ranges.found_transactions import FoundTransactions
from pylog.client.ranges.lease_holder import LeaseHolder
from pylog.client.ranges.range_fetcher import (
    Batches,
    Damaged,
    End,
    Failed,
    RangeFetcher,
    Skipped,
    TopicGone,
    sound,
    still_there,
)
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.model import (
    LATEST_TIMESTAMP,
    RangePiece,
    RangeSplit,
    TopicPartition,
    TransactionName,
    TransactionSpan,
)
from pylog.rpc import apis
from pylog.rpc.v1 import log_pb2

if TYPE_CHECKING:
    from pylog.client.ranges.local_files import LocalRead
    from pylog.client.ranges.local_reads import LocalReads

__all__ = [
    "Batches",
    "Damaged",
    "ListedOffset",
    "RangeReader",
    "RangeToSplit",
    "Skipped",
    "TooManyTransactions",
    "TopicGone",
]

T = TypeVar("T")

NAMED_A_CALL: Final = 10_000
"""As many transactions as a broker lets one request name."""


class TooManyTransactions(Exception):
    """More than the caller wants to know of."""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An answer to "which offset": the leader epoch and the id of the topic that answered."""

    offset: int
    leader_epoch: int
    topic_id: str
    timestamp_ms: int = -1
    """The timestamp of the record found by its time, or from an offset on."""


@dataclass(frozen=True, slots=True)
class RangeToSplit:
    """`start <= offset < end`, and how to cut it: the first `pieces_max` pieces, 25 at most, of at
    most `piece_bytes` (0: none) each, about equally large with `even`.
    """

    start: int
    end: int
    piece_bytes: int = 0
    pieces_max: int = 1
    even: bool = False


class RangeReader:
    """Metadata, bounds and bytes of partitions. One thread at a time; close it when done.

    `settings` are a consumer's, parsed, by dotted name; `max.partition.fetch.bytes` and
    `fetch.max.wait.ms` bound one fetch, `default.api.timeout.ms` the time without progress.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        local_reads: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`local_reads`: a leader on this machine is asked for its files, which are read here."""
        self._settings = settings
        self._clock = clock
        self._timeout_ms: int = settings["default.api.timeout.ms"]
        self._read_committed = settings["isolation.level"] == "read_committed"
        self._thread = shared_loop()
        self._cluster = Cluster(self._thread, ClusterSettings.of(settings), clock=clock)
        self._lines = FetchLines(self._cluster)
        self._renewed: dict[str, int] = {}
        self.local_reads = self._local_reads() if local_reads else None
        """What was read so, to look at; None: nothing is."""
        close_at_exit(self)

    def _local_reads(self) -> LocalReads:
        from pylog.client.ranges.local_reads import LocalReads

        return LocalReads(self._clock, self._settings["request.timeout.ms"])

    # ---- metadata and bounds ------------------------------------------------------------------

    def topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """The topics as the cluster has them now; those that it denies are left out.

        Raises BootstrapFailed, which names each address and its fault.
        """
        return self._thread.run(self._topics(names))

    async def _topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        cluster = self._cluster
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await cluster.refresh(*names)
        except TimeoutError:
            raise cluster.unreachable(self._timeout_ms) from None
        found = {}
        for name in names:
            try:
                found[name] = await cluster.topic(name, self._timeout_ms)
            except errors.UnknownTopicOrPartition:
                cluster.metadata.forget_topic(name)
        return found

    def topics_where(self, wanted: Callable[[TopicInfo], bool]) -> dict[str, TopicInfo]:
        """Those of all topics that are `wanted`, as one server knows them now.

        Raises BootstrapFailed, which names each address and its fault.
        """
        return self._thread.run(self._topics_where(wanted))

    async def _topics_where(self, wanted: Callable[[TopicInfo], bool]) -> dict[str, TopicInfo]:
        cluster = self._cluster
        # The first contact waits for a server as long as the settings say.
        await cluster.connected(self._timeout_ms)
        answer = snapshot_of(await cluster.ask_any(metadata_request((), all_topics=True)))
        chosen = tuple(topic for topic in answer.topics if topic.error is None and wanted(topic))
        cluster.metadata.update(replace(answer, topics=chosen))
        for topic in chosen:
            # It may have been deleted, told as such, and created again since.
            cluster.denied.pop(topic.name, None)
        # From now on refreshes ask for these, so that leaders are found again after an election.
        cluster.topics.update(dict.fromkeys(topic.name for topic in chosen))
        return {topic.name: cluster.metadata.topics[topic.name] for topic in chosen}

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamps_ms: Sequence[int]
    ) -> list[dict[TopicPartition, ListedOffset]]:
        """`offsets` at several times, looked up at once."""
        wanted = list(partitions)

        async def attempt(timeout_s: float) -> list[dict[TopicPartition, ListedOffset]]:
            return await asyncio.gather(
                *(self._offsets(wanted, time_ms, timeout_s) for time_ms in timestamps_ms)
            )

        return self._thread.run(
            self._cluster.retrying(attempt, self._timeout_ms, "listing offsets")
        )

    def offsets(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset of each partition at a time (-1 latest, -2 earliest), from its leader.

        TopicGone when one of the topics does not exist any more.
        """
        wanted = list(partitions)

        async def attempt(timeout_s: float) -> dict[TopicPartition, ListedOffset]:
            return await self._offsets(wanted, timestamp_ms, timeout_s)

        return self._thread.run(
            self._cluster.retrying(attempt, self._timeout_ms, "listing offsets")
        )

    def times_from(
        self, positions: Mapping[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, int]:
        """The time of the first record at each position or behind it; a partition without one, or
        whose records have no times, is left out. Raises RequestTimedOut after `timeout_ms`.
        """
        wanted = list(positions)

        async def attempt(timeout_s: float) -> dict[TopicPartition, int]:
            listed = await self._offsets(wanted, LATEST_TIMESTAMP, timeout_s, None, positions)
            return {at: found.timestamp_ms for at, found in listed.items()}

        found = self._thread.run(
            self._cluster.retrying(attempt, timeout_ms, "looking up the times of records")
        )
        return {at: time_ms for at, time_ms in found.items() if time_ms >= 0}

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermark of each partition, for a reader of committed transactions only: to
        others `offsets` gives the same.
        """
        wanted = list(partitions)
        if not self._read_committed:
            return {}

        async def attempt(timeout_s: float) -> dict[TopicPartition, int]:
            listed = await self._offsets(
                wanted, LATEST_TIMESTAMP, timeout_s, log_pb2.READ_UNCOMMITTED
            )
            return {at: found.offset for at, found in listed.items()}

        return self._thread.run(
            self._cluster.retrying(attempt, self._timeout_ms, "listing offsets")
        )

    async def _offsets(
        self,
        wanted: Sequence[TopicPartition],
        timestamp_ms: int,
        timeout_s: float,
        isolation: log_pb2.IsolationLevel | None = None,
        from_offsets: Mapping[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        starts = from_offsets or {}

        def request(led: Mapping[TopicPartition, Leader]) -> log_pb2.ListOffsetsRequest:
            return log_pb2.ListOffsetsRequest(
                isolation_level=self._isolation() if isolation is None else isolation,
                partitions=[
                    log_pb2.PartitionTimestamp(
                        topic=at.topic,
                        partition=at.partition,
                        timestamp_ms=timestamp_ms,
                        current_leader_epoch=leader.epoch,
                        from_offset=starts.get(at),
                    )
                    for at, leader in led.items()
                ],
            )

        for topic in dict.fromkeys(at.topic for at in wanted):
            await still_there(self._cluster, topic, "", timeout_s * 1000)
        answers = await self._ask_leaders(
            wanted,
            lambda server, led: server.call(apis.LIST_OFFSETS, request(led), timeout_s),
        )
        return {
            TopicPartition(p.topic, p.partition): ListedOffset(
                p.offset, p.leader_epoch, p.topic_id, p.timestamp_ms
            )
            for answer in answers
            for p in sound(answer.partitions)
        }

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The end offset of each partition's given leader epoch by now (KIP-320): an end below an
        offset that was read under that epoch means that the log was truncated there.

        A partition whose leader does not know the epoch is left out.
        """

        async def attempt(timeout_s: float) -> dict[TopicPartition, int]:
            return await self._epoch_ends(epochs, timeout_s)

        return self._thread.run(
            self._cluster.retrying(attempt, self._timeout_ms, "asking for leader epochs")
        )

    async def _epoch_ends(
        self, epochs: Mapping[TopicPartition, int], timeout_s: float
    ) -> dict[TopicPartition, int]:
        def request(led: Mapping[TopicPartition, Leader]) -> log_pb2.OffsetForLeaderEpochRequest:
            return log_pb2.OffsetForLeaderEpochRequest(
                partitions=[
                    log_pb2.PartitionEpoch(
                        topic=at.topic,
                        partition=at.partition,
                        leader_epoch=epochs[at],
                        current_leader_epoch=leader.epoch,
                    )
                    for at, leader in led.items()
                ]
            )

        answers = await self._ask_leaders(
            list(epochs),
            lambda server, led: server.call(apis.OFFSET_FOR_LEADER_EPOCH, request(led), timeout_s),
        )
        return {
            TopicPartition(p.topic, p.partition): p.end_offset
            for answer in answers
            for p in sound(answer.partitions)
            if p.end_offset >= 0
        }

    def split(
        self, ranges: Mapping[TopicPartition, RangeToSplit], timeout_ms: int | None = None
    ) -> dict[TopicPartition, RangeSplit]:
        """The bytes of each range as the log stores it, and its first pieces; no records are read.

        TopicGone when one of the topics does not exist any more, RequestTimedOut after `timeout_ms`
        (None: `default.api.timeout.ms`).
        """
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms

        async def attempt(timeout_s: float) -> dict[TopicPartition, RangeSplit]:
            return await self._split(ranges, timeout_s)

        return self._thread.run(
            self._cluster.retrying(attempt, limit_ms, "asking for the bytes of ranges")
        )

    async def _split(
        self, ranges: Mapping[TopicPartition, RangeToSplit], timeout_s: float
    ) -> dict[TopicPartition, RangeSplit]:
        def request(led: Mapping[TopicPartition, Leader]) -> log_pb2.SplitRangesRequest:
            return log_pb2.SplitRangesRequest(
                partitions=[
                    log_pb2.RangeToSplit(
                        topic=at.topic,
                        partition=at.partition,
                        current_leader_epoch=leader.epoch,
                        start_offset=ranges[at].start,
                        end_offset=ranges[at].end,
                        piece_bytes=ranges[at].piece_bytes,
                        pieces_max=ranges[at].pieces_max,
                        even=ranges[at].even,
                    )
                    for at, leader in led.items()
                ]
            )

        for topic in dict.fromkeys(at.topic for at in ranges):
            await still_there(self._cluster, topic, "", timeout_s * 1000)
        answers = await self._ask_leaders(
            list(ranges),
            lambda server, led: server.call(apis.SPLIT_RANGES, request(led), timeout_s),
        )
        return {
            TopicPartition(p.topic, p.partition): RangeSplit(
                p.bytes,
                tuple(RangePiece(piece.end_offset, piece.bytes) for piece in p.pieces),
                RangePiece(p.next.end_offset, p.next.bytes) if p.HasField("next") else None,
            )
            for answer in answers
            for p in sound(answer.partitions)
        }

    def transactions(
        self,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        named: Collection[TransactionName] = (),
        *,
        spans_max: int | None = None,
    ) -> dict[TopicPartition, list[TransactionSpan]]:
        """The committed transactions with markers in each range (start, end), as of now. With the
        end -1 all from the start on, and those that are open. `named`: only these, unless none is.

        `first` is where the transaction has its first record from the start on, or before that.
        Raises TopicGone when one of the topics does not exist any more, TooManyTransactions for
        more than `spans_max`.
        """
        found = {at: FoundTransactions() for at in ranges}
        names = sorted(named)
        for begin in range(0, max(1, len(names)), NAMED_A_CALL):
            left = dict(ranges)
            while left:
                left = self._describe_some(left, names[begin : begin + NAMED_A_CALL], found)
                count = sum(len(each) for each in found.values())
                if spans_max is not None and count > spans_max:
                    raise TooManyTransactions(f"{count} transactions, and the limit is {spans_max}")
        return {at: each.spans() for at, each in found.items()}

    def _describe_some(
        self,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        named: Sequence[TransactionName],
        found: Mapping[TopicPartition, FoundTransactions],
    ) -> dict[TopicPartition, tuple[int, int]]:
        """The part of each range of which brokers have not told."""

        async def attempt(timeout_s: float) -> list[log_pb2.DescribedTransactions]:
            return await self._describe(ranges, named, timeout_s)

        answers = self._thread.run(
            self._cluster.retrying(attempt, self._timeout_ms, "asking for transactions")
        )
        left = {}
        for p in answers:
            at = TopicPartition(p.topic, p.partition)
            start, end = ranges[at]
            spans = [
                TransactionSpan(
                    TransactionName(each.producer_id, each.producer_epoch),
                    each.first_offset,
                    each.marker_offset,
                )
                for each in p.transactions
            ]
            found[at].add(spans, whole=p.next_offset < 0)
            if p.next_offset >= 0:
                if p.next_offset <= start:
                    raise errors.UnknownServerError(
                        f"{at}: asked for transactions from {start} on, its leader told of none "
                        f"and says to ask from {p.next_offset} on"
                    )
                left[at] = p.next_offset, end
        return left

    async def _describe(
        self,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        named: Sequence[TransactionName],
        timeout_s: float,
    ) -> list[log_pb2.DescribedTransactions]:
        def request(
            led: Mapping[TopicPartition, Leader],
        ) -> log_pb2.DescribeTransactionsInRangeRequest:
            return log_pb2.DescribeTransactionsInRangeRequest(
                partitions=[
                    log_pb2.TransactionRange(
                        topic=at.topic,
                        partition=at.partition,
                        current_leader_epoch=leader.epoch,
                        start_offset=ranges[at][0],
                        end_offset=ranges[at][1],
                    )
                    for at, leader in led.items()
                ],
                named=[
                    log_pb2.TransactionName(
                        producer_id=name.producer_id, producer_epoch=name.producer_epoch
                    )
                    for name in named
                ],
            )

        for topic in dict.fromkeys(at.topic for at in ranges):
            await still_there(self._cluster, topic, "", timeout_s * 1000)
        answers = await self._ask_leaders(
            list(ranges),
            lambda server, led: server.call(
                apis.DESCRIBE_TRANSACTIONS_IN_RANGE, request(led), timeout_s
            ),
        )
        return [each for answer in answers for each in sound(answer.partitions)]

    def await_records(
        self, offsets: Mapping[TopicPartition, int], count: int, wait_ms: int
    ) -> bool:
        """Whether `count` records may have come behind these offsets, all partitions together: that
        is, whether some leader has its share of them. Returns then, or after the wait, or when
        a leader has changed. Brokers wait, so that nothing is asked again and again.

        Raises what one look-up that fails raises; nothing is tried again.
        """
        return self._thread.run(self._await_records(offsets, count, wait_ms))

    async def _await_records(
        self, offsets: Mapping[TopicPartition, int], count: int, wait_ms: int
    ) -> bool:
        led = self._by_leader(list(offsets))
        # Once all leaders together have so many, at least one of them has its share.
        share = max(1, -(-count // len(led)))
        timeout_s = (wait_ms + self._settings["request.timeout.ms"]) / 1000

        def request(partitions: Mapping[TopicPartition, Leader]) -> log_pb2.AwaitRecordsRequest:
            return log_pb2.AwaitRecordsRequest(
                partitions=[
                    log_pb2.WaitedPartition(
                        topic=at.topic,
                        partition=at.partition,
                        current_leader_epoch=leader.epoch,
                        offset=offsets[at],
                    )
                    for at, leader in partitions.items()
                ],
                min_records=share,
                max_wait_ms=wait_ms,
                isolation_level=self._isolation(),
            )

        waits = [
            asyncio.ensure_future(
                self._server(broker).call(apis.AWAIT_RECORDS, request(partitions), timeout_s)
            )
            for broker, partitions in led.items()
        ]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            answers = [wait.result() for wait in done]
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        return any(_arrived(answer, offsets) >= share for answer in answers)

    def _server(self, broker: int) -> Server:
        server = self._cluster.broker(broker)
        assert server is not None  # leader() names live brokers only
        return server

    async def _ask_leaders(
        self,
        wanted: Sequence[TopicPartition],
        ask: Callable[[Server, Mapping[TopicPartition, Leader]], Awaitable[T]],
    ) -> list[T]:
        """One call to each broker that leads some of the partitions, at once."""
        led = self._by_leader(wanted)
        calls = [ask(self._server(broker), partitions) for broker, partitions in led.items()]
        return list(await asyncio.gather(*calls))

    def _by_leader(
        self, wanted: Sequence[TopicPartition]
    ) -> dict[int, dict[TopicPartition, Leader]]:
        led: dict[int, dict[TopicPartition, Leader]] = {}
        for at in wanted:
            leader = self._cluster.metadata.leader(*at)
            if leader is None:
                count = self._cluster.metadata.partition_count(at.topic)
                if count is not None and at.partition >= count:
                    # Partitions of one topic are never taken away: this is another one.
                    raise TopicGone(
                        f"topic {at.topic} was deleted and created again, with {count} partitions"
                    )
                self._cluster.refresh_soon(at.topic)
                raise errors.LeaderNotAvailable(f"{at} has no live leader at the moment")
            led.setdefault(leader.broker, {})[at] = leader
        return led

    def lease_holder(self, holder: str) -> LeaseHolder:
        """The leases of a plan of reads, by its id: brokers keep what it holds from retention and
        compaction.
        """
        return LeaseHolder(self._thread, self._cluster, self._clock, holder, self._renewed)

    # ---- bytes --------------------------------------------------------------------------------

    def read(self, topic: str, topic_id: str, partition: int, start: int, end: int) -> RangeItems:
        """The batches that hold `start <= offset < end`, and what of it is gone or damaged, in
        order. They are
        asked for from now on, not only when the first one is taken: close what is not read to its
        end.

        Ends also where the range holds no record (control batches, compaction). Raises
        UnknownTopicId when the topic was deleted or re-created, RequestTimedOut with the last fault
        after `default.api.timeout.ms` without progress. Checksums are for the decoder to check.
        """
        fetcher = RangeFetcher(
            self._cluster,
            self._lines,
            self._settings,
            self._isolation(),
            topic,
            topic_id,
            partition,
            end,
            self.local_reads,
        )
        return RangeItems(self._thread, fetcher, self._thread.start(fetcher.run(start)))

    def close(self) -> None:
        """Close the connections."""
        self._thread.run(self._close())

    async def _close(self) -> None:
        self._lines.close()
        await self._cluster.close()

    def _on_fork(self) -> None:
        """In a forked child, nothing: it makes a reader of its own."""

    def _close_at_exit(self) -> None:
        """The interpreter ends."""
        self.close()

    def _isolation(self) -> log_pb2.IsolationLevel:
        return log_pb2.READ_COMMITTED if self._read_committed else log_pb2.READ_UNCOMMITTED


def _arrived(answer: log_pb2.AwaitRecordsResponse, offsets: Mapping[TopicPartition, int]) -> int:
    return sum(
        max(0, p.end_offset - offsets[TopicPartition(p.topic, p.partition)])
        for p in sound(answer.partitions)
    )


class RangeItems(Iterator[Batches | Skipped | Damaged]):
    """The records of a range, as they come in. No more is fetched once it is closed or dropped."""

    def __init__(self, thread: LoopThread, fetcher: RangeFetcher, running: Future[None]) -> None:
        self._thread = thread
        self._fetcher = fetcher
        self._running = running
        self._closed = False
        self._local: LocalRead | None = None

    def __next__(self) -> Batches | Skipped | Damaged:
        while not self._closed:
            if self._local is not None:
                block = self._local.next_block()
                if block is not None:
                    return Batches(block, checked=True)
                self._local = None
                self._thread.call(self._fetcher.local_done)
            item = self._fetcher.items.get()
            if isinstance(item, Batches | Skipped | Damaged):
                self._thread.call(self._fetcher.taken)
                return item
            if isinstance(item, Failed | End):
                self.close()
                if isinstance(item, Failed):
                    raise item.error
            else:
                self._local = item
        raise StopIteration

    def close(self) -> None:
        """Stop fetching."""
        self._closed = True
        if self._local is not None:
            self._local.close()
            self._local = None
        self._running.cancel()

    def __del__(self) -> None:
        self._running.cancel()
