"""What a `FakeCluster` answers to administrators."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from pylog import errors
from pylog.rpc.v1 import admin_pb2, admin_pb2_grpc, common_pb2
from tests.fakes.fake_topics import FakeTopic


class Administered(Protocol):
    """The cluster, as administrators see it."""

    changed: threading.Condition
    topics: dict[str, FakeTopic]
    configs: dict[tuple[int, str], dict[str, str]]
    starting: int

    def create_topic(self, name: str, partitions: int = 1) -> FakeTopic: ...

    def live(self) -> list[common_pb2.Broker]: ...


class FakeAdmin(admin_pb2_grpc.AdminServicer, admin_pb2_grpc.BrokerAdminServicer):
    def __init__(self, cluster: Administered, broker: int) -> None:
        self._cluster = cluster
        self._broker = broker

    def CreateTopics(
        self, request: admin_pb2.CreateTopicsRequest, _context: Any
    ) -> admin_pb2.CreateTopicsResponse:
        response = admin_pb2.CreateTopicsResponse()
        for asked in request.topics:
            told = response.topics.add(name=asked.name)
            if asked.name in self._cluster.topics:
                told.error.code = errors.TopicAlreadyExists.code
                told.error.message = f"topic {asked.name} exists"
                continue
            if self._cluster.starting > 0:
                self._cluster.starting -= 1
                told.error.code = errors.InvalidReplicationFactor.code
                told.error.message = "replication factor 1, but only 0 brokers are registered"
                continue
            topic = self._cluster.create_topic(asked.name, max(asked.num_partitions, 1))
            told.topic_id = topic.topic_id
            told.num_partitions = len(topic.partitions)
        return response

    def DeleteTopics(
        self, request: admin_pb2.DeleteTopicsRequest, _context: Any
    ) -> admin_pb2.DeleteTopicsResponse:
        response = admin_pb2.DeleteTopicsResponse()
        with self._cluster.changed:
            for name in request.names:
                told = response.topics.add(name=name)
                topic = self._cluster.topics.pop(name, None)
                if topic is not None:
                    told.topic_id = topic.topic_id
                else:
                    told.error.code = errors.UnknownTopicOrPartition.code
                    told.error.message = f"there is no topic {name}"
        return response

    def DescribeConfigs(
        self, request: admin_pb2.DescribeConfigsRequest, _context: Any
    ) -> admin_pb2.DescribeConfigsResponse:
        """What was set, and `segment.bytes` at its default."""
        response = admin_pb2.DescribeConfigsResponse()
        for question in request.resources:
            told = response.resources.add(resource=question.resource)
            own = self._cluster.configs.get((question.resource.type, question.resource.name), {})
            for name, value in sorted({"segment.bytes": "1073741824", **own}.items()):
                if question.all_names or name in question.names:
                    source = "DYNAMIC_TOPIC_CONFIG" if name in own else "DEFAULT_CONFIG"
                    told.entries.add(name=name, value=value, source=source)
        return response

    def AlterConfigs(
        self, request: admin_pb2.AlterConfigsRequest, _context: Any
    ) -> admin_pb2.AlterConfigsResponse:
        """Sets and deletes; unknown topics are refused."""
        response = admin_pb2.AlterConfigsResponse()
        for altered in request.resources:
            kind, name = altered.resource.type, altered.resource.name
            told = response.resources.add(resource=altered.resource)
            if kind == admin_pb2.ConfigResource.TOPIC and name not in self._cluster.topics:
                told.error.code = errors.UnknownTopicOrPartition.code
                told.error.message = f"there is no topic {name}"
                continue
            own = self._cluster.configs.setdefault((kind, name), {})
            for op in altered.ops:
                if op.type == admin_pb2.AlterConfigOp.SET:
                    own[op.name] = op.value
                else:
                    own.pop(op.name, None)
        return response

    def DescribeLogDirs(
        self, _request: admin_pb2.DescribeLogDirsRequest, _context: Any
    ) -> admin_pb2.DescribeLogDirsResponse:
        directory = admin_pb2.LogDir(path=f"/data/broker-{self._broker}")
        return admin_pb2.DescribeLogDirsResponse(directories=[directory])

    def DescribeCluster(
        self, _request: admin_pb2.DescribeClusterRequest, _context: Any
    ) -> admin_pb2.DescribeClusterResponse:
        live = self._cluster.live()
        return admin_pb2.DescribeClusterResponse(
            cluster_id="fake", controller_epoch=1, brokers=live, controller=live[0].endpoint
        )
