"""How one partition changes: its leader, ISR and eligible leader replicas (KIP-841, KIP-966).

Pure functions from a partition record to the next one. Callers decide
which brokers are live, and when to call.

What holds in every record that comes out (and what I9 of the simulator checks):

- the ISR holds live brokers only, except a leader that is stopping and still waits for a successor;
- ISR and ELR have no broker in common, and both are replicas of the partition;
- an ISR of at least `min.insync.replicas` has an empty ELR beside it;
- the leader is in the ISR; an offline partition has an empty ISR;
- a replica whose log has failed in its broker's present life is not in the ISR and does not lead.

Why members of the ELR may lead: while the ISR is smaller than `min.insync.replicas`, the high
watermark stands still, so a replica that leaves then holds everything committed for as long as
the ISR stays that small. Its data must be intact, therefore who comes back without its data
leaves the ELR, too.

A failed log leaves the ELR as well: what is in it may be gone. Except when nobody else is left in
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
from dataclasses import replace

from pylog.model import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch
from pylog_broker.metadata.records import PartitionRecord

Live = Callable[[BrokerId], bool]


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
) -> PartitionRecord | None:
    """The partition with this ISR and the leader that follows from it; None when nothing changes.

    `lost`: replicas whose data may be gone, which neither ISR nor ELR may keep. `emptied`: those of
    them of which nothing is left. `unclean`: a replica that may lack committed records may lead
    when no other can. `preferred`: the first
    replica leads if it can. `failed`: the replicas whose logs do not work, when that changes.
    `touch`: raise the partition epoch even if nothing else changes.
    """
    before = partition
    if failed is not None:
        partition = replace(partition, failed_replicas=failed)
    if emptied:
        known = (*partition.emptied_replicas, *emptied)
        partition = replace(partition, emptied_replicas=tuple(dict.fromkeys(known)))
    broken = partition.failed_replicas
    isr = tuple(broker for broker in isr if broker not in lost and broker not in broken)
    elr, last_known = _eligible(partition, isr, min_isr, lost)
    leader = _leader(partition, isr, live, preferred)
    if leader == NO_LEADER:
        usable = [broker for broker in partition.replicas if broker not in broken]
        leader = _first(usable, elr, live)
        if leader == NO_LEADER and unclean:
            leader = _first(_by_likely_loss(partition, last_known), usable, live)
            if leader != NO_LEADER:
                # Its log becomes the truth: whoever holds more will cut it, so nobody stays
                # eligible for what they hold now.
                isr, elr, last_known = (leader,), (), ()
        if leader != NO_LEADER and not isr:
            isr = (leader,)
            elr, last_known = _eligible(partition, isr, min_isr, lost)
    commits = is_enough(isr, partition.replicas, min_isr)
    changed = replace(
        partition,
        isr=isr,
        eligible_leader_replicas=elr,
        last_known_elr=last_known,
        leader=leader,
        leader_epoch=(
            LeaderEpoch(partition.leader_epoch + 1)
            if leader != partition.leader
            else partition.leader_epoch
        ),
        directories=partition.directories if directories is None else directories,
        emptied_replicas=tuple(b for b in partition.emptied_replicas if b not in isr),
        never_committed=partition.never_committed and not commits,
    )
    if changed == before and not touch:
        return None
    return replace(changed, partition_epoch=PartitionEpoch(partition.partition_epoch + 1))


def is_enough(isr: Collection[BrokerId], replicas: Collection[BrokerId], min_isr: int) -> bool:
    """Whether such an ISR commits: its leader's high watermark moves."""
    return len(isr) >= min(min_isr, len(replicas))


def joined(partition: PartitionRecord, proposed: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    """The proposed ISR in the order of joining: members keep their places, new ones come last."""
    stay = tuple(broker for broker in partition.isr if broker in proposed)
    return stay + tuple(broker for broker in proposed if broker not in partition.isr)


def without(brokers: tuple[BrokerId, ...], broker: BrokerId) -> tuple[BrokerId, ...]:
    """`brokers` without one of them."""
    return tuple(other for other in brokers if other != broker)


def _leader(
    partition: PartitionRecord, isr: tuple[BrokerId, ...], live: Live, preferred: bool
) -> BrokerId:
    first = partition.replicas[0]
    if preferred and first in isr and live(first):
        return first
    if partition.leader in isr and live(partition.leader):
        return partition.leader
    elected = _first(partition.replicas, isr, live)
    if elected == NO_LEADER and partition.leader in isr:
        return partition.leader  # stopping, and nobody can take over yet
    return elected


def _by_likely_loss(partition: PartitionRecord, last_known: tuple[BrokerId, ...]) -> list[BrokerId]:
    """All replicas, first those of which one may hope that they lack the least: who was eligible
    last, then who was behind, then who began anew with nothing.
    """
    emptied = partition.emptied_replicas
    behind = [broker for broker in partition.replicas if broker not in emptied]
    return [*reversed(last_known), *behind, *emptied]


def _first(replicas: Iterable[BrokerId], candidates: Collection[BrokerId], live: Live) -> BrokerId:
    for broker in replicas:
        if broker in candidates and live(broker):
            return broker
    return NO_LEADER


def _eligible(
    partition: PartitionRecord,
    isr: tuple[BrokerId, ...],
    min_isr: int,
    lost: Collection[BrokerId],
) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]:
    """The eligible replicas beside this ISR, and those that once were (KIP-966)."""
    if is_enough(isr, partition.replicas, min_isr):
        return (), ()
    were = dict.fromkeys(partition.eligible_leader_replicas + partition.isr)
    elr = tuple(broker for broker in were if broker not in isr and broker not in lost)
    if partition.never_committed and not isr and not elr:
        elr = tuple(broker for broker in were if broker not in partition.emptied_replicas)
    works = tuple(broker for broker in elr if broker not in partition.failed_replicas)
    if isr or works:
        elr = works
    once = dict.fromkeys(partition.last_known_elr + tuple(were))
    gone = {*isr, *elr, *partition.emptied_replicas}
    return elr, tuple(broker for broker in once if broker not in gone)
