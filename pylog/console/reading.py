"""Reads the records that a page shows: a window of a topic, or what a search finds in it.

Blocking, for a thread of its own. A read ends at the ends that the partitions had when it began, at
its limit of records, or when it has looked at as much as one page may cost; then it says where to
go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from pylog import errors
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.console.asking import words_of
from pylog.console.wanted import PARTITIONS_MAX, Wanted, WantedError
from pylog.model import OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from pylog.client.consumer.consumer import Consumer
    from pylog.records.record import Record

READ_SECONDS: Final = 6.0
READ_RECORDS: Final = 200_000
READ_BYTES: Final = 64 << 20
POLL_SECONDS: Final = 0.25
NOTES_MAX: Final = 5
CONSUMER_SETTINGS: Final[Mapping[str, Any]] = {
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "fetch_max_bytes": 4 << 20,
    "max_partition_fetch_bytes": 1 << 20,
    "client_id": "pylog-console",
    "default_api_timeout_ms": 5_000,
}
"""A page reads little; what is fetched ahead of it is thrown away."""

OpenConsumer = Callable[..., "Consumer"]
Keep = Callable[["Record"], Any]


@dataclass(slots=True)
class Found:
    """The result of a read. `kept`: the results of `keep` for the records, in order. `positions`:
    where each partition goes on; `at_end`: whether each log ended there. `looked_at`: records in
    all.
    """

    kept: list[Any] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    at_end: bool = True
    looked_at: int = 0
    notes: list[str] = field(default_factory=list)


def read(open_consumer: OpenConsumer, wanted: Wanted, keep: Keep, clock: Clock = SYSTEM_CLOCK
         ) -> Found:  # fmt: skip
    """The records that are wanted. Raises what a consumer raises, and WantedError."""
    isolation = "read_committed" if wanted.committed else "read_uncommitted"
    with open_consumer(**CONSUMER_SETTINGS, isolation_level=isolation) as consumer:
        partitions, notes = _partitions(consumer, wanted)
        reader = _Reader(consumer, wanted, keep, clock)
        found = reader.newest(partitions) if wanted.start == "newest" else reader.on(partitions)
        found.notes[:0] = notes
        return found


def read_one(open_consumer: OpenConsumer, tp: TopicPartition, offset: int,
             clock: Clock = SYSTEM_CLOCK) -> Record | None:  # fmt: skip
    """The record at an offset; None where there is none. OffsetOutOfRange outside of the log."""
    with open_consumer(**CONSUMER_SETTINGS) as consumer:
        if tp.partition not in consumer.partitions_for(tp.topic):
            raise errors.UnknownTopicOrPartition(f"there is no partition {tp}")
        first, end = consumer.beginning_offsets(tp)[tp], consumer.end_offsets(tp)[tp]
        if not first <= offset < end:
            raise errors.OffsetOutOfRange(f"{tp}: offset {offset} is not from {first} to {end - 1}")
        consumer.assign([tp])
        consumer.seek(tp, offset)
        deadline_ms = clock.monotonic_ms() + READ_SECONDS * 1000
        while clock.monotonic_ms() < deadline_ms:
            for record in consumer.poll(POLL_SECONDS):
                return record if record.offset == offset else None
            if consumer.position(tp) >= end:
                return None
    raise errors.RequestTimedOut(f"{tp}: offset {offset} could not be read in {READ_SECONDS:.0f} s")


def _partitions(consumer: Consumer, wanted: Wanted) -> tuple[list[TopicPartition], list[str]]:
    known = consumer.partitions_for(wanted.topic)
    if wanted.partition is not None and wanted.partition not in known:
        raise WantedError(
            f"partition={wanted.partition}: {wanted.topic} has partitions 0 to {len(known) - 1}"
        )
    chosen: Sequence[int] = known if wanted.partition is None else [wanted.partition]
    if wanted.positions is not None:
        chosen = [number for number in chosen if number in wanted.positions]
        if not chosen:
            raise WantedError(f"at: {wanted.topic} has partitions 0 to {len(known) - 1}")
    notes = []
    if len(chosen) > PARTITIONS_MAX:
        chosen = chosen[:PARTITIONS_MAX]
        notes.append(
            f"{wanted.topic} has {len(known)} partitions, of which the first {PARTITIONS_MAX} are "
            "read here; choose a partition to see others"
        )
    return [TopicPartition(wanted.topic, number) for number in chosen], notes


class _Reader:
    """One read, on one thread."""

    def __init__(self, consumer: Consumer, wanted: Wanted, keep: Keep, clock: Clock) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._keep = keep
        self._clock = clock
        self._deadline_ms = clock.monotonic_ms() + READ_SECONDS * 1000
        self._ends: dict[TopicPartition, int] = {}

    def on(self, partitions: list[TopicPartition]) -> Found:
        """The records from the wanted start on, up to the limit."""
        partitions, firsts, notes = self._bounds(partitions)
        starts = self._starts(partitions, firsts)
        found = Found(notes=notes)
        for tp, at in starts.items():
            if at < firsts[tp] and self._wanted.start in ("offset", "positions"):
                found.notes.append(f"{tp}: the log begins at {firsts[tp]}")
        self._collect(starts, found, self._wanted.limit)
        return found

    def newest(self, partitions: list[TopicPartition]) -> Found:
        """The newest records that match. The window before the ends shrinks while its records are
        too large to be read, and grows while it holds too few that match.
        """
        partitions, firsts, notes = self._bounds(partitions)
        window = self._wanted.limit
        best = Found(positions={tp.partition: self._ends[tp] for tp in partitions})
        while True:
            found = Found()
            starts = {tp: max(self._ends[tp] - window, firsts[tp]) for tp in partitions}
            all_of_it = all(starts[tp] == firsts[tp] for tp in partitions)
            self._collect(starts, found, None)
            late = self._clock.monotonic_ms() >= self._deadline_ms
            if not found.at_end:
                if window > 1 and not late and not best.kept:
                    window = max(window // 8, 1)
                    continue
                found = best if best.kept else found
            enough = len(found.kept) >= self._wanted.limit or not found.at_end
            if enough or all_of_it or late or not self._wanted.filters:
                break
            best, window = found, window * 16
        if self._wanted.filters and not all_of_it and len(found.kept) < self._wanted.limit:
            found.notes.append(
                f"the newest {found.looked_at:,} records were looked through; to search further "
                "back, begin at a time or at the start"
            )
        found.notes += notes
        found.kept = found.kept[-self._wanted.limit :]
        found.positions = {tp.partition: self._ends[tp] for tp in partitions}
        found.at_end = True
        return found

    def _bounds(
        self, partitions: list[TopicPartition]
    ) -> tuple[list[TopicPartition], dict[TopicPartition, int], list[str]]:
        """The partitions that can be read now, their first offsets, and what to say of the rest."""
        self._ends, faults = _listed(self._consumer.end_offsets, partitions)
        firsts, more = _listed(self._consumer.beginning_offsets, list(self._ends))
        notes = [f"{tp} cannot be read now: {words_of(error)}" for tp, error in
                 {**faults, **more}.items()][:NOTES_MAX]  # fmt: skip
        return [tp for tp in partitions if tp in firsts], firsts, notes

    def _starts(
        self, partitions: list[TopicPartition], firsts: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        wanted = self._wanted
        if wanted.start == "offset":
            assert wanted.offset is not None
            return dict.fromkeys(partitions, wanted.offset)
        if wanted.start == "positions":
            assert wanted.positions is not None
            return {tp: wanted.positions[tp.partition] for tp in partitions}
        if wanted.start == "time":
            if not partitions:
                return {}
            at = self._consumer.offsets_for_times(dict.fromkeys(partitions, wanted.time_ms))
            return {
                tp: self._ends[tp] if (found := at[tp]) is None else found.offset
                for tp in partitions
            }
        return firsts

    def _collect(
        self, starts: Mapping[TopicPartition, int], found: Found, limit: int | None
    ) -> None:
        """Read from `starts` to the ends. With a limit: stop when so many match."""
        consumer, wanted, ends = self._consumer, self._wanted, self._ends
        firsts_kept: list[tuple[int, Any]] = []
        open_ = {tp for tp, at in starts.items() if at < ends[tp]}
        positions = dict(starts)
        consumer.assign(sorted(open_))
        for tp in open_:
            consumer.seek(tp, starts[tp])
        bytes_left = READ_BYTES
        while open_ and (limit is None or len(firsts_kept) < limit):
            if (
                bytes_left <= 0
                or found.looked_at >= READ_RECORDS
                or self._clock.monotonic_ms() >= self._deadline_ms
            ):
                found.at_end = False
                break
            polled = consumer.poll(POLL_SECONDS)
            for record in polled:
                tp = TopicPartition(record.topic, record.partition)
                if record.offset >= ends[tp] or (limit is not None and len(firsts_kept) >= limit):
                    continue
                found.looked_at += 1
                positions[tp] = record.offset + 1
                bytes_left -= len(record.value or b"") + len(record.key or b"")
                if wanted.matches(record):
                    firsts_kept.append((record.timestamp_ms, self._keep(record)))
            if limit is None or len(firsts_kept) < limit:
                reached = {tp: consumer.position(tp) for tp in open_}
                positions.update(reached)
                open_ = {tp for tp in open_ if reached[tp] < ends[tp]}
        if open_ and limit is not None and len(firsts_kept) >= limit:
            found.at_end = all(positions[tp] >= ends[tp] for tp in open_)
        firsts_kept.sort(key=lambda each: each[0])
        found.kept = [each for _, each in firsts_kept]
        found.positions = {tp.partition: at for tp, at in positions.items()}


def _listed(
    ask: Callable[..., dict[TopicPartition, int]], partitions: list[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, errors.PylogError]]:
    """The offsets of these partitions that came, and the faults of the rest."""
    if not partitions:
        return {}, {}
    try:
        return ask(partitions), {}
    except errors.PartialFailure as partly:
        results = cast("Mapping[TopicPartition, OffsetAndTimestamp | None]", partly.results)
        found = {tp: each.offset for tp, each in results.items() if each is not None}
        return found, cast("dict[TopicPartition, errors.PylogError]", dict(partly.errors))
    except errors.PylogError as error:
        if len(partitions) > 1:
            raise
        return {}, {partitions[0]: error}
