"""DescribeLogDirs: values as messages."""

from __future__ import annotations

from pylog.rpc.v1 import admin_pb2
from pylog_broker.api.broker_admin import LogDirsDescribed, LogDirView, ReplicaView
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
