"""One partition's records that are sent together: open while it takes records, then closed.

Pure. Covers what a batch holds and how it may be taken apart; which batch a record joins is the
accumulator's decision, when it is sent the sender's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from pylog.client.sending.record_times import RecordTimes
from pylog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition

HeaderList = Sequence[tuple[str, bytes | None]]

RECORD_OVERHEAD: Final = 21
"""The size of a record besides key, value and headers, at most: length, attributes, timestamp
delta, offset delta, two lengths and the number of headers, all but one as varints (Kafka's
MAX_RECORD_OVERHEAD).
"""
BATCH_OVERHEAD: Final = 61
"""Bytes of a batch's header."""


class BatchState(Enum):
    """The states of a batch. Whether it may be stored, and whether a later one was accepted before
    it, are facts of their own: they are so in each state. So is that it takes records, because that
    is looked at for each record, without the lock.
    """

    WAITING = "it is to be sent, for the first time or again"
    IN_FLIGHT = "it was sent, and is not answered"
    REFUSED = "for its sequence: it is not sent again under that"
    RESOLVED = "it is acknowledged, or has failed, or its parts go instead"

    following: tuple[BatchState, ...]


NEXT_STATES: Final = {
    BatchState.WAITING: (BatchState.IN_FLIGHT, BatchState.REFUSED, BatchState.RESOLVED),
    BatchState.IN_FLIGHT: (BatchState.WAITING, BatchState.REFUSED, BatchState.RESOLVED),
    BatchState.REFUSED: (BatchState.WAITING, BatchState.RESOLVED),
    BatchState.RESOLVED: (),
}
"""The states that may follow each one. A waiting batch is refused when a broker accepts a later
one; a refused one waits again under a fresh producer id. One that is resolved in flight, because
its time is up, may still be answered: that changes its lane, and not the batch.
"""
for _state, _following in NEXT_STATES.items():
    _state.following = _following  # for each batch a look-up by an enum would cost too much
_WAITING: Final = BatchState.WAITING
_IN_FLIGHT: Final = BatchState.IN_FLIGHT
_RESOLVED: Final = BatchState.RESOLVED


class Batch:
    """The records that will be, or were, sent together. Its bytes never change once sent.

    While it is open, `room` is what it still takes; closed, `room` is -1. `keys` and `headers`
    exist from the first record that has some.

    One thread, its topic's owner, may add a plain value, or a value and its key, without the
    producer's lock (`Producer.send`); every other thread that adds or closes holds it. That is safe
    as long as a statement sees what an earlier one of any thread did (the interpreter's lock): a
    thread that closes sets `closed` first and counts then; one that adds looks at `closed` last. If
    it is not set, the record was counted; if it is, whether the record's index is below the count
    tells, under the lock. A record that came too late stays behind the count, where nobody looks. A
    thread that adds has the batch in hand before it looks at the owner: if that is another thread
    by then, the batch is closed; and the lists before it looks for room: a batch that is closed and
    done has others.

    `delivery` (the callers that wait for the batch) and `handle` (the last one given out) belong to
    the shell; the sender owns all that stands below them.
    """

    __slots__ = (
        "_size",
        "attempts",
        "base_sequence",
        "broker",
        "closed",
        "counted",
        "created_ms",
        "delivery",
        "encoded",
        "fixed_count",
        "grew",
        "handle",
        "headers",
        "keys",
        "leader_epoch",
        "limit",
        "maybe_stored",
        "overtaken",
        "producer_epoch",
        "producer_id",
        "reserved",
        "room",
        "stamped_id",
        "state",
        "times",
        "topic_partition",
        "values",
    )

    def __init__(
        self, topic_partition: TopicPartition, created_ms: int, delivery: Any, limit: int
    ) -> None:
        """Open, for records of `limit` bytes together with the batch's header."""
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = None
        self.headers: list[HeaderList | None] | None = None
        self.times = RecordTimes()
        self.limit = limit
        self.room = limit - BATCH_OVERHEAD
        self._size = 0
        self.closed = False
        self.grew = False  # beyond what it was made for
        self.fixed_count = -1  # -1 while open: as many as there are values
        self.reserved = 0
        self.counted = 0  # bytes that the loop was told of
        self.delivery = delivery
        self.handle: Any = None
        self.encoded: bytes | None = None
        self.stamped_id: int = NO_PRODUCER_ID  # the producer id in `encoded`
        self.producer_id: int = NO_PRODUCER_ID
        self.producer_epoch: int = NO_PRODUCER_EPOCH
        self.base_sequence: int = NO_SEQUENCE
        self.state = _WAITING
        self.attempts = 0
        self.broker = -1  # that it was last sent to
        self.leader_epoch = -1
        self.maybe_stored = False
        self.overtaken = False  # a broker accepted a batch behind it before it

    def become(self, state: BatchState) -> None:
        """Change the state, as far as the table allows it."""
        assert state in self.state.following, (
            f"{self.topic_partition}: a batch that is {self.state.name} cannot become {state.name}"
        )
        self.state = state

    def come_back(self) -> None:
        """Nothing more is to be expected of what was sent, if it was. Its place is gone where a
        later one was accepted and this one certainly is not stored.
        """
        if self.state is _IN_FLIGHT:
            gone = self.overtaken and not self.maybe_stored
            self.become(BatchState.REFUSED if gone else _WAITING)

    @property
    def in_flight(self) -> bool:
        """Whether an answer is still to come, and awaited."""
        return self.state is _IN_FLIGHT

    @property
    def resolved(self) -> bool:
        """Whether its outcome is known."""
        return self.state is _RESOLVED

    @property
    def count(self) -> int:
        """Records so far."""
        return self.fixed_count if self.closed else len(self.values)

    @property
    def size(self) -> int:
        """An upper bound of its bytes, uncompressed."""
        return self._size if self.closed else self.limit - self.room

    def add(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: HeaderList | None,
        stamp: int,
        size: int,
    ) -> int:
        """The index of the added record. `size` is an upper bound of its bytes; the caller looked
        whether there is room, but for the first record, which may be as large as it likes. `stamp`
        is the wall clock in nanoseconds, or `~timestamp_ms` where the user gave one.

        `Producer.send` does the same by itself for records that are only a value and a key.
        """
        assert not self.closed
        index = len(self.values)
        # The value comes last, there and here: what is counted has its time and its key, whatever
        # Ctrl-C comes between.
        if stamp < 0:
            self.times.give(index, ~stamp)
        elif stamp >= self.times.until_ns:
            self.times.begin(index, stamp)
        if key is not None:
            if self.keys is None:
                self.keys = []
            self.keys.extend([None] * (index - len(self.keys)))
            self.keys.append(key)
        if headers:
            if self.headers is None:
                self.headers = []
            self.headers.extend([None] * (index - len(self.headers)))
            self.headers.append(headers)
        self.values.append(value)
        self.room -= size
        return index

    def trim(self) -> None:
        """Forget the key and headers of a record whose value did not come: an interrupted one's."""
        for column in (self.keys, self.headers):
            if column is not None:
                del column[len(self.values) :]

    def extend(self, more: int) -> None:
        """Take `more` bytes more."""
        assert not self.closed
        self.grew = True
        self.limit += more
        self.room += more

    def close(self) -> None:
        """No more records."""
        if self.fixed_count >= 0:  # the last but one thing done: it may have been interrupted
            return
        self._size = self.limit - self.room
        self.closed = True
        self.fixed_count = len(self.values)
        self.room = -1

    def close_encoded(self, encoded: bytes, count: int, timestamp: int) -> None:
        """Closed from the start: its bytes came ready. `timestamp` is the first record's."""
        self.encoded = encoded
        self.times.give(0, timestamp)
        self.closed = True
        self.room = -1
        self._size = len(encoded)
        self.fixed_count = count

    def columns(
        self,
    ) -> tuple[list[bytes | None], list[bytes | None] | None, list[HeaderList | None] | None]:
        """Values, keys and headers of a closed batch: copies, all of one length."""
        count = self.fixed_count
        keys: list[bytes | None] | None = None
        headers: list[HeaderList | None] | None = None
        if self.keys is not None:
            keys = [*self.keys[:count], *[None] * (count - len(self.keys))]
        if self.headers is not None:
            headers = [*self.headers[:count], *[None] * (count - len(self.headers))]
        return self.values[:count], keys, headers

    def forget_records(self) -> None:
        """Let the memory of an encoded or resolved batch go; times stay for the metadata."""
        self.values = []
        self.keys = None
        self.headers = None


Split = Callable[[Batch, int], Sequence[Batch]]
"""Takes a closed, encoded batch apart: at least two batches of its records, in their order, each of
at most so many bytes where its records allow it.
"""
