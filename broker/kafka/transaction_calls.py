"""AddPartitionsToTxn and WriteTxnMarkers between brokers: messages and values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from pylog.errors import PylogError, UnknownServerError, from_code
from pylog.model import (
    Offset,
    ProducerEpoch,
    ProducerId,
    TopicId,
    TopicPartition,
    topic_id_from_bytes,
    topic_id_to_bytes,
)
from pylog_broker.api.context import RequestContext
from pylog_broker.coordinator.transactions.messages import AddPartitions, PartitionsAdded
from pylog_broker.coordinator.transactions.transaction import Identity, by_topic
from pylog_broker.kafka.broker_apis import (
    ADD_PARTITIONS_TO_TXN,
    WRITE_TXN_MARKERS,
    AnyBoundBrokerApi,
    BoundBrokerApi,
)
from pylog_broker.kafka.generated.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from pylog_broker.kafka.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.produce_messages import WriteMarker

Add = Callable[[AddPartitions], Awaitable[PartitionsAdded]]
Write = Callable[[Sequence[WriteMarker]], Awaitable[list[Failure | None]]]

_NO_START: Final = -1

# ---- AddPartitionsToTxn: a leader asks a coordinator --------------------------------------------


def addition_to_wire(request: AddPartitions) -> AddPartitionsToTxnRequest:
    """The request. One that adds is of version 2: that of version 1 is a client's."""
    topics = [
        AddPartitionsToTxnTopic(topic, numbers)
        for topic, numbers in by_topic(request.partitions).items()
    ]
    transaction = AddPartitionsToTxnTransaction(
        request.transactional_id,
        request.identity.producer_id,
        request.identity.epoch,
        request.verify_only,
        topics,
    )
    return AddPartitionsToTxnRequest([transaction])


def additions_from_wire(request: AddPartitionsToTxnRequest) -> list[AddPartitions]:
    """The question, transaction by transaction."""
    return [
        AddPartitions(
            each.transactional_id,
            Identity(ProducerId(each.producer_id), ProducerEpoch(each.producer_epoch)),
            tuple(
                TopicPartition(topic.name, number)
                for topic in each.topics
                for number in topic.partitions
            ),
            version=1 if each.verify_only else 2,
            verify_only=each.verify_only,
        )
        for each in request.transactions
    ]


def added_from_wire(
    request: AddPartitions, response: AddPartitionsToTxnResponse
) -> Mapping[TopicPartition, PylogError | None]:
    """The outcome for each partition. Raises the error of the request as a whole."""
    if response.error_code:
        raise from_code(response.error_code, f"the coordinator of {request.transactional_id!r}")
    codes = {
        TopicPartition(topic.name, each.partition_index): each.partition_error_code
        for result in response.results_by_transaction
        for topic in result.topic_results
        for each in topic.results_by_partition
    }
    faults: dict[TopicPartition, PylogError | None] = {}
    for partition in request.partitions:
        code = codes.get(partition, UnknownServerError.code)
        fault = from_code(code, _told(request, partition)) if code else None
        if fault is not None and fault.retriable:
            raise fault
        faults[partition] = fault
    return faults


def _told(request: AddPartitions, partition: TopicPartition) -> str:
    owner = request.identity
    return (
        f"{partition}: so the coordinator of {request.transactional_id!r} says of producer id "
        f"{owner.producer_id} epoch {owner.epoch}"
    )


def _bound_addition(add: Add) -> AnyBoundBrokerApi:
    async def handle(
        _: RequestContext, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        results = []
        for asked in additions_from_wire(request):
            try:
                faults = (await add(asked)).partitions
            except PylogError as error:
                faults = dict.fromkeys(asked.partitions, error)
            results.append(_added_to_wire(asked.transactional_id, faults))
        return AddPartitionsToTxnResponse(0, 0, results)

    def refused(_: AddPartitionsToTxnRequest, error: PylogError) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(0, error.code, [])

    return BoundBrokerApi(ADD_PARTITIONS_TO_TXN, handle, refused)


def _added_to_wire(
    transactional_id: str, faults: Mapping[TopicPartition, PylogError | None]
) -> AddPartitionsToTxnResult:
    topics = []
    for topic, numbers in by_topic(faults).items():
        results = []
        for number in numbers:
            fault = faults[TopicPartition(topic, number)]
            results.append(AddPartitionsToTxnPartitionResult(number, fault.code if fault else 0))
        topics.append(AddPartitionsToTxnTopicResult(topic, results))
    return AddPartitionsToTxnResult(transactional_id, topics)


# ---- WriteTxnMarkers: a coordinator tells a leader ----------------------------------------------


def markers_to_wire(markers: Sequence[WriteMarker]) -> WriteTxnMarkersRequest:
    """The request, of one transaction."""
    first = markers[0]
    by_partition = {each.topic_partition: each for each in markers}
    topics = []
    for topic, numbers in by_topic(by_partition).items():
        written = WritableTxnMarkerTopic(topic, numbers)
        told = [by_partition[TopicPartition(topic, number)] for number in numbers]
        topic_id = next((each.topic_id for each in told if each.topic_id is not None), None)
        if topic_id is not None:
            written.topic_id = topic_id_to_bytes(topic_id)
            written.new_starts = [
                _NO_START if each.new_start is None else each.new_start for each in told
            ]
        topics.append(written)
    marker = WritableTxnMarker(
        first.producer_id,
        first.producer_epoch,
        first.commits,
        topics,
        first.coordinator_epoch,
        first.version,
    )
    return WriteTxnMarkersRequest([marker])


def written_from_wire(
    markers: Sequence[WriteMarker], response: WriteTxnMarkersResponse
) -> list[Failure | None]:
    """The outcome of each."""
    codes = {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for result in response.markers
        for topic in result.topics
        for each in topic.partitions
    }
    outcomes: list[Failure | None] = []
    for marker in markers:
        code = codes.get(marker.topic_partition, UnknownServerError.code)
        outcomes.append(Failure(code, str(marker.topic_partition)) if code else None)
    return outcomes


def _bound_markers(write: Write) -> AnyBoundBrokerApi:
    async def handle(_: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        asked = [*map(_markers_from_wire, request.markers)]
        outcomes = iter(await write([each for markers in asked for each in markers]))
        return WriteTxnMarkersResponse(
            [
                _marker_result(markers, {each: next(outcomes) for each in markers})
                for markers in asked
            ]
        )

    def refused(request: WriteTxnMarkersRequest, error: PylogError) -> WriteTxnMarkersResponse:
        failure = Failure(error.code, str(error))
        return WriteTxnMarkersResponse(
            [
                _marker_result(markers, dict.fromkeys(markers, failure))
                for markers in map(_markers_from_wire, request.markers)
            ]
        )

    return BoundBrokerApi(WRITE_TXN_MARKERS, handle, refused)


def _markers_from_wire(marker: WritableTxnMarker) -> list[WriteMarker]:
    return [
        WriteMarker(
            TopicPartition(topic.name, number),
            ProducerId(marker.producer_id),
            ProducerEpoch(marker.producer_epoch),
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
            *start,
        )
        for topic in marker.topics
        for number, start in zip(topic.partition_indexes, _new_starts(topic), strict=True)
    ]


def _new_starts(topic: WritableTxnMarkerTopic) -> list[tuple[TopicId | None, Offset | None]]:
    if len(topic.new_starts) != len(topic.partition_indexes):
        return [(None, None)] * len(topic.partition_indexes)
    topic_id = topic_id_from_bytes(topic.topic_id)
    return [
        (None, None) if start == _NO_START else (topic_id, Offset(start))
        for start in topic.new_starts
    ]


def _marker_result(
    markers: Iterable[WriteMarker], outcomes: Mapping[WriteMarker, Failure | None]
) -> WritableTxnMarkerResult:
    producer_id, topics = -1, dict[str, list[WritableTxnMarkerPartitionResult]]()
    for marker in markers:
        producer_id = marker.producer_id
        failure = outcomes[marker]
        result = WritableTxnMarkerPartitionResult(
            marker.topic_partition.partition, failure.code if failure else 0
        )
        topics.setdefault(marker.topic_partition.topic, []).append(result)
    return WritableTxnMarkerResult(
        producer_id, [WritableTxnMarkerTopicResult(*item) for item in topics.items()]
    )


def transaction_apis(add: Add, write: Write) -> tuple[AnyBoundBrokerApi, ...]:
    """The APIs for other brokers that are about transactions."""
    return _bound_addition(add), _bound_markers(write)
