"""The generated codecs against kafka-python's, on random messages, and against garbage."""

from __future__ import annotations

import dataclasses
import random
import typing
from types import ModuleType
from typing import Any

import pytest
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.consumer.offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.producer.produce import ProduceRequest, ProduceResponse
from kafka.protocol.producer.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from pylog_broker.kafka.generated import (
    add_partitions_to_txn,
    api_versions,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    write_txn_markers,
)
from pylog_broker.kafka_primitives import MalformedMessage

APIS = [
    (add_partitions_to_txn, "request", AddPartitionsToTxnRequest),
    (add_partitions_to_txn, "response", AddPartitionsToTxnResponse),
    (api_versions, "request", ApiVersionsRequest),
    (api_versions, "response", ApiVersionsResponse),
    (fetch, "request", FetchRequest),
    (fetch, "response", FetchResponse),
    (list_offsets, "request", ListOffsetsRequest),
    (list_offsets, "response", ListOffsetsResponse),
    (offset_for_leader_epoch, "request", OffsetForLeaderEpochRequest),
    (offset_for_leader_epoch, "response", OffsetForLeaderEpochResponse),
    (produce, "request", ProduceRequest),
    (produce, "response", ProduceResponse),
    (sasl_authenticate, "request", SaslAuthenticateRequest),
    (sasl_authenticate, "response", SaslAuthenticateResponse),
    (sasl_handshake, "request", SaslHandshakeRequest),
    (sasl_handshake, "response", SaslHandshakeResponse),
    (write_txn_markers, "request", WriteTxnMarkersRequest),
    (write_txn_markers, "response", WriteTxnMarkersResponse),
]
CASES = [
    pytest.param(module, kind, theirs, version, id=f"{theirs.__name__}-v{version}")
    for module, kind, theirs in APIS
    for version in module.VERSIONS
    if version <= theirs.max_version
]
INT_BITS = {
    "error_code": 16, "api_key": 16, "min_version": 16, "max_version": 16, "isolation_level": 8,
    "max_version_level": 16, "min_version_level": 16, "producer_epoch": 16,
    "partition_error_code": 16, "transaction_version": 8, "acks": 16,
}  # fmt: skip
LONGS = {
    "finalized_features_epoch", "replica_epoch", "fetch_offset", "log_start_offset",
    "high_watermark", "last_stable_offset", "end_offset", "producer_id", "first_offset",
    "session_lifetime_ms", "timestamp", "offset", "base_offset", "log_append_time_ms",
}  # fmt: skip


OWN = {write_txn_markers.WritableTxnMarkerTopic: {"topic_id", "new_starts"}}
"""Fields of pylog alone, in tags that kafka-python does not give back."""


def message_class(module: ModuleType, kind: str) -> type:
    name = "".join(part.capitalize() for part in module.__name__.rsplit(".")[-1].split("_"))
    return getattr(module, name + kind.capitalize())  # type: ignore[no-any-return]


def random_value(rng: random.Random, name: str, kind: Any) -> Any:
    arguments = typing.get_args(kind)
    if type(None) in arguments:
        if rng.random() < 0.2:
            return None
        return random_value(rng, name, arguments[0])
    if typing.get_origin(kind) is list:
        count = rng.choice((0, 1, 2, 130)) if not dataclasses.is_dataclass(arguments[0]) else 2
        return [random_value(rng, name, arguments[0]) for _ in range(rng.randint(0, count))]
    if dataclasses.is_dataclass(kind):
        return random_message(rng, typing.cast(type, kind))
    if kind is bool:
        return rng.random() < 0.5
    if kind is int:
        bits = INT_BITS.get(name, 64 if name in LONGS else 32)
        return rng.choice((-1, 0, 1, rng.getrandbits(bits - 1), -(1 << (bits - 1))))
    if kind is str:
        return "".join(rng.choice("ab-ßé한") for _ in range(rng.choice((0, 3, 150))))
    if name.endswith("_id"):
        return rng.randbytes(16)
    return rng.randbytes(rng.choice((0, 1, 200, 6000)))


def random_message(rng: random.Random, cls: type) -> Any:
    hints = typing.get_type_hints(cls)
    names = hints.keys() - OWN.get(cls, set())
    return cls(**{name: random_value(rng, name, hints[name]) for name in hints if name in names})


def encoded(module: Any, kind: str, message: Any, version: int) -> bytes:
    return b"".join(getattr(module, f"encode_{kind}")(message, version))


def decoded(module: Any, kind: str, body: bytes, version: int) -> Any:
    return getattr(module, f"decode_{kind}")(memoryview(body), 0, version)


@pytest.mark.parametrize(("module", "kind", "theirs", "version"), CASES)
def test_random_messages_are_what_kafka_python_reads_and_writes(
    module: ModuleType, kind: str, theirs: Any, version: int
) -> None:
    rng = random.Random(f"{theirs.__name__} {version}")
    cls = message_class(module, kind)
    for _ in range(60):
        message = random_message(rng, cls)
        if theirs is ApiVersionsResponse:
            message.error_code = 0  # it reads an error's answer in the form of v0 (KIP-511)
        body = encoded(module, kind, message, version)
        partner = theirs.decode(body, version=version)
        assert bytes(partner.encode()) == body
        assert encoded(module, kind, decoded(module, kind, body, version), version) == body


@pytest.mark.parametrize(("module", "kind", "theirs", "version"), CASES)
def test_every_truncation_and_random_damage_is_refused_by_name_or_decodes(
    module: ModuleType, kind: str, theirs: Any, version: int
) -> None:
    rng = random.Random(f"damage {theirs.__name__} {version}")
    cls = message_class(module, kind)
    body = encoded(module, kind, random_message(rng, cls), version)[:3000]
    for end in range(0, len(body), 1 + len(body) // 200):
        try:
            decoded(module, kind, body[:end], version)
        except MalformedMessage:
            continue
    for _ in range(200):
        damaged = bytearray(body)
        for _ in range(rng.randint(1, 4)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        try:
            decoded(module, kind, bytes(damaged), version)
        except MalformedMessage:
            continue


def test_an_array_of_two_billion_is_refused_before_anything_is_made() -> None:
    body = encoded(fetch, "request", fetch.FetchRequest(), 17)
    at = 4 + 4 + 4 + 1 + 4 + 4  # the count of topics
    assert body[at] == 1
    with pytest.raises(MalformedMessage, match="topics announces 4294967294 elements"):
        decoded(fetch, "request", body[:at] + b"\xff\xff\xff\xff\x0f" + body[at + 1 :], 17)


def test_bytes_behind_the_message_are_refused() -> None:
    body = encoded(sasl_handshake, "request", sasl_handshake.SaslHandshakeRequest("x"), 1)
    with pytest.raises(MalformedMessage, match="1 bytes too many"):
        decoded(sasl_handshake, "request", body + b"\0", 1)


def test_large_records_stay_a_buffer_of_their_own() -> None:
    records = bytes(100_000)
    partition = fetch.PartitionData(records=records)
    response = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(partitions=[partition])])
    chunks = fetch.encode_response(response, 17)
    assert any(chunk is records for chunk in chunks)
    assert decoded(fetch, "response", b"".join(chunks), 17) == response


def test_unknown_tagged_fields_are_skipped() -> None:
    body = encoded(sasl_authenticate, "request", sasl_authenticate.SaslAuthenticateRequest(b"a"), 2)
    tagged = body[:-1] + b"\x01\x63\x03abc"
    assert decoded(sasl_authenticate, "request", tagged, 2).auth_bytes == b"a"
