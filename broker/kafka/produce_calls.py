"""Produce between brokers: one batch for a partition that another one leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from pylog import errors
from pylog.errors import PylogError
from pylog.model import Offset, TopicPartition, topic_id_from_bytes, topic_id_to_bytes
from pylog_broker.api.context import RequestContext
from pylog_broker.api.produce import ProduceHandler
from pylog_broker.kafka.broker_apis import AnyBoundBrokerApi, BoundBrokerApi, BrokerApi
from pylog_broker.kafka.generated import produce
from pylog_broker.kafka.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch, Produce

ACKS_ALL: Final = -1
PRODUCE: Final = BrokerApi(
    produce.KEY,
    "ProduceOfBroker",
    13,
    produce.encode_request,
    produce.decode_request,
    produce.encode_response,
    produce.decode_response,
)

Ask = Callable[[BrokerApi[Any, Any], Any], Awaitable[Any]]


class BatchesHere:
    """Batches of brokers, this one among them, for partitions that this broker leads: checked and
    counted as those of clients are. Lives on the broker's loop.
    """

    def __init__(self, handler: ProduceHandler) -> None:
        self._handler = handler

    async def produce(
        self, context: RequestContext, batches: Sequence[PartitionBatch], timeout_ms: int
    ) -> Sequence[PartitionAck]:
        """The outcome of each, when all replicas in sync have it. Raises InvalidRequest."""
        answered: asyncio.Future[Sequence[PartitionAck]] = (
            asyncio.get_running_loop().create_future()
        )

        def done(answers: Sequence[Sequence[PartitionAck]]) -> None:
            if not answered.done():
                answered.set_result(answers[0])

        request = Produce(ACKS_ALL, timeout_ms, tuple(batches))
        checking = self._handler.handle(context, [request], done, lambda _: None)
        try:
            if checking is not None:
                await checking
            return await answered
        finally:
            if checking is not None:
                checking.cancel()


def produce_api(here: BatchesHere, image: Callable[[], MetadataImage]) -> AnyBoundBrokerApi:
    """The answer of a broker for the partitions that it leads."""

    async def handle(context: RequestContext, request: ProduceRequest) -> ProduceResponse:
        if request.transactional_id is not None or request.acks != ACKS_ALL:
            raise errors.InvalidRequest(
                "brokers produce with acks=all and without a transaction between themselves"
            )
        unknown, batches = [], []
        for topic, each in _asked(request):
            found = image().topics_by_id.get(topic_id_from_bytes(topic.topic_id))
            if found is None:
                failure = Failure(errors.UnknownTopicId.code, "there is no topic of that id here")
                unknown.append((topic.topic_id, each.index, failure))
            else:
                name = TopicPartition(found.name, each.index)
                batches.append(PartitionBatch(name, found.topic_id, each.records or b""))
        acks = await here.produce(context, batches, request.timeout_ms) if batches else ()
        response = ProduceResponse()
        for topic_id, index, failure in unknown:
            _add(response, topic_id, PartitionAck(TopicPartition("", index), failure))
        for batch, ack in zip(batches, acks, strict=True):
            assert batch.topic_id is not None
            _add(response, topic_id_to_bytes(batch.topic_id), ack)
        return response

    def refused(request: ProduceRequest, error: PylogError) -> ProduceResponse:
        response = ProduceResponse()
        failure = Failure(error.code, str(error))
        for topic, each in _asked(request):
            _add(response, topic.topic_id, PartitionAck(TopicPartition("", each.index), failure))
        return response

    return BoundBrokerApi(PRODUCE, handle, refused)


def _asked(request: ProduceRequest) -> list[tuple[TopicProduceData, PartitionProduceData]]:
    return [(topic, each) for topic in request.topic_data for each in topic.partition_data]


def _add(response: ProduceResponse, topic_id: bytes, ack: PartitionAck) -> None:
    told = PartitionProduceResponse(
        ack.topic_partition.partition,
        ack.failure.code if ack.failure else 0,
        ack.base_offset,
        ack.log_append_time_ms,
        ack.log_start_offset,
        error_message=ack.failure.message if ack.failure else None,
    )
    response.responses.append(TopicProduceResponse(topic_id=topic_id, partition_responses=[told]))


async def produce_there(ask: Ask, batch: PartitionBatch, timeout_ms: int) -> PartitionAck:
    """The outcome of a batch that was sent to another broker. Raises the errors of a broker that
    cannot be reached."""
    assert batch.topic_id is not None
    name = batch.topic_partition
    data = TopicProduceData(
        topic_id=topic_id_to_bytes(batch.topic_id),
        partition_data=[PartitionProduceData(name.partition, bytes(batch.batch))],
    )
    response: ProduceResponse = await ask(
        PRODUCE, ProduceRequest(None, ACKS_ALL, timeout_ms, [data])
    )
    found = [each for topic in response.responses for each in topic.partition_responses]
    if len(found) != 1 or found[0].index != name.partition:
        raise errors.UnknownServerError(f"{name}: its leader answers about something else")
    (told,) = found
    failure = Failure(told.error_code, told.error_message or "") if told.error_code else None
    return PartitionAck(name, failure, Offset(told.base_offset))
