"""The leader's view of one partition: who is in sync, and how far the log is committed.

Pure: no clock, file, lock or thread. `broker/replication/partition.py` calls it and carries out
the effects that come back. Reading, appending and waiting requests are not its business.

An ISR changes in these steps (KIP-497, KIP-841, KIP-903, KIP-966): the leader proposes, the
controller compares the partition epoch and sets, and only its word (an answer or metadata) changes
`isr` here. Until the outcome is known the proposed members count as well: the controller may accept
one and make it leader before we hear back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pylog.errors import (
    ERRORS_BY_CODE,
    IneligibleReplica,
    OperationNotAttempted,
    StaleMetadataError,
)
from pylog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from pylog_broker.metadata.messages import BrokerState

NEVER_MS: Final = -(1 << 62)
"""Before every time: a replica that has not caught up since this leader began."""

UNKNOWN_END: Final = Offset(-1)


class AdvanceHighWatermark(NamedTuple):
    """Every counted replica holds all records below `offset`: wake waiting produces and fetches."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Ask the controller for this ISR. Nothing changes here until it answers."""

    isr: tuple[BrokerState, ...]
    partition_epoch: PartitionEpoch


IsrEffect = AdvanceHighWatermark | ProposeIsr

_NOTHING: Final[tuple[IsrEffect, ...]] = ()


@dataclass(slots=True)
class FetchClock:
    """The time of a follower's last fetch; one for all the partitions that its fetches cover.

    A fetch of a session leaves out partitions of which nothing changed, and counts for these, too.
    """

    last_ms: int = NEVER_MS


@dataclass(slots=True)
class FollowerProgress:
    """The leader's knowledge of one follower in this leader epoch."""

    end_offset: Offset = UNKNOWN_END
    log_start_offset: Offset = UNKNOWN_END
    # the incarnation whose fetches told the above; a later one may have lost its disk (KIP-903)
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)
    # when it last held everything that the leader held at that time
    caught_up_ms: int = NEVER_MS
    last_fetch_ms: int = NEVER_MS
    leader_end_at_last_fetch: Offset = Offset(0)
    # of the fetches that cover this partition, named or not; None when each names it
    clock: FetchClock | None = None


@dataclass(slots=True, kw_only=True)
class LeaderState:
    """One broker's leadership of one partition in one leader epoch.

    Invariants: `me in isr`; `high_watermark <= log_end_offset`; the high watermark never moves
    back; at most one proposal is in flight; `isr` changes only together with `partition_epoch`,
    which only grows.
    """

    me: BrokerId
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]  # as the controller last committed it, in order of joining
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    epoch_start_offset: Offset  # where this leader epoch begins in the log
    log_end_offset: Offset
    high_watermark: Offset
    min_isr: int  # min.insync.replicas of the topic
    lag_time_max_ms: int
    backoff_ms: int = 50
    # brokers that may join an ISR (registered, not fenced, not stopping), with their current
    # epochs; one mapping for all partitions, kept up to date by the replica manager
    eligible: Mapping[BrokerId, BrokerEpoch]
    now_ms: int
    # replicas whose logs do not work in their brokers' present lives, as the controller knows
    failed: tuple[BrokerId, ...] = ()
    # replicas that a reassignment adds; `min.insync.replicas` is not compared with these
    adding: tuple[BrokerId, ...] = ()
    followers: dict[BrokerId, FollowerProgress] = field(init=False)
    proposal: ProposeIsr | None = field(default=None, init=False)
    # Members proposed at this partition epoch beyond `isr`. They count for the high watermark
    # until the partition epoch moves, also after a refusal: a delayed copy of the request could
    # still be accepted when the member has become eligible again.
    unresolved: frozenset[BrokerId] = field(default=frozenset(), init=False)
    propose_not_before_ms: int = field(default=NEVER_MS, init=False)
    # the controller knows more than we do: propose nothing until metadata arrives
    awaits_metadata: bool = field(default=False, init=False)
    # batches of the leader's own log have rotted: a replica that has them whole is to lead
    damaged: bool = field(default=False, init=False)
    # The leader's own disk has to sync what is from here on before it counts (`flush.messages`).
    unsynced_from: Offset | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        assert self.me in self.isr, f"leader {self.me} is not in the ISR {self.isr}"
        assert self.high_watermark <= self.log_end_offset
        self.followers = {}
        self._track_followers(self.now_ms)

    def _track_followers(self, now_ms: int) -> None:
        known = self.followers
        self.followers = {
            broker: known.get(broker)
            # A member of the ISR gets the whole lag time to show up. Its end stays unknown: what
            # an earlier leader knew of it may have been cut since.
            or FollowerProgress(caught_up_ms=now_ms if broker in self.isr else NEVER_MS)
            for broker in dict.fromkeys((*self.replicas, *self.isr))
            if broker != self.me
        }

    # ---- what happens ---------------------------------------------------------------------------

    def on_elected(self, now_ms: int) -> Sequence[IsrEffect]:
        """The leadership begins. A leader alone in an ISR of the needed size commits its log."""
        return self._advance(now_ms)

    def on_append(self, now_ms: int, log_end_offset: Offset) -> Sequence[IsrEffect]:
        """The leader's own log ends at `log_end_offset` now."""
        end = self.log_end_offset
        assert log_end_offset >= end
        for progress in self.followers.values():
            # Up to now it had all there was, so its last fetch, of whatever, was one at the end.
            if progress.end_offset == end and progress.clock is not None:
                progress.last_fetch_ms = max(progress.last_fetch_ms, progress.clock.last_ms)
                progress.caught_up_ms = max(progress.caught_up_ms, progress.last_fetch_ms)
        self.log_end_offset = log_end_offset
        return self._advance(now_ms)

    def await_sync(self, offset: Offset) -> None:
        """Batches from `offset` on are not committed before `on_synced`."""
        if self.unsynced_from is None:
            self.unsynced_from = offset

    def on_synced(self, now_ms: int, unsynced_from: Offset | None) -> Sequence[IsrEffect]:
        """A sync of the own disk is over; what begins at `unsynced_from` is due another one."""
        if self.unsynced_from is not None:
            self.unsynced_from = unsynced_from
        return self._advance(now_ms)

    def on_follower_fetch(
        self,
        now_ms: int,
        follower: BrokerId,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        log_start_offset: Offset,
        clock: FetchClock | None = None,
    ) -> Sequence[IsrEffect]:
        """A fetch at `fetch_offset` proves that the follower holds everything below it.

        Call it only for a fetch that does not diverge, from a current incarnation. With a `clock`
        later fetches need not name the partition while the follower's end stays.
        """
        progress = self.followers[follower]
        assert fetch_offset <= self.log_end_offset
        # In sync by time, not by distance (KIP-16): it is caught up as of this fetch when it has
        # all there is, and as of its last fetch when it has all that there was then.
        if fetch_offset >= self.log_end_offset:
            progress.caught_up_ms = max(progress.caught_up_ms, now_ms)
        elif fetch_offset >= progress.leader_end_at_last_fetch:
            progress.caught_up_ms = max(progress.caught_up_ms, progress.last_fetch_ms)
        progress.leader_end_at_last_fetch = self.log_end_offset
        progress.last_fetch_ms = now_ms
        progress.end_offset = fetch_offset
        progress.log_start_offset = log_start_offset
        progress.broker_epoch = broker_epoch
        progress.clock = clock
        if follower not in self.isr and self._may_join(follower, progress):
            joined = self._propose(now_ms, (*self.isr, follower))
            return (*joined, *self._advance(now_ms)) if joined else self._advance(now_ms)
        return self._advance(now_ms)

    def on_lag_check(self, now_ms: int) -> Sequence[IsrEffect]:
        """Call every half of the lag time: members that fell behind are proposed to leave."""
        self.awaits_metadata = False  # it should have come by now; asking again does no harm
        behind = [
            broker
            for broker in self.isr
            if broker != self.me and not self._is_caught_up(self.followers[broker], now_ms)
        ]
        effects: Sequence[IsrEffect] = _NOTHING
        if behind:
            effects = self._propose(now_ms, [b for b in self.isr if b not in behind])
        elif self.damaged:
            effects = self.on_damage(now_ms)
        return (*effects, *self._advance(now_ms))

    def on_no_room(self, now_ms: int) -> Sequence[IsrEffect]:
        """The disk under this leader's log is full: propose to leave the ISR, and with it the
        leadership, if those who stay are enough for acks=all.
        """
        others = [broker for broker in self.isr if broker != self.me and broker in self.eligible]
        if len(others) < max(1, self.effective_min_isr):
            return _NOTHING
        return self._propose(now_ms, others)

    def on_damage(self, now_ms: int) -> Sequence[IsrEffect]:
        """Batches of the own log have rotted: propose to leave the ISR, and with it the leadership,
        as soon as others are in it. Alone, the leader goes on.
        """
        self.damaged = True
        if not self.others_in_sync:
            return _NOTHING
        return self._propose(now_ms, [broker for broker in self.isr if broker != self.me])

    def on_isr_committed(
        self,
        now_ms: int,
        isr: tuple[BrokerId, ...],
        partition_epoch: PartitionEpoch,
        replicas: tuple[BrokerId, ...] | None = None,
        failed: tuple[BrokerId, ...] | None = None,
        adding: tuple[BrokerId, ...] | None = None,
    ) -> Sequence[IsrEffect]:
        """The controller committed this ISR in our leader epoch. Older news changes nothing."""
        if partition_epoch <= self.partition_epoch:
            return _NOTHING
        assert self.me in isr, f"leader {self.me} is not in the ISR {isr}"
        self.partition_epoch = partition_epoch
        self.isr = isr
        if replicas is not None:
            self.replicas = replicas
        if failed is not None:
            self.failed = failed
        if adding is not None:
            self.adding = adding
        self._track_followers(now_ms)
        self.proposal = None
        self.unresolved = frozenset()
        self.awaits_metadata = False
        # A smaller ISR may commit what nobody's fetch will come to commit (KAFKA-13091).
        effects = self._advance(now_ms)
        return (*effects, *self.on_damage(now_ms)) if self.damaged else effects

    def on_proposal_accepted(
        self, now_ms: int, isr: tuple[BrokerId, ...], partition_epoch: PartitionEpoch
    ) -> Sequence[IsrEffect]:
        """The controller's answer to the proposal in flight: the partition as it is now."""
        if partition_epoch == self.partition_epoch and isr == self.isr:
            self.proposal = None  # the ISR was this one already, so nothing was committed
            self.unresolved = frozenset()
            return self._advance(now_ms)
        return self.on_isr_committed(now_ms, isr, partition_epoch)

    def on_proposal_refused(self, now_ms: int, code: int) -> Sequence[IsrEffect]:
        """The controller refused the proposal in flight and will not take it later either.

        An error for which `is_retriable_refusal` holds does not come here: ask again.
        """
        refused = self.proposal
        assert refused is not None
        self.proposal = None
        if code not in _REFUSALS_THAT_SETTLE:
            # The partition changed and we do not know how yet. All that was proposed keeps
            # counting, because an earlier copy of the proposal may be what changed it.
            self.awaits_metadata = True
            return _NOTHING
        self.propose_not_before_ms = now_ms + self.backoff_ms
        if not self.unresolved:
            return _NOTHING
        # Ask for the ISR as it is: once that has moved the partition epoch, no copy of the refused
        # proposal can be accepted, and its members stop holding the high watermark back.
        barrier = tuple(state.broker_id for state in refused.isr) == self.isr
        return _NOTHING if barrier else self._propose_now(self.isr)

    def on_min_isr_changed(self, min_isr: int) -> None:
        """The topic's `min.insync.replicas` changed. Nothing is counted by it yet: the same change
        of metadata may have changed the ISR, and the leader.
        """
        self.min_isr = min_isr

    def count_anew(self, now_ms: int) -> Sequence[IsrEffect]:
        """All that came with a change of `eligible` or of `min.insync.replicas` is known now. A
        stopping replica outside the ISR, for one, need not be waited for.
        """
        return self._advance(now_ms)

    # ---- questions ------------------------------------------------------------------------------

    @property
    def others_in_sync(self) -> bool:
        """Whether another member of the ISR could lead."""
        return any(broker != self.me and broker in self.eligible for broker in self.isr)

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, but never more than there are replicas that count."""
        return min(self.min_isr, len(self.replicas) - len(self.adding))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the committed ISR is too small for acks=all, and the high watermark frozen."""
        return len(self.isr) < self.effective_min_isr

    def has_enough_to_join(self, follower: BrokerId) -> bool:
        """Whether the follower's last fetch proves all that a member of the ISR must hold. Only a
        fetch from further on can make it true.
        """
        progress = self.followers.get(follower)
        return progress is not None and self._has_enough(progress)

    def may_join_now(self, follower: BrokerId) -> bool:
        """Whether one more fetch from where it is may bring the follower into the ISR."""
        progress = self.followers.get(follower)
        undecided = self.proposal is not None or self.awaits_metadata
        return progress is not None and not undecided and self._may_join(follower, progress)

    @property
    def maximal_isr_size(self) -> int:
        """Members of the ISR, counting those whose proposal is not decided yet."""
        return len(self.unresolved.union(self.isr))

    # ---- decisions ------------------------------------------------------------------------------

    def _is_caught_up(self, progress: FollowerProgress, now_ms: int) -> bool:
        return (
            progress.end_offset == self.log_end_offset
            or now_ms - progress.caught_up_ms <= self.lag_time_max_ms
        )

    def _is_eligible(self, follower: BrokerId, progress: FollowerProgress) -> bool:
        # A failed log fetches no more: to wait for it would hold up everybody for the lag time. And
        # the epoch must be the one whose fetches we counted (KIP-903).
        return follower not in self.failed and self.eligible.get(follower) == progress.broker_epoch

    def _has_enough(self, progress: FollowerProgress) -> bool:
        # The high watermark of a new leader may lag behind what was committed, but everything
        # below the start of its epoch was there when it was elected.
        return progress.end_offset >= max(self.high_watermark, self.epoch_start_offset)

    def _may_join(self, follower: BrokerId, progress: FollowerProgress) -> bool:
        return self._has_enough(progress) and self._is_eligible(follower, progress)

    def _propose(self, now_ms: int, isr: Iterable[BrokerId]) -> Sequence[IsrEffect]:
        if self.proposal is not None or self.awaits_metadata:
            return _NOTHING
        if now_ms < self.propose_not_before_ms:
            return _NOTHING
        return self._propose_now(b for b in isr if b == self.me or b in self.eligible)

    def _propose_now(self, isr: Iterable[BrokerId]) -> Sequence[IsrEffect]:
        self.proposal = ProposeIsr(
            tuple(BrokerState(broker, self._epoch_of(broker)) for broker in isr),
            self.partition_epoch,
        )
        members = (state.broker_id for state in self.proposal.isr)
        self.unresolved = self.unresolved.union(b for b in members if b not in self.isr)
        return (self.proposal,)

    def _epoch_of(self, broker: BrokerId) -> BrokerEpoch:
        # -1, not checked: a member that has not fetched from us stays on the controller's word.
        if broker == self.me:
            return self.eligible.get(broker, BrokerEpoch(-1))
        return self.followers[broker].broker_epoch

    def _counted_for_high_watermark(self, now_ms: int) -> Iterable[FollowerProgress]:
        """The followers that must hold a record before it is committed."""
        isr, unresolved = self.isr, self.unresolved
        counted = []
        for broker, progress in self.followers.items():
            if (
                broker in isr
                or broker in unresolved
                # About to join: without waiting for it, a leader alone would commit faster than
                # any follower can reach the high watermark, and it would never join.
                or (
                    progress.end_offset >= 0
                    and self._is_caught_up(progress, now_ms)
                    and self._is_eligible(broker, progress)
                )
            ):
                counted.append(progress)
        return counted

    def _advance(self, now_ms: int) -> Sequence[IsrEffect]:
        committed = self.log_end_offset
        if self.unsynced_from is not None:
            committed = min(committed, self.unsynced_from)
        if committed <= self.high_watermark or len(self.isr) < min(
            self.min_isr, len(self.replicas) - len(self.adding)
        ):
            return _NOTHING
        for progress in self._counted_for_high_watermark(now_ms):
            if progress.end_offset < committed:
                committed = progress.end_offset
        if committed <= self.high_watermark:
            return _NOTHING
        self.high_watermark = committed
        return (AdvanceHighWatermark(committed),)


_REFUSALS_THAT_SETTLE: Final = frozenset({IneligibleReplica.code, OperationNotAttempted.code})


def is_retriable_refusal(code: int) -> bool:
    """Whether the same proposal may be accepted later.

    Errors that mean stale knowledge are not: metadata brings the news, and with it new proposals.
    """
    error = ERRORS_BY_CODE.get(code)
    if error is None:
        return True
    return error.retriable and not issubclass(error, StaleMetadataError)
