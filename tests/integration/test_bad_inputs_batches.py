"""Wrong batches, each with the error that it must get and nothing else harmed.

The numbers are those of the list of bad inputs.
"""

from __future__ import annotations

import random
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pylog import errors
from pylog.local import LocalCluster
from pylog.records.batch import HEADER_SIZE, with_producer
from pylog.records.builder import encode_batch
from pylog.rpc import streams
from pylog.rpc.v1 import log_pb2
from tests.fakes import bad_batches, raw_http2
from tests.fakes.raw_client import RawClient
from tests.fakes.wrong_requests import (
    MIB,
    cpu_ms,
    memory,
    pid_of,
    produce_each,
    still_works,
    values,
)

pytestmark = pytest.mark.integration


# ---- batches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [7, -2, 2, 2**31 - 1, -(2**31)])
def test_13_acks_that_mean_nothing(raw: RawClient, topic: str, acks: int) -> None:
    ack = raw.produce(raw.leader(topic), topic, encode_batch([b"x"]), acks=acks)
    assert ack.error.code == errors.InvalidRequiredAcks.code
    assert str(acks) in ack.error.message
    still_works(raw, topic)


def test_14_batches_that_contradict_themselves(raw: RawClient, topic: str) -> None:
    named = dict(bad_batches.contradictory())
    acks = produce_each(raw, topic, named.values())
    wrong = {n: a.error for n, a in zip(named, acks, strict=True)}
    assert {n: e.code for n, e in wrong.items()} == dict.fromkeys(named, errors.InvalidRecord.code)
    indexes = {n: a.record_index for n, a in zip(named, acks, strict=True)}
    assert indexes["an inner offset twice"] == 1
    assert indexes["an inner offset left out"] == 1
    assert indexes["inner offsets from 1 on"] == 0
    assert indexes["two batches in one"] == -1
    still_works(raw, topic)


def test_14_no_batch_at_all_or_half_a_header(raw: RawClient, topic: str) -> None:
    whole = encode_batch([b"x" * 50])
    cuts = [b"", *(whole[:size] for size in range(1, len(whole)))]
    for ack in produce_each(raw, topic, cuts):
        assert ack.error.code in (errors.CorruptMessage.code, errors.InvalidRecord.code)
    still_works(raw, topic)


def test_15_one_flipped_bit_anywhere(raw: RawClient, topic: str) -> None:
    whole = encode_batch([b"some value"])
    flipped = []
    for bit in range(len(whole) * 8):
        batch = bytearray(whole)
        batch[bit // 8] ^= 1 << bit % 8
        flipped.append(bytes(batch))
    codes = [ack.error.code for ack in produce_each(raw, topic, flipped)]
    by_byte = [set(codes[at : at + 8]) for at in range(0, len(codes), 8)]
    corrupt, invalid = errors.CorruptMessage.code, errors.InvalidRecord.code
    assert set().union(*by_byte[:8]) == {invalid}  # the base offset, which a client leaves 0
    assert set().union(*by_byte[8:12]) <= {corrupt, invalid}  # the length
    assert set().union(*by_byte[12:16]) == {0}  # the leader epoch, which the leader sets
    assert by_byte[16] == {errors.UnsupportedVersion.code}  # the magic
    assert set().union(*by_byte[17:]) == {corrupt}
    assert errors.CorruptMessage.retriable
    assert values(raw, topic) == [b"some value"] * 32


def test_16_too_large_before_or_after_compression(raw: RawClient) -> None:
    raw.create_topic("small", max_message_bytes="2000")
    noise = random.Random(1).randbytes(3_000)
    acks = produce_each(
        raw, "small",
        [
            encode_batch([noise]), encode_batch([noise], compression="lz4"),
            encode_batch([b"x" * 60] * 100),
        ],
    )  # fmt: skip
    assert {ack.error.code for ack in acks} == {errors.MessageTooLarge.code}
    assert all("max.message.bytes is 2000" in ack.error.message for ack in acks)
    # The limit is for what is stored: compressed small enough is welcome.
    (ack,) = produce_each(raw, "small", [encode_batch([bytes(100_000)], compression="zstd")])
    assert ack.error.code == 0
    assert values(raw, "small") == [bytes(100_000)]


def test_17_decompression_bombs(raw: RawClient, topic: str, cluster: LocalCluster) -> None:
    broker = raw.partition(topic).leader
    still_works(raw, topic)  # also: all that is loaded at the first use is there
    pid = pid_of(cluster, broker)
    named = dict(bad_batches.bombs())
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
    before = memory(pid)
    slowest = 0
    for name, batch in named.items():
        begin_ms = cpu_ms(pid)
        ack = raw.produce(raw.leader(topic), topic, batch)
        slowest = max(slowest, cpu_ms(pid) - begin_ms)
        assert ack.error.code == errors.InvalidRecord.code, (name, ack.error)
    assert slowest < 1_000
    assert memory(pid, "VmHWM") - before < 64 * MIB
    leader = raw.leader(topic)
    with ThreadPoolExecutor(8) as pool:  # and many at once
        list(pool.map(lambda batch: raw.produce(leader, topic, batch), list(named.values()) * 3))
    assert memory(pid, "VmHWM") - before < 96 * MIB
    assert raw.produce(raw.leader(topic), topic, encode_batch([b"after"])).base_offset == 1


def test_18_malformed_streams(raw: RawClient, topic: str, cluster: LocalCluster) -> None:
    named = dict(bad_batches.malformed())
    pid = pid_of(cluster, raw.partition(topic).leader)
    begin_ms = cpu_ms(pid)
    acks = produce_each(raw, topic, named.values())
    assert cpu_ms(pid) - begin_ms < 3_000
    wrong = {name: ack.error.code for name, ack in zip(named, acks, strict=True)}
    assert wrong == dict.fromkeys(named, errors.InvalidRecord.code)
    still_works(raw, topic)


def test_19_unknown_codecs_and_magics(raw: RawClient, topic: str) -> None:
    records = bad_batches.record(b"x")
    codecs = [bad_batches.sealed(records, codec) for codec in (5, 6, 7)]
    acks = produce_each(raw, topic, codecs)
    assert {a.error.code for a in acks} == {errors.UnsupportedCompressionType.code}
    assert "codec 5 is not known; use none, gzip" in acks[0].error.message
    magics = []
    for magic in (0, 1, 3, 255):
        batch = bytearray(encode_batch([b"x"]))
        batch[16] = magic
        magics.append(bytes(batch))
    acks = produce_each(raw, topic, magics)
    assert {a.error.code for a in acks} == {errors.UnsupportedVersion.code}
    assert "use 2" in acks[0].error.message
    still_works(raw, topic)


def test_24_a_repeat_is_answered_and_a_gap_refused(raw: RawClient, topic: str) -> None:
    plain = encode_batch([b"x"])
    assert len(plain) > HEADER_SIZE
    first, gap = (bytes(with_producer(plain, 77, 0, sequence)) for sequence in (0, 5))
    acks = produce_each(raw, topic, [first, first, gap])
    assert [(a.error.code, a.base_offset) for a in acks[:2]] == [(0, 0), (0, 0)]
    assert acks[2].error.code == errors.OutOfOrderSequenceNumber.code
    assert values(raw, topic) == [b"x"]


def test_20_timestamps_outside_the_limits(raw: RawClient, topic: str) -> None:
    year_2500_ms = 16_725_225_600_000
    wrong = [encode_batch([b"x"], timestamps=at) for at in (-5, year_2500_ms, 2**63 - 1)]
    acks = produce_each(raw, topic, wrong)
    assert {ack.error.code for ack in acks} == {errors.InvalidTimestamp.code}
    assert "-5" in acks[0].error.message
    assert "message.timestamp.after.max.ms" in acks[1].error.message
    (ack,) = produce_each(raw, topic, [encode_batch([b"3", b"1", b"2"], timestamps=[3, 1, 2])])
    assert ack.error.code == 0
    raw.create_topic("recent", message_timestamp_before_max_ms="1000")
    (ack,) = produce_each(raw, "recent", [encode_batch([b"x"], timestamps=1)])
    assert ack.error.code == errors.InvalidTimestamp.code
    assert values(raw, topic) == [b"3", b"1", b"2"]


def test_21_control_batches_are_the_brokers_own(raw: RawClient, topic: str) -> None:
    marker = bad_batches.record(b"\0\0\0\0\0\1")
    control, transactional = 0x20, 0x10
    wrong = [
        bad_batches.sealed(marker, control),
        bad_batches.sealed(marker, control | transactional),
    ]
    for ack in produce_each(raw, topic, wrong):
        assert ack.error.code == errors.InvalidRecord.code
        assert "control" in ack.error.message
    still_works(raw, topic)


def test_22_a_compacted_topic_wants_keys(raw: RawClient) -> None:
    raw.create_topic("keyed", cleanup_policy="compact")
    two = [b"a", b"b", b"c"]
    for compression in ("none", "lz4"):
        batch = encode_batch(two, keys=[b"k", None, b"k"], compression=compression)
        (ack,) = produce_each(raw, "keyed", [batch])
        assert (ack.error.code, ack.record_index) == (errors.InvalidRecord.code, 1)
        assert "key" in ack.error.message
    (ack,) = produce_each(raw, "keyed", [encode_batch(two, keys=[b"k"] * 3)])
    assert ack.error.code == 0
    assert values(raw, "keyed") == two


def test_23_headers_without_measure(raw: RawClient, topic: str) -> None:
    (ack,) = produce_each(raw, topic, [encode_batch([b"x"], headers=[[("h", b"")] * 10**6])])
    assert ack.error.code == errors.MessageTooLarge.code
    long_keys = [("k" * MIB, b"")] * 40  # more than message.decompressed.max.bytes
    (ack,) = produce_each(
        raw, topic, [encode_batch([b"x"], headers=[long_keys], compression="zstd")]
    )
    assert ack.error.code == errors.InvalidRecord.code
    # attributes, timestamp, offset, no key, a value of 1 byte, 1 header: no key, no value
    null_key = bytes((0, 0, 0, 1, 2)) + b"x" + bytes((2, 1, 1))
    (ack,) = produce_each(raw, topic, [bad_batches.sealed(bytes((2 * len(null_key),)) + null_key)])
    assert (ack.error.code, ack.record_index) == (errors.InvalidRecord.code, 0)
    still_works(raw, topic)


def test_25_epochs_of_a_producer(raw: RawClient, topic: str) -> None:
    """A producer that the partition does not know begins with sequence 0, as a new epoch does."""
    plain = encode_batch([b"x"])

    def code(producer: int, epoch: int, sequence: int) -> int:
        (ack,) = produce_each(raw, topic, [bytes(with_producer(plain, producer, epoch, sequence))])
        return int(ack.error.code)

    out_of_order = errors.OutOfOrderSequenceNumber.code
    assert code(900, 3, 5) == out_of_order
    assert code(900, 3, 0) == 0
    assert code(900, 2, 1) == errors.InvalidProducerEpoch.code
    assert code(900, 4, 1) == out_of_order
    assert code(900, 4, 0) == 0
    assert code(900, 3, 1) == errors.InvalidProducerEpoch.code
    assert code(900, -1, 0) == errors.InvalidRecord.code
    assert values(raw, topic) == [b"x"] * 2


def test_46_a_client_that_dies_within_a_batch(
    raw: RawClient, cluster: LocalCluster, topic: str
) -> None:
    batch = log_pb2.PartitionBatch(topic=topic, batch=encode_batch([b"x" * 5_000]))
    request = log_pb2.ProduceRequest(correlation=1, acks=1, timeout_ms=1_000, batches=[batch])
    message = request.SerializeToString()
    prefix = b"\0" + len(message).to_bytes(4, "big")
    for sent in (prefix, (prefix + message)[:-1], (prefix + message)[:3_000]):
        with raw_http2.Call(raw.leader(topic), "/pylog.v1.Log/ProduceStream") as call:
            call.send(sent)
    cluster_id, broker = raw.metadata(topic).cluster_id, raw.partition(topic).leader
    hello = streams.hello(streams.PRODUCE, cluster_id, broker, "dies")
    frame = b"".join(bytes(piece) for piece in streams.framed(streams.MESSAGE, [message]))
    at = ("127.0.0.1", cluster._ports[broker][2])
    for sent in (frame[:3], frame[:3_000], frame[:-1]):
        with socket.create_connection(at, timeout=30) as connection:
            connection.sendall(hello)
            assert connection.recv(100)  # it was welcome
            connection.sendall(sent)
    still_works(raw, topic)


def test_47_the_same_request_twice(raw: RawClient, topic: str) -> None:
    """A proxy may repeat a call: a producer's number makes it one record, without one it is two."""
    leader = raw.leader(topic)
    numbered = bytes(with_producer(encode_batch([b"once"]), 901, 0, 0))
    answers = [raw.produce(leader, topic, numbered) for _ in range(3)]
    assert [(ack.error.code, ack.base_offset) for ack in answers] == [(0, 0)] * 3
    answers = [raw.produce(leader, topic, encode_batch([b"twice"])) for _ in range(2)]
    assert [ack.base_offset for ack in answers] == [1, 2]
    assert values(raw, topic) == [b"once", b"twice", b"twice"]
