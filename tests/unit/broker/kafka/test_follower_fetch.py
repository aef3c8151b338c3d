"""The short way between Fetch v18's bytes and replication's values, against the long one."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import FencedLeaderEpoch, from_code
from pylog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset, topic_id_from_bytes
from pylog_broker.kafka import follower_fetch, translate
from pylog_broker.kafka.generated import fetch
from pylog_broker.kafka_primitives import MalformedMessage
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.fetch_messages import EpochEnd
from pylog_broker.replication.replica_fetch_messages import (
    ReplicaFetch,
    ReplicaFetched,
    ReplicaPartitionData,
    ReplicaPartitionFetch,
)
from tests.fakes.follower_fetches import fetch_to_wire

T = TypeVar("T")

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
topic_ids = st.sampled_from([topic_id_from_bytes(bytes([n]) * 16) for n in (0, 1, 255)])
epochs = st.integers(-1, 2**31 - 1).map(LeaderEpoch)
offsets = int64.map(Offset)
told = st.one_of(st.just(-1), st.integers(0, 2**63 - 2)).map(Offset)


def one_of(items: st.SearchStrategy[T]) -> st.SearchStrategy[tuple[T, ...]]:
    """One partition, as in most messages."""
    return st.tuples(items)


questions = st.builds(
    ReplicaPartitionFetch, topic_ids, int32, epochs, offsets, epochs, offsets, int32, told
)
fetches = st.builds(
    ReplicaFetch,
    st.integers(0, 100).map(BrokerId),
    int64.map(BrokerEpoch),
    int32,
    int32,
    int32,
    st.one_of(one_of(questions), st.lists(questions, max_size=6).map(tuple)),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**31 - 1),
    st.one_of(st.just(()), st.lists(st.tuples(topic_ids, int32), max_size=3).map(tuple)),
)
fault = Failure(FencedLeaderEpoch.code, str(from_code(FencedLeaderEpoch.code)))
faults = st.sampled_from([None, fault])
ends = st.builds(EpochEnd, st.integers(0, 9).map(LeaderEpoch), offsets)
records = st.one_of(st.binary(max_size=40), st.binary(min_size=5_000, max_size=5_001))
data = st.builds(
    ReplicaPartitionData,
    topic_ids,
    int32,
    faults,
    offsets,
    offsets,
    offsets,
    st.one_of(st.none(), ends),
    records,
    st.integers(-1, 9).map(BrokerId),
    epochs,
)
answers = st.builds(
    ReplicaFetched,
    faults,
    st.one_of(one_of(data), st.lists(data, max_size=5).map(tuple)),
    st.integers(0, 2**31 - 1),
)


def long_request(request: ReplicaFetch) -> bytes:
    return b"".join(fetch.encode_request(fetch_to_wire(request), 18))


def long_response(fetched: ReplicaFetched) -> bytes:
    return b"".join(fetch.encode_response(translate.fetched_to_wire(fetched), 18))


@given(fetches)
def test_requests_are_the_same_bytes_and_values_both_ways(request: ReplicaFetch) -> None:
    data = long_request(request)
    assert b"".join(follower_fetch.encode_request(request)) == data
    read = translate.fetch_from_wire(fetch.decode_request(memoryview(data), 0, 18))
    assert follower_fetch.decode_request(memoryview(data), 0) == read


@given(answers)
def test_answers_are_the_same_bytes_and_values_both_ways(fetched: ReplicaFetched) -> None:
    data = long_response(fetched)
    assert b"".join(follower_fetch.encode_response(fetched)) == data
    read = translate.fetched_from_wire(fetch.decode_response(memoryview(data), 0, 18))
    assert follower_fetch.decode_response(memoryview(data), 0) == read


@given(fetches, st.data())
def test_damaged_requests_are_read_or_refused_alike(
    request: ReplicaFetch, draw: st.DataObject
) -> None:
    damaged = memoryview(_damage(long_request(request), draw))

    def long_way() -> object:
        return translate.fetch_from_wire(fetch.decode_request(damaged, 0, 18))

    assert _outcome(lambda: follower_fetch.decode_request(damaged, 0)) == _outcome(long_way)


@given(answers, st.data())
def test_damaged_answers_are_read_or_refused_alike(
    fetched: ReplicaFetched, draw: st.DataObject
) -> None:
    damaged = memoryview(_damage(long_response(fetched), draw))

    def long_way() -> object:
        return translate.fetched_from_wire(fetch.decode_response(damaged, 0, 18))

    assert _outcome(lambda: follower_fetch.decode_response(damaged, 0)) == _outcome(long_way)


def test_followers_that_are_told_the_same_are_sent_the_same_bytes() -> None:
    item = ReplicaPartitionData(
        topic_id_from_bytes(bytes(16)), 3, None, Offset(5), Offset(5), Offset(0), None, b"batch",
        BrokerId(1), LeaderEpoch(2),
    )  # fmt: skip
    for other in (item, item._replace(high_watermark=Offset(6)), item):
        for session in (7, 8):
            fetched = ReplicaFetched(None, (other,), session)
            assert b"".join(follower_fetch.encode_response(fetched)) == long_response(fetched)


def _damage(data: bytes, draw: st.DataObject) -> bytes:
    if draw.draw(st.booleans()):
        return data[: draw.draw(st.integers(0, len(data) - 1))]
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        damaged[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    return bytes(damaged)


def _outcome(read: object) -> object:
    assert callable(read)
    try:
        return read()
    except MalformedMessage as fault:
        return str(fault)
