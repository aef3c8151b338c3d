"""The messages of sinks, and values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pylog.errors import InvalidRequest
from pylog.model import TopicId
from pylog.rpc.v1 import sink_pb2
from pylog_broker.api.transactions.sinks import ListSinks, TaskBegun
from pylog_broker.coordinator.transactions.sink_messages import (
    AbortBatch,
    AlreadyDecided,
    BatchAborted,
    BatchDecided,
    BeginTask,
    DecideBatch,
    DecidedBatch,
    DescribedSink,
    ForgetSink,
    Member,
    OverwrittenTopic,
    PrepareTask,
    RenewTask,
    SinkKey,
    WrittenRange,
)
from pylog_broker.protobuf.transactions import identity_of

_SIGN: Final = 1 << 63


def key_from(message: sink_pb2.SinkKey) -> SinkKey:
    """The sink that a request is about. One that the request does not name has no name."""
    return SinkKey(message.query_id, message.sink_id)


def _key(key: SinkKey) -> sink_pb2.SinkKey:
    return sink_pb2.SinkKey(query_id=key.query_id, sink_id=key.sink_id)


def _member_from(message: sink_pb2.SinkMember) -> Member:
    if not message.transactional_id:
        raise InvalidRequest("a member has no transactional_id")
    identity = identity_of(message.producer_id, message.producer_epoch)
    return Member(message.transactional_id, identity)


def _member(member: Member) -> sink_pb2.SinkMember:
    producer_id, epoch = member.identity
    return sink_pb2.SinkMember(
        transactional_id=member.transactional_id, producer_id=producer_id, producer_epoch=epoch
    )


def _decision(made: DecidedBatch) -> sink_pb2.SinkDecision:
    return sink_pb2.SinkDecision(
        batch_id=made.batch_id,
        run_number=made.run_number,
        row_count=made.row_count,
        checksum=made.checksum % (2 * _SIGN),
        digest=made.digest,
        decided_ms=made.decided_ms,
        expires_ms=made.expires_ms,
        receipt=[
            sink_pb2.SinkRange(
                topic=each.topic,
                partition=each.partition,
                first_offset=each.first_offset,
                last_offset=each.last_offset,
            )
            for each in made.receipt
        ],
        overwritten=[
            sink_pb2.OverwrittenTopic(topic=topic, topic_id=topic_id, starts=starts)
            for topic, topic_id, starts in made.overwritten
        ],
    )


# ---- attempts -----------------------------------------------------------------------------------


def begin_from(request: sink_pb2.BeginSinkTaskRequest) -> BeginTask:
    """An attempt that begins."""
    return BeginTask(
        key_from(request.sink),
        request.run_id,
        request.batch_id,
        request.task,
        request.attempt,
        request.progress_group,
        request.progress_digest,
    )


def begun(answer: TaskBegun) -> sink_pb2.BeginSinkTaskResponse:
    """Its transaction, or what counts already."""
    given, lease_ms, of_progress = answer
    return sink_pb2.BeginSinkTaskResponse(
        member=_member(given) if isinstance(given, Member) else None,
        decided=_decision(given.batch) if isinstance(given, AlreadyDecided) else None,
        lease_ms=lease_ms,
        of_progress=of_progress,
    )


def renewal_from(request: sink_pb2.RenewSinkTaskRequest) -> RenewTask:
    """An attempt that still writes."""
    return RenewTask(key_from(request.sink), _member_from(request.member))


def renewed(_: None) -> sink_pb2.RenewSinkTaskResponse:
    """It may go on."""
    return sink_pb2.RenewSinkTaskResponse()


def prepared_from(request: sink_pb2.PrepareSinkTaskRequest) -> PrepareTask:
    """An attempt that has written all of its rows."""
    return PrepareTask(key_from(request.sink), _member_from(request.member), request.timeout_ms)


def prepared(_: None) -> sink_pb2.PrepareSinkTaskResponse:
    """It waits."""
    return sink_pb2.PrepareSinkTaskResponse()


# ---- batches ------------------------------------------------------------------------------------


def decision_from(request: sink_pb2.DecideSinkBatchRequest) -> DecideBatch:
    """A batch that is to count. Its checksum has all 64 bits; records have signed numbers."""
    checksum = request.checksum
    return DecideBatch(
        key_from(request.sink),
        request.run_id,
        request.batch_id,
        tuple(map(_member_from, request.members)),
        request.row_count,
        checksum - 2 * _SIGN if checksum >= _SIGN else checksum,
        request.digest,
        tuple(
            WrittenRange(each.topic, each.partition, each.first_offset, each.last_offset)
            for each in request.receipt
        ),
        request.keep_ms,
        tuple(
            OverwrittenTopic(each.topic, TopicId(each.topic_id), tuple(each.starts))
            for each in request.overwritten
        ),
        request.visible_timeout_ms,
        tuple(request.progress_groups),
    )


def decided(answer: BatchDecided) -> sink_pb2.DecideSinkBatchResponse:
    """It counts."""
    return sink_pb2.DecideSinkBatchResponse(decision=_decision(answer.batch), is_new=answer.is_new)


def abort_from(request: sink_pb2.AbortSinkBatchRequest) -> AbortBatch:
    """A batch, or an attempt, that is not to count."""
    return AbortBatch(
        key_from(request.sink),
        request.run_id,
        request.batch_id,
        request.whole_sink,
        _member_from(request.member) if request.HasField("member") else None,
        request.ends_run,
    )


def aborted(answer: BatchAborted) -> sink_pb2.AbortSinkBatchResponse:
    """So many of its attempts do not."""
    return sink_pb2.AbortSinkBatchResponse(attempts=answer.attempts)


# ---- administrators -----------------------------------------------------------------------------


def filter_from(request: sink_pb2.ListSinksRequest) -> ListSinks:
    """The sinks that a request asks for."""
    return ListSinks(request.query_id, request.sink_id, request.receipts)


def listed(answer: Iterable[DescribedSink]) -> sink_pb2.ListSinksResponse:
    """Their list."""
    return sink_pb2.ListSinksResponse(
        sinks=[
            sink_pb2.ListedSink(
                sink=_key(each.sink),
                run_id=each.run_id,
                last=None if each.decision is None else _decision(each.decision),
                open_attempts=each.open_attempts,
                prepared_attempts=each.prepared_attempts,
                held_since_ms=each.held_since_ms,
                prepared_since_ms=each.prepared_since_ms,
                progress_groups=each.progress_groups,
            )
            for each in answer
        ]
    )


def forget_from(request: sink_pb2.ForgetSinkRequest) -> ForgetSink:
    """A sink that is not needed any more."""
    return ForgetSink(key_from(request.sink))


def forgotten(_: None) -> sink_pb2.ForgetSinkResponse:
    """It is gone."""
    return sink_pb2.ForgetSinkResponse()
