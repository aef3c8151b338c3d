"""Produce requests on their way into a stream, several of them to a message.

A message costs gRPC and both event loops about as much as it costs to copy 64 KB. Requests that
wait for the same stream therefore travel together; they stay requests of their own, each with its
correlation, at most one batch per partition, and its own answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pylog.client.send_events import Ack
from pylog.client.wire import acks_of
from pylog.model import TopicPartition
from pylog.rpc.v1 import log_pb2

MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""Larger messages win nothing. One request that is larger travels alone."""
MESSAGE_REQUESTS_MAX: Final = 16
"""Brokers take up to 64."""


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """One batch of a request, as bytes."""

    topic_partition: TopicPartition
    topic_id: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request that waits to be written. `size` is that of its batches."""

    correlation: int
    batches: Sequence[EncodedBatch]
    size: int


@dataclass(frozen=True, slots=True)
class ProduceMessages:
    """Makes messages of what all requests of a producer have in common."""

    acks: int
    timeout_ms: int
    client_id: str

    def pack(self, queue: deque[OutgoingRequest]) -> log_pb2.ProduceRequest:
        """The next message: the first request and as many of those behind it as fit."""
        first = queue.popleft()
        message = log_pb2.ProduceRequest()
        self._fill(message, first)
        size, count = first.size, 1
        while queue and count < MESSAGE_REQUESTS_MAX:
            size, count = size + queue[0].size, count + 1
            if size > MESSAGE_BYTES_MAX:
                break
            self._fill(message.following.add(), queue.popleft())
        return message

    def _fill(self, message: log_pb2.ProduceRequest, request: OutgoingRequest) -> None:
        message.correlation = request.correlation
        message.acks = self.acks
        message.timeout_ms = self.timeout_ms
        message.client_id = self.client_id
        for batch in request.batches:
            topic, partition = batch.topic_partition
            message.batches.add(
                topic=topic, topic_id=batch.topic_id, partition=partition, batch=batch.data
            )


def answers_of(message: log_pb2.ProduceResponse) -> list[tuple[int, list[Ack]]]:
    """The answers in a broker's message: each request's correlation and its acks."""
    return [
        (response.correlation, acks_of(response.acks)) for response in (message, *message.following)
    ]
