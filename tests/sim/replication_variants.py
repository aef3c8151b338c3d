"""Known bugs of replication, put in on purpose: of followers, leaders, ISR and high watermark.

The rows cited (B-..) are those of the reference of known bugs, each once in a real system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from pylog.config import LONG_MAX
from pylog.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
)
from pylog.records.batch import BatchHeader
from pylog_broker.controller import brokers
from pylog_broker.controller.election import Elections
from pylog_broker.metadata.messages import Failure, PartitionIsr
from pylog_broker.metadata.records import PartitionRecord
from pylog_broker.replication import isr, produces
from pylog_broker.replication.effects import HighWatermarkMoved
from pylog_broker.replication.fetch_messages import EpochEnd
from pylog_broker.replication.follower import FollowerState
from pylog_broker.replication.isr import (
    AdvanceHighWatermark,
    FollowerProgress,
    IsrEffect,
    LeaderState,
)
from pylog_broker.replication.leaderships import Leaderships
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.replica_fetch_messages import ReplicaFetch
from pylog_broker.replication.replica_fetches import ReplicaFetches
from pylog_broker.replication.sessions import FIRST, FetchSession, FetchSessions
from pylog_broker.storage.producers.producer_entry import AppendedBatch
from pylog_broker.storage.producers.producer_state import ProducerStates
from tests.sim.swarm import Swarm, late_lives
from tests.sim.variant import Variant
from tests.sim.variant_parts import many_topics

# ---- B-R1: a follower cuts at its own high watermark ---------------------------------------------


def _cut_at_high_watermark(
    _self: FollowerState, high_watermark: Offset, log_end_offset: Offset
) -> Offset:
    return min(high_watermark, log_end_offset)


# ---- B-R9: the end of a diverging follower counts ------------------------------------------------


def _any_end_counts(_self: ReplicaFetches, fault: Failure | EpochEnd | None) -> bool:
    return fault is None or isinstance(fault, EpochEnd)


# ---- B-R15: only the committed ISR counts for the high watermark ---------------------------------


def _only_the_isr(self: LeaderState, _now_ms: int) -> Iterable[FollowerProgress]:
    return [progress for broker, progress in self.followers.items() if broker in self.isr]


# ---- B-R17: no broker epoch in fetches -----------------------------------------------------------


def _any_life(_self: ReplicaFetches, _request: object) -> None:
    return None


_production_begin = FetchSessions.begin


def _any_session(self: FetchSessions, request: ReplicaFetch) -> FetchSession | Failure:
    session = self.by_follower.get(request.replica_id)
    if session is not None and request.session_epoch > FIRST:
        return session
    return _production_begin(self, request)


def _eligible_whatever_the_life(
    self: LeaderState, follower: BrokerId, _progress: FollowerProgress
) -> bool:
    return follower in self.eligible


def _newest_epoch(self: LeaderState, broker: BrokerId) -> BrokerEpoch:
    return self.eligible.get(broker, BrokerEpoch(-1))


# ---- B-R19: an ISR change is taken without comparing partition epochs ----------------------------

_production_refusal = Elections._refusal


def _any_partition_epoch(
    self: Elections, leader: BrokerId, partition: PartitionRecord, wish: PartitionIsr
) -> Failure | None:
    current = replace(wish, partition_epoch=partition.partition_epoch)
    return _production_refusal(self, leader, partition, current)


# ---- I10: "ok" before the high watermark ---------------------------------------------------------


def _committed_at_once(_partition: object, _required: Offset) -> bool:
    return True


# ---- I11: a duplicate is appended ----------------------------------------------------------------

_production_check = ProducerStates.check


def _no_duplicates_known(
    self: ProducerStates, header: BatchHeader, *, log_start_offset: int
) -> AppendedBatch | None:
    _production_check(self, header, log_start_offset=log_start_offset)
    return None


# ---- lives of brokers and of the whole cluster ---------------------------------------------------


def _never_outdated(_request: object, _known: object) -> None:
    return None


def _after_a_stop(self: Elections, may_lead: Callable[[PartitionRecord], Any]) -> None:
    for partition in list(self._ledger.decided.partitions()):
        self._ledger.write(
            replace(
                partition,
                isr=(),
                leader=NO_LEADER,
                leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
                partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
                eligible_leader_replicas=may_lead(partition),
                last_known_elr=(),
            )
        )


def _all_replicas_may_lead(self: Elections) -> None:
    _after_a_stop(self, lambda partition: partition.replicas)


def _nobody_may_lead(self: Elections) -> None:
    _after_a_stop(self, lambda partition: ())


def _with_lives(*faults: str) -> Callable[[Swarm], Swarm]:
    def leaning(swarm: Swarm) -> Swarm:
        return replace(
            swarm,
            brokers=3,
            replication_factor=3,
            min_insync=2,
            net=replace(swarm.net, tail_share=0.3, duplicate=0.5, drop=0.0),
            faults=faults,
            fault_interval_ms=400.0,
            away_ms=500,
        )

    return leaning


def _late_changes(swarm: Swarm) -> Swarm:
    """Followers go and come while they live, and what was asked for them comes once more, late."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        partitions=1,
        upkeep=None,
        net=replace(
            swarm.net, delay_mean_ms=3.0, tail_share=0.0, duplicate=0.9, drop=0.0, reset=0.0
        ),
        faults=("one_way",),
        fault_interval_ms=250.0,
        away_ms=1_200,
        session_timeout_ms=3_000,
        replica_lag_ms=300,
        produce_interval_ms=20.0,
        quiet_share=0.0,
        slow_node_ms=0.0,
    )


def _late_and_slow(swarm: Swarm) -> Swarm:
    """The last fetch before a quiet time comes when the next life has little of what it lost."""
    swarm = late_lives(swarm)
    net = replace(
        swarm.net, delay_mean_ms=80.0, tail_share=0.0, tail_ms=(400, 1_600), linger=1.0, drop=0.0
    )
    return replace(
        swarm,
        net=net,
        clients=replace(swarm.clients, batch_size=150, linger_ms=0, max_in_flight=5),
        fetch_max_bytes=150,
        segment_bytes=20_000,
        upkeep=None,
        log_dirs=1,
        flush_messages=LONG_MAX,
        slow_node_ms=0.0,
        faults=("power_in_fetch",),
        fault_interval_ms=150.0,
        quiet_share=0.3,
        task_ends=False,
    )


# ---- what was refused, and comes again ----------------------------------------------------------

_production_on_refused = LeaderState.on_proposal_refused


def _refused_is_over(self: LeaderState, now_ms: int, code: int) -> Sequence[IsrEffect]:
    if code in isr._REFUSALS_THAT_SETTLE:
        self.unresolved = frozenset()
    return _production_on_refused(self, now_ms, code)


def _refused_and_repeated(swarm: Swarm) -> Swarm:
    """Followers that are about to join are fenced, and what their leader asked for comes twice."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        upkeep=None,
        partitions=1,
        faults=("refusal_outlived",),
        fault_interval_ms=1_000.0,
        replica_lag_ms=300,
        fetch_max_bytes=50_000,
        weak_producers=1,
        produce_interval_ms=40.0,
        quiet_share=0.0,
        records_max=3,
    )


# ---- what coordinators are told -----------------------------------------------------------------

_production_role_changed = Leaderships.role_changed


def _only_where_it_is_led(self: Leaderships, partition: Partition) -> None:
    if partition.leading is not None:
        _production_role_changed(self, partition)


def _only_where_somebody_leads(self: Leaderships, partition: Partition) -> None:
    if partition.leading is not None or partition.following is not None:
        _production_role_changed(self, partition)


def _moves_told_last(
    self: ReplicaManager, partition: Partition, effects: tuple[IsrEffect, ...]
) -> None:
    for effect in effects:
        if isinstance(effect, AdvanceHighWatermark):
            name, epoch = partition.topic_partition, partition.leader_epoch
            partition.high_watermark = effect.offset
            self._room.high_watermark_moved(partition)
            told = HighWatermarkMoved(name, epoch, partition.topic_id, effect.offset)
            self._room.outbox.append(told)
        else:
            self._proposals.add(partition, effect)


REPLICATION_VARIANTS: dict[str, Variant] = {
    "cut_at_high_watermark": Variant(
        "B-R1: a new follower cuts its log at its own high watermark",
        ((FollowerState, "offset_to_cut_at_start", _cut_at_high_watermark),),
    ),
    "diverging_end_counts": Variant(
        "B-R9: the leader counts the end of a diverging follower",
        ((ReplicaFetches, "_accepts_follower_end", _any_end_counts),),
        caught_by=1,
    ),
    "current_isr_only": Variant(
        "B-R15: the high watermark waits for the committed ISR only, not for proposed members",
        ((LeaderState, "_counted_for_high_watermark", _only_the_isr),),
        caught_by=14,
    ),
    "no_broker_epoch": Variant(
        "B-R17: fetches of a broker's earlier life count for the present one",
        (
            (ReplicaFetches, "_replica_epoch_fault", _any_life),
            (FetchSessions, "begin", _any_session),
            (LeaderState, "_is_eligible", _eligible_whatever_the_life),
            (LeaderState, "_epoch_of", _newest_epoch),
        ),
        leaning=_late_and_slow,
        caught_by=19,
    ),
    "late_isr_change": Variant(
        "B-R19: the controller takes an ISR change whatever partition epoch it was made for",
        ((Elections, "_refusal", _any_partition_epoch),),
        leaning=_late_changes,
    ),
    "ok_too_early": Variant(
        "I10: acks=all is answered once the leader has the records",
        ((produces, "is_committed", _committed_at_once),),
    ),
    "duplicate_appended": Variant(
        "I11: a batch that is sent again is appended again",
        ((ProducerStates, "check", _no_duplicates_known),),
        caught_by=2,
    ),
    "late_registration": Variant(
        "B-R26: a late copy of an earlier incarnation's registration replaces the present one",
        ((brokers, "_outdated", _never_outdated),),
        leaning=_with_lives("kill", "power", "controller_kill", "controller_kill"),
        caught_by=9,
    ),
    "nobody_leads_after_a_stop": Variant(
        "After a stop of the whole cluster not even members of an ISR may lead",
        ((Elections, "on_cluster_stopped", _nobody_may_lead),),
        leaning=_with_lives("cluster_stop"),
        caught_by=3,
    ),
    "anybody_leads_after_a_stop": Variant(
        "After a stop of the whole cluster whoever has a replica may lead",
        ((Elections, "on_cluster_stopped", _all_replicas_may_lead),),
        leaning=_with_lives("cluster_stop", "one_way", "isolate"),
        caught_by=34,
    ),
    "refused_not_counted": Variant(
        "The members of a refused ISR change count no more while a copy of it is under way",
        ((LeaderState, "on_proposal_refused", _refused_is_over),),
        leaning=_refused_and_repeated,
        caught_by=2,
    ),
    "leadership_kept": Variant(
        "A coordinator is not told that its partition is led elsewhere",
        ((Leaderships, "role_changed", _only_where_it_is_led),),
    ),
    "leadership_of_a_deleted_topic": Variant(
        "A coordinator is not told that its topic was deleted, or that its log has failed",
        ((Leaderships, "role_changed", _only_where_somebody_leads),),
        leaning=many_topics,
    ),
    "move_told_after_the_end": Variant(
        "A coordinator is told of a commit after it was told that the log has failed",
        ((ReplicaManager, "_lead", _moves_told_last),),
        caught_by=911546,
    ),
}
