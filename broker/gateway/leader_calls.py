"""The gateway's own calls to the leaders of partitions, over gRPC as any simple client's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import grpc.aio

from pylog import errors
from pylog.model import BrokerId, Offset
from pylog.rpc.channel import aio_channel
from pylog.rpc.v1 import log_pb2
from pylog_broker.api.context import RequestContext
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import Endpoint
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch

_MORE_SECONDS = 1.0
"""The broker's own time-out is to answer first."""


class _Way(NamedTuple):
    endpoint: Endpoint
    channel: grpc.aio.Channel
    produce: Any


class LeaderCalls:
    """One channel for each broker that was called. Lives on the gateway's loop."""

    def __init__(self, locate: Callable[[BrokerId], Sequence[Endpoint]]) -> None:
        self._locate = locate
        self._ways: dict[BrokerId, _Way] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def produce(
        self, context: RequestContext, broker: BrokerId, batches: Sequence[PartitionBatch], ms: int
    ) -> Sequence[PartitionAck]:
        """The broker's acks, in the order of the batches, of acks=all within so many milliseconds.
        Raises NetworkException where it is not known whether the broker got them.
        """
        way = self._way(broker)
        if way is None:
            gone = Failure(errors.LeaderNotAvailable.code, f"broker {broker} is not registered")
            return [PartitionAck(batch.topic_partition, gone) for batch in batches]
        request = log_pb2.ProduceRequest(
            acks=-1,
            timeout_ms=ms,
            client_id=context.client_id,
            batches=[
                log_pb2.PartitionBatch(
                    topic=batch.topic_partition.topic,
                    topic_id=batch.topic_id or "",
                    partition=batch.topic_partition.partition,
                    batch=bytes(batch.batch),
                )
                for batch in batches
            ],
        )
        try:
            response = await way.produce(request, timeout=ms / 1000 + _MORE_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise errors.NetworkException(
                f"broker {broker} at {way.endpoint}: {error.details() or error.code().name}; it is "
                "not known whether it has stored the records"
            ) from error
        if len(response.acks) != len(batches):
            raise errors.NetworkException(
                f"broker {broker} at {way.endpoint} gave {len(response.acks)} answers to "
                f"{len(batches)} batches"
            )
        return [
            PartitionAck(
                batch.topic_partition,
                Failure(ack.error.code, ack.error.message) if ack.error.code else None,
                Offset(ack.base_offset),
            )
            for batch, ack in zip(batches, response.acks, strict=True)
        ]

    async def close(self) -> None:
        """Let go of all channels."""
        ways, self._ways = list(self._ways.values()), {}
        for way in ways:
            await way.channel.close(None)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _way(self, broker: BrokerId) -> _Way | None:
        endpoint = next(iter(self._locate(broker)), None)
        known = self._ways.get(broker)
        if known is not None and known.endpoint == endpoint:
            return known
        if known is not None:
            del self._ways[broker]
            closing = asyncio.ensure_future(known.channel.close(None))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        if endpoint is None:
            return None
        channel = aio_channel(str(endpoint))
        produce = channel.unary_unary(
            "/pylog.v1.Log/Produce",
            log_pb2.ProduceRequest.SerializeToString,
            log_pb2.ProduceResponse.FromString,
        )
        way = self._ways[broker] = _Way(endpoint, channel, produce)
        return way
