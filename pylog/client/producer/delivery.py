"""The result of `send()`: a handle on one record, whose lock and result belong to its batch.

A `concurrent.futures.Future` per record costs microseconds and a condition each; a batch has one
lock, taken only by those who wait or register callbacks.
"""

from __future__ import annotations

import copy
import threading
import types
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import repeat
from sys import getrefcount
from typing import Final

from pylog import errors
from pylog.client.background import log_or_raise, on_loop_thread, shared_loop
from pylog.client.callers import kept_waiting
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.record_times import RecordTimes
from pylog.client.timeouts import seconds_or_none
from pylog.model import RecordMetadata, TopicPartition
from pylog.records import native

OnDelivery = Callable[[RecordMetadata | None, errors.PylogError | None], object]


class Delivery:
    """The outcome of one batch. Pending, then acknowledged or failed, once."""

    __slots__ = (
        "_base_offset",
        "_callbacks",
        "_error",
        "_lock",
        "_log_append_time_ms",
        "_parts",
        "_parts_left",
        "_record_index",
        "_times",
        "_told",
        "_told_indexes",
        "_topic_partition",
        "_waiters",
        "done",
    )

    def __init__(self) -> None:
        self.done = False
        self._lock = threading.Lock()
        self._waiters: list[threading.Lock] = []
        self._callbacks: list[Callable[[], object]] = []
        self._told: list[OnDelivery] = []
        self._told_indexes: list[int] = []
        self._topic_partition = TopicPartition("", -1)
        self._base_offset = -1
        self._log_append_time_ms = -1
        self._times: RecordTimes | None = None
        self._parts: list[tuple[int, Delivery]] = []  # of a split batch: (first record, its)
        self._parts_left = 0
        self._error: errors.PylogError | None = None
        self._record_index = -1

    # ---- the producer's side ------------------------------------------------------------------

    def succeed(
        self,
        topic_partition: TopicPartition,
        base_offset: int,
        log_append_time_ms: int,
        times: RecordTimes,
    ) -> None:
        """Acknowledged; wakes waiters and runs the callbacks in the order of the records."""
        self._topic_partition = topic_partition
        self._base_offset = base_offset
        self._log_append_time_ms = log_append_time_ms
        self._times = times
        self._finish()

    def fail(self, error: errors.PylogError, record_index: int) -> None:
        """Given up; `record_index` names the guilty record, -1 all of them."""
        self._error = error
        self._record_index = record_index
        self._finish()

    def split(self, parts: Sequence[tuple[int, Delivery]]) -> None:
        """The batch goes out in `parts`, each with its number of records, and is done when the last
        of them is; each record has its part's outcome.
        """
        first = 0
        for count, part in parts:
            self._parts.append((first, part))
            first += count
        self._parts_left = len(parts)
        for _, part in parts:
            part.add_callback(self._part_done)

    def _part_done(self) -> None:
        self._parts_left -= 1  # on the loop's thread only, which finishes all batches
        if not self._parts_left:
            self._finish()

    def _part_of(self, index: int) -> tuple[Delivery, int]:
        place = bisect_right(self._parts, index, key=lambda part: part[0]) - 1
        first, part = self._parts[place]
        return part, index - first

    def on_delivery(self, index: int, callback: OnDelivery) -> None:
        """Register `send(on_delivery=...)`; a batch's records come in their order."""
        with self._lock:
            if not self.done:
                # Two lists and not one of pairs, nor of closures: a new object per record that the
                # garbage collector follows costs more than all else that is done here.
                self._told_indexes.append(index)
                self._told.append(callback)
                return
        # Done before the thread that sent it came here: told on pylog's thread all the same.
        shared_loop().call(self._tell, [index], [callback])

    def _tell(self, indexes: Sequence[int], callbacks: Sequence[OnDelivery]) -> None:
        """`on_delivery` in the order of the records, and of their registration for each."""
        for callback, (metadata, error) in zip(callbacks, self._outcomes(indexes), strict=True):
            try:
                callback(metadata, error)
            except BaseException as fault:  # noqa: BLE001  the producer goes on
                log_or_raise(fault, "a delivery callback raised")

    def _outcomes(
        self, indexes: Sequence[int]
    ) -> Iterator[tuple[RecordMetadata | None, errors.PylogError | None]]:
        """The result of `metadata_of` or `error_of` for each of the records, in order."""
        if self._error is not None or self._parts:
            for index in indexes:
                error = self.error_of(index)
                yield (self.metadata_of(index) if error is None else None), error
            return
        topic, partition = self._topic_partition
        base = self._base_offset
        stamps: Iterable[int] = repeat(self._log_append_time_ms)
        if self._log_append_time_ms < 0 and self._times is not None:
            stamps = self._times.of(indexes)
        for index, stamp in zip(indexes, stamps, strict=False):
            yield RecordMetadata(topic, partition, base + index if base >= 0 else -1, stamp), None

    def _finish(self) -> None:
        with self._lock:
            self.done = True
            waiters, self._waiters = self._waiters, []
            callbacks, self._callbacks = self._callbacks, []
            indexes, self._told_indexes = self._told_indexes, []
            told, self._told = self._told, []
        for waiter in waiters:
            waiter.release()
        self._tell(indexes, told)
        for callback in callbacks:
            _run(callback)

    # ---- the handles' side --------------------------------------------------------------------

    def wait(self, timeout_s: float | None) -> bool:
        """Block until the outcome is there; False when `timeout_s` passed before."""
        if self.done:
            return True
        if on_loop_thread():
            raise errors.WrongThread(
                "waiting for a delivery inside a callback would wait for the callback's own thread"
            )
        waiter = threading.Lock()
        waiter.acquire()  # released by _finish
        with self._lock:
            if self.done:
                return True
            self._waiters.append(waiter)
        try:
            with kept_waiting(lambda: self._let_go(waiter)):
                waiter.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0))
        finally:
            self._let_go(waiter)
        return self.done

    def _let_go(self, waiter: threading.Lock) -> None:
        """It waits no more, or is to wait no more."""
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                waiter.release()

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Run `callback` when done, at once if that is now."""
        with self._lock:
            if not self.done:
                self._callbacks.append(callback)
                return
        _run(callback)

    def metadata_of(self, index: int) -> RecordMetadata:
        """The place in the log of the batch's record."""
        if self._parts:
            part, index = self._part_of(index)
            return part.metadata_of(index)
        topic, partition = self._topic_partition
        offset = self._base_offset + index if self._base_offset >= 0 else -1
        timestamp = self._log_append_time_ms
        if timestamp < 0 and self._times is not None:
            timestamp = self._times[index]
        return RecordMetadata(topic, partition, offset, timestamp)

    def error_of(self, index: int) -> errors.PylogError | None:
        """The error with which the record failed, or None."""
        if self._parts:
            part, index = self._part_of(index)
            return part.error_of(index)
        if self._error is None:
            return None
        if self._record_index in (-1, index):
            return copy.copy(self._error)
        return type(self._error)(
            f"another record of the same batch was refused, so none was stored: {self._error}"
        )


def _run(callback: Callable[[], object]) -> None:
    try:
        callback()
    except BaseException as error:  # noqa: BLE001  the producer goes on
        log_or_raise(error, "a delivery callback raised")


class DeliveryHandle:
    """A sent record's outcome, with the methods of a Future.

    Without a constructor, a call of which would cost a fifth of `Producer.send`: `handle_on` makes
    one, or `next_handle`.
    """

    __slots__ = ("_delivery", "_index")

    _delivery: Delivery
    _index: int

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """The place of the record in the log. Raises the record's error, or TimeoutError after
        `timeout` seconds without an outcome.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._delivery.metadata_of(self._index)

    def exception(self, timeout: float | None = None) -> errors.PylogError | None:
        """The record's error, None when it was acknowledged; TimeoutError as `result`."""
        delivery = self._delivery
        if not delivery.done and not delivery.wait(seconds_or_none(timeout)):
            raise TimeoutError(f"the record was neither acknowledged nor failed in {timeout} s")
        return delivery.error_of(self._index)

    def done(self) -> bool:
        """Whether `result` would return or raise at once."""
        return self._delivery.done

    def add_done_callback(self, callback: Callable[[DeliveryHandle], object]) -> None:
        """Call `callback(handle)` on pylog's thread when done; at once, here, if that is now.

        An error that the callback raises is logged.
        """
        if not callable(callback):
            raise errors.InvalidRequest(f"callback={callback!r}: give a callable (handle)")
        self._delivery.add_callback(lambda: callback(self))

    def as_future(self) -> Future[RecordMetadata]:
        """A real `concurrent.futures.Future`, for `wait`, `as_completed` and asyncio."""
        future: Future[RecordMetadata] = Future()
        future.set_running_or_notify_cancel()

        def settle() -> None:
            error = self._delivery.error_of(self._index)
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(self._delivery.metadata_of(self._index))

        self._delivery.add_callback(settle)
        return future

    def __repr__(self) -> str:
        if not self._delivery.done:
            return "<DeliveryHandle pending>"
        error = self._delivery.error_of(self._index)
        return f"<DeliveryHandle {error or self._delivery.metadata_of(self._index)}>"


def handle_on(delivery: Delivery, index: int) -> DeliveryHandle:
    """The handle of the batch's record `index`."""
    handle = DeliveryHandle()
    handle._delivery = delivery
    handle._index = index
    return handle


def _references_of_unshared() -> int:
    if not native.is_on():
        return -1  # each record has its own
    keeper = types.SimpleNamespace(handle=DeliveryHandle())
    handle = keeper.handle
    return getrefcount(handle)


UNSHARED: Final = _references_of_unshared()
"""The number of references to a batch's handle that `next_handle` counts if no other code has one:
the handle may be given out again, as CPython's own `zip` does with its tuples. A handle has no weak
references.
"""


def next_handle(batch: Batch, index: int) -> DeliveryHandle:
    """The handle of the record `index`: the batch's last one, if the caller dropped it, or another.

    Only for the one thread that adds to the batch without the lock: another one that replaced
    `batch.handle` meanwhile would take a reference from the count. `Producer.send` does the same in
    place.
    """
    handle: DeliveryHandle = batch.handle
    if getrefcount(handle) > UNSHARED:
        handle = batch.handle = handle_on(batch.delivery, index)
    handle._index = index
    return handle


def gather(handles: list[DeliveryHandle]) -> Future[list[RecordMetadata]]:
    """One future over several batches: all their metadata, or the first error."""
    future: Future[list[RecordMetadata]] = Future()
    future.set_running_or_notify_cancel()
    lock = threading.Lock()
    left = len(handles)
    if not handles:
        future.set_result([])

    def on_done(_handle: DeliveryHandle) -> None:
        nonlocal left
        with lock:
            left -= 1
            if left:
                return
        error = next((e for e in (h.exception() for h in handles) if e is not None), None)
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result([handle.result() for handle in handles])

    for handle in handles:
        handle.add_done_callback(on_done)
    return future
