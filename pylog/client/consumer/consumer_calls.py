"""The consumer's requests that go by a call: from the core's values to messages, and back."""

from __future__ import annotations

from collections.abc import Sequence

from pylog import errors
from pylog.client.cluster.cluster import Cluster
from pylog.client.fetching.fetch_events import Listed, ListOffsets
from pylog.model import TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import log_pb2


async def list_offsets(
    cluster: Cluster, request: ListOffsets, *, read_committed: bool
) -> Sequence[Listed]:
    """The broker's answer for each partition; raises the reason why there is none."""
    isolation = "READ_COMMITTED" if read_committed else "READ_UNCOMMITTED"
    message = log_pb2.ListOffsetsRequest(isolation_level=isolation)
    generations = {}
    for tp, timestamp, epoch, generation in request.items:
        generations[tp] = generation
        message.partitions.add(
            topic=tp.topic,
            partition=tp.partition,
            timestamp_ms=timestamp,
            current_leader_epoch=epoch,
        )
    server = cluster.broker(request.broker)
    if server is None:
        raise errors.LeaderNotAvailable(f"broker {request.broker} is not alive")
    timeout_s = cluster.settings.request_timeout_ms / 1000
    response = await server.call(apis.LIST_OFFSETS, message, timeout_s)
    answers = []
    for told in response.partitions:
        tp = TopicPartition(told.topic, told.partition)
        code, words = told.error.code, told.error.message
        answers.append(Listed(tp, generations[tp], code, words, told.offset, told.topic_id))
    return answers
