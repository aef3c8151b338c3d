"""`StagingProducer`: a producer that writes for one attempt of a task after another, each in a
transaction of its own, which the batch's decision ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pylog import errors
from pylog.client.admin import sink_admin
from pylog.client.admin import sink_wire as admin_wire
from pylog.client.admin.sink_types import SinkListing
from pylog.client.background import logger
from pylog.client.producer.producer import Producer
from pylog.client.sinks.sink_calls import SinkCalls
from pylog.client.sinks.sink_types import (
    CoordinatorPorts,
    SinkAttempt,
    SinkBatch,
    SinkDecision,
    SinkKey,
    SinkMember,
    SinkRange,
)
from pylog.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

_NOBODY: Final = "__sink"
"""In place of a transactional id before the first attempt; nothing is sent under it."""
RENEWALS: Final = 3
"""So many in the time after which an attempt that is not renewed is aborted."""
RENEWAL_MS_MIN: Final = 10
ABORT_MS_MAX: Final = 1_500
"""An abort only spares readers the wait until the attempt is not renewed any longer. Spark gives a
cancelled task two seconds before it kills it.
"""


POSITIONS_MAX: Final = 1_000
"""The positions of one request: a coordinator writes their records at once."""


class Prepared(NamedTuple):
    """A stored attempt: its transaction, the offsets of its records, and the ports by which the
    driver reaches the coordinator that decides about it.
    """

    member: SinkMember
    ranges: tuple[SinkRange, ...]
    coordinator: CoordinatorPorts


class StagingProducer(Producer):
    """One thread at a time. After an error it is of no more use but to be closed, which aborts what
    it has written. Where the abort does not reach the coordinator, that aborts the attempt by
    itself: with the batch's decision, or when the attempt is not renewed any longer.
    """

    def __init__(self, *, bootstrap_servers: str | Iterable[str], **config: Any) -> None:
        super().__init__(bootstrap_servers=bootstrap_servers, transactional_id=_NOBODY, **config)
        self._calls = SinkCalls(self._cluster)
        self._attempt: SinkAttempt | None = None
        self._member: SinkMember | None = None
        self._renewing: asyncio.Future[None] | None = None
        self._fault: errors.PylogError | None = None

    @property
    def is_between_attempts(self) -> bool:
        """Whether it may begin the next attempt: the last one is prepared."""
        return self._attempt is None and not self._closed

    def begin_attempt(self, attempt: SinkAttempt) -> SinkDecision | None:
        """Open a transaction for the attempt, to which all that is sent from now on belongs. Not
        None: the decision about its batch, which counts already; nothing is to be written.

        Raises SinkRunSuperseded, SinkBatchDecided, RequestTimedOut after `max_block_ms`.
        """
        assert self.is_between_attempts
        begun = self._thread.run(self._calls.begin(attempt, self._max_block_ms))
        if begun.decided is not None:
            return begun.decided
        if begun.member is None:
            raise errors.UnknownServerError("the coordinator's answer has no transaction")
        self._attempt, self._member = attempt, begun.member
        self._of_transactions().adopt(*begun.member)
        self._thread.call(self._start_renewing, attempt.sink, begun.member, begun.lease_ms)
        return None

    def check_attempt(self) -> None:
        """Raise why the attempt cannot go on, if it was aborted."""
        if self._fault is not None:
            raise self._fault

    def send_positions(
        self, group: str, positions: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Commit these positions to a group of no members, with the attempt. They count when it
        does.
        """
        metadata = ConsumerGroupMetadata(group)
        wanted = sorted(positions.items())
        for first in range(0, len(wanted), POSITIONS_MAX):
            part = dict(wanted[first : first + POSITIONS_MAX])
            self._of_transactions().send_offsets(part, metadata)

    def prepare_attempt(self, wait_ms: int) -> Prepared:
        """Have everything that was sent stored, and its coordinator keep it for the decision, for
        up to `wait_ms`. From here on nothing renews it.
        """
        attempt, member = self._attempt, self._member
        assert attempt is not None
        assert member is not None
        self.check_attempt()
        transactions = self._of_transactions()
        transactions.prepare()
        self._thread.run(self._prepare(attempt.sink, member, wait_ms))
        self._attempt = None
        ranges = tuple(
            SinkRange(tp.topic, tp.partition, first, last)
            for tp, (first, last) in transactions.receipt().items()
        )
        return Prepared(member, ranges, self._calls.ports(attempt.sink))

    def decide(self, batch: SinkBatch) -> tuple[SinkDecision, bool]:
        """The decision, and whether it was made by this call."""
        return self._thread.run(self._calls.decide(batch, self._max_block_ms))

    def abort_batch(self, sink: SinkKey, run_id: str, batch_id: int, *, ends_run: bool) -> int:
        """The number of open attempts that were aborted, of the batch or, where it `ends_run`, of
        the whole run, which writes nothing more then.
        """
        aborting = self._calls.abort(sink, run_id, batch_id, self._max_block_ms, ends_run=ends_run)
        return self._thread.run(aborting)

    def sinks_named(self, sink_id: str) -> list[SinkListing]:
        """The sinks of that id, of whatever query, with the receipts of their last batches. Raises
        why a broker cannot tell.
        """
        request = admin_wire.list_request(None, sink_id, receipts=True)
        found, faults = self._thread.run(
            sink_admin.list_sinks(self._cluster, request, self._max_block_ms)
        )
        for fault in faults.values():
            raise fault
        return [each for of_broker in found.values() for each in of_broker]

    def abort_sink(self, query_id: str, sink_id: str) -> int:
        """The number of open attempts of the sink that were aborted."""
        key = admin_wire.key_message(query_id, sink_id)
        return self._thread.run(sink_admin.abort_sink(self._cluster, key, self._max_block_ms))

    def close(self, timeout: float | None = None) -> None:
        """As `Producer.close`; an attempt that is not prepared is aborted."""
        if not self._closed:
            self._thread.call(self._stop_renewing)
            self._abort_attempt()
        super().close(timeout)

    def _abort_attempt(self) -> None:
        """Abort the attempt, so that readers need not wait for it. Its batches that are still on
        their way are refused for their producer epoch.
        """
        attempt, member = self._attempt, self._member
        self._attempt = None
        if attempt is None or member is None or self._fault is not None:
            return
        try:
            self._thread.run(self._calls.abort_attempt(attempt.sink, member, ABORT_MS_MAX))
        except errors.PylogError as error:
            logger.warning(
                "%s: an attempt is not aborted yet, and will be by its time-out: %s",
                attempt.sink,
                error,
            )

    # ---- on the loop --------------------------------------------------------------------------

    async def _prepare(self, sink: SinkKey, member: SinkMember, wait_ms: int) -> None:
        try:
            await self._calls.prepare(sink, member, wait_ms, self._max_block_ms)
        finally:
            self._stop_renewing()

    def _start_renewing(self, sink: SinkKey, member: SinkMember, lease_ms: int) -> None:
        self._stop_renewing()
        self._renewing = asyncio.ensure_future(self._renew(sink, member, lease_ms))

    def _stop_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None

    async def _renew(self, sink: SinkKey, member: SinkMember, lease_ms: int) -> None:
        every_ms = max(lease_ms // RENEWALS, RENEWAL_MS_MIN)
        while True:
            await asyncio.sleep(every_ms / 1000)
            try:
                await self._calls.renew(sink, member, every_ms)
            except errors.PylogError as error:
                if not error.retriable:
                    self._fault = error
                    return
                logger.warning("%s: an attempt is not renewed: %s", sink, error)
