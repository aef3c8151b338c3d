"""Known bugs of the throttle of replication (KIP-73), put in on purpose."""

from __future__ import annotations

from dataclasses import replace

from pylog.config import LONG_MAX
from pylog.model import BrokerId
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.throttle import ReplicationThrottle
from pylog_broker.throttled_replicas import is_throttled
from tests.sim.swarm import THROTTLES, Swarm
from tests.sim.variant import Variant

_production_set_rate = ReplicationThrottle.set_rate


def _also_in_sync(self: Partition, _follower: BrokerId) -> bool:
    entries = self.config.leader_replication_throttled_replicas
    return is_throttled(entries, self.topic_partition.partition, self.me)


def _nothing_counts(_self: ReplicationThrottle, _now_ms: int, _size: int) -> None:
    pass


def _never_lifted(self: ReplicationThrottle, now_ms: int, rate: int) -> None:
    if rate < LONG_MAX or not self.is_limited:
        _production_set_rate(self, now_ms, rate)


def _much_to_copy(swarm: Swarm) -> Swarm:
    """Many moves of much, at rates that are too low for it."""
    return replace(
        swarm,
        faults=("move", "move", *THROTTLES),
        fault_interval_ms=500.0,
        produce_interval_ms=20.0,
        fetch_max_bytes=200,
    )


THROTTLE_VARIANTS: dict[str, Variant] = {
    "throttled_in_sync": Variant(
        "A leader holds back what members of the ISR fetch",
        ((Partition, "is_throttled_leader_of", _also_in_sync),),
        leaning=_much_to_copy,
        caught_by=3,
        throttles=True,
    ),
    "copied_at_any_rate": Variant(
        "What is copied of replicas out of sync does not count for the rate",
        ((ReplicationThrottle, "passed", _nothing_counts),),
        leaning=_much_to_copy,
        caught_by=3,
        throttles=True,
    ),
    "throttle_never_lifted": Variant(
        "A rate that is taken away goes on to hold",
        ((ReplicationThrottle, "set_rate", _never_lifted),),
        leaning=_much_to_copy,
        caught_by=3,
        throttles=True,
    ),
}
