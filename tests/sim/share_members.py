"""Members of share groups: the product's share core with what collects its records, and a user.

The user's thread is modelled as the product's shell has it: it polls, works on what it gets for a
while, says what becomes of each record, and commits or leaves that to the next poll. It may be late
with any of that. Each record that it gets is compared with what a leader has acquired for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pylog import errors
from pylog.client.answers import Answer
from pylog.client.consumer.consumer_settings import Interceptors, UserCode
from pylog.client.fetching.fetch_events import Notice, RefreshMetadata, WatchTopics
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import FindCoordinator
from pylog.client.share_consumer.share_collecting import Found, ShareCollector
from pylog.client.share_consumer.share_loop import ShareLoop
from pylog.client.share_consumer.share_wire import API_OF, ShareWire
from pylog.client.sharing.acknowledgements import AckParcel, CommitResults
from pylog.client.sharing.messages import (
    ShareAcknowledge,
    SharedPartition,
    ShareFetch,
    ShareHeartbeat,
    ShareRequest,
)
from pylog.client.sharing.share_core import Effect, ShareCore
from pylog.client.sharing.share_membership import ShareMemberState
from pylog.client.sharing.share_requests import ShareSettings
from pylog.model import AcknowledgeType, BrokerId, TopicId
from pylog.records.record import Record
from pylog_broker.share.sessions import SharePartitionKey
from tests.sim.client_metadata import KeptMetadata
from tests.sim.coordinator_shell import Refused, UnaryCall
from tests.sim.rpc import Actor, Machine, Rpc
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess
    from tests.sim.cluster import Cluster
    from tests.sim.share_apps import ShareApps

REQUEST_MS = 2_000
CLOSE_MS = 4_000
COMMIT_MS = 6_000
POLL_MS = 400
LOOK_MS = 20
BYTES_MAX = 1 << 20

T = TypeVar("T")
Handed = list[tuple[SharedPartition, list[Record]]]
_PLAIN = UserCode(None, None, Interceptors(()))


@dataclass(frozen=True, slots=True)
class ShareMemberSettings:
    """The kind of a member. `commits`: "poll", "sync" or "async". `failing_share`: of the records,
    which a user who says what becomes of each does not accept.
    """

    group_id: str
    explicit: bool
    strict: bool
    commits: str
    max_poll_records: int
    max_poll_interval_ms: int
    failing_share: float
    poll_ms: float
    work_ms: float


class _Loop:
    """The part of the consumer's loop that the collector needs."""

    def __init__(self, member: ShareMember) -> None:
        self.lock = threading.Lock()
        self.core = member.core
        self._member = member

    def ask(self, question: Callable[..., T], *arguments: Any) -> T:
        """Ask something of the core, and have the loop look."""
        answer = question(*arguments)
        self._member.timer(0, self._member.look)
        return answer


class _Clock:
    def __init__(self, member: ShareMember) -> None:
        self._member = member

    def monotonic_ms(self) -> int:
        """The member's own."""
        return self._member.now_ms()


class ShareMember(Actor):
    """One life of a member of a share group."""

    def __init__(
        self, cluster: Cluster, apps: ShareApps, name: str, settings: ShareMemberSettings
    ) -> None:
        super().__init__(Machine(name, cluster.scheduler, 0))
        self.cluster = cluster
        self.settings = settings
        self.rng = cluster.scheduler.rng(name)
        self._apps = apps
        self._ghost = apps.ghost
        self._kept = KeptMetadata(cluster, self, self.rng, self._on_metadata)
        self.member_id = f"member-{name}"
        self.core = ShareCore(
            ShareSettings(
                fetch_max_wait_ms=cluster.swarm.fetch_wait_ms,
                max_poll_records=settings.max_poll_records,
                strict=settings.strict,
                default_api_timeout_ms=COMMIT_MS,
                retry_backoff_ms=50,
                retry_backoff_max_ms=400,
            ),
            MembershipSettings(
                max_poll_interval_ms=settings.max_poll_interval_ms,
                default_api_timeout_ms=COMMIT_MS,
                retry_backoff_ms=50,
                retry_backoff_max_ms=400,
            ),
            GroupIdentity(settings.group_id, member_id=self.member_id),
            self._kept.metadata,
            self.rng.random,
            explicit=settings.explicit,
        )
        self.core.listen(self._acknowledged)
        self._collector = ShareCollector(
            cast(ShareLoop, _Loop(self)),
            _PLAIN,
            cast(Any, _Clock(self)),
            max_poll_records=settings.max_poll_records,
            strict=settings.strict,
            check_crcs=True,
        )
        self._wire = ShareWire(
            settings.group_id,
            self.member_id,
            name,
            "",
            1,
            self.rng.choice((BYTES_MAX, cluster.swarm.fetch_max_bytes)),
            settings.max_poll_records,
            settings.strict,
        )
        self._connections: dict[int, Rpc] = {}
        self._found: Found = []
        self._in_work: Handed = []
        self._tick_at = -1
        self._poll_until_ms = 0
        self._stalled_until_ms = 0
        self._closes_by_ms = -1
        self._is_good = False

    def now_ms(self) -> int:
        """The member's monotonic clock."""
        return self.machine.now_ms()

    # ---- the user polls

    def start(self) -> None:
        """Subscribe, and poll from now on."""
        self._ghost.comes(self.member_id)
        self._kept.refresh_soon(self.cluster.TOPIC)
        self._step(self.core.subscribe((self.cluster.TOPIC,)))
        self.timer(self.rng.random() * self.settings.poll_ms, self._turn)

    def stall(self, for_ms: float) -> None:
        """The user does not come back for so long."""
        self._stalled_until_ms = self.now_ms() + int(for_ms)

    def settle(self) -> None:
        """From now on the user is good: it comes in time, and accepts what it gets."""
        self._stalled_until_ms = 0
        self._is_good = True

    @property
    def _is_away(self) -> bool:
        return self.now_ms() < self._stalled_until_ms

    def _turn(self) -> None:
        """The user polls."""
        if not self.alive or self._closes_by_ms >= 0:
            return
        if self._is_away:
            self.timer(20, self._turn)
            return
        self._poll_until_ms = self.now_ms() + POLL_MS
        core, hand = self.core, self.core.hand
        self._run_callbacks()
        self._found = []
        done = self._done_with()
        wants = not (hand.renews or self._collector.has_some)
        core.on_user_poll(self.now_ms(), done, wants=wants)
        self.timer(0, self.look)
        error = core.take_error()
        if error is not None:
            raise Violation("C", f"{self.name} hears {error!r}")
        self._look_for_records()

    def _look_for_records(self) -> None:
        """As the product's poll does, until there are some or its time is over."""
        if not self.alive or self._closes_by_ms >= 0:
            return
        found = self._records()
        if not found and self.now_ms() < self._poll_until_ms:
            self.timer(1 + self.rng.random() * 10, self._look_again)
            return
        self.core.requests.stop()
        if not found:
            self.timer(self.rng.expovariate(1.0 / self.settings.poll_ms), self._turn)
            return
        for acquired, records in self._found:
            self.core.hand.add(acquired, records)
        self._found = []
        for place, records in found:
            for record in records:
                self._ghost.got(self.name, self.member_id, self._key(place), record)
        self._in_work = found
        work_ms = 2.0 if self._is_good else self.settings.work_ms
        self.timer(self.rng.expovariate(1.0 / work_ms), self._work_ends)

    def _look_again(self) -> None:
        if self.core.has_news or self.now_ms() >= self._poll_until_ms:
            self._look_for_records()
        else:
            self.timer(1 + self.rng.random() * 10, self._look_again)

    def _records(self) -> Handed:
        """The records that are there. If none is, have records fetched."""
        self._run_callbacks()
        hand = self.core.hand
        if hand.renews:
            return [] if hand.awaits_renewals else hand.take_renewed()
        self._found = self._collector.collect()
        if not self._found:
            self.core.requests.want()
            self.timer(0, self.look)
        return [(acquired.partition, list(records)) for acquired, records in self._found]

    def _key(self, place: SharedPartition) -> SharePartitionKey:
        return SharePartitionKey(self.settings.group_id, TopicId(place.topic_id), place.partition)

    def _run_callbacks(self) -> None:
        while self.core.for_user:
            self.core.for_user.popleft().run()

    def _acknowledged(self, _offsets: object, error: errors.PylogError | None) -> None:
        name = "taken" if error is None else error.name
        self.cluster.sometimes[f"shares: user's acknowledgements: {name}"] += 1

    # ---- and is done with records

    def _work_ends(self) -> None:
        if not self.alive or self._closes_by_ms >= 0:
            return
        if self._is_away:
            self.timer(20, self._work_ends)
            return
        self._decide()
        match self.settings.commits:
            case "sync":
                answer = self.core.commit(self.now_ms(), self._done_with(), COMMIT_MS)
                self.look()
                self._await_commit(answer)
                return
            case "async":
                self.core.acknowledge(self.now_ms(), self._done_with())
                self.look()
        self._turn()

    def _decide(self) -> None:
        """In the explicit mode the user has a word about each record."""
        work, self._in_work = self._in_work, []
        for place, records in work:
            for record in records:
                if self.settings.explicit:
                    kind = self._word()
                    self.core.hand.decide(place.topic_partition, record.offset, kind)
                    self.cluster.sometimes[f"shares: user says {kind.name}"] += 1
                    if kind is not AcknowledgeType.ACCEPT:
                        continue
                self._ghost.accepts(self.member_id, self._key(place), record.offset)

    def _word(self) -> AcknowledgeType:
        if self._is_good or self.rng.random() >= self.settings.failing_share:
            return AcknowledgeType.ACCEPT
        return self.rng.choice(
            (
                AcknowledgeType.RELEASE,
                AcknowledgeType.RELEASE,
                AcknowledgeType.REJECT,
                AcknowledgeType.RENEW,
            )
        )

    def _done_with(self) -> list[AckParcel]:
        """The user's decisions or, in the implicit mode, all that it has."""
        hand = self.core.hand
        return hand.take_decided() if self.settings.explicit else hand.accept()

    def _await_commit(self, answer: Answer[CommitResults]) -> None:
        if not self.alive or self._closes_by_ms >= 0:
            return
        if not answer.done:
            self.timer(1 + self.rng.random() * 4, self._await_commit, answer)
            return
        for error in answer.result().values():
            name = "done" if error is None else error.name
            self.cluster.sometimes[f"shares: commit {name}"] += 1
        self._turn()

    # ---- the end

    def crash(self) -> None:
        """The process is gone."""
        self.alive = False
        self.cluster.net.break_all_of(self.name, seen_by_peer=self.rng.random() < 0.7)

    def disconnect(self) -> None:
        """Its connections break."""
        connections, self._connections = self._connections, {}
        for rpc in connections.values():
            if rpc.open:
                rpc.close()

    def close(self, in_order: bool = True) -> None:
        """The user closes the consumer: done with its records, or as its program has failed."""
        if self._closes_by_ms >= 0 or not self.alive:
            return
        now_ms = self.now_ms()
        self._closes_by_ms = now_ms + CLOSE_MS
        self.cluster.scheduler.note("closes", self.name, in_order)
        core, done = self.core, list[AckParcel]()
        if in_order:
            self._decide()
            done = self._done_with()
        self._in_work = []
        core.acknowledge(now_ms, [*done, *core.hand.release(len(core.hand))])
        self._collector.clear()
        self._settle(core.requests.close(), self._sessions_ended)

    def _settle(self, answer: Answer[None], then: Callable[[], None]) -> None:
        if not self.alive:
            return
        self.look()
        if answer.done or self.now_ms() >= self._closes_by_ms:
            kind = "in time" if answer.done else "late"
            self.cluster.sometimes[f"shares: closed {kind}"] += 1
            then()
        else:
            self.timer(1 + self.rng.random() * 10, self._settle, answer, then)

    def _sessions_ended(self) -> None:
        self._settle(self.core.leave(), self._left)

    def _left(self) -> None:
        self.crash()
        self._apps.ended(self)

    @property
    def waits_for(self) -> list[str]:
        """The reasons why the member is not settled, for a report and for L1."""
        membership = self.core.membership
        if membership.state is not ShareMemberState.STABLE:
            return [f"its group: {membership.state.name} at {self.core.identity.generation}"]
        return []

    # ---- steps

    def look(self) -> None:
        """The core decides what it can."""
        self._step([])

    def _step(self, effects: Sequence[Effect]) -> None:
        if not self.alive:
            return
        decided = self.core.poll(self.now_ms())
        for effect in [*effects, *decided.effects]:
            self._perform(effect)
        deadline = decided.deadline_ms
        if deadline is not None and (self._tick_at < 0 or deadline < self._tick_at):
            self._tick_at = deadline
            self.timer(max(deadline - self.now_ms(), 0), self._tick, deadline)

    def _tick(self, deadline: int) -> None:
        if deadline == self._tick_at:
            self._tick_at = -1
            self.look()

    def _perform(self, effect: Effect) -> None:
        self.cluster.scheduler.told(self.name, "wants", effect)
        match effect:
            case FindCoordinator() | ShareHeartbeat() | ShareFetch() | ShareAcknowledge():
                self._ask(effect)
            case WatchTopics(topics, _) | RefreshMetadata(topics):
                self._kept.refresh_soon(*topics)
            case Notice(text):
                self.cluster.scheduler.note("notice", self.name, text)
            case _:
                raise AssertionError(f"a share consumer does not want {effect}")

    def _on_metadata(self) -> None:
        self._step(self.core.on_metadata(self.now_ms()))

    # ---- calls

    def _ask(self, request: ShareRequest, waited_ms: int = 0) -> None:
        knows_nobody = not self._kept.metadata.brokers and waited_ms < REQUEST_MS
        if isinstance(request, FindCoordinator) and knows_nobody:
            self.timer(LOOK_MS, self._ask, request, waited_ms + LOOK_MS)
            return
        message = self._wire.message(request)
        rpc = self._connection(self._broker_for(request))
        if rpc is None:
            self.timer(1 + self.rng.random() * 20, self._unanswered, request)
            return
        is_done = False

        def answered(answer: Any) -> None:
            nonlocal is_done
            if not is_done:
                is_done = True
                self._answered(request, answer)

        shares = self.cluster.server(rpc).shares
        assert shares is not None
        call = UnaryCall(API_OF[type(request)].key, message, self.name)
        rpc.request(shares.serve, call, answered, None)
        self.timer(_timeout_ms(request), answered, None)

    def _broker_for(self, request: ShareRequest) -> int:
        match request:
            case FindCoordinator():
                known = sorted(self._kept.metadata.brokers)
                return self.rng.choice(known) if known else -1
            case ShareHeartbeat():
                return request.coordinator
            case _:
                return request.broker

    def _connection(self, broker: int) -> Rpc | None:
        """The connection to the broker; None: nobody listens there."""
        process: BrokerProcess | None = self.cluster.process(BrokerId(broker))
        shares = None if process is None else process.shares
        if process is None or shares is None:
            return None
        rpc = self._connections.get(broker)
        if rpc is None or not rpc.open or rpc.server is not process:

            def ended() -> None:
                shares.connection_closed(self.name, made)

            made = rpc = Rpc(self.cluster.net, self, process, None, ended)
            self._connections[broker] = rpc
        return rpc

    def _answered(self, request: ShareRequest, answer: Any) -> None:
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
        if told.code:
            name = errors.ERRORS_BY_CODE[told.code].__name__
            self.cluster.sometimes[f"shares: {type(request).__name__} answered {name}"] += 1
        self.cluster.scheduler.told(self.name, "is answered", (request, told))
        self._step(self.core.on_answer(self.now_ms(), request, told))
        if self.rng.random() < self.cluster.swarm.net.duplicate / 4:
            self.cluster.sometimes["shares: answer heard twice"] += 1
            self.timer(self.rng.random() * 500, self._answered_again, request, told)

    def _answered_again(self, request: ShareRequest, told: Any) -> None:
        self._step(self.core.on_answer(self.now_ms(), request, told))

    def _unanswered(self, request: ShareRequest) -> None:
        self.cluster.sometimes[f"shares: {type(request).__name__} not answered"] += 1
        error = errors.CoordinatorNotAvailable("no answer")
        self.cluster.scheduler.told(self.name, "is not answered", request)
        self._step(self.core.on_no_answer(self.now_ms(), request, error))


def _timeout_ms(request: ShareRequest) -> int:
    match request:
        case ShareHeartbeat():
            return REQUEST_MS + request.standing_ms
        case ShareFetch():
            return REQUEST_MS + request.max_wait_ms
        case _:
            return REQUEST_MS
