"""The number of producers that the logs of a broker may know, and the number that they do.

Pure. Only a leader asks it, and only for a producer that its log does not know: a follower and a
start take what the leader has stored, whatever the limit, or replicas would part. So a producer
that is known is never refused, and none is forgotten to make room for another: that would make its
next retry a second copy.
"""

from __future__ import annotations

from typing import Final

from pylog.config import LONG_MAX
from pylog.errors import ThrottlingQuotaExceeded
from pylog_broker.config import BrokerConfig

RESERVED: Final = 100
"""Producers that every log may know when the broker's number is reached, so that a flood in one
topic does not close the others."""

_CURE: Final = (
    "keep a producer instead of making one for each task; idle producer ids are forgotten after "
    "producer.id.expiration.ms"
)


class ProducerBudget:
    """One for all logs of a broker. `known` counts every producer that comes, and is set right by
    each `counted`: those that go are noticed then.
    """

    def __init__(self, *, partition_max: int = LONG_MAX, broker_max: int = LONG_MAX) -> None:
        self.partition_max = partition_max
        self.broker_max = broker_max
        self.known = 0
        self.refused: dict[str, int] = {"partition": 0, "broker": 0}
        """Batches, by whose limit was reached."""
        self._counted: dict[str, int] = {}

    def configure(self, config: BrokerConfig) -> None:
        """The broker's limits, which change while it runs."""
        self.partition_max = config.max_producer_ids_per_partition
        self.broker_max = config.max_producer_ids

    def counted(self, directory: str, count: int) -> None:
        """The logs of a directory know so many producers."""
        self._counted[directory] = count
        self.known = sum(self._counted.values())

    def check(self, producer_id: int, known_in_partition: int) -> None:
        """ThrottlingQuotaExceeded when a log that knows so many may not get to know one more."""
        if known_in_partition >= self.partition_max:
            self.refused["partition"] += 1
            raise ThrottlingQuotaExceeded(
                f"producer {producer_id} is new to this partition, which knows "
                f"{known_in_partition} producer ids, as many as "
                f"max.producer.ids.per.partition={self.partition_max} allows: {_CURE}, or raise "
                "that limit"
            )
        if self.known >= self.broker_max and known_in_partition >= RESERVED:
            self.refused["broker"] += 1
            raise ThrottlingQuotaExceeded(
                f"producer {producer_id} is new to this partition, and the partitions of this "
                f"broker know {self.known} producer ids, as many as "
                f"max.producer.ids={self.broker_max} allows: {_CURE}, or raise that limit"
            )
