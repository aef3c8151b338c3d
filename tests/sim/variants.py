"""The production cores, and test-only copies of them with one known bug each.

A variant overrides one decision of a core while it is installed. Each must be caught by the
simulator: a checker that has never failed is not evidence. The rows cited (B-R..) are those of
the reference of known bugs, each once in a real system; the last variant was once in this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from broker.controller.election import Elections
from broker.metadata.messages import Failure, PartitionIsr
from broker.metadata.records import PartitionRecord
from broker.replication.follower import FollowerState
from broker.replication.isr import FollowerProgress, LeaderState
from broker.replication.messages import EpochEnd
from broker.replication.produces import DelayedProduce
from broker.replication.replica_fetches import ReplicaFetches
from broker.storage.producer_state import AppendedBatch, ProducerStates
from broker.storage.recovery import SegmentLoader
from pylog.model import BrokerEpoch, BrokerId, Offset
from pylog.records.batch import BatchHeader


@dataclass(frozen=True)
class Variant:
    """Which decisions are overridden: (class, method's name, what to do instead)."""

    what: str
    overrides: tuple[tuple[type, str, Callable[..., Any]], ...] = ()

    @contextmanager
    def installed(self) -> Iterator[Variant]:
        """The overrides are in effect."""
        with ExitStack() as stack:
            for owner, name, instead in self.overrides:
                stack.enter_context(_overridden(owner, name, instead))
            yield self


@contextmanager
def _overridden(owner: type, name: str, instead: Callable[..., Any]) -> Iterator[None]:
    production = owner.__dict__[name]
    setattr(owner, name, instead)
    try:
        yield
    finally:
        setattr(owner, name, production)


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


def _committed_at_once(_self: DelayedProduce, _partition: object, _required: Offset) -> bool:
    return True


# ---- I11: a duplicate is appended ----------------------------------------------------------------

_production_check = ProducerStates.check


def _no_duplicates_known(
    self: ProducerStates, header: BatchHeader, *, log_start_offset: int
) -> AppendedBatch | None:
    _production_check(self, header, log_start_offset=log_start_offset)
    return None


# ---- a log whose first segment was lost begins at the second one ---------------------------------


def _begins_where_it_begins(_self: SegmentLoader, _base: int) -> bool:
    return False


VARIANTS: dict[str, Variant] = {
    "production": Variant("the cores as they are"),
    "cut_at_high_watermark": Variant(
        "B-R1: a new follower cuts its log at its own high watermark",
        ((FollowerState, "offset_to_cut_at_start", _cut_at_high_watermark),),
    ),
    "diverging_end_counts": Variant(
        "B-R9: the leader counts the end of a diverging follower",
        ((ReplicaFetches, "_accepts_follower_end", _any_end_counts),),
    ),
    "current_isr_only": Variant(
        "B-R15: the high watermark waits for the committed ISR only, not for proposed members",
        ((LeaderState, "_counted_for_high_watermark", _only_the_isr),),
    ),
    "no_broker_epoch": Variant(
        "B-R17: fetches of a broker's earlier life count for the present one",
        (
            (ReplicaFetches, "_replica_epoch_fault", _any_life),
            (LeaderState, "_is_eligible", _eligible_whatever_the_life),
            (LeaderState, "_epoch_of", _newest_epoch),
        ),
    ),
    "late_isr_change": Variant(
        "B-R19: the controller takes an ISR change whatever partition epoch it was made for",
        ((Elections, "_refusal", _any_partition_epoch),),
    ),
    "ok_too_early": Variant(
        "I10: acks=all is answered once the leader has the records",
        ((DelayedProduce, "_is_committed", _committed_at_once),),
    ),
    "duplicate_appended": Variant(
        "I11: a batch that is sent again is appended again",
        ((ProducerStates, "check", _no_duplicates_known),),
    ),
    "beginning_lost": Variant(
        "I15: recovery lets a log begin later when a loss of power took its first segment",
        ((SegmentLoader, "_lost_its_beginning", _begins_where_it_begins),),
    ),
}
