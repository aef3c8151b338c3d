"""Dead letters as bytes, and which topics take them."""

from __future__ import annotations

from typing import Any

import pytest

from pylog.model import TopicPartition
from pylog.records.batch import with_offset_and_epoch
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog_broker.dead_letter_topics import DeadLetterRules, topic_fault
from pylog_broker.share.dead_letters import Copied, DeadLetterBatch, copies, next_batch
from pylog_broker.share.share_partition import DeadLetters

ORIGIN = TopicPartition("jobs", 3)
REJECTED = DeadLetters(5, 6, 1, is_rejected=True)
TOO_OFTEN = DeadLetters(9, 9, 5, is_rejected=False)
NO_END = 1 << 62


def batch(
    skip: int = 0, copied: dict[int, Copied] | None = None, **changes: Any
) -> DeadLetterBatch:
    limits: dict[str, Any] = {
        "until": NO_END, "most": NO_END, "wall_ms": 7, "bytes_max": 1 << 20,
        "record_bytes_max": 1 << 20,
    }  # fmt: skip
    letters = [REJECTED, TOO_OFTEN]
    return next_batch(letters, skip, ORIGIN, "g", copied or {}, **limits | changes)


def test_headers_tell_where_a_record_lies_and_why_it_is_there() -> None:
    made = batch()
    assert (made.letters, made.stripped) == (3, 0)
    first, _, last = iter_records(made.records, "dlq", 0)
    assert (first.key, first.value, first.timestamp_ms) == (None, None, 7)
    assert first.headers == [
        ("__dlq.errors.topic", b"jobs"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"5"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    ]
    told = dict(last.headers)
    assert told["__dlq.errors.offset"] == b"9"
    assert told["__dlq.errors.delivery.count"] == b"5"
    assert told["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."


def test_key_and_value_go_along_where_the_log_has_them() -> None:
    copied = {5: Copied(b"k", b"v"), 9: Copied(None, b""), 6: Copied(b"", None)}
    records = iter_records(batch(copied=copied).records, "dlq", 0)
    assert [(each.key, each.value) for each in records] == [(b"k", b"v"), (b"", None), (None, b"")]
    records = iter_records(batch(copied={5: Copied(b"k", b"v")}).records, "dlq", 0)
    assert [each.value for each in records] == [b"v", None, None]


def test_a_batch_has_as_many_as_there_is_room_for() -> None:
    large = {offset: Copied(None, b"v" * 1_000) for offset in (5, 6, 9)}
    one = batch(copied=large, bytes_max=2_000)
    assert one.letters == 1
    assert len(one.records) <= 2_000
    assert batch(1, large, bytes_max=100).letters == 1
    assert batch(1, large, most=1).letters == 1
    assert batch(0, large, until=6).letters == 1
    rest = batch(2, large)
    assert rest.letters == 1
    (record,) = iter_records(rest.records, "dlq", 0)
    assert dict(record.headers)["__dlq.errors.offset"] == b"9"


def test_what_is_larger_than_the_topic_takes_goes_without_key_and_value() -> None:
    large = {5: Copied(b"k", b"v" * 5_000), 6: Copied(b"k", b"v")}
    made = batch(copied=large, bytes_max=4_000, record_bytes_max=4_000)
    assert (made.letters, made.stripped) == (3, 1)
    assert len(made.records) <= 4_000
    values = [each.value for each in iter_records(made.records, "dlq", 0)]
    assert values == [None, b"v", None]


def stored(base: int, *values: bytes, compression: str = "none") -> bytes:
    plain = encode_batch(values, keys=[b"k"] * len(values), compression=compression)
    return b"".join(with_offset_and_epoch(plain, base, 0))


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_copies_are_what_a_read_has_found(compression: str) -> None:
    records = stored(3, b"a", b"b", b"c", compression=compression) + stored(8, b"d")
    limits = {"bytes_max": 1 << 20, "unpacked_bytes_max": 1 << 20}
    found, read_to = copies(records, ORIGIN, 4, **limits)
    assert found == {4: Copied(b"k", b"b"), 5: Copied(b"k", b"c"), 8: Copied(b"k", b"d")}
    assert read_to == 9
    assert copies(b"", ORIGIN, 4, **limits) == ({}, 5)
    limits["bytes_max"] = 1
    assert copies(records, ORIGIN, 4, **limits) == ({4: Copied(b"k", b"b")}, 5)


def test_what_cannot_be_read_is_left_out_and_what_is_behind_it_is_not() -> None:
    rotten = bytearray(stored(3, b"a", b"b"))
    rotten[-1] ^= 1
    limits = {"bytes_max": 1 << 20, "unpacked_bytes_max": 100}
    records = stored(0, b"x") + bytes(rotten) + stored(5, b"c")
    assert copies(records, ORIGIN, 0, **limits) == ({0: Copied(b"k", b"x")}, 5)
    assert copies(records, ORIGIN, 3, **limits) == ({}, 5)
    bomb = stored(3, b"v" * 10_000, compression="zstd")
    assert copies(bomb, ORIGIN, 3, **limits) == ({}, 4)


@pytest.mark.parametrize(
    ("topic", "exists", "accepts", "auto_create", "words"),
    [
        ("dlq.t", True, True, False, None),
        ("dlq.t", False, False, True, None),
        ("dlq.t", False, False, False, "there is no topic 'dlq.t'"),
        ("dlq.t", True, False, True, "does not have errors.deadletterqueue.group.enable=true"),
        ("t", True, True, False, "begins with 'dlq.'"),
        ("__t", True, True, False, "internal"),
    ],
)
def test_which_topics_take_dead_letters(
    topic: str, exists: bool, accepts: bool, auto_create: bool, words: str | None
) -> None:
    rules = DeadLetterRules(auto_create=auto_create)
    fault = topic_fault(topic, rules, exists=exists, accepts=accepts)
    assert fault is None if words is None else words in (fault or "")
    assert topic_fault("any", DeadLetterRules(""), exists=True, accepts=True) is None
