from __future__ import annotations

from typing import Any

import pytest

from pylog import errors
from pylog.client.consumer.decoding import Decoder, Deserialize
from pylog.client.fetching.fetch_state import Chunk
from pylog.model import TopicPartition
from pylog.records.builder import encode_batch

TP = TopicPartition("t", 0)


def decoder(
    batches: list[bytes],
    next_offset: int,
    position: int = 0,
    *,
    key: Deserialize | None = None,
    value: Deserialize | None = None,
) -> Decoder:
    chunk = Chunk(b"".join(batches), next_offset)
    return Decoder(chunk, TP, position, key=key, value=value, check_crcs=True)


def test_records_come_in_pieces_and_the_position_follows() -> None:
    reading = decoder(
        [encode_batch([b"a", b"b", b"c"]), encode_batch([b"d"], base_offset=5)], 6, position=1
    )
    assert [r.value for r in reading.take(1)] == [b"b"]
    assert reading.position == 2
    assert [r.value for r in reading.take(10)] == [b"c"]
    assert reading.position == 3
    assert [r.offset for r in reading.take(10)] == [5]
    assert (reading.position, reading.done) == (6, False)
    assert reading.take(10) == []
    assert (reading.position, reading.done) == (6, True)


def test_deserializers_see_topic_and_data_and_null() -> None:
    def value(topic: str, data: bytes | None) -> Any:
        return (topic, data)

    reading = decoder([encode_batch([b"a", None])], 2, value=value)
    assert [r.value for r in reading.take(10)] == [("t", b"a"), ("t", None)]


def test_a_failing_deserializer_gives_what_came_before_and_names_the_place() -> None:
    def value(_topic: str, data: bytes | None) -> int:
        assert data is not None
        return int(data)

    reading = decoder([encode_batch([b"1", b"2", b"x", b"4"])], 4, value=value)
    assert [r.value for r in reading.take(10)] == [1, 2]
    assert reading.position == 2
    assert reading.take(10) == []
    assert isinstance(reading.error, errors.SerializationFailed)
    assert "t-0 at offset 2" in str(reading.error)
    assert "value" in str(reading.error)
    assert reading.position == 2


def test_a_flipped_bit_is_told_after_the_good_batches() -> None:
    bad = bytearray(encode_batch([b"b"], base_offset=1))
    bad[-1] ^= 1
    reading = decoder([encode_batch([b"a"]), bytes(bad)], 2)
    assert [r.value for r in reading.take(10)] == [b"a"]
    assert reading.take(10) == []
    assert isinstance(reading.error, errors.CorruptMessage)
    assert reading.error.next_offset == 2
    assert str(reading.error).endswith("seek() to 2 to go on")
    assert reading.position == 1


@pytest.mark.parametrize("columns", [False, True])
def test_the_way_on_leads_to_the_next_batch_that_is_whole(columns: bool) -> None:
    batches = [bytearray(encode_batch([b"a"], base_offset=2 * n)) for n in range(5)]
    batches[1][-1] ^= 1
    batches[2][30] ^= 1
    reading = decoder([bytes(each) for each in batches], 9)
    read = reading.take_columns(False).num_rows if columns else len(reading.take(10))
    assert read == 1
    if not columns:
        assert reading.take(10) == []
    assert isinstance(reading.error, errors.CorruptMessage)
    assert reading.error.next_offset == 6
