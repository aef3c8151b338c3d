from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pylog.rpc import fetch_wire
from pylog.rpc.v1 import log_pb2

numbers = st.integers(-(2**63), 2**63 - 1)
small = st.integers(-(2**31), 2**31 - 1)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[log_pb2.PartitionData, bytes]:
    data = log_pb2.PartitionData(
        topic=draw(st.text(max_size=20)),
        partition=draw(small),
        high_watermark=draw(numbers),
        last_stable_offset=draw(numbers),
        log_start_offset=draw(numbers),
        current_leader=draw(small),
        current_leader_epoch=draw(small),
        preferred_read_replica=draw(small),
        aborted=[
            log_pb2.AbortedTransaction(producer_id=n, first_offset=-n)
            for n in draw(st.lists(small, max_size=3))
        ],
    )
    if draw(st.booleans()):
        data.error.code, data.error.message = draw(small), draw(st.text(max_size=200))
    if draw(st.booleans()):
        data.diverging.end_offset = draw(numbers)
    size = draw(st.sampled_from((0, 1, 127, 128, 300, 16_383, 16_384, 40_000)))
    return data, (b"pylog" * (size // 5 + 1))[:size]


def whole(correlation: int, answers: list[fetch_wire.Partition]) -> log_pb2.FetchResponse:
    response = log_pb2.FetchResponse(correlation=correlation)
    for data, batches in answers:
        added = response.partitions.add()
        added.CopyFrom(data)
        added.batches = bytes(batches)
    return response


@settings(suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
@given(st.integers(0, 2**64 - 1), st.lists(partitions(), max_size=4), st.booleans())
def test_the_bytes_are_protobufs(
    correlation: int, answers: list[fetch_wire.Partition], stands: bool
) -> None:
    expected = whole(correlation, answers)
    expected.stands = stands
    ours = fetch_wire.encode_response(correlation, answers, stands=stands)
    assert log_pb2.FetchResponse.FromString(ours) == expected
    for message in (ours, expected.SerializeToString()):
        parsed = fetch_wire.parse_response(message)
        assert parsed.stands == stands
        expected.stands = False
        assert whole(*parsed[:2]) == expected
        expected.stands = stands


def test_large_batches_are_not_copied() -> None:
    batches = bytes(100_000)
    message = fetch_wire.encode_response(7, [(log_pb2.PartitionData(topic="t"), batches)])
    _, ((data, found),), _ = fetch_wire.parse_response(message)
    assert isinstance(found, memoryview)
    assert found.obj is message
    assert found == batches
    assert (data.topic, data.batches) == ("t", b"")


@given(st.binary(max_size=60), st.integers(0, 60))
def test_garbage_is_what_protobuf_says_it_is(garbage: bytes, cut: int) -> None:
    good = fetch_wire.encode_response(7, [(log_pb2.PartitionData(topic="t"), bytes(20_000))])
    for message in (good[:cut] + garbage + good[cut:], good[: len(good) - cut] + garbage):
        try:
            expected = log_pb2.FetchResponse.FromString(message)
        except DecodeError:
            with pytest.raises(DecodeError):
                fetch_wire.parse_response(message)
            continue
        correlation, found, _ = fetch_wire.parse_response(message)
        answers = expected.partitions
        assert correlation == expected.correlation
        assert [bytes(batches) for _, batches in found] == [data.batches for data in answers]
        assert [data.topic for data, _ in found] == [data.topic for data in answers]
