"""The move of one partition to other replicas: begin, change of target, cancel, end (KIP-455).

Pure functions from a partition record to the next one, as in `partitions.py`. While a reassignment
goes on, `replicas` are those of the target, in its order, followed by those that are to leave.
`adding_replicas` are the ones that must join the ISR, `removing_replicas` those that leave then.
The replicas that count meanwhile are `original_replicas`.

Two rules keep everything that is committed:

- Only members of the ISR take the place of others. A reassignment is complete when all that are
  added are in sync and live brokers are left in the ISR; never before.
- Whenever replicas go, the leader epoch rises. A broker may lose its replica and get a new,
  empty one a moment later. A fetch that it sent in between, on behalf of the old one, would prove
  to the leader what the new one does not hold; it is of an earlier epoch, and is refused.

The end waits until the ISR has `min.insync.replicas` members without those that leave. Apache Kafka
does not wait: it may refuse acks=all then where it took it a moment before, and has fewer copies of
what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pylog.model import BrokerId
from pylog_broker.controller.partitions import Live, is_enough, next_state
from pylog_broker.metadata.records import PartitionRecord


class NobodyIsLeft(Exception):
    """No replica that holds what is committed would stay."""


def retargeted(
    partition: PartitionRecord,
    target: Sequence[BrokerId],
    directory_for: Callable[[BrokerId], str],
) -> PartitionRecord:
    """The partition on its way to `target`; ISR and leader are still to follow (`replaced`).

    A target in the midst of another one takes its place: what only the old one would have added
    leaves at once. `directory_for`: the log directory of a replica that is new.
    """
    original = partition.original_replicas
    leaving = tuple(broker for broker in original if broker not in target)
    return _with_replicas(
        partition,
        (*target, *leaving),
        adding=tuple(broker for broker in target if broker not in original),
        removing=leaving,
        directory_for=directory_for,
    )


def reverted(partition: PartitionRecord) -> PartitionRecord:
    """The partition without its reassignment: those that it would have added leave.

    The replicas that stay keep the order of now, as in Apache Kafka.
    """
    original = partition.original_replicas
    return _with_replicas(partition, original, adding=(), removing=(), directory_for=_none_is_new)


def replaced(
    partition: PartitionRecord,
    wanted: PartitionRecord,
    *,
    min_isr: int,
    live: Live,
    unclean: bool = False,
) -> PartitionRecord | None:
    """The partition with the replicas of `wanted`, and the ISR and leader that follow; None when
    nothing changes. NobodyIsLeft when everything that is committed would go with those that leave,
    unless an `unclean` election is allowed.
    """
    if wanted == partition:
        return None
    held = (*partition.isr, *partition.eligible_leader_replicas)
    kept = (*wanted.isr, *wanted.eligible_leader_replicas)
    if held and not kept and not unclean:
        raise NobodyIsLeft
    return next_state(
        wanted,
        isr=wanted.isr,
        min_isr=min_isr,
        live=live,
        unclean=unclean,
        touch=True,
        new_epoch=not set(partition.replicas) <= set(wanted.replicas),
    )


def completed(partition: PartitionRecord, *, min_isr: int, live: Live) -> PartitionRecord | None:
    """The partition after its reassignment; None when it is not complete yet.

    The leader epoch always rises. A leader hears of the end by an answer that tells its ISR and not
    its replicas, and must not take that for all that has changed.
    """
    target = partition.target_replicas
    stay = tuple(broker for broker in partition.isr if broker in target)
    if not set(partition.adding_replicas) <= set(stay) or not any(map(live, stay)):
        return None
    if not is_enough(stay, target, min_isr):
        return None
    ended = _with_replicas(partition, target, adding=(), removing=(), directory_for=_none_is_new)
    return next_state(ended, isr=stay, min_isr=min_isr, live=live, new_epoch=True)


def _with_replicas(
    partition: PartitionRecord,
    replicas: tuple[BrokerId, ...],
    *,
    adding: tuple[BrokerId, ...],
    removing: tuple[BrokerId, ...],
    directory_for: Callable[[BrokerId], str],
) -> PartitionRecord:
    """The lists of the partition cut to these replicas. New ones count as emptied: their logs begin
    anew, and of all replicas they likely lack the most.
    """
    known = partition.replicas

    def stay(brokers: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        return tuple(broker for broker in brokers if broker in replicas)

    new = tuple(broker for broker in replicas if broker not in known)
    return replace(
        partition,
        replicas=replicas,
        adding_replicas=adding,
        removing_replicas=removing,
        isr=stay(partition.isr),
        eligible_leader_replicas=stay(partition.eligible_leader_replicas),
        last_known_elr=stay(partition.last_known_elr),
        directories=tuple(
            partition.directory_of(broker) if broker in known else directory_for(broker)
            for broker in replicas
        ),
        failed_replicas=stay(partition.failed_replicas),
        emptied_replicas=(*stay(partition.emptied_replicas), *new),
    )


def _none_is_new(broker: BrokerId) -> str:
    raise AssertionError(f"broker {broker} is new")
