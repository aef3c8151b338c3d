"""The leader's state: fetches and answers in, the whole list of effects out."""

from __future__ import annotations

import random

import pytest

from pylog import errors
from pylog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from pylog_broker.metadata.messages import BrokerState
from pylog_broker.replication.isr import (
    AdvanceHighWatermark,
    LeaderState,
    ProposeIsr,
    is_retriable_refusal,
)

ONE, TWO, THREE, FOUR = (BrokerId(number) for number in (1, 2, 3, 4))
LAG_MS = 30_000


def epoch(broker: int) -> BrokerEpoch:
    return BrokerEpoch(broker * 10)


class Leader:
    """Broker 1 leading; short calls for what happens."""

    def __init__(
        self,
        isr: tuple[int, ...] = (1, 2, 3),
        replicas: tuple[int, ...] = (1, 2, 3),
        *,
        end: int = 10,
        high_watermark: int = 5,
        epoch_start: int = 5,
        min_isr: int = 1,
    ) -> None:
        self.eligible = {BrokerId(b): epoch(b) for b in replicas}
        self.now_ms = 0
        self.state = LeaderState(
            me=ONE,
            replicas=tuple(map(BrokerId, replicas)),
            isr=tuple(map(BrokerId, isr)),
            leader_epoch=LeaderEpoch(3),
            partition_epoch=PartitionEpoch(7),
            epoch_start_offset=Offset(epoch_start),
            log_end_offset=Offset(end),
            high_watermark=Offset(high_watermark),
            min_isr=min_isr,
            lag_time_max_ms=LAG_MS,
            eligible=self.eligible,
            now_ms=0,
        )

    def fetch(self, follower: int, offset: int, life: int | None = None) -> list[object]:
        broker_epoch = epoch(follower) if life is None else BrokerEpoch(life)
        return list(
            self.state.on_follower_fetch(
                self.now_ms, BrokerId(follower), broker_epoch, Offset(offset), Offset(0)
            )
        )

    def append(self, end: int) -> list[object]:
        return list(self.state.on_append(self.now_ms, Offset(end)))

    def lag_check(self) -> list[object]:
        return list(self.state.on_lag_check(self.now_ms))

    def committed(self, *isr: int, partition_epoch: int = 8) -> list[object]:
        members = tuple(map(BrokerId, isr))
        return list(
            self.state.on_isr_committed(self.now_ms, members, PartitionEpoch(partition_epoch))
        )

    def accepted(self, *isr: int, partition_epoch: int = 8) -> list[object]:
        members = tuple(map(BrokerId, isr))
        return list(
            self.state.on_proposal_accepted(self.now_ms, members, PartitionEpoch(partition_epoch))
        )

    def no_room(self) -> list[object]:
        return list(self.state.on_no_room(self.now_ms))

    def damage(self) -> list[object]:
        return list(self.state.on_damage(self.now_ms))

    def refused(self, error: type[errors.PylogError]) -> list[object]:
        return list(self.state.on_proposal_refused(self.now_ms, error.code))


def advance(offset: int) -> AdvanceHighWatermark:
    return AdvanceHighWatermark(Offset(offset))


def propose(*brokers: int, unknown: tuple[int, ...] = (), partition_epoch: int = 7) -> ProposeIsr:
    return ProposeIsr(
        tuple(
            BrokerState(BrokerId(b), BrokerEpoch(-1) if b in unknown else epoch(b)) for b in brokers
        ),
        PartitionEpoch(partition_epoch),
    )


def test_the_high_watermark_is_the_lowest_end_of_the_isr() -> None:
    """F-R28: ends 5, 4, 5 give 4; a follower that is not in the ISR does not hold it back."""
    leader = Leader(isr=(1, 2, 3), replicas=(1, 2, 3, 4), end=5, high_watermark=0, epoch_start=0)
    assert leader.fetch(4, 1) == [propose(1, 2, 3, 4, unknown=(2, 3))]
    leader = Leader(isr=(1, 2, 3), replicas=(1, 2, 3, 4), end=5, high_watermark=2, epoch_start=0)
    assert leader.fetch(4, 1) == []
    assert leader.fetch(2, 4) == []
    assert leader.fetch(3, 5) == [advance(4)]


def test_a_member_whose_end_is_unknown_holds_the_high_watermark() -> None:
    leader = Leader()
    assert leader.fetch(2, 10) == []
    assert leader.fetch(3, 10) == [advance(10)]


def test_a_lone_leader_commits_what_it_appends() -> None:
    leader = Leader(isr=(1,), replicas=(1,))
    assert leader.append(11) == [advance(11)]


def test_the_high_watermark_never_moves_back() -> None:
    leader = Leader(isr=(1, 2), replicas=(1, 2))
    assert leader.fetch(2, 10) == [advance(10)]
    assert leader.fetch(2, 3) == []
    assert leader.state.high_watermark == 10


def test_below_min_isr_the_high_watermark_is_frozen() -> None:
    """B-R14, KIP-966."""
    leader = Leader(isr=(1, 2), min_isr=2, replicas=(1, 2, 3))
    assert leader.fetch(2, 8) == [advance(8)]
    assert leader.committed(1) == []
    assert leader.append(20) == []
    assert leader.state.is_under_min_isr
    assert leader.fetch(2, 20) == [propose(1, 2, partition_epoch=8)]
    assert leader.accepted(1, 2, partition_epoch=9) == [advance(20)]


def test_min_isr_is_never_more_than_there_are_replicas() -> None:
    leader = Leader(isr=(1,), replicas=(1,), min_isr=2)
    assert leader.append(11) == [advance(11)]


def test_lowering_min_isr_releases_the_high_watermark() -> None:
    leader = Leader(isr=(1,), replicas=(1, 2), min_isr=2)
    assert leader.append(11) == []
    leader.state.on_min_isr_changed(1)
    assert list(leader.state.count_anew(0)) == [advance(11)]


def test_a_proposed_member_counts_before_the_controller_has_answered() -> None:
    """B-R15."""
    leader = Leader(isr=(1, 2), high_watermark=5)
    assert leader.fetch(3, 5) == [propose(1, 2, 3, unknown=(2,))]
    assert leader.fetch(2, 10) == []
    assert leader.fetch(3, 8) == [advance(8)]
    assert leader.accepted(1, 2, 3) == []
    assert leader.state.isr == (1, 2, 3)


def test_one_that_leaves_counts_until_the_controller_has_agreed() -> None:
    leader = Leader()
    leader.fetch(2, 10)
    leader.now_ms = LAG_MS + 1
    assert leader.fetch(2, 10) == []
    assert leader.lag_check() == [propose(1, 2)]
    assert leader.append(12) == []
    assert leader.fetch(2, 12) == []
    # B-R21: nobody's fetch is needed to commit what the smaller ISR holds
    assert leader.accepted(1, 2) == [advance(12)]


def test_at_most_one_proposal_is_in_flight() -> None:
    leader = Leader(isr=(1,), replicas=(1, 2, 3))
    assert leader.fetch(2, 10) == [propose(1, 2), advance(10)]
    assert leader.fetch(3, 10) == []
    assert leader.accepted(1, 2) == []
    assert leader.fetch(3, 10) == [propose(1, 2, 3, partition_epoch=8)]


def test_joining_needs_the_high_watermark_and_the_start_of_the_epoch() -> None:
    """B-R16: the high watermark of a new leader may be behind what was committed."""
    leader = Leader(isr=(1, 2), high_watermark=5, epoch_start=9)
    assert leader.fetch(3, 5) == []
    assert leader.fetch(3, 8) == []
    assert leader.fetch(3, 9) == [propose(1, 2, 3, unknown=(2,))]


@pytest.mark.parametrize("why", ["fenced", "other life"])
def test_who_is_not_eligible_does_not_join(why: str) -> None:
    """B-R18, KIP-903."""
    leader = Leader(isr=(1, 2))
    if why == "fenced":
        del leader.eligible[THREE]
    else:
        leader.eligible[THREE] = BrokerEpoch(31)
    assert leader.fetch(3, 10) == []
    leader.eligible[THREE] = epoch(3)
    assert leader.fetch(3, 10) == [propose(1, 2, 3, unknown=(2,))]


def test_fenced_members_are_left_out_of_proposals() -> None:
    leader = Leader(isr=(1, 2), replicas=(1, 2, 3))
    del leader.eligible[TWO]
    assert leader.fetch(3, 10) == [propose(1, 3)]


def test_a_caught_up_replica_is_waited_for_only_while_it_may_join() -> None:
    """B-R22, and without the wait no follower of a busy lone leader would ever join."""
    leader = Leader(isr=(1,), replicas=(1, 2, 3))
    assert leader.fetch(2, 10) == [propose(1, 2), advance(10)]
    assert leader.fetch(3, 10) == []  # it would join, but one proposal at a time
    assert leader.append(13) == []
    assert leader.fetch(2, 13) == []
    del leader.eligible[THREE]
    assert list(leader.state.count_anew(0)) == [advance(13)]


def test_in_sync_is_a_matter_of_time_not_of_distance() -> None:
    """B-R37, F-R11: far behind in records, but always at what was the end one fetch before."""
    leader = Leader(isr=(1, 2), replicas=(1, 2))
    end = 10
    for _ in range(20):
        leader.fetch(2, end)
        end += 100_000
        leader.append(end)
        leader.now_ms += LAG_MS // 2
        assert leader.lag_check() == []


def test_who_fetches_but_never_arrives_is_proposed_to_leave() -> None:
    """F-R13."""
    leader = Leader(isr=(1, 2), replicas=(1, 2), end=1_000)
    for offset in range(10, 80, 10):
        leader.append(1_000 + offset)
        leader.fetch(2, offset)
        leader.now_ms += 5_000
    assert leader.lag_check() == [propose(1)]


def test_caught_up_counts_from_the_leaders_end_at_the_fetch_before() -> None:
    """F-R32."""
    leader = Leader(isr=(1, 2), replicas=(1, 2), end=10)
    leader.fetch(2, 6)  # the end was 10 then
    leader.append(1_000)
    leader.now_ms = 20_000
    leader.fetch(2, 10)  # so as of time 0 it had everything
    leader.now_ms = 30_001
    assert leader.lag_check() == [propose(1)]


def test_a_replica_at_the_end_stays_without_fetching() -> None:
    leader = Leader(isr=(1, 2), replicas=(1, 2))
    leader.fetch(2, 10)
    leader.now_ms = 10 * LAG_MS
    assert leader.lag_check() == []


def test_older_and_equal_partition_epochs_change_nothing() -> None:
    """B-R31, B-R19."""
    leader = Leader()
    assert leader.committed(1, 2, partition_epoch=9) == []
    assert leader.committed(1, partition_epoch=8) == []
    assert leader.committed(1, partition_epoch=9) == []
    assert leader.state.isr == (1, 2)


def test_a_copy_of_known_metadata_does_not_settle_a_proposal() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 10)
    leader.committed(1, 2, partition_epoch=7)
    assert leader.state.proposal is not None
    leader.fetch(2, 10)
    leader.append(15)
    leader.fetch(2, 15)
    assert leader.state.high_watermark == 10


def test_metadata_that_is_faster_than_the_answer_settles_the_proposal() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 10)
    assert leader.committed(1, 2, 3) == []
    assert leader.state.proposal is None
    assert leader.accepted(1, 2, 3) == []


RETRIED = {
    errors.RequestTimedOut,
    errors.NotController,
    errors.UnknownLeaderEpoch,
    errors.CoordinatorLoadInProgress,
}
SETTLED = {errors.IneligibleReplica, errors.OperationNotAttempted}
AWAIT_METADATA = {
    errors.FencedLeaderEpoch,
    errors.InvalidUpdateVersion,
    errors.UnknownTopicId,
    errors.UnknownTopicOrPartition,
    errors.NotLeaderOrFollower,
    errors.InvalidRequest,
    errors.NewLeaderElected,
}


@pytest.mark.parametrize("error", sorted(RETRIED | SETTLED | AWAIT_METADATA, key=lambda e: e.code))
def test_exactly_the_retriable_refusals_are_retried(error: type[errors.PylogError]) -> None:
    """B-R20."""
    assert is_retriable_refusal(error.code) is (error in RETRIED)


@pytest.mark.parametrize("error", sorted(AWAIT_METADATA, key=lambda e: e.code))
def test_a_refusal_that_says_we_are_behind_waits_for_metadata(
    error: type[errors.PylogError],
) -> None:
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 10)
    assert leader.refused(error) == []
    assert leader.fetch(3, 10) == []
    # an earlier copy may have been accepted, so 3 still counts
    leader.append(15)
    leader.fetch(2, 15)
    assert leader.state.high_watermark == 10
    del leader.eligible[THREE]
    assert leader.committed(1, 2) == [advance(15)]
    leader.eligible[THREE] = epoch(3)
    leader.now_ms = 1_000
    assert leader.fetch(3, 15) == [propose(1, 2, 3, partition_epoch=8)]


def test_after_a_settled_refusal_the_partition_epoch_is_moved_on() -> None:
    """No delayed copy of the refused proposal may be accepted behind our back."""
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 10)
    assert leader.refused(errors.IneligibleReplica) == [propose(1, 2, unknown=(2,))]
    del leader.eligible[THREE]
    leader.append(15)
    assert leader.fetch(2, 15) == [advance(10)]  # 3 could still be let in by the copy
    assert leader.accepted(1, 2) == [advance(15)]
    assert leader.state.unresolved == frozenset()


def test_a_refused_barrier_is_not_repeated_at_once() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 10)
    leader.refused(errors.IneligibleReplica)
    assert leader.refused(errors.IneligibleReplica) == []
    assert leader.fetch(3, 10) == []
    leader.now_ms = 51
    assert leader.fetch(3, 10) == [propose(1, 2, 3, unknown=(2,))]


def test_an_accepted_proposal_that_changed_nothing_is_settled() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 10)
    leader.refused(errors.IneligibleReplica)
    leader.accepted(1, 2, partition_epoch=7)
    assert leader.state.proposal is None
    assert leader.state.unresolved == frozenset()


def dumb_high_watermark(leader: Leader) -> int:
    """The high watermark at its highest: the lowest end over all that count."""
    state = leader.state
    counted = [
        state.followers[b].end_offset
        for b in state.followers
        if b in state.isr or b in state.unresolved
    ]
    return min([state.log_end_offset, *counted])


@pytest.mark.parametrize("seed", range(40))
def test_against_a_dumb_twin(seed: int) -> None:
    rng = random.Random(seed)
    leader = Leader(
        isr=(1, 2, 3),
        replicas=(1, 2, 3, 4),
        end=0,
        high_watermark=0,
        epoch_start=0,
        min_isr=rng.choice([1, 2, 3]),
    )
    state = leader.state
    ends = {2: 0, 3: 0, 4: 0}
    partition_epoch = 7
    for _ in range(400):
        before = state.high_watermark
        isr_before, frozen_before = state.isr, state.is_under_min_isr
        effects: list[object] = []
        match rng.randrange(8):
            case 0 | 1:
                effects = leader.append(state.log_end_offset + rng.randrange(1, 5))
            case 2 | 3 | 4:
                follower = rng.choice([2, 3, 4])
                ends[follower] = rng.randint(ends[follower], state.log_end_offset)
                effects = leader.fetch(follower, ends[follower])
            case 5:
                leader.now_ms += rng.choice([1, 1_000, LAG_MS])
                effects = leader.lag_check()
            case 6 if state.proposal is not None:
                outcome = rng.randrange(3)
                if outcome == 0:
                    partition_epoch += 1
                    isr = tuple(member.broker_id for member in state.proposal.isr)
                    effects = leader.accepted(*isr, partition_epoch=partition_epoch)
                elif outcome == 1:
                    effects = leader.refused(errors.IneligibleReplica)
                else:
                    effects = leader.refused(errors.InvalidUpdateVersion)
            case 7:
                partition_epoch += 1
                keep = [b for b in state.isr if b == ONE or rng.random() < 0.9]
                effects = leader.committed(*keep, partition_epoch=partition_epoch)
        moved = [e.offset for e in effects if isinstance(e, AdvanceHighWatermark)]
        assert len(moved) <= 1
        assert state.high_watermark == (moved[0] if moved else before)
        assert state.high_watermark >= before
        assert ONE in state.isr
        if moved:
            assert not state.is_under_min_isr
            assert state.high_watermark <= dumb_high_watermark(leader)
        elif state.isr == isr_before and frozen_before:
            assert state.high_watermark == before
        for effect in effects:
            if isinstance(effect, ProposeIsr):
                assert effect is state.proposal
                assert effect.partition_epoch == state.partition_epoch


def test_a_failed_log_that_was_caught_up_just_now_holds_nobody_up() -> None:
    leader = Leader()
    leader.fetch(2, 10)
    leader.fetch(3, 10)
    assert leader.append(12) == []
    members = (ONE, TWO)
    assert leader.state.on_isr_committed(0, members, PartitionEpoch(8), failed=(THREE,)) == ()
    assert leader.fetch(2, 12) == [advance(12)]
    assert leader.fetch(3, 12) == []  # a late one: it is not proposed again either
    leader.state.on_isr_committed(0, members, PartitionEpoch(9), failed=())
    assert leader.fetch(3, 12) == [propose(1, 2, 3, partition_epoch=9)]


def test_a_leader_without_room_leaves_when_those_who_stay_are_enough() -> None:
    """Q-P15: the partition goes on with the others."""
    leader = Leader(min_isr=2)
    leader.fetch(2, 10)
    leader.fetch(3, 10)
    assert leader.no_room() == [propose(2, 3)]
    assert leader.no_room() == []  # it is on its way
    assert leader.refused(errors.NewLeaderElected) == []
    assert leader.no_room() == []  # metadata will say who leads


def test_a_leader_without_room_stays_when_nobody_could_go_on() -> None:
    assert Leader(isr=(1, 2), min_isr=2).no_room() == []
    assert Leader(isr=(1,), replicas=(1, 2, 3)).no_room() == []
    leader = Leader(min_isr=2)
    del leader.eligible[THREE]  # it stops
    assert leader.no_room() == []


def test_a_damaged_leader_leaves_to_anybody_who_can_lead() -> None:
    leader = Leader(min_isr=2)
    leader.fetch(2, 10)
    leader.fetch(3, 10)
    del leader.eligible[THREE]  # it stops
    assert leader.damage() == [propose(2)]
    assert leader.damage() == []  # it is on its way
    assert leader.refused(errors.NewLeaderElected) == []
    assert leader.damage() == []  # metadata will say who leads


def test_a_damaged_leader_stays_while_nobody_could_go_on() -> None:
    leader = Leader(isr=(1,), end=5)
    assert leader.damage() == []
    assert leader.fetch(2, 5) == [propose(1, 2)]
    assert leader.accepted(1, 2) == [propose(2, partition_epoch=8)]


def test_a_damaged_leader_whose_wish_is_refused_asks_again_at_the_lag_check() -> None:
    leader = Leader(isr=(1, 2), replicas=(1, 2))
    leader.fetch(2, 10)
    assert leader.damage() == [propose(2)]
    assert leader.refused(errors.IneligibleReplica) == []
    assert leader.lag_check() == []  # too soon
    leader.now_ms = LAG_MS // 2
    assert leader.lag_check() == [propose(2)]
