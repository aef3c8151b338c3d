"""An administrator who has share groups begin elsewhere: their offsets are altered or deleted.

A group's members have to be gone for that. They leave or die, and the next ones come when the
administrator has its answer or gives up; one of them may come too early, and has to go as well. A
question that is not answered is asked again, in the same words, so a copy that comes late says
nothing new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.model import CONSUMER_OFFSETS, Offset, TopicId
from pylog.rpc.apis import ALTER_SHARE_GROUP_OFFSETS, DELETE_SHARE_GROUP_OFFSETS
from pylog.rpc.v1 import share_pb2
from pylog_broker.coordinator.runtime.runtime import partition_for
from pylog_broker.share.sessions import SharePartitionKey
from tests.sim.broker_process import BrokerProcess
from tests.sim.coordinator_shell import Refused, UnaryCall
from tests.sim.rpc import Actor, Machine, Rpc
from tests.sim.share_log import NOWHERE, Written

if TYPE_CHECKING:
    from pylog_broker.metadata.image import TopicImage
    from tests.sim.cluster import Cluster
    from tests.sim.share_apps import ShareApps

ASK_MS = 1_500
AGAIN_MS = 250
ATTEMPTS = 25
INTERVAL_MS = 2_500
DELETING = 0.25
DELETED_AND_ALTERED = 0.4
"""The share of groups whose offsets are altered once they are deleted, before members come."""
TOO_EARLY = 0.2
TOO_EARLY_MS = 150
"""A member that comes too early needs about as long to join."""

Request = share_pb2.AlterShareGroupOffsetsRequest | share_pb2.DeleteShareGroupOffsetsRequest


class ShareOffsets(Actor):
    """One command at a time."""

    def __init__(self, cluster: Cluster, apps: ShareApps) -> None:
        super().__init__(Machine("share-admin", cluster.scheduler, 0))
        self._cluster = cluster
        self._apps = apps
        self._rng = cluster.scheduler.rng("share offsets")
        self._sometimes = cluster.sometimes
        self._topic_id = TopicId("")
        self._attempts = 0
        self._deleting: dict[SharePartitionKey, Written | None] = {}
        """The state that is to be deleted, as it was before."""
        self._broken_off: set[SharePartitionKey] = set()
        """The partitions of which a group may have forgotten that it has state, before that was
        deleted: then it begins anew when somebody reads them, and is there until then.
        """
        self.is_over = False

    def start(self) -> None:
        """Begin."""
        self.timer(self._rng.expovariate(1 / INTERVAL_MS), self._begin)

    def _begin(self) -> None:
        topic = self._cluster.topic()
        if self.is_over or topic is None:
            return
        group_id = self._rng.choice(self._apps.group_ids)
        self._apps.empty(group_id)
        self._begin_with(group_id, topic, deletes=self._rng.random() < DELETING)

    def _begin_with(self, group_id: str, topic: TopicImage, *, deletes: bool) -> None:
        self._topic_id = topic.topic_id
        request: Request
        if deletes:
            keys = [self._key(group_id, number) for number in sorted(topic.partitions)]
            self._deleting = {key: self._apps.ghost.written(key) for key in keys}
            for key in keys:
                self._apps.ghost.asked(key, NOWHERE)
            request = share_pb2.DeleteShareGroupOffsetsRequest(
                group_id=group_id, topics=[topic.name]
            )
        else:
            request = share_pb2.AlterShareGroupOffsetsRequest(
                group_id=group_id,
                offsets=[
                    share_pb2.ShareGroupOffset(
                        topic=topic.name, partition=number, start_offset=self._somewhere(number)
                    )
                    for number in sorted(topic.partitions)
                ],
            )
            for each in request.offsets:
                self._apps.ghost.asked(self._key(group_id, each.partition), each.start_offset)
        self._attempts = ATTEMPTS
        self._ask(request)

    def _somewhere(self, number: int) -> int:
        ghost = self._cluster.shadows.ghost(self._topic_id, number)
        return self._rng.randint(min(ghost.deleted_to, ghost.committed_end), ghost.committed_end)

    def _key(self, group_id: str, number: int) -> SharePartitionKey:
        return SharePartitionKey(group_id, self._topic_id, number)

    def _ask(self, request: Request) -> None:
        self._attempts -= 1
        if self.is_over or self._attempts < 0:
            self._sometimes["shares: offsets given up"] += 1
            self._end(request.group_id)
            return
        alters = isinstance(request, share_pb2.AlterShareGroupOffsetsRequest)
        wait_ms = 0.0
        if alters and self._rng.random() < TOO_EARLY:
            self._apps.come_too_early(request.group_id)
            wait_ms = self._rng.random() * TOO_EARLY_MS
        self.timer(wait_ms, self._send, request)

    def _send(self, request: Request) -> None:
        process = self._coordinator(request.group_id)
        if process is None or process.shares is None:
            self.timer(AGAIN_MS, self._ask, request)
            return
        alters = isinstance(request, share_pb2.AlterShareGroupOffsetsRequest)
        api = (ALTER_SHARE_GROUP_OFFSETS if alters else DELETE_SHARE_GROUP_OFFSETS).key
        rpc = Rpc(self._cluster.net, self, process)

        def heard(answer: Any) -> None:
            if rpc.open:
                rpc.close()
            self._heard(request, answer)

        rpc.request(process.shares.serve, UnaryCall(api, request, self.name), heard, ASK_MS)

    def _coordinator(self, group_id: str) -> BrokerProcess | None:
        topic = self._cluster.image.topics_by_name.get(CONSUMER_OFFSETS)
        if topic is None:
            return None
        return self._cluster.process(
            topic.partitions[partition_for(group_id, len(topic.partitions))].leader
        )

    def _heard(self, request: Request, answer: Any) -> None:
        outcomes: list[int] = []
        if answer is None or isinstance(answer, Refused):
            outcomes = [-1 if answer is None else answer.code]
        elif isinstance(request, share_pb2.AlterShareGroupOffsetsRequest):
            outcomes = [answer.error.code, *(each.error.code for each in answer.offsets)]
        else:
            outcomes = [answer.error.code, *(each.error.code for each in answer.topics)]
        for code in {*outcomes} - {0, -1}:
            name = errors.ERRORS_BY_CODE[code].__name__
            self._sometimes[f"shares: offsets refused: {name}"] += 1
        if any(outcomes):
            if isinstance(request, share_pb2.DeleteShareGroupOffsetsRequest):
                self._broken_off.update(self._deleting)
            if errors.NonEmptyGroup.code in outcomes:
                self._apps.empty(request.group_id)
            self.timer(AGAIN_MS, self._ask, request)
            return
        if isinstance(request, share_pb2.AlterShareGroupOffsetsRequest):
            self._sometimes["shares: offsets altered"] += 1
            for each in request.offsets:
                key = self._key(request.group_id, each.partition)
                self._apps.ghost.altered(
                    key, Offset(each.start_offset), may_be_deleted=key in self._broken_off
                )
        else:
            self._sometimes["shares: offsets deleted"] += 1
            for key, before in self._deleting.items():
                if before is not None and key not in self._broken_off:
                    self._apps.ghost.deleted(key, before.state_epoch)
            topic = self._cluster.topic()
            if topic is not None and self._rng.random() < DELETED_AND_ALTERED:
                self._begin_with(request.group_id, topic, deletes=False)
                return
        self._end(request.group_id)

    def _end(self, group_id: str) -> None:
        self._apps.fill(group_id)
        self.start()
