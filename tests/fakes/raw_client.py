"""A client by bare gRPC stubs, for tests of what brokers themselves do."""

from __future__ import annotations

import itertools
from types import TracebackType
from typing import Any, Self

import grpc

from pylog.rpc.channel import sync_channel
from pylog.rpc.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    group_pb2_grpc,
    log_pb2,
    log_pb2_grpc,
    share_pb2_grpc,
    streams_group_pb2_grpc,
)

SECONDS = 10.0


class RawClient:
    """Channels to the given servers, made when needed. Nothing is retried."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.servers = bootstrap_servers.split(",")
        self._channels: dict[str, grpc.Channel] = {}
        self._correlations = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for channel in self._channels.values():
            channel.close()

    def _channel(self, server: str) -> grpc.Channel:
        if server not in self._channels:
            self._channels[server] = sync_channel(server)
        return self._channels[server]

    def log(self, server: str) -> Any:
        return log_pb2_grpc.LogStub(self._channel(server))  # type: ignore[no-untyped-call]

    def group(self, server: str) -> Any:
        return group_pb2_grpc.GroupStub(self._channel(server))  # type: ignore[no-untyped-call]

    def streams_group(self, server: str) -> Any:
        return streams_group_pb2_grpc.StreamsGroupStub(self._channel(server))  # type: ignore[no-untyped-call]

    def share(self, server: str) -> Any:
        return share_pb2_grpc.ShareStub(self._channel(server))  # type: ignore[no-untyped-call]

    def admin(self) -> Any:
        return admin_pb2_grpc.AdminStub(self._channel(self.servers[0]))  # type: ignore[no-untyped-call]

    def create_topic(
        self, name: str, partitions: int = 1, replicas: int = 1, **config: str
    ) -> None:
        topic = admin_pb2.NewTopic(
            name=name, num_partitions=partitions, replication_factor=replicas,
            config={key.replace("_", "."): value for key, value in config.items()},
        )  # fmt: skip
        request = admin_pb2.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        (created,) = self.admin().CreateTopics(request, timeout=SECONDS).topics
        assert created.error.code == 0, created.error.message

    def metadata(self, *topics: str, server: int = 0) -> log_pb2.MetadataResponse:
        request = log_pb2.MetadataRequest(topics=topics)
        answer: log_pb2.MetadataResponse = self.log(self.servers[server]).Metadata(
            request, timeout=SECONDS
        )
        return answer

    def partition(self, topic: str, partition: int = 0, server: int = 0) -> Any:
        (found,) = self.metadata(topic, server=server).topics
        return found.partitions[partition]

    def leader(self, topic: str, partition: int = 0, server: int = 0) -> str:
        """The address of the leader, as `server` knows it."""
        answer = self.metadata(topic, server=server)
        leader = answer.topics[0].partitions[partition].leader
        (endpoint,) = [broker.endpoint for broker in answer.brokers if broker.id == leader]
        return f"{endpoint.host}:{endpoint.port}"

    def produce(
        self, server: str, topic: str, batch: bytes, partition: int = 0, acks: int = -1
    ) -> log_pb2.PartitionAck:
        request = log_pb2.ProduceRequest(
            correlation=next(self._correlations), acks=acks, timeout_ms=5_000,
            batches=[log_pb2.PartitionBatch(topic=topic, partition=partition, batch=batch)],
        )  # fmt: skip
        ack: log_pb2.PartitionAck = self.log(server).Produce(request, timeout=SECONDS).acks[0]
        return ack

    def fetch(
        self, server: str, topic: str, offset: int = 0, partition: int = 0, max_wait_ms: int = 0
    ) -> log_pb2.PartitionData:
        request = log_pb2.FetchRequest(
            correlation=next(self._correlations), max_wait_ms=max_wait_ms, min_bytes=1,
            max_bytes=1 << 24,
            partitions=[
                log_pb2.PartitionFetch(
                    topic=topic, partition=partition, fetch_offset=offset, max_bytes=1 << 22,
                    current_leader_epoch=-1, last_fetched_epoch=-1,
                )
            ],
        )  # fmt: skip
        answer: log_pb2.FetchResponse = self.log(server).Fetch(request, timeout=SECONDS)
        return answer.partitions[0]
