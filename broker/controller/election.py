"""Leaders and ISRs: what a broker's coming and going, a leader's wish or an operator changes.

`partitions.py` knows how one partition changes; this module knows which ones do, and who is live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from pylog import errors
from pylog.model import NO_LEADER, BrokerId, TopicId
from pylog_broker.controller.ledger import Ledger
from pylog_broker.controller.partitions import joined, next_state, without
from pylog_broker.controller.reassigning import completed, replaced
from pylog_broker.controller.returning import Loss, Returning, claim_of, evidence_of
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.admin import ElectedLeader, ElectLeaders, LeadersElected
from pylog_broker.metadata.messages import (
    AlteredPartition,
    AlterPartition,
    Failure,
    PartitionIsr,
    PartitionsAltered,
    RegisterBroker,
    ReplicaKey,
)
from pylog_broker.metadata.records import PartitionRecord

UNCLEAN: Final = "unclean.leader.election.enable"


class Returned(NamedTuple):
    """The outcome of a registration for replicas. `alone`: the only ones of their partitions, and
    may lack records. `offline`: in a log directory that is. `gone`: the directory is the broker's
    no more.
    """

    alone: int
    offline: int
    gone: int


class Elections:
    """Writes partition records to the ledger. Owns no state but the start-up rule below."""

    def __init__(self, ledger: Ledger, settings: ControllerSettings) -> None:
        self._ledger = ledger
        self._settings = settings
        # Off until brokers had one session time-out to come back after a start: a replica that
        # holds everything may only be slower than one that does not.
        self.unclean_allowed = False

    # ---- settings of a topic -------------------------------------------------------------------

    def min_isr(self, topic_id: TopicId) -> int:
        """`min.insync.replicas` of the topic: its own, the cluster's, or the default."""
        image = self._ledger.decided
        own = image.topic_configs(image.topics_by_id[topic_id].name)
        return self._settings.min_isr(own, image.cluster_configs())

    def _unclean(self, topic_id: TopicId) -> bool:
        if not self.unclean_allowed:
            return False
        image = self._ledger.decided
        own = image.topic_configs(image.topics_by_id[topic_id].name)
        config = self._settings.with_setting(UNCLEAN, own, image.cluster_configs())
        return config.unclean_leader_election_enable

    # ---- brokers come and go -------------------------------------------------------------------

    def on_fenced(self, broker: BrokerId) -> None:
        """The broker is fenced or gone: it leaves every ISR, and others lead."""
        for partition in self._ledger.decided.partitions_of(broker):
            if broker in partition.isr:
                self._change(partition, isr=without(partition.isr, broker))

    def on_cluster_stopped(self) -> None:
        """All brokers are fenced: every member of an ISR is eligible, for each holds all that was
        committed. A leader that runs on knows of nothing else, and so commits nothing that one of
        them lacks: its wish for a smaller ISR comes too late.
        """
        for partition in list(self._ledger.decided.partitions()):
            if partition.isr:
                self._change(partition, isr=())

    def on_registered(self, request: RegisterBroker, returning: Returning) -> Returned:
        """A new incarnation, still fenced.

        `returning.py` has the tables for a replica's place and for its claim to lead. A replica
        that may lack records leaves ISR and ELR, also when it is the last one there: the partition
        is then offline, but loses nothing silently; unless there is nothing to lose
        (`never_committed`).

        Replicas that failed in the last life get their chance now; those that are named as failed,
        or are in a log directory that is offline, do not work in this one either.
        """
        alone = offline = gone = 0
        broker = request.broker_id
        all_failed, all_lost = set(request.failed_replicas), set(request.lost_replicas)
        for partition in self._ledger.decided.partitions_of(broker):
            key = (partition.topic_id, partition.partition)
            found = returning.where(key, partition.directory_of(broker))
            others = {*partition.isr, *partition.eligible_leader_replicas} - {broker}
            evidence = evidence_of(
                found,
                lacks=key in all_lost,
                was_made=bool(others) or broker in partition.failed_replicas,
                only=_is_only_one(partition, broker),
            )
            claim = claim_of(evidence)
            alone += claim.alone
            offline += found.offline
            gone += found.loss is Loss.ALL
            failed = without(partition.failed_replicas, broker)
            place = found.directory_id or self._ledger.decided.directory_for(broker)
            self._change(
                partition,
                isr=without(partition.isr, broker),
                lost=(broker,) if claim.lost else (),
                emptied=(broker,) if claim.emptied else (),
                failed=(*failed, broker) if found.offline or key in all_failed else failed,
                directories=_with_directory(partition, broker, place),
            )
        return Returned(alone, offline, gone)

    def on_replicas_failed(
        self, broker: BrokerId, replicas: Iterable[ReplicaKey]
    ) -> list[PartitionRecord]:
        """Logs failed on a broker that is otherwise well: the partitions as they are now, without
        those that were known to have failed there.
        """
        changed = []
        for topic_id, number in replicas:
            partition = self._ledger.decided.partition(topic_id, number)
            if (
                partition is None  # deleted meanwhile
                or broker not in partition.replicas
                or broker in partition.failed_replicas
            ):
                continue
            failed = (*partition.failed_replicas, broker)
            isr = without(partition.isr, broker)
            changed.append(self._change(partition, isr=isr, failed=failed) or partition)
        return changed

    def on_unfenced(self, broker: BrokerId) -> None:
        """The broker may lead again: partitions without a leader look at it."""
        for partition in self._ledger.decided.partitions_of(broker):
            if partition.leader == NO_LEADER:
                self._change(partition, isr=partition.isr)

    def on_unregistered(self, broker: BrokerId) -> None:
        """The broker will not come back; its data count as lost."""
        for partition in self._ledger.decided.partitions_of(broker):
            gone = (broker,)
            self._change(partition, isr=without(partition.isr, broker), lost=gone, emptied=gone)

    def on_stopping(self, broker: BrokerId, *, wait: bool) -> int:
        """The broker (already marked as stopping) hands over what it leads.

        With `wait` it keeps leading partitions for which a live replica may still catch up; how
        many these are is the answer.
        """
        live = self._ledger.decided.is_live
        remaining = 0
        for partition in self._ledger.decided.partitions_of(broker):
            if broker not in partition.isr:
                continue
            others = without(partition.isr, broker)
            may_follow = wait and any(live(replica) for replica in partition.replicas)
            if partition.leader == broker and not any(map(live, others)) and may_follow:
                remaining += 1
            else:
                self._change(partition, isr=others)
        return remaining

    # ---- changes that do not come from a broker's life ------------------------------------------

    def on_min_isr_changed(self, topic_id: TopicId) -> None:
        """Bumps every partition of a topic whose `min.insync.replicas` changed.

        The eligible replicas depend on it. And a leader must not shrink its ISR under the new
        value while it still advances its high watermark under the old one: with a higher partition
        epoch its request is refused until it has replayed this record, and the setting before it.
        """
        for partition in list(self._ledger.decided.topics_by_id[topic_id].partitions.values()):
            self._change(partition, isr=partition.isr, touch=True)

    def elect_offline(self) -> None:
        """Looks again at every partition without a leader (unclean elections became allowed)."""
        for partition in list(self._ledger.decided.partitions()):
            if partition.leader == NO_LEADER:
                self._change(partition, isr=partition.isr)

    def balance(self) -> int:
        """Gives preferred leaders back to brokers that lack too many of theirs; how many.

        A broker's imbalance is the part of the partitions it should lead that others lead.
        """
        image = self._ledger.decided
        preferred: dict[BrokerId, list[PartitionRecord]] = {}
        for partition in image.partitions():
            preferred.setdefault(partition.replicas[0], []).append(partition)
        elected = 0
        for broker in sorted(preferred):
            partitions = preferred[broker]
            away = [partition for partition in partitions if partition.leader != broker]
            limit = self._settings.leader_imbalance_percentage * len(partitions)
            if image.is_live(broker) and len(away) * 100 > limit:
                elected += sum(self._prefer(partition) for partition in away)
        return elected

    def _prefer(self, partition: PartitionRecord) -> bool:
        first = partition.replicas[0]
        if first not in partition.isr or not self._ledger.decided.is_live(first):
            return False
        return self._change(partition, isr=partition.isr, preferred=True) is not None

    def elect(self, request: ElectLeaders) -> LeadersElected:
        """Elections by command."""
        if request.partitions is None and request.unclean:
            return LeadersElected(
                (),
                Failure(
                    errors.InvalidRequest.code,
                    "an unclean election may lose acknowledged records: name the partitions",
                ),
            )
        if request.partitions is None:
            image = self._ledger.decided
            away = [p for p in image.partitions() if p.leader != p.replicas[0]]
            return LeadersElected(
                tuple(
                    self._elect(image.topics_by_id[p.topic_id].name, p.partition, unclean=False)
                    for p in away
                )
            )
        return LeadersElected(
            tuple(
                self._elect(topic, partition, unclean=request.unclean)
                for topic, partition in request.partitions
            )
        )

    def _elect(self, name: str, number: int, *, unclean: bool) -> ElectedLeader:
        topic = self._ledger.decided.topics_by_name.get(name)
        partition = None if topic is None else topic.partitions.get(number)

        def refused(error: type[errors.PylogError], why: str) -> ElectedLeader:
            return ElectedLeader(name, number, Failure(error.code, f"{name}-{number}: {why}"))

        def not_needed(leader: BrokerId, why: str) -> ElectedLeader:
            return replace(refused(errors.ElectionNotNeeded, why), leader=leader)

        if partition is None:
            return refused(errors.UnknownTopicOrPartition, "there is no such partition")
        if unclean:
            if partition.leader != NO_LEADER:
                return not_needed(partition.leader, f"broker {partition.leader} leads it")
            changed = self._change(partition, isr=partition.isr, unclean=True)
            if changed is None or changed.leader == NO_LEADER:
                return refused(errors.EligibleLeadersNotAvailable, "none of its replicas is live")
            return ElectedLeader(name, number, leader=changed.leader)
        first = partition.replicas[0]
        if partition.leader == first:
            return not_needed(first, "its preferred leader leads it")
        if not self._prefer(partition):
            return refused(
                errors.PreferredLeaderNotAvailable, f"broker {first} is not live and in sync"
            )
        return ElectedLeader(name, number, leader=first)

    # ---- a leader's wish ------------------------------------------------------------------------

    def alter_partition(self, request: AlterPartition) -> PartitionsAltered:
        """Sets the ISRs that a leader asks for, each compared with what is current (KIP-497)."""
        broker = self._ledger.decided.brokers.get(request.broker_id)
        if broker is None or broker.broker_epoch != request.broker_epoch:
            return PartitionsAltered(
                Failure(
                    errors.StaleBrokerEpoch.code,
                    f"broker {request.broker_id} has the epoch "
                    f"{broker.broker_epoch if broker else 'of no registration'}, "
                    f"the request {request.broker_epoch}",
                )
            )
        return PartitionsAltered(
            partitions=tuple(self._alter(request.broker_id, wish) for wish in request.partitions)
        )

    def _alter(self, leader: BrokerId, wish: PartitionIsr) -> AlteredPartition:
        partition = self._ledger.decided.partition(wish.topic_id, wish.partition)
        if partition is None:
            known = wish.topic_id in self._ledger.decided.topics_by_id
            error = errors.UnknownTopicOrPartition if known else errors.UnknownTopicId
            what = f"there is no partition {wish.partition} of a topic with the id {wish.topic_id}"
            failure: Failure | None = Failure(error.code, what)
        else:
            failure = self._refusal(leader, partition, wish)
        if failure is not None or partition is None:
            return AlteredPartition(wish.topic_id, wish.partition, failure)
        proposed = tuple(state.broker_id for state in wish.isr)
        if _same_members(proposed, partition.isr):
            # A leader asks for the ISR that it has after a refusal, as a barrier: from the next
            # partition epoch on, a late copy of what was refused cannot be accepted any more. A
            # repeat of what was applied already carries an older epoch, and changes nothing.
            if wish.partition_epoch == partition.partition_epoch:
                partition = self._change(partition, isr=partition.isr, touch=True) or partition
        else:
            isr = joined(partition, proposed)
            if not self._ledger.decided.is_live(leader):
                # A stopping leader was waiting for just this replica. It leaves in the same
                # record: an ISR that counts both could end a reassignment, or the claims of
                # eligible replicas, and be too small for that a moment later.
                isr = without(isr, leader)
            partition = self._change(partition, isr=isr) or partition
            if partition.leader != leader:
                why = f"broker {leader} gave the lead away, broker {partition.leader} has it now"
                failure = Failure(errors.NewLeaderElected.code, why)
        return AlteredPartition(
            partition.topic_id,
            partition.partition,
            failure,
            partition.leader,
            partition.leader_epoch,
            partition.isr,
            partition.partition_epoch,
        )

    def _refusal(
        self, leader: BrokerId, partition: PartitionRecord, wish: PartitionIsr
    ) -> Failure | None:
        proposed = tuple(state.broker_id for state in wish.isr)
        if wish.leader_epoch < partition.leader_epoch:
            return Failure(
                errors.FencedLeaderEpoch.code,
                f"the leader epoch is {partition.leader_epoch}, the request's {wish.leader_epoch}",
            )
        if (
            wish.leader_epoch > partition.leader_epoch
            or wish.partition_epoch > partition.partition_epoch
        ):
            return Failure(
                errors.NotController.code, "the request knows more than this controller: ask again"
            )
        if leader != partition.leader:
            return Failure(errors.InvalidRequest.code, f"broker {partition.leader} is the leader")
        if wish.partition_epoch < partition.partition_epoch:
            # Also a repeat of what was applied, whose answer got lost. The epoch of now would free
            # the leader to ask anew before it has replayed what else came with that epoch.
            return Failure(
                errors.InvalidUpdateVersion.code,
                f"the partition epoch is {partition.partition_epoch}, "
                f"the request's {wish.partition_epoch}",
            )
        # A leader that cannot go on (its disk is full) may leave to brokers in sync with it.
        resigns = set(proposed) < set(partition.isr) and any(
            map(self._ledger.decided.is_live, proposed)
        )
        if (
            (leader not in proposed and not resigns)
            or len(set(proposed)) != len(proposed)
            or not set(proposed) <= set(partition.replicas)
        ):
            return Failure(
                errors.InvalidRequest.code,
                f"the ISR {list(proposed)} must hold the leader {leader} (or live members of the "
                f"present one, if it resigns) and replicas of {list(partition.replicas)}, each "
                "once",
            )
        return self._ineligible(leader, partition, wish)

    def _ineligible(
        self, leader: BrokerId, partition: PartitionRecord, wish: PartitionIsr
    ) -> Failure | None:
        image = self._ledger.decided
        for state in wish.isr:
            broker = image.brokers.get(state.broker_id)
            # -1: the leader has not heard from this member yet, which stays on our own word.
            unheard = state.broker_epoch == -1 and state.broker_id != leader
            stays = unheard and state.broker_id in partition.isr
            if broker is None or (broker.broker_epoch != state.broker_epoch and not stays):
                why = "has registered anew since (its broker epoch differs)"
            elif state.broker_id in partition.failed_replicas:
                why = "has a failed log there until it starts again"
            elif image.is_live(state.broker_id) or state.broker_id == leader:
                continue
            else:
                why = "is fenced" if broker.fenced else "is stopping"
            return Failure(
                errors.IneligibleReplica.code,
                f"broker {state.broker_id} {why} and may not join the ISR",
            )
        return None

    # ---- one partition ---------------------------------------------------------------------------

    def _change(
        self,
        partition: PartitionRecord,
        *,
        isr: tuple[BrokerId, ...],
        lost: tuple[BrokerId, ...] = (),
        emptied: tuple[BrokerId, ...] = (),
        unclean: bool = False,
        preferred: bool = False,
        directories: tuple[str, ...] | None = None,
        failed: tuple[BrokerId, ...] | None = None,
        touch: bool = False,
    ) -> PartitionRecord | None:
        live: Callable[[BrokerId], bool] = self._ledger.decided.is_live
        changed = next_state(
            partition,
            isr=isr,
            min_isr=self.min_isr(partition.topic_id),
            live=live,
            lost=lost,
            emptied=emptied,
            unclean=unclean or self._unclean(partition.topic_id),
            preferred=preferred,
            directories=directories,
            failed=failed,
            touch=touch,
        )
        if changed is not None:
            self._ledger.write(changed, in_sync=isr)
        return self._complete(changed or partition) or changed

    def _complete(self, partition: PartitionRecord) -> PartitionRecord | None:
        """The partition behind the end of its reassignment; None when it has none to end now."""
        if not partition.is_reassigning:
            return None
        live = self._ledger.decided.is_live
        ended = completed(partition, min_isr=self.min_isr(partition.topic_id), live=live)
        if ended is not None:
            self._ledger.write(ended)
        return ended

    # ---- reassignments ---------------------------------------------------------------------------

    def with_replicas(self, partition: PartitionRecord, wanted: PartitionRecord) -> None:
        """Writes what a reassignment begins with; it may be its end, too. `wanted` has other
        replicas than `partition`. Refused when nobody would be left that holds what is committed.
        """
        changed = replaced(
            partition,
            wanted,
            min_isr=self.min_isr(partition.topic_id),
            live=self._ledger.decided.is_live,
            unclean=self._unclean(partition.topic_id),
        )
        if changed is not None:
            self._ledger.write(changed)
            self._complete(changed)


def _is_only_one(partition: PartitionRecord, broker: BrokerId) -> bool:
    """Whether no other replica could hold more: those that are still being copied from it do not
    count.
    """
    copies = set(partition.adding_replicas) - {broker, *partition.isr}
    return set(partition.replicas) - copies == {broker}


def _same_members(one: tuple[BrokerId, ...], other: tuple[BrokerId, ...]) -> bool:
    return len(one) == len(other) and set(one) == set(other)


def _with_directory(
    partition: PartitionRecord, broker: BrokerId, directory_id: str
) -> tuple[str, ...]:
    known = partition.directories or ("",) * len(partition.replicas)
    return tuple(
        directory_id if replica == broker else directory
        for replica, directory in zip(partition.replicas, known, strict=True)
    )
