"""Bytes that are no requests, or too many: refused, and nothing else harmed.

The numbers are those of the list of bad inputs.
"""

from __future__ import annotations

import random
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from pylog.local import LocalCluster
from pylog.records.builder import encode_batch
from pylog.rpc.v1 import admin_pb2, log_pb2
from tests.fakes import raw_http2
from tests.fakes.raw_client import RawClient
from tests.fakes.wrong_requests import (
    MIB,
    memory,
    new_topic,
    pid_of,
    still_works,
    topics_of,
    values,
)

pytestmark = pytest.mark.integration


# ---- messages -----------------------------------------------------------------------------------

FUZZ_MESSAGES = 10_000
ALLOWED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}


def seeds(topic: str) -> list[bytes]:
    """Valid messages, to be spoilt."""
    pb = log_pb2
    batch = pb.PartitionBatch(topic=topic, batch=encode_batch([b"x" * 20]))
    item = pb.PartitionFetch(topic=topic, max_bytes=100)
    messages: list[Any] = [
        pb.MetadataRequest(topics=[topic], topic_ids=["x"]),
        pb.ProduceRequest(correlation=7, acks=-1, timeout_ms=10, batches=[batch], client_id="c"),
        pb.FetchRequest(correlation=7, max_wait_ms=1, min_bytes=1, partitions=[item]),
        pb.ListOffsetsRequest(partitions=[pb.PartitionTimestamp(topic=topic, timestamp_ms=-1)]),
        pb.DeleteRecordsRequest(partitions=[pb.PartitionCut(topic=topic, offset=9)], timeout_ms=9),
        pb.InitProducerIdRequest(transactional_id="x", producer_id=-1),
        pb.OffsetForLeaderEpochRequest(partitions=[pb.PartitionEpoch(topic=topic)]),
        admin_pb2.CreateTopicsRequest(
            topics=[new_topic("fuzz/y", min_insync_replicas="1")], timeout_ms=10, validate_only=True
        ),
        admin_pb2.DeleteTopicsRequest(names=["fuzz/y"]),
    ]
    return [message.SerializeToString() for message in messages]


def spoilt(rng: random.Random, valid: list[bytes]) -> bytes:
    """Garbage, or something that was valid."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 200))
    data = bytearray(rng.choice(valid))
    if kind == 1:
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 2:
        del data[rng.randrange(len(data)) :]
    elif kind == 3:  # unknown fields
        data += b"\xba\x3e\x05hello" + b"\xc0\x3e\x7f" * rng.randrange(4)
    else:
        at = rng.randrange(len(data))
        data[at:at] = rng.randbytes(rng.randrange(1, 30))
    return bytes(data)


METHODS = {
    "Log": ["Metadata", "Produce", "Fetch", "ListOffsets", "DeleteRecords", "InitProducerId",
            "OffsetForLeaderEpoch"],
    "Admin": ["CreateTopics", "DeleteTopics", "DescribeCluster"],
    "BrokerAdmin": ["DescribeLogDirs", "DescribeBroker"],
    "Records": ["Send"],
    "Cluster": ["ClaimBroker", "RegisterBroker", "Heartbeat", "WatchMetadata", "AlterPartition",
                "AllocateProducerIds", "EnsureInternalTopic", "ControlledShutdown"],
}  # fmt: skip


def test_41_ten_thousand_messages_of_garbage(raw: RawClient, topic: str) -> None:
    rng = random.Random(41)
    valid = seeds(topic)
    channels = {server: grpc.insecure_channel(server) for server in raw.servers[:2]}
    calls = []
    for service, names in METHODS.items():
        for server in raw.servers[:2]:
            for name in names:
                path = f"/pylog.v1.{service}/{name}"
                if name == "WatchMetadata":
                    continue
                calls.append((path, channels[server].unary_unary(path)))
    seen: dict[Any, int] = {}
    waiting: list[tuple[str, bytes, Any]] = []

    def settle(most: int) -> None:
        while len(waiting) > most:
            path, data, future = waiting.pop(0)
            error = future.exception()
            code = grpc.StatusCode.OK if error is None else error.code()
            assert code in ALLOWED, (path, data, error)
            if error is not None:
                assert "UnknownServerError" not in error.details(), (path, data, error)
            seen[code] = seen.get(code, 0) + 1

    for _ in range(FUZZ_MESSAGES):
        path, call = rng.choice(calls)
        data = spoilt(rng, valid)
        waiting.append((path, data, call.future(data, timeout=10)))
        settle(100)
    settle(0)
    assert seen[grpc.StatusCode.OK] > 500
    assert seen[grpc.StatusCode.INVALID_ARGUMENT] > 1_000
    for channel in channels.values():
        channel.close()
    assert not [name for name in topics_of(raw) if name.startswith("fuzz")]
    name = f"{topic}-after"
    raw.create_topic(name)
    still_works(raw, name)


def test_41_garbage_in_a_stream_ends_that_stream(raw: RawClient, topic: str) -> None:
    good = log_pb2.ProduceRequest(
        correlation=1, acks=-1, timeout_ms=1_000,
        batches=[log_pb2.PartitionBatch(topic=topic, batch=encode_batch([b"good"]))],
    )  # fmt: skip
    for method in ("ProduceStream", "FetchStream"):
        with grpc.insecure_channel(raw.leader(topic)) as channel:
            call = channel.stream_stream(f"/pylog.v1.Log/{method}")
            answers = call(iter([b"\xff\xff\xff"]), timeout=10)
            with pytest.raises(grpc.RpcError) as caught:
                next(answers)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with grpc.insecure_channel(raw.leader(topic)) as channel:
        call = channel.stream_stream("/pylog.v1.Log/ProduceStream")
        # The requests before the garbage are answered.
        answers = call(iter([good.SerializeToString(), b"\xff\xff\xff"]), timeout=10)
        first = log_pb2.ProduceResponse.FromString(next(answers))
        assert first.acks[0].error.code == 0
        with pytest.raises(grpc.RpcError) as caught:
            next(answers)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert values(raw, topic) == [b"good"]


def test_41_unknown_fields_and_enums_are_ignored(raw: RawClient, topic: str) -> None:
    item = log_pb2.PartitionFetch(
        topic=topic, max_bytes=100, current_leader_epoch=-1, last_fetched_epoch=-1
    )
    request = log_pb2.FetchRequest(partitions=[item]).SerializeToString()
    with grpc.insecure_channel(raw.leader(topic)) as channel:
        call = channel.unary_unary("/pylog.v1.Log/Fetch")
        # field 1000, a text; and isolation_level = 77, of an enum that ends at 1
        answer = call(request + b"\xc2\x3e\x05hello" + b"\x28\x4d", timeout=10)
    assert log_pb2.FetchResponse.FromString(answer).partitions[0].error.code == 0


def test_42_a_message_over_the_limit(raw: RawClient, cluster: LocalCluster, topic: str) -> None:
    pids = [pid_of(cluster, broker) for broker in cluster.brokers]
    pids.append(cluster._head._process.pid)  # type: ignore[union-attr]
    before = [memory(pid) for pid in pids]
    for server in raw.servers:
        with grpc.insecure_channel(
            server, options=[("grpc.max_send_message_length", -1)]
        ) as channel:
            for method in ("Log/Produce", "Log/Metadata"):
                with pytest.raises(grpc.RpcError) as caught:
                    channel.unary_unary(f"/pylog.v1.{method}")(bytes(101 * MIB), timeout=30)
                assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert all(memory(pid) - was < 64 * MIB for pid, was in zip(pids, before, strict=True))
    still_works(raw, topic)


def test_42_four_gibibytes_announced(raw: RawClient, cluster: LocalCluster, topic: str) -> None:
    pids = [pid_of(cluster, broker) for broker in cluster.brokers]
    before = [memory(pid) for pid in pids]
    for server in raw.servers:
        gateway = server == raw.servers[0]  # which refuses streams before it reads from them
        for method in ("Log/Metadata",) if gateway else ("Log/Produce", "Log/ProduceStream"):
            with raw_http2.Call(server, f"/pylog.v1.{method}") as call:
                call.send(b"\0\xff\xff\xff\xff" + bytes(100))
                assert call.status(seconds=3) in (None, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
    assert all(memory(pid) - was < 16 * MIB for pid, was in zip(pids, before, strict=True))
    still_works(raw, topic)


def test_43_metadata_without_measure(raw: RawClient, topic: str) -> None:
    request = log_pb2.MetadataRequest(topics=[topic])
    for server in raw.servers[:2]:
        for headers in ([("x-big", "a" * 64_000)], [(f"x-{n}", "a") for n in range(10_000)]):
            with grpc.insecure_channel(server) as channel:
                call = channel.unary_unary("/pylog.v1.Log/Metadata")
                with pytest.raises(grpc.RpcError) as caught:
                    call(request.SerializeToString(), metadata=headers, timeout=30)
            assert caught.value.code() in (
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.INTERNAL,
            )
        for value in (b"%%%", b"=", b"a", b"\xff\xfe"):
            with raw_http2.Call(server, "/pylog.v1.Log/Metadata", (b"x-bin", value)) as call:
                call.send(b"\0\0\0\0\0", end=True)
                call.status(seconds=30)  # the call ends, one way or the other
        assert raw.metadata(topic).topics[0].error.code == 0
    still_works(raw, topic)


STRANGERS = {
    "silence": b"",
    "half a preface": b"PRI * HT",
    "a preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "plain HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506),
    "Kafka": b"\0\0\0\x10\0\x12\0\x03\0\0\0\1\0\1k\0\0\0\0\0",
    "noise": b"\xff" * 100,
}


def test_48_strangers_are_let_go(raw: RawClient, cluster: LocalCluster, topic: str) -> None:
    """On each port, whatever they say or do not say, all at once."""
    broker = cluster.brokers[0]
    grpc_port, replication, stream = cluster._ports[broker]
    ports = {"gateway": cluster._gateway_port, "gRPC": grpc_port, "stream": stream}
    ports["replication"] = replication
    pids = [pid_of(cluster, broker), cluster._head._process.pid]  # type: ignore[union-attr]
    before = [memory(pid) for pid in pids]

    def let_go(port: int, said: bytes) -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=40) as connection:
            try:
                connection.sendall(said)
                while connection.recv(65536):
                    pass
            except TimeoutError:
                return False
            except OSError:
                pass  # cut off: gone as well
        return True

    visits = {(name, kind): (port, said)
              for name, port in ports.items() for kind, said in STRANGERS.items()}  # fmt: skip
    with ThreadPoolExecutor(len(visits)) as pool:
        ended = dict(
            zip(visits, pool.map(lambda visit: let_go(*visit), visits.values()), strict=True)
        )
    assert ended == dict.fromkeys(visits, True)
    for port in list(ports.values()) * 50:  # a port scan
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    assert all(memory(pid) - was < 32 * MIB for pid, was in zip(pids, before, strict=True))
    log = (cluster.data_dir / "logs" / f"broker-{broker}.log").read_text()
    assert log.count("does not speak gRPC") < 10
    assert log.count("stream listener: closed") < 10
    still_works(raw, topic)
