"""The controller: the only writer of the cluster's metadata.

Pure and event-sourced: a call takes the time and returns effects; state changes only by replay of
the records that it asks to append, and whoever waits is answered when they are committed
(`ledger.py` says why decisions may run ahead of commits). Ready for a quorum: with one voter the
shell reports the commit after fsync, with several it would after a majority.

This module is the table of contents: what can be asked, what waits, and the timers. The rules are
next to it: `sessions` (who is heard), `claims` (who becomes which broker), `brokers` (registration,
fencing), `election` and `partitions` (leaders, ISR), `topics`, `internal_topics`, `configs`,
`features`; `reassigning` (how a partition moves to other replicas) and `reassignments` (what is
asked about that).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pylog.model import (
    BrokerDescription,
    BrokerEpoch,
    BrokerId,
    ClusterDescription,
    ControllerEpoch,
    Offset,
    ProducerId,
)
from pylog_broker.controller.brokers import Brokers, stale, stale_session
from pylog_broker.controller.claims import Claims
from pylog_broker.controller.configs import Configs
from pylog_broker.controller.effects import Effect, MetadataMachine, Reply, Report, SnapshotDue
from pylog_broker.controller.election import Elections
from pylog_broker.controller.features import Features
from pylog_broker.controller.internal_topics import InternalTopics
from pylog_broker.controller.ledger import ElectionCounts, Ledger
from pylog_broker.controller.reassignments import Reassignments
from pylog_broker.controller.sessions import ObservedTime, Session, Sessions
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.controller.topic_growth import TopicGrowth
from pylog_broker.controller.topics import Topics
from pylog_broker.controller.waiting import Shutdowns, TopicWaits
from pylog_broker.metadata.admin import (
    AlterConfigs,
    AlterPartitionReassignments,
    ConfigsQuestion,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribedConfig,
    ElectLeaders,
    FeatureState,
    ListPartitionReassignments,
    OngoingReassignment,
    TopicsCreated,
    UpdateFeatures,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import (
    AlterPartition,
    ClaimBroker,
    EnsureInternalTopic,
    Failure,
    HeartbeatAccepted,
    MetadataBatch,
    ProducerIdBlock,
    RegisterBroker,
    ReplicasFailed,
    ShutdownPermitted,
)
from pylog_broker.metadata.records import ClusterRecord, ControllerEpochRecord, ProducerIdsRecord


@dataclass(slots=True)
class _Timers:
    """Observed times at which something periodic is due; None: never (again)."""

    guard_ends: int | None
    balance: int | None


class Controller:
    """One controller. `start` comes first, once; then any method, from one thread.

    Every method returns the effects to perform, in order. The `Reply` to a `token` comes exactly
    once, with this call or a later one; a refused call is answered with a `Failure`. `now_ms` is a
    monotonic clock's.

    For one session time-out after the start nobody is taken for dead because it has not called
    yet, and no unclean election takes place: brokers may be about to return. A broker
    that has called, and then broke off, is judged as ever.
    """

    def __init__(
        self,
        machine: MetadataMachine,
        settings: ControllerSettings,
        new_id: Callable[[], str],
        *,
        next_offset: Offset | None = None,
    ) -> None:
        """`machine` as loaded from disk (empty: a new cluster); it is the controller's from now
        on. `new_id()` gives a topic or cluster id: 16 random bytes as 22 characters of base64.
        `next_offset` is where the log ends; None: right behind what was loaded.
        """
        self._settings = settings
        self._new_id = new_id
        self._time = ObservedTime()
        image = machine.committed
        self._ledger = Ledger(
            machine,
            # each start of an only voter is an epoch of its own
            epoch=ControllerEpoch(max(0, image.controller_epoch) + 1),
            tail_records_max=settings.tail_records_max,
            next_offset=next_offset,
        )
        self._sessions = Sessions(
            grace_ms=settings.session_grace_ms, timeout_ms=settings.session_timeout_ms
        )
        self._claims = Claims(settings, self._sessions)
        self._elections = Elections(self._ledger, settings)
        self._configs = Configs(self._ledger, settings, self._elections)
        self._brokers = Brokers(
            self._ledger, self._sessions, self._claims, self._elections, self._configs
        )
        self._topics = Topics(self._ledger, settings, new_id)
        self._reassignments = Reassignments(self._ledger, self._elections)
        self._features = Features(self._ledger)
        self._growth = TopicGrowth(self._ledger, settings)
        self._internal_topics = InternalTopics(self._ledger, settings, self._topics)
        self._topic_waits = TopicWaits(self._ledger, self._sessions)
        self._shutdowns = Shutdowns()
        self._timers = _Timers(None, None)
        self._records_at_snapshot = image.offset
        self._started = False
        self._wall_ahead_ms: int | None = None  # of the monotonic time, at the start

    # ---- what others may look at ---------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The committed image: all that brokers and clients may know. Read only."""
        return self._ledger.committed

    @property
    def decided(self) -> MetadataImage:
        """The image as decided, maybe not yet committed: for tests and invariants. Read only."""
        return self._ledger.decided

    @property
    def elections(self) -> ElectionCounts:
        """The elections that this start of the controller has committed."""
        return self._ledger.elections

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """The epoch of this start of the controller."""
        return self._ledger.decided.controller_epoch

    @property
    def next_deadline_ms(self) -> int | None:
        """The latest time for the next call of `on_time`; an earlier call does no harm."""
        due = [
            self._sessions.deadline(),
            self._timers.guard_ends,
            self._timers.balance,
            self._topic_waits.deadline(),
            self._shutdowns.deadline(),
        ]
        earliest = min((at for at in due if at is not None), default=None)
        return None if earliest is None else self._time.wake_up_ms(earliest)

    def batches_since(self, from_offset: Offset) -> tuple[MetadataBatch, ...]:
        """Committed metadata from `from_offset` on, oldest first; the first batch may begin before
        it. One snapshot when that is too old; nothing when there is nothing newer.
        """
        return self._ledger.batches_since(from_offset)

    def describe_cluster(self) -> ClusterDescription:
        """The live brokers, as committed."""
        image = self._ledger.committed
        return ClusterDescription(
            image.cluster_id,
            image.controller_epoch,
            tuple(
                BrokerDescription(
                    broker.broker_id,
                    broker.client_endpoint.host,
                    broker.client_endpoint.port,
                    broker.rack,
                    broker.broker_epoch,
                )
                for _, broker in sorted(image.brokers.items())
                if not broker.fenced
            ),
        )

    def running_brokers(self) -> list[BrokerId]:
        """The unfenced brokers that this controller hears from. After its start the metadata still
        names those that its predecessor heard from, until they call or a session time-out is over.
        """
        return [b for b in self.image.live_brokers() if self._sessions.is_running(b)]

    def applied_offsets(self) -> dict[BrokerId, Offset]:
        """The metadata offset applied by each broker that this controller hears from."""
        return {
            session.broker_id: session.metadata_offset
            for session in self._sessions
            if self._sessions.is_running(session.broker_id)
        }

    def missing_brokers(self) -> list[BrokerId]:
        """Known brokers that neither run nor are about to: for "not all are there" messages."""
        return self._claims.missing(self._ledger.decided)

    # ---- start, commit, time -------------------------------------------------------------------

    def start(self, now_ms: int, wall_ms: int = 0) -> list[Effect]:
        """Raises the controller epoch, durably before anything else; names a new cluster.
        `wall_ms`: the time of day, for people; 0: not known.
        """
        assert not self._started
        self._started = True
        self._wall_ahead_ms = wall_ms - now_ms if wall_ms else None
        observed = self._observe(now_ms)
        image = self._ledger.decided
        is_new = not image.cluster_id
        if is_new:
            self._ledger.write(ClusterRecord(self._new_id()))
        epoch = self._ledger.epoch
        self._ledger.write(ControllerEpochRecord(epoch, wall_ms))
        if is_new:
            self._features.finalize_newest()
        reports = self._configs.record_defaults()
        for broker, registration in sorted(image.brokers.items()):
            self._sessions.add(
                Session(
                    broker,
                    registration.broker_epoch,
                    registration.incarnation_id,
                    last_seen=observed,
                    heard=False,
                )
            )
        self._timers.guard_ends = observed + self._settings.session_timeout_ms
        if self._settings.auto_leader_rebalance:
            self._timers.balance = observed + self._settings.leader_imbalance_check_ms
        reports.insert(0, Report(f"controller epoch {epoch} of cluster {image.cluster_id}"))
        return self._leave(list(reports))

    def on_committed(self, now_ms: int, offset: Offset) -> list[Effect]:
        """Everything up to `offset` is durable (with a quorum: committed)."""
        self._observe(now_ms)
        effects = self._ledger.commit(offset)
        effects += self._leave(self._topic_waits.settled(self._time.ms))
        committed = self._ledger.committed
        if committed.offset - self._records_at_snapshot >= self._settings.snapshot_interval_records:
            self._records_at_snapshot = committed.offset
            effects.append(SnapshotDue(committed.offset, committed.controller_epoch))
        return effects

    def on_time(self, now_ms: int) -> list[Effect]:
        """Carries out what is due."""
        observed = self._observe(now_ms)
        effects: list[Effect] = []
        quiet = []
        for session, why in self._sessions.expired(observed):
            if session.heard:
                self._brokers.fence(session.broker_id, why)
            elif self._brokers.fence(session.broker_id, None):
                quiet.append(str(session.broker_id))
        if quiet:
            text = f"not heard yet since this start: {', '.join(quiet)}; others lead meanwhile"
            effects.append(Report(f"brokers {text}"))
        if self._timers.guard_ends is not None and observed >= self._timers.guard_ends:
            self._timers.guard_ends = None
            self._elections.unclean_allowed = True
            self._elections.elect_offline()
        if self._timers.balance is not None and observed >= self._timers.balance:
            self._timers.balance = observed + self._settings.leader_imbalance_check_ms
            elected = self._elections.balance()
            if elected:
                effects.append(Report(f"{elected} partitions went back to their preferred leader"))
        effects += self._look_at_shutdowns(observed)
        effects += self._topic_waits.settled(observed)
        return self._leave(effects)

    # ---- brokers -------------------------------------------------------------------------------

    def claim_broker(self, now_ms: int, request: ClaimBroker, token: object) -> list[Effect]:
        """An incarnation asks which broker it shall be. Answered with a BrokerClaim."""
        observed = self._observe(now_ms)
        answer = self._claims.claim(self._ledger.decided, observed, request)
        return self._answer(token, answer)

    def register_broker(self, now_ms: int, request: RegisterBroker, token: object) -> list[Effect]:
        """A new incarnation; its predecessor is over. Answered with a BrokerRegistered."""
        answer = self._brokers.register(self._observe(now_ms), request)
        return self._leave([Reply(token, answer), *self._internal_topics.on_registered()])

    def session_opened(
        self, now_ms: int, broker_id: BrokerId, broker_epoch: BrokerEpoch, incarnation_id: str
    ) -> list[Effect]:
        """A session stream is there. Every opened one is reported broken once; several may overlap
        for a moment. Answered with a TellSession, or with a RejectSession.
        """
        observed = self._observe(now_ms)
        session = self._sessions.get(broker_id, broker_epoch)
        if (
            session is None
            or session.incarnation_id != incarnation_id
            or self._sessions.has_ended(incarnation_id)
        ):
            return self._leave([stale_session(broker_id, broker_epoch)])
        session.opened(observed)
        fenced = self._ledger.decided.brokers[broker_id].fenced
        return self._leave([self._brokers.greeting(session, fenced=fenced)])

    def session_progress(
        self,
        now_ms: int,
        broker_id: BrokerId,
        broker_epoch: BrokerEpoch,
        metadata_offset: Offset,
        want_unfence: bool,
    ) -> list[Effect]:
        """The broker has applied metadata up to `metadata_offset`; it may be unfenced for it."""
        observed = self._observe(now_ms)
        session = self._sessions.get(broker_id, broker_epoch)
        if session is None or session.streams == 0:
            return self._leave([])  # it was rejected, or has broken since
        session.seen(observed)
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        session.want_unfence = want_unfence
        self._brokers.maybe_unfence(session)
        return self._leave(self._topic_waits.settled(observed))

    def session_broken(
        self, now_ms: int, broker_id: BrokerId, broker_epoch: BrokerEpoch
    ) -> list[Effect]:
        """A stream broke; with the broker's last one its grace begins."""
        observed = self._observe(now_ms)
        session = self._sessions.get(broker_id, broker_epoch)
        if session is not None:
            session.broken(observed)
        return self._leave([])

    def heartbeat(
        self, now_ms: int, broker_id: BrokerId, broker_epoch: BrokerEpoch, token: object
    ) -> list[Effect]:
        """Renews the lease. Answered with a HeartbeatAccepted."""
        observed = self._observe(now_ms)
        session = self._sessions.get(broker_id, broker_epoch)
        if session is None:
            return self._answer(token, self._stale(broker_id, broker_epoch))
        session.seen(observed)
        self._brokers.maybe_unfence(session)
        fenced = self._ledger.decided.brokers[broker_id].fenced
        return self._answer(token, HeartbeatAccepted(self.controller_epoch, fenced))

    def task_ended(self, now_ms: int, incarnation_id: str) -> list[Effect]:
        """Spark reported the end of the task that ran this incarnation: it is dead at once, and
        stays dead should an orphan of it still speak.
        """
        self._observe(now_ms)
        self._sessions.end(incarnation_id)
        self._claims.release(incarnation_id)
        effects: list[Effect] = []
        for session in self._sessions:
            if session.incarnation_id == incarnation_id:
                self._brokers.fence(session.broker_id, "its task has ended")
                if session.streams > 0:
                    effects.append(stale_session(session.broker_id, session.broker_epoch))
                session.streams = 0
                session.broken_at = None
                session.lost = True
        effects += self._topic_waits.settled(self._time.ms)
        return self._leave(effects)

    def controlled_shutdown(
        self, now_ms: int, broker_id: BrokerId, broker_epoch: BrokerEpoch, token: object
    ) -> list[Effect]:
        """The broker wants to stop: others lead what it leads. Answered with a ShutdownPermitted
        when it leads nothing, after a wait for replicas that may still catch up.
        """
        observed = self._observe(now_ms)
        registration = self._ledger.decided.brokers.get(broker_id)
        if registration is None or registration.broker_epoch != broker_epoch:
            return self._answer(token, self._stale(broker_id, broker_epoch))
        if self._brokers.stopping_cluster:
            return self._answer(token, ShutdownPermitted(0))  # nobody is left to lead
        self._brokers.mark_stopping(registration)
        until = observed + self._settings.controlled_shutdown_wait_ms
        self._shutdowns.add(broker_id, broker_epoch, until, token)
        return self._leave(self._look_at_shutdowns(observed))

    def unregister_broker(self, now_ms: int, broker_id: BrokerId, token: object) -> list[Effect]:
        """Forgets a broker that is gone for good. Answered with a BrokerUnregistered."""
        self._observe(now_ms)
        return self._answer(token, self._brokers.unregister(broker_id))

    def stop_cluster(self, now_ms: int) -> list[Effect]:
        """The whole cluster stops in order: tells every session, and fences nobody any more, so
        that all in-sync replicas of today are so after the next start.
        """
        self._observe(now_ms)
        self._brokers.stop_cluster()
        return self._leave([])

    def cluster_stopped(self, now_ms: int) -> list[Effect]:
        """The last thing before the controller ends, when all have stopped or had the time to."""
        self._observe(now_ms)
        self._brokers.cluster_stopped()
        return self._leave([])

    # ---- partitions and producer ids -----------------------------------------------------------

    def alter_partition(self, now_ms: int, request: AlterPartition, token: object) -> list[Effect]:
        """ISR changes of a leader, each compared and set. Answered with a PartitionsAltered."""
        observed = self._observe(now_ms)
        answer = Reply(token, self._elections.alter_partition(request))
        return self._leave([answer, *self._look_at_shutdowns(observed)])

    def replicas_failed(self, now_ms: int, request: ReplicasFailed, token: object) -> list[Effect]:
        """Logs have failed on a broker: others lead, for the rest of its life. Answered with a
        FailuresNoted when that is durable.
        """
        observed = self._observe(now_ms)
        answer = Reply(token, self._brokers.replicas_failed(request))
        return self._leave([answer, *self._look_at_shutdowns(observed)])

    def allocate_producer_ids(
        self, now_ms: int, broker_id: BrokerId, broker_epoch: BrokerEpoch, token: object
    ) -> list[Effect]:
        """A block that no one gets twice. Answered with a ProducerIdBlock."""
        self._observe(now_ms)
        image = self._ledger.decided
        registration = image.brokers.get(broker_id)
        if registration is None or registration.broker_epoch != broker_epoch:
            return self._answer(token, self._stale(broker_id, broker_epoch))
        first, count = image.next_producer_id, self._settings.producer_id_block
        self._ledger.write(ProducerIdsRecord(broker_id, broker_epoch, ProducerId(first + count)))
        return self._answer(token, ProducerIdBlock(first, count))

    def ensure_internal_topic(
        self, now_ms: int, request: EnsureInternalTopic, token: object
    ) -> list[Effect]:
        """A coordinator's topic is there, or is made. Answered with an InternalTopicEnsured when
        that is durable; COORDINATOR_NOT_AVAILABLE: ask again.
        """
        self._observe(now_ms)
        broker = self._ledger.decided.brokers.get(request.broker_id)
        if broker is None or broker.broker_epoch != request.broker_epoch:
            return self._answer(token, self._stale(request.broker_id, request.broker_epoch))
        answer, reports = self._internal_topics.ensure(request.name)
        return self._leave([Reply(token, answer), *reports])

    def elect_leaders(self, now_ms: int, request: ElectLeaders, token: object) -> list[Effect]:
        """Preferred or unclean elections by command. Answered with a LeadersElected."""
        self._observe(now_ms)
        answer = self._elections.elect(request)
        effects: list[Effect] = [Reply(token, answer)]
        if request.unclean:
            effects += [
                Report(
                    f"unclean election by command: broker {elected.leader} leads "
                    f"{elected.topic}-{elected.partition}; acknowledged records may be lost",
                    warning=True,
                )
                for elected in answer.partitions
                if elected.failure is None
            ]
        return self._leave(effects)

    def alter_partition_reassignments(
        self, now_ms: int, request: AlterPartitionReassignments, token: object
    ) -> list[Effect]:
        """Partitions begin to move to other brokers, or move no more. Answered with a
        PartitionReassignmentsAltered when that is durable; the moves take their time.
        """
        observed = self._observe(now_ms)
        answer, reports = self._reassignments.alter(request)
        return self._leave([Reply(token, answer), *reports, *self._look_at_shutdowns(observed)])

    def list_partition_reassignments(
        self, question: ListPartitionReassignments
    ) -> tuple[OngoingReassignment, ...]:
        """The moves that go on, as committed. Changes nothing and waits for nothing."""
        return self._reassignments.ongoing(question)

    # ---- topics and configurations -------------------------------------------------------------

    def create_topics(self, now_ms: int, request: CreateTopics, token: object) -> list[Effect]:
        """Answered with a TopicsCreated when the live brokers know of the new partitions, at the
        latest after `request.timeout_ms`.
        """
        observed = self._observe(now_ms)
        answer = self._topics.create(request)
        if request.validate_only or all(topic.failure for topic in answer.topics):
            return self._answer(token, answer)
        self._wait_for_topics(observed, request, answer, token)
        return self._leave([])

    def _wait_for_topics(
        self, observed: int, request: CreateTopics, answer: TopicsCreated, token: object
    ) -> None:
        until = observed + max(0, request.timeout_ms)
        self._topic_waits.add(self._ledger.decided.offset, until, answer, token)

    def delete_topics(self, now_ms: int, request: DeleteTopics, token: object) -> list[Effect]:
        """Answered with a TopicsDeleted when it is durable."""
        self._observe(now_ms)
        return self._answer(token, self._topics.delete(request))

    def alter_configs(self, now_ms: int, request: AlterConfigs, token: object) -> list[Effect]:
        """Answered with a ConfigsAltered when the live brokers know of it, at the latest after
        `request.timeout_ms`.
        """
        observed = self._observe(now_ms)
        answer = self._configs.alter(request)
        if request.validate_only or all(altered.failure for altered in answer.resources):
            return self._answer(token, answer)
        until = observed + max(0, request.timeout_ms)
        self._topic_waits.add(self._ledger.decided.offset, until, answer, token)
        return self._leave(self._topic_waits.settled(observed))

    def create_partitions(
        self, now_ms: int, request: CreatePartitions, token: object
    ) -> list[Effect]:
        """Answered with a PartitionsCreated when the live brokers know of the new partitions, at
        the latest after `request.timeout_ms`.
        """
        observed = self._observe(now_ms)
        answer = self._growth.create(request)
        if request.validate_only or all(topic.failure for topic in answer.topics):
            return self._answer(token, answer)
        until = observed + max(0, request.timeout_ms)
        self._topic_waits.add(self._ledger.decided.offset, until, answer, token)
        return self._leave([])

    def update_features(self, now_ms: int, request: UpdateFeatures, token: object) -> list[Effect]:
        """Answered with a FeaturesUpdated when it is durable."""
        self._observe(now_ms)
        return self._answer(token, self._features.update(request))

    def describe_features(self) -> tuple[FeatureState, ...]:
        """Every feature's level, as committed. Changes nothing and waits for nothing."""
        return self._features.describe(self._ledger.committed)

    def describe_configs(self, question: ConfigsQuestion) -> DescribedConfig:
        """The settings of one resource, as committed. Changes nothing, waits for nothing."""
        return self._configs.describe(question)

    # ---- inside --------------------------------------------------------------------------------

    def _observe(self, now_ms: int) -> int:
        assert self._started, "start() comes first"
        if self._wall_ahead_ms is not None:
            self._brokers.wall_ms = now_ms + self._wall_ahead_ms
        return self._time.advance(now_ms)

    def _answer(self, token: object, response: object) -> list[Effect]:
        return self._leave([Reply(token, response)])

    def _leave(self, effects: list[Effect]) -> list[Effect]:
        """The effects of this call that may leave now."""
        said, self._brokers.out = self._brokers.out, []
        return self._ledger.seal(said + effects)

    def _look_at_shutdowns(self, observed: int) -> list[Effect]:
        return self._shutdowns.settled(observed, self._ledger.decided, self._elections.on_stopping)

    def _stale(self, broker: BrokerId, epoch: BrokerEpoch) -> Failure:
        return stale(self._ledger.decided.brokers.get(broker), broker, epoch)
