"""Acquired offsets become records, and the consumer itself acknowledges those that are none."""

from __future__ import annotations

from typing import Any

import pytest

from pylog import errors
from pylog.client.consumer.consumer_settings import Interceptors, UserCode
from pylog.client.consumer.decoding import Deserialize
from pylog.client.share_consumer.share_decoding import Decoded, decode
from pylog.client.sharing.messages import AckRange, Acquired, AcquiredRange, SharedPartition
from pylog.records.builder import encode_batch
from pylog.records.record import Record

GAP, RELEASED, REJECTED = b"\x00", b"\x02", b"\x03"


def decoded(
    batches: list[bytes],
    *ranges: tuple[int, int, int],
    key: Deserialize | None = None,
    value: Deserialize | None = None,
) -> Decoded:
    acquired = Acquired(
        SharedPartition("id", "t", 0),
        1,
        0,
        tuple(AcquiredRange(*each) for each in ranges),
        b"".join(batches),
        0,
    )
    return decode(acquired, UserCode(key, value, Interceptors(())), check_crcs=True)


def shown(found: Decoded) -> list[Any]:
    """Records as (offset, value, delivery count), errors as their types."""
    return [
        [(r.offset, r.value, r.delivery_count) for r in item]
        if isinstance(item, list)
        else type(item)
        for item in found.items
    ]


def own(found: Decoded) -> tuple[AckRange, ...]:
    return () if found.by_itself is None else found.by_itself.ranges


def test_only_acquired_records_are_given_with_their_counts() -> None:
    found = decoded(
        [encode_batch([b"a", b"b", b"c", b"d"]), encode_batch([b"e"], base_offset=4)],
        (1, 2, 1),
        (4, 4, 3),
    )
    assert shown(found) == [[(1, b"b", 1), (2, b"c", 1), (4, b"e", 3)]]
    assert own(found) == ()


def test_an_offset_without_a_record_is_a_gap() -> None:
    batches = [encode_batch([b"a"]), encode_batch([b"d"], base_offset=3)]
    found = decoded(batches, (0, 4, 1))
    assert shown(found) == [[(0, b"a", 1), (3, b"d", 1)]]
    assert own(found) == (AckRange(1, 2, GAP), AckRange(4, 4, GAP))
    assert found.by_itself is not None
    assert not found.by_itself.by_user


def test_only_gaps() -> None:
    found = decoded([], (7, 8, 1))
    assert (shown(found), own(found)) == ([], (AckRange(7, 8, GAP),))


def test_a_record_that_the_deserializer_fails_on_is_released_in_its_place() -> None:
    batch = encode_batch([b"1", b"two", b"3"])
    found = decoded([batch], (0, 2, 2), value=lambda _topic, data: int(data))
    assert shown(found) == [[(0, 1, 2)], errors.SerializationFailed, [(2, 3, 2)]]
    assert own(found) == (AckRange(1, 1, RELEASED),)
    fault = found.items[1]
    assert isinstance(fault, errors.SerializationFailed)
    assert "t-0 at offset 1: the deserializer failed on the value" in str(fault)
    assert fault.record.value == b"two"


def test_deserializers_do_not_see_what_was_not_acquired() -> None:
    seen: list[bytes] = []

    def note(_topic: str, data: bytes) -> bytes:
        seen.append(data)
        return data

    decoded([encode_batch([b"a", b"b", b"c"])], (1, 1, 1), value=note)
    assert seen == [b"b"]


def test_a_broken_batch_is_rejected_and_the_others_are_read() -> None:
    broken = bytearray(encode_batch([b"b", b"c"], base_offset=1))
    broken[-1] ^= 1
    batches = [encode_batch([b"a"]), bytes(broken), encode_batch([b"d"], base_offset=3)]
    found = decoded(batches, (0, 1, 1), (3, 3, 1))
    assert shown(found) == [[(0, b"a", 1)], errors.CorruptMessage, [(3, b"d", 1)]]
    assert own(found) == (AckRange(1, 1, REJECTED),)


@pytest.mark.parametrize("count", [None, 4])
def test_a_record_keeps_its_count_when_it_is_pickled(count: int | None) -> None:
    import pickle

    record = Record.of("t", 0, 5, value=b"v", delivery_count=count)
    copied = pickle.loads(pickle.dumps(record))
    assert (copied, copied.delivery_count) == (record, count)
