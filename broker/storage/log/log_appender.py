"""The batches that may enter a log, as its leader and as a follower, and at which offsets.

Not here: what makes a client's batch valid (`validator`), what makes fetched batches follow one
another (`follower_batches`), and the writing itself (`log_writer`).
"""

from __future__ import annotations

from collections.abc import Callable

from pylog.model import NO_SEQUENCE, NO_TIMESTAMP, LeaderEpoch, Offset
from pylog.records.batch import CODEC_MASK, CONTROL_BIT, with_offset_and_epoch
from pylog_broker.storage.files import Buffer
from pylog_broker.storage.log.environment import RECOMPRESSED, AppendInfo
from pylog_broker.storage.log.follower_batches import FetchedBatches, read_fetched
from pylog_broker.storage.log.log_parts import LogParts
from pylog_broker.storage.log.log_truncator import LogTruncator
from pylog_broker.storage.log.log_writer import LogWriter
from pylog_broker.storage.log.validator import Origin, as_stored, checked_header


class LogAppender:
    """Checks all of it before the first byte is written. `Log` has checked that it is open."""

    def __init__(self, parts: LogParts, writer: LogWriter, truncator: LogTruncator) -> None:
        self._parts = parts
        self._environment = parts.environment
        self._guard = parts.guard
        self._segments = parts.segments
        self._producers = parts.producers
        self._durable = parts.durable
        self._gaps = parts.gaps
        self._bounds = parts.bounds
        self._writer = writer
        self._truncator = truncator

    def append_as_leader(
        self, batch: Buffer, leader_epoch: LeaderEpoch, wall_ms: int, origin: Origin
    ) -> AppendInfo:
        """The offsets of the batch; the errors of `Log.append_as_leader`."""
        config, bounds = self._parts.config, self._bounds
        latest = self._durable.epochs.latest
        assert leader_epoch >= latest, (leader_epoch, latest)
        producers = self._producers.now
        header = checked_header(
            batch,
            config,
            origin,
            wall_ms,
            self._environment.decompressed_bytes_max,
            producers.has_open,
        )
        by_broker = config.message_timestamp_type == "LogAppendTime"
        if header.producer_id >= 0 and not header.attributes & CONTROL_BIT:
            earlier = None
            if origin.internal and header.base_sequence == NO_SEQUENCE:
                producers.check_coordinators(header)
            else:
                earlier = producers.check(header, log_start_offset=bounds.start)
            if earlier is not None:
                return AppendInfo(
                    Offset(earlier.first_offset),
                    Offset(earlier.last_offset),
                    earlier.timestamp if by_broker else NO_TIMESTAMP,
                    Offset(bounds.start),
                    True,
                )
        if by_broker or config.compression_type != "producer":
            codec = header.attributes & CODEC_MASK
            batch, header = as_stored(batch, header, config, origin, wall_ms=wall_ms)
            if header.attributes & CODEC_MASK != codec:
                self._environment.counted[RECOMPRESSED] += 1
        base = bounds.end
        last = base + header.last_offset_delta
        head, rest = with_offset_and_epoch(batch, base, leader_epoch)
        place = (len(batch), base, last, header.max_timestamp)
        try:
            self._writer.write_one(place, head, rest, header, config, wall_ms, leader_epoch)
        except BaseException:
            bounds.end = self._segments.active.end_offset
            raise
        bounds.end = last + 1
        bounds.wall_ms = wall_ms
        self._durable.appended(wall_ms)
        stamp = wall_ms if by_broker else NO_TIMESTAMP
        size, count = len(batch), header.record_count
        # Not by its constructor, a Python function: half the price.
        return tuple.__new__(AppendInfo, (base, last, stamp, bounds.start, False, count, size))

    def append_as_follower(self, records: Buffer, wall_ms: int | None) -> AppendInfo:
        """The offsets of the batches; the errors of `Log.append_as_follower`."""
        bounds = self._bounds
        fetched = read_fetched(
            records,
            self._parts.topic_partition,
            bounds.end,
            latest_epoch=self._durable.epochs.epoch_at(Offset(bounds.end - 1)),
            may_begin_inside=self._segments.holds_nothing,
        )
        if not fetched.headers:
            end = bounds.end
            return AppendInfo(Offset(end), Offset(end - 1), -1, Offset(bounds.start))
        undo = None
        if fetched.has_gap or fetched.headers[0].base_offset < bounds.end:
            undo = self._prepare_for(fetched)
        wall_ms = bounds.wall_ms if wall_ms is None else wall_ms
        try:
            self._writer.write(fetched.placed, fetched.headers, self._parts.config, wall_ms)
        except BaseException:
            # Unless a batch got in that reaches the log start, the log begins anew at its old end.
            bounds.end = max(bounds.end, self._segments.active.end_offset)
            if undo is not None and self._segments.active.end_offset >= bounds.start:
                self._guard.finished(undo)
            raise
        if undo is not None:
            self._guard.finished(undo)
        last = fetched.headers[-1].last_offset
        bounds.end = last + 1
        bounds.wall_ms = wall_ms
        self._durable.appended(wall_ms)
        first, count, size = fetched.headers[0].base_offset, fetched.record_count, fetched.size
        fields = (first, last, NO_TIMESTAMP, bounds.start, False, count, size)
        return tuple.__new__(AppendInfo, fields)

    def _prepare_for(self, fetched: FetchedBatches) -> Callable[[], None] | None:
        """The work that undoes it, should no batch get in."""
        with self._guard.io("preparing an append"):
            if fetched.has_gap:
                self._gaps.note()
            first = fetched.headers[0].base_offset
            if first < self._bounds.end:
                return self._truncator.restart_before(first)
        return None
