"""SaslAuthenticate (api key 36), versions 2 to 2.

Generated from broker/kafka/schemas/sasl_authenticate.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    Chunks,
    MalformedMessage,
    null_refused,
    read_varint,
    skip_tagged_fields,
    truncated,
    write_varint,
)

KEY: Final = 36
VERSIONS: Final = range(2, 3)
FLEXIBLE_FROM: Final = 2

_h: Final = Struct(">h")
_q: Final = Struct(">q")


@dataclass(slots=True)
class SaslAuthenticateRequest:
    """The request's body."""

    auth_bytes: bytes = b""


@dataclass(slots=True)
class SaslAuthenticateResponse:
    """The response's body."""

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


def _encode_request_v2(message: SaslAuthenticateRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.auth_bytes
    write_varint(out, len(value_a) + 1)
    out += value_a
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v2(buffer: memoryview, position: int) -> tuple[SaslAuthenticateRequest, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("auth_bytes")
    if size > length - position:
        truncated("auth_bytes", size, length - position)
    message_auth_bytes = bytes(buffer[position : position + size])
    position += size
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return SaslAuthenticateRequest(auth_bytes=message_auth_bytes), position


_ENCODE_REQUEST: Final = {2: _encode_request_v2}


_DECODE_REQUEST: Final = {2: _decode_request_v2}


def encode_request(message: SaslAuthenticateRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> SaslAuthenticateRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"SaslAuthenticateRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"SaslAuthenticateRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v2(message: SaslAuthenticateResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _h.pack(message.error_code)
    value_a = message.error_message
    if value_a is None:
        out.append(0)
    else:
        text_a = value_a.encode()
        write_varint(out, len(text_a) + 1)
        out += text_a
    value_b = message.auth_bytes
    write_varint(out, len(value_b) + 1)
    out += value_b
    out += _q.pack(message.session_lifetime_ms)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_response_v2(buffer: memoryview, position: int) -> tuple[SaslAuthenticateResponse, int]:
    length = len(buffer)
    message_error_code, = _h.unpack_from(buffer, position)
    position += 2
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        message_error_message: str | None = None
    else:
        if size > length - position:
            truncated("error_message", size, length - position)
        message_error_message = str(buffer[position : position + size], "utf-8")
        position += size
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("auth_bytes")
    if size > length - position:
        truncated("auth_bytes", size, length - position)
    message_auth_bytes = bytes(buffer[position : position + size])
    position += size
    message_session_lifetime_ms, = _q.unpack_from(buffer, position)
    position += 8
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return SaslAuthenticateResponse(error_code=message_error_code, error_message=message_error_message, auth_bytes=message_auth_bytes, session_lifetime_ms=message_session_lifetime_ms), position


_ENCODE_RESPONSE: Final = {2: _encode_response_v2}


_DECODE_RESPONSE: Final = {2: _decode_response_v2}


def encode_response(message: SaslAuthenticateResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> SaslAuthenticateResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"SaslAuthenticateResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"SaslAuthenticateResponse v{version}: {len(buffer) - end} bytes too many")
    return message
