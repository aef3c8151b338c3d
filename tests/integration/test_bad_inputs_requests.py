"""Wrong fetches and requests, each with the error that it must get and nothing else harmed.

The numbers are those of the list of bad inputs.
"""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.local import LocalCluster
from pylog.model import BrokerId, ControllerEpoch
from pylog.records.builder import encode_batch
from pylog.rpc import streams
from pylog.rpc.v1 import admin_pb2, cluster_pb2, cluster_pb2_grpc, log_pb2, stream_pb2
from pylog_broker.metadata import codec
from pylog_broker.metadata.messages import RegisterBroker
from pylog_broker.metadata.records import NOT_TOLD, Endpoint, usual_listeners
from pylog_broker.net.cluster_proof import METADATA_KEY
from pylog_broker.node.link_session import Handshake
from pylog_broker.node.software import this_software
from tests.fakes import raw_http2
from tests.fakes.raw_client import RawClient
from tests.fakes.wrong_requests import (
    MIB,
    create,
    fetch,
    new_topic,
    still_works,
    topics_of,
)

pytestmark = pytest.mark.integration


# ---- fetches ------------------------------------------------------------------------------------


def test_30_offsets_outside_the_log(raw: RawClient, topic: str) -> None:
    for number in range(5):
        raw.produce(raw.leader(topic), topic, encode_batch([b"%d" % number]))
    cut = log_pb2.PartitionCut(topic=topic, offset=2)
    raw.log(raw.leader(topic)).DeleteRecords(
        log_pb2.DeleteRecordsRequest(partitions=[cut], timeout_ms=5_000), timeout=10
    )
    for offset in (-1, 0, 1, 6, 2**63 - 1, -(2**63)):
        data = fetch(raw, topic, offset=offset)
        assert data.error.code == errors.OffsetOutOfRange.code
        assert "[2, 5]" in data.error.message
        assert (data.log_start_offset, data.high_watermark) == (2, 5)
    assert fetch(raw, topic, offset=5).error.code == 0


def test_31_limits_that_are_none_are_clamped(raw: RawClient, topic: str) -> None:
    for _ in range(3):
        raw.produce(raw.leader(topic), topic, encode_batch([b"x" * 1_000]))
    odd = (0, -1, 1, 2**31 - 1, -(2**31))
    for most, part in itertools.product(odd, odd):
        data = fetch(raw, topic, max_bytes=most, partition_max_bytes=part)
        assert data.error.code == 0
        assert len(data.batches) >= 1_000  # at least one batch, always
    for least in (-1, 2**31 - 1):  # more than max_bytes is as much as max_bytes
        assert fetch(raw, topic, min_bytes=least, max_bytes=500).batches
    for wait in (-1, 0, -(2**31)):
        assert fetch(raw, topic, offset=3, max_wait_ms=wait, min_bytes=1).batches == b""
    assert fetch(raw, topic, max_wait_ms=864_000_000, min_bytes=1).batches


def test_31_a_wait_of_ten_days_ends_with_its_client(raw: RawClient, topic: str) -> None:
    item = log_pb2.PartitionFetch(
        topic=topic, max_bytes=MIB, current_leader_epoch=-1, last_fetched_epoch=-1
    )
    request = log_pb2.FetchRequest(
        partitions=[item], max_bytes=MIB, min_bytes=1, max_wait_ms=864_000_000
    )
    with pytest.raises(grpc.RpcError) as caught:
        raw.log(raw.leader(topic)).Fetch(request, timeout=0.3)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    still_works(raw, topic)


PARTITIONS = 100_000


# ---- requests as a whole ------------------------------------------------------------------------


def many_requests(topic: str) -> Iterator[tuple[str, str, Any]]:
    """Service, method and message of requests that name 100,000 partitions or topics."""
    every = range(PARTITIONS)
    batch = encode_batch([b"x"])
    pb = log_pb2
    yield "Log", "Produce", pb.ProduceRequest(
        acks=-1, timeout_ms=1_000,
        batches=[pb.PartitionBatch(topic=topic, partition=n, batch=batch) for n in every],
    )  # fmt: skip
    yield (
        "Log",
        "Fetch",
        pb.FetchRequest(
            max_bytes=MIB, partitions=[pb.PartitionFetch(topic=topic, partition=n) for n in every]
        ),
    )
    yield (
        "Log",
        "ListOffsets",
        pb.ListOffsetsRequest(
            partitions=[pb.PartitionTimestamp(topic=topic, partition=n) for n in every]
        ),
    )
    yield (
        "Log",
        "DeleteRecords",
        pb.DeleteRecordsRequest(
            partitions=[pb.PartitionCut(topic=topic, partition=n) for n in every]
        ),
    )
    yield (
        "Log",
        "OffsetForLeaderEpoch",
        pb.OffsetForLeaderEpochRequest(
            partitions=[pb.PartitionEpoch(topic=topic, partition=n) for n in every]
        ),
    )
    yield (
        "Log",
        "SplitRanges",
        pb.SplitRangesRequest(
            partitions=[pb.RangeToSplit(topic=topic, partition=n) for n in every]
        ),
    )
    yield (
        "Log",
        "DescribeTransactionsInRange",
        pb.DescribeTransactionsInRangeRequest(
            partitions=[pb.TransactionRange(topic=topic, partition=n) for n in every]
        ),
    )
    yield (
        "Log",
        "AwaitRecords",
        pb.AwaitRecordsRequest(
            partitions=[pb.WaitedPartition(topic=topic, partition=n) for n in every]
        ),
    )
    columns = {name: list(every) for name in ("partitions", "start_offsets", "end_offsets")}
    leased = pb.LeasedTopic(
        topic=topic, **columns, current_leader_epochs=[-1] * len(columns["partitions"])
    )
    yield "Log", "LeaseReads", pb.LeaseReadsRequest(holder="h", topics=[leased])
    yield "Log", "Metadata", pb.MetadataRequest(topics=[f"{topic}{n}" for n in every])
    yield "Log", "Metadata", pb.MetadataRequest(topic_ids=[f"{topic}{n}" for n in every])
    yield (
        "Admin",
        "CreateTopics",
        admin_pb2.CreateTopicsRequest(
            topics=[new_topic(f"{topic}{n}") for n in every], timeout_ms=1_000
        ),
    )
    yield "Admin", "DeleteTopics", admin_pb2.DeleteTopicsRequest(names=[f"t{n}" for n in every])


def test_33_a_hundred_thousand_partitions_in_one_request(raw: RawClient, topic: str) -> None:
    before = topics_of(raw)
    for service, method, request in many_requests(topic):
        stub = raw.admin() if service == "Admin" else raw.log(raw.leader(topic))
        begin_ms = SYSTEM_CLOCK.monotonic_ms()
        with pytest.raises(grpc.RpcError) as caught:
            getattr(stub, method)(request, timeout=20)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, method
        assert "100000" in caught.value.details()
        assert "limit" in caught.value.details()
        assert SYSTEM_CLOCK.monotonic_ms() - begin_ms < 5_000
    ((code, message),) = create(raw, new_topic("huge", partitions=PARTITIONS))
    assert code == errors.InvalidPartitions.code
    assert "100000" in message
    chosen = [admin_pb2.ReplicaAssignment(partition=n, brokers=[1]) for n in range(PARTITIONS)]
    ((code, _),) = create(
        raw,
        admin_pb2.NewTopic(
            name="huge", num_partitions=-1, replication_factor=-1, assignment=chosen
        ),
    )
    assert code == errors.InvalidPartitions.code
    assert topics_of(raw) == before
    still_works(raw, topic)


def test_33_a_partition_twice_in_one_request(raw: RawClient, topic: str) -> None:
    stub = raw.log(raw.leader(topic))
    pb = log_pb2
    batches = [pb.PartitionBatch(topic=topic, batch=encode_batch([b"x"]))] * 2
    answers = [
        stub.Produce(pb.ProduceRequest(acks=-1, batches=batches), timeout=10).acks,
        stub.Fetch(
            pb.FetchRequest(partitions=[pb.PartitionFetch(topic=topic)] * 2), timeout=10
        ).partitions,
        stub.ListOffsets(
            pb.ListOffsetsRequest(partitions=[pb.PartitionTimestamp(topic=topic)] * 2), timeout=10
        ).partitions,
        stub.DeleteRecords(
            pb.DeleteRecordsRequest(partitions=[pb.PartitionCut(topic=topic)] * 2), timeout=10
        ).partitions,
        stub.OffsetForLeaderEpoch(
            pb.OffsetForLeaderEpochRequest(partitions=[pb.PartitionEpoch(topic=topic)] * 2),
            timeout=10,
        ).partitions,
        stub.SplitRanges(
            pb.SplitRangesRequest(partitions=[pb.RangeToSplit(topic=topic)] * 2), timeout=10
        ).partitions,
        stub.DescribeTransactionsInRange(
            pb.DescribeTransactionsInRangeRequest(
                partitions=[pb.TransactionRange(topic=topic)] * 2
            ),
            timeout=10,
        ).partitions,
    ]
    for answer in answers:
        assert [item.error.code for item in answer] == [errors.InvalidRequest.code] * 2
        assert "more than once" in answer[0].error.message
    still_works(raw, topic)


def test_34_leader_epochs_of_the_past_and_the_future(raw: RawClient, cluster: LocalCluster) -> None:
    raw.create_topic("epochs", replicas=2)
    cluster.stop(raw.partition("epochs").leader)  # the epoch rises
    epoch = raw.partition("epochs").leader_epoch
    assert epoch >= 1
    try:
        fenced, unknown = errors.FencedLeaderEpoch.code, errors.UnknownLeaderEpoch.code
        for asked, expected in ((epoch - 1, fenced), (epoch + 1, unknown), (epoch, 0), (-1, 0)):
            assert fetch(raw, "epochs", current_leader_epoch=asked).error.code == expected
            item = log_pb2.PartitionTimestamp(topic="epochs", current_leader_epoch=asked)
            stub = raw.log(raw.leader("epochs"))
            listed = stub.ListOffsets(log_pb2.ListOffsetsRequest(partitions=[item]), timeout=10)
            assert listed.partitions[0].error.code == expected
            end = log_pb2.PartitionEpoch(topic="epochs", current_leader_epoch=asked)
            ends = stub.OffsetForLeaderEpoch(
                log_pb2.OffsetForLeaderEpochRequest(partitions=[end]), timeout=10
            )
            assert ends.partitions[0].error.code == expected
            part = log_pb2.RangeToSplit(topic="epochs", current_leader_epoch=asked)
            split = stub.SplitRanges(log_pb2.SplitRangesRequest(partitions=[part]), timeout=10)
            assert split.partitions[0].error.code == expected
            within = log_pb2.TransactionRange(topic="epochs", current_leader_epoch=asked)
            described = stub.DescribeTransactionsInRange(
                log_pb2.DescribeTransactionsInRangeRequest(partitions=[within]), timeout=10
            )
            assert described.partitions[0].error.code == expected
    finally:
        for broker in cluster.brokers:
            if not cluster._nodes[broker].running:
                cluster.start(broker)


def test_35_a_request_to_who_does_not_lead(raw: RawClient) -> None:
    raw.create_topic("elsewhere", replicas=2)
    raw.create_topic("single", replicas=1)
    for name in ("elsewhere", "single"):
        leader = raw.leader(name)
        (other,) = [server for server in raw.servers[1:] if server != leader]
        number = raw.partition(name).leader
        for answer in (raw.produce(other, name, encode_batch([b"x"])), raw.fetch(other, name)):
            assert answer.error.code == errors.NotLeaderOrFollower.code
            assert answer.current_leader == number
            assert f"broker {number}" in answer.error.message
    # The gateway serves metadata only, and says where the rest is.
    with pytest.raises(grpc.RpcError) as caught:
        raw.produce(raw.servers[0], "single", encode_batch([b"x"]))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "broker" in caught.value.details()


def test_36_times_that_no_record_has(raw: RawClient, topic: str) -> None:
    leader = raw.leader(topic)
    for at in (10, 30, 20):
        raw.produce(leader, topic, encode_batch([b"x"], timestamps=at))

    def listed(timestamp_ms: int) -> Any:
        item = log_pb2.PartitionTimestamp(
            topic=topic, timestamp_ms=timestamp_ms, current_leader_epoch=-1
        )
        request = log_pb2.ListOffsetsRequest(partitions=[item])
        return raw.log(leader).ListOffsets(request, timeout=10).partitions[0]

    named = {at: listed(at) for at in (-1, -2, -3)}
    assert {at: (a.error.code, a.offset) for at, a in named.items()} == {
        -1: (0, 3), -2: (0, 0), -3: (0, 1),
    }  # fmt: skip
    assert (named[-3].timestamp_ms, listed(25).offset) == (30, 1)
    for late in (31, 2**63 - 1):
        none = listed(late)
        assert (none.error.code, none.offset) == (0, -1), "not the end of the log"
    for odd in (-4, -100, -(2**63)):
        refused = listed(odd).error
        assert refused.code == errors.InvalidRequest.code
        assert "-3 (largest timestamp)" in refused.message


def test_45_deadlines_of_none_and_of_years(raw: RawClient, topic: str) -> None:
    batch = log_pb2.PartitionBatch(topic=topic, batch=encode_batch([b"late"]))
    message = log_pb2.ProduceRequest(acks=-1, batches=[batch]).SerializeToString()
    leader, timeout = raw.leader(topic), b"grpc-timeout"
    for _ in range(20):
        with raw_http2.Call(leader, "/pylog.v1.Log/Produce", (timeout, b"0n")) as call:
            call.send(b"\0" + len(message).to_bytes(4, "big") + message, end=True)
            expired = grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
            assert call.status(seconds=30) in (expired, None)
    still_works(raw, topic)
    request = log_pb2.MetadataRequest(topics=[topic])
    for seconds in (None, 365 * 86_400):
        answer = raw.log(leader).Metadata(request, timeout=seconds)
        assert answer.topics[0].error.code == 0


# ---- who may not ask ----------------------------------------------------------------------------


def test_32_a_client_cannot_pose_as_a_replica(
    raw: RawClient, cluster: LocalCluster, topic: str
) -> None:
    """CVE-2018-1288. Clients' fetches have no field for it, and followers' have to prove the
    cluster's secret first.
    """
    raw.create_topic("isr", replicas=2)
    broker = raw.partition("isr").leader
    fetch_of_a_follower = struct.pack(">hhih", 1, 18, 7, 4) + b"spy\0" + bytes(40)
    asked = struct.pack(">i", len(fetch_of_a_follower)) + fetch_of_a_follower
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", cluster._ports[broker][1]), 30) as connection:
            connection.sendall(asked)
            said = b""
            while data := connection.recv(65536):
                said += data
        assert len(said) < 300
        assert topic.encode() not in said
    assert len(raw.partition("isr").isr) == 2
    still_works(raw, "isr")


def test_49_another_cluster_another_version_another_server(
    raw: RawClient, cluster: LocalCluster
) -> None:
    cluster_id, broker = raw.metadata().cluster_id, cluster.brokers[0]
    at = ("127.0.0.1", cluster._ports[broker][2])
    right = streams.hello(streams.FETCH, cluster_id, broker, "")
    older = stream_pb2.StreamHello(
        version=0, kind=streams.FETCH, cluster_id=cluster_id, broker_id=broker
    ).SerializeToString()
    for hello, error, words in (
        (streams.hello(streams.FETCH, "A" * 22, broker, ""), errors.InvalidRequest, cluster_id),
        (streams.hello(streams.FETCH, cluster_id, 77, ""), errors.InvalidRequest, "not broker 77"),
        (
            b"".join(streams.framed(streams.HELLO, [streams.MAGIC, older])),
            errors.UnsupportedVersion,
            "has 1",
        ),
        (right, None, ""),
    ):
        with socket.create_connection(at, timeout=30) as connection:
            connection.sendall(hello)
            frame = connection.recv(4096)[4:]
        if error is None:
            assert streams.read_welcome(memoryview(frame)).broker_id == broker
            continue
        with pytest.raises(error, match=words):
            streams.read_welcome(memoryview(frame))
    for method in ("Cluster/RegisterBroker", "Cluster/AlterPartition", "Admin/CreateTopics"):
        with (
            grpc.insecure_channel(raw.servers[1]) as channel,
            pytest.raises(grpc.RpcError) as caught,
        ):
            channel.unary_unary(f"/pylog.v1.{method}")(b"", timeout=30)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_50_brokers_that_are_not_who_they_say(raw: RawClient, cluster: LocalCluster) -> None:
    with grpc.insecure_channel(raw.servers[0]) as channel:
        stub: Any = cluster_pb2_grpc.ClusterStub(channel)  # type: ignore[no-untyped-call]
        secret = bytes.fromhex(cluster._secret)
        handshake = Handshake(secret)
        answer = stub.Authenticate(handshake.first, timeout=30)
        stub.Authenticate(handshake.second(answer), timeout=30)
        session = handshake.session
        here = Endpoint("127.0.0.1", 1)
        broker = cluster.brokers[0]
        right = RegisterBroker(
            BrokerId(broker), "an-impostor", raw.metadata().cluster_id, "host", None,
            usual_listeners(here, here), "another-directory", "boot", True, ControllerEpoch(-1),
            software=this_software(),
        )  # fmt: skip

        nowhere = usual_listeners(Endpoint("0.0.0.0", 1), here)

        def refusal(**changes: Any) -> Any:
            request = codec.encode_registration(replace(right, **changes))
            proof = session.metadata("RegisterBroker")
            answer = stub.RegisterBroker(request, metadata=proof, timeout=30)
            return errors.from_code(answer.error.code, answer.error.message)

        for changes, error in (
            ({}, errors.DuplicateBrokerRegistration),
            ({"cluster_id": "A" * 22}, errors.InconsistentClusterId),
            ({"broker_id": BrokerId(0)}, errors.InvalidRegistration),
            ({"directory_id": ""}, errors.InvalidRegistration),
            ({"incarnation_id": ""}, errors.InvalidRegistration),
            ({"listeners": nowhere}, errors.InvalidRegistration),
            ({"software": NOT_TOLD}, errors.UnsupportedVersion),
            ({"highest_controller_epoch": ControllerEpoch(99)}, errors.StaleControllerEpoch),
        ):
            assert type(refusal(**changes)) is error, changes
        beat = cluster_pb2.HeartbeatRequest(broker_id=broker, broker_epoch=0)
        overheard = session.metadata("Heartbeat")
        answer = stub.Heartbeat(beat, metadata=overheard, timeout=30)
        assert answer.error.code == errors.StaleBrokerEpoch.code
        in_clear = (("pylog-cluster-secret", cluster._secret),)
        other_method = session.metadata("RegisterBroker")
        for wrong in ((), in_clear, overheard, other_method, ((METADATA_KEY, "guess"),)):
            with pytest.raises(grpc.RpcError) as caught:
                stub.Heartbeat(beat, metadata=wrong, timeout=30)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    raw.create_topic("after-impostors", replicas=2)
    still_works(raw, "after-impostors")
