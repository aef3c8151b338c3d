"""The waiting room: operations that cannot be answered yet, watched by what they wait for.

An operation is put in with its keys (partitions, say) and a deadline. Code that changes something
behind a key calls `check(key)`; every operation under it looks again and is completed if it can be.
At its deadline it is completed anyway, as expired. Either way exactly once, and all its traces go
in the same step: a waiting room through which a million requests passed is as small as a new one
(Apache Kafka purges its watch lists only now and then).

Pure, one owner. The operation itself defines its completion; usually it adds an effect to its
owner's list.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from pylog_broker.delayed.timing_wheel import TimerEntry, TimingWheel

K = TypeVar("K", bound=Hashable)


class DelayedOperation(Generic[K]):
    """Something that waits. Subclasses say when it is satisfied and what its end means."""

    __slots__ = ("_done", "_keys", "_timer")

    def __init__(self) -> None:
        self._done = False
        self._keys: tuple[K, ...] = ()
        self._timer: TimerEntry[DelayedOperation[K]] | None = None

    @property
    def done(self) -> bool:
        """Completed, expired or withdrawn: it will not be asked again."""
        return self._done

    def is_satisfied(self, key: K | None) -> bool:
        """Whether it can be completed now. `key` is what changed; None: look at everything."""
        raise NotImplementedError

    def on_complete(self, expired: bool) -> None:
        """Its end; called at most once."""
        raise NotImplementedError


class Purgatory(Generic[K]):
    """Waiting operations by key and by deadline.

    Invariant: an operation is under each of its keys and in the wheel, or it is done and nowhere.
    `on_failure` gets an operation that raised; it is then done, and the others go on.
    """

    def __init__(
        self,
        now_ms: int,
        on_failure: Callable[[DelayedOperation[K], Exception], None],
    ) -> None:
        self._on_failure = on_failure
        self._wheel: TimingWheel[DelayedOperation[K]] = TimingWheel(now_ms)
        self._watched: dict[K, dict[DelayedOperation[K], None]] = {}
        self._count = 0

    def __len__(self) -> int:
        """The number of operations that wait."""
        return self._count

    @property
    def watched_keys(self) -> int:
        """The number of keys that have at least one operation."""
        return len(self._watched)

    def has_waiting(self, key: K) -> bool:
        """Whether anything waits for `key`."""
        return key in self._watched

    def try_complete_else_watch(
        self, operation: DelayedOperation[K], keys: Iterable[K], deadline_ms: int
    ) -> bool:
        """True when the operation was completed at once; else it waits here."""
        if self._satisfied(operation, None):
            self._end(operation, expired=False)
        if operation._done:
            return True
        self.watch(operation, keys, deadline_ms)
        return False

    def watch(self, operation: DelayedOperation[K], keys: Iterable[K], deadline_ms: int) -> None:
        """Let it wait, without looking first."""
        assert not operation._done
        assert operation._timer is None, "an operation waits only once"
        operation._keys = tuple(dict.fromkeys(keys))
        watched = self._watched
        for key in operation._keys:
            operations = watched.get(key)
            if operations is None:
                watched[key] = {operation: None}
            else:
                operations[operation] = None
        operation._timer = self._wheel.add(deadline_ms, operation)
        self._count += 1

    def check(self, key: K) -> int:
        """Something changed behind `key`: complete what can be. The number completed."""
        operations = self._watched.get(key)
        if operations is None:
            return 0
        completed = 0
        for operation in list(operations):
            if operation._done:
                continue
            try:
                satisfied = operation.is_satisfied(key)
            except Exception as error:  # noqa: BLE001 - see _fail
                self._fail(operation, error)
                continue
            if satisfied:
                self._end(operation, expired=False)
                completed += 1
        return completed

    def check_all(self) -> int:
        """Something changed that concerns every key. The number completed."""
        return sum(self.check(key) for key in list(self._watched))

    def waiting(self, key: K) -> list[DelayedOperation[K]]:
        """The operations that wait for `key`, oldest first."""
        return list(self._watched.get(key, ()))

    def complete(self, operation: DelayedOperation[K]) -> bool:
        """Complete a waiting operation whatever it thinks; False when it was done."""
        if operation._done:
            return False
        self._end(operation, expired=False)
        return True

    def withdraw(self, operation: DelayedOperation[K]) -> bool:
        """Forget a waiting operation without completing it; False when it was done."""
        if operation._done:
            return False
        self._forget(operation)
        return True

    def advance(self, now_ms: int) -> int:
        """Complete, as expired, whatever is due. The number of them."""
        expired = 0
        for operation in self._wheel.advance(now_ms):
            if not operation._done:
                self._end(operation, expired=True)
                expired += 1
        return expired

    @property
    def next_deadline(self) -> int | None:
        """The time for the next call of `advance`, or None."""
        return self._wheel.next_deadline if self._count else None

    def _satisfied(self, operation: DelayedOperation[K], key: K | None) -> bool:
        try:
            return operation.is_satisfied(key)
        except Exception as error:  # noqa: BLE001 - see _fail
            self._fail(operation, error)
            return False

    def _end(self, operation: DelayedOperation[K], *, expired: bool) -> None:
        self._forget(operation)
        try:
            operation.on_complete(expired)
        except Exception as error:  # noqa: BLE001 - see _fail
            self._fail(operation, error)

    def _fail(self, operation: DelayedOperation[K], error: Exception) -> None:
        # One faulty operation must not keep the others waiting (KAFKA-17240): it is taken out, and
        # the owner decides how loud to be.
        if not operation._done:
            self._forget(operation)
        self._on_failure(operation, error)

    def _forget(self, operation: DelayedOperation[K]) -> None:
        operation._done = True
        timer = operation._timer
        if timer is None:
            return
        timer.cancel()
        operation._timer = None
        self._count -= 1
        watched = self._watched
        for key in operation._keys:
            operations = watched[key]
            del operations[operation]
            if not operations:
                del watched[key]
        operation._keys = ()
