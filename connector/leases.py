"""Read leases of batches: brokers keep what a batch is to read from retention and compaction, so
that all its tasks, those that are tried again too, read the same records.

The process that plans a stream's batches renews them, until the next batch is planned. A batch read
has no such process: its tasks renew the lease while they run, each for all of them. A lease that
cannot be had is warned of; the read goes on without it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.errors import PylogError
from pylog_connector.clients import reader_for
from pylog_connector.option_names import READ_LEASE, in_options
from pylog_connector.options import SourceOptions
from pylog_connector.ranges import PlannedLease, ReadRange

if TYPE_CHECKING:
    from pylog.client.ranges.lease_holder import HeldRange, LeaseHolder
    from pylog.client.ranges.range_reader import RangeReader

logger = logging.getLogger("pylog.connector")

TAKE_MS_MAX: Final = 1_000
"""The longest that planning waits for brokers to give leases."""
PAUSE_MS: Final = 60_000
"""For so long no lease is asked for where none was given, or a broker did not answer in time."""
REASONS_MAX: Final = 100
"""The reasons that are remembered, so as not to warn of the same at each batch."""


class StreamLeases:
    """The leases of one query's batches, one batch after the other."""

    def __init__(self, options: SourceOptions, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._clock = clock
        self._id = ""
        self._holder: LeaseHolder | None = None
        self._reader: RangeReader | None = None
        self._not_before_ms = 0
        self._warned: set[str] = set()
        self.is_held = False
        """A batch was planned, and is not known to be done."""

    def take(self, ranges: Sequence[ReadRange]) -> None:
        """Hold what a batch is to read, and no more what the one before it read."""
        now_ms = self._clock.monotonic_ms()
        held = _held(ranges)
        if not held:
            self.let_go()
            return
        if now_ms < self._not_before_ms:
            self._end_renewals()
            return
        try:
            holder = self._of_this_process()
            leased = holder.take(held, TAKE_MS_MAX)
        except PylogError as error:
            self._not_before_ms = now_ms + PAUSE_MS
            self._warn(f"{error.name}: {error}")
            return
        late = self._clock.monotonic_ms() - now_ms >= TAKE_MS_MAX
        if late or not leased.timeout_ms:
            self._not_before_ms = now_ms + PAUSE_MS
            for reason in leased.failed[:1]:
                self._warn(reason)
        for reason in leased.refused:
            self._warn(reason)
        if leased.timeout_ms:
            self.is_held = True
            holder.keep(held, leased.timeout_ms, self._warn)

    def let_go(self, *, at_once: bool = False) -> None:
        """The batch is done. `at_once`: this process may end when this returns."""
        if self._holder is not None and self.is_held:
            self.is_held = False
            try:
                self._holder.let_go(TAKE_MS_MAX if at_once else 0)
            except PylogError as error:
                logger.debug("read leases end by time: %s", error)

    def _of_this_process(self) -> LeaseHolder:
        reader = reader_for(self._options)
        if self._holder is None or reader is not self._reader:
            self._id = self._id or str(uuid.uuid4())
            self._reader, self._holder = reader, reader.lease_holder(self._id)
        return self._holder

    def _end_renewals(self) -> None:
        if self._holder is not None:
            self._holder.close()

    def _warn(self, reason: str) -> None:
        if reason not in self._warned:
            if len(self._warned) >= REASONS_MAX:
                self._warned.clear()
            self._warned.add(reason)
            _warn(self._options, reason)


def lease_batch(
    ranges: Sequence[ReadRange], options: SourceOptions, clock: Clock = SYSTEM_CLOCK
) -> PlannedLease | None:
    """A lease on what a batch read is to read, for its tasks to renew; None, with a warning, where
    brokers give none.
    """
    held, holder = _held(ranges), str(uuid.uuid4())
    if not held:
        return None
    try:
        leased = reader_for(options).lease_holder(holder).take(held, TAKE_MS_MAX)
    except PylogError as error:
        _warn(options, f"{error.name}: {error}")
        return None
    reasons = leased.refused if leased.timeout_ms else (*leased.refused, *leased.failed[:1])
    for reason in reasons:
        _warn(options, reason)
    if not leased.timeout_ms:
        return None
    return PlannedLease(holder, leased.timeout_ms, clock.wall_ms())


@contextmanager
def kept(
    lease: PlannedLease | None,
    ranges: Sequence[ReadRange],
    reader: RangeReader,
    options: SourceOptions,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[None]:
    """A task reads these ranges: the lease of its batch is renewed as long as the block lasts."""
    if lease is None:
        yield
        return
    holder = reader.lease_holder(lease.holder)
    # By another machine's clock, maybe: what cannot be is not believed.
    age_ms = clock.wall_ms() - lease.taken_ms
    told: Callable[[str], None] = lambda reason: _warn(options, reason)  # noqa: E731
    holder.keep(
        _held(ranges),
        lease.timeout_ms,
        told,
        everywhere=True,
        age_ms=age_ms if 0 <= age_ms < lease.timeout_ms else None,
    )
    try:
        yield
    finally:
        holder.close()


def _held(ranges: Sequence[ReadRange]) -> list[HeldRange]:
    """As far as they were known when they were planned. What is written later stays as long as what
    was written before.
    """
    from pylog.client.ranges.lease_holder import HeldRange

    return [
        HeldRange(each.topic, each.topic_id, each.partition, *each.known)
        for each in ranges
        if each.known[0] < each.known[1]
    ]


def _warn(options: SourceOptions, reason: str) -> None:
    logger.warning(
        "no read lease: retention or compaction may take records of a batch while it runs: %s. "
        "%s=false does without",
        in_options(reason, options.bootstrap_option),
        READ_LEASE,
    )
