"""The parts that tests of wrong requests share: a bare client's calls, and the costs of a
process."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pylog.local import LocalCluster
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog.rpc.v1 import admin_pb2, log_pb2
from tests.fakes.raw_client import RawClient

MIB = 1 << 20


def create(raw: RawClient, *topics: admin_pb2.NewTopic) -> list[tuple[int, str]]:
    """The error code and message of each topic."""
    request = admin_pb2.CreateTopicsRequest(topics=topics, timeout_ms=10_000)
    answer = raw.admin().CreateTopics(request, timeout=20)
    return [(item.error.code, item.error.message) for item in answer.topics]


def new_topic(name: str, partitions: int = 1, replicas: int = 1, **config: str) -> Any:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return admin_pb2.NewTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, config=settings
    )


def topics_of(raw: RawClient) -> set[str]:
    answer = raw.log(raw.servers[0]).Metadata(log_pb2.MetadataRequest(all_topics=True), timeout=10)
    return {item.name for item in answer.topics}


def produce_each(
    raw: RawClient, topic: str, batches: Iterable[bytes]
) -> list[log_pb2.PartitionAck]:
    """The answer to each batch, over one stream."""
    requests = (
        log_pb2.ProduceRequest(
            correlation=number,
            acks=-1,
            timeout_ms=5_000,
            batches=[log_pb2.PartitionBatch(topic=topic, batch=batch)],
        )
        for number, batch in enumerate(batches)
    )
    answers = raw.log(raw.leader(topic)).ProduceStream(requests, timeout=60)
    return [answer.acks[0] for answer in answers]


def values(raw: RawClient, topic: str) -> list[bytes | None]:
    data = raw.fetch(raw.leader(topic), topic)
    assert data.error.code == 0
    return [record.value for record in iter_records(data.batches, topic, 0)]


def still_works(raw: RawClient, topic: str) -> None:
    """The topic holds nothing yet, takes a record, and gives it back."""
    ack = raw.produce(raw.leader(topic), topic, encode_batch([b"good"]))
    assert (ack.error.code, ack.base_offset) == (0, 0), ack.error.message
    assert values(raw, topic) == [b"good"]


def pid_of(cluster: LocalCluster, broker: int) -> int:
    return cluster._nodes[broker]._process.pid


def memory(pid: int, field: str = "VmRSS") -> int:
    """Bytes of memory of a process; `VmHWM` is the most that it ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field} of {pid}")


def cpu_ms(pid: int) -> int:
    """Processor time of a process, which other processes' load does not lengthen."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")


def fetch(raw: RawClient, topic: str, *, offset: int = 0, **limits: int) -> Any:
    part = {
        key: limits.pop(key)
        for key in ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch")
        if key in limits
    }
    item = log_pb2.PartitionFetch(
        topic=topic, fetch_offset=offset, max_bytes=part.get("partition_max_bytes", MIB),
        current_leader_epoch=part.get("current_leader_epoch", -1),
        last_fetched_epoch=part.get("last_fetched_epoch", -1),
    )  # fmt: skip
    request = log_pb2.FetchRequest(partitions=[item], **{"max_bytes": MIB, **limits})
    return raw.log(raw.leader(topic)).Fetch(request, timeout=5).partitions[0]
