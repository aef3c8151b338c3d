"""Blocking reads of fixed offset ranges, for those who plan their own work: Spark tasks.

`RangeReader` tells a topic's bounds and yields the raw batches of `[start, end)` of a partition,
straight from its leader. It knows nothing of groups, positions or records: who reads decodes, and
decides what lost offsets mean. The next fetch is under way while the caller works on this one.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from pylog import errors
from pylog.client.background import close_at_exit, shared_loop
from pylog.client.cluster import Cluster, ClusterSettings, Server
from pylog.client.metadata import Leader, TopicInfo
from pylog.client.wire import error_of, metadata_request, snapshot_of
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.model import EARLIEST_TIMESTAMP, TopicPartition
from pylog.records.batch import Buffer, last_header
from pylog.rpc.v1 import log_pb2

PREFETCHED_MAX: Final = 2
"""Fetches that wait for the caller, besides the one under way: this many times
`max.partition.fetch.bytes` is what a reader holds."""
STUCK_AFTER_S: Final = 3.0
"""More than a long poll takes. A frozen leader does not break its connection, so the first attempts
end early, look for a new leader, and wait longer each time in case the network is only slow."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An answer to "which offset": the leader epoch and the id of the topic that answered."""

    offset: int
    leader_epoch: int
    topic_id: str
    timestamp_ms: int = -1
    """Of the record found by its time."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Whole record batches; the first may begin before, the last end behind what was asked for."""

    data: Buffer


@dataclass(frozen=True, slots=True)
class Skipped:
    """Offsets `wanted` to `first` (exclusive) are not in the log any more."""

    wanted: int
    first: int


@dataclass(frozen=True, slots=True)
class _Failed:
    error: BaseException


class _End:
    """Nothing more will come."""


class RangeReader:
    """Metadata, bounds and bytes of partitions. One thread at a time; close it when done.

    `settings` are a consumer's, parsed, by dotted name; `max.partition.fetch.bytes` and
    `fetch.max.wait.ms` bound one fetch, `default.api.timeout.ms` the time without progress.
    """

    def __init__(self, settings: Mapping[str, Any], *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._settings = settings
        self._clock = clock
        self._timeout_ms: int = settings["default.api.timeout.ms"]
        self._read_committed = settings["isolation.level"] == "read_committed"
        self._thread = shared_loop()
        self._cluster = Cluster(self._thread, ClusterSettings.of(settings), clock=clock)
        close_at_exit(self)

    # ---- metadata and bounds ------------------------------------------------------------------

    def topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """The topics as the cluster has them now; those that it denies are left out.

        Raises BootstrapFailed, which names each address and its fault.
        """
        return self._thread.run(self._topics(names))

    async def _topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        cluster = self._cluster
        try:
            await asyncio.wait_for(cluster.refresh(*names), self._timeout_ms / 1000)
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

    async def _offsets(
        self, wanted: Sequence[TopicPartition], timestamp_ms: int, timeout_s: float
    ) -> dict[TopicPartition, ListedOffset]:
        def request(led: Mapping[TopicPartition, Leader]) -> log_pb2.ListOffsetsRequest:
            return log_pb2.ListOffsetsRequest(
                isolation_level=self._isolation(),
                partitions=[
                    log_pb2.PartitionTimestamp(
                        topic=at.topic,
                        partition=at.partition,
                        timestamp_ms=timestamp_ms,
                        current_leader_epoch=leader.epoch,
                    )
                    for at, leader in led.items()
                ],
            )

        for topic in dict.fromkeys(at.topic for at in wanted):
            await _still_there(self._cluster, topic, "", timeout_s * 1000)
        answers = await self._ask_leaders(
            wanted,
            lambda server, led: server.call(server.log.ListOffsets, request(led), timeout_s),
        )
        return {
            TopicPartition(p.topic, p.partition): ListedOffset(
                p.offset, p.leader_epoch, p.topic_id, p.timestamp_ms
            )
            for answer in answers
            for p in _sound(answer.partitions)
        }

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where each partition's given leader epoch ends by now (KIP-320): an end below an offset
        that was read under that epoch means that the log was cut there.

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
            lambda server, led: server.call(
                server.log.OffsetForLeaderEpoch, request(led), timeout_s
            ),
        )
        return {
            TopicPartition(p.topic, p.partition): p.end_offset
            for answer in answers
            for p in _sound(answer.partitions)
            if p.end_offset >= 0
        }

    async def _ask_leaders(
        self,
        wanted: Sequence[TopicPartition],
        ask: Callable[[Server, Mapping[TopicPartition, Leader]], Awaitable[T]],
    ) -> list[T]:
        """One call to each broker that leads some of the partitions, at once."""
        led: dict[int, dict[TopicPartition, Leader]] = {}
        for at in wanted:
            leader = self._cluster.metadata.leader(*at)
            if leader is None:
                self._cluster.refresh_soon(at.topic)
                raise errors.LeaderNotAvailable(f"{at} has no live leader at the moment")
            led.setdefault(leader.broker, {})[at] = leader
        calls = []
        for broker, partitions in led.items():
            server = self._cluster.broker(broker)
            assert server is not None  # leader() names live brokers only
            calls.append(ask(server, partitions))
        return list(await asyncio.gather(*calls))

    # ---- bytes --------------------------------------------------------------------------------

    def read(
        self, topic: str, topic_id: str, partition: int, start: int, end: int
    ) -> Iterator[Batches | Skipped]:
        """The batches that hold `start <= offset < end`, and what of it is gone, in order.

        Ends also where the range holds no record (control batches, compaction). Raises
        UnknownTopicId when the topic was deleted or re-created, RequestTimedOut with the last fault
        after `default.api.timeout.ms` without progress. Checksums are for who decodes.
        """
        fetcher = _Fetcher(
            self._cluster, self._settings, self._isolation(), topic, topic_id, partition, end
        )
        running = self._thread.start(fetcher.run(start))
        try:
            while True:
                item = fetcher.items.get()
                if isinstance(item, _End):
                    return
                if isinstance(item, _Failed):
                    raise item.error
                self._thread.call(fetcher.taken)
                yield item
        finally:
            running.cancel()

    def close(self) -> None:
        """Close the connections."""
        self._thread.run(self._cluster.close())

    def close_at_exit(self) -> None:
        """The interpreter ends."""
        self.close()

    def _isolation(self) -> log_pb2.IsolationLevel:
        return log_pb2.READ_COMMITTED if self._read_committed else log_pb2.READ_UNCOMMITTED


class _Fetcher:
    """Fetches one range, on the loop, at most `PREFETCHED_MAX` answers ahead of `items`' reader."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Mapping[str, Any],
        isolation: log_pb2.IsolationLevel,
        topic: str,
        topic_id: str,
        partition: int,
        end: int,
    ) -> None:
        self.items: queue.SimpleQueue[Batches | Skipped | _Failed | _End] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(PREFETCHED_MAX)
        self._cluster = cluster
        self._settings = settings
        self._isolation = isolation
        self._at = TopicPartition(topic, partition)
        self._topic_id = topic_id
        self._end = end
        self._empty = 0
        self._stuck = 0

    def taken(self) -> None:
        """The reader took an item: fetch one more."""
        self._room.release()

    async def run(self, start: int) -> None:
        """Fetch until the end, or until something that no retry cures."""
        try:
            await self._run(start)
        except errors.PylogError as error:
            self.items.put(_Failed(error))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  the reader must not wait for ever
            self.items.put(_Failed(error))
        else:
            self.items.put(_End())

    async def _run(self, position: int) -> None:
        timeout_ms = self._settings["default.api.timeout.ms"]
        what = f"reading {self._at} from offset {{}} to {self._end}"
        while position < self._end:
            await self._room.acquire()
            item, position = await self._cluster.retrying(
                lambda left_s, at=position: self._fetch(at, left_s),  # type: ignore[misc]
                timeout_ms,
                what.format(position),
            )
            self._empty = self._stuck = 0
            if item is None:
                return
            self.items.put(item)

    async def _fetch(self, position: int, left_s: float) -> tuple[Batches | Skipped | None, int]:
        """What the leader has at `position`, and the next position; nothing: the range is done.

        Waits, by raising a retriable error, while the leader has less than the range's end.
        """
        answer = await self._ask(position, left_s)
        if answer is None:
            return await self._nothing(position, -1)
        data, batches = answer
        code = data.error.code
        if code == errors.OffsetOutOfRange.code:
            return await self._out_of_range(position)
        if code in (
            errors.UnknownTopicOrPartition.code,
            errors.UnknownTopicId.code,
            errors.InconsistentTopicId.code,
        ):
            await self._check_topic()
        if code == errors.NotLeaderOrFollower.code or code == errors.FencedLeaderEpoch.code:
            self._cluster.metadata.learn_leader(
                *self._at, data.current_leader, data.current_leader_epoch
            )
        error = error_of(data.error, str(self._at))
        if error is not None:
            raise error
        if not len(batches):
            return await self._nothing(position, data.high_watermark)
        last = last_header(batches)
        if last is None or last.next_offset <= position:
            raise errors.CorruptMessage(
                f"{self._at}: {len(batches)} bytes at offset {position} are no whole batch"
            )
        return Batches(batches), last.next_offset

    async def _ask(
        self, position: int, left_s: float
    ) -> tuple[log_pb2.PartitionData, Buffer] | None:
        leader = self._cluster.metadata.leader(*self._at)
        server = self._cluster.broker(leader.broker) if leader is not None else None
        if leader is None or server is None:
            self._cluster.refresh_soon(self._at.topic)
            raise errors.LeaderNotAvailable(f"{self._at} has no live leader at the moment")
        bytes_max: int = self._settings["max.partition.fetch.bytes"]
        request = log_pb2.FetchRequest(
            max_wait_ms=self._settings["fetch.max.wait.ms"],
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=self._isolation,
            client_id=self._settings["client.id"],
            partitions=[
                log_pb2.PartitionFetch(
                    topic=self._at.topic,
                    topic_id=self._topic_id,
                    partition=self._at.partition,
                    fetch_offset=position,
                    max_bytes=bytes_max,
                    current_leader_epoch=leader.epoch,
                    last_fetched_epoch=-1,
                )
            ],
        )
        patience_s = self._settings["fetch.max.wait.ms"] / 1000 + STUCK_AFTER_S * 2**self._stuck
        try:
            _, partitions = await server.call(server.fetch, request, min(left_s, patience_s))
        except errors.BrokerUnreachable:
            self._stuck = min(self._stuck + 1, 8)
            raise
        return partitions[0] if partitions else None

    async def _nothing(
        self, position: int, high_watermark: int
    ) -> tuple[Batches | Skipped | None, int]:
        """No bytes: a leader that does not know yet what is committed, or a gap up to the end."""
        self._empty += 1
        if high_watermark < self._end and self._empty > 1:
            server = self._cluster.broker(self._leader())
            if server is not None:
                listed = await self._list(server, -1)
                high_watermark = max(high_watermark, listed.offset)
        if high_watermark >= self._end and self._empty > 2:
            # Asked three times, with all of the range committed: compaction emptied it.
            return None, self._end
        raise errors.OffsetNotAvailable(
            f"{self._at} has no records at offset {position}; its committed end is "
            f"{high_watermark}, and the range ends at {self._end}"
        )

    async def _out_of_range(self, position: int) -> tuple[Batches | Skipped | None, int]:
        server = self._cluster.broker(self._leader())
        if server is None:
            raise errors.LeaderNotAvailable(f"{self._at} has no live leader at the moment")
        listed = await self._list(server, EARLIEST_TIMESTAMP)
        if listed.offset > position:
            first = min(listed.offset, self._end)
            return Skipped(position, first), first
        # Behind the leader's end: it lags, or the log was cut. Only time tells which.
        raise errors.OffsetNotAvailable(
            f"{self._at} ends before offset {position}, which was readable before: its leader "
            "lags, or records were lost"
        )

    async def _list(self, server: Server, timestamp_ms: int) -> log_pb2.PartitionOffset:
        request = log_pb2.ListOffsetsRequest(
            isolation_level=self._isolation,
            partitions=[
                log_pb2.PartitionTimestamp(
                    topic=self._at.topic,
                    partition=self._at.partition,
                    timestamp_ms=timestamp_ms,
                    current_leader_epoch=-1,
                )
            ],
        )
        timeout_s = self._settings["request.timeout.ms"] / 1000
        response: log_pb2.ListOffsetsResponse = await server.call(
            server.log.ListOffsets, request, timeout_s
        )
        return _sound(response.partitions)[0]

    def _leader(self) -> int:
        leader = self._cluster.metadata.leader(*self._at)
        return leader.broker if leader is not None else -1

    async def _check_topic(self) -> None:
        """UnknownTopicId when the topic is gone or another one; else the broker only lags."""
        timeout_ms = self._settings["default.api.timeout.ms"]
        try:
            await asyncio.wait_for(self._cluster.refresh(self._at.topic), timeout_ms / 1000)
        except TimeoutError:
            raise self._cluster.unreachable(timeout_ms) from None
        await _still_there(self._cluster, self._at.topic, self._topic_id, timeout_ms)


class TopicGone(errors.UnknownTopicId):
    """The topic that was to be read does not exist any more; no retry brings it back."""

    retriable = False
    refreshes_metadata = False


async def _still_there(cluster: Cluster, topic: str, topic_id: str, timeout_ms: float) -> None:
    """TopicGone when the cluster denies the topic for good, or has another one of its name."""
    try:
        info = await cluster.topic(topic, int(timeout_ms))
    except errors.UnknownTopicOrPartition:
        raise TopicGone(f"topic {topic} was deleted") from None
    if topic_id and info.topic_id != topic_id:
        raise TopicGone(
            f"topic {topic} was deleted and created again: its id was {topic_id} and is "
            f"{info.topic_id}"
        )


def _sound(answers: Iterable[T]) -> list[T]:
    """The answers of a response; raises the error of the first that has one."""
    found = list(answers)
    for answer in found:
        at: Any = answer
        error = error_of(at.error, f"{at.topic}-{at.partition}")
        if error is not None:
            raise error
    return found
