"""The Sink service's APIs, bound to a broker's handlers."""

from __future__ import annotations

from pylog.rpc import apis
from pylog.rpc.v1 import sink_pb2
from pylog_broker.api.transactions.sinks import SinksHandler
from pylog_broker.protobuf import sinks
from pylog_broker.protobuf.groups import refusal
from pylog_broker.protobuf.unary import AnyBound, Bound


def sink_apis(handler: SinksHandler) -> tuple[AnyBound, ...]:
    """The requests of queries whose batches count once, and of administrators of sinks, bound to
    the handler."""
    return (
        Bound(
            apis.BEGIN_SINK_TASK,
            sinks.begin_from,
            handler.begin,
            sinks.begun,
            refusal(sink_pb2.BeginSinkTaskResponse),
        ),
        Bound(
            apis.RENEW_SINK_TASK,
            sinks.renewal_from,
            handler.renew,
            sinks.renewed,
            refusal(sink_pb2.RenewSinkTaskResponse),
        ),
        Bound(
            apis.PREPARE_SINK_TASK,
            sinks.prepared_from,
            handler.prepare,
            sinks.prepared,
            refusal(sink_pb2.PrepareSinkTaskResponse),
        ),
        Bound(
            apis.DECIDE_SINK_BATCH,
            sinks.decision_from,
            handler.decide,
            sinks.decided,
            refusal(sink_pb2.DecideSinkBatchResponse),
        ),
        Bound(
            apis.ABORT_SINK_BATCH,
            sinks.abort_from,
            handler.abort,
            sinks.aborted,
            refusal(sink_pb2.AbortSinkBatchResponse),
        ),
        Bound(
            apis.LIST_SINKS,
            sinks.filter_from,
            handler.list_sinks,
            sinks.listed,
            refusal(sink_pb2.ListSinksResponse),
        ),
        Bound(
            apis.FORGET_SINK,
            sinks.forget_from,
            handler.forget,
            sinks.forgotten,
            refusal(sink_pb2.ForgetSinkResponse),
        ),
    )
