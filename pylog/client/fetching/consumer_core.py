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
from pylog.client.fetching.group_managers import GroupManagers, GroupSettings
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
from pylog.client.membership.messages import GroupAnswer, GroupRequest
from pylog.model import TopicPartition


class ConsumerCore:
    """Owned by the consumer's lock. `poll` decides, and says when next."""

    def __init__(
        self,
        settings: FetcherSettings,
        metadata: ClusterMetadata,
        jitter: Callable[[], float],
        wall_ms: Callable[[], int],
        group: GroupSettings | None = None,
    ) -> None:
        """`group`: where the consumer has a group id."""
        self.subscription = Subscription()
        self.positions = Positions(settings, metadata, jitter, wall_ms)
        self.leaders = LeaderFinder(settings, metadata)
        self.look_ups = OffsetLookUps(self.positions, metadata, self.leaders)
        self.fetcher = Fetcher(self.positions, metadata, self.leaders)
        self.managers: tuple[RequestManager, ...] = (self.look_ups, self.fetcher, self.leaders)
        """As they are polled: those that miss leaders before the one that finds them."""
        self.for_user: deque[Callback] = deque()
        """The code that the next poll runs on the user's thread, in this order."""
        self.group: GroupManagers | None = None
        if group is not None:
            self.group = GroupManagers(
                group,
                metadata,
                self.positions,
                self._assign,
                self.for_user,
                self.leaders.is_missing,
                jitter,
            )
            self.managers = (self.group, *self.managers)
        self._metadata = metadata

    @property
    def wants_user(self) -> bool:
        """Whether something waits for the user's next poll."""
        return bool(self.for_user) or (self.group is not None and self.group.wants_user)

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
        """The user's thread wants something. The answer refuses a request that is not allowed."""
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
                if self.group is not None:
                    self.group.is_leaving = False
                    self.group.subscribe(())
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
                    positions.assigned(tp).pause(by_user=True)
            case Resume(partitions):
                for tp in partitions:
                    positions.resume(positions.assigned(tp))
            case AskPosition():
                positions.ask_position(event)
            case _:
                assert_never(event)

    def _subscribe(self, subscription: Subscription, effects: list[Effect]) -> None:
        if self.group is not None:
            self.group.is_leaving = False
            if not self.subscription:
                self._assign(())  # the user's own assignment ends
        self.subscription = subscription
        names = subscription.matching(self._metadata.topics)
        if self.group is None:
            self._assign(tp for tp in self.positions.partitions if tp.topic in names)
        self.add_partitions()
        every = subscription.pattern is not None
        effects.append(WatchTopics(subscription.topics, every=every))

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.positions.assign(partitions)
        self.leaders.forget_all_but(self.positions.partitions)

    # ---- metadata -----------------------------------------------------------------------------

    def add_partitions(self) -> None:
        """Assign what the subscription covers and metadata tell of, or have the group do that."""
        subscription = self.subscription
        if self.group is not None:
            if self.group.is_leaving:
                return
            if subscription.regex and self.group.finds_topics:
                self.group.subscribe((), subscription.regex)
            elif subscription:
                self.group.subscribe(subscription.matching(self._metadata.topics))
            return
        for topic in subscription.matching(self._metadata.topics):
            later = topic in subscription.seen
            subscription.seen.add(topic)
            for number in range(self._metadata.partition_count(topic) or 0):
                self.positions.add(TopicPartition(topic, number), found_later=later)

    def on_topic_gone(self, topic: str) -> None:
        """A topic that does not exist any more matches no pattern."""
        self.subscription.seen.discard(topic)
        if self.group is not None:
            self.add_partitions()
            return
        self._assign([tp for tp in self.positions.partitions if tp.topic != topic])

    def on_metadata(self, now_ms: int) -> list[Effect]:
        """Metadata have been refreshed."""
        self.add_partitions()
        if self.group is not None:
            self.group.on_metadata(now_ms)
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

    def on_listed(
        self, now_ms: int, request: ListOffsets, answer: Sequence[Listed]
    ) -> list[Effect]:
        """A broker has told positions."""
        return self.look_ups.on_listed(now_ms, answer)

    def on_group_answer(
        self, now_ms: int, request: GroupRequest, answer: GroupAnswer
    ) -> list[Effect]:
        """A broker has answered what the group asked of it."""
        assert self.group is not None
        return self.group.on_answer(now_ms, request, answer)

    def on_no_answer(
        self, now_ms: int, request: ListOffsets | GroupRequest, error: errors.PylogError
    ) -> list[Effect]:
        """The call has failed."""
        if isinstance(request, ListOffsets):
            return self.look_ups.on_failed(now_ms, request, error)
        assert self.group is not None
        self.group.on_no_answer(now_ms, request, error)
        return []

    def start_over(self) -> None:
        """A thread was interrupted in here: nothing counts but what the user got."""
        self.fetcher.start_over()
        self.positions.start_over()
