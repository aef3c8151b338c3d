"""DescribeLogDirs and DescribeBroker: values as messages."""

from __future__ import annotations

from pylog.rpc.v1 import admin_pb2, common_pb2
from pylog_broker.api.broker_admin import LogDirsDescribed, LogDirView, ReplicaView
from pylog_broker.api.broker_description import BrokerDescribed, HostedReplica, ListenerView
from pylog_broker.protobuf.failures import error_of


def log_dirs_described(described: LogDirsDescribed) -> admin_pb2.DescribeLogDirsResponse:
    """A broker's log directories."""
    return admin_pb2.DescribeLogDirsResponse(
        broker_id=described.broker_id, directories=map(_directory, described.directories)
    )


def _directory(view: LogDirView) -> admin_pb2.LogDir:
    return admin_pb2.LogDir(
        error=error_of(view.failure),
        path=view.path,
        directory_id=view.directory_id,
        total_bytes=view.total_bytes,
        usable_bytes=view.usable_bytes,
        replicas=map(_replica, view.replicas),
    )


def _replica(view: ReplicaView) -> admin_pb2.LogDirReplica:
    return admin_pb2.LogDirReplica(
        error=error_of(view.failure),
        topic=view.topic_partition.topic,
        partition=view.topic_partition.partition,
        size_bytes=view.size_bytes,
        offset_lag=view.offset_lag,
        log_start_offset=view.log_start_offset,
        log_end_offset=view.log_end_offset,
    )


def broker_described(described: BrokerDescribed) -> admin_pb2.DescribeBrokerResponse:
    """A broker as it sees itself."""
    return admin_pb2.DescribeBrokerResponse(
        broker_id=described.broker_id,
        broker_epoch=described.broker_epoch,
        registered_ms=described.registered_ms,
        rack=described.rack or "",
        version=described.version,
        listeners=map(_listener, described.listeners),
        parts=[
            admin_pb2.BrokerPart(name=part.name, state=part.state.value, detail=part.detail)
            for part in described.parts
        ],
        replicas=map(_hosted, described.replicas),
    )


def _listener(view: ListenerView) -> admin_pb2.BrokerListener:
    listener = view.listener
    return admin_pb2.BrokerListener(
        name=listener.name,
        endpoint=common_pb2.Endpoint(host=listener.endpoint.host, port=listener.endpoint.port),
        protocol=listener.protocol,
        purpose=listener.purpose,
        open=view.is_open,
        connections=view.connections,
    )


def _hosted(replica: HostedReplica) -> admin_pb2.HostedReplica:
    state = replica.state
    return admin_pb2.HostedReplica(
        topic=state.topic_partition.topic,
        topic_id=state.topic_id,
        partition=state.topic_partition.partition,
        role=replica.role.value,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        log_start_offset=state.log_start_offset,
        high_watermark=state.high_watermark,
        log_end_offset=state.log_end_offset,
        directory_id=state.directory_id,
        fault=state.fault,
    )
