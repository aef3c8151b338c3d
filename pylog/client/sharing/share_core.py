"""A share consumer's core: its request managers, and what the user wants of them. Pure.

Events in, requests out. The consumer's lock is held around each call. The loop tells what came,
polls, and performs what that gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pylog import errors
from pylog.client.answers import Answer, Callback
from pylog.client.cluster.metadata import ClusterMetadata
from pylog.client.fetching.fetch_events import Effect as FetchEffect
from pylog.client.fetching.fetch_events import RefreshMetadata, WatchTopics
from pylog.client.fetching.fetch_state import FetcherSettings
from pylog.client.fetching.leader_finder import LeaderFinder
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import CoordinatorFound, FindCoordinator, TargetPartitions
from pylog.client.sharing.ack_ranges import offsets_of
from pylog.client.sharing.acknowledgements import AckCommit, AckParcel, CommitResults
from pylog.client.sharing.hand import Hand
from pylog.client.sharing.messages import (
    ShareAcknowledge,
    ShareAnswer,
    SharedPartition,
    ShareFetch,
    ShareGroupAnswer,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    ShareRequest,
)
from pylog.client.sharing.share_membership import ShareMembership
from pylog.client.sharing.share_requests import ShareRequests, ShareSettings
from pylog.model import TopicPartition

OnAcknowledged = Callable[[dict[TopicPartition, set[int]], errors.PylogError | None], object]
"""The user's code that hears which offsets were acknowledged, and the error where they were not."""

Effect = ShareRequest | FetchEffect


class Decided(NamedTuple):
    """The result of a poll of the core: effects, and when to poll again without another event."""

    effects: list[Effect]
    deadline_ms: int | None


class ShareCore:
    """Owned by the consumer's lock. `poll` decides, and says when next."""

    def __init__(
        self,
        settings: ShareSettings,
        membership: MembershipSettings,
        identity: GroupIdentity,
        metadata: ClusterMetadata,
        jitter: Callable[[], float],
        *,
        explicit: bool = False,
    ) -> None:
        self.topics: tuple[str, ...] = ()
        self.identity = identity
        self.for_user: deque[Callback] = deque()
        """The callbacks that the next poll runs on the user's thread, in this order."""
        self.hand = Hand(explicit=explicit)
        self.finder = CoordinatorFinder(membership, identity, jitter)
        self.membership = ShareMembership(membership, identity, self.finder, jitter)
        self.leaders = LeaderFinder(
            FetcherSettings(
                fetch_max_wait_ms=settings.fetch_max_wait_ms,
                retry_backoff_ms=settings.retry_backoff_ms,
                retry_backoff_max_ms=settings.retry_backoff_max_ms,
                leaderless_patience_ms=settings.default_api_timeout_ms,
            ),
            metadata,
        )
        self.requests = ShareRequests(
            settings, metadata, self.leaders, self._on_settled, self.hand.offsets_of, jitter
        )
        self._settings = settings
        self._metadata = metadata
        self._target: TargetPartitions = ()
        self._is_resolved = True  # the target's topics all have names
        self._commits: list[AckCommit] = []
        self._on_acknowledged: OnAcknowledged | None = None

    # ---- the user -----------------------------------------------------------------------------

    def subscribe(self, topics: tuple[str, ...]) -> list[Effect]:
        """Read these together with the other members."""
        self.topics = topics
        self.membership.subscribe(topics)
        return [WatchTopics(topics, every=False)]

    def leave(self) -> Answer[None]:
        """Read nothing, and be no member. Records that the user has can still be acknowledged."""
        self.topics = ()
        self.requests.stop()
        left = self.membership.leave()
        self._follow_target()
        return left

    def listen(self, on_acknowledged: OnAcknowledged | None) -> None:
        """Tell the user's code what becomes of acknowledgements."""
        self._on_acknowledged = on_acknowledged
        if on_acknowledged is None:
            self.for_user.clear()

    @property
    def has_news(self) -> bool:
        """Whether a poll that waits should look."""
        return bool(self.requests.buffer or self.for_user) or (
            self.hand.renews and not self.hand.awaits_renewals
        )

    def on_user_poll(self, now_ms: int, parcels: Iterable[AckParcel], *, wants: bool) -> None:
        """The user is there, is done with some records, and waits for others if it `wants` any."""
        self.acknowledge(now_ms, parcels)
        self.membership.on_user_poll(now_ms)
        if wants:
            self.requests.want()

    def acknowledge(self, now_ms: int, parcels: Iterable[AckParcel]) -> None:
        """Have these sent, without waiting for what becomes of them."""
        self._send(parcels, None, now_ms + self._settings.default_api_timeout_ms)

    def commit(
        self, now_ms: int, parcels: Iterable[AckParcel], timeout_ms: int
    ) -> Answer[CommitResults]:
        """Have these sent; answered with what became of each partition's."""
        deadline_ms = now_ms + timeout_ms
        commit = AckCommit(deadline_ms)
        chosen = list(parcels)
        self._commits.append(commit)
        commit.expects(parcel.partition for parcel in chosen)
        self._send(chosen, commit, deadline_ms)
        return commit.answer

    def _send(
        self, parcels: Iterable[AckParcel], commit: AckCommit | None, deadline_ms: int
    ) -> None:
        for parcel in parcels:
            parcel.commit, parcel.deadline_ms = commit, deadline_ms
            self.requests.acknowledge([parcel])

    def _on_settled(self, parcel: AckParcel, error: errors.PylogError | None) -> None:
        if parcel.renews:
            self.hand.on_renewal(parcel, is_granted=error is None)
        if parcel.commit is not None:
            parcel.commit.settled(parcel.partition, error)
        listener = self._on_acknowledged
        if listener is None or not parcel.by_user:
            return
        offsets = {parcel.partition.topic_partition: {at for at, _ in offsets_of(parcel.ranges)}}
        self.for_user.append(Callback(lambda: listener(offsets, error)))

    def take_error(self) -> errors.PylogError | None:
        """The errors that the user must know."""
        return (
            self.finder.take_error() or self.membership.take_error() or self.requests.take_error()
        )

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> Decided:
        """Everything that can be decided now."""
        effects: list[Effect] = []
        due: list[int | None] = []
        beats = self.membership.poll(now_ms)
        effects += beats.requests
        due.append(beats.deadline_ms)
        effects += self._follow_target()
        wanted = self.requests.poll(now_ms)
        effects += wanted.requests
        due.append(wanted.deadline_ms)
        refreshes = self.leaders.poll(now_ms)
        effects += refreshes.requests
        due.append(refreshes.deadline_ms)
        if self.identity.takes_part:
            found = self.finder.poll(now_ms)
            effects += (each for each in found.effects if isinstance(each, FindCoordinator))
            due.append(found.deadline_ms)
        due += self._expire(now_ms)
        return Decided(effects, min((at for at in due if at is not None), default=None))

    def _expire(self, now_ms: int) -> list[int]:
        for commit in self._commits:
            if now_ms >= commit.deadline_ms:
                commit.expire()
        self._commits = [commit for commit in self._commits if not commit.answer.done]
        return [commit.deadline_ms for commit in self._commits]

    def _follow_target(self) -> list[Effect]:
        """Read what the membership says, as far as its topics are known by name."""
        target = self.membership.target
        if target == self._target and self._is_resolved:
            return []
        is_news = target != self._target
        self._target = target
        names = {info.topic_id: name for name, info in self._metadata.topics.items()}
        found: list[SharedPartition] = []
        self._is_resolved = True
        for topic_id, told_name, numbers in target:
            name = told_name or names.get(topic_id, "")
            if not name:
                self._is_resolved = False
                continue
            found += (SharedPartition(topic_id, name, number) for number in numbers)
        self.requests.assign(found)
        self.leaders.forget_all_but(place.topic_partition for place in found)
        return [RefreshMetadata(self.topics)] if is_news and not self._is_resolved else []

    # ---- answers ------------------------------------------------------------------------------

    def on_metadata(self, now_ms: int) -> list[Effect]:
        """Metadata have been refreshed."""
        return self._follow_target()

    def on_answer(
        self, now_ms: int, request: ShareRequest, answer: ShareGroupAnswer
    ) -> list[Effect]:
        """A broker has answered."""
        match request, answer:
            case FindCoordinator(), CoordinatorFound():
                self.finder.on_found(now_ms, request, answer)
            case ShareHeartbeat(), ShareHeartbeatAnswer():
                self.membership.on_heartbeat(now_ms, request, answer)
            case ((ShareFetch() | ShareAcknowledge()), ShareAnswer()):
                return [*self.requests.on_answer(now_ms, request, answer)]
            case _:
                raise AssertionError(f"{answer} answers {request}")
        return []

    def on_no_answer(
        self, now_ms: int, request: ShareRequest, error: errors.PylogError
    ) -> list[Effect]:
        """The call has failed."""
        match request:
            case FindCoordinator():
                self.finder.on_failed(now_ms, request)
            case ShareHeartbeat():
                self.membership.on_failed(now_ms, request)
            case ShareFetch() | ShareAcknowledge():
                self.requests.on_no_answer(now_ms, request, error)
        return []
