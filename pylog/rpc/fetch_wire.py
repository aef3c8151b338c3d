"""Fetch responses to and from bytes without protobuf copying the batches.

The bytes are those of `FetchResponse` in `log.proto`: any protobuf library reads and writes them.
Protobuf itself copies a `bytes` field twice or more on each side; here a response's batches are
copied once where it is made, and not at all where it is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pylog.rpc.v1 import log_pb2

Buffer = bytes | bytearray | memoryview

SMALL_BYTES: Final = 16 * 1024
"""Up to here protobuf's copies cost less than reading field by field."""

# Tags: field number << 3 | wire type.
_VARINT: Final = 0
_LENGTH_DELIMITED: Final = 2
_CORRELATION: Final = 1 << 3 | _VARINT
_PARTITIONS: Final = b"\x12"
_BATCHES: Final = b"\x3a"
_PARTITIONS_FIELD: Final = 2
_BATCHES_FIELD: Final = 7

Partition = tuple[log_pb2.PartitionData, Buffer]
"""What an answer says of a partition, its `batches` left out, and the batches."""


def encode_response(correlation: int, partitions: Iterable[Partition]) -> bytes:
    """The message's bytes."""
    pieces: list[Buffer] = [log_pb2.FetchResponse(correlation=correlation).SerializeToString()]
    for data, batches in partitions:
        said = data.SerializeToString()
        if not len(batches):
            pieces += (_PARTITIONS, _varint(len(said)), said)
            continue
        size = _varint(len(batches))
        whole = _varint(len(said) + len(_BATCHES) + len(size) + len(batches))
        pieces += (_PARTITIONS, whole, said, _BATCHES, size, batches)
    return b"".join(pieces)


def parse_response(message: bytes) -> tuple[int, list[Partition]]:
    """(correlation, partitions); their batches are views of a large `message`.

    Raises protobuf's DecodeError for bytes that are no such message.
    """
    if len(message) > SMALL_BYTES:
        try:
            return _scan(message)
        except (IndexError, _Unusual):
            pass  # protobuf's parser says what is wrong, if anything is
    response = log_pb2.FetchResponse.FromString(message)
    return response.correlation, [(data, data.batches) for data in response.partitions]


class _Unusual(Exception):
    """Something that our own writer does not write."""


def _scan(message: bytes) -> tuple[int, list[Partition]]:
    correlation = 0
    partitions: list[Partition] = []
    position, end = 0, len(message)
    while position < end:
        tag, position = _read_varint(message, position)
        value, position = _read_varint(message, position)
        if tag == _CORRELATION:
            correlation = value
        elif tag == _PARTITIONS_FIELD << 3 | _LENGTH_DELIMITED:
            partitions.append(_partition(message, position, position + value))
            position += value
        else:
            raise _Unusual
    if position != end:
        raise _Unusual
    return correlation, partitions


def _partition(message: bytes, start: int, end: int) -> Partition:
    """The fields in `message[start:end]`, of which batches are cut out."""
    said: list[bytes] = []
    batches: Buffer = b""
    position = begun = start
    while position < end:
        field = position
        tag, position = _read_varint(message, position)
        value, position = _read_varint(message, position)
        if tag & 7 == _LENGTH_DELIMITED:
            position += value
            if tag >> 3 == _BATCHES_FIELD:
                said.append(message[begun:field])
                batches = memoryview(message)[position - value : position]
                begun = position
        elif tag & 7 != _VARINT:
            raise _Unusual
    if position != end or end > len(message):
        raise _Unusual
    said.append(message[begun:end])
    return log_pb2.PartitionData.FromString(b"".join(said)), batches


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """(value, position after it) of an unsigned varint."""
    byte = data[position]
    if byte < 128:
        return byte, position + 1
    value, shift = byte & 127, 7
    while True:
        position += 1
        byte = data[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position + 1
        shift += 7
        if shift > 63:
            raise _Unusual


def _varint(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
