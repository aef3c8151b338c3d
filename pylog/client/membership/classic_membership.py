"""The request manager that keeps a consumer in a classic group. Pure.

Kafka's `ConsumerCoordinator`: it joins, asks for its assignment (as the leader it makes
everybody's), and tells that it lives. An eager member gives all up before it joins; a cooperative
one only what goes to another member, and joins again then (KIP-429). User's code stands between two
steps as a callback, and the next step waits for its answer; so does a commit before partitions are
given up. Events that come meanwhile are remembered, and `_advance` looks at them in the order of
their weight: lost, leave, join.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from pylog import errors
from pylog.client.answers import Answer, Callback
from pylog.client.membership.assignors import OWN_ASSIGNORS, Assignor, Member, Plan
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.member_state import NEXT_STATES, MemberState, RebalanceListener
from pylog.client.membership.messages import (
    LEAVE_PATIENCE_MS,
    STANDING_MS,
    Acknowledged,
    Effect,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Polled,
    ReadExactly,
    StopReading,
    Synced,
    SyncGroup,
    WatchGroupTopics,
)
from pylog.consumer_protocol import (
    NO_GENERATION,
    Assignment,
    Subscription,
    decode_assignment,
    decode_shared_out,
    decode_subscription,
    encode_assignment,
    encode_shared_out,
    encode_subscription,
)
from pylog.model import TopicPartition

_UNJOINED: Final = MemberState.UNJOINED
_PREPARING: Final = MemberState.PREPARING_REBALANCE
_COMPLETING: Final = MemberState.COMPLETING_REBALANCE
_STABLE: Final = MemberState.STABLE
_LEAVING: Final = MemberState.LEAVING
_FENCED: Final = MemberState.FENCED

_Then = Callable[[int], None]
_Partitions = tuple[TopicPartition, ...]


class ClassicMembership:
    """Owned by the consumer's lock.

    Invariants: `owned` is what the user was given and has not given up; there is one request in
    flight beside a heartbeat; while `_awaited` is set, no step is taken but that of a heartbeat and
    those of a member that is late to poll.
    """

    def __init__(
        self,
        settings: MembershipSettings,
        identity: GroupIdentity,
        finder: CoordinatorFinder,
        assignors: Sequence[Assignor],
        for_user: deque[Callback],
        commit: Callable[[int], Answer[None]],
        jitter: Callable[[], float],
    ) -> None:
        """`commit`: commit what the user has had, if that is done by itself at all."""
        self.state = _UNJOINED
        self.owned: _Partitions = ()
        self.listener: RebalanceListener | None = None
        self._settings = settings
        self._identity = identity
        self._finder = finder
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._cooperative = all(assignor.cooperative for assignor in assignors)
        self._for_user = for_user
        self._commit = commit
        self._jitter = jitter
        self._topics: tuple[str, ...] = ()
        self._partition_counts: Mapping[str, int] = {}
        self._shared_out: dict[str, int] | None = None  # by this leader: its topics' counts then
        self._came_back = False  # as a static leader: it shares nothing out, and did before
        self._unseen: set[str] = set()  # topics that it has not heard of since
        self._is_moving: set[str] = set()  # topics of which this leader holds partitions back
        self._moved_by_ms: int | None = None  # until then, their owners should have joined again
        self._last_assignment: _Partitions = ()
        self._effects: list[Effect] = []
        self._awaited: Answer[None] | Answer[Plan] | None = None
        self._then: _Then = _nothing
        self._awaits_code = False
        self._in_flight: JoinGroup | SyncGroup | LeaveGroup | None = None
        self._heartbeat: Heartbeat | None = None
        self._heartbeat_at_ms = 0
        self._standing_ms = max(
            settings.heartbeat_interval_ms, min(STANDING_MS, settings.session_timeout_ms // 3)
        )
        self._heard_ms = 0
        self._failures = 0
        self._retry_at_ms = 0
        self._last_poll_ms: int | None = None
        self._is_late = False
        self._is_lost = False
        self._rejoin_reason: str | None = None
        self._leave: Answer[None] | None = None
        self._leaves_for_good = False
        self._leave_by_ms: int | None = None  # while it tries to tell the coordinator
        self._error: errors.PylogError | None = None

    # ---- the user and the metadata ------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these; a member whose topics are others than before joins again."""
        wanted = tuple(sorted(set(topics)))
        self._identity.takes_part = bool(wanted)
        if wanted != self._topics:
            self._topics = wanted
            self._rejoin_reason = "the subscription has changed"

    def on_user_poll(self, now_ms: int) -> bool:
        """The user is there, and takes what comes; whether the member was out without it."""
        was_late, self._is_late = self._is_late, False
        self._last_poll_ms = now_ms
        return was_late

    def join_again(self, reason: str) -> None:
        """Have the group rebalance."""
        if self._topics and self._rejoin_reason is None:
            self._rejoin_reason = reason

    @property
    def awaits_user_code(self) -> bool:
        """Whether the user's code is about to be called."""
        return self._awaited is not None and self._awaits_code

    def leave(self, *, for_good: bool = False) -> Answer[None]:
        """Give all up and leave; answered when the member is out. One that is out, as it has never
        joined or has left before, is answered at once: nothing may ever `poll` it again. A static
        member is expected back, but `for_good`.
        """
        if self._leave is not None:
            return self._leave
        self._leaves_for_good = for_good
        leave = self._leave = Answer()
        self._topics = ()
        if self._is_out:
            self._identity.takes_part = False
            self._leave = None
            leave.succeed(None)
        elif self.state is _FENCED:
            leave.succeed(None)
        return leave

    @property
    def _is_out(self) -> bool:
        """Whether there is nothing to give up, and nobody to tell. A heartbeat that stood may yet
        have said that the member is none: that changes nothing.
        """
        joins = self._in_flight is not None or self._awaited is not None
        has_something = bool(self._identity.member_id or self.owned)
        return self.state is _UNJOINED and not joins and not has_something

    def take_error(self) -> errors.PylogError | None:
        """The error that keeps the member out. It is returned once, and the member then tries
        again; a fenced member returns it each time.
        """
        error = self._error
        if self.state is not _FENCED:
            self._error = None
        return error

    def on_metadata(self, partition_counts: Mapping[str, int]) -> None:
        """Take the partition counts of topics; a leader whose topics have changed assigns anew."""
        self._partition_counts = partition_counts
        self._look_at_the_topics()

    def _look_at_the_topics(self) -> None:
        shared_out = self._shared_out
        if shared_out is None or (self._came_back and self.state is not _STABLE):
            return
        counts = self._counts_of(shared_out)
        self._unseen = {topic for topic in self._unseen if not counts[topic]}
        if any(counts[topic] != shared_out[topic] for topic in counts.keys() - self._unseen):
            self._rejoin_reason = "the group's topics have changed"

    def on_commit_fault(self, now_ms: int, generation: int, code: int) -> None:
        """A commit was refused with this code."""
        if generation == self._identity.generation != NO_GENERATION:
            self._on_member_fault(now_ms, code)

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> Polled:
        """Everything that can be decided now."""
        self._look_at_the_poll_interval(now_ms)
        self._look_at_the_moves(now_ms)
        self._advance(now_ms)
        self._send(now_ms)
        self._beat(now_ms)
        self._leave_in_time(now_ms)
        effects, self._effects = self._effects, []
        return Polled(effects, self._deadline_ms(now_ms))

    def _deadline_ms(self, now_ms: int) -> int | None:
        """The next time at which something is due by time alone."""
        due: list[int] = []
        if self._retry_at_ms > now_ms:
            due.append(self._retry_at_ms)
        if self._lives and self._heartbeat is None and self._heartbeat_at_ms > now_ms:
            due.append(self._heartbeat_at_ms)
        if self._lives and self._heartbeat is not None:
            due.append(self._heard_ms + self._settings.session_timeout_ms)
        if self._last_poll_ms is not None and not self._is_late and self._identity.member_id:
            due.append(self._last_poll_ms + self._settings.max_poll_interval_ms)
        if self._leave_by_ms is not None and self._in_flight is None:
            due.append(self._leave_by_ms)
        if self._moved_by_ms is not None:
            due.append(self._moved_by_ms)
        return min(due, default=None)

    def _look_at_the_poll_interval(self, now_ms: int) -> None:
        """A user that does not come back leaves its partitions to others (KIP-62)."""
        longest_ms = self._settings.max_poll_interval_ms
        if self._last_poll_ms is None or self._is_late or not self._identity.member_id:
            return
        if now_ms - self._last_poll_ms < longest_ms or self.state is _LEAVING:
            return
        self._is_late = True
        self._tell_of_leaving(f"nobody has polled for max.poll.interval.ms={longest_ms}")
        self._identity.forget()
        self._lose()

    def _look_at_the_moves(self, now_ms: int) -> None:
        """A leader rebalances where an owner has not given up what it was to give up (KIP-429).

        An owner that has died is missed by the coordinator; but a static one that starts again in
        time is given the old assignment and owns nothing, so that it has nothing to give up.
        """
        if self._moved_by_ms is not None and now_ms >= self._moved_by_ms:
            self._moved_by_ms = None
            self.join_again("partitions that move have not been given up")

    def _advance(self, now_ms: int) -> None:
        """Take the steps for which nobody is waited for."""
        while True:
            if self._awaited is not None:
                if not self._awaited.done:
                    return
                self._awaited, then = None, self._then
                if not self._is_lost:
                    then(now_ms)
            elif self._is_lost:
                self._is_lost = False
                then = self._leave_now if self.state is _LEAVING else _nothing
                self._give_up(now_ms, self.owned, is_lost=True, then=then)
            elif self._wants_to_leave:
                self._become(_LEAVING)
                self._in_flight = None
                self._give_up(now_ms, self.owned, is_lost=False, then=self._leave_now)
            elif self._may_prepare:
                self._prepare(now_ms)
            else:
                return

    @property
    def _wants_to_leave(self) -> bool:
        is_on_its_way = self.state in (_LEAVING, _FENCED)
        return self._leave is not None and not self._leave.done and not is_on_its_way

    @property
    def _may_prepare(self) -> bool:
        if not self._topics or self._is_late or self._error is not None:
            return False
        return self.state is _UNJOINED or (self.state is _STABLE and bool(self._rejoin_reason))

    def _become(self, state: MemberState) -> None:
        assert state in NEXT_STATES[self.state], (
            f"member {self._identity.member_id!r} of {self._identity.group_id!r}: "
            f"{self.state.name} cannot become {state.name}"
        )
        self.state = state

    # ---- the user's code ----------------------------------------------------------------------

    def _await(self, answer: Answer[None] | Answer[Plan], then: _Then) -> None:
        assert self._awaited is None
        self._awaits_code = False
        self._awaited, self._then = answer, then

    def _give_up(self, now_ms: int, partitions: _Partitions, *, is_lost: bool, then: _Then) -> None:
        """Commit what the user has had of these, tell, read them no more, and go on."""
        if not partitions:
            then(now_ms)
            return
        self._effects.append(StopReading(partitions))
        if is_lost:
            self._tell_given_up(now_ms, partitions, is_lost, then)
        else:
            tell = partial(self._tell_given_up, partitions=partitions, is_lost=False, then=then)
            self._await(self._commit(now_ms), tell)

    def _tell_given_up(
        self, now_ms: int, partitions: _Partitions, is_lost: bool, then: _Then
    ) -> None:
        def forget(now_ms: int) -> None:
            self.owned = tuple(tp for tp in self.owned if tp not in gone)
            self._effects.append(ReadExactly(self.owned))
            then(now_ms)

        gone = set(partitions)
        listener = self.listener
        if listener is None:
            forget(now_ms)
            return
        tell = listener.on_partitions_lost if is_lost else listener.on_partitions_revoked
        self._call(partial(tell, list(partitions)), forget)

    def _call(self, run: Callable[[], None], then: _Then) -> None:
        """Errors of the code go to the user; the member goes on, as Kafka's does."""
        callback = Callback(run)
        self._for_user.append(callback)
        self._await(callback.answer, then)
        self._awaits_code = True

    # ---- joining ------------------------------------------------------------------------------

    def _prepare(self, now_ms: int) -> None:
        """Give up what may not be kept while the group rebalances."""
        self._become(_PREPARING)
        kept_topics = self._topics if self._cooperative else ()
        given_up = tuple(tp for tp in self.owned if tp.topic not in kept_topics)
        self._give_up(now_ms, given_up, is_lost=False, then=_nothing)

    def _send(self, now_ms: int) -> None:
        """Ask to join, when nothing stands in the way."""
        if self.state is not _PREPARING or self._awaited is not None or self._in_flight is not None:
            return
        coordinator = self._finder.coordinator
        if coordinator is None or now_ms < self._retry_at_ms or self._error is not None:
            return
        identity, settings = self._identity, self._settings
        reason, self._rejoin_reason = self._rejoin_reason or "", None
        self._heartbeat = None  # what it says is of the generation that ends
        self._shared_out, self._came_back, self._unseen = None, False, set()
        self._is_moving, self._moved_by_ms = set(), None
        self._in_flight = JoinGroup(
            coordinator,
            identity.group_id,
            identity.member_id,
            identity.instance_id,
            settings.session_timeout_ms,
            settings.max_poll_interval_ms,
            tuple((name, self._subscription(one)) for name, one in self._assignors.items()),
            reason,
        )
        self._effects.append(self._in_flight)

    def _subscription(self, assignor: Assignor) -> bytes:
        generation = self._identity.generation
        user_data = assignor.user_data(self._last_assignment, generation)
        return encode_subscription(Subscription(self._topics, user_data, self.owned, generation))

    def on_joined(self, now_ms: int, request: JoinGroup, answer: Joined) -> None:
        """The coordinator has answered."""
        if request is not self._in_flight:
            return
        self._in_flight = None
        if answer.code == errors.MemberIdRequired.code:
            self._identity.member_id = answer.member_id
            return
        if answer.code:
            self._finder.forget_if_ousted(request.coordinator, answer.code)
            self._on_refused(now_ms, answer.code, answer.message)
            return
        self._identity.member_id = answer.member_id
        self._identity.generation = answer.generation
        self._failures = self._retry_at_ms = 0
        self._heard_ms = now_ms
        self._heartbeat_at_ms = now_ms + self._settings.heartbeat_interval_ms
        self._become(_COMPLETING)
        if answer.leader != answer.member_id:
            self._ask_for_assignment(request.coordinator, answer.protocol, ())
            return
        try:
            self._share_out(now_ms, request.coordinator, answer)
        except errors.InconsistentGroupProtocol as error:
            self._error = error
            self._become(_UNJOINED)

    def _share_out(self, now_ms: int, coordinator: int, answer: Joined) -> None:
        """As the leader, say who reads what."""
        members = [
            Member(member_id, decode_subscription(data), instance_id)
            for member_id, instance_id, data in answer.members
        ]
        assignor = self._assignors.get(answer.protocol)
        if assignor is None:
            raise errors.InconsistentGroupProtocol(
                f"the group chose the assignor {answer.protocol!r}, which this member has not"
            )
        topics = sorted({topic for member in members for topic in member.subscription.topics})
        self._effects.append(WatchGroupTopics(tuple(topics)))
        counts = {topic: self._partition_counts.get(topic, 0) for topic in topics}
        self._shared_out = counts
        if answer.skip_assignment:  # a static leader came back, and its group stays as it is
            self._came_back = True
            self._ask_for_assignment(coordinator, answer.protocol, ())
            return

        plan: Answer[Plan] = Answer()

        def ask(now_ms: int) -> None:
            if plan.failed:  # the user's poll has raised it
                self._ask_anew(now_ms)
                return
            shares = plan.result()
            self._is_moving = _moving(counts, members, shares)
            own: dict[str, bytes] = {}
            if self._identity.instance_id is not None:
                settled = {topic: counts[topic] for topic in counts.keys() - self._is_moving}
                own[answer.member_id] = encode_shared_out(settled)
            assignments = tuple(
                (member_id, encode_assignment(Assignment(tuple(share), own.get(member_id))))
                for member_id, share in shares.items()
            )
            self._ask_for_assignment(coordinator, answer.protocol, assignments)

        assign = partial(assignor.assign, counts, members)
        if type(assignor) in OWN_ASSIGNORS.values():
            plan.succeed(assign())
            ask(now_ms)
        else:  # the user's code runs on the user's thread
            self._for_user.append(Callback(assign, plan))
            self._await(plan, ask)

    def _ask_for_assignment(
        self, coordinator: int, protocol: str, assignments: tuple[tuple[str, bytes], ...]
    ) -> None:
        identity = self._identity
        self._in_flight = SyncGroup(
            coordinator,
            identity.group_id,
            identity.generation,
            identity.member_id,
            identity.instance_id,
            protocol,
            assignments,
        )
        self._effects.append(self._in_flight)

    def on_synced(self, now_ms: int, request: SyncGroup, answer: Synced) -> None:
        """The coordinator says what the member is to read."""
        if request is not self._in_flight:
            return
        self._in_flight = None
        if answer.code:
            self._finder.forget_if_ousted(request.coordinator, answer.code)
            self._on_refused(now_ms, answer.code, answer.message)
            return
        try:
            partitions, user_data = decode_assignment(answer.assignment)
        except errors.InconsistentGroupProtocol as error:
            self._error = error
            self._become(_UNJOINED)
            return
        self._become(_STABLE)
        self._heartbeat_at_ms = now_ms  # it may stand from now on
        # The topics may have become others meanwhile; the member is about to join again then.
        assigned = tuple(sorted({tp for tp in partitions if tp.topic in self._topics}))
        self._last_assignment = assigned
        if self._came_back:
            self._compare_with_before(user_data)
        if self._is_moving:
            self._moved_by_ms = now_ms + self._settings.session_timeout_ms
        self._take(now_ms, assigned)

    def _compare_with_before(self, user_data: bytes | None) -> None:
        """A static leader that was away while a topic grew shares out anew, and so does one that
        had held partitions back. In Kafka these are nobody's until the next rebalance: a leader
        that comes back does not know what it has shared out before (KIP-814).
        """
        assert self._shared_out is not None
        before = decode_shared_out(user_data)
        if before is None:
            self._shared_out = self._counts_of(self._shared_out)
            return
        self._shared_out = {topic: before.get(topic, 0) for topic in self._shared_out}
        self._unseen = set(self._shared_out)
        self._look_at_the_topics()

    def _take(self, now_ms: int, assigned: _Partitions) -> None:
        """Go from what the member has to what it is given."""
        before, now = set(self.owned), set(assigned)
        given_up = tuple(tp for tp in self.owned if tp not in now)
        if given_up:  # others wait for them
            self._rejoin_reason = "the partitions that move have been given up"

        def take(now_ms: int) -> None:
            self.owned = assigned
            self._effects.append(ReadExactly(assigned))
            if self.listener is not None:
                added = [tp for tp in assigned if tp not in before]
                self._call(partial(self.listener.on_partitions_assigned, added), _nothing)

        self._give_up(now_ms, given_up, is_lost=False, then=take)

    # ---- heartbeats ---------------------------------------------------------------------------

    @property
    def _lives(self) -> bool:
        """Whether the coordinator expects to hear of the member."""
        if self._identity.generation == NO_GENERATION:
            return False
        if self.state is _PREPARING:
            return self._in_flight is None
        return self.state in (_COMPLETING, _STABLE)

    def _beat(self, now_ms: int) -> None:
        if not self._lives:
            return
        coordinator = self._finder.coordinator
        if self._heartbeat is not None:
            if now_ms - self._heard_ms < self._settings.session_timeout_ms:
                return
            self._finder.forget(self._heartbeat.coordinator)
            self._heartbeat, self._heard_ms = None, now_ms
            return
        if coordinator is None or now_ms < self._heartbeat_at_ms:
            return
        identity = self._identity
        self._heartbeat_at_ms = now_ms + self._settings.heartbeat_interval_ms
        self._heartbeat = Heartbeat(
            coordinator,
            identity.group_id,
            identity.generation,
            identity.member_id,
            identity.instance_id,
            self._standing_ms if self.state is _STABLE else 0,
        )
        self._effects.append(self._heartbeat)

    def on_heartbeat(self, now_ms: int, request: Heartbeat, answer: Acknowledged) -> None:
        """The coordinator has heard of the member."""
        if request is not self._heartbeat:
            return
        self._heartbeat = None
        self._finder.forget_if_ousted(request.coordinator, answer.code)
        if answer.code == 0:
            self._heard_ms = now_ms
        elif not self._on_member_fault(now_ms, answer.code):
            self._heartbeat_at_ms = now_ms + self._settings.retry_backoff_ms
            error = errors.from_code(answer.code, answer.message)
            if not error.retriable:
                self._error = error

    # ---- leaving ------------------------------------------------------------------------------

    def _leave_now(self, now_ms: int) -> None:
        if self._identity.member_id and not self._is_expected_back:
            self._leave_by_ms, self._retry_at_ms = now_ms + LEAVE_PATIENCE_MS, now_ms
        else:
            self._has_left()

    @property
    def _is_expected_back(self) -> bool:
        return self._identity.instance_id is not None and not self._leaves_for_good

    def _leave_in_time(self, now_ms: int) -> None:
        """Tell the coordinator when there is one, again where it could not hear, and for so long as
        that is worth it.
        """
        if self._leave_by_ms is None or self._in_flight is not None:
            return
        if now_ms >= self._leave_by_ms:
            self._has_left()
        elif now_ms >= self._retry_at_ms:
            self._tell_of_leaving("the consumer leaves its group")

    def _tell_of_leaving(self, reason: str) -> None:
        """Tell the coordinator, if one is known; not of a member that is expected back."""
        identity, coordinator = self._identity, self._finder.coordinator
        if not identity.member_id or coordinator is None or self._is_expected_back:
            return
        request = LeaveGroup(coordinator, identity.group_id, identity.member_id, reason)
        self._in_flight = request
        self._effects.append(request)

    def on_left(self, now_ms: int, request: LeaveGroup, answer: Acknowledged) -> None:
        """The coordinator has answered. One that could not hear is told again."""
        self._finder.forget_if_ousted(request.coordinator, answer.code)
        if request is self._in_flight:
            self._in_flight = None
            if answer.code and errors.from_code(answer.code).retriable:
                self._leave_again(now_ms)
            elif self.state is _LEAVING:
                self._has_left()

    def _leave_again(self, now_ms: int) -> None:
        if self.state is _LEAVING:
            self._back_off(now_ms)

    def _has_left(self) -> None:
        self._leave_by_ms, self._failures, self._retry_at_ms = None, 0, 0
        self._identity.forget()
        self._identity.takes_part = bool(self._topics)
        self._last_assignment = ()
        self._become(_UNJOINED)
        assert self._leave is not None
        self._leave.succeed(None)
        self._leave, self._leaves_for_good = None, False

    # ---- faults -------------------------------------------------------------------------------

    def on_failed(
        self, now_ms: int, request: JoinGroup | SyncGroup | Heartbeat | LeaveGroup
    ) -> None:
        """The coordinator has not answered: the connection broke, or its time is up."""
        self._finder.forget(request.coordinator)
        match request:
            case Heartbeat():
                if request is self._heartbeat:
                    self._heartbeat = None
                    self._heartbeat_at_ms = now_ms + self._settings.retry_backoff_ms
            case LeaveGroup():
                if request is self._in_flight:
                    self._in_flight = None
                    self._leave_again(now_ms)
            case _:
                if request is self._in_flight:
                    self._in_flight = None
                    self._ask_anew(now_ms)

    def _on_refused(self, now_ms: int, code: int, message: str) -> None:
        """A join or a sync was refused."""
        if code == errors.RebalanceInProgress.code:
            if self.state is _COMPLETING:
                self._become(_UNJOINED)
            else:
                self._back_off(now_ms)
        elif self._on_member_fault(now_ms, code):
            if self.state is not _FENCED:
                self._back_off(now_ms)
        else:
            self._ask_anew(now_ms)
            error = errors.from_code(code, f"group {self._identity.group_id!r}: {message}")
            if not error.retriable:
                self._error = error

    def _ask_anew(self, now_ms: int) -> None:
        if self.state is _COMPLETING:
            self._become(_UNJOINED)
        self._back_off(now_ms)

    def _back_off(self, now_ms: int) -> None:
        self._failures += 1
        self._retry_at_ms = now_ms + self._settings.backoff_ms(self._failures, self._jitter())

    def _on_member_fault(self, now_ms: int, code: int) -> bool:
        """Whether the code is about this member, which then does what follows from it."""
        match code:
            case errors.RebalanceInProgress.code:
                if self.state is _STABLE and self._rejoin_reason is None:
                    self._rejoin_reason = "the group is rebalancing"
            case errors.IllegalGeneration.code:
                self._identity.forget_generation()
                self._lose()
            case errors.UnknownMemberId.code:
                self._identity.forget()
                self._lose()
            case errors.FencedInstanceId.code:
                self._identity.forget()
                self._lose()
                if self.state is not _LEAVING:
                    self._fence()
            case _:
                return False
        return True

    def _lose(self) -> None:
        """The member's partitions may be another one's by now."""
        self._is_lost = True
        self._last_assignment = ()
        self._shared_out = None
        self._is_moving, self._moved_by_ms = set(), None
        self._heartbeat = None
        if not isinstance(self._in_flight, LeaveGroup):
            self._in_flight = None
        if self.state in (_PREPARING, _COMPLETING, _STABLE):
            self._become(_UNJOINED)

    def _fence(self) -> None:
        self._error = errors.FencedInstanceId(
            f"another consumer has joined group {self._identity.group_id!r} as "
            f"{self._identity.instance_id!r}; two must not have one group.instance.id"
        )
        self._become(_FENCED)
        if self._leave is not None:
            self._leave.succeed(None)

    def _counts_of(self, topics: Iterable[str]) -> dict[str, int]:
        return {topic: self._partition_counts.get(topic, 0) for topic in topics}


def _nothing(_now_ms: int) -> None:
    """There is no next step."""


def _moving(
    counts: Mapping[str, int],
    members: Sequence[Member],
    shares: Mapping[str, Sequence[TopicPartition]],
) -> set[str]:
    """Topics with partitions that one member still has and that another one is to get: nobody is
    given them before they are given up.
    """
    given = {tp for share in shares.values() for tp in share}
    claimed = {tp for member in members for tp in member.subscription.owned}
    return {tp.topic for tp in claimed - given if tp.partition < counts.get(tp.topic, 0)}
