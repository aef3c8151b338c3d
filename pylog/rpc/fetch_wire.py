"""Fetch responses to and from bytes without protobuf copying the batches.

The bytes are those of `FetchResponse` in `log.proto`: any protobuf library reads and writes them.
A response's batches are not copied where it is made of pieces (`encode_pieces`), once where it is
made of one, and not at all where it is read. `plain_answers` writes the usual ones, and tells why
that is a second writer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pylog.rpc.framing import Chunks
from pylog.rpc.v1 import log_pb2
from pylog.rpc.varint import (
    LENGTH_DELIMITED,
    SMALL_BYTES,
    VARINT,
    Buffer,
    Unusual,
    read_varint,
    varint,
)

_CORRELATION: Final = 1 << 3 | VARINT
_STANDS: Final = 3 << 3 | VARINT
_PARTITIONS: Final = b"\x12"
_BATCHES: Final = b"\x3a"
_IT_STANDS: Final = b"\x18\x01"
_PARTITIONS_FIELD: Final = 2
_BATCHES_FIELD: Final = 7

Partition = tuple[log_pb2.PartitionData, Buffer]
"""An answer's part about a partition without its `batches`, and the batches."""


class Response(NamedTuple):
    """An answer. `stands`: the same request will be answered again."""

    correlation: int
    partitions: list[Partition]
    stands: bool = False


def encode_response(
    correlation: int, partitions: Iterable[Partition], *, stands: bool = False
) -> bytes:
    """The message's bytes."""
    return b"".join(encode_pieces(correlation, partitions, stands=stands))


def encode_pieces(
    correlation: int, partitions: Iterable[Partition], *, stands: bool = False
) -> Chunks:
    """The message's bytes in pieces; the batches are the very same buffers."""
    pieces: Chunks = [log_pb2.FetchResponse(correlation=correlation).SerializeToString()]
    for data, batches in partitions:
        said = data.SerializeToString()
        if not len(batches):
            pieces.append(b"".join((_PARTITIONS, varint(len(said)), said)))
            continue
        size = varint(len(batches))
        whole = varint(len(said) + len(_BATCHES) + len(size) + len(batches))
        pieces.append(b"".join((_PARTITIONS, whole, said, _BATCHES, size)))
        pieces.append(batches)
    if stands:
        pieces.append(_IT_STANDS)
    return pieces


def parse_response(message: bytes | memoryview) -> Response:
    """The answer; its batches are views of a large `message`.

    Raises protobuf's DecodeError for bytes that are no such message.
    """
    if len(message) > SMALL_BYTES:
        try:
            return _scan(message)
        except (IndexError, Unusual):
            pass  # protobuf's parser says what is wrong, if anything is
    response = log_pb2.FetchResponse.FromString(bytes(message))
    found: list[Partition] = [(data, data.batches) for data in response.partitions]
    return Response(response.correlation, found, response.stands)


def _scan(message: bytes | memoryview) -> Response:
    correlation = 0
    stands = False
    partitions: list[Partition] = []
    position, end = 0, len(message)
    while position < end:
        tag, position = read_varint(message, position)
        value, position = read_varint(message, position)
        if tag == _CORRELATION:
            correlation = value
        elif tag == _PARTITIONS_FIELD << 3 | LENGTH_DELIMITED:
            partitions.append(_partition(message, position, position + value))
            position += value
        elif tag == _STANDS:
            stands = bool(value)
        else:
            raise Unusual
    if position != end:
        raise Unusual
    return Response(correlation, partitions, stands)


def _partition(message: bytes | memoryview, start: int, end: int) -> Partition:
    """The fields in `message[start:end]`, of which batches are cut out."""
    said: list[Buffer] = []
    batches: Buffer = b""
    position = begun = start
    while position < end:
        field = position
        tag, position = read_varint(message, position)
        value, position = read_varint(message, position)
        if tag & 7 == LENGTH_DELIMITED:
            position += value
            if tag >> 3 == _BATCHES_FIELD:
                said.append(message[begun:field])
                batches = memoryview(message)[position - value : position]
                begun = position
        elif tag & 7 != VARINT:
            raise Unusual
    if position != end or end > len(message):
        raise Unusual
    said.append(message[begun:end])
    return log_pb2.PartitionData.FromString(b"".join(said)), batches
