"""The changes of one partition: its leader, ISR and eligible leader replicas (KIP-841, KIP-966).

Pure functions from a partition record to the next one. Callers decide which brokers are live, and
when to call. The table `ELECTION` decides which replica leads.

Every record that comes out holds to this (I9 of the simulator checks it):

- the ISR holds live brokers only, except a leader that is stopping and still waits for a successor;
- ISR and ELR have no broker in common, and both are replicas of the partition;
- an ISR of at least `min.insync.replicas` has an empty ELR beside it;
- the leader is in the ISR; an offline partition has an empty ISR;
- a replica whose log has failed in its broker's present life is not in the ISR and does not lead;
- the leader epoch rises whenever a replica goes.

`min.insync.replicas` is never compared with more replicas than the partition has. While a
reassignment adds some, those do not count yet: one that has still to copy everything would
otherwise refuse acks=all where one replica was enough.

Members of the ELR may lead for this reason: while the ISR is smaller than `min.insync.replicas`,
the high watermark stands still, so a replica that leaves then holds everything committed for as
long as the ISR stays that small. Its data must be intact, therefore a replica that comes back
without its data leaves the ELR, too.

A failed log leaves the ELR as well: its records may be gone. Except when nobody else is left in
ISR and ELR: then it stays there as the only one that can have held everything committed, and the
partition is offline, not lossy. It may not lead in this life. The next one tells whether its log
came back whole (it leads again) or not (it leaves; where there are other replicas, an operator
decides).

The same holds for the last one whose tail may be gone, as long as no ISR has ever had
`min.insync.replicas` members (`never_committed`). A leader advances its high watermark only for an
ISR and a minimum that it has from the metadata log, and each change of either is judged here before
it is written there: so no high watermark has ever moved, nothing was acknowledged to acks=all or
read, and whatever the replica still has is all that was committed. Nobody else gets that claim:
others may lack more of what only acks=1 asked for, and so does one with nothing left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import Enum, Flag, auto
from typing import Final

from pylog.model import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch
from pylog_broker.metadata.records import PartitionRecord

Live = Callable[[BrokerId], bool]


class Asked(Flag):
    """The wishes of a change beyond the usual election."""

    PREFERRED = auto()
    """The first replica leads if it can."""
    UNCLEAN = auto()
    """A replica that may lack committed records may lead when no other can."""


NO_WISH: Final = Asked(0)


class Follows(Enum):
    """The meaning of an elected leader for the others."""

    NOTHING = auto()
    """It is in the ISR, which stays."""
    ALONE = auto()
    """It is the ISR; others stay eligible while it is smaller than `min.insync.replicas`."""
    ITS_LOG_IS_THE_TRUTH = auto()
    """It is the ISR. Replicas that hold more will truncate, so nobody stays eligible for that."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A partition before its election: its ISR and ELR are those that follow from the change."""

    partition: PartitionRecord
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...]
    last_known: tuple[BrokerId, ...]

    @property
    def working(self) -> list[BrokerId]:
        """The replicas whose logs work, in replica order."""
        failed = self.partition.failed_replicas
        return [broker for broker in self.partition.replicas if broker not in failed]


@dataclass(frozen=True, slots=True)
class Rule:
    """Elects the first live one of its candidates. `asked`: only when that was asked for.
    `must_live` False: the candidate need not be live.
    """

    candidates: Callable[[Standing], Iterable[BrokerId]]
    follows: Follows = Follows.NOTHING
    asked: Asked = NO_WISH
    must_live: bool = True

    def elects(self, standing: Standing, live: Live) -> BrokerId:
        """The leader by this rule; NO_LEADER when it has no candidate."""
        for broker in self.candidates(standing):
            if not self.must_live or live(broker):
                return broker
        return NO_LEADER


ELECTION: Final[dict[str, Rule]] = {
    "the preferred replica, in sync": Rule(
        lambda at: [b for b in at.partition.replicas[:1] if b in at.isr], asked=Asked.PREFERRED
    ),
    "the leader stays": Rule(lambda at: [b for b in at.isr if b == at.partition.leader]),
    "an in-sync replica": Rule(lambda at: [b for b in at.partition.replicas if b in at.isr]),
    "the leader stays although it stops: nobody can take over yet": Rule(
        lambda at: [b for b in at.isr if b == at.partition.leader], must_live=False
    ),
    "an eligible leader replica": Rule(
        lambda at: [b for b in at.working if b in at.elr], Follows.ALONE
    ),
    "the replica that likely lacks the least": Rule(
        lambda at: [b for b in _by_likely_loss(at.partition, at.last_known) if b in at.working],
        Follows.ITS_LOG_IS_THE_TRUTH,
        Asked.UNCLEAN,
    ),
    "nobody: the partition is offline": Rule(lambda at: [NO_LEADER], must_live=False),
}
"""The rules in the order in which they are asked; the first that elects decides."""


def elect(standing: Standing, live: Live, asked: Asked) -> tuple[str, BrokerId]:
    """The name of the deciding rule, and the leader by it."""
    for name, rule in ELECTION.items():
        if rule.asked in asked:
            leader = rule.elects(standing, live)
            if leader != NO_LEADER:
                return name, leader
    return name, NO_LEADER


def next_state(
    partition: PartitionRecord,
    *,
    isr: tuple[BrokerId, ...],
    min_isr: int,
    live: Live,
    lost: Collection[BrokerId] = (),
    emptied: Collection[BrokerId] = (),
    unclean: bool = False,
    preferred: bool = False,
    directories: tuple[str, ...] | None = None,
    failed: tuple[BrokerId, ...] | None = None,
    touch: bool = False,
    new_epoch: bool = False,
) -> PartitionRecord | None:
    """The partition with this ISR and the leader that follows from it; None when nothing changes.

    `lost`: replicas whose data may be gone, which neither ISR nor ELR may keep. `emptied`: those of
    them of which nothing is left. `unclean`, `preferred`: as `Asked` says. `failed`: the replicas
    whose logs do not work, when that changes. `touch`: raise the partition epoch even if nothing
    else changes; `new_epoch`: the leader epoch, too.
    """
    before = partition
    if failed is not None:
        partition = replace(partition, failed_replicas=failed)
    if emptied:
        known = (*partition.emptied_replicas, *emptied)
        partition = replace(partition, emptied_replicas=tuple(dict.fromkeys(known)))
    isr = tuple(b for b in isr if b not in lost and b not in partition.failed_replicas)
    elr, last_known = _eligible(partition, isr, min_isr, lost)
    asked = (Asked.PREFERRED if preferred else NO_WISH) | (Asked.UNCLEAN if unclean else NO_WISH)
    rule, leader = elect(Standing(partition, isr, elr, last_known), live, asked)
    match ELECTION[rule].follows:
        case Follows.ALONE:
            isr = (leader,)
            elr, last_known = _eligible(partition, isr, min_isr, lost)
        case Follows.ITS_LOG_IS_THE_TRUTH:
            isr, elr, last_known = (leader,), (), ()
        case Follows.NOTHING:
            pass
    commits = is_enough(isr, partition.original_replicas, min_isr)
    changed = replace(
        partition,
        isr=isr,
        eligible_leader_replicas=elr,
        last_known_elr=last_known,
        leader=leader,
        leader_epoch=(
            LeaderEpoch(partition.leader_epoch + 1)
            if leader != partition.leader or new_epoch
            else partition.leader_epoch
        ),
        directories=partition.directories if directories is None else directories,
        emptied_replicas=tuple(b for b in partition.emptied_replicas if b not in isr),
        never_committed=partition.never_committed and not commits,
    )
    if changed == before and not (touch or new_epoch):
        return None
    return replace(changed, partition_epoch=PartitionEpoch(partition.partition_epoch + 1))


def is_enough(isr: Collection[BrokerId], replicas: Collection[BrokerId], min_isr: int) -> bool:
    """Whether such an ISR commits: its leader's high watermark moves. `replicas`: those that count,
    without the ones that are being added.
    """
    return len(isr) >= min(min_isr, len(replicas))


def joined(partition: PartitionRecord, proposed: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    """The proposed ISR in the order of joining: members keep their places, new ones come last."""
    stay = tuple(broker for broker in partition.isr if broker in proposed)
    return stay + tuple(broker for broker in proposed if broker not in partition.isr)


def without(brokers: tuple[BrokerId, ...], broker: BrokerId) -> tuple[BrokerId, ...]:
    """`brokers` without one of them."""
    return tuple(other for other in brokers if other != broker)


def _by_likely_loss(partition: PartitionRecord, last_known: tuple[BrokerId, ...]) -> list[BrokerId]:
    """All replicas, first those of which one may hope that they lack the least:
    those that were eligible last, then those that were behind, then those that began anew with
    nothing.
    """
    emptied = partition.emptied_replicas
    behind = [broker for broker in partition.replicas if broker not in emptied]
    return [*reversed(last_known), *behind, *emptied]


def _eligible(
    partition: PartitionRecord,
    isr: tuple[BrokerId, ...],
    min_isr: int,
    lost: Collection[BrokerId],
) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]:
    """The eligible replicas beside this ISR, and those that once were (KIP-966)."""
    if is_enough(isr, partition.original_replicas, min_isr):
        return (), ()
    were = dict.fromkeys(partition.eligible_leader_replicas + partition.isr)
    holding = tuple(broker for broker in were if broker not in isr and broker not in lost)
    working = tuple(broker for broker in holding if broker not in partition.failed_replicas)
    if isr or working:
        elr = working
    elif holding:
        elr = holding  # nobody else can have held everything: offline, and not lossy
    elif partition.never_committed:
        elr = tuple(broker for broker in were if broker not in partition.emptied_replicas)
        elr = tuple(b for b in elr if b not in partition.failed_replicas) or elr
    else:
        elr = ()
    once = dict.fromkeys(partition.last_known_elr + tuple(were))
    gone = {*isr, *elr, *partition.emptied_replicas}
    return elr, tuple(broker for broker in once if broker not in gone)
