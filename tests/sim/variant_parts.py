"""Parts of planted bugs of several kinds: what an override does, and what a seed draws more of."""

from __future__ import annotations

from dataclasses import replace

from pylog.model import Offset
from tests.sim.swarm import Swarm, Upkeep

FOR_EVER = Offset(2**62)


def not_at_all(_self: object, *_args: object) -> None:
    return None


def many_topics(swarm: Swarm) -> Swarm:
    """Topics of one name come after each other, and records of them are deleted."""
    if swarm.upkeep is None:
        return swarm
    return replace(
        swarm,
        faults=("recreate", "recreate", "delete_records", "kill"),
        fault_interval_ms=250.0,
        away_ms=500,
    )


def many_clients(swarm: Swarm) -> Swarm:
    """Several batches in flight, refused now and then, for several partitions."""
    clients = replace(
        swarm.clients,
        max_in_flight=5,
        batch_size=150,
        linger_ms=5,
        request_bytes_max=2_000,
        request_timeout_ms=1_000,
        delivery_timeout_ms=6_000,
    )
    return replace(
        swarm,
        partitions=2,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        producers=2,
        produce_interval_ms=20.0,
        records_max=10,
        faults=("kill", "reset", "one_way", "pause", "reset"),
        fault_interval_ms=400.0,
        away_ms=500,
        clients=clients,
    )


def much_forgotten(swarm: Swarm) -> Swarm:
    """Logs that do not begin at 0, of topics that change."""
    upkeep = Upkeep("delete", 700, 3_000, 0, 40, 0.0, 700.0, ())
    faults = ("reconfigure", "delete_records", "kill", "reset", "delete_records")
    return replace(many_clients(swarm), upkeep=upkeep, faults=faults, segment_bytes=1_024)
