"""Handlers for the tasks and the driver of a query whose batches count once, and for operators.

Each request names its sink, whose coordinator has all of its attempts. The coordinator decides in
`coordinator/transactions/sinks.py`; the handlers refuse malformed requests before it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, Final, NamedTuple

from pylog.errors import (
    InvalidRequest,
    InvalidTopic,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.model import is_internal, topic_name_fault
from pylog_broker.api.context import RequestContext
from pylog_broker.api.coordinators import TransactionCoordinators, TransactionOperation
from pylog_broker.api.limits import check_items, check_partitions
from pylog_broker.api.transactions.producers import COMMIT_TIMEOUT_MS, Take, call_with_id
from pylog_broker.coordinator.transactions.sink_messages import (
    KEEP_FOREVER,
    NAME_LENGTH_MAX,
    AbortBatch,
    AlreadyDecided,
    BatchAborted,
    BatchDecided,
    BeginTask,
    DecideBatch,
    DescribedSink,
    ForgetSink,
    Member,
    OverwrittenTopic,
    PrepareTask,
    RenewTask,
    SinkForgotten,
    SinkKey,
    WrittenRange,
    check_names,
)
from pylog_broker.metadata.image import MetadataImage

KEEP_MS_MAX: Final = 1 << 53
"""Some 285,000 years: the time of day and this are within 64 bits."""
RECEIPT_BYTES_MAX: Final = 500_000
"""The most bytes of a decision's receipt: the record of the decision has to hold it."""
_RANGE_BYTES: Final = 20
_TOPIC_BYTES: Final = 16
_START_BYTES: Final = 8
_OVERWRITTEN_BYTES: Final = 32


class TaskBegun(NamedTuple):
    """An attempt's transaction, which it renews within `lease_ms`; or what counts already.
    `of_progress`: it commits positions of a source.
    """

    given: Member | AlreadyDecided
    lease_ms: int
    of_progress: bool = False


class ListSinks(NamedTuple):
    """A request for the sinks of that query, and of that name; empty: any. `receipts`: with those
    of their decisions.
    """

    query_id: str = ""
    sink_id: str = ""
    receipts: bool = False


class SinksHandler:
    """Lives on the broker's loop. `take`: a producer id that was never given. `lease_ms`: for how
    long an attempt lives without being renewed. `image`: of overwritten topics.

    All but `list_sinks` raise InvalidRequest for names and numbers that no sink has; NotCoordinator
    where another broker coordinates it, CoordinatorLoadInProgress, and CoordinatorNotAvailable,
    also where nothing is committed in time; and what the operation of the coordinator raises.
    """

    def __init__(
        self,
        coordinators: TransactionCoordinators,
        take: Take,
        lease_ms: int,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._coordinators = coordinators
        self._take = take
        self._lease_ms = lease_ms
        self._image = image

    async def begin(self, _context: RequestContext, request: BeginTask) -> TaskBegun:
        """See `Sinks.begin`."""
        _check_batch(request.sink, request.run_id, request.batch_id)
        _check_not_negative("task", request.task)
        _check_not_negative("attempt", request.attempt)
        _check_length("progress_group", request.progress_group)
        _check_length("progress_digest", request.progress_digest)
        given: Member | AlreadyDecided = await call_with_id(
            self._coordinators,
            self._take,
            request.sink.transactional_id(0),
            lambda shard, number, wall_ms, fresh: shard.sinks.begin(
                wall_ms, number, request, fresh
            ),
        )
        return TaskBegun(given, self._lease_ms, bool(request.progress_group))

    async def renew(self, _context: RequestContext, request: RenewTask) -> None:
        """See `Sinks.renew`."""
        check_names(request.sink)
        await self._call(
            request.sink,
            lambda shard, number, wall_ms: shard.sinks.renew(wall_ms, number, request),
        )

    async def prepare(self, _context: RequestContext, request: PrepareTask) -> None:
        """See `Sinks.prepare`."""
        check_names(request.sink)
        _check_not_negative("timeout_ms", request.timeout_ms)
        await self._call(
            request.sink,
            lambda shard, number, wall_ms: shard.sinks.prepare(wall_ms, number, request),
        )

    async def decide(self, _context: RequestContext, request: DecideBatch) -> BatchDecided:
        """See `Sinks.decide`. Also raises UnknownTopicOrPartition, UnknownTopicId and InvalidTopic
        for a topic that cannot be overwritten.
        """
        _check_batch(request.sink, request.run_id, request.batch_id)
        check_items(len(request.members), "attempts")
        check_items(len(request.progress_groups), "groups")
        _check_not_negative("row_count", request.row_count)
        _check_not_negative("visible_timeout_ms", request.visible_timeout_ms)
        _check_length("digest", request.digest)
        if not KEEP_FOREVER <= request.keep_ms <= KEEP_MS_MAX:
            raise InvalidRequest(
                f"keep_ms={request.keep_ms}: it must be -1, or from 0 to {KEEP_MS_MAX}"
            )
        _check_receipt(request.receipt, request.overwritten)
        for each in request.overwritten:
            self._check_overwritten(each)
        decided: BatchDecided = await self._call(
            request.sink,
            lambda shard, number, wall_ms: shard.sinks.decide(wall_ms, number, request),
        )
        return decided

    async def abort(self, _context: RequestContext, request: AbortBatch) -> BatchAborted:
        """See `Sinks.abort`."""
        if request.whole_sink or request.member is not None:
            check_names(request.sink)
        else:
            _check_batch(request.sink, request.run_id, request.batch_id)
        aborted: BatchAborted = await self._call(
            request.sink,
            lambda shard, number, wall_ms: shard.sinks.abort(wall_ms, number, request),
        )
        return aborted

    async def list_sinks(self, _context: RequestContext, request: ListSinks) -> list[DescribedSink]:
        """The sinks that this broker coordinates. Raises CoordinatorLoadInProgress."""
        listed: list[list[DescribedSink]] = await self._coordinators.call_all(
            lambda shard, number, _wall_ms: shard.sinks.listed(
                number, request.query_id, request.sink_id
            )
        )
        found = list(chain.from_iterable(listed))
        return found if request.receipts else [_without_receipt(each) for each in found]

    async def forget(self, _context: RequestContext, request: ForgetSink) -> None:
        """See `Sinks.forget`."""
        check_names(request.sink)
        answer = await self._call(
            request.sink,
            lambda shard, number, wall_ms: shard.sinks.forget(wall_ms, number, request),
        )
        assert isinstance(answer, SinkForgotten)

    def _check_overwritten(self, asked: OverwrittenTopic) -> None:
        """Once it is decided nobody can refuse it."""
        topic, topic_id, starts = asked
        if is_internal(topic):
            raise InvalidTopic(f"topic {topic} is internal; nobody overwrites it")
        known = self._image().topics_by_name.get(topic)
        if known is None:
            raise UnknownTopicOrPartition(f"topic {topic} is to be overwritten, and is not known")
        if known.topic_id != topic_id:
            raise UnknownTopicId(
                f"topic {topic} is to be overwritten with the id {topic_id!r}, and has the id "
                f"{known.topic_id!r}: it was created anew"
            )
        if len(starts) > len(known.partitions):
            raise UnknownTopicOrPartition(
                f"topic {topic} is to be overwritten in {len(starts)} partitions, and has "
                f"{len(known.partitions)}"
            )

    async def _call(self, sink: SinkKey, operation: TransactionOperation) -> Any:
        return await self._coordinators.call(
            sink.transactional_id(0), operation, timeout_ms=COMMIT_TIMEOUT_MS
        )


def _check_batch(sink: SinkKey, run_id: str, batch_id: int) -> None:
    check_names(sink, run_id)
    _check_not_negative("batch_id", batch_id)


def _check_not_negative(field: str, value: int) -> None:
    if value < 0:
        raise InvalidRequest(f"{field}={value}: it must be 0 or more")


def _check_length(field: str, text: str) -> None:
    if len(text) > NAME_LENGTH_MAX:
        raise InvalidRequest(f"{field} has {len(text)} characters; the limit is {NAME_LENGTH_MAX}")


def _check_receipt(
    receipt: tuple[WrittenRange, ...], overwritten: tuple[OverwrittenTopic, ...]
) -> None:
    check_partitions(len(receipt))
    check_partitions(sum(len(each.starts) for each in overwritten))
    names = [each.topic for each in overwritten]
    for each in overwritten:
        if any(start < 0 for start in each.starts) or names.count(each.topic) > 1:
            raise InvalidRequest(
                f"overwritten: topic {each.topic} stands there twice, or begins below 0"
            )
    for written in receipt:
        _, partition, first, last = written
        if partition < 0 or not 0 <= first <= last:
            raise InvalidRequest(
                f"receipt: partition {partition} of a topic, from offset {first} to {last}: that "
                "is no range"
            )
    topics = {written.topic for written in receipt}
    for topic in topics.union(names):
        if (fault := topic_name_fault(topic)) is not None:
            raise InvalidRequest(f"receipt: {fault}")
    size = sum(len(topic) + _TOPIC_BYTES for topic in topics) + _RANGE_BYTES * len(receipt)
    size += sum(len(each.topic) + _OVERWRITTEN_BYTES for each in overwritten)
    size += sum(_START_BYTES * len(each.starts) for each in overwritten)
    if size > RECEIPT_BYTES_MAX:
        raise InvalidRequest(
            f"receipt takes {size} bytes, in {len(receipt)} ranges; the limit is "
            f"{RECEIPT_BYTES_MAX}: write to fewer partitions in one batch"
        )


def _without_receipt(sink: DescribedSink) -> DescribedSink:
    decision = sink.decision
    if decision is None:
        return sink
    return sink._replace(decision=decision._replace(receipt=(), overwritten=()))
