"""The loop's side of a consumer: fetch streams, look-ups and timers, as the fetcher decides.

The user's thread comes in by `poke`; the lock covers the fetcher, and `ready` tells the user that
something came.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pylog import errors
from pylog.client.background import LoopThread, logger
from pylog.client.cluster import Cluster
from pylog.client.consumer_metrics import ConsumerMetrics
from pylog.client.fetch_events import (
    CancelFetch,
    Effect,
    Fetch,
    Listed,
    ListOffsets,
    Notice,
    RefreshMetadata,
)
from pylog.client.fetch_lines import pack_fetch
from pylog.client.fetcher import Fetcher
from pylog.client.stream import FETCH, RequestStream
from pylog.client.wire import fetched_of
from pylog.clock import Clock
from pylog.model import TopicPartition
from pylog.records.batch import Buffer
from pylog.rpc.v1 import log_pb2

GIVE_WAY_S: Final = 20e-6
FEW_BYTES: Final = 32 * 1024
"""An answer so small is awaited for its latency, a larger one for its bytes."""

_Response = tuple[int, list[tuple[log_pb2.PartitionData, Buffer]]]
_Stream = RequestStream[log_pb2.FetchRequest, _Response]


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """What goes into every fetch request."""

    min_bytes: int
    max_bytes: int
    partition_bytes: int
    read_committed: bool
    rack: str


class FetchLoop:
    """Carries out the fetcher's effects."""

    def __init__(
        self,
        thread: LoopThread,
        cluster: Cluster,
        fetcher: Fetcher,
        settings: FetchSettings,
        clock: Clock,
    ) -> None:
        self.cluster = cluster
        self.fetcher = fetcher
        self.lock = threading.Lock()
        self.ready = threading.Condition(self.lock)
        self.metrics = ConsumerMetrics(clock.monotonic_ms())
        self.closed = False
        self.listener: Callable[[], object] | None = None
        """Told as well when something comes; changed under the lock."""
        self.user_waits = False
        """Whether the user's thread sleeps until `ready`; changed under the lock."""
        self._thread = thread
        self._settings = settings
        self._isolation = (
            log_pb2.READ_COMMITTED if settings.read_committed else log_pb2.READ_UNCOMMITTED
        )
        self._clock = clock
        self._poke_pending = False
        self._timer: asyncio.TimerHandle | None = None
        self._streams: dict[tuple[int, int], _Stream] = {}  # by broker and lane
        self._tasks: set[asyncio.Task[None]] = set()

    def notify(self) -> None:
        """Tell who waits that something came. The lock is held."""
        self.ready.notify_all()
        if self.listener is not None:
            self.listener()

    def poke(self) -> None:
        """Have the loop look."""
        if not self._poke_pending:
            self._poke_pending = True
            self._thread.call(self.step, self.fetcher.poll)

    def step(
        self, event: Callable[..., list[Effect]], *arguments: Any, give_way: bool = False
    ) -> None:
        """Give the fetcher an event, wake the user, and carry out what the fetcher decides."""
        self._poke_pending = False
        if self.closed:
            return
        self.cluster.start()
        now_ms = self._clock.monotonic_ms()
        with self.lock:
            effects = event(now_ms, *arguments)
            if event != self.fetcher.poll:  # to ask for more is no news
                self.notify()
            waiting = self.user_waits
        if waiting and give_way:
            # Python's lock must be free when the user's thread wakes up, or its records come only
            # after the next request is on its way.
            self._clock.sleep(GIVE_WAY_S)
        with self.lock:
            if event == self.fetcher.place:
                effects += self.fetcher.poll(now_ms)
            next_ms = self.fetcher.next_deadline_ms(now_ms)
        for effect in effects:
            match effect:
                case Fetch():
                    self._send(effect)
                case CancelFetch(broker, lane):
                    stream = self._streams.pop((broker, lane), None)
                    if stream is not None:
                        stream.close()
                case ListOffsets():
                    task = asyncio.ensure_future(self._look_up(effect))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                case RefreshMetadata(topics):
                    self.cluster.refresh_soon(*topics)
                case Notice(text):
                    logger.warning("%s", text)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_ms is not None:
            delay_s = max(next_ms - now_ms + 0.5, 0.5) / 1000
            self._timer = self._thread.loop.call_later(delay_s, self.step, self.fetcher.poll)

    def _send(self, effect: Fetch) -> None:
        place = (effect.broker, effect.lane)
        stream = self._streams.get(place)
        if stream is None:
            server = self.cluster.broker(effect.broker)
            if server is None:
                self._thread.loop.call_soon(self.step, self.fetcher.on_fetch_failed, *place)
                return
            stream = self._streams[place] = RequestStream(
                effect.broker,
                server,
                self.cluster,
                FETCH,
                pack=pack_fetch,
                on_response=self._on_response,
                on_broken=self._on_broken,
            )
        request = log_pb2.FetchRequest(
            correlation=effect.correlation,
            max_wait_ms=effect.max_wait_ms,
            min_bytes=self._settings.min_bytes,
            max_bytes=self._settings.max_bytes,
            isolation_level="READ_COMMITTED"
            if self._settings.read_committed
            else "READ_UNCOMMITTED",
            client_id=self.cluster.settings.client_id,
            rack_id=self._settings.rack,
        )
        for item in effect.items:
            request.partitions.add(
                topic=item.topic_partition.topic,
                topic_id=item.topic_id,
                partition=item.topic_partition.partition,
                fetch_offset=item.offset,
                max_bytes=self._settings.partition_bytes,
                current_leader_epoch=item.leader_epoch,
                last_fetched_epoch=item.last_epoch,
            )
        self.metrics.fetch_sent(self._clock.monotonic_ms(), effect.correlation)
        stream.send(request)

    def _on_response(self, broker: int, response: _Response) -> None:
        correlation, partitions = response
        answers = [fetched_of(data, batches) for data, batches in partitions]
        size = sum(len(answer.batches) for answer in answers)
        self.metrics.fetch_answered(self._clock.monotonic_ms(), correlation, size)
        few = 0 < size <= FEW_BYTES
        self.step(self.fetcher.place, broker, correlation, answers, give_way=few)

    def _on_broken(self, stream: _Stream, fault: str) -> None:
        for place, known in self._streams.items():
            if known is stream:
                del self._streams[place]
                logger.debug("fetch stream to broker %d broke: %s", stream.broker, fault)
                self.step(self.fetcher.on_fetch_failed, *place)
                return

    async def _look_up(self, effect: ListOffsets) -> None:
        request = log_pb2.ListOffsetsRequest(
            isolation_level="READ_COMMITTED"
            if self._settings.read_committed
            else "READ_UNCOMMITTED"
        )
        generations = {}
        for tp, timestamp, epoch, generation in effect.items:
            generations[tp] = generation
            request.partitions.add(
                topic=tp.topic,
                partition=tp.partition,
                timestamp_ms=timestamp,
                current_leader_epoch=epoch,
            )
        try:
            server = self.cluster.broker(effect.broker)
            if server is None:
                raise errors.LeaderNotAvailable(f"broker {effect.broker} is not alive")
            timeout_s = self.cluster.settings.request_timeout_ms / 1000
            response = await server.call(server.log.ListOffsets, request, timeout_s)
        except errors.PylogError as error:
            self.step(
                self.fetcher.on_listed,
                [Listed(tp, g, error.code, str(error)) for tp, g in generations.items()],
            )
            return
        answers = []
        for told in response.partitions:
            tp = TopicPartition(told.topic, told.partition)
            answers.append(
                Listed(tp, generations[tp], told.error.code, told.error.message, told.offset)
            )
        self.step(self.fetcher.on_listed, answers)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()
        for task in self._tasks:
            task.cancel()
        await self.cluster.close()
