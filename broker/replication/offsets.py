"""Offsets by time or by name (ListOffsets) of partitions led here.

A look-up by time reads the log. Nobody waits for the disk here: cold pages are read by the pool
(`ColdRead`), and then everything is checked and looked up afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pylog.errors import InvalidRequest, KafkaStorageError, OffsetNotAvailable, PylogError
from pylog.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    Offset,
    OffsetAndTimestamp,
)
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.fetches import Warmup
from pylog_broker.replication.hosted import HostedPartitions, Missing
from pylog_broker.replication.messages import ColdRead, OffsetAnswer, OffsetQuery, OffsetsListed
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.waiting import WaitingRoom
from pylog_broker.storage.segments.segment_reader import PagesCold

COLD_READS_MAX: Final = 32
"""For one request. Where memory is so short that pages leave it as fast as they come, the look-up
waits for the disk after so many.
"""

_SPECIAL: Final = "-1 (latest), -2 (earliest) or -3 (largest timestamp)"


class OffsetLookUps:
    """The ListOffsets path of one broker."""

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        storage_failed: Callable[[Partition, Exception], None],
    ) -> None:
        self._hosted = hosted
        self._room = room
        self._storage_failed = storage_failed
        # token -> queries whose pages are being read, and for the how-many-th time
        self._cold: dict[object, tuple[Sequence[OffsetQuery], int]] = {}

    def list_offsets(self, queries: Sequence[OffsetQuery], token: object) -> None:
        """Answer, or ask for cold pages first."""
        self._look_up(queries, token, 0)

    def on_cold_read(self, read: ColdRead) -> None:
        """The pages were read."""
        found = self._cold.pop(read.token, None)
        if found is not None:
            self._look_up(found[0], read.token, found[1])

    def cancel(self, token: object) -> None:
        """Forget a request whose pages are being read."""
        self._cold.pop(token, None)

    def _look_up(self, queries: Sequence[OffsetQuery], token: object, reads: int) -> None:
        answers: list[OffsetAnswer] = []
        cold: list[PagesCold] = []
        for query in queries:
            partition = self._hosted.find(query.topic_partition)
            if isinstance(partition, Missing):
                answers.append(OffsetAnswer(query.topic_partition, partition.failure))
                continue
            try:
                answers.append(
                    answer_offset_query(
                        partition, query, self._storage_failed, nowait=reads < COLD_READS_MAX
                    )
                )
            except PagesCold as pages:
                cold.append(pages)
        if cold:
            self._cold[token] = queries, reads + 1
            self._room.outbox.append(ColdRead(token, Warmup(queries, cold)))
        else:
            self._room.outbox.append(OffsetsListed(token, tuple(answers)))


def answer_offset_query(
    partition: Partition,
    query: OffsetQuery,
    storage_failed: Callable[[Partition, Exception], None],
    *,
    nowait: bool,
) -> OffsetAnswer:
    """The offset; without one and without a failure, no record is that late. With `nowait` it may
    raise PagesCold.

    A new leader may not know yet how far its predecessor had committed. Until its high watermark
    has reached the start of its epoch, it does not say "latest", nor "none that late": a consumer
    would see the end move back (KIP-207).
    """
    fault = partition.leader_fault(query.current_leader_epoch)
    if fault is not None:
        return OffsetAnswer(partition.topic_partition, fault)
    try:
        return _answer(partition, query, nowait)
    except PylogError as error:
        if isinstance(error, KafkaStorageError):
            storage_failed(partition, error)
        return OffsetAnswer(partition.topic_partition, Failure(error.code, str(error)))


def _answer(partition: Partition, query: OffsetQuery, nowait: bool) -> OffsetAnswer:
    name, log = partition.topic_partition, partition.log
    if partition.awaited_markers and (
        query.read_committed or query.timestamp_ms == EARLIEST_TIMESTAMP
    ):
        return OffsetAnswer(name, _overwriting(partition))
    upper = partition.last_stable_offset if query.read_committed else partition.high_watermark
    match query.timestamp_ms:
        case t if t == LATEST_TIMESTAMP:
            unsure = _unsure(partition)
            if unsure is not None:
                return OffsetAnswer(name, unsure)
            time_ms = _time_from(partition, query.from_offset, upper, nowait)
            epoch = partition.leader_epoch
            return OffsetAnswer(name, None, partition.topic_id, upper, time_ms, epoch)
        case t if t == EARLIEST_TIMESTAMP:
            start = log.log_start_offset
            epoch = log.epochs.epoch_at(start)
            return OffsetAnswer(name, None, partition.topic_id, start, leader_epoch=epoch)
        case t if t == MAX_TIMESTAMP:
            return _found(partition, log.max_timestamp(upper_bound=upper, nowait=nowait))
        case t if t >= 0:
            found = log.offset_for_timestamp(t, upper_bound=upper, nowait=nowait)
            unsure = _unsure(partition) if found is None else None
            return OffsetAnswer(name, unsure) if unsure else _found(partition, found)
    return OffsetAnswer(
        name,
        Failure(
            InvalidRequest.code,
            f"timestamp {query.timestamp_ms} for {name}: it must be 0 or more, or {_SPECIAL}",
        ),
    )


def _time_from(partition: Partition, offset: int | None, upper: int, nowait: bool) -> int:
    """The time of the first record from an offset on; -1 where there is none, or none is wanted."""
    if offset is None or offset >= upper:
        return NO_TIMESTAMP
    found = partition.log.first_from(offset, upper_bound=upper, nowait=nowait)
    return NO_TIMESTAMP if found is None else found.timestamp_ms


def _found(partition: Partition, found: OffsetAndTimestamp | None) -> OffsetAnswer:
    name, topic_id = partition.topic_partition, partition.topic_id
    if found is None:
        return OffsetAnswer(name, None, topic_id)
    offset = Offset(found.offset)
    epoch = partition.log.epochs.epoch_at(offset)
    return OffsetAnswer(name, None, topic_id, offset, found.timestamp_ms, epoch)


def _overwriting(partition: Partition) -> Failure:
    """Its old records are gone, and the new ones do not count yet: it would look empty."""
    return Failure(
        OffsetNotAvailable.code,
        f"{partition.topic_partition} is being overwritten: it begins at "
        f"{partition.log.log_start_offset}, and the marker of the commit is on its way; retry",
    )


def _unsure(partition: Partition) -> Failure | None:
    leading = partition.leading
    assert leading is not None
    if partition.high_watermark >= leading.epoch_start_offset:
        return None
    return Failure(
        OffsetNotAvailable.code,
        f"the new leader of {partition.topic_partition} has confirmed records up to "
        f"{partition.high_watermark} only, its epoch began at {leading.epoch_start_offset}; retry",
    )
