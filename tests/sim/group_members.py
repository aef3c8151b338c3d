"""Members of groups: the product's consumer core with its membership, and a user who polls.

The user's thread is modelled as the product's shell has it: it polls, runs what waits for it, takes
records, works on them for a while, and maybe commits; between two polls it is nobody's. Everything
that the member believes is compared with what the log of its coordinator says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.client.answers import Answer, Callback
from pylog.client.fetching.fetch_events import Effect
from pylog.client.fetching.fetch_state import Partition
from pylog.client.fetching.group_managers import GroupSettings
from pylog.client.fetching.subscription import Subscription
from pylog.client.fetching.user_events import Subscribe
from pylog.client.membership.assignors import OWN_ASSIGNORS
from pylog.client.membership.consumer_membership import ConsumerMemberState
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.member_state import MemberState
from pylog.client.membership.messages import (
    ConsumerGroupHeartbeat,
    FindCoordinator,
    GroupRequest,
    Heartbeat,
    JoinGroup,
    OffsetCommit,
    SyncGroup,
)
from pylog.client.membership.wire import API_OF, GroupWire
from pylog.model import BrokerId, TopicId, TopicPartition
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitValue
from tests.sim.consumers import ConsumerApp
from tests.sim.coordinator_shell import Refused, UnaryCall
from tests.sim.group_ghost import CommitRequest, Work
from tests.sim.rpc import Rpc
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.group_apps import Groups

REQUEST_MS = 2_000
CLOSE_MS = 4_000
COMMIT_MS = 6_000
JOIN_PATIENCE_MS = 1_000
NOWHERE = "nowhere"
"""A topic that is not there."""
ENDS_THE_MEMBER = (
    errors.FencedInstanceId,
    errors.UnreleasedInstanceId,
    errors.InconsistentGroupProtocol,
)
"""Errors of its group that a user can hear, and then gives the consumer up."""
COMMIT_MAY_FAIL = (
    errors.CommitFailed,
    errors.RequestTimedOut,
    errors.RebalanceInProgress,
    errors.FencedInstanceId,
    errors.StaleMemberEpoch,
    errors.UnknownTopicOrPartition,
    errors.UnknownTopicId,
    errors.NotCoordinator,
    errors.CoordinatorNotAvailable,
    errors.CoordinatorLoadInProgress,
    errors.UnknownMemberId,
    errors.IllegalGeneration,
)


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The kind of a member. `commits`: "auto", "sync" or "async"."""

    group_id: str
    protocol: str
    strategies: tuple[str, ...]
    instance_id: str | None
    commits: str
    listens: bool
    regex: bool
    max_poll_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    poll_ms: float
    work_ms: float


class _Listener:
    """The user's code around rebalances."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """They are still its own."""
        self._member.told("revoked", partitions)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """They are new."""
        self._member.told("assigned", partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """They may be others'."""
        self._member.told("lost", partitions)


class GroupMember(ConsumerApp):
    """One life of a member of a group."""

    def __init__(
        self, cluster: Cluster, groups: Groups, name: str, settings: MemberSettings
    ) -> None:
        self.settings = settings
        self.group_id = settings.group_id
        self._groups = groups
        self._ghost = groups.ghost
        identity = GroupIdentity(settings.group_id, settings.instance_id)
        if settings.protocol == "consumer":
            identity.member_id = f"member-{name}"
        membership = MembershipSettings(
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            max_poll_interval_ms=settings.max_poll_interval_ms,
            auto_commit=settings.commits == "auto",
            auto_commit_interval_ms=300,
            default_api_timeout_ms=COMMIT_MS,
            retry_backoff_ms=50,
            retry_backoff_max_ms=400,
        )
        assignors = ()
        if settings.protocol == "classic":
            assignors = tuple(OWN_ASSIGNORS[each]() for each in settings.strategies)
        super().__init__(
            cluster, name, roams=False, group=GroupSettings(membership, identity, assignors)
        )
        self.reads_all = False
        self._known: dict[TopicPartition, Partition] = {}
        assert self.core.group is not None
        self.group = self.core.group
        self.core.fetcher.active = False
        if settings.listens:
            self.group.set_listener(_Listener(self))
        self._wire = GroupWire(name, REQUEST_MS)
        self._coordinators: dict[int, Rpc] = {}
        self._commits = 0
        self._is_good = False
        self._asked_for: dict[TopicPartition, None] = {}
        self._given: dict[TopicPartition, OffsetCommitValue | None] = {}
        self._goes_back: set[TopicPartition] = set()
        self._in_work: list[Work] = []
        self._seen: tuple[object, ...] = ()
        self._stalled_until_ms = 0
        self._is_busy = False  # the user's thread waits for something, or runs a callback
        self._closes_by_ms = -1

    # ---- what it believes

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """The partitions that the application reads as a member."""
        return self.group.membership.owned

    @property
    def member_id(self) -> str:
        """Its id in the group; empty while it has none."""
        return self.group.identity.member_id

    @property
    def generation(self) -> int:
        """The generation, or its epoch."""
        return self.group.identity.generation

    @property
    def is_stable(self) -> bool:
        """Whether it has all that it should, as far as it knows."""
        state = self.group.membership.state
        return state in (MemberState.STABLE, ConsumerMemberState.STABLE)

    def told(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        """A rebalance, on the user's thread."""
        self.cluster.sometimes[f"groups: listener told: {what}"] += bool(partitions)
        self.cluster.scheduler.note(what, self.name, *map(str, partitions))

    # ---- the user

    def start(self) -> None:
        """Subscribe, and poll from now on."""
        self._kept.refresh_soon(self.cluster.TOPIC)
        self.subscribe()
        self.timer(self.rng.random() * self.settings.poll_ms, self._turn)

    def subscribe(self, *topics: str) -> None:
        """Read these, or what every member reads in the end."""
        if topics:
            wanted = Subscription.of(topics, None)
        elif self.settings.regex:
            wanted = Subscription.of(None, f"{self.cluster.TOPIC}|x.*")
        else:
            wanted = Subscription.of((self.cluster.TOPIC,), None)
        event = Subscribe(wanted)
        effects = self.core.on_user(self.now_ms(), event)
        event.answer.result()
        self.core.fetcher.active = True
        self._step(effects)

    def stall(self, for_ms: float) -> None:
        """The user does not come back for so long."""
        self._stalled_until_ms = self.now_ms() + int(for_ms)

    def _turn(self) -> None:
        """The user polls."""
        if not self.alive or self._closes_by_ms >= 0:
            return
        if self._is_busy or self.now_ms() < self._stalled_until_ms:
            self.timer(20, self._turn)
            return
        self._done_with_work()
        error = self.group.take_error()
        if error is not None:
            self._hears_of_group(error)
            if not self.alive:
                return
        if self.group.on_user_poll(self.now_ms()):
            self.timer(self.rng.random(), self.look)
        self._run_callbacks(self._take_records)

    def _hears_of_group(self, error: errors.PylogError) -> None:
        self.cluster.sometimes[f"groups: member hears {error.name}"] += 1
        self.cluster.scheduler.note("group error", self.name, error.name)
        if not isinstance(error, ENDS_THE_MEMBER):
            raise Violation("C", f"{self.name} hears {error!r}")
        self.crash()
        self._groups.ended(self)

    def _run_callbacks(self, then: Callable[[], None]) -> None:
        """Run what waits for the user's thread, one after the other, each for a while."""
        if not self.core.for_user:
            then()
            return
        self._is_busy = True
        callback: Callback = self.core.for_user.popleft()
        given = callback.run()
        self.timer(self.rng.random() * 10, self._callback_ended, callback, given, then)

    def _callback_ended(self, callback: Callback, given: object, then: Callable[[], None]) -> None:
        self._is_busy = False
        callback.answer.succeed(given)
        self.look()
        self._run_callbacks(then)

    def _take_records(self) -> None:
        if not self.alive:
            return
        self._raise_faults()
        self._look_for_jumps()
        while parts := self._collector.records():
            self._take(parts)
            self._look_for_jumps()
            if not self._is_good:
                break
        self.look()
        if self._in_work:
            self.timer(self.rng.expovariate(1.0 / self.settings.work_ms), self._work_ends)
        else:
            self.timer(self.rng.expovariate(1.0 / self.settings.poll_ms), self._turn)

    def _work_ends(self) -> None:
        if not self.alive or self._closes_by_ms >= 0:
            return
        if self.now_ms() < self._stalled_until_ms:
            self.timer(20, self._work_ends)
            return
        work = tuple(each for each in self._in_work if not self._looks_up(each[0]))
        self._done_with_work()
        now_ms, group = self.now_ms(), self.group
        match self.settings.commits:
            case "sync":
                self._is_busy = True
                answer = group.commit(now_ms, None, {}, COMMIT_MS)
                self.look()
                self._await_commit(answer, work)
            case "async":
                group.commit_async(now_ms, None, {}, partial(self._on_committed, work))
                self.look()
        self._turn()

    def _looks_up(self, tp: TopicPartition) -> bool:
        """Whether it looks for a new position, as the log does not hold the old one any more."""
        partition = self.core.positions.partitions.get(tp)
        return partition is not None and partition.position is None

    def _await_commit(self, answer: Answer[None], work: Sequence[Work]) -> None:
        if not answer.done:
            self.timer(1 + self.rng.random() * 4, self._await_commit, answer, work)
            return
        self._is_busy = False
        self._on_committed(work, {}, answer.error)

    def _on_committed(
        self, work: Sequence[Work], _offsets: object, error: BaseException | None
    ) -> None:
        name = "done" if error is None else type(error).__name__
        self.cluster.sometimes[f"groups: {self.settings.commits} commit {name}"] += 1
        if error is not None and not isinstance(error, COMMIT_MAY_FAIL):
            raise Violation("C", f"{self.name}: a commit failed with {error!r}")
        if error is None:
            self._ghost.is_committed(self, work)

    def _done_with_work(self) -> None:
        work, self._in_work = self._in_work, []
        for tp, topic_id, begin, end in work:
            self._ghost.processed(self, tp, topic_id, begin, end)

    # ---- the end

    def crash(self) -> None:
        """The process is gone."""
        self.alive = False
        self.cluster.net.break_all_of(self.name, seen_by_peer=self.rng.random() < 0.7)

    def close(self) -> None:
        """The user closes the consumer, done with its records or in the middle of them."""
        if self._closes_by_ms >= 0 or not self.alive:
            return
        now_ms = self.now_ms()
        self._closes_by_ms = now_ms + CLOSE_MS
        unread: dict[TopicPartition, int] = {}
        if self._in_work and self.rng.random() < 0.5:
            self.cluster.sometimes["groups: closed in the middle of records"] += 1
            unread = self._collector.returned_last()
            self._in_work = []
        self._done_with_work()
        self.cluster.scheduler.note("closes", self.name)
        self._settle(self.group.leave(now_ms, unread), unread, self._left)

    def _settle(
        self, answer: Answer[None], unread: dict[TopicPartition, int], then: Callable[..., None]
    ) -> None:
        """As the product's `PollWaiting.settle` does."""
        if not self.alive:
            return
        self.look()
        if self._is_busy:
            self.timer(5, self._settle, answer, unread, then)
            return
        if self.core.for_user:
            self._run_callbacks(lambda: self._settle(answer, unread, then))
            return
        if answer.done or self.now_ms() >= self._closes_by_ms:
            then(unread)
            return
        self.group.on_user_rest(self.now_ms())
        self.look()
        self.timer(1 + self.rng.random() * 10, self._settle, answer, unread, then)

    def _left(self, unread: dict[TopicPartition, int]) -> None:
        now_ms = self.now_ms()
        left_ms = max(self._closes_by_ms - now_ms, 1)
        ended = self.group.commit_at_end(now_ms, unread, left_ms)
        self._settle(ended, unread, self._closed)

    def _closed(self, _unread: object) -> None:
        kind = "in time" if self.now_ms() < self._closes_by_ms else "late"
        self.cluster.sometimes[f"groups: closed {kind}"] += 1
        self.crash()
        self._groups.ended(self)

    @property
    def waits_for(self) -> list[str]:
        """The reasons why the member is not settled, for a report and for L1."""
        if not self.alive:
            return []
        if self.is_stable and self._ghost.is_valid(self):
            return []
        membership = self.group.membership
        standing = self._ghost.log_of(self.group_id).standing(self.group_id, self.member_id)
        return [
            f"its group: {membership.state.name} at {self.generation} as {self.member_id!r}, "
            f"owns {[str(tp) for tp in self.owned]}, the log says {standing}"
        ]

    def settle(self) -> None:
        """From now on the user is good: it polls in time, reads what all do, and works on all that
        was fetched at once, so that it gets to the end.
        """
        self._stalled_until_ms = 0
        self._is_good = True
        if self._closes_by_ms < 0:
            self.subscribe()

    # ---- places

    def _look_for_jumps(self) -> None:
        for tp in list(self._read):
            partition = self.positions.partitions.get(tp)
            if partition is None or partition is not self._known.get(tp):
                self._forget_place(tp)
        super()._look_for_jumps()

    def _begin_at_places(self, topic_id: TopicId) -> None:
        before = set(self._read)
        super()._begin_at_places(topic_id)
        for tp in self._read.keys() - before:
            read, partition = self._read[tp], self.positions.partitions[tp]
            begun = self._known.get(tp) is not partition
            self._known[tp] = partition
            if begun:
                known = self._given.get(tp)
                self._ghost.begins(self, tp, read.topic_id, read.position, known)

    def _begins_anew(self, tp: TopicPartition) -> None:
        """It has told so. A classic member goes by its metadata. Those of a broker that is behind
        take it to the topic before, and from there to the start of the new one, where it may have
        committed already: it then goes back, and skips nothing.
        """
        super()._begins_anew(tp)
        if self.settings.protocol == "classic":
            self._goes_back.add(tp)

    def _must_be_gone(self, tp: TopicPartition, what: str) -> None:
        super()._must_be_gone(tp, what)
        self._goes_back.add(tp)

    def _take(self, parts: Any) -> None:
        for tp, _ in parts:
            partition = self.positions.partitions.get(tp)
            if tp not in self.owned or partition is None or partition.held:
                raise Violation("I13", f"{self.name} gives out records of {tp}; owned {self.owned}")
            given, read = self.group.granted_id(tp), self._read[tp].topic_id
            if given and given != read:
                raise Violation("I13", f"{self.name} has {tp} of topic {given}, and reads {read}")
        begins = {tp: (self._read[tp].topic_id, self._read[tp].position) for tp, _ in parts}
        super()._take(parts)
        for tp, (topic_id, begin) in begins.items():
            self._in_work.append((tp, topic_id, begin, self._read[tp].position))

    def _news(self) -> None:
        """The user comes by itself."""

    # ---- steps

    def _on_metadata(self) -> None:
        self._begin_at_places(self._topic_id)
        self._topic_id = TopicId(self._kept.metadata.topic_id(self.cluster.TOPIC))
        self._step(self.core.on_metadata(self.now_ms()))
        self._look_for_jumps()

    def _perform(self, effects: Sequence[Effect], deadline_ms: int | None) -> None:
        super()._perform(effects, deadline_ms)
        self._watch()

    def _watch(self) -> None:
        """Note the member's present view of itself, which may be another one by now."""
        seen = (self.owned, self.generation, self.member_id)
        if seen == self._seen:
            return
        before = self._seen[0] if self._seen else ()
        self._seen = seen
        state = self.group.membership.state.name
        self.cluster.sometimes[f"groups: {self.settings.protocol} member {state}"] += 1
        self.cluster.scheduler.note(
            "member", self.name, state, self.generation, *map(str, self.owned)
        )
        assert isinstance(before, tuple)
        for tp in self.owned:
            if tp not in before:
                self._given[tp] = self._ghost.position(self.group_id, tp)
                self._goes_back.discard(tp)
                self._known.pop(tp, None)
        self._ghost.changed(self)

    # ---- calls

    def _ask(self, effect: Effect) -> None:
        request: Any = effect
        asked: GroupRequest = request
        message = self._wire.message(asked, self.group.topic_id)
        if isinstance(asked, OffsetCommit):
            self._tag(asked, message)
        broker = self._any_broker() if isinstance(asked, FindCoordinator) else asked.coordinator
        process = self.cluster.process(BrokerId(broker))
        if process is None or process.groups is None:
            self.timer(1 + self.rng.random() * 20, self._unanswered, asked)
            return
        rpc = self._coordinators.get(broker)
        if rpc is None or not rpc.open or rpc.server is not process:
            rpc = self._coordinators[broker] = Rpc(self.cluster.net, self, process)
        is_done = False

        def answered(answer: Any) -> None:
            nonlocal is_done
            if not is_done:
                is_done = True
                self._answered(asked, answer)

        call = UnaryCall(API_OF[type(asked)].key, message, self.name)
        rpc.request(process.groups.serve, call, answered, None)
        self.timer(self._timeout_ms(asked), answered, None)

    def _any_broker(self) -> int:
        known = sorted(self._kept.metadata.brokers)
        return self.rng.choice(known) if known else -1

    def _timeout_ms(self, request: GroupRequest) -> int:
        if isinstance(request, ConsumerGroupHeartbeat | Heartbeat):
            return REQUEST_MS + request.standing_ms
        if isinstance(request, JoinGroup | SyncGroup):
            return max(REQUEST_MS, self.settings.max_poll_interval_ms + JOIN_PATIENCE_MS)
        return REQUEST_MS

    def _tag(self, request: OffsetCommit, message: Any) -> None:
        self._commits += 1
        tag = f"{self.name}/{self._commits}"
        ids = set()
        for each in message.offsets:
            each.metadata = tag
            ids.add(each.topic_id)
        offsets = {tp: committed.offset for tp, committed in request.offsets}
        self.cluster.scheduler.note("commits", tag, request.generation, *offsets.values())
        asked = CommitRequest(
            tag,
            self.name,
            self.group_id,
            request.member_id,
            request.generation,
            self.cluster.scheduler.now_us,
            offsets,
            frozenset(self._goes_back),
        )
        for topic_id in ids:
            self._ghost.commits(self, asked, TopicId(topic_id))

    def _answered(self, request: GroupRequest, answer: Any) -> None:
        if answer is None:
            self._unanswered(request)
            return
        if isinstance(answer, Refused):
            if errors.from_code(answer.code).retriable:
                self._unanswered(request)
                return
            told = self._wire.refused(request, answer.code, answer.message)
        else:
            told = self._wire.answer(request, answer)
        code = getattr(told, "code", 0)
        if code:
            name = errors.ERRORS_BY_CODE[code].__name__
            self.cluster.sometimes[f"groups: {type(request).__name__} answered {name}"] += 1
        self.cluster.scheduler.told(self.name, "is answered", (request, told))
        self._step(self.core.on_group_answer(self.now_ms(), request, told))
        if self.rng.random() < self.cluster.swarm.net.duplicate / 4:
            self.cluster.sometimes["groups: answer heard twice"] += 1
            self.timer(self.rng.random() * 500, self._answered_again, request, told)

    def _answered_again(self, request: GroupRequest, told: Any) -> None:
        self._step(self.core.on_group_answer(self.now_ms(), request, told))

    def _unanswered(self, request: GroupRequest) -> None:
        self.cluster.sometimes[f"groups: {type(request).__name__} not answered"] += 1
        error = errors.CoordinatorNotAvailable("no answer")
        self.cluster.scheduler.told(self.name, "is not answered", request)
        self._step(self.core.on_no_answer(self.now_ms(), request, error))
