"""A consumer's part in its group: the managers of membership, commits and coordinator. Pure.

They are polled in this order, those that miss the coordinator before the one that finds it. The
partitions that the membership grants are assigned in `Positions` at once; a new partition begins
where the group has committed. Partitions that are given up are first committed, which waits for the
user's next poll: only then is it known which records the user is done with.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pylog import errors
from pylog.client.answers import Answer, Callback
from pylog.client.cluster.metadata import ClusterMetadata
from pylog.client.fetching.fetch_events import Effect, RefreshMetadata
from pylog.client.fetching.positions import Positions
from pylog.client.fetching.request_manager import Polled
from pylog.client.membership.assignors import Assignor
from pylog.client.membership.classic_membership import ClassicMembership
from pylog.client.membership.consumer_membership import ConsumerMembership
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.member_state import RebalanceListener
from pylog.client.membership.messages import (
    Acknowledged,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswer,
    CoordinatorFound,
    FindCoordinator,
    GroupAnswer,
    GroupRequest,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetsCommitted,
    OffsetsFetched,
    PartitionOffset,
    ReadExactly,
    StopReading,
    Synced,
    SyncGroup,
    TargetPartitions,
    WatchGroupTopics,
)
from pylog.client.membership.messages import Effect as GroupEffect
from pylog.client.membership.offset_commits import OffsetCommits, OnCommitted
from pylog.model import OffsetAndMetadata, TopicPartition

COMMIT_AT_MOST_MS: Final = 30_000
"""The time for which partitions that are to be given up wait for their commit, at most."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Committed = dict[TopicPartition, PartitionOffset]


class GroupSettings(NamedTuple):
    """The settings of a consumer in its group. Without assignors: by the new protocol."""

    membership: MembershipSettings
    identity: GroupIdentity
    assignors: tuple[Assignor, ...] = ()


@dataclass(slots=True, eq=False)
class _Handover:
    """A commit before partitions are given up: it is made when the user is there."""

    done: Answer[None] = field(default_factory=Answer)
    commit: Answer[None] | None = None


@dataclass(slots=True, eq=False)
class _Grant:
    """A partition that the coordinator gave, with the id of its topic where that is known."""

    topic_id: str
    is_seen: bool = False
    """Whether the metadata have had the topic since."""


class GroupManagers:
    """Owned by the consumer's lock."""

    def __init__(
        self,
        settings: GroupSettings,
        metadata: ClusterMetadata,
        positions: Positions,
        assign: Callable[[Iterable[TopicPartition]], None],
        for_user: deque[Callback],
        is_missing: Callable[[TopicPartition], None],
        jitter: Callable[[], float],
    ) -> None:
        """`is_missing` has the metadata refreshed, which lack what is needed of a partition."""
        membership, identity, assignors = settings
        self.settings = membership
        self.identity = identity
        self.finder = CoordinatorFinder(membership, identity, jitter)
        self.commits = OffsetCommits(
            membership,
            identity,
            self.finder,
            for_user,
            self._consumed,
            self._read_topic_id,
            self._is_gone,
            self._on_member_fault,
            jitter,
        )
        self.membership: ClassicMembership | ConsumerMembership
        shared = for_user, self._hand_over, jitter
        if assignors:
            self.membership = ClassicMembership(
                membership, identity, self.finder, assignors, *shared
            )
        else:
            self.membership = ConsumerMembership(membership, identity, self.finder, *shared)
        self.unread: Mapping[TopicPartition, int] = {}
        """The offsets up to which the user is done, of partitions whose positions are ahead of
        that."""
        self.is_leaving = False
        """Whether the member leaves, or has left, and the user has wanted nothing since."""
        self._metadata = metadata
        self._positions = positions
        self._assign = assign
        self._is_missing = is_missing
        self._handovers: list[_Handover] = []
        self._user_came = False
        self._held: dict[TopicPartition, None] = {}  # until the user is told that they are assigned
        self._question: tuple[dict[TopicPartition, int], Answer[Committed]] | None = None
        self._disputed: set[TopicPartition] = set()
        """New partitions that the coordinator has told of in another topic than the metadata did
        last: one of the two has not heard of a new topic yet, and both are asked again."""
        self._target: TargetPartitions | None = None  # names topics that are not known yet
        self._topic_ids: dict[str, str] = {}
        self._granted: dict[TopicPartition, _Grant] = {}
        self._granted_life = identity.life
        self._misses_positions = False
        """Whether partitions whose positions could be committed were lost since the user's last
        poll, and nothing has told the user so."""
        positions.begins_at_commits = True

    # ---- the user -----------------------------------------------------------------------------

    @property
    def wants_user(self) -> bool:
        """Whether something waits for the user's next poll."""
        return any(handover.commit is None for handover in self._handovers)

    def on_user_poll(self, now_ms: int) -> bool:
        """The user is there, done with all that was handed out; whether that is news for `poll`."""
        self._misses_positions = False
        first, self._user_came = not self._user_came, True
        is_news = self.membership.on_user_poll(now_ms) or first
        is_news = self.commits.on_user_poll(now_ms) or is_news
        return self.on_user_rest(now_ms) or is_news

    def on_user_rest(self, now_ms: int) -> bool:
        """The user is done with all but what is `unread`; whether that is news for `poll`."""
        is_news = False
        for handover in self._handovers:
            if handover.commit is None:
                handover.commit = self.commits.commit_consumed(now_ms, COMMIT_AT_MOST_MS)
                is_news = True
        return is_news

    def subscribe(self, topics: Iterable[str], regex: str = "") -> None:
        """Share these topics' partitions with the other members, and those of topics that match the
        expression, where the coordinator `finds_topics`.
        """
        if isinstance(self.membership, ConsumerMembership):
            self.membership.subscribe(topics, regex)
        else:
            assert not regex
            self.membership.subscribe(topics)

    @property
    def finds_topics(self) -> bool:
        """Whether the coordinator finds the topics of an expression."""
        return isinstance(self.membership, ConsumerMembership)

    def set_listener(self, listener: RebalanceListener | None) -> None:
        """Tell the user's code of what comes and goes."""
        self.membership.listener = listener

    def leave(
        self, now_ms: int, unread: Mapping[TopicPartition, int], *, for_good: bool = False
    ) -> Answer[None]:
        """Commit what the user is done with, give all up, and leave; answered then. `for_good`: a
        static member too is not expected back. The user is there meanwhile. Metadata subscribe to
        nothing from then on, until the user wants something anew: else the member would join again
        before the user's call is done.
        """
        self.unread = unread
        self.is_leaving = True
        return self.membership.leave(for_good=for_good)

    def has_left(self) -> None:
        """The member is out, or nobody waits for that any more."""
        self.unread = {}
        self._misses_positions = False
        self._user_came = False

    def commit(
        self,
        now_ms: int,
        offsets: Offsets | None,
        unread: Mapping[TopicPartition, int],
        timeout_ms: int,
    ) -> Answer[None]:
        """Commit these, or the positions behind what the user has; CommitFailed where some of
        these positions are lost.
        """
        if offsets is not None:
            return self.commits.commit(now_ms, offsets, timeout_ms)
        wanted, is_lost = self._positions_behind(unread), self._misses_positions
        return self.commits.commit(now_ms, wanted, timeout_ms, is_lost=is_lost)

    def commit_async(
        self,
        now_ms: int,
        offsets: Offsets | None,
        unread: Mapping[TopicPartition, int],
        on_committed: OnCommitted | None,
    ) -> None:
        """The same, without waiting for it."""
        if offsets is not None:
            self.commits.commit_async(now_ms, offsets, on_committed)
            return
        wanted, is_lost = self._positions_behind(unread), self._misses_positions
        self.commits.commit_async(now_ms, wanted, on_committed, is_lost=is_lost)

    def commit_at_end(
        self, now_ms: int, unread: Mapping[TopicPartition, int], timeout_ms: int
    ) -> Answer[None]:
        """Commit the consumed offsets before the consumer leaves, where auto commit is on; answered
        after all commits that came before.
        """
        self.unread = unread
        return self.commits.commit_consumed(now_ms, timeout_ms)

    def take_error(self) -> errors.PylogError | None:
        """The error that keeps the consumer out of its group."""
        return self.finder.take_error() or self.membership.take_error()

    def _consumed(self) -> Offsets:
        return self._positions_behind(self.unread)

    def _positions_behind(self, unread: Mapping[TopicPartition, int]) -> Offsets:
        """The offset to commit for each partition that has a position, with the leader epoch where
        that of the last record is known.
        """
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp, partition in self._positions.partitions.items():
            if partition.position is None:
                continue
            offset = unread.get(tp, partition.position)
            knows_epoch = offset == partition.fetch_offset and partition.last_epoch >= 0
            epoch = partition.last_epoch if knows_epoch else None
            found[tp] = OffsetAndMetadata(offset, "", epoch)
        return found

    def _hand_over(self, now_ms: int) -> Answer[None]:
        """Commit what the user has had, as soon as the user comes."""
        handover = _Handover()
        self._handovers.append(handover)
        return handover.done

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> Polled:
        """Everything that can be decided now."""
        effects: list[Effect] = []
        due: list[int | None] = []
        self._end_handovers()
        if self._user_came:  # a member joins when its user polls for the first time
            wanted, at_ms = self.membership.poll(now_ms)
            due.append(at_ms)
            for effect in wanted:
                self._perform(effect, effects)
            self._release()
        self._start(now_ms)
        for manager in (self.commits, self.finder):
            if manager is self.finder and not self._needs_coordinator:
                continue
            wanted, at_ms = manager.poll(now_ms)
            due.append(at_ms)
            for effect in wanted:
                self._perform(effect, effects)
        return Polled(effects, min((at_ms for at_ms in due if at_ms is not None), default=None))

    @property
    def _needs_coordinator(self) -> bool:
        return self.identity.takes_part or self.commits.has_work

    def _end_handovers(self) -> None:
        for handover in self._handovers:
            if handover.commit is not None and handover.commit.done:
                # A commit that failed keeps nobody from giving up; the broker has said why.
                handover.done.succeed(None)
        self._handovers = [one for one in self._handovers if not one.done.done]

    def _perform(self, effect: GroupEffect, effects: list[Effect]) -> None:
        match effect:
            case StopReading(partitions):
                for tp in partitions:
                    self._held.pop(tp, None)  # it is held until it is given up
                    partition = self._positions.partitions.get(tp)
                    if partition is not None:
                        partition.pause(held=True)
            case ReadExactly(partitions):
                known = self._positions.partitions
                new = [tp for tp in partitions if tp not in known]
                self._look_at_losses(partitions)
                self._assign(partitions)
                self._grant(partitions)
                for tp in new:
                    self._positions.partitions[tp].pause(held=True)
                    self._held[tp] = None
            case WatchGroupTopics(topics):
                if topics:
                    effects.append(RefreshMetadata(topics))
            case _:
                effects.append(effect)

    def _look_at_losses(self, kept: tuple[TopicPartition, ...]) -> None:
        """A user without a listener learns from the next commit that partitions were lost."""
        is_lost = self.identity.life != self._granted_life
        self._granted_life = self.identity.life
        if not is_lost or self.is_leaving or self.membership.listener is not None:
            return
        known = self._positions.partitions
        gone = (partition for tp, partition in known.items() if tp not in kept)
        if any(partition.position is not None for partition in gone):
            self._misses_positions = True

    def _release(self) -> None:
        """New partitions are read when the user's listener has run, and had the time to seek, and
        the metadata have their topic.
        """
        if not self._held or self.membership.awaits_user_code:
            return
        known = self._positions.partitions
        held = [tp for tp in self._held if tp in known]
        self._held = {tp: None for tp in held if self._awaits_topic(tp)}
        for tp in held:
            if tp not in self._held:
                known[tp].pause(held=False)

    def _start(self, now_ms: int) -> None:
        """Ask where new partitions begin, and have them begin, once the metadata have their topic:
        an older one of the name may have leaders yet, and its records would count as the new one's.
        An offset in one topic is none in the other.
        """
        if self._question is not None:
            asked, answer = self._question
            if not answer.done:
                return
            self._question = None
            self._begin(asked, answer)
        unstarted = self._positions.unstarted
        awaited = [tp for tp in self._held if self._awaits_topic(tp)]
        awaited += [tp for tp in unstarted if tp in self._disputed]
        for tp in awaited:
            self._is_missing(tp)
        if not unstarted:
            return
        known = self._positions.partitions
        asked = {
            tp: generation
            for tp, generation in unstarted.items()
            if known[tp].error is None and tp not in awaited
        }
        if asked:
            timeout_ms = self.settings.default_api_timeout_ms
            self._question = asked, self.commits.committed(now_ms, asked, timeout_ms)

    def _begin(self, asked: Mapping[TopicPartition, int], answer: Answer[Committed]) -> None:
        unstarted, known = self._positions.unstarted, self._positions.partitions
        for tp, generation in asked.items():
            if unstarted.get(tp) != generation:
                continue
            if answer.failed:
                error = answer.error
                if isinstance(error, errors.PylogError) and not error.retriable:
                    known[tp].fail(copy.copy(error))
                continue
            told = answer.result()[tp]
            if known[tp].generation == generation and self._is_of_another_topic(told):
                self._disputed.add(tp)
            else:
                self._positions.start(tp, told.committed, told.topic_id)

    def _is_of_another_topic(self, told: PartitionOffset) -> bool:
        """Whether coordinator and metadata disagree about which topic has the name."""
        known = self._metadata.topic_id(told.topic_partition.topic)
        return bool(told.topic_id and known) and told.topic_id != known

    # ---- metadata -----------------------------------------------------------------------------

    def on_metadata(self, now_ms: int) -> None:
        """Topics are new, have more partitions, or are others under their old names."""
        self._disputed.clear()
        if isinstance(self.membership, ClassicMembership):
            topics = self._metadata.topics
            counts = {name: len(topic.partitions) for name, topic in topics.items()}
            self.membership.on_metadata(counts)
            return
        self.membership.on_gone(self._gone_by_metadata())
        if self._target is not None:
            target = self._resolved(self._target)
            if target is not None:
                self._target = None
                self.membership.on_target(target)

    def _grant(self, partitions: Iterable[TopicPartition]) -> None:
        before = self._granted
        self._granted = {
            tp: before.get(tp) or _Grant(self._topic_ids.get(tp.topic, "")) for tp in partitions
        }
        self._gone_by_metadata()

    def _gone_by_metadata(self) -> list[TopicPartition]:
        """The member's partitions of topics that existed and whose names other topics have now.
        Metadata that do not know a topic yet say nothing of it.
        """
        gone: list[TopicPartition] = []
        for tp, grant in self._granted.items():
            topic_id = self._metadata.topic_id(tp.topic)
            if topic_id == grant.topic_id:
                grant.is_seen = True
            elif topic_id and grant.is_seen:
                gone.append(tp)
        return gone

    def _awaits_topic(self, tp: TopicPartition) -> bool:
        """Whether the metadata have never had the topic of which the coordinator gave it."""
        grant = self._granted.get(tp)
        return grant is not None and bool(grant.topic_id) and not grant.is_seen

    def granted_id(self, tp: TopicPartition) -> str:
        """The id of the topic of which the coordinator gave the partition; empty: not known."""
        grant = self._granted.get(tp)
        return "" if grant is None else grant.topic_id

    def _read_topic_id(self, tp: TopicPartition) -> str:
        """The id of the topic that the partition's position is in; empty: not known."""
        partition = self._positions.partitions.get(tp)
        read = "" if partition is None else partition.topic_id
        return read or self.granted_id(tp) or self.topic_id(tp.topic)

    def _is_gone(self, tp: TopicPartition, topic_id: str) -> bool:
        """Whether everybody whom the consumer knows has another topic of that name: the cluster
        and the coordinator hear of a new one at different times.
        """
        known = {
            self._read_topic_id(tp),
            self.topic_id(tp.topic),
            self._metadata.topic_id(tp.topic),
        }
        known.discard("")
        return bool(topic_id and known) and topic_id not in known

    def topic_id(self, topic: str) -> str:
        """The id that the coordinator, or else the cluster, knows the topic by."""
        return self._topic_ids.get(topic) or self._metadata.topic_id(topic)

    def _resolved(self, target: TargetPartitions) -> tuple[TopicPartition, ...] | None:
        """The target by names; None while one is not known."""
        names = {info.topic_id: name for name, info in self._metadata.topics.items()}
        found: list[TopicPartition] = []
        for topic_id, name, numbers in target:
            name = name or names.get(topic_id, "")
            if not name:
                return None
            self._topic_ids[name] = topic_id
            found += (TopicPartition(name, number) for number in numbers)
        return tuple(found)

    # ---- answers ------------------------------------------------------------------------------

    def on_answer(self, now_ms: int, request: GroupRequest, answer: GroupAnswer) -> list[Effect]:
        """A broker has answered."""
        classic = self.membership if isinstance(self.membership, ClassicMembership) else None
        match request, answer:
            case FindCoordinator(), CoordinatorFound():
                self.finder.on_found(now_ms, request, answer)
            case OffsetCommit(), OffsetsCommitted(partitions):
                self.commits.on_committed(now_ms, request, partitions)
            case OffsetFetch(), OffsetsFetched():
                self.commits.on_fetched(now_ms, request, answer)
            case ConsumerGroupHeartbeat(), ConsumerGroupHeartbeatAnswer():
                return self._on_heartbeat(now_ms, request, answer)
            case JoinGroup(), Joined() if classic is not None:
                classic.on_joined(now_ms, request, answer)
            case SyncGroup(), Synced() if classic is not None:
                classic.on_synced(now_ms, request, answer)
            case Heartbeat(), Acknowledged() if classic is not None:
                classic.on_heartbeat(now_ms, request, answer)
            case LeaveGroup(), Acknowledged() if classic is not None:
                classic.on_left(now_ms, request, answer)
            case _:
                raise AssertionError(f"{answer} answers {request}")
        return []

    def _on_heartbeat(
        self,
        now_ms: int,
        request: ConsumerGroupHeartbeat,
        answer: ConsumerGroupHeartbeatAnswer,
    ) -> list[Effect]:
        assert isinstance(self.membership, ConsumerMembership)
        effects: list[Effect] = []
        if answer.target is not None:
            self.membership.on_gone(self._gone_by_target(answer.target))
            target = self._resolved(answer.target)
            self._target = answer.target if target is None else None
            answer = answer._replace(target=None, assignment=target)
            if target is None:
                effects.append(RefreshMetadata(self.membership.topics))
        self.membership.on_heartbeat(now_ms, request, answer)
        return effects

    def on_no_answer(self, now_ms: int, request: GroupRequest, error: errors.PylogError) -> None:
        """The call has failed."""
        match request:
            case FindCoordinator():
                self.finder.on_failed(now_ms, request)
            case OffsetCommit():
                self.commits.on_commit_failed(now_ms, request, error)
            case OffsetFetch():
                self.commits.on_fetch_failed(now_ms, request)
            case ConsumerGroupHeartbeat():
                assert isinstance(self.membership, ConsumerMembership)
                self.membership.on_failed(now_ms, request)
            case _:
                assert isinstance(self.membership, ClassicMembership)
                self.membership.on_failed(now_ms, request)

    def _on_member_fault(self, now_ms: int, generation: int, code: int) -> None:
        self.membership.on_commit_fault(now_ms, generation, code)

    def _gone_by_target(self, target: TargetPartitions) -> list[TopicPartition]:
        """The member's partitions of topics whose names belong to other topics in the target."""
        named = {name: topic_id for topic_id, name, _ in target if topic_id and name}
        return [
            tp
            for tp, grant in self._granted.items()
            if grant.topic_id and named.get(tp.topic, grant.topic_id) != grant.topic_id
        ]
