"""Against the generated code, which reads and writes the same."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from pylog.model import TopicPartition
from pylog.rpc import plain_answers
from pylog.rpc.v1 import log_pb2

correlations = st.integers(0, 2**64 - 1)
offsets = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))
names = st.builds(TopicPartition, st.text(max_size=200), st.integers(0, 2**31 - 1))
times = st.one_of(st.just(-1), st.integers(0, 2**63 - 1))
batches = st.one_of(st.binary(max_size=40), st.integers(0, 20_000).map(bytes))


def stored_message(
    correlation: int, name: TopicPartition, base: int, time_ms: int, start: int
) -> log_pb2.ProduceResponse:
    ack = log_pb2.PartitionAck(
        topic=name.topic,
        partition=name.partition,
        base_offset=base,
        log_append_time_ms=time_ms,
        log_start_offset=start,
        current_leader=-1,
        current_leader_epoch=-1,
        record_index=-1,
    )
    return log_pb2.ProduceResponse(correlation=correlation, acks=[ack])


def found_message(
    correlation: int, name: TopicPartition, marks: tuple[int, int, int], data: bytes, stands: bool
) -> log_pb2.FetchResponse:
    high, stable, start = marks
    partition = log_pb2.PartitionData(
        topic=name.topic,
        partition=name.partition,
        high_watermark=high,
        last_stable_offset=stable,
        log_start_offset=start,
        batches=data,
        current_leader=-1,
        current_leader_epoch=-1,
        preferred_read_replica=-1,
    )
    return log_pb2.FetchResponse(correlation=correlation, partitions=[partition], stands=stands)


@given(correlations, names, offsets, times, offsets)
def test_a_stored_batch(
    correlation: int, name: TopicPartition, base: int, time_ms: int, start: int
) -> None:
    expected = stored_message(correlation, name, base, time_ms, start)
    message = plain_answers.encode_stored(correlation, name, base, time_ms, start)
    assert message == expected.SerializeToString()
    told = plain_answers.Stored(correlation, base, time_ms)
    assert plain_answers.parse_stored(message) == told
    assert plain_answers.parse_stored(memoryview(message)) == told


@given(correlations, names, st.tuples(offsets, offsets, offsets), batches, st.booleans())
def test_found_batches(
    correlation: int, name: TopicPartition, marks: tuple[int, int, int], data: bytes, stands: bool
) -> None:
    expected = found_message(correlation, name, marks, data, stands)
    pieces = plain_answers.encode_found(correlation, name, *marks, data, stands)
    message = b"".join(pieces)
    assert log_pb2.FetchResponse.FromString(message) == expected
    assert not data or pieces[1] is data
    told = plain_answers.Found(correlation, name, *marks, data, stands)
    for read in (
        plain_answers.parse_found(message),
        plain_answers.parse_found(memoryview(message)),
    ):
        assert read == (told if len(message) <= plain_answers.SMALL_BYTES else None)


def unusual_acks() -> list[log_pb2.ProduceResponse]:
    made = []
    for name, value in {
        "current_leader": 3,
        "current_leader_epoch": 3,
        "record_index": 3,
        "base_offset": -1,
        "log_append_time_ms": -2,
        "partition": -1,
    }.items():
        message = stored_message(1, TopicPartition("t", 0), 5, -1, 0)
        setattr(message.acks[0], name, value)
        made.append(message)
    failed = stored_message(1, TopicPartition("t", 0), 5, -1, 0)
    failed.acks[0].error.code = 3
    several = stored_message(1, TopicPartition("t", 0), 5, -1, 0)
    several.acks.append(several.acks[0])
    followed = stored_message(1, TopicPartition("t", 0), 5, -1, 0)
    followed.following.add(correlation=2)
    return [*made, failed, several, followed, log_pb2.ProduceResponse(correlation=1)]


@pytest.mark.parametrize("message", unusual_acks(), ids=str)
def test_another_answer_to_a_produce_request_is_protobufs(message: log_pb2.ProduceResponse) -> None:
    assert plain_answers.parse_stored(message.SerializeToString()) is None


def unusual_data() -> list[log_pb2.FetchResponse]:
    name, marks = TopicPartition("t", 0), (5, 4, 3)
    made = []
    for field, value in {
        "current_leader": 3,
        "current_leader_epoch": 3,
        "preferred_read_replica": 3,
        "high_watermark": -1,
        "partition": -1,
    }.items():
        message = found_message(1, name, marks, b"", True)
        setattr(message.partitions[0], field, value)
        made.append(message)
    failed, diverging, aborted, several = (
        found_message(1, name, marks, b"", False) for _ in range(4)
    )
    failed.partitions[0].error.code = 3
    diverging.partitions[0].diverging.epoch = 3
    aborted.partitions[0].aborted.add(producer_id=1)
    several.partitions.append(several.partitions[0])
    return [*made, failed, diverging, aborted, several, log_pb2.FetchResponse(correlation=1)]


@pytest.mark.parametrize("message", unusual_data(), ids=str)
def test_another_answer_to_a_fetch_is_protobufs(message: log_pb2.FetchResponse) -> None:
    assert plain_answers.parse_found(message.SerializeToString()) is None


@given(st.binary(max_size=12), st.integers(0, 60), st.integers(0, 12), st.booleans())
def test_whatever_is_read_protobuf_reads_the_same(
    garbage: bytes, at: int, cut: int, stands: bool
) -> None:
    name = TopicPartition("topic", 3)
    ack = plain_answers.encode_stored(7, name, 300, -1, 5)
    data = b"".join(plain_answers.encode_found(7, name, 300, 300, 5, b"batches", stands))
    for message in (ack[:at] + garbage + ack[at + cut :], garbage):
        _same(plain_answers.parse_stored(message), message, log_pb2.ProduceResponse, _as_stored)
    for message in (data[:at] + garbage + data[at + cut :], garbage):
        _same(plain_answers.parse_found(message), message, log_pb2.FetchResponse, _as_found)


def _same(read: Any, message: bytes, kind: Any, told: Any) -> None:
    if read is None:
        return
    try:
        expected = kind.FromString(message)
    except DecodeError:
        pytest.fail(f"{message!r} is no message, but was read as {read}")
    assert told(expected) == read


def _as_stored(message: log_pb2.ProduceResponse) -> plain_answers.Stored:
    (ack,) = message.acks
    assert not ack.HasField("error")
    return plain_answers.Stored(message.correlation, ack.base_offset, ack.log_append_time_ms)


def _as_found(message: log_pb2.FetchResponse) -> plain_answers.Found:
    (data,) = message.partitions
    return plain_answers.Found(
        message.correlation,
        TopicPartition(data.topic, data.partition),
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
        data.batches,
        message.stands,
    )
