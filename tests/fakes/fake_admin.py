"""The answers of a `FakeCluster` to administrators."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Protocol

import grpc

from pylog import errors
from pylog.rpc.channel import ERROR_CODE_KEY
from pylog.rpc.v1 import admin_pb2, admin_pb2_grpc, common_pb2
from tests.fakes.fake_topics import FakePartition, FakeTopic


class Administered(Protocol):
    """The cluster, as administrators see it."""

    changed: threading.Condition
    topics: dict[str, FakeTopic]
    configs: dict[tuple[int, str], dict[str, str]]
    starting: int
    item_faults: deque[int]
    moves: dict[tuple[str, int], list[int]]

    def create_topic(self, name: str, partitions: int = 1) -> FakeTopic: ...

    def live(self) -> list[common_pb2.Broker]: ...


ITEMS_MAX = 10_000
"""A broker's limit; more are refused as brokers do it."""


class FakeAdmin(admin_pb2_grpc.AdminServicer, admin_pb2_grpc.BrokerAdminServicer):
    def __init__(self, cluster: Administered, broker: int) -> None:
        self._cluster = cluster
        self._broker = broker

    def _refused(self, told: Any) -> bool:
        """Whether the item is refused by the test."""
        faults = self._cluster.item_faults
        told.error.code = faults.popleft() if faults else 0
        told.error.message = "refused by the test" if told.error.code else ""
        return bool(told.error.code)

    def CreateTopics(
        self, request: admin_pb2.CreateTopicsRequest, context: Any
    ) -> admin_pb2.CreateTopicsResponse:
        if len(request.topics) > ITEMS_MAX:
            context.set_trailing_metadata(((ERROR_CODE_KEY, str(errors.InvalidRequest.code)),))
            text = f"INVALID_REQUEST: {len(request.topics)} topics; the limit is {ITEMS_MAX}"
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        response = admin_pb2.CreateTopicsResponse()
        for asked in request.topics:
            told = response.topics.add(name=asked.name)
            if self._refused(told):
                continue
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
                if self._refused(told):
                    continue
                topic = self._cluster.topics.pop(name, None)
                if topic is not None:
                    told.topic_id = topic.topic_id
                else:
                    told.error.code = errors.UnknownTopicOrPartition.code
                    told.error.message = f"there is no topic {name}"
        return response

    def CreatePartitions(
        self, request: admin_pb2.CreatePartitionsRequest, _context: Any
    ) -> admin_pb2.CreatePartitionsResponse:
        """Checks nothing."""
        response = admin_pb2.CreatePartitionsResponse()
        with self._cluster.changed:
            for grown in request.topics:
                told = response.topics.add(name=grown.topic)
                if not self._refused(told):
                    partitions = self._cluster.topics[grown.topic].partitions
                    while len(partitions) < grown.total_count:
                        partitions.append(FakePartition(self._broker))
                    told.num_partitions = len(partitions)
        return response

    def ElectLeaders(
        self, request: admin_pb2.ElectLeadersRequest, _context: Any
    ) -> admin_pb2.ElectLeadersResponse:
        """Leaders stay as they are."""
        response = admin_pb2.ElectLeadersResponse()
        if not self._refused(response):
            for asked in request.partitions:
                partition = self._cluster.topics[asked.topic].partitions[asked.partition]
                response.partitions.add(
                    topic=asked.topic, partition=asked.partition, leader=partition.leader
                )
        return response

    def AlterPartitionReassignments(
        self, request: admin_pb2.AlterPartitionReassignmentsRequest, _context: Any
    ) -> admin_pb2.AlterPartitionReassignmentsResponse:
        """Every replica that is asked for is there at once, except that of broker 9."""
        response = admin_pb2.AlterPartitionReassignmentsResponse()
        with self._cluster.changed:
            for asked in request.partitions:
                told = response.partitions.add(topic=asked.topic, partition=asked.partition)
                if self._refused(told):
                    continue
                key = (asked.topic, asked.partition)
                if not asked.HasField("replicas"):
                    if self._cluster.moves.pop(key, None) is None:
                        told.error.code = errors.NoReassignmentInProgress.code
                        told.error.message = "it does not move"
                    continue
                partition = self._cluster.topics[asked.topic].partitions[asked.partition]
                self._cluster.moves.pop(key, None)
                if 9 in asked.replicas.brokers:
                    self._cluster.moves[key] = list(asked.replicas.brokers)
                else:
                    partition.leader = asked.replicas.brokers[0]
        return response

    def ListPartitionReassignments(
        self, request: admin_pb2.ListPartitionReassignmentsRequest, _context: Any
    ) -> admin_pb2.ListPartitionReassignmentsResponse:
        named = {(asked.topic, asked.partition) for asked in request.partitions}
        response = admin_pb2.ListPartitionReassignmentsResponse()
        for (topic, number), target in self._cluster.moves.items():
            if request.all_partitions or (topic, number) in named:
                leader = self._cluster.topics[topic].partitions[number].leader
                response.partitions.add(
                    topic=topic,
                    partition=number,
                    replicas=[*target, leader],
                    adding_replicas=target,
                    removing_replicas=[leader],
                )
        return response

    def UnregisterBroker(
        self, _request: admin_pb2.UnregisterBrokerRequest, _context: Any
    ) -> admin_pb2.UnregisterBrokerResponse:
        response = admin_pb2.UnregisterBrokerResponse()
        self._refused(response)
        return response

    def DescribeConfigs(
        self, request: admin_pb2.DescribeConfigsRequest, _context: Any
    ) -> admin_pb2.DescribeConfigsResponse:
        """The settings that were set, and `segment.bytes` at its default."""
        response = admin_pb2.DescribeConfigsResponse()
        for question in request.resources:
            told = response.resources.add(resource=question.resource)
            if self._refused(told):
                continue
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
            if self._refused(told):
                continue
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

    def DescribeBroker(
        self, _request: admin_pb2.DescribeBrokerRequest, _context: Any
    ) -> admin_pb2.DescribeBrokerResponse:
        """A broker of the rack "r", which has registered when it is the first."""
        registered = self._broker == 1
        told = admin_pb2.DescribeBrokerResponse(
            broker_id=self._broker,
            broker_epoch=5 if registered else -1,
            registered_ms=1_000 if registered else 0,
            rack="r",
            version="1",
        )
        told.listeners.add(
            name="CLIENTS",
            endpoint=common_pb2.Endpoint(host="h", port=9),
            protocol="grpc",
            purpose="clients",
            open=True,
            connections=-1,
        )
        told.parts.add(name="logs", state="running", detail="1 log directories work")
        told.replicas.add(topic="t", topic_id="T", role="leaderless", leader=-1, isr=[1, 2])
        return told

    def DescribeCluster(
        self, _request: admin_pb2.DescribeClusterRequest, _context: Any
    ) -> admin_pb2.DescribeClusterResponse:
        live = self._cluster.live()
        return admin_pb2.DescribeClusterResponse(
            cluster_id="fake", controller_epoch=1, brokers=live, controller=live[0].endpoint
        )
