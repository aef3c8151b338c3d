"""SaslHandshake (api key 17), versions 1 to 1.

Generated from broker/kafka/schemas/sasl_handshake.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    Chunks,
    MalformedMessage,
    count_refused,
    null_refused,
    truncated,
)

KEY: Final = 17
VERSIONS: Final = range(1, 2)
FLEXIBLE_FROM: Final = 1000

_h: Final = Struct(">h")
_i: Final = Struct(">i")


@dataclass(slots=True)
class SaslHandshakeRequest:
    """The request's body."""

    mechanism: str = ""


@dataclass(slots=True)
class SaslHandshakeResponse:
    """The response's body."""

    error_code: int = 0
    mechanisms: list[str] = field(default_factory=list)


def _encode_request_v1(message: SaslHandshakeRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.mechanism
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    chunks.append(out)
    return chunks


def _decode_request_v1(buffer: memoryview, position: int) -> tuple[SaslHandshakeRequest, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("mechanism")
    if size > length - position:
        truncated("mechanism", size, length - position)
    message_mechanism = str(buffer[position : position + size], "utf-8")
    position += size
    assert position <= length
    return SaslHandshakeRequest(mechanism=message_mechanism), position


_ENCODE_REQUEST: Final = {1: _encode_request_v1}


_DECODE_REQUEST: Final = {1: _decode_request_v1}


def encode_request(message: SaslHandshakeRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> SaslHandshakeRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"SaslHandshakeRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"SaslHandshakeRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v1(message: SaslHandshakeResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _h.pack(message.error_code)
    value_a = message.mechanisms
    out += _i.pack(len(value_a))
    for a in value_a:
        value_b = a
        text_b = value_b.encode()
        out += _h.pack(len(text_b))
        out += text_b
    chunks.append(out)
    return chunks


def _decode_response_v1(buffer: memoryview, position: int) -> tuple[SaslHandshakeResponse, int]:
    length = len(buffer)
    message_error_code, = _h.unpack_from(buffer, position)
    position += 2
    size, = _i.unpack_from(buffer, position)
    position += 4
    if size < 0:
        null_refused("mechanisms")
    message_mechanisms: list[str]
    if size * 2 > length - position:
        count_refused("mechanisms", size, length - position)
    message_mechanisms = []
    for _ in range(size):
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("mechanisms")
        if size > length - position:
            truncated("mechanisms", size, length - position)
        element_a = str(buffer[position : position + size], "utf-8")
        position += size
        message_mechanisms.append(element_a)
    assert position <= length
    return SaslHandshakeResponse(error_code=message_error_code, mechanisms=message_mechanisms), position


_ENCODE_RESPONSE: Final = {1: _encode_response_v1}


_DECODE_RESPONSE: Final = {1: _decode_response_v1}


def encode_response(message: SaslHandshakeResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> SaslHandshakeResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"SaslHandshakeResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"SaslHandshakeResponse v{version}: {len(buffer) - end} bytes too many")
    return message
