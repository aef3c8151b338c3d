"""One follower broker fetching from one leader broker: which partitions, when, and after what.

Pure. One fetch for all partitions is normally in flight, as a long poll at the leader. When
partitions come in meanwhile (a new leader was elected, or one that was set aside is due), a second
fetch follows at once instead of waiting for the first to time out: a leader answers a follower's
parked fetch as soon as the next one of the same follower arrives.

Fetches after the first name only what changed (a fetch session, see `sessions.py`). The session
ends with any failure, and then and now without one; the next fetch names everything again. A leader
takes so many partitions in one fetch: the fetches after it name the rest.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from pylog.model import BrokerId, TopicId
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.replica_fetch_messages import ReplicaPartitionFetch
from pylog_broker.replication.sessions import FIRST, NO_SESSION, next_epoch

IN_FLIGHT_MAX: Final = 2


class LeaderFetcher:
    """The fetches from one leader broker.

    Invariants: a partition is either in `active` or in `aside`. In a session every active partition
    is in `_changed`, or the leader knows its question; it is then in `_known`.
    """

    def __init__(
        self, leader: BrokerId, backoff_ms: int, backoff_max_ms: int, named_max: int
    ) -> None:
        """`named_max`: how many partitions one fetch may name."""
        self.leader = leader
        self.active: dict[Partition, None] = {}
        self.aside: dict[Partition, int] = {}  # when to ask for it again
        # request ids, oldest first, and in which life of the session each was sent
        self.in_flight: dict[int, int] = {}
        self.failures = 0  # broken connections in a row
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._named_max = named_max
        self._not_before_ms = 0
        self.fresh = False  # partitions came in since the last request
        self._session_id = NO_SESSION
        self._session_epoch = FIRST  # of the next fetch
        self._life = 0  # grows with each session
        self._of_this_life = False  # whether the last answer was to a fetch of this session
        self._known: dict[Partition, ReplicaPartitionFetch] = {}
        self._changed: dict[Partition, None] = {}
        self._forgotten: dict[tuple[TopicId, int], None] = {}

    def add(self, partition: Partition) -> None:
        """Fetch this partition too, from the next request on."""
        self.aside.pop(partition, None)
        self.active[partition] = None
        self._forgotten.pop((partition.topic_id, partition.topic_partition.partition), None)
        self._changed[partition] = None
        self.fresh = True

    def remove(self, partition: Partition) -> None:
        """Do not fetch it any more; data in flight for it are ignored when they come."""
        self.active.pop(partition, None)
        self.aside.pop(partition, None)
        self._changed.pop(partition, None)
        if self._known.pop(partition, None) is not None:
            self._forgotten[partition.topic_id, partition.topic_partition.partition] = None

    def set_aside(self, partition: Partition, retry_at_ms: int) -> None:
        """Leave it out until `retry_at_ms`: one bad partition must not stop the others."""
        self.remove(partition)
        self.aside[partition] = retry_at_ms

    def answered_for(self, partition: Partition, *, refused: bool) -> None:
        """The leader said something about it: its question may be another one now. `refused`: the
        leader has dropped it from the session.
        """
        if partition in self.active:
            self._changed[partition] = None
            if refused:
                self._known.pop(partition, None)

    # ---- the session ----------------------------------------------------------------------------

    def next_fetch(
        self, request_id: int
    ) -> tuple[tuple[ReplicaPartitionFetch, ...], int, int, tuple[tuple[TopicId, int], ...]]:
        """The content of the fetch that goes out now: questions, session, epoch, forgotten."""
        if self._session_epoch == FIRST:
            self._life += 1
            named = islice(self.active, self._named_max)
            asked = {partition: partition.question() for partition in named}
            self._known = asked
            self._changed = dict.fromkeys(islice(self.active, len(asked), None))
            forgotten: tuple[tuple[TopicId, int], ...] = ()
        else:
            asked = {}
            for partition in islice(self._changed, self._named_max):
                question = partition.question()
                if self._known.get(partition) is not question:
                    asked[partition] = self._known[partition] = question
            self._changed = dict.fromkeys(islice(self._changed, self._named_max, None))
            forgotten = tuple(self._forgotten)
        for partition in asked:
            assert partition.following is not None
            partition.following.sent_in(request_id)
        self._forgotten.clear()
        session, epoch = self._session_id, self._session_epoch
        if epoch != FIRST:
            self._session_epoch = next_epoch(epoch)
        self.in_flight[request_id] = self._life
        self.fresh = False
        return tuple(asked.values()), session, epoch, forgotten

    @property
    def has_more_to_name(self) -> bool:
        """Whether the last fetch left something out that the next one names."""
        return bool(self._changed)

    def name_all_again(self) -> None:
        """End the session: the next fetch names every partition and opens a new one."""
        self._session_id, self._session_epoch = NO_SESSION, FIRST
        self._life += 1

    def due(self, now_ms: int) -> list[Partition]:
        """The partitions whose time aside is over: `add` them, or set them aside again."""
        return [partition for partition, at_ms in self.aside.items() if at_ms <= now_ms]

    def may_send(self, now_ms: int) -> bool:
        """Whether a fetch should go out now."""
        if not self.active or now_ms < self._not_before_ms:
            return False
        return not self.in_flight or (self.fresh and len(self.in_flight) < IN_FLIGHT_MAX)

    def answered(self, request_id: int) -> bool:
        """An answer came; False when it is one that is not waited for (any more)."""
        life = self.in_flight.pop(request_id, None)
        self._of_this_life = life == self._life
        return life is not None

    def on_success(self, session_id: int) -> None:
        """The connection works; the fetch belonged to this session of the leader."""
        self.failures = 0
        if self._of_this_life and self._session_epoch == FIRST and session_id != NO_SESSION:
            self._session_id, self._session_epoch = session_id, next_epoch(FIRST)

    def on_session_lost(self) -> None:
        """The leader does not know the session of a fetch."""
        if self._of_this_life:
            self.name_all_again()

    def on_failure(self, now_ms: int) -> None:
        """The connection broke, or the leader refused us as a whole: wait, longer each time."""
        self.in_flight.clear()
        self.name_all_again()
        wait = min(self._backoff_ms << min(self.failures, 16), self._backoff_max_ms)
        self.failures += 1
        self._not_before_ms = now_ms + wait

    def forgive(self) -> None:
        """The leader is a new process: try it at once, whatever its predecessor did."""
        self.failures = 0
        self._not_before_ms = 0

    @property
    def next_deadline(self) -> int | None:
        """The time at which a fetch is due without an event; None: only an event brings one."""
        earliest = min(self.aside.values()) if self.aside else None
        if self.active and not self.in_flight:
            wait = self._not_before_ms
            return wait if earliest is None else min(wait, earliest)
        return earliest
