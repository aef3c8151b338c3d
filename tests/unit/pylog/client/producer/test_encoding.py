"""A batch's bytes: made once, the same for every retry under one producer id."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.client.producer.encoding import LOADING_NS, PlainTime, batch_bytes
from pylog.client.sending.producer_batch import Batch
from pylog.model import TopicPartition
from pylog.records import native
from pylog.records.arrow_encoder import ArrowEncoder, BatchSettings
from pylog.records.batch import crc_matches, read_header
from pylog.records.compression import Compression
from pylog.records.reader import iter_records

NONE = Compression.of("none")


def from_arrow() -> Batch:
    """A batch that came encoded, as `send_arrow` makes it, and was not sent yet."""
    settings = BatchSettings(batch_size=10_000, stamped_later=True)
    encoder = ArrowEncoder(pa.array([b"x" * 50] * 3), default_timestamp_ms=1)
    (encoded,) = encoder.encode(None, settings)
    batch = Batch(TopicPartition("a", 0), 0, None, len(encoded))
    batch.close_encoded(encoded, 3, 1)
    return batch


@given(
    st.lists(st.one_of(st.integers(0, 3_000_000), st.integers(-99, -1)), min_size=1, max_size=200)
)
def test_each_record_has_the_time_of_its_stamp(steps: list[int]) -> None:
    """A step below 0 stands for a timestamp that the user gave."""
    batch, now_ns, expected = Batch(TopicPartition("a", 0), 0, None, 1 << 20), 10**15, []
    for step in steps:
        now_ns += max(0, step)
        batch.add(b"v", None, None, ~-step if step < 0 else now_ns, 30)
        expected.append(-step if step < 0 else now_ns // 1_000_000)
    batch.close()
    batch.times.begin(len(steps), now_ns + 10**9)  # a record that came too late
    records = list(iter_records(batch_bytes(batch, NONE), "a", 0))
    assert [record.timestamp_ms for record in records] == expected
    assert [batch.times[index] for index in range(len(steps))] == expected


def sequence(batch: Batch, producer_id: int, epoch: int, base_sequence: int) -> None:
    batch.producer_id, batch.producer_epoch = producer_id, epoch
    batch.base_sequence = base_sequence


@pytest.mark.skipif(not native.is_on(), reason="about what is off")
def test_the_first_stamp_is_put_in_place() -> None:
    batch = from_arrow()
    before = batch.encoded
    sequence(batch, 9, 2, 40)
    data = batch_bytes(batch, NONE)
    assert data is before
    header = read_header(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 40)
    assert crc_matches(data, 0, header)
    assert batch_bytes(batch, NONE) is data


def test_what_was_sent_does_not_change_under_a_fresh_producer_id() -> None:
    batch = from_arrow()
    sequence(batch, 9, 2, 40)
    sent = batch_bytes(batch, NONE)
    sequence(batch, 10, 0, 0)
    again = batch_bytes(batch, NONE)
    assert read_header(sent).producer_id == 9
    assert read_header(again).producer_id == 10
    assert again[61:] == sent[61:]
    for data in (sent, again):
        assert crc_matches(data, 0, read_header(data))


def test_plain_encoding_is_too_long_when_loading_would_have_taken_as_much() -> None:
    batch_ns = 1_000_000
    busy = PlainTime()  # nothing else is done
    first = next(number for number in range(10_000) if busy.is_too_long(number, batch_ns))
    assert first == pytest.approx(LOADING_NS / (batch_ns * 0.95), rel=0.01)
    seldom = PlainTime()  # a millisecond in twenty
    assert not any(seldom.is_too_long(20 * number, batch_ns) for number in range(50_000))
    late = PlainTime()
    assert not late.is_too_long(1_000_000_000, LOADING_NS - 1)
    assert late.is_too_long(1_000_000_000, 1)
