"""Fetch sessions: what each follower asked last, so that it repeats only what changed (KIP-227).

A follower's first fetch names all its partitions and opens a session; the ones after it carry the
session's id, an epoch that counts them, and only the partitions whose question changed. A session
also is where a fetch waits. An event of a partition touches the sessions that ask for it, and
no other partition of theirs is looked at: a thousand idle partitions cost nothing.

Pure. The news of a touched partition, and the reading of an answer, are
`broker/replication/replica_fetches.py`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pylog.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch
from pylog.model import BrokerEpoch, BrokerId
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.isr import FetchClock
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.replica_fetch_messages import ReplicaFetch, ReplicaPartitionFetch

NO_SESSION: Final = 0
"""The id of a fetch outside of any session, and of one that wants a new one."""
SESSIONLESS: Final = -1
"""The epoch of a fetch that names everything and wants no session."""
FIRST: Final = 0
"""The epoch of a fetch that names everything and opens a session."""
EPOCH_MAX: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """The epoch of the fetch after one of `epoch`; 0 and -1 mean something else."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


@dataclass(slots=True)
class ParkedFetch:
    """A fetch that waits for news. `deadline_ms` is when it is answered without any, or with marks;
    `ends_ms` when its own wait is over.
    """

    token: object
    min_bytes: int
    max_bytes: int
    deadline_ms: int
    ends_ms: int


class FetchSession:
    """One follower's questions to this leader.

    Invariants: `touched` and `outside` are subsets of `wanted`; a partition with news that the
    follower may not have heard of is in `touched`.
    """

    __slots__ = (
        "clock",
        "epoch",
        "follower",
        "follower_epoch",
        "outside",
        "parked",
        "session_id",
        "touched",
        "wanted",
    )

    def __init__(self, session_id: int, follower: BrokerId, follower_epoch: BrokerEpoch) -> None:
        self.session_id = session_id
        self.epoch = 1  # of the next fetch
        self.follower = follower
        self.follower_epoch = follower_epoch
        self.clock = FetchClock()
        self.wanted: dict[Partition, ReplicaPartitionFetch] = {}
        # partitions that may have something to tell; the one that was told last goes to the back,
        # so that a full answer does not starve the others
        self.touched: dict[Partition, None] = {}
        # partitions in whose ISR the follower is not, though it holds enough: every fetch is a
        # chance to join. A follower that holds less joins by a later fetch, which names them.
        self.outside: dict[Partition, None] = {}
        self.parked: ParkedFetch | None = None

    def outside_items(self) -> list[tuple[Partition, ReplicaPartitionFetch]]:
        """The questions about the partitions whose ISR the follower may join by this fetch."""
        return [
            (partition, self.wanted[partition])
            for partition in self.outside
            if partition.leading is not None and partition.leading.may_join_now(self.follower)
        ]


class FetchSessions:
    """The session of each follower: one, the newest.

    `wake(sessions)` is called, once for a happening, with those whose parked fetch may have to be
    answered; `expire(session)` at its deadline.
    """

    def __init__(
        self,
        wake: Callable[[Iterable[FetchSession]], None],
        expire: Callable[[FetchSession], None],
    ) -> None:
        self._last_id = NO_SESSION
        self._wake = wake
        self._expire = expire
        self.by_follower: dict[BrokerId, FetchSession] = {}
        """To look at, not to change."""
        self._watching: dict[Partition, dict[FetchSession, None]] = {}

    def __len__(self) -> int:
        """Fetches that wait."""
        return sum(session.parked is not None for session in self.by_follower.values())

    def number_from(self, broker_epoch: BrokerEpoch) -> None:
        """Ids differ from those of this broker's earlier lives."""
        self._last_id = (broker_epoch << 10) & EPOCH_MAX

    # ---- requests -------------------------------------------------------------------------------

    def begin(self, request: ReplicaFetch) -> FetchSession | Failure:
        """The session that the request belongs to, a new one for a request that names everything.

        The failure of one that goes on with a session which is not the newest or has missed a
        request: the follower then names everything again.
        """
        follower = request.replica_id
        session = self.by_follower.get(follower)
        if request.session_epoch <= FIRST:
            if session is not None:
                self.close(session)
            session_id = NO_SESSION if request.session_epoch == SESSIONLESS else self._new_id()
            session = FetchSession(session_id, follower, request.replica_epoch)
            self.by_follower[follower] = session
            return session
        if (
            session is None
            or session.session_id != request.session_id
            or (session.follower_epoch != request.replica_epoch or session.session_id == NO_SESSION)
        ):
            return Failure(
                FetchSessionIdNotFound.code,
                f"broker {follower} has no fetch session {request.session_id} here",
            )
        if request.session_epoch != session.epoch:
            return Failure(
                InvalidFetchSessionEpoch.code,
                f"fetch {request.session_epoch} of session {request.session_id} of broker "
                f"{follower}: expected {session.epoch}",
            )
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        return session

    def _new_id(self) -> int:
        self._last_id = next_epoch(self._last_id)
        return self._last_id

    def ask(self, session: FetchSession, partition: Partition, item: ReplicaPartitionFetch) -> None:
        """The follower's newest question about a partition."""
        if partition not in session.wanted:
            self._watching.setdefault(partition, {})[session] = None
        session.wanted[partition] = item
        session.touched[partition] = None
        leading = partition.leading
        if leading is None or session.follower not in leading.isr or partition in session.outside:
            self.isr_changed(partition)

    def forget(self, session: FetchSession, partition: Partition) -> None:
        """The follower asks for it no more, or has been refused it."""
        if session.wanted.pop(partition, None) is None:
            return
        session.touched.pop(partition, None)
        session.outside.pop(partition, None)
        watching = self._watching[partition]
        del watching[session]
        if not watching:
            del self._watching[partition]

    def close(self, session: FetchSession) -> None:
        """Its questions are void. A fetch that waits in it must have been answered."""
        session.parked = None
        for partition in list(session.wanted):
            self.forget(session, partition)
        if self.by_follower.get(session.follower) is session:
            del self.by_follower[session.follower]

    # ---- what happens ---------------------------------------------------------------------------

    def check(self, partition: Partition) -> None:
        """Anything may have changed about a partition: its log's end, its leader."""
        self.check_all((partition,))

    def check_all(self, partitions: Iterable[Partition]) -> None:
        """As `check` for each; one answer carries all that happened."""
        waiting: dict[FetchSession, None] = {}
        watching = self._watching
        for partition in partitions:
            for session in watching.get(partition, ()):
                session.touched[partition] = None
                if session.parked is not None:
                    waiting[session] = None
        if waiting:
            self._wake(waiting)

    def mark(self, partition: Partition, soon_ms: int) -> bool:
        """The high watermark or the log start moved: news, but they can wait until `soon_ms`.

        Whether a parked fetch is due then that was not before.
        """
        sooner = False
        for session in self._watching.get(partition, ()):
            item = session.wanted[partition]
            if item.high_watermark == partition.high_watermark and (
                item.log_start_offset >= partition.log.log_start_offset
            ):
                continue
            session.touched[partition] = None
            parked = session.parked
            if parked is not None and soon_ms < parked.deadline_ms:
                parked.deadline_ms = soon_ms
                sooner = True
        return sooner

    def isr_changed(self, partition: Partition) -> None:
        """A follower outside the ISR has a chance to join with each fetch. One that has joined gets
        at once what was held back for a rate: the leader's commits wait for it.
        """
        leading = partition.leading
        joined: list[FetchSession] = []
        for session in self._watching.get(partition, ()):
            held_back = session.parked is not None and partition in session.touched
            if held_back and leading is not None and session.follower in leading.isr:
                joined.append(session)
            if (
                leading is None
                or session.follower in leading.isr
                or not leading.has_enough_to_join(session.follower)
            ):
                session.outside.pop(partition, None)
            else:
                session.outside[partition] = None
        if joined:
            self._wake(joined)

    def advance(self, now_ms: int) -> None:
        """Answer the fetches whose time has come."""
        for session in list(self.by_follower.values()):
            parked = session.parked
            if parked is not None and parked.deadline_ms <= now_ms:
                self._expire(session)

    @property
    def next_deadline(self) -> int | None:
        """The time of the next call of `advance`; None: no fetch is parked."""
        earliest: int | None = None
        for session in self.by_follower.values():
            parked = session.parked
            if parked is not None and (earliest is None or parked.deadline_ms < earliest):
                earliest = parked.deadline_ms
        return earliest

    def withdraw(self, token: object) -> bool:
        """Nobody waits for this answer any more: the session ends with its connection."""
        for session in self.by_follower.values():
            if session.parked is not None and session.parked.token is token:
                self.close(session)
                return True
        return False
