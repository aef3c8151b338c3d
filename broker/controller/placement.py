"""The choice of the brokers that hold the replicas of new partitions.

Round-robin over a ring in which neighbours stand in different racks (or on different hosts, when
not every broker names a rack). The first replicas, which lead, go round the ring; the others
follow at a distance that grows by one with every round, so that the partitions of a lost broker
are taken over by all others and not by one neighbour. This is Apache Kafka's scheme; like there,
brokers get equally many replicas when racks have equally many brokers. More replicas than racks are
spread over the racks as evenly as these have brokers, so that a lost rack takes as few as it can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from pylog.model import BrokerId
from pylog_broker.metadata.image import BrokerRegistration


@dataclass(frozen=True, slots=True)
class Spot:
    """A broker, and what its replicas should not share."""

    broker_id: BrokerId
    domain: str


def ring(brokers: Iterable[BrokerRegistration]) -> list[Spot]:
    """The brokers in an order in which neighbours have different racks or hosts, if they can."""
    registrations = sorted(brokers, key=lambda broker: broker.broker_id)
    racked = all(broker.rack for broker in registrations)
    domains: dict[str, list[Spot]] = {}
    for broker in registrations:
        domain = broker.rack if racked and broker.rack else broker.host_id
        domains.setdefault(domain, []).append(Spot(broker.broker_id, domain))
    rounds = zip_longest(*domains.values())
    return [spot for around in rounds for spot in around if spot is not None]


def place(
    spots: list[Spot], partitions: int, replication_factor: int, start: int
) -> list[tuple[BrokerId, ...]]:
    """The replicas of each of so many new partitions, preferred leader first.

    `start` turns the ring, so that topics of one partition do not all begin at the same broker.
    """
    count = len(spots)
    assert 1 <= replication_factor <= count
    placed = []
    for index in range(partitions):
        # The distance changes between whole rounds of this topic: within one, every broker is
        # somebody's follower equally often.
        shift = start // count + index // count
        first = (start + index) % count
        placed.append(_replicas(spots, first, shift, replication_factor))
    return placed


def _replicas(
    spots: list[Spot], first: int, shift: int, replication_factor: int
) -> tuple[BrokerId, ...]:
    chosen = [spots[first]]
    held = Counter({spots[first].domain: 1})
    others = len(spots) - 1
    while len(chosen) < replication_factor:
        # The next in order of those in a domain with the fewest: first one in each, and so on. A
        # domain of which all brokers are taken drops out.
        begin = shift + len(chosen) - 1
        around = (
            spots[(first + 1 + (begin + step) % others) % len(spots)] for step in range(others)
        )
        spot = min((s for s in around if s not in chosen), key=lambda s: held[s.domain])
        chosen.append(spot)
        held[spot.domain] += 1
    return tuple(spot.broker_id for spot in chosen)
