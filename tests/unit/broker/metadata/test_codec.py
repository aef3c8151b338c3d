"""Records and messages survive the way through protobuf bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.errors import CorruptMessage, StaleBrokerEpoch, UnsupportedVersion
from pylog.model import BrokerEpoch, BrokerId, ControllerEpoch, NewTopic
from pylog.rpc.v1 import cluster_pb2, records_pb2
from pylog_broker.metadata import codec, messages, record_codec, records
from pylog_broker.metadata.admin import CreatedTopic, CreateTopics, TopicsCreated

INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(0, 2**63 - 1)
TEXT = st.text(max_size=8)
NAME = st.text(min_size=1, max_size=8)
ENDPOINTS = st.builds(records.Endpoint, host=TEXT, port=st.integers(0, 65_535))
LISTENERS = st.lists(
    st.builds(records.Listener, TEXT, ENDPOINTS, TEXT, TEXT), min_size=1, max_size=3
).map(tuple) | st.builds(records.usual_listeners, ENDPOINTS, ENDPOINTS, st.none() | ENDPOINTS)
SOFTWARE = st.builds(
    records.Software, TEXT, TEXT,
    st.dictionaries(TEXT, st.integers(0, 99), max_size=3).map(lambda d: tuple(sorted(d.items()))),
    st.lists(st.builds(records.FeatureRange, TEXT, INT32, INT32), max_size=2).map(tuple),
)  # fmt: skip
BROKERS = st.lists(INT32, max_size=4).map(tuple)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
FAILURES = st.builds(messages.Failure, code=st.integers(1, 150), message=TEXT)

REGISTRATIONS = st.builds(
    records.RegisterBrokerRecord,
    broker_id=INT32, broker_epoch=INT64, incarnation_id=TEXT, host_id=TEXT,
    rack=st.none() | NAME, listeners=LISTENERS, software=SOFTWARE,
    directory_id=TEXT, boot_id=TEXT, fenced=st.booleans(), in_controlled_shutdown=st.booleans(),
    log_dirs=TEXTS, offline_log_dirs=TEXTS,
)  # fmt: skip
PARTITIONS = st.builds(
    records.PartitionRecord,
    topic_id=TEXT, partition=INT32, replicas=BROKERS, isr=BROKERS,
    leader=st.integers(-1, 2**31 - 1), leader_epoch=INT32, partition_epoch=INT32,
    eligible_leader_replicas=BROKERS, last_known_elr=BROKERS, directories=TEXTS,
    adding_replicas=BROKERS, removing_replicas=BROKERS, failed_replicas=BROKERS,
    emptied_replicas=BROKERS, never_committed=st.booleans(),
)  # fmt: skip
RECORDS = st.one_of(
    REGISTRATIONS,
    PARTITIONS,
    st.builds(records.ClusterRecord, TEXT),
    st.builds(records.ControllerEpochRecord, INT64, INT64),
    st.builds(records.FeatureLevelRecord, TEXT, INT32),
    st.builds(records.BrokerChangeRecord, INT32, INT64, st.booleans(), st.booleans(), TEXTS),
    st.builds(records.UnregisterBrokerRecord, INT32),
    st.builds(records.TopicRecord, TEXT, TEXT),
    st.builds(records.RemoveTopicRecord, TEXT),
    st.builds(records.ProducerIdsRecord, INT32, INT64, INT64),
    st.builds(
        records.ConfigRecord,
        st.sampled_from(records.ConfigResourceType), TEXT, TEXT, st.none() | TEXT,
    ),
)  # fmt: skip

DIRECTORIES = st.builds(
    messages.BrokerDirectory, INT32, TEXT, TEXT, TEXT, st.booleans(), st.booleans()
)
ISRS = st.builds(
    messages.PartitionIsr, TEXT, INT32, INT32, INT32,
    st.lists(st.builds(messages.BrokerState, INT32, INT64), max_size=3).map(tuple),
)  # fmt: skip
ALTERED = st.builds(
    messages.AlteredPartition, TEXT, INT32, st.none() | FAILURES, st.integers(-1, 9), INT32,
    BROKERS, INT32,
)  # fmt: skip
SNAPSHOTS = st.booleans()
REPLICAS = st.lists(st.tuples(TEXT, INT32), max_size=3).map(tuple)

LOG_DIRECTORIES = st.builds(messages.LogDirectory, TEXT, st.booleans(), REPLICAS)
PAIRS: list[tuple[str, st.SearchStrategy[Any]]] = [
    ("batch", st.builds(
        messages.MetadataBatch, INT64, INT64, st.lists(RECORDS, max_size=3).map(tuple), SNAPSHOTS,
        st.integers(-1, 9), st.none() | st.integers(-1, 9),
    )),
    ("claim", st.builds(
        messages.ClaimBroker, TEXT, TEXT, st.lists(DIRECTORIES, max_size=3).map(tuple),
        st.integers(-1, 99),
    )),
    ("claimed", FAILURES | st.builds(
        messages.BrokerClaim, st.integers(-1, 9), st.none() | NAME, TEXT, INT64, INT32, INT64,
    )),
    ("registration", st.builds(
        messages.RegisterBroker,
        broker_id=INT32, incarnation_id=TEXT, cluster_id=TEXT, host_id=TEXT,
        rack=st.none() | NAME, listeners=LISTENERS, software=SOFTWARE,
        directory_id=TEXT, boot_id=TEXT, log_intact=st.booleans(),
        highest_controller_epoch=st.integers(-1, 9), failed_replicas=REPLICAS,
        lost_replicas=REPLICAS, offline_log_dirs=TEXTS,
        log_dirs=st.lists(LOG_DIRECTORIES, max_size=2).map(tuple), previous_broker_epoch=INT64,
    )),
    ("registered", FAILURES | st.builds(messages.BrokerRegistered, INT64, INT64)),
    ("shutdown", FAILURES | st.builds(messages.ShutdownPermitted, INT32)),
    ("alter", st.builds(
        messages.AlterPartition, INT32, INT64, st.lists(ISRS, max_size=3).map(tuple)
    )),
    ("altered", st.builds(
        messages.PartitionsAltered, st.none() | FAILURES, st.lists(ALTERED, max_size=3).map(tuple)
    )),
    ("replicas_failed", st.builds(messages.ReplicasFailed, INT32, INT64, REPLICAS, TEXT, TEXTS)),
    ("failures_noted", FAILURES | st.builds(messages.FailuresNoted)),
    ("producer_ids", FAILURES | st.builds(messages.ProducerIdBlock, INT64, INT32)),
    ("streams_topics", st.lists(
        st.builds(
            NewTopic, TEXT, INT32, st.integers(-1, 9),
            config=st.none() | st.dictionaries(TEXT, TEXT, min_size=1, max_size=2),
        ),
        max_size=3,
    ).map(lambda topics: CreateTopics(tuple(topics), timeout_ms=0))),
    ("streams_topics_created", st.lists(
        st.builds(CreatedTopic, TEXT, st.none() | FAILURES), max_size=3
    ).map(lambda topics: TopicsCreated(tuple(topics)))),
    ("ensure", st.builds(messages.EnsureInternalTopic, INT32, INT64, TEXT)),
    ("ensured", FAILURES | st.builds(messages.InternalTopicEnsured, TEXT, TEXT, INT32)),
]  # fmt: skip


@given(RECORDS)
@settings(max_examples=200)
def test_a_record_survives(record: records.MetadataRecord) -> None:
    assert record_codec.record_from_bytes(record_codec.record_to_bytes(record)) == record


@pytest.mark.parametrize(("name", "values"), PAIRS, ids=[name for name, _ in PAIRS])
@given(data=st.data())
@settings(max_examples=30)
def test_a_message_survives(name: str, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    encode: Callable[[Any], Any] = getattr(codec, f"encode_{name}")
    decode: Callable[[Any], Any] = getattr(codec, f"decode_{name}")
    value = data.draw(values)
    message = encode(value)
    assert decode(type(message).FromString(message.SerializeToString())) == value


def test_every_kind_of_record_has_a_codec() -> None:
    fields = {field.name for field in records_pb2.MetadataRecord.DESCRIPTOR.fields}
    assert set(record_codec._DECODERS) == fields


def test_a_record_of_a_newer_version_is_named() -> None:
    with pytest.raises(UnsupportedVersion, match="does not know"):
        record_codec.record_from_bytes(b"")


def test_garbage_is_no_record() -> None:
    with pytest.raises(CorruptMessage, match="3 bytes"):
        record_codec.record_from_bytes(b"\xff\xff\xff")


def test_an_unknown_resource_is_named() -> None:
    message = records_pb2.MetadataRecord(config=records_pb2.ConfigRecord(name="k"))
    raw = message.SerializeToString().replace(b"\x1a\x01k", b"\x08\x63\x1a\x01k")
    raw = bytes([raw[0], raw[1] + 2]) + raw[2:]
    with pytest.raises(UnsupportedVersion, match="unknown kind 99"):
        record_codec.record_from_bytes(raw)


def test_what_a_heartbeat_hears() -> None:
    accepted = messages.HeartbeatAccepted(ControllerEpoch(3), True)
    assert codec.encode_heartbeat(accepted) == cluster_pb2.HeartbeatResponse(
        controller_epoch=3, fenced=True
    )
    refused = codec.encode_heartbeat(messages.Failure(StaleBrokerEpoch.code, "older"))
    assert (refused.error.code, refused.error.message) == (StaleBrokerEpoch.code, "older")


ONE, TWO, THREE = (records.Endpoint("h", port) for port in (1, 2, 3))


def _registered(*listeners: records.Listener) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        BrokerId(1), BrokerEpoch(1), "i", "h", None, listeners, "d", "b"
    )


@pytest.mark.parametrize("streams", [THREE, None])
def test_a_registration_of_an_earlier_version_has_the_usual_listeners(
    streams: records.Endpoint | None,
) -> None:
    usual = records.usual_listeners(ONE, TWO, streams)
    message = record_codec.encode_record(_registered(*usual))
    del message.register_broker.listeners[:]
    assert record_codec.decode_record(message) == _registered(*usual)
    assert _registered(*usual).stream_endpoint == streams


def test_an_earlier_version_finds_a_broker_by_its_first_listeners() -> None:
    another = records.Listener("INSIDE", THREE, "grpc", "clients")
    unknown = records.Listener("NEW", THREE, "quic", "everybody")
    record = _registered(unknown, *records.usual_listeners(ONE, TWO), another)
    message = record_codec.encode_record(record).register_broker
    assert (message.client_endpoint.port, message.replication_endpoint.port) == (1, 2)
    assert not message.HasField("stream_endpoint")
    assert (record.client_endpoint, record.replication_endpoint) == (ONE, TWO)


def test_code_zero_is_no_failure() -> None:
    message = cluster_pb2.RegisterBrokerResponse(broker_epoch=7, controller_epoch=3)
    message.error.code = 0
    assert codec.decode_registered(message) == messages.BrokerRegistered(
        BrokerEpoch(7), ControllerEpoch(3)
    )
