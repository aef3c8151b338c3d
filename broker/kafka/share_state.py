"""Brokers' calls about share groups: the state of partitions, one in each call, and
where logs end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol, cast

from pylog import errors
from pylog.errors import InvalidRequest, PylogError
from pylog.model import LeaderEpoch, Offset, TopicPartition, topic_id_from_bytes, topic_id_to_bytes
from pylog_broker.api.context import RequestContext
from pylog_broker.kafka.broker_apis import AnyBoundBrokerApi, BoundBrokerApi, BrokerApi
from pylog_broker.kafka.generated import (
    delete_share_group_state,
    initialize_share_group_state,
    list_offsets,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from pylog_broker.kafka.generated.delete_share_group_state import (
    DeletedPartition,
    DeletedTopic,
    DeletePartitionResult,
    DeleteResult,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)
from pylog_broker.kafka.generated.initialize_share_group_state import (
    InitializedPartition,
    InitializedTopic,
    InitializePartitionResult,
    InitializeResult,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from pylog_broker.kafka.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResult,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResult,
)
from pylog_broker.kafka.generated.read_share_group_state import (
    ReadPartition,
    ReadPartitionResult,
    ReadResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateBatch,
    ReadTopic,
)
from pylog_broker.kafka.generated.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    SummarizedPartition,
    SummarizedTopic,
    SummaryPartitionResult,
    SummaryResult,
)
from pylog_broker.kafka.generated.write_share_group_state import (
    WritePartitionResult,
    WriteResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WrittenPartition,
    WrittenStateBatch,
    WrittenTopic,
)
from pylog_broker.metadata.messages import failure_of
from pylog_broker.replication.offset_messages import OffsetAnswer, OffsetQuery
from pylog_broker.share.persisted import (
    SUMMARY_OF_ANY_LEADER,
    InitializeState,
    ReadState,
    StateRead,
    StateSummary,
    WriteState,
)
from pylog_broker.share.record_states import RecordState, StateBatch
from pylog_broker.share.sessions import SharePartitionKey


def _row(module: Any, name: str, version: int) -> BrokerApi[Any, Any]:
    return BrokerApi(
        module.KEY,
        f"{name}OfBroker",
        version,
        module.encode_request,
        module.decode_request,
        module.encode_response,
        module.decode_response,
    )


INITIALIZE_STATE: Final = _row(initialize_share_group_state, "InitializeShareGroupState", 0)
READ_STATE: Final = _row(read_share_group_state, "ReadShareGroupState", 0)
WRITE_STATE: Final = _row(write_share_group_state, "WriteShareGroupState", 1)
DELETE_STATE: Final = _row(delete_share_group_state, "DeleteShareGroupState", 0)
READ_STATE_SUMMARY: Final = _row(read_share_group_state_summary, "ReadShareGroupStateSummary", 1)
LIST_OFFSETS: Final = _row(list_offsets, "ListOffsets", 8)

_CONSUMER: Final = -1
_STATES: Final = {state.value: state for state in RecordState}


class ShareStates(Protocol):
    """The share coordinator, wherever it is. Each raises what `ShareCoordinator` raises, and what
    reaching it does.
    """

    async def initialize(self, request: InitializeState) -> None:
        """There is state."""

    async def read(self, request: ReadState) -> StateRead:
        """The state with which a leader begins."""

    async def write(self, request: WriteState) -> None:
        """It is there."""

    async def delete(self, key: SharePartitionKey) -> None:
        """There is no state."""

    async def summary(self, key: SharePartitionKey) -> StateSummary:
        """The progress of the group."""


Ask = Callable[[BrokerApi[Any, Any], Any], Awaitable[Any]]
"""Calls one other broker."""


class RemoteShareStates:
    """The share coordinator on another broker. A `ShareStates`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def initialize(self, request: InitializeState) -> None:
        """See `ShareStates`."""
        group_id, topic, partition = _wire(request.key)
        wanted = InitializedPartition(partition, request.state_epoch, request.start_offset)
        topics = [InitializedTopic(topic, [wanted])]
        await self._call(INITIALIZE_STATE, InitializeShareGroupStateRequest(group_id, topics))

    async def read(self, request: ReadState) -> StateRead:
        """See `ShareStates`."""
        group_id, topic, partition = _wire(request.key)
        topics = [ReadTopic(topic, [ReadPartition(partition, request.leader_epoch)])]
        found = await self._call(READ_STATE, ReadShareGroupStateRequest(group_id, topics))
        batches = tuple(_batch(each) for each in found.state_batches)
        return StateRead(found.state_epoch, found.start_offset, batches)

    async def write(self, request: WriteState) -> None:
        """See `ShareStates`."""
        group_id, topic, partition = _wire(request.key)
        batches = [
            WrittenStateBatch(each.first_offset, each.last_offset, each.state.value, each[3])
            for each in request.batches
        ]
        written = WrittenPartition(
            partition,
            request.state_epoch,
            request.leader_epoch,
            request.start_offset,
            request.delivery_complete_count,
            batches,
        )
        topics = [WrittenTopic(topic, [written])]
        await self._call(WRITE_STATE, WriteShareGroupStateRequest(group_id, topics))

    async def delete(self, key: SharePartitionKey) -> None:
        """See `ShareStates`."""
        group_id, topic, partition = _wire(key)
        topics = [DeletedTopic(topic, [DeletedPartition(partition)])]
        await self._call(DELETE_STATE, DeleteShareGroupStateRequest(group_id, topics))

    async def summary(self, key: SharePartitionKey) -> StateSummary:
        """See `ShareStates`."""
        group_id, topic, partition = _wire(key)
        wanted = SummarizedPartition(partition, SUMMARY_OF_ANY_LEADER)
        request = ReadShareGroupStateSummaryRequest(group_id, [SummarizedTopic(topic, [wanted])])
        found = await self._call(READ_STATE_SUMMARY, request)
        return StateSummary(
            found.state_epoch,
            found.leader_epoch,
            found.start_offset,
            found.delivery_complete_count,
        )

    async def _call(self, api: BrokerApi[Any, Any], request: Any) -> Any:
        response = await self._ask(api, request)
        found = [each for result in response.results for each in result.partitions]
        if len(found) != 1:
            raise errors.UnknownServerError(f"{api.counted_as}: {len(found)} answers for one")
        if found[0].error_code:
            raise errors.from_code(found[0].error_code, found[0].error_message or "")
        return found[0]


def _wire(key: SharePartitionKey) -> tuple[str, bytes, int]:
    return key.group_id, topic_id_to_bytes(key.topic_id), key.partition


def _batch(each: ReadStateBatch | WrittenStateBatch) -> StateBatch:
    state = _STATES.get(each.delivery_state)
    if state is None or state is RecordState.ACQUIRED:
        raise InvalidRequest(f"delivery_state {each.delivery_state} means nothing")
    return StateBatch(each.first_offset, each.last_offset, state, each.delivery_count)


# ---- to answer -----------------------------------------------------------------------------------


def share_state_apis(states: ShareStates) -> list[AnyBoundBrokerApi]:
    """A broker's answers for the partitions of `__share_group_state` that it leads."""
    handlers = _Handlers(states)
    return [
        _bound(INITIALIZE_STATE, handlers.initialize, _initialize_results),
        _bound(READ_STATE, handlers.read, _read_results),
        _bound(WRITE_STATE, handlers.write, _write_results),
        _bound(DELETE_STATE, handlers.delete, _delete_results),
        _bound(READ_STATE_SUMMARY, handlers.summary, _summary_results),
    ]


Results = Callable[[Iterable[tuple[bytes, Any]]], Any]
"""Makes a response of results by topic."""
One = Callable[[SharePartitionKey, Any], Awaitable[Any]]


def _bound(api: BrokerApi[Any, Any], one: One, results: Results) -> AnyBoundBrokerApi:
    result_type = _RESULTS[api.key]

    def failed(partition: int, error: PylogError) -> Any:
        made = result_type(partition)
        failure = failure_of(error)
        assert failure is not None
        made.error_code, made.error_message = failure.code, failure.message
        return made

    async def handle(_context: RequestContext, request: Any) -> Any:
        found = []
        for topic in request.topics:
            for each in topic.partitions:
                topic_id = topic_id_from_bytes(topic.topic_id)
                key = SharePartitionKey(request.group_id, topic_id, each.partition)
                try:
                    found.append((topic.topic_id, await one(key, each)))
                except PylogError as error:
                    found.append((topic.topic_id, failed(each.partition, error)))
        return results(found)

    def refused(request: Any, error: PylogError) -> Any:
        return results(
            (topic.topic_id, failed(each.partition, error))
            for topic in request.topics
            for each in topic.partitions
        )

    return BoundBrokerApi(api, handle, refused)


class _Handlers:
    """The handlers of calls about share state, each for one partition."""

    def __init__(self, states: ShareStates) -> None:
        self._states = states

    async def initialize(
        self, key: SharePartitionKey, asked: InitializedPartition
    ) -> InitializePartitionResult:
        await self._states.initialize(InitializeState(key, asked.state_epoch, asked.start_offset))
        return InitializePartitionResult(key.partition)

    async def read(self, key: SharePartitionKey, asked: ReadPartition) -> ReadPartitionResult:
        found = await self._states.read(ReadState(key, asked.leader_epoch))
        batches = [
            ReadStateBatch(each.first_offset, each.last_offset, each.state.value, each[3])
            for each in found.batches
        ]
        return ReadPartitionResult(
            key.partition,
            state_epoch=found.state_epoch,
            start_offset=found.start_offset,
            state_batches=batches,
        )

    async def write(self, key: SharePartitionKey, asked: WrittenPartition) -> WritePartitionResult:
        batches = tuple(_batch(each) for each in asked.state_batches)
        await self._states.write(
            WriteState(
                key,
                asked.state_epoch,
                asked.leader_epoch,
                asked.start_offset,
                asked.delivery_complete_count,
                batches,
            )
        )
        return WritePartitionResult(key.partition)

    async def delete(self, key: SharePartitionKey, _: DeletedPartition) -> DeletePartitionResult:
        await self._states.delete(key)
        return DeletePartitionResult(key.partition)

    async def summary(
        self, key: SharePartitionKey, _: SummarizedPartition
    ) -> SummaryPartitionResult:
        found = await self._states.summary(key)
        return SummaryPartitionResult(
            key.partition,
            state_epoch=found.state_epoch,
            leader_epoch=found.leader_epoch,
            start_offset=found.start_offset,
            delivery_complete_count=found.delivery_complete_count,
        )


_RESULTS: Final[dict[int, type[Any]]] = {
    INITIALIZE_STATE.key: InitializePartitionResult,
    READ_STATE.key: ReadPartitionResult,
    WRITE_STATE.key: WritePartitionResult,
    DELETE_STATE.key: DeletePartitionResult,
    READ_STATE_SUMMARY.key: SummaryPartitionResult,
}


def _by_topic(found: Iterable[tuple[bytes, Any]], result: Callable[..., Any]) -> list[Any]:
    by_topic: dict[bytes, list[Any]] = {}
    for topic_id, each in found:
        by_topic.setdefault(topic_id, []).append(each)
    return [result(topic_id, partitions) for topic_id, partitions in by_topic.items()]


def _initialize_results(found: Iterable[tuple[bytes, Any]]) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse(_by_topic(found, InitializeResult))


def _read_results(found: Iterable[tuple[bytes, Any]]) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(_by_topic(found, ReadResult))


def _write_results(found: Iterable[tuple[bytes, Any]]) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(_by_topic(found, WriteResult))


def _delete_results(found: Iterable[tuple[bytes, Any]]) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse(_by_topic(found, DeleteResult))


def _summary_results(found: Iterable[tuple[bytes, Any]]) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(_by_topic(found, SummaryResult))


# ---- where logs end ------------------------------------------------------------------------------

ListOffsets = Callable[[list[OffsetQuery]], Awaitable[Iterable[OffsetAnswer]]]


def list_offsets_api(answer: ListOffsets) -> AnyBoundBrokerApi:
    """A broker's answers about the partitions that it leads."""

    async def handle(_context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
        queries = [
            OffsetQuery(
                TopicPartition(topic.name, each.partition_index),
                each.timestamp,
                LeaderEpoch(each.current_leader_epoch),
                bool(request.isolation_level),
            )
            for topic in request.topics
            for each in topic.partitions
        ]
        return _listed(await answer(queries))

    def refused(request: ListOffsetsRequest, error: PylogError) -> ListOffsetsResponse:
        failure = failure_of(error)
        return _listed(
            OffsetAnswer(TopicPartition(topic.name, each.partition_index), failure)
            for topic in request.topics
            for each in topic.partitions
        )

    return BoundBrokerApi(LIST_OFFSETS, handle, refused)


def _listed(answers: Iterable[OffsetAnswer]) -> ListOffsetsResponse:
    topics: dict[str, list[ListOffsetsPartitionResult]] = {}
    for each in answers:
        code = 0 if each.failure is None else each.failure.code
        topics.setdefault(each.topic_partition.topic, []).append(
            ListOffsetsPartitionResult(
                each.topic_partition.partition,
                code,
                each.timestamp_ms,
                each.offset,
                each.leader_epoch,
            )
        )
    return ListOffsetsResponse(0, [ListOffsetsTopicResult(*entry) for entry in topics.items()])


async def remote_offset(ask: Ask, query: OffsetQuery) -> Offset:
    """The answer of another broker, of one partition. Raises what it fails with."""
    name = query.topic_partition
    asked = ListOffsetsPartition(name.partition, query.current_leader_epoch, query.timestamp_ms)
    topics = [ListOffsetsTopic(name.topic, [asked])]
    request = ListOffsetsRequest(_CONSUMER, int(query.read_committed), topics)
    response = cast(ListOffsetsResponse, await ask(LIST_OFFSETS, request))
    found = [each for topic in response.topics for each in topic.partitions]
    if len(found) != 1:
        raise errors.UnknownServerError(f"ListOffsets: {len(found)} answers for one")
    if found[0].error_code:
        raise errors.from_code(found[0].error_code, f"{name}: its leader refused")
    return Offset(found[0].offset)
