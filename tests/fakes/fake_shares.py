"""The answers of a `FakeCluster` about share groups: descriptions, by the coordinator of
`fake_groups`, and start offsets, which tests set.
"""

from __future__ import annotations

from typing import Any

from pylog import errors
from pylog.model import TopicPartition
from pylog.rpc.v1 import share_pb2, share_pb2_grpc
from pylog_broker.coordinator.groups.share.messages import ShareHeartbeat
from tests.fakes.fake_groups import GroupWorld, refused


class FakeShares(share_pb2_grpc.ShareServicer):
    """One broker's side of it. `starts`: (start offset, lag) by group and partition, of all
    brokers.
    """

    def __init__(
        self,
        world: GroupWorld,
        broker: int,
        starts: dict[str, dict[TopicPartition, tuple[int, int]]],
    ) -> None:
        self._world = world
        self._broker = broker
        self._starts = starts

    def _told(self, request: Any, group: str, operation: Any) -> Any:
        name = type(request).__name__.removesuffix("Request")
        self._world.asked.append(name)
        return self._world.told(self._broker, name, group, operation)

    def ShareGroupHeartbeat(
        self, request: share_pb2.ShareGroupHeartbeatRequest, _context: Any
    ) -> share_pb2.ShareGroupHeartbeatResponse:
        """Takes the heartbeats of members that go."""
        assert request.member_epoch < 0
        asked = ShareHeartbeat(request.group_id, request.member_id, request.member_epoch)
        answer = self._told(request, request.group_id, lambda c, r: c.share_heartbeat(r, asked))
        response = share_pb2.ShareGroupHeartbeatResponse()
        if not refused(response.error, answer):
            response.member_id, response.member_epoch = answer.member_id, answer.member_epoch
        return response

    def ShareGroupDescribe(
        self, request: share_pb2.ShareGroupDescribeRequest, _context: Any
    ) -> share_pb2.ShareGroupDescribeResponse:
        response = share_pb2.ShareGroupDescribeResponse()
        for group in request.group_ids:
            told = response.groups.add(group_id=group)
            answer = self._told(request, group, lambda c, r, g=group: c.describe_share(r, g))
            if refused(told.error, answer):
                continue
            told.state, told.assignor = answer.state, answer.assignor
            told.group_epoch = answer.group_epoch
            told.assignment_epoch = answer.assignment_epoch
            for member in answer.members:
                told.members.add(
                    member_id=member.member_id,
                    rack_id=member.rack_id,
                    member_epoch=member.member_epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topics=member.subscribed_names,
                    assigned=self._world.names_of(member.assigned),
                )
        return response

    def DescribeShareGroupOffsets(
        self, request: share_pb2.DescribeShareGroupOffsetsRequest, _context: Any
    ) -> share_pb2.DescribeShareGroupOffsetsResponse:
        response = share_pb2.DescribeShareGroupOffsetsResponse()
        for asked in request.groups:
            told = response.groups.add(group_id=asked.group_id)
            answer = self._told(request, asked.group_id, _describe(asked.group_id))
            if refused(told.error, answer):
                continue
            known = self._starts.get(asked.group_id, {})
            named = [TopicPartition(p.topic, p.partition) for p in asked.partitions]
            for tp in known if asked.all else named:
                start, lag = known.get(tp, (-1, -1))
                told.offsets.add(
                    topic=tp.topic, partition=tp.partition, start_offset=start, lag=lag,
                    leader_epoch=-1,
                )  # fmt: skip
        return response

    def AlterShareGroupOffsets(
        self, request: share_pb2.AlterShareGroupOffsetsRequest, _context: Any
    ) -> share_pb2.AlterShareGroupOffsetsResponse:
        response = share_pb2.AlterShareGroupOffsetsResponse()
        answer = self._told(request, request.group_id, _describe(request.group_id))
        if not refused(response.error, _unless_empty(answer)):
            for asked in request.offsets:
                tp = TopicPartition(asked.topic, asked.partition)
                self._starts.setdefault(request.group_id, {})[tp] = (asked.start_offset, -1)
                response.offsets.add(topic=tp.topic, partition=tp.partition)
        return response

    def DeleteShareGroupOffsets(
        self, request: share_pb2.DeleteShareGroupOffsetsRequest, _context: Any
    ) -> share_pb2.DeleteShareGroupOffsetsResponse:
        response = share_pb2.DeleteShareGroupOffsetsResponse()
        answer = self._told(request, request.group_id, _describe(request.group_id))
        if not refused(response.error, _unless_empty(answer)):
            known = self._starts.setdefault(request.group_id, {})
            for topic in request.topics:
                told = response.topics.add(topic=topic)
                gone = [tp for tp in known if tp.topic == topic]
                for tp in gone:
                    del known[tp]
                if not gone:
                    told.error.code = errors.UnknownTopicOrPartition.code
        return response


def _describe(group: str) -> Any:
    return lambda c, r: c.describe_share(r, group)


def _unless_empty(answer: Any) -> Any:
    if not isinstance(answer, errors.PylogError) and answer.members:
        return errors.NonEmptyGroup("")
    return answer
