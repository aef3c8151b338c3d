"""The loop's side of a consumer: polls its request managers, and carries out what they want.

The user's thread comes in by `submit`, and gets its answers by the event; the lock covers the core,
and `ready` tells the user that something came. A thread that waits for small answers reads them
itself (`lent`), gives them to the core and asks for more, past the loop; so steps are made one at a
time, under `turn`, which comes before the lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pylog import errors
from pylog.client.background import AFTER_DEFECT_MS, LoopThread, as_defect, logger
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.consumer import consumer_calls
from pylog.client.consumer.commit_line import CommitLine
from pylog.client.consumer.consumer_metrics import ConsumerMetrics
from pylog.client.consumer.group_calls import GroupCalls
from pylog.client.fetching.consumer_core import ConsumerCore
from pylog.client.fetching.fetch_answers import Answers, read_answers
from pylog.client.fetching.fetch_events import (
    CancelFetch,
    Effect,
    Fetch,
    Fetched,
    ListOffsets,
    Notice,
    RefreshMetadata,
    WatchTopics,
)
from pylog.client.fetching.fetch_requests import FetchRequests, pack_encoded
from pylog.client.fetching.user_events import UserEvent
from pylog.client.membership.messages import GroupRequest, OffsetCommit
from pylog.client.streams.lent_streams import LentStreams
from pylog.client.streams.stream import FETCH, RequestStream
from pylog.clock import Clock
from pylog.deadline_timer import DeadlineTimer

GIVE_WAY_S: Final = 20e-6
FEW_BYTES: Final = 32 * 1024
"""An answer so small is awaited for its latency, a larger one for its bytes."""

T = TypeVar("T")

_Stream = RequestStream[bytes, Answers]
_FETCH: Final = FETCH.read_by(read_answers)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The part of every fetch request that is the same."""

    min_bytes: int
    max_bytes: int
    partition_bytes: int
    read_committed: bool
    rack: str


class ConsumerLoop:
    """Carries out the core's effects."""

    def __init__(
        self,
        thread: LoopThread,
        cluster: Cluster,
        core: ConsumerCore,
        settings: FetchSettings,
        clock: Clock,
        group_calls: GroupCalls | None = None,
    ) -> None:
        """`group_calls`: where the consumer has a group id."""
        self.cluster = cluster
        self.core = core
        self.lock = threading.Lock()
        self.ready = threading.Condition(self.lock)
        self.metrics = ConsumerMetrics(clock.monotonic_ms())
        self.closed = False
        self.defect: errors.PylogError | None = None
        """A step of the loop failed as nobody expects: for the user's next wait to raise. Changed
        under the lock.
        """
        self.listener: Callable[[], object] | None = None
        """Told as well when something comes; changed under the lock."""
        self.user_waits = False
        """Whether the user's thread sleeps until `ready`; changed under the lock."""
        self.turn = threading.RLock()
        self.lent = LentStreams(
            thread, self.lock, clock, notify=self.notify, on_interrupt=self._interrupted
        )
        self._thread = thread
        self._settings = settings
        self._requests = FetchRequests(
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            partition_bytes=settings.partition_bytes,
            read_committed=settings.read_committed,
            client_id=cluster.settings.client_id,
            rack=settings.rack,
        )
        self._clock = clock
        self._poke_pending = False
        self._timer = DeadlineTimer(self._on_timer)
        self._handed_over = 0  # lists of effects on their way to the loop
        self._streams: dict[tuple[int, int], _Stream] = {}  # by broker and lane
        self._tasks: set[asyncio.Task[None]] = set()
        self._group_calls = group_calls
        self.commit_line: CommitLine | None = None
        """Over it a thread that commits and waits sends and reads itself."""
        self.commit_under_way: OffsetCommit | None = None
        """The newest that went out by the loop."""

    def notify(self) -> None:
        """Tell the threads that wait that something came. The lock is held."""
        self.ready.notify_all()
        self.lent.wake()
        if self.listener is not None:
            self.listener()

    def notify_soon(self) -> None:
        """`notify`, by the loop."""
        self._thread.call(self._notify_here)

    def _notify_here(self) -> None:
        with self.lock:
            self.notify()

    def submit(self, event: UserEvent) -> None:
        """Give the core what the user's thread wants, and have the loop look. The event's answer is
        there by then, or comes later: `ready` tells.
        """
        with self.lock:
            effects = self.core.on_user(self._clock.monotonic_ms(), event)
        if effects:
            self._hand_over(effects)
        self.poke()

    def ask(self, question: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Ask something of the core's managers at the present time, and have the loop look."""
        with self.lock:
            answer = question(self._clock.monotonic_ms(), *arguments, **named)
        self.poke()
        return answer

    def look_by(self, time_ms: int) -> None:
        """Have the loop look then at the latest."""
        if not self._timer.is_due_by(time_ms):
            self.poke()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Have the loop's thread call it."""
        self._thread.call(function, *arguments)

    def carry_out(self, request: GroupRequest) -> None:
        """Have the loop send it, and the core hear the answer."""
        self._thread.call(self._begin_call, request)

    def begin_by(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine until the consumer is closed. On the loop."""
        if not self.closed:
            self._begin(make())

    def poke(self) -> None:
        """Have the loop look."""
        if not self._poke_pending:
            self._poke_pending = True
            self._thread.call(self.step)

    def step(
        self,
        event: Callable[..., list[Effect]] | None = None,
        *arguments: Any,
        give_way: bool = False,
    ) -> None:
        """Give the core an event, wake the user, poll, and carry out what the core decides. What
        fails in that as nobody expects is the user's to hear.
        """
        self._poke_pending = False
        if self.closed:
            return
        now_ms = self._clock.monotonic_ms()
        try:
            next_ms = self._take_step(now_ms, event, arguments, give_way)
        except Exception as error:  # noqa: BLE001  nobody else would hear of it
            next_ms = now_ms + AFTER_DEFECT_MS
            with self.lock:
                self.defect = as_defect(error, "a step of the consumer")
                self.notify()
        self._timer.set(self._thread.loop, now_ms, next_ms)

    def _take_step(
        self,
        now_ms: int,
        event: Callable[..., list[Effect]] | None,
        arguments: tuple[Any, ...],
        give_way: bool,
    ) -> int | None:
        """When there is something to do without another event."""
        self.cluster.start()
        effects: list[Effect] = []
        with self.turn:
            if event is not None:
                with self.lock:
                    effects = event(now_ms, *arguments)
                    self.notify()
                    waiting = self.user_waits
                if waiting and give_way:
                    # Python's lock must be free when the user's thread wakes up, or its records
                    # come only after the next request is on its way.
                    self._clock.sleep(GIVE_WAY_S)
            with self.lock:
                requests, next_ms = self.core.poll(now_ms)
                if self.core.wants_user:  # something whose time had come
                    self.notify()
            self._perform(effects + requests)
        return next_ms

    def _step_here(
        self, broker: int, correlation: int, answers: list[Fetched], stands: bool
    ) -> None:
        """An answer that the user's thread has read: what comes of it is done here, or handed over
        to the loop where it takes more than to write.
        """
        with self.turn:
            now_ms = self._clock.monotonic_ms()
            with self.lock:
                effects, next_ms = self.core.on_fetched(
                    now_ms, broker, correlation, answers, stands
                )
            while effects and not self._handed_over and self._send_here(effects[0]):
                del effects[0]
            if effects:
                self._hand_over(effects)
            if next_ms is not None:
                self.look_by(next_ms)

    def _hand_over(self, effects: list[Effect]) -> None:
        with self.turn:
            self._handed_over += 1
            self._thread.call(self._take_over, effects)

    def _take_over(self, effects: list[Effect]) -> None:
        with self.turn:
            self._handed_over -= 1
            if not self.closed:
                self._perform(effects)

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Fetch():
                    self._send(effect)
                case CancelFetch(broker, lane):
                    stream = self._streams.pop((broker, lane), None)
                    if stream is not None:
                        stream.close()
                        self.lent.sort_out()
                case ListOffsets():
                    self._begin(self._list(effect))
                case WatchTopics(topics, every):
                    self.cluster.all_topics = every
                    self.cluster.topics.clear()
                    self.cluster.refresh_soon(*topics)
                case RefreshMetadata(topics):
                    self.cluster.refresh_soon(*topics)
                case Notice(text):
                    logger.warning("%s", text)
                case _:
                    self._begin_call(effect)

    def _begin_call(self, request: GroupRequest) -> None:
        if isinstance(request, OffsetCommit):
            self.commit_under_way = request
        self._begin(self._call(request))

    def _begin(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_timer(self) -> None:
        self.step()

    def _interrupted(self) -> None:
        """The user's thread was interrupted with an answer in hands: nothing of it counts, and
        nothing that was asked for is waited for.
        """
        with self.turn, self.lock:
            self.lent.lent = {}
            self.core.start_over()
        self._thread.call(self._begin_anew)

    def _begin_anew(self) -> None:
        with self.turn:
            for stream in self._streams.values():
                stream.close(abort=True)  # what is half written is nobody's
            self._streams.clear()
            self.lent.sort_out()
            with self.lock:
                self.core.start_over()
        self.step()

    def _send(self, effect: Fetch) -> None:
        place = (effect.broker, effect.lane)
        stream = self._streams.get(place)
        if stream is None:
            server = self.cluster.broker(effect.broker)
            if server is None:
                self._thread.loop.call_soon(self.step, self.core.fetcher.on_fetch_failed, *place)
                return
            stream = self._streams[place] = RequestStream(
                effect.broker,
                server,
                self.cluster,
                _FETCH,
                pack=pack_encoded,
                on_response=self._on_response,
                on_broken=self._on_broken,
                lock=self.turn,
            )
        stream.send(self._request(effect))

    def _send_here(self, effect: Effect) -> bool:
        """Send the fetch on this thread; False when it is something else, or has to wait."""
        if not isinstance(effect, Fetch):
            return False
        stream = self._streams.get((effect.broker, effect.lane))
        carrier = stream.free_carrier if stream is not None else None
        if stream is None or carrier is None:
            return False
        stream.send_here(carrier, self._request(effect))
        return True

    def _request(self, effect: Fetch) -> bytes:
        self.metrics.fetch_sent(self._clock.monotonic_ms(), effect.correlation)
        return self._requests.encode(
            effect.correlation,
            effect.max_wait_ms,
            effect.items,
            leaders_only=effect.leaders_only,
        )

    def _on_response(self, broker: int, response: Answers) -> None:
        correlation, answers, stands = response
        size = sum(len(answer.batches) for answer in answers)
        now_ms = self._clock.monotonic_ms()
        self.metrics.fetch_answered(now_ms, correlation, size)
        if stands:
            self.metrics.fetch_sent(now_ms, correlation)
        few = size <= FEW_BYTES
        if not self._thread.is_current():
            self._step_here(broker, correlation, answers, stands)
            if not few:  # to fetch ahead pays more
                self._thread.call(self.lent.take_back)
            return
        waits = self.user_waits or self.lent.somebody_waits
        give_way = few and size > 0
        self.step(self.core.fetcher.place, broker, correlation, answers, stands, give_way=give_way)
        for stream in self._streams.values():
            if stream.broker == broker:
                self.lent.answered(stream, awaited=few and waits)

    def _on_broken(self, stream: _Stream, fault: str, too_large: TooLarge | None) -> None:
        self.lent.sort_out()
        for place, known in self._streams.items():
            if known is stream:
                with self.turn:
                    del self._streams[place]
                if stream.went_idle:
                    return  # the next fetch opens another
                logger.debug("fetch stream to broker %d broke: %s", stream.broker, fault)
                error = errors.MessageTooLarge(fault) if too_large is not None else None
                self.step(self.core.fetcher.on_fetch_failed, *place, error)
                return

    async def _list(self, request: ListOffsets) -> None:
        committed = self._settings.read_committed
        try:
            answer = await consumer_calls.list_offsets(
                self.cluster, request, read_committed=committed
            )
        except errors.PylogError as error:
            self.step(self.core.on_no_answer, request, error)
        except Exception as error:  # noqa: BLE001  the partitions wait for it
            self.step(self.core.on_no_answer, request, as_defect(error, "ListOffsets"))
        else:
            self.step(self.core.on_listed, request, answer)

    async def _call(self, request: GroupRequest) -> None:
        assert self._group_calls is not None
        assert self.core.group is not None
        try:
            answer = await self._group_calls.call(request, self.core.group.topic_id)
        except errors.PylogError as error:
            self.step(self.core.on_no_answer, request, error)
        else:
            self.step(self.core.on_group_answer, request, answer)

    async def close(self) -> None:
        self._timer.cancel()
        with self.turn:
            for stream in self._streams.values():
                stream.close()
            self._streams.clear()
        self.lent.close()
        if self.commit_line is not None:
            self.commit_line.close()
        for task in self._tasks:
            task.cancel()
        await self.cluster.close()
