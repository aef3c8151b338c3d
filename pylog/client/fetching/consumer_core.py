"""The consumer's core: all its request managers, and what the user wants of them. Pure.

Events in, requests out. The consumer's lock is held around each call. The loop tells what came,
polls, and performs what that gives; a manager that is added here is polled there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from pylog import errors
from pylog.client.answers import Callback
from pylog.client.cluster.metadata import ClusterMetadata
from pylog.client.fetching.fetch_events import (
    Effect,
    Fetched,
    Listed,
    ListOffsets,
    WatchTopics,
)
from pylog.client.fetching.fetch_state import FetcherSettings
from pylog.client.fetching.fetcher import Fetcher
from pylog.client.fetching.leader_finder import LeaderFinder
from pylog.client.fetching.offset_look_ups import OffsetLookUps
from pylog.client.fetching.positions import Positions
from pylog.client.fetching.request_manager import Polled, RequestManager
from pylog.client.fetching.subscription import Subscription
from pylog.client.fetching.user_events import (
    AskPosition,
    Assign,
    Pause,
    Resume,
    Seek,
    SeekTo,
    StartFetching,
    Subscribe,
    UserEvent,
)
from pylog.model import TopicPartition


class ConsumerCore:
    """Owned by the consumer's lock. `poll` decides, and says when next."""

    def __init__(
        self,
        settings: FetcherSettings,
        metadata: ClusterMetadata,
        jitter: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self.subscription = Subscription()
        self.positions = Positions(settings, metadata, jitter, wall_ms)
        self.leaders = LeaderFinder(settings, metadata)
        self.look_ups = OffsetLookUps(self.positions, metadata, self.leaders)
        self.fetcher = Fetcher(self.positions, metadata, self.leaders)
        self.managers: tuple[RequestManager, ...] = (self.look_ups, self.fetcher, self.leaders)
        """As they are polled: those that miss leaders before the one that finds them."""
        self.for_user: deque[Callback] = deque()
        """What the next poll runs on the user's thread, in this order."""
        self._metadata = metadata

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> Polled:
        """Everything that can be decided now."""
        requests: list[Effect] = []
        deadline: int | None = None
        for manager in self.managers:
            wanted, at_ms = manager.poll(now_ms)
            requests += wanted
            if at_ms is not None and (deadline is None or at_ms < deadline):
                deadline = at_ms
        return Polled(requests, deadline)

    # ---- the user -----------------------------------------------------------------------------

    def on_user(self, now_ms: int, event: UserEvent) -> list[Effect]:
        """The user's thread wants something. What it may not have is told by the answer."""
        effects: list[Effect] = []
        try:
            self._do(event, effects)
        except errors.PylogError as error:
            event.answer.fail(error)
            return effects
        if not isinstance(event, AskPosition):
            event.answer.succeed(None)
        return effects

    def _do(self, event: UserEvent, effects: list[Effect]) -> None:
        positions = self.positions
        match event:
            case Subscribe(subscription):
                self._subscribe(subscription, effects)
            case Assign(partitions):
                self.subscription = Subscription()
                self._assign(partitions)
                topics = dict.fromkeys(tp.topic for tp in partitions)
                effects.append(WatchTopics(tuple(topics), every=False))
            case StartFetching():
                if not positions.partitions and not self.subscription:
                    raise errors.InvalidRequest(
                        "Consumer is not subscribed to any topics or assigned any partitions"
                    )
                self.fetcher.active = True
            case Seek(tp, offset, last_epoch):
                positions.seek(positions.assigned(tp), offset, last_epoch)
            case SeekTo(partitions, timestamp):
                for tp in partitions:
                    positions.seek_to(positions.assigned(tp), timestamp)
            case Pause(partitions):
                for tp in partitions:
                    positions.assigned(tp).paused = True
            case Resume(partitions):
                for tp in partitions:
                    positions.resume(positions.assigned(tp))
            case AskPosition():
                positions.ask_position(event)
            case _:
                assert_never(event)

    def _subscribe(self, subscription: Subscription, effects: list[Effect]) -> None:
        self.subscription = subscription
        names = subscription.matching(self._metadata.topics)
        self._assign(tp for tp in self.positions.partitions if tp.topic in names)
        self.add_partitions()
        every = subscription.pattern is not None
        effects.append(WatchTopics(subscription.topics, every=every))

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.positions.assign(partitions)
        self.leaders.forget_all_but(self.positions.partitions)

    # ---- metadata -----------------------------------------------------------------------------

    def add_partitions(self) -> None:
        """Assign what the subscription covers and metadata tell of."""
        subscription = self.subscription
        for topic in subscription.matching(self._metadata.topics):
            later = topic in subscription.seen
            subscription.seen.add(topic)
            for number in range(self._metadata.partition_count(topic) or 0):
                self.positions.add(TopicPartition(topic, number), found_later=later)

    def on_topic_gone(self, topic: str) -> None:
        """A topic that does not exist any more matches no pattern."""
        self.subscription.seen.discard(topic)
        self._assign([tp for tp in self.positions.partitions if tp.topic != topic])

    def on_metadata(self, now_ms: int) -> list[Effect]:
        """Metadata have been refreshed."""
        self.add_partitions()
        return self.positions.on_metadata(now_ms)

    # ---- answers ------------------------------------------------------------------------------

    def on_fetched(
        self,
        now_ms: int,
        broker: int,
        correlation: int,
        answers: Sequence[Fetched],
        stands: bool = False,
    ) -> Polled:
        """A fetch was answered, and what follows from it. `stands`: it will be answered again."""
        stood = self.fetcher.stands(broker, correlation)
        effects = self.fetcher.place(now_ms, broker, correlation, answers, stands)
        if stood and stands and not effects:
            # Nothing is to be asked that was not to be at the answer before.
            return Polled(effects, self.fetcher.next_deadline_ms(now_ms))
        requests, deadline = self.poll(now_ms)
        return Polled(effects + requests, deadline)

    def on_answer(
        self, now_ms: int, request: ListOffsets, answer: Sequence[Listed]
    ) -> list[Effect]:
        """A broker has answered a request that goes by a call."""
        match request:
            case ListOffsets():
                return self.look_ups.on_listed(now_ms, answer)
            case _:
                assert_never(request)

    def on_no_answer(
        self, now_ms: int, request: ListOffsets, error: errors.PylogError
    ) -> list[Effect]:
        """The call has failed."""
        match request:
            case ListOffsets():
                return self.look_ups.on_failed(now_ms, request, error)
            case _:
                assert_never(request)

    def start_over(self) -> None:
        """A thread was interrupted in here: nothing counts but what the user got."""
        self.fetcher.start_over()
        self.positions.start_over()
