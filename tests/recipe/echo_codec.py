"""Echo: messages and values, for gRPC and framed streams. Belongs in `broker/protobuf`."""

from __future__ import annotations

from google.protobuf import struct_pb2, wrappers_pb2

from pylog_broker.protobuf.unary import AnyBound, Bound
from tests.recipe.echo_handler import Echoed, EchoHandler
from tests.recipe.echo_row import ECHO


def text_from(request: wrappers_pb2.StringValue) -> str:
    """The text of the request."""
    return request.value


def echoed(answer: Echoed) -> struct_pb2.Struct:
    """Its answer."""
    said = struct_pb2.Struct()
    said.update({"text": answer.text, **answer.origin._asdict()})
    return said


def echo_api(handler: EchoHandler) -> AnyBound:
    """One line in the table of what a broker answers (`broker/protobuf/log_apis.py`)."""
    return Bound(ECHO, text_from, handler.handle, echoed)
