"""Unary calls in frames: the messages of a stream of kind STREAM_CALLS, for both ends.

`proto/pylog/rpc/v1/stream.proto` tells the layout. A body begins with its kind. No sockets here.

    call     5, number u32, key u16, version u16, time-out u32 (ms), the API's request
    answer   6, number u32, the API's response
    failure  7, number u32, Error of common.proto
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from pylog import errors
from pylog.rpc import streams
from pylog.rpc.framing import Chunks
from pylog.rpc.v1 import common_pb2

NUMBERS: Final = 1 << 32
"""A call's number is below it."""
TIMEOUT_MS_MAX: Final = (1 << 32) - 1

_CALL: Final = Struct(">BIHHI")
_ANSWER: Final = Struct(">BI")
CALL_HEAD_BYTES: Final = _CALL.size
"""The bytes of a call's body that come before its request."""


class Call(NamedTuple):
    """A client's call; `request` is a view of the frame."""

    number: int
    key: int
    version: int
    timeout_ms: int
    request: memoryview


def call_frame(number: int, key: int, version: int, timeout_ms: int, request: bytes) -> Chunks:
    """A call, ready for writev."""
    head = _CALL.pack(streams.CALL, number, key, version, min(timeout_ms, TIMEOUT_MS_MAX))
    return streams.framed(streams.CALL, [head[1:], request])


def answer_frame(number: int, response: Chunks) -> Chunks:
    """An answer, ready for writev."""
    head = _ANSWER.pack(streams.ANSWER, number)
    return streams.framed(streams.ANSWER, [head[1:], *response])


def failure_frame(number: int, error: errors.PylogError) -> Chunks:
    """The answer to a call that could not be carried out, ready for writev."""
    said = common_pb2.Error(code=error.code, message=str(error)).SerializeToString()
    head = _ANSWER.pack(streams.FAILURE, number)
    return streams.framed(streams.FAILURE, [head[1:], said])


def read_call(body: memoryview) -> Call:
    """The call in a frame's body; InvalidRequest for what is none."""
    if len(body) < _CALL.size or body[0] != streams.CALL:
        raise errors.InvalidRequest(
            f"a frame of {len(body)} bytes of kind {body[0] if len(body) else 'none'}, where a "
            f"call of at least {_CALL.size} bytes and kind {streams.CALL} belongs"
        )
    _, number, key, version, timeout_ms = _CALL.unpack_from(body)
    return Call(number, key, version, timeout_ms, body[_CALL.size :])


def read_answer(body: memoryview) -> tuple[int, memoryview | errors.PylogError]:
    """The call's number and its response, or why it failed; InvalidRequest for what is neither."""
    if len(body) < _ANSWER.size or body[0] not in (streams.ANSWER, streams.FAILURE):
        raise errors.InvalidRequest("a frame of a kind that no broker sends")
    kind, number = _ANSWER.unpack_from(body)
    rest = body[_ANSWER.size :]
    return number, rest if kind == streams.ANSWER else _error_in(rest)


def _error_in(said: memoryview) -> errors.PylogError:
    try:
        error = common_pb2.Error.FromString(bytes(said))
    except DecodeError as fault:
        return errors.InvalidRequest(f"its error cannot be read: {fault}")
    return errors.from_code(error.code, error.message)
