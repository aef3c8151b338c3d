"""One follower broker fetching from one leader broker: which partitions, when, and after what.

Pure. One fetch for all partitions is normally in flight, as a long poll at the leader. When
partitions come in meanwhile (a new leader was elected, or one that was set aside is due), a second
fetch follows at once instead of waiting for the first to time out: a leader answers a follower's
parked fetch as soon as the next one of the same follower arrives.
"""

from __future__ import annotations

from typing import Final

from broker.replication.partition import Partition
from pylog.model import BrokerId

IN_FLIGHT_MAX: Final = 2


class LeaderFetcher:
    """The fetches from one leader broker.

    Invariant: a partition is either in `active` or in `aside`. `active` is in the order of asking:
    one that got data goes to the back, so that a full answer does not starve the others.
    """

    def __init__(self, leader: BrokerId, backoff_ms: int, backoff_max_ms: int) -> None:
        self.leader = leader
        self.active: dict[Partition, None] = {}
        self.aside: dict[Partition, int] = {}  # when to ask for it again
        self.in_flight: list[int] = []  # request ids, oldest first
        self.failures = 0  # broken connections in a row
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._not_before_ms = 0
        self._fresh = False  # partitions came in since the last request

    def add(self, partition: Partition) -> None:
        """Fetch this partition too, from the next request on."""
        self.aside.pop(partition, None)
        self.active[partition] = None
        self._fresh = True

    def remove(self, partition: Partition) -> None:
        """Do not fetch it any more; what is in flight for it is ignored when it comes."""
        self.active.pop(partition, None)
        self.aside.pop(partition, None)

    def set_aside(self, partition: Partition, retry_at_ms: int) -> None:
        """Leave it out until `retry_at_ms`: one bad partition must not stop the others."""
        self.active.pop(partition, None)
        self.aside[partition] = retry_at_ms

    def rotate(self, partition: Partition) -> None:
        """It got data: ask for it after the others next time."""
        if partition in self.active:
            del self.active[partition]
            self.active[partition] = None

    def due(self, now_ms: int) -> list[Partition]:
        """Take back, and return, the partitions whose time aside is over."""
        if not self.aside:
            return []
        back = [partition for partition, at_ms in self.aside.items() if at_ms <= now_ms]
        for partition in back:
            self.add(partition)
        return back

    def may_send(self, now_ms: int) -> bool:
        """Whether a fetch should go out now."""
        if not self.active or now_ms < self._not_before_ms:
            return False
        return not self.in_flight or (self._fresh and len(self.in_flight) < IN_FLIGHT_MAX)

    def sent(self, request_id: int) -> None:
        """A fetch of everything in `active` went out."""
        self.in_flight.append(request_id)
        self._fresh = False

    def answered(self, request_id: int) -> bool:
        """An answer came; False when it is one that is not waited for (any more)."""
        if request_id not in self.in_flight:
            return False
        self.in_flight.remove(request_id)
        return True

    def on_success(self) -> None:
        """The connection works."""
        self.failures = 0

    def on_failure(self, now_ms: int) -> None:
        """The connection broke, or the leader refused us as a whole: wait, longer each time."""
        self.in_flight.clear()
        wait = min(self._backoff_ms << min(self.failures, 16), self._backoff_max_ms)
        self.failures += 1
        self._not_before_ms = now_ms + wait

    def forgive(self) -> None:
        """The leader is a new process: try it at once, whatever its predecessor did."""
        self.failures = 0
        self._not_before_ms = 0

    @property
    def next_deadline(self) -> int | None:
        """When something is to be done here without an event."""
        waits = list(self.aside.values())
        if self.active and not self.in_flight:
            waits.append(self._not_before_ms)
        return min(waits, default=None)
