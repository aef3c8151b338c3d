"""The bytes that members of a group exchange. The golden ones are what Apache Kafka 4.2 writes
(`ConsumerProtocol.serializeSubscription`, `serializeAssignment`) for the same values.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog import errors
from pylog.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_shared_out,
    decode_subscription,
    encode_assignment,
    encode_shared_out,
    encode_subscription,
)
from pylog.model import TopicPartition

A0, B0, B1 = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("b", 1)

FULL = Subscription(("b", "a"), b"\x01\x02", (B1, A0, B0), 7, "rack1")
TOPICS = "00000002 000161 000162 00000002 0102"
OWNED = "00000002 000161 00000001 00000000 000162 00000002 00000000 00000001"
FULL_BYTES = {
    0: f"0000 {TOPICS}",
    1: f"0001 {TOPICS} {OWNED}",
    2: f"0002 {TOPICS} {OWNED} 00000007",
    3: f"0003 {TOPICS} {OWNED} 00000007 0005 7261636b31",
}
BARE = Subscription(("t",))
BARE_BYTES = {
    0: "0000 00000001 000174 ffffffff",
    1: "0001 00000001 000174 ffffffff 00000000",
    2: "0002 00000001 000174 ffffffff 00000000 ffffffff",
    3: "0003 00000001 000174 ffffffff 00000000 ffffffff ffff",
}
ASSIGNED = Assignment((B1, B0, A0), b"\x09")
ASSIGNED_BYTES = "00000002 000162 00000002 00000001 00000000 000161 00000001 00000000 00000001 09"


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_is_written_as_kafka_writes_it(version: int) -> None:
    assert encode_subscription(FULL, version) == bytes.fromhex(FULL_BYTES[version])
    assert encode_subscription(BARE, version) == bytes.fromhex(BARE_BYTES[version])


def test_a_subscription_is_read_as_far_as_its_version_goes() -> None:
    topics, owned = ("a", "b"), (A0, B0, B1)
    read = {v: decode_subscription(bytes.fromhex(text)) for v, text in FULL_BYTES.items()}
    assert read == {
        0: Subscription(topics, b"\x01\x02"),
        1: Subscription(topics, b"\x01\x02", owned),
        2: Subscription(topics, b"\x01\x02", owned, 7),
        3: Subscription(topics, b"\x01\x02", owned, 7, "rack1"),
    }


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_is_written_as_kafka_writes_it(version: int) -> None:
    written = encode_assignment(ASSIGNED, version)
    assert written == bytes.fromhex(f"{version:04x} {ASSIGNED_BYTES}")
    assert decode_assignment(written) == ASSIGNED


def test_an_empty_assignment_is_read_with_and_without_bytes() -> None:
    assert encode_assignment(Assignment(), 1) == bytes.fromhex("0001 00000000 ffffffff")
    assert decode_assignment(bytes.fromhex("0001 00000000 ffffffff")) == Assignment()
    assert decode_assignment(b"") == Assignment()


def test_what_a_later_version_adds_is_left_alone() -> None:
    later = bytes.fromhex("0009" + FULL_BYTES[3][4:] + "cafe")
    assert decode_subscription(later) == decode_subscription(bytes.fromhex(FULL_BYTES[3]))
    assert decode_assignment(bytes.fromhex(f"0009 {ASSIGNED_BYTES} cafe")) == ASSIGNED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ffff 00000000", "its version is -1"),
        ("0000 7fffffff", "an array announces 2147483647 elements in 0 bytes"),
        ("0000 ffffffff", "an array announces -1 elements in 0 bytes"),
        ("0000 00000001 ffff ffffffff", "a topic's name is null"),
        ("0000 00000001 fffe ffffffff", "a text takes -2 bytes, 4 are left"),
        ("0000 00000001 0002 ff61 ffffffff", "a text is not UTF-8"),
        ("0000 00000000 fffffffe", "user data takes -2 bytes, 0 are left"),
        ("0001 00000000 ffffffff 00000001 000174 40000000", "announces 1073741824 elements"),
        ("0001 00000000 ffffffff 00000001 000174 00000001 ffffffff", "of 't' is negative"),
    ],
)
def test_what_is_no_subscription_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(errors.InconsistentGroupProtocol, match=reason):
        decode_subscription(bytes.fromhex(text))


@pytest.mark.parametrize("cut", range(len(bytes.fromhex(FULL_BYTES[3]))))
def test_a_subscription_that_ends_early_is_refused(cut: int) -> None:
    with pytest.raises(errors.InconsistentGroupProtocol, match="the subscription of a member"):
        decode_subscription(bytes.fromhex(FULL_BYTES[3])[:cut])


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        with contextlib.suppress(errors.InconsistentGroupProtocol):
            decode(data)


def test_a_leader_reads_what_it_has_shared_out() -> None:
    for counts in (dict[str, int](), {"t": 3, "ü": 100_000}):
        assert decode_shared_out(encode_shared_out(counts)) == counts
    assert decode_shared_out(None) is None


@given(st.binary(max_size=40))
def test_user_data_of_others_tell_a_leader_nothing(data: bytes) -> None:
    decode_shared_out(b"pylog\x00" + data)
    if not data.startswith(b"pylog\x00"):
        assert decode_shared_out(data) is None
