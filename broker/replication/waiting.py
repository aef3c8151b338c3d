"""The operations that wait on this broker, the events that wake them, and the effects of the step
in progress.

One WaitingRoom belongs to one ReplicaManager; its parts share it. Each step of the manager begins
with `begin`; whatever happens leaves its effects in `outbox` in the order of happening, and whoever
ends the step takes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pylog.errors import ThrottlingQuotaExceeded
from pylog_broker.delayed.purgatory import DelayedOperation, Purgatory
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import Effect, OperationFailed
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.sessions import FetchSessions
from pylog_broker.replication.settings import ReplicationSettings


class WaitingOperation(DelayedOperation[Partition]):
    """A request of somebody who holds `token`."""

    __slots__ = ("token",)

    def __init__(self, token: object) -> None:
        super().__init__()
        self.token = token

    def on_fault(self, error: Exception) -> Effect:
        """The answer to give when this program fails over the request."""
        raise NotImplementedError


class WaitingRoom:
    """The operations that wait, by the partitions that they wait for.

    produces        a partition's high watermark (or the loss of its leadership)
    fetches         the same: consumers read below it
    replica_fetches a leader's log end, and less urgently its high watermark and log start
    deletions       followers' log starts
    """

    replica_fetches: FetchSessions
    """Set by `ReplicaFetches`, which answers them."""

    def __init__(self, now_ms: int, settings: ReplicationSettings) -> None:
        self.settings = settings
        self.now_ms = now_ms
        self.until_ms = now_ms
        """Nothing here is due before. Noted where a deadline arises, by `due`: a step would spend
        more on looking at all that waits than on its work. `on_time` alone looks at everything.
        """
        self.outbox: list[Effect] = []
        self.produces: Purgatory[Partition] = Purgatory(now_ms, self._on_failure)
        self.fetches: Purgatory[Partition] = Purgatory(now_ms, self._on_failure)
        self.deletions: Purgatory[Partition] = Purgatory(now_ms, self._on_failure)
        self._by_token: dict[object, tuple[WaitingOperation, Purgatory[Partition]]] = {}

    def begin(self, now_ms: int) -> None:
        """A step begins; time never goes back."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms

    def due(self, at_ms: int) -> None:
        """Something is to be done at that time."""
        if at_ms < self.until_ms:
            self.until_ms = at_ms

    def __len__(self) -> int:
        return (
            len(self.produces) + len(self.fetches) + len(self.replica_fetches) + len(self.deletions)
        )

    def full(self) -> Failure | None:
        """The refusal of one more waiting request, when there are too many."""
        # each operation that waits has a token, and each follower one fetch at most
        waiting, limit = len(self._by_token), self.settings.waiting_requests_max
        if waiting + len(self.replica_fetches.by_follower) < limit:
            return None
        if waiting + len(self.replica_fetches) < limit:
            return None
        return Failure(
            ThrottlingQuotaExceeded.code,
            f"{len(self)} requests wait on this broker, the limit is "
            f"{self.settings.waiting_requests_max}; try again later",
        )

    def wait(
        self,
        purgatory: Purgatory[Partition],
        operation: WaitingOperation,
        keys: Collection[Partition],
        deadline_ms: int,
    ) -> None:
        """Let it wait; `cancel` finds it by its token."""
        purgatory.watch(operation, keys, deadline_ms)
        self._by_token[operation.token] = (operation, purgatory)
        if deadline_ms < self.until_ms:
            self.until_ms = deadline_ms

    def complete_or_wait(
        self,
        purgatory: Purgatory[Partition],
        operation: WaitingOperation,
        keys: Collection[Partition],
        deadline_ms: int,
    ) -> None:
        """Complete it at once if it can be; else let it wait."""
        self._by_token[operation.token] = (operation, purgatory)
        purgatory.try_complete_else_watch(operation, keys, deadline_ms)
        self.due(deadline_ms)

    def finished(self, operation: WaitingOperation) -> None:
        """It is answered; called by the operation when it completes."""
        self._by_token.pop(operation.token, None)

    def cancel(self, token: object) -> bool:
        """Nobody waits for this answer any more: forget the request. False: it does not wait."""
        found = self._by_token.pop(token, None)
        if found is None:
            return self.replica_fetches.withdraw(token)
        return found[1].withdraw(found[0])

    # ---- what wakes -----------------------------------------------------------------------------

    def high_watermark_moved(self, partition: Partition) -> None:
        """Answer consumers and producers now, in this order: records are waited for, and what tells
        a producer of them comes some microseconds later. Followers may hear of it later still.
        """
        self.fetches.check(partition)
        self.produces.check(partition)
        self.mark_followers(partition)

    def appended(self, partitions: Iterable[Partition]) -> None:
        """Followers have something to fetch."""
        self.replica_fetches.check_all(partitions)

    def mark_followers(self, partition: Partition) -> None:
        """A mark moved without data: parked fetches of followers end soon instead of late."""
        soon_ms = self.now_ms + self.settings.high_watermark_linger_ms
        if self.replica_fetches.mark(partition, soon_ms):
            self.due(soon_ms)

    def log_start_moved(self, partition: Partition) -> None:
        """The leader's or a follower's log start moved."""
        self.deletions.check(partition)

    def role_changed(self, partition: Partition) -> None:
        """The partition is led from elsewhere, or by nobody, or in a new epoch: wake everyone."""
        for waiting in (self.produces, self.fetches, self.replica_fetches, self.deletions):
            waiting.check(partition)

    def advance(self) -> None:
        """Answer what has waited long enough."""
        for waiting in (self.produces, self.fetches, self.replica_fetches, self.deletions):
            waiting.advance(self.now_ms)

    @property
    def next_deadline(self) -> int | None:
        """The time of the next call of `advance`; None: no delayed operation waits."""
        earliest: int | None = None
        for waiting in (self.produces, self.fetches, self.replica_fetches, self.deletions):
            at = waiting.next_deadline
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        return earliest

    def _on_failure(self, operation: DelayedOperation[Partition], error: Exception) -> None:
        assert isinstance(operation, WaitingOperation)
        self.finished(operation)
        self.outbox.append(operation.on_fault(error))
        self.outbox.append(OperationFailed(type(operation).__name__, error))
