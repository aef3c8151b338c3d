"""Produce requests on their way into a stream, several of them to a message.

A message costs gRPC and both event loops about as much as it costs to copy 64 KB. Requests that
wait for the same stream therefore travel together; they stay requests of their own, each with its
correlation, at most one batch per partition, and its own answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from pylog.client.sending.send_events import Ack
from pylog.rpc.framing import Chunks
from pylog.rpc.produce_wire import Item, Request, encode_message
from pylog.rpc.v1 import log_pb2

MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""Larger messages win nothing. One request that is larger travels alone."""
MESSAGE_REQUESTS_MAX: Final = 16
"""Brokers take up to 64."""


class OutgoingRequest(NamedTuple):
    """A request that waits to be written. `size` is that of its batches."""

    correlation: int
    items: Sequence[Item]
    size: int


@dataclass(frozen=True, slots=True)
class ProduceMessages:
    """Makes messages of what all requests of a producer have in common."""

    acks: int
    timeout_ms: int
    client_id: str
    transactional_id: str = ""
    bytes_max: int = MESSAGE_BYTES_MAX

    def smaller(self, limit: int) -> ProduceMessages:
        """Such that several requests stay well within the limit that a message has met."""
        return replace(self, bytes_max=min(self.bytes_max, limit // 2))

    def pack(self, queue: deque[OutgoingRequest]) -> tuple[Chunks, list[int]]:
        """The next message, in pieces, of the first request and as many of those behind it as fit;
        and the correlations of all of them.
        """
        requests: list[Request] = []
        size = 0
        while queue and len(requests) < MESSAGE_REQUESTS_MAX:
            size += queue[0].size
            if requests and size > self.bytes_max:
                break
            correlation, items, _ = queue.popleft()
            requests.append(
                Request(correlation, self.acks, self.timeout_ms, items, self.transactional_id)
            )
        pieces = encode_message(requests, self.client_id)
        return pieces, [request.correlation for request in requests]


def answers_of(message: log_pb2.ProduceResponse) -> list[tuple[int, list[Ack]]]:
    """The answers in a broker's message: each request's correlation and its acks."""
    return [
        (response.correlation, acks_of(response.acks)) for response in (message, *message.following)
    ]


def acks_of(acks: Iterable[log_pb2.PartitionAck]) -> list[Ack]:
    """A broker's answers to a produce request, in its order."""
    return [
        Ack(
            ack.error.code,
            ack.error.message,
            ack.base_offset,
            ack.log_append_time_ms,
            # 0 is proto3's "not set" and also a legal broker id; the epoch tells them apart.
            ack.current_leader if ack.error.code and ack.current_leader_epoch > 0 else -1,
            ack.current_leader_epoch,
            ack.record_index,
        )
        for ack in acks
    ]
