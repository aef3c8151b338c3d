"""Failures as messages."""

from __future__ import annotations

from pylog.rpc.v1 import common_pb2
from pylog_broker.metadata.messages import Failure


def error_of(failure: Failure | None) -> common_pb2.Error | None:
    """The failure as a message; None leaves the field out."""
    return common_pb2.Error(code=failure.code, message=failure.message) if failure else None
