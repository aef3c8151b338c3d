"""Known bugs of the controller and its log, put in on purpose.

The rows cited (B-..) are those of the reference of known bugs, each once in a real system.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pylog.model import (
    BrokerId,
    LeaderEpoch,
    Offset,
)
from pylog_broker.controller import election, reassigning
from pylog_broker.controller.election import Elections
from pylog_broker.controller.metadata_batches import (
    MetadataBatchFound,
    WholeAppends,
    encode_append,
)
from pylog_broker.controller.metadata_log import MetadataLog
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.records import PartitionRecord
from pylog_broker.replicated.state_machine import AppendRecords, ReplicatedStateMachine
from pylog_broker.storage.log.validator import INTERNAL
from tests.sim.swarm import Swarm
from tests.sim.variant import Variant
from tests.sim.variant_parts import not_at_all

_production_min_isr = ControllerSettings.min_isr


def _one_more(self: ControllerSettings, own: Mapping[str, str], cluster: Mapping[str, str]) -> int:
    return _production_min_isr(self, own, cluster) + 1


def _prefers_whoever_lives(self: Elections, partition: PartitionRecord) -> bool:
    first = partition.replicas[0]
    if not self._ledger.decided.is_live(first):
        return False
    members = (first, *(broker for broker in partition.isr if broker != first))
    return self._change(partition, isr=members, preferred=True) is not None


def _sealed_at_once(self: Any, effects: list[Any]) -> list[Any]:
    held, self._held = self._held, deque()
    out = _production_seal(self, effects)
    out += [effect for _, effect in self._held]
    self._held = held
    return out


_production_seal = ReplicatedStateMachine.seal


def _behind_all_that_came_meanwhile(self: MetadataLog, task: Any) -> None:
    _production_on_snapshot(self, task)
    self._log.advance_log_start(self._log.log_end_offset)
    for segment in self._log.delete_old_segments():
        self._files.unlink(segment)


_production_on_snapshot = MetadataLog.on_snapshot


def _with_many_snapshots(swarm: Swarm) -> Swarm:
    leaning = _with_commands("controller_kill", "reconfigure_cluster", "recreate", "recreate")
    return replace(leaning(swarm), snapshot_records=20, fault_interval_ms=150.0)


def _with_commands(*faults: str) -> Callable[[Swarm], Swarm]:
    def leaning(swarm: Swarm) -> Swarm:
        return replace(
            swarm,
            brokers=3,
            replication_factor=3,
            min_insync=2,
            own_min_isr=False,
            faults=(*faults, *faults, "kill", "one_way", "isolate"),
            fault_interval_ms=400.0,
            away_ms=1_500,
            session_timeout_ms=1_000,
        )

    return leaning


def _forgotten_while_eligible(swarm: Swarm) -> Swarm:
    """One of several dead brokers is unregistered that might lead when it is back."""
    return replace(
        _with_commands("unregister_eligible")(swarm),
        faults=("unregister_eligible",),
        fault_interval_ms=1_000.0,
        task_ends=False,
    )


def _controllers_lose_power(swarm: Swarm) -> Swarm:
    """While there is much to decide."""
    return replace(
        _with_commands("controller_kill", "controller_kill")(swarm),
        faults=("kill_all", *("controller_kill",) * 9),
        fault_interval_ms=80.0,
        away_ms=100,
        replica_lag_ms=300,
    )


def _completed_by_one(
    partition: PartitionRecord, *, min_isr: int, live: Callable[[BrokerId], bool]
) -> PartitionRecord | None:
    target = partition.target_replicas
    if not set(target) & set(partition.isr) or not all(map(live, target)):
        return None
    ready = replace(partition, isr=target)
    return _production_completed(ready, min_isr=min_isr, live=live)


def _completed_in_the_same_epoch(partition: PartitionRecord, **given: Any) -> Any:
    ended = _production_completed(partition, **given)
    return ended and replace(ended, leader_epoch=partition.leader_epoch)


_production_completed = reassigning.completed


def _each_batch_is_whole(_self: WholeAppends, batch: MetadataBatchFound) -> Any:
    if not batch.records:
        return None
    return AppendRecords(Offset(batch.header.base_offset), tuple(batch.records))


def _begun_append_stays(
    self: MetadataLog, effect: Any, *, epoch: LeaderEpoch, wall_ms: int
) -> None:
    begun = effect.first_offset < self._log.log_end_offset
    for batch in () if begun else encode_append(effect.records, wall_ms):
        self._log.append_as_leader(batch, leader_epoch=epoch, wall_ms=wall_ms, origin=INTERNAL)


def _large_appends(swarm: Swarm) -> Swarm:
    """Decisions of many records, which a dying controller or a full disk interrupts."""
    leaning = _with_commands("controller_kill", "reconfigure_cluster", "controller_full")
    return replace(
        leaning(swarm), partitions=3, metadata_batch_records=1, fault_interval_ms=150.0, away_ms=300
    )


CONTROLLER_VARIANTS: dict[str, Variant] = {
    "min_isr_of_two_minds": Variant(
        "Controller and leaders judge by two values of min.insync.replicas",
        ((ControllerSettings, "min_isr", _one_more),),
        leaning=_with_commands("reconfigure_cluster"),
    ),
    "unregistered_stays_in_isr": Variant(
        "A broker that was unregistered stays eligible to lead",
        ((Elections, "on_unregistered", not_at_all),),
        leaning=_forgotten_while_eligible,
    ),
    "preferred_out_of_sync": Variant(
        "A preferred leader is elected whether it is in sync or not",
        ((Elections, "_prefer", _prefers_whoever_lives),),
        leaning=_with_commands("elect_preferred"),
    ),
    "snapshot_covers_what_came_meanwhile": Variant(
        "I14: what is appended while a snapshot is written goes from the log with what is in it",
        ((MetadataLog, "on_snapshot", _behind_all_that_came_meanwhile),),
        leaning=_with_many_snapshots,
        caught_by=5,
    ),
    "answered_before_the_sync": Variant(
        "I14: the controller answers what it has decided before that is durable",
        ((ReplicatedStateMachine, "seal", _sealed_at_once),),
        leaning=_controllers_lose_power,
        caught_by=2,
    ),
    "append_given_out_in_parts": Variant(
        "I14: what was written of an append that was never finished counts after a start",
        ((WholeAppends, "add", _each_batch_is_whole),),
        leaning=_large_appends,
    ),
    "append_broken_off_by_a_full_disk": Variant(
        "I14: an append that had begun when the disk was full is not made anew",
        ((MetadataLog, "append", _begun_append_stays),),
        leaning=_large_appends,
    ),
    "moved_before_in_sync": Variant(
        "A move is complete when one of its new replicas is in sync",
        ((election, "completed", _completed_by_one),),
        caught_by=6,
        moves=True,
    ),
    "moved_without_a_new_epoch": Variant(
        "A move takes the leader away and leaves the leader epoch as it is",
        ((election, "completed", _completed_in_the_same_epoch),),
        caught_by=2,
        moves=True,
    ),
}
