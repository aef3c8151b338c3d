"""One broker process: produce, fetch, limits, restart, by bare stubs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.local import LocalCluster
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog.rpc.v1 import cluster_pb2, cluster_pb2_grpc, log_pb2
from tests.fakes.raw_client import RawClient

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(config={"queued.max.request.bytes": "4000000"}) as running:
        yield running


@pytest.fixture
def raw(cluster: LocalCluster) -> Iterator[RawClient]:
    with RawClient(cluster.bootstrap_servers) as client:
        yield client


def values(data: log_pb2.PartitionData) -> list[bytes | None]:
    return [record.value for record in iter_records(data.batches, "t", 0)]


def test_what_is_produced_is_fetched(raw: RawClient) -> None:
    raw.create_topic("first")
    broker = raw.leader("first")
    for number in range(10):
        ack = raw.produce(broker, "first", encode_batch([b"%d" % number]))
        assert (ack.error.code, ack.base_offset) == (0, number)
    data = raw.fetch(broker, "first", offset=3)
    assert values(data) == [b"%d" % number for number in range(3, 10)]
    assert (data.high_watermark, data.log_start_offset) == (10, 0)


def test_a_stream_answers_in_order_and_says_nothing_to_acks_0(raw: RawClient) -> None:
    raw.create_topic("stream")
    broker = raw.leader("stream")

    def requests() -> Iterator[log_pb2.ProduceRequest]:
        for number in range(50):
            batch = log_pb2.PartitionBatch(topic="stream", batch=encode_batch([b"%d" % number]))
            acks = 0 if number % 5 == 4 else -1
            yield log_pb2.ProduceRequest(
                correlation=number, acks=acks, timeout_ms=5000, batches=[batch]
            )

    answers = list(raw.log(broker).ProduceStream(requests(), timeout=10))
    assert [answer.correlation for answer in answers] == [n for n in range(50) if n % 5 != 4]
    assert [answer.acks[0].base_offset for answer in answers] == [
        n for n in range(50) if n % 5 != 4
    ]


def test_a_long_poll_wakes_and_a_cancelled_one_frees_its_place(raw: RawClient) -> None:
    raw.create_topic("poll")
    broker = raw.leader("poll")
    wanted = log_pb2.PartitionFetch(
        topic="poll", max_bytes=1000, current_leader_epoch=-1, last_fetched_epoch=-1
    )
    request = log_pb2.FetchRequest(
        correlation=7, max_wait_ms=8_000, min_bytes=1, max_bytes=1000, partitions=[wanted]
    )
    abandoned = raw.log(broker).Fetch.future(request, timeout=10)
    abandoned.cancel()
    waiting = raw.log(broker).FetchStream(iter([request]), timeout=10)
    raw.produce(broker, "poll", encode_batch([b"here"]))
    answer = next(waiting)
    assert answer.correlation == 7
    assert values(answer.partitions[0]) == [b"here"]


def test_faults_of_one_partition_stand_beside_the_success_of_another(raw: RawClient) -> None:
    raw.create_topic("mixed")
    broker = raw.leader("mixed")
    damaged = bytearray(encode_batch([b"x" * 100]))
    damaged[-1] ^= 1
    request = log_pb2.ProduceRequest(
        correlation=1, acks=-1, timeout_ms=1000,
        batches=[
            log_pb2.PartitionBatch(topic="mixed", batch=encode_batch([b"good"])),
            log_pb2.PartitionBatch(topic="nowhere", batch=encode_batch([b"lost"])),
            log_pb2.PartitionBatch(topic="mixed", partition=99, batch=encode_batch([b"lost"])),
        ],
    )  # fmt: skip
    acks = raw.log(broker).Produce(request, timeout=10).acks
    assert [ack.error.code for ack in acks] == [0, 3, 3]
    assert raw.produce(broker, "mixed", bytes(damaged)).error.code == errors.CorruptMessage.code
    assert raw.fetch(broker, "mixed", offset=77).error.code == errors.OffsetOutOfRange.code


def test_a_topic_id_alone_is_enough_to_produce_and_to_fetch(raw: RawClient) -> None:
    raw.create_topic("by-id")
    broker = raw.leader("by-id")
    known = raw.metadata("by-id").topics[0].topic_id
    unknown = "A" * 22

    def batch(topic_id: str, value: bytes) -> log_pb2.PartitionBatch:
        return log_pb2.PartitionBatch(topic_id=topic_id, batch=encode_batch([value]))

    request = log_pb2.ProduceRequest(
        correlation=1, acks=-1, timeout_ms=1000,
        batches=[batch(known, b"here"), batch(unknown, b"nowhere")],
    )  # fmt: skip
    acks = raw.log(broker).Produce(request, timeout=10).acks
    assert [(ack.error.code, ack.topic) for ack in acks] == [
        (0, "by-id"),
        (errors.UnknownTopicId.code, ""),
    ]
    wanted = [
        log_pb2.PartitionFetch(
            topic_id=each, max_bytes=1000, current_leader_epoch=-1, last_fetched_epoch=-1
        )
        for each in (unknown, known)
    ]
    fetch = log_pb2.FetchRequest(correlation=2, max_bytes=1000, partitions=wanted)
    nowhere, found = raw.log(broker).Fetch(fetch, timeout=10).partitions
    assert nowhere.error.code == errors.UnknownTopicId.code
    assert (found.topic, values(found)) == ("by-id", [b"here"])
    both = [batch(known, b"one"), log_pb2.PartitionBatch(topic="by-id", batch=encode_batch([b"2"]))]
    request = log_pb2.ProduceRequest(correlation=3, acks=-1, timeout_ms=1000, batches=both)
    acks = raw.log(broker).Produce(request, timeout=10).acks
    assert [ack.error.code for ack in acks] == [errors.InvalidRequest.code] * 2


def test_garbage_is_an_invalid_argument(raw: RawClient, cluster: LocalCluster) -> None:
    with grpc.insecure_channel(raw.servers[1]) as channel:
        call = channel.unary_unary("/pylog.v1.Log/Produce")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff\xff", timeout=10)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert raw.metadata(server=1).brokers


def test_a_message_over_the_limit_is_refused_by_the_transport(cluster: LocalCluster) -> None:
    with grpc.insecure_channel(
        cluster.bootstrap_servers.split(",")[1],
        options=[("grpc.max_send_message_length", -1)],
    ) as channel:
        call = channel.unary_unary("/pylog.v1.Log/Produce")
        with pytest.raises(grpc.RpcError) as caught:
            call(bytes(101 * 1024 * 1024), timeout=20)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_the_cluster_service_wants_the_secret(cluster: LocalCluster) -> None:
    with grpc.insecure_channel(cluster.bootstrap_servers.split(",")[0]) as channel:
        stub = cluster_pb2_grpc.ClusterStub(channel)  # type: ignore[no-untyped-call]
        for metadata in ((), (("pylog-cluster-secret", "00" * 32),)):
            with pytest.raises(grpc.RpcError) as caught:
                stub.Heartbeat(cluster_pb2.HeartbeatRequest(), metadata=metadata, timeout=10)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_producer_ids_differ_and_transactional_ones_are_their_coordinators(raw: RawClient) -> None:
    stub = raw.log(raw.servers[1])
    request = log_pb2.InitProducerIdRequest(producer_id=-1, producer_epoch=-1)
    ids = [stub.InitProducerId(request, timeout=10).producer_id for _ in range(20)]
    assert len(set(ids)) == 20
    refused = stub.InitProducerId(log_pb2.InitProducerIdRequest(transactional_id="x"), timeout=10)
    assert refused.error.code == errors.NotCoordinator.code
    assert "__transaction_state" in refused.error.message


def test_offsets_by_time_epoch_and_deletion(raw: RawClient) -> None:
    raw.create_topic("offsets")
    broker = raw.leader("offsets")
    for number in range(5):
        raw.produce(broker, "offsets", encode_batch([b"x"], timestamps=1000 + number))
    stub = raw.log(broker)
    for at, offset in ((-1, 5), (-2, 0), (1003, 3)):
        asked = log_pb2.PartitionTimestamp(
            topic="offsets", timestamp_ms=at, current_leader_epoch=-1
        )
        answer = stub.ListOffsets(log_pb2.ListOffsetsRequest(partitions=[asked]), timeout=10)
        assert answer.partitions[0].offset == offset
    cut = log_pb2.PartitionCut(topic="offsets", offset=2)
    deleted = stub.DeleteRecords(
        log_pb2.DeleteRecordsRequest(partitions=[cut], timeout_ms=5000), timeout=10
    )
    assert deleted.partitions[0].low_watermark == 2
    ends = stub.OffsetForLeaderEpoch(
        log_pb2.OffsetForLeaderEpochRequest(
            partitions=[
                log_pb2.PartitionEpoch(topic="offsets", leader_epoch=0, current_leader_epoch=-1)
            ]
        ),
        timeout=10,
    )
    assert ends.partitions[0].end_offset == 5


def test_health_and_reflection_answer(raw: RawClient) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    for server in raw.servers:
        with grpc.insecure_channel(server) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=10
            )
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_kafka_client_leaves_one_line_in_the_controllers_log(cluster: LocalCluster) -> None:
    import socket

    host, port = cluster.bootstrap_servers.split(",")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as knock:
        knock.sendall(b"\0\0\0\x23\0\x12\0\x03\0\0\0\x01\0\x07rdkafka" + bytes(20))
        with contextlib.suppress(ConnectionResetError):
            assert knock.recv(100) == b""
    log = (cluster.data_dir / "logs" / "controller.log").read_text()
    assert log.count("a Kafka client seems to have connected to the gRPC port") == 1


def test_a_stranger_on_the_brokers_own_port_leaves_one_line_in_its_log(
    cluster: LocalCluster, raw: RawClient
) -> None:
    import socket

    host, port = raw.servers[1].split(":")
    for _ in range(3):
        with socket.create_connection((host, int(port)), timeout=10) as knock:
            knock.sendall(b"\0\0\0\x23\0\x12\0\x03\0\0\0\x01\0\x07rdkafka" + bytes(20))
            while knock.recv(100):
                pass
    log = cluster.data_dir / "logs" / "broker-1.log"
    line = f"a client that does not speak gRPC seems to have connected to the gRPC port {port}"
    for _ in range(500):
        if line in log.read_text():
            break
        SYSTEM_CLOCK.sleep(0.01)
    assert log.read_text().count("does not speak gRPC") == 1


def test_a_folder_that_was_closed_or_killed_opens_again(tmp_path: Path) -> None:
    def contents(cluster: LocalCluster) -> list[bytes | None]:
        with RawClient(cluster.bootstrap_servers) as raw:
            return values(raw.fetch(raw.leader("kept"), "kept"))

    with LocalCluster(data_dir=tmp_path) as cluster, RawClient(cluster.bootstrap_servers) as raw:
        raw.create_topic("kept")
        assert raw.produce(raw.leader("kept"), "kept", encode_batch([b"1"])).error.code == 0
        cluster.kill(1)
        cluster.start(1)
        before = cluster.bootstrap_servers
        assert raw.produce(raw.leader("kept"), "kept", encode_batch([b"2"])).error.code == 0
        cluster.stop(1)
        cluster.start(1)
        cluster.restart()
        assert cluster.bootstrap_servers == before
        assert contents(cluster) == [b"1", b"2"]
    with LocalCluster(data_dir=tmp_path) as cluster:
        assert contents(cluster) == [b"1", b"2"]
        cluster.kill_controller()
        cluster.kill(1)
    with LocalCluster(data_dir=tmp_path) as cluster:
        assert contents(cluster) == [b"1", b"2"]


def test_wrong_settings_are_named() -> None:
    with pytest.raises(errors.InvalidConfig, match=r"segment\.bites.*segment\.bytes"):
        LocalCluster(config={"segment.bites": "1"})
    with pytest.raises(errors.NotOffered):
        LocalCluster(kafka_listener=True)


def test_a_listener_beyond_loopback_needs_consent(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "pylog_broker.head", "--data-dir", str(tmp_path),
        "--listen", "0.0.0.0:0",
    ]  # fmt: skip
    ended = subprocess.run(
        command, env={"PYLOG_CLUSTER_SECRET": "ab" * 32}, capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 2
    assert "--allow-plaintext" in ended.stderr
    assert "Traceback" not in ended.stderr
