"""Fetches one offset range of one partition: the loop's side of `range_reader`."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pylog import errors
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import error_of
from pylog.client.ranges.fetch_lines import FetchLines
from pylog.client.ranges.local_reads import LocalRange, LocalReads
from pylog.model import EARLIEST_TIMESTAMP, TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import log_pb2

if TYPE_CHECKING:
    from pylog.client.cluster.metadata import Leader
    from pylog.client.ranges.local_files import LocalRead
    from pylog.records.batch import Buffer

PREFETCHED_MAX: Final = 2
"""Fetches that wait for the caller, besides the one under way: this many times
`max.partition.fetch.bytes` is what a reader holds."""
STUCK_AFTER_S: Final = 3.0
"""More than a long poll takes. A frozen leader does not break its connection, so the first attempts
end early, look for a new leader, and wait longer each time in case the network is only slow."""

FETCH_BYTES_MIN: Final = 256 * 1024
RECORD_BYTES: Final = 2 * 1024
"""The assumed size of a record before one was seen. A range of few offsets in front of many more is
asked for with a bound: a leader gives all that a fetch may hold."""

LOCAL_BYTES_MIN: Final = 4 << 20
"""A range of fewer bytes is not worth a local read, which takes longer to open than a fetch."""
LOCAL_RECORD_BYTES: Final = 128
"""The assumed size of a record for that, before one was seen. It is small, so that the first bytes
of a range of few records are fetched, and tell."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batches:
    """Whole record batches; the first may begin before, the last end behind what was asked for.
    `checked`: their CRCs match.
    """

    data: Buffer
    checked: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """Offsets `wanted` to `first` (exclusive) are not in the log any more."""

    wanted: int
    first: int


@dataclass(frozen=True, slots=True)
class Damaged:
    """The records at offsets `wanted` to `first` (exclusive) are corrupt at their leader, which
    gives `reason`; those that follow can be read.
    """

    wanted: int
    first: int
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    error: BaseException


class End:
    """Nothing more will come."""


class RangeFetcher:
    """Fetches one range, on the loop, at most `PREFETCHED_MAX` answers ahead of `items`' reader."""

    def __init__(
        self,
        cluster: Cluster,
        lines: FetchLines,
        settings: Mapping[str, Any],
        isolation: log_pb2.IsolationLevel,
        topic: str,
        topic_id: str,
        partition: int,
        end: int,
        local_reads: LocalReads | None = None,
    ) -> None:
        """`local_reads`: files of the leader are read where it hands them over."""
        self.items: queue.SimpleQueue[Batches | Skipped | Damaged | LocalRead | Failed | End] = (
            queue.SimpleQueue()
        )
        self._local_reads = local_reads
        self._local: asyncio.Future[None] | None = None  # done when the reader has finished one
        self._room = asyncio.Semaphore(PREFETCHED_MAX)
        self._cluster = cluster
        self._lines = lines
        self._settings = settings
        self._isolation = isolation
        self._at = TopicPartition(topic, partition)
        self._topic_id = topic_id
        self._end = end
        self._empty = 0
        self._stuck = 0
        self._record_bytes = RECORD_BYTES
        self._seen_bytes = LOCAL_RECORD_BYTES  # of a record, on the average of the last fetch

    def taken(self) -> None:
        """The reader took an item: fetch one more."""
        self._room.release()

    def local_done(self) -> None:
        """The reader has finished the local read that it took."""
        if self._local is not None and not self._local.done():
            self._local.set_result(None)

    async def run(self, start: int) -> None:
        """Fetch until the end, or until something that no retry cures."""
        try:
            await self._run(start)
        except errors.PylogError as error:
            self.items.put(Failed(error))
        except asyncio.CancelledError:
            # The reader stopped, or the client is closed while somebody reads.
            self.items.put(Failed(errors.ClientClosed("the client was closed while it read")))
            raise
        except Exception as error:  # noqa: BLE001  the reader must not wait for ever
            self.items.put(Failed(error))
        else:
            self.items.put(End())

    async def _run(self, position: int) -> None:
        timeout_ms = self._settings["default.api.timeout.ms"]
        what = f"reading {self._at} from offset {{}} to {self._end}"
        while position < self._end:
            if self._local_reads is not None:
                position = await self._read_locally(self._local_reads, position)
                if position >= self._end:
                    return
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

    async def _read_locally(self, local_reads: LocalReads, position: int) -> int:
        """The position to go on from over the network, behind what files of the leader gave."""
        while (self._end - position) * self._seen_bytes >= LOCAL_BYTES_MIN:
            try:
                leader, server = await self._located()
            except errors.PylogError:
                return position  # the fetch that follows tries again, and tells
            wanted = LocalRange(
                self._at, self._topic_id, leader.epoch, position, self._end, self._isolation
            )
            read = await local_reads.open(leader.broker, server, wanted)
            if read is None:
                return position
            self._local = asyncio.get_running_loop().create_future()
            try:
                self.items.put(read)
                await self._local
            finally:
                local_reads.release(read)
            begun, position = position, read.position
            if read.is_damaged:
                local_reads.fell_back("DAMAGED", f"{self._at} from offset {position}: {read.fault}")
            if position == begun or read.is_damaged:
                return position  # one fetch at least, so that the range gets on
        return position

    async def _located(self) -> tuple[Leader, Server]:
        """The partition's leader."""
        topic = self._at.topic
        known = self._cluster.metadata.topic_id(topic)
        if not known or known != (self._topic_id or known) or topic in self._cluster.denied:
            # The range was planned by another process, some time ago: the topic may be gone, and
            # one of its name may have fewer partitions.
            await self._check_topic()
        leader = self._cluster.metadata.leader(*self._at)
        server = self._cluster.broker(leader.broker) if leader is not None else None
        if leader is None or server is None:
            self._cluster.refresh_soon(topic)
            raise errors.LeaderNotAvailable(f"{self._at} has no live leader at the moment")
        return leader, server

    async def _fetch(
        self, position: int, left_s: float
    ) -> tuple[Batches | Skipped | Damaged | None, int]:
        """The leader's batches at `position`, and the next position; none: the range is done.

        Waits, by raising a retriable error, while the leader has less than the range's end.
        """
        answer = await self._ask(position, left_s)
        if answer is None:
            return await self._nothing(position)
        data, batches = answer
        code = data.error.code
        if code == errors.OffsetOutOfRange.code:
            return await self._out_of_range(position)
        if code == errors.CorruptMessage.code and data.damaged_end_offset > position:
            first = min(data.damaged_end_offset, self._end)
            return Damaged(position, first, data.error.message), first
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
            stable = self._isolation == log_pb2.READ_COMMITTED
            end = data.last_stable_offset if stable else data.high_watermark
            return await self._nothing(position, end)
        # Here: planners, who ask for bounds only, start sooner without them.
        from pylog.client.fetching.fetch_answers import aborted_of
        from pylog.records.batch import last_header
        from pylog.records.transactions import without_aborted

        last = last_header(batches)
        if last is None or last.next_offset <= position:
            raise errors.CorruptMessage(
                f"{self._at}: {len(batches)} bytes at offset {position} are no whole batch"
            )
        seen = -(-len(batches) // (last.next_offset - position))
        self._record_bytes = max(self._record_bytes, seen)
        self._seen_bytes = seen
        return Batches(without_aborted(batches, aborted_of(data))), last.next_offset

    async def _ask(
        self, position: int, left_s: float
    ) -> tuple[log_pb2.PartitionData, Buffer] | None:
        leader, server = await self._located()
        likely = max(FETCH_BYTES_MIN, (self._end - position) * self._record_bytes)
        bytes_max = min(self._settings["max.partition.fetch.bytes"], likely)
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
            partitions = await self._lines.ask(
                leader.broker, server, request, min(left_s, patience_s)
            )
        except errors.BrokerUnreachable:
            self._stuck = min(self._stuck + 1, 8)
            raise
        return partitions[0] if partitions else None

    async def _nothing(
        self, position: int, readable: int = -1
    ) -> tuple[Batches | Skipped | Damaged | None, int]:
        """No bytes: a leader that does not know yet what is committed, a transaction that is open,
        or a gap up to the end.
        """
        self._empty += 1
        if readable < self._end and self._empty > 1:
            server = self._cluster.broker(self._leader())
            if server is not None:
                listed = await self._list(server, -1)
                readable = max(readable, listed.offset)
        if readable >= self._end and self._empty > 2:
            # Asked three times, with all of the range readable: compaction emptied it.
            return None, self._end
        words = "its committed end is"
        if self._isolation == log_pb2.READ_COMMITTED:
            words = "transactions may be open from its last stable offset on, which is"
        raise errors.OffsetNotAvailable(
            f"{self._at} has no records at offset {position}; {words} {readable}, and the range "
            f"ends at {self._end}"
        )

    async def _out_of_range(self, position: int) -> tuple[Batches | Skipped | Damaged | None, int]:
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
        response = await server.call(apis.LIST_OFFSETS, request, timeout_s)
        return sound(response.partitions)[0]

    def _leader(self) -> int:
        leader = self._cluster.metadata.leader(*self._at)
        return leader.broker if leader is not None else -1

    async def _check_topic(self) -> None:
        """UnknownTopicId when the topic is gone or another one; else the broker only lags."""
        timeout_ms = self._settings["default.api.timeout.ms"]
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._cluster.refresh(self._at.topic)
        except TimeoutError:
            raise self._cluster.unreachable(timeout_ms) from None
        await still_there(self._cluster, self._at.topic, self._topic_id, timeout_ms)


class TopicGone(errors.UnknownTopicId):
    """The topic that was to be read does not exist any more; no retry brings it back."""

    retriable = False
    refreshes_metadata = False


async def still_there(cluster: Cluster, topic: str, topic_id: str, timeout_ms: float) -> None:
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


def sound(answers: Iterable[T]) -> list[T]:
    """The answers of a response; raises the error of the first that has one."""
    found = list(answers)
    for answer in found:
        at: Any = answer
        error = error_of(at.error, f"{at.topic}-{at.partition}")
        if error is not None:
            raise error
    return found
