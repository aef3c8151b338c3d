"""Values of `sink_types` from and to protobuf messages. It imports no gRPC: drivers use it, too."""

from __future__ import annotations

from typing import Final

from pylog import errors
from pylog.client.sinks.sink_types import (
    FramedPort,
    OverwrittenTopic,
    SinkAttempt,
    SinkBatch,
    SinkDecision,
    SinkKey,
    SinkMember,
    SinkRange,
)
from pylog.rpc.v1 import group_pb2, log_pb2, sink_pb2

VISIBLE_MS: Final = 2_000
"""The longest time that a write waits until readers see it. Where a leader is away it returns then:
the batch counts all the same.
"""


def begin_request(attempt: SinkAttempt) -> sink_pb2.BeginSinkTaskRequest:
    """For an attempt that has rows, or positions."""
    return sink_pb2.BeginSinkTaskRequest(
        sink=key_message(attempt.sink),
        run_id=attempt.run_id,
        batch_id=attempt.batch_id,
        task=attempt.task,
        attempt=attempt.attempt,
        progress_group=attempt.progress_group,
        progress_digest=attempt.progress_digest,
    )


def decide_request(batch: SinkBatch) -> sink_pb2.DecideSinkBatchRequest:
    """For a batch of which all tasks have reported."""
    return sink_pb2.DecideSinkBatchRequest(
        sink=key_message(batch.sink),
        run_id=batch.run_id,
        batch_id=batch.batch_id,
        members=map(member_message, batch.members),
        row_count=batch.row_count,
        checksum=batch.checksum,
        digest=batch.digest,
        receipt=[
            sink_pb2.SinkRange(
                topic=each.topic,
                partition=each.partition,
                first_offset=each.first_offset,
                last_offset=each.last_offset,
            )
            for each in batch.receipt
        ],
        keep_ms=batch.keep_ms,
        overwritten=[
            sink_pb2.OverwrittenTopic(topic=topic, topic_id=topic_id, starts=starts)
            for topic, topic_id, starts in batch.overwritten
        ],
        visible_timeout_ms=VISIBLE_MS,
        progress_groups=batch.progress_groups,
    )


def abort_request(
    sink: SinkKey, run_id: str, batch_id: int, *, ends_run: bool
) -> sink_pb2.AbortSinkBatchRequest:
    """For a batch that failed, and with it perhaps its run."""
    return sink_pb2.AbortSinkBatchRequest(
        sink=key_message(sink), run_id=run_id, batch_id=batch_id, ends_run=ends_run
    )


def abort_attempt_request(sink: SinkKey, member: SinkMember) -> sink_pb2.AbortSinkBatchRequest:
    """For an attempt that failed."""
    return sink_pb2.AbortSinkBatchRequest(sink=key_message(sink), member=member_message(member))


def find_request(sink: SinkKey) -> group_pb2.FindCoordinatorRequest:
    """The request by which a client finds the sink's coordinator."""
    return group_pb2.FindCoordinatorRequest(
        type=group_pb2.COORDINATOR_TRANSACTION, keys=[sink.coordinated_as]
    )


def coordinator_in(response: group_pb2.FindCoordinatorResponse, sink: SinkKey) -> int:
    """The broker that the answer names; raises why there is none."""
    for found in response.coordinators:
        if found.key == sink.coordinated_as:
            raise_fault(found.error.code, found.error.message)
            return found.broker_id
    raise errors.CoordinatorNotAvailable(f"the answer does not name the coordinator of {sink}")


def ports_in(response: log_pb2.MetadataResponse) -> tuple[FramedPort, ...]:
    """The framed ports of all brokers that the answer tells of."""
    return tuple(
        FramedPort(broker.id, broker.stream_endpoint.host, broker.stream_endpoint.port)
        for broker in response.brokers
        if broker.HasField("stream_endpoint")
    )


def raise_fault(code: int, message: str) -> None:
    """Raise what the coordinator says, if it is a fault."""
    if code:
        raise errors.from_code(code, message)


def key_message(sink: SinkKey) -> sink_pb2.SinkKey:
    """A sink's key."""
    return sink_pb2.SinkKey(query_id=sink.query_id, sink_id=sink.sink_id)


def member_message(member: SinkMember) -> sink_pb2.SinkMember:
    """An attempt's transaction."""
    return sink_pb2.SinkMember(
        transactional_id=member.transactional_id,
        producer_id=member.producer_id,
        producer_epoch=member.producer_epoch,
    )


def member_of(message: sink_pb2.SinkMember) -> SinkMember:
    """An attempt's transaction."""
    return SinkMember(message.transactional_id, message.producer_id, message.producer_epoch)


def decision_of(message: sink_pb2.SinkDecision) -> SinkDecision:
    """A batch that counts."""
    return SinkDecision(
        message.batch_id,
        message.run_number,
        message.row_count,
        message.checksum,
        message.digest,
        message.decided_ms,
        message.expires_ms,
        tuple(
            SinkRange(each.topic, each.partition, each.first_offset, each.last_offset)
            for each in message.receipt
        ),
        tuple(
            OverwrittenTopic(each.topic, each.topic_id, tuple(each.starts))
            for each in message.overwritten
        ),
    )
