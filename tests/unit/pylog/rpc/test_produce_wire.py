"""Produce requests are protobuf's, byte for byte, and read as protobuf reads them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import InvalidRequest
from pylog.rpc import produce_wire
from pylog.rpc.produce_wire import Item, Request, encode_message, parse_message
from pylog.rpc.v1 import log_pb2
from pylog.rpc.varint import unzigzag, zigzag

small = st.integers(-(2**31), 2**31 - 1)
sizes = st.sampled_from((0, 1, 127, 128, 4096, 4097, 16_383, 16_384, 20_000, 40_000))
items = st.builds(
    lambda topic, topic_id, partition, size: Item(topic, topic_id, partition, bytes(size)),
    st.text(max_size=20), st.text(max_size=40), small, sizes,
)  # fmt: skip
requests = st.builds(
    Request, st.integers(0, 2**64 - 1), small, small, st.lists(items, max_size=3),
    st.text(max_size=20), small,
)  # fmt: skip
messages = st.lists(requests, min_size=1, max_size=4)


def by_protobuf(requests: Sequence[Request], client_id: str) -> log_pb2.ProduceRequest:
    first, *others = (
        log_pb2.ProduceRequest(
            correlation=each.correlation,
            acks=each.acks,
            timeout_ms=each.timeout_ms,
            client_id=client_id,
            transactional_id=each.transactional_id,
            transaction_version=each.transaction_version,
            batches=[
                log_pb2.PartitionBatch(
                    topic=item.topic,
                    topic_id=item.topic_id,
                    partition=item.partition,
                    batch=bytes(item.batch),
                )
                for item in each.items
            ],
        )
        for each in requests
    )
    first.following.extend(others)
    return first


@given(messages, st.text(max_size=10))
def test_the_bytes_are_protobufs(requests: list[Request], client_id: str) -> None:
    whole = b"".join(encode_message(requests, client_id))
    assert whole == by_protobuf(requests, client_id).SerializeToString()
    assert parse_message(whole) == requests
    assert parse_message(memoryview(bytearray(whole))) == requests


def test_a_message_in_bytes() -> None:
    """Golden: what a change of the encoder must not change."""
    request = Request(7, -1, 30_000, [Item("t", "i", 3, b"batch")])
    following = Request(8, -1, 30_000, [Item("t", "i", 4, b"more")])
    assert b"".join(encode_message([request, following], "me")).hex() == (
        "0807" "1001" "18b0ea01" "220f" "0a0174" "120169" "1803" "22056261746368" "2a026d65"
        "321c" "0808" "1001" "18b0ea01" "220e" "0a0174" "120169" "1804" "22046d6f7265" "2a026d65"
    )  # fmt: skip


def test_large_batches_are_copied_on_neither_side() -> None:
    batch = bytes(100_000)
    pieces = encode_message([Request(1, -1, 5, [Item("t", "", 0, batch)])], "")
    assert [piece is batch for piece in pieces] == [False, True]
    message = b"".join(pieces)
    found = parse_message(message)[0].items[0].batch
    assert isinstance(found, memoryview)
    assert found.obj is message


def test_a_small_batch_does_not_hold_on_to_a_large_message() -> None:
    both = [Item("t", "", 0, bytes(100_000)), Item("t", "", 1, bytes(100))]
    large, small = parse_message(b"".join(encode_message([Request(1, -1, 5, both)], "")))[0].items
    assert isinstance(large.batch, memoryview)
    assert isinstance(small.batch, bytes)


@given(st.binary(max_size=60), st.integers(0, 90))
def test_garbage_is_what_protobuf_says_it_is(garbage: bytes, cut: int) -> None:
    sent = [
        Request(9, -1, 1000, [Item("topic", "id", 1, bytes(20_000))]),
        Request(10, -1, 1000, [Item("topic", "id", 2, b"small")]),
    ]
    good = b"".join(encode_message(sent, "client"))
    for message in (good[:cut] + garbage + good[cut:], good[: len(good) - cut] + garbage):
        try:
            expected = log_pb2.ProduceRequest.FromString(message)
        except DecodeError:
            with pytest.raises(DecodeError):
                parse_message(message)
            continue
        if any(each.following for each in expected.following):
            with pytest.raises(InvalidRequest, match="no following ones"):
                parse_message(message)
        else:
            assert parse_message(message) == produce_wire.requests_of(expected)


def test_many_fields_are_left_to_protobuf(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(produce_wire, "requests_of", lambda message: asked.append(message) or [])
    parse_message(b"\x08\x01" * 20_000)
    assert [message.correlation for message in asked] == [1]


@given(small)
def test_zigzag_there_and_back(number: int) -> None:
    assert unzigzag(zigzag(number)) == number
