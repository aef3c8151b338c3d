"""ApiVersions (api key 18), versions 0 to 4.

Generated from broker/kafka/schemas/api_versions.txt by tools/kafka_codecs.py: do not edit.
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
    read_varint,
    skip_tag,
    skip_tagged_fields,
    truncated,
    write_varint,
)

KEY: Final = 18
VERSIONS: Final = range(0, 5)
FLEXIBLE_FROM: Final = 3

_B: Final = Struct(">?")
_h: Final = Struct(">h")
_hh: Final = Struct(">hh")
_hhh: Final = Struct(">hhh")
_i: Final = Struct(">i")
_q: Final = Struct(">q")


@dataclass(slots=True)
class ApiVersionsRequest:
    """The request's body."""

    client_software_name: str = ""
    client_software_version: str = ""


@dataclass(slots=True)
class ApiVersion:
    """api_keys of ApiVersionsResponse."""

    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


@dataclass(slots=True)
class SupportedFeature:
    """supported_features of ApiVersionsResponse."""

    name: str = ""
    min_version: int = 0
    max_version: int = 0


@dataclass(slots=True)
class FinalizedFeature:
    """finalized_features of ApiVersionsResponse."""

    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


@dataclass(slots=True)
class ApiVersionsResponse:
    """The response's body."""

    error_code: int = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeature] = field(default_factory=list)
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeature] = field(default_factory=list)
    zk_migration_ready: bool = False


def _encode_request_v0(message: ApiVersionsRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    chunks.append(out)
    return chunks


def _decode_request_v0(buffer: memoryview, position: int) -> tuple[ApiVersionsRequest, int]:
    length = len(buffer)
    assert position <= length
    return ApiVersionsRequest(), position


def _encode_request_v3(message: ApiVersionsRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.client_software_name
    text_a = value_a.encode()
    write_varint(out, len(text_a) + 1)
    out += text_a
    value_b = message.client_software_version
    text_b = value_b.encode()
    write_varint(out, len(text_b) + 1)
    out += text_b
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v3(buffer: memoryview, position: int) -> tuple[ApiVersionsRequest, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("client_software_name")
    if size > length - position:
        truncated("client_software_name", size, length - position)
    message_client_software_name = str(buffer[position : position + size], "utf-8")
    position += size
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("client_software_version")
    if size > length - position:
        truncated("client_software_version", size, length - position)
    message_client_software_version = str(buffer[position : position + size], "utf-8")
    position += size
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ApiVersionsRequest(client_software_name=message_client_software_name, client_software_version=message_client_software_version), position


_ENCODE_REQUEST: Final = {0: _encode_request_v0, 1: _encode_request_v0, 2: _encode_request_v0, 3: _encode_request_v3, 4: _encode_request_v3}


_DECODE_REQUEST: Final = {0: _decode_request_v0, 1: _decode_request_v0, 2: _decode_request_v0, 3: _decode_request_v3, 4: _decode_request_v3}


def encode_request(message: ApiVersionsRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> ApiVersionsRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ApiVersionsRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ApiVersionsRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v0(message: ApiVersionsResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _h.pack(message.error_code)
    value_a = message.api_keys
    out += _i.pack(len(value_a))
    for a in value_a:
        out += _hhh.pack(a.api_key, a.min_version, a.max_version)
    chunks.append(out)
    return chunks


def _decode_response_v0(buffer: memoryview, position: int) -> tuple[ApiVersionsResponse, int]:
    length = len(buffer)
    message_error_code, = _h.unpack_from(buffer, position)
    position += 2
    size, = _i.unpack_from(buffer, position)
    position += 4
    if size < 0:
        null_refused("api_keys")
    message_api_keys: list[ApiVersion]
    if size * 6 > length - position:
        count_refused("api_keys", size, length - position)
    message_api_keys = []
    for _ in range(size):
        a_api_key, a_min_version, a_max_version = _hhh.unpack_from(buffer, position)
        position += 6
        message_api_keys.append(ApiVersion(api_key=a_api_key, min_version=a_min_version, max_version=a_max_version))
    assert position <= length
    return ApiVersionsResponse(error_code=message_error_code, api_keys=message_api_keys), position


def _encode_response_v1(message: ApiVersionsResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _h.pack(message.error_code)
    value_a = message.api_keys
    out += _i.pack(len(value_a))
    for a in value_a:
        out += _hhh.pack(a.api_key, a.min_version, a.max_version)
    out += _i.pack(message.throttle_time_ms)
    chunks.append(out)
    return chunks


def _decode_response_v1(buffer: memoryview, position: int) -> tuple[ApiVersionsResponse, int]:
    length = len(buffer)
    message_error_code, = _h.unpack_from(buffer, position)
    position += 2
    size, = _i.unpack_from(buffer, position)
    position += 4
    if size < 0:
        null_refused("api_keys")
    message_api_keys: list[ApiVersion]
    if size * 6 > length - position:
        count_refused("api_keys", size, length - position)
    message_api_keys = []
    for _ in range(size):
        a_api_key, a_min_version, a_max_version = _hhh.unpack_from(buffer, position)
        position += 6
        message_api_keys.append(ApiVersion(api_key=a_api_key, min_version=a_min_version, max_version=a_max_version))
    message_throttle_time_ms, = _i.unpack_from(buffer, position)
    position += 4
    assert position <= length
    return ApiVersionsResponse(error_code=message_error_code, api_keys=message_api_keys, throttle_time_ms=message_throttle_time_ms), position


def _encode_response_v3(message: ApiVersionsResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _h.pack(message.error_code)
    value_a = message.api_keys
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _hhh.pack(a.api_key, a.min_version, a.max_version)
        out.append(0)
    out += _i.pack(message.throttle_time_ms)
    tags_b: list[tuple[int, bytearray]] = []
    if message.supported_features != []:
        part_b = bytearray()
        value_c = message.supported_features
        write_varint(part_b, len(value_c) + 1)
        for c in value_c:
            value_d = c.name
            text_d = value_d.encode()
            write_varint(part_b, len(text_d) + 1)
            part_b += text_d
            part_b += _hh.pack(c.min_version, c.max_version)
            part_b.append(0)
        tags_b.append((0, part_b))
    if message.finalized_features_epoch != -1:
        part_b = bytearray()
        part_b += _q.pack(message.finalized_features_epoch)
        tags_b.append((1, part_b))
    if message.finalized_features != []:
        part_b = bytearray()
        value_e = message.finalized_features
        write_varint(part_b, len(value_e) + 1)
        for e in value_e:
            value_f = e.name
            text_f = value_f.encode()
            write_varint(part_b, len(text_f) + 1)
            part_b += text_f
            part_b += _hh.pack(e.max_version_level, e.min_version_level)
            part_b.append(0)
        tags_b.append((2, part_b))
    if message.zk_migration_ready != False:
        part_b = bytearray()
        part_b += _B.pack(message.zk_migration_ready)
        tags_b.append((3, part_b))
    write_varint(out, len(tags_b))
    for tag_b, content_b in tags_b:
        write_varint(out, tag_b)
        write_varint(out, len(content_b))
        out += content_b
    chunks.append(out)
    return chunks


def _decode_response_v3(buffer: memoryview, position: int) -> tuple[ApiVersionsResponse, int]:
    length = len(buffer)
    message_error_code, = _h.unpack_from(buffer, position)
    position += 2
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("api_keys")
    message_api_keys: list[ApiVersion]
    if size * 7 > length - position:
        count_refused("api_keys", size, length - position)
    message_api_keys = []
    for _ in range(size):
        a_api_key, a_min_version, a_max_version = _hhh.unpack_from(buffer, position)
        position += 6
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_api_keys.append(ApiVersion(api_key=a_api_key, min_version=a_min_version, max_version=a_max_version))
    message_throttle_time_ms, = _i.unpack_from(buffer, position)
    position += 4
    message_supported_features: list[SupportedFeature] = []
    message_finalized_features_epoch: int = -1
    message_finalized_features: list[FinalizedFeature] = []
    message_zk_migration_ready: bool = False
    tags_message, position = read_varint(buffer, position)
    for _ in range(tags_message):
        tag_message, position = read_varint(buffer, position)
        if tag_message == 0:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("supported_features")
            if size * 6 > length - position:
                count_refused("supported_features", size, length - position)
            message_supported_features = []
            for _ in range(size):
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    null_refused("name")
                if size > length - position:
                    truncated("name", size, length - position)
                b_name = str(buffer[position : position + size], "utf-8")
                position += size
                b_min_version, b_max_version = _hh.unpack_from(buffer, position)
                position += 4
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                message_supported_features.append(SupportedFeature(name=b_name, min_version=b_min_version, max_version=b_max_version))
            if position != end_message:
                raise MalformedMessage("supported_features does not fill its tagged field")
        elif tag_message == 1:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            message_finalized_features_epoch, = _q.unpack_from(buffer, position)
            position += 8
            if position != end_message:
                raise MalformedMessage("finalized_features_epoch does not fill its tagged field")
        elif tag_message == 2:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("finalized_features")
            if size * 6 > length - position:
                count_refused("finalized_features", size, length - position)
            message_finalized_features = []
            for _ in range(size):
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    null_refused("name")
                if size > length - position:
                    truncated("name", size, length - position)
                c_name = str(buffer[position : position + size], "utf-8")
                position += size
                c_max_version_level, c_min_version_level = _hh.unpack_from(buffer, position)
                position += 4
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                message_finalized_features.append(FinalizedFeature(name=c_name, max_version_level=c_max_version_level, min_version_level=c_min_version_level))
            if position != end_message:
                raise MalformedMessage("finalized_features does not fill its tagged field")
        elif tag_message == 3:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            message_zk_migration_ready, = _B.unpack_from(buffer, position)
            position += 1
            if position != end_message:
                raise MalformedMessage("zk_migration_ready does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return ApiVersionsResponse(error_code=message_error_code, api_keys=message_api_keys, throttle_time_ms=message_throttle_time_ms, supported_features=message_supported_features, finalized_features_epoch=message_finalized_features_epoch, finalized_features=message_finalized_features, zk_migration_ready=message_zk_migration_ready), position


_ENCODE_RESPONSE: Final = {0: _encode_response_v0, 1: _encode_response_v1, 2: _encode_response_v1, 3: _encode_response_v3, 4: _encode_response_v3}


_DECODE_RESPONSE: Final = {0: _decode_response_v0, 1: _decode_response_v1, 2: _decode_response_v1, 3: _decode_response_v3, 4: _decode_response_v3}


def encode_response(message: ApiVersionsResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> ApiVersionsResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ApiVersionsResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ApiVersionsResponse v{version}: {len(buffer) - end} bytes too many")
    return message
