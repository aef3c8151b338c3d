"""The way from acquired batches to a poll's result. On the user's thread; decoding happens outside
the lock.
"""

from __future__ import annotations

from collections import deque

from pylog import errors
from pylog.client.consumer.consumer_settings import UserCode
from pylog.client.share_consumer.share_decoding import decode
from pylog.client.share_consumer.share_loop import ShareLoop
from pylog.client.sharing.messages import Acquired
from pylog.clock import Clock
from pylog.records.record import Record

Found = list[tuple[Acquired, list[Record]]]


class ShareCollector:
    """The records of one share consumer that were decoded and not returned."""

    def __init__(
        self,
        loop: ShareLoop,
        code: UserCode,
        clock: Clock,
        *,
        max_poll_records: int,
        strict: bool,
        check_crcs: bool,
    ) -> None:
        self._loop = loop
        self._requests = loop.core.requests
        self._code = code
        self._clock = clock
        self._max_poll_records = max_poll_records
        self._strict = strict
        self._check_crcs = check_crcs
        self._items: deque[tuple[Acquired, list[Record] | errors.PylogError]] = deque()

    @property
    def has_some(self) -> bool:
        """Whether something may be there to be returned. The lock is held."""
        return bool(self._items or self._requests.buffer)

    def collect(self) -> Found:
        """Records: with a strict limit no more than `max_poll_records`, else whole batches until
        there are so many. Raises what stands in a record's place, once all before it was returned.
        """
        parts: Found = []
        left = self._max_poll_records
        self._drop_expired()
        while left > 0:
            if not self._items and not self._decode_next():
                break
            acquired, item = self._items[0]
            if isinstance(item, errors.PylogError):
                if parts:
                    break
                self._items.popleft()
                raise item
            records = item
            if self._strict and len(item) > left:
                records = item[:left]
                self._items[0] = (acquired, item[left:])
            else:
                self._items.popleft()
            parts.append((acquired, records))
            left -= len(records)
        return parts

    def _drop_expired(self) -> None:
        """Drop the records that an earlier poll has left and whose acquisition has expired. Records
        that are decoded now are returned however long that took: a slow deserializer would else
        lose all it gets.
        """
        now_ms = self._clock.monotonic_ms()
        with self._loop.lock:
            kept = [each for each in self._items if self._requests.holds(now_ms, each[0])]
        self._items = deque(kept)

    def _decode_next(self) -> bool:
        with self._loop.lock:
            acquired = self._requests.take(self._clock.monotonic_ms())
        if acquired is None:
            return False
        if self._code.cluster is not None:
            self._code.cluster.tell(self._loop.cluster.metadata.cluster_id)
        decoded = decode(acquired, self._code, check_crcs=self._check_crcs)
        if decoded.by_itself is not None:
            now_ms = self._clock.monotonic_ms()
            self._loop.ask(self._loop.core.acknowledge, now_ms, [decoded.by_itself])
        self._items.extend((acquired, item) for item in decoded.items)
        return True if self._items else self._decode_next()

    def clear(self) -> None:
        """Nothing of it is returned any more."""
        self._items.clear()
