"""Protobuf messages from and to the clients' values, and gRPC's faults in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import grpc.aio

from pylog import errors
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.plain_text import escaped
from pylog.rpc.channel import ERROR_CODE_KEY
from pylog.rpc.v1 import common_pb2, log_pb2


def error_of(error: common_pb2.Error, where: str = "") -> errors.PylogError | None:
    """The error of one item, its message led by `where`; None for success."""
    if error.code == 0:
        return None
    if not where:
        return errors.from_code(error.code, error.message)
    message = error.message or errors.from_code(error.code).args[0]
    return errors.from_code(error.code, message if where in message else f"{where}: {message}")


def snapshot_of(response: log_pb2.MetadataResponse) -> ClusterSnapshot:
    """A metadata answer as a value."""
    return ClusterSnapshot(
        response.cluster_id,
        response.controller_epoch,
        tuple(broker_of(broker) for broker in response.brokers),
        _address_of(response.controller) if response.HasField("controller") else None,
        tuple(_topic_of(topic) for topic in response.topics),
        tuple(broker_of(broker) for broker in response.fenced_brokers),
        response.controller_since_ms,
    )


def broker_of(broker: common_pb2.Broker) -> BrokerInfo:
    """A registered broker."""
    return BrokerInfo(
        broker.id,
        _address_of(broker.endpoint),
        broker.rack,
        broker.epoch,
        _address_of(broker.stream_endpoint) if broker.HasField("stream_endpoint") else None,
        broker.fenced_since_ms,
    )


def _address_of(endpoint: common_pb2.Endpoint) -> Address:
    return Address(endpoint.host, endpoint.port)


def _topic_of(topic: log_pb2.TopicMetadata) -> TopicInfo:
    error = error_of(topic.error, f"topic {topic.name}")
    if error is not None:
        return TopicInfo(topic.name, topic.topic_id, error=error)
    by_number = {p.partition: p for p in topic.partitions}
    nobody = log_pb2.PartitionMetadata(leader=-1, leader_epoch=-1)
    partitions = (by_number.get(n, nobody) for n in range(max(by_number, default=-1) + 1))
    return TopicInfo(
        topic.name,
        topic.topic_id,
        topic.internal,
        tuple(
            PartitionInfo(
                p.leader,
                p.leader_epoch,
                tuple(p.replicas),
                tuple(p.isr),
                tuple(p.eligible_leader_replicas),
                tuple(p.offline_replicas),
            )
            for p in partitions
        ),
    )


NEVER_TAKEN: Final = (errors.InvalidRequest, errors.InvalidConfig, errors.UnsupportedVersion)
"""By these a server says that the request itself is wrong."""

NOT_CONNECTED = "no connection"
"""The message of `fault_of` when gRPC does not tell why: its poll engine may see the hang-up of a
failed connect before it asks for the error, and then only reports a descriptor that was shut
down."""


def refusal_of(error: grpc.aio.AioRpcError) -> errors.PylogError | None:
    """The server's error when it is the request itself that it will never take; else None."""
    told: Any = error.trailing_metadata() or ()
    for key, value in told:
        if key == ERROR_CODE_KEY:
            refused = errors.from_code(int(value))
            if isinstance(refused, NEVER_TAKEN):
                text = (error.details() or "").removeprefix(f"{refused.name}: ")
                return type(refused)(escaped(text))
    return None


def too_large_of(code: grpc.StatusCode, details: str) -> TooLarge | None:
    """The message and the limit that it met, when that is why a call failed."""
    # A server that is only busy, or out of memory, says so under the same status.
    return TooLarge.told_in(details) if code is grpc.StatusCode.RESOURCE_EXHAUSTED else None


def fault_of(error: BaseException, timeout_s: float | None = None) -> str:
    """The reason of a failed call, in a few words."""
    if isinstance(error, grpc.aio.AioRpcError):
        code, details = error.code(), escaped((error.details() or "").strip())
        refused = refused_by_gateway(details)
        if refused:
            return refused
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return "no answer" + (f" within {timeout_s:.3g} s" if timeout_s else "")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return f"it is not a pylog server, or an older one ({details})"
        for known in ("Connection refused", "Name or service not known", "No route to host"):
            if known.lower() in details.lower():
                return known.lower()
        if "fd shutdown" in details.lower():
            return NOT_CONNECTED
        if "dns" in details.lower() or "resolving" in details.lower():
            return f"the name cannot be resolved ({_cut(details)})"
        return f"{code.name}: {_cut(details)}" if details else code.name
    if isinstance(error, TimeoutError):
        return "no answer" + (f" within {timeout_s:.3g} s" if timeout_s else "")
    return _cut(escaped(str(error))) or type(error).__name__


def refused_by_gateway(details: str) -> str:
    """The gateway's reason why it cannot connect to a broker, in gRPC's words; empty if it is
    something else.
    """
    _, said, text = details.partition("Debug Text: the gateway ")
    return f"the gateway {text.partition(')')[0]}" if said else ""


def _cut(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."


def metadata_request(topics: Sequence[str], *, all_topics: bool) -> log_pb2.MetadataRequest:
    """The request; no topics and not all: only the brokers."""
    return log_pb2.MetadataRequest(topics=topics, all_topics=all_topics)
