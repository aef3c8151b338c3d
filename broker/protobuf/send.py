"""Send: messages and values."""

from __future__ import annotations

from collections.abc import Sequence

from pylog.rpc import apis
from pylog.rpc.v1 import records_service_pb2
from pylog_broker.api.send import RecordToSend, Send, SendHandler, SentRecord
from pylog_broker.protobuf.failures import error_of
from pylog_broker.protobuf.unary import AnyBound, Bound


def send_from(request: records_service_pb2.SendRequest) -> Send:
    """Records to store."""
    return Send(request.topic, [*map(_record, request.records)], request.timeout_ms)


def _record(told: records_service_pb2.RecordToSend) -> RecordToSend:
    return RecordToSend(
        told.value if told.HasField("value") else None,
        told.key if told.HasField("key") else None,
        tuple((h.name, h.value if h.HasField("value") else None) for h in told.headers),
        told.partition if told.HasField("partition") else None,
        told.timestamp_ms if told.HasField("timestamp_ms") else None,
    )


def records_sent(answers: Sequence[SentRecord]) -> records_service_pb2.SendResponse:
    """The outcome of each record."""
    return records_service_pb2.SendResponse(
        records=[
            records_service_pb2.SentRecord(
                error=error_of(answer.failure), partition=answer.partition, offset=answer.offset
            )
            for answer in answers
        ]
    )


def send_api(handler: SendHandler) -> AnyBound:
    """The gateway's API for clients that make no batches."""
    return Bound(apis.SEND, send_from, handler.handle, records_sent)
