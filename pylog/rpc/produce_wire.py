"""Produce requests to and from bytes without protobuf copying the batches.

The bytes are those of `ProduceRequest` in `log.proto`. A message made here shares the batches'
buffers; one that is read here is cut into views, but for batches that are only a small part of it:
a log keeps its newest batches, and one of them must not hold on to a message many times its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from pylog.errors import InvalidRequest
from pylog.rpc.framing import Chunks
from pylog.rpc.v1 import log_pb2
from pylog.rpc.varint import (
    LENGTH_DELIMITED,
    SMALL_BYTES,
    VARINT,
    Buffer,
    Unusual,
    read_varint,
    unzigzag,
    varint,
    zigzag,
)

INLINE_BYTES_MAX: Final = 4096
"""Up to here a batch is copied into the piece around it: an element of writev costs more."""
FIELDS_MAX: Final = 4096
"""A message of more fields is left to protobuf: reading them one by one would hold up everybody."""
SHARE: Final = 2
"""A batch that is smaller than the message by more than this factor is copied out of it."""

_INT32_MAX: Final = 2**31 - 1
_UINT32_MAX: Final = 2**32 - 1

# Tags of ProduceRequest, and of PartitionBatch.
_CORRELATION: Final = 1 << 3 | VARINT
_ACKS: Final = 2 << 3 | VARINT
_TIMEOUT: Final = 3 << 3 | VARINT
_BATCHES: Final = 4 << 3 | LENGTH_DELIMITED
_CLIENT_ID: Final = 5 << 3 | LENGTH_DELIMITED
_FOLLOWING: Final = 6 << 3 | LENGTH_DELIMITED
_TRANSACTIONAL_ID: Final = 7 << 3 | LENGTH_DELIMITED
_TRANSACTION_VERSION: Final = 8 << 3 | VARINT
_TOPIC: Final = 1 << 3 | LENGTH_DELIMITED
_TOPIC_ID: Final = 2 << 3 | LENGTH_DELIMITED
_PARTITION: Final = 3 << 3 | VARINT
_BATCH: Final = b"\x22"
_BATCH_TAG: Final = 4 << 3 | LENGTH_DELIMITED


class Item(NamedTuple):
    """One batch of a request."""

    topic: str
    topic_id: str
    partition: int
    batch: Buffer


class Request(NamedTuple):
    """One request of a message. Its client's id is read by nobody, and so left out.

    `transactional_id`: of the producer, where batches are of a transaction. `transaction_version`:
    1 for a client that has added their partitions itself; 0 stands for 2.
    """

    correlation: int
    acks: int
    timeout_ms: int
    items: Sequence[Item]
    transactional_id: str = ""
    transaction_version: int = 0


# ---- writing ------------------------------------------------------------------------------------


def encode_message(requests: Sequence[Request], client_id: str) -> Chunks:
    """A message of the first request and those that follow it, in pieces."""
    pieces: Chunks = []
    end = _text(b"\x2a", client_id)
    _put(pieces, requests[0], end)
    if len(requests) > 1:
        # The other requests stand between the fields of the first one, as protobuf writes it.
        for request in requests[1:]:
            inner: Chunks = []
            _put(inner, request, end)
            _put_transaction(inner, request)
            pieces.append(b"\x32" + varint(sum(map(len, inner))))
            pieces += inner
    _put_transaction(pieces, requests[0])
    return _joined(pieces)


def _put(pieces: Chunks, request: Request, end: bytes) -> None:
    """All fields up to the client's id."""
    correlation, acks, timeout_ms, items, _, _ = request
    head = b"\x08" + varint(correlation) if correlation else b""
    pieces.append(head + _settings(acks, timeout_ms))
    for topic, topic_id, partition, batch in items:
        names, size = _names(topic, topic_id, partition), len(batch)
        if not size:
            pieces.append(b"\x22" + varint(len(names)) + names)
            continue
        length = varint(size)
        inner = len(names) + 1 + len(length) + size
        pieces.append(b"\x22" + varint(inner) + names + _BATCH + length)
        pieces.append(batch)
    if end:
        pieces.append(end)


def _joined(pieces: Chunks) -> Chunks:
    """The same bytes in fewer pieces: small ones are put together."""
    joined: Chunks = []
    small: Chunks = []
    for piece in pieces:
        if len(piece) <= INLINE_BYTES_MAX:
            small.append(piece)
            continue
        if small:
            joined.append(b"".join(small))
            small = []
        joined.append(piece)
    if small:
        joined.append(b"".join(small))
    return joined


@lru_cache(1024)
def _names(topic: str, topic_id: str, partition: int) -> bytes:
    """The fields of a batch that stand before its bytes."""
    number = b"\x18" + varint(partition & (2**64 - 1)) if partition else b""
    return _text(b"\x0a", topic) + _text(b"\x12", topic_id) + number


@lru_cache(64)
def _settings(acks: int, timeout_ms: int) -> bytes:
    first = b"\x10" + varint(zigzag(acks)) if acks else b""
    return first + (b"\x18" + varint(timeout_ms & (2**64 - 1)) if timeout_ms else b"")


def _put_transaction(pieces: Chunks, request: Request) -> None:
    if request.transactional_id or request.transaction_version:
        pieces.append(_transaction(request.transactional_id, request.transaction_version))


@lru_cache(64)
def _transaction(transactional_id: str, version: int) -> bytes:
    """The fields behind the following requests."""
    return _text(b"\x3a", transactional_id) + (
        b"\x40" + varint(version & (2**64 - 1)) if version else b""
    )


def _text(tag: bytes, text: str) -> bytes:
    data = text.encode()
    return tag + varint(len(data)) + data if data else b""


# ---- reading ------------------------------------------------------------------------------------


def parse_message(message: bytes | memoryview) -> list[Request]:
    """The message's requests, the first one first. Batches that are most of a large `message` are
    views of it.

    Raises protobuf's DecodeError for bytes that are no such message, and InvalidRequest for a
    following request that is followed by others.
    """
    if len(message) > SMALL_BYTES:
        try:
            return _Scan(message).requests
        except (IndexError, UnicodeDecodeError, Unusual):
            pass  # protobuf's parser says what is wrong, if anything is
    return requests_of(log_pb2.ProduceRequest.FromString(bytes(message)))


def requests_of(message: log_pb2.ProduceRequest) -> list[Request]:
    """The same of a message that protobuf has read."""
    requests = [_request_of(message)]
    following = message.following
    if following:
        requests += map(_request_of, following)
        if any(request.following for request in following):
            raise InvalidRequest("a following request has no following ones of its own")
    return requests


def _request_of(message: log_pb2.ProduceRequest) -> Request:
    return Request(
        message.correlation,
        message.acks,
        message.timeout_ms,
        [Item(item.topic, item.topic_id, item.partition, item.batch) for item in message.batches],
        message.transactional_id,
        message.transaction_version,
    )


class _Scan:
    """Reads one message, field by field."""

    def __init__(self, message: bytes | memoryview) -> None:
        self._message = message
        self._view = memoryview(message)
        self._fields = 0
        self._view_bytes_min = len(message) // SHARE
        self._following: list[Request] = []
        first = self._request(0, len(message), inner=False)
        self.requests = [first, *self._following]

    def _count(self) -> None:
        self._fields += 1
        if self._fields > FIELDS_MAX:
            raise Unusual

    def _request(self, position: int, end: int, *, inner: bool) -> Request:
        message = self._message
        correlation = acks = timeout_ms = version = 0
        transactional_id = ""
        items: list[Item] = []
        while position < end:
            self._count()
            tag, position = read_varint(message, position)
            value, position = read_varint(message, position)
            if tag == _BATCHES:
                items.append(self._item(position, position + value))
                position += value
            elif tag == _CORRELATION and value < 2**64:
                correlation = value
            elif tag == _ACKS and value <= _UINT32_MAX:
                acks = unzigzag(value)
            elif tag == _TIMEOUT and value <= _INT32_MAX:
                timeout_ms = value
            elif tag == _CLIENT_ID:
                self._string(position, position + value)
                position += value
            elif tag == _FOLLOWING and not inner:
                self._following.append(self._request(position, position + value, inner=True))
                position += value
            elif tag == _TRANSACTIONAL_ID:
                transactional_id = self._string(position, position + value)
                position += value
            elif tag == _TRANSACTION_VERSION and value <= _INT32_MAX:
                version = value
            else:
                raise Unusual
        if position != end or end > len(message):
            raise Unusual
        return Request(correlation, acks, timeout_ms, items, transactional_id, version)

    def _item(self, position: int, end: int) -> Item:
        message = self._message
        topic = topic_id = ""
        partition = 0
        batch: Buffer = b""
        while position < end:
            self._count()
            tag, position = read_varint(message, position)
            value, position = read_varint(message, position)
            if tag == _PARTITION and value <= _INT32_MAX:
                partition = value
                continue
            begin, position = position, position + value
            if tag == _BATCH_TAG:
                batch = self._view[begin:position]
            elif tag == _TOPIC:
                topic = self._string(begin, position)
            elif tag == _TOPIC_ID:
                topic_id = self._string(begin, position)
            else:
                raise Unusual
        if position != end or end > len(message):
            raise Unusual
        if len(batch) < self._view_bytes_min:
            batch = bytes(batch)
        return Item(topic, topic_id, partition, batch)

    def _string(self, begin: int, end: int) -> str:
        if end > len(self._message):
            raise Unusual
        return str(self._message[begin:end], "utf-8")
