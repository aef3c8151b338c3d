"""StreamsGroupHeartbeat and StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from pylog.errors import InvalidRequest, PylogError, StreamsInvalidTopology
from pylog.model import CONSUMER_OFFSETS, NewTopic, topic_name_fault
from pylog_broker.api.context import RequestContext
from pylog_broker.api.coordinators import GroupCoordinators, GroupOperation
from pylog_broker.api.groups.group_admin import each_of
from pylog_broker.api.groups.names import check_group_id, check_names, check_size
from pylog_broker.api.limits import TOPICS_PER_REQUEST_MAX, check_partitions
from pylog_broker.controller.settings import SHARE_GROUP_STATE, TRANSACTION_STATE
from pylog_broker.coordinator.generated.streams_group_topology import (
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)
from pylog_broker.coordinator.groups.streams.messages import (
    DescribedStreamsGroup,
    StatusCode,
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
)
from pylog_broker.metadata.messages import Failure, failure_of

INTERNAL: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
SUBTOPOLOGIES_MAX: Final = 1_000
CLIENT_TAGS_MAX: Final = 100
REPLICAS_MAX: Final = 2**15 - 1
TOPOLOGY_BYTES_MAX: Final = 512 * 1024
"""The most bytes of a topology: all its texts, and four bytes for each number. Its record is one
append."""


class InternalTopicMaker(Protocol):
    """Has the controller create internal topics."""

    def create(self, topics: Iterable[NewTopic]) -> None:
        """Have these created, in time."""

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """The reasons why topics of these could not be created, of those that have been tried."""


class DescribedStreams(NamedTuple):
    """A group by its name, or why it is not described."""

    group_id: str
    failure: Failure | None = None
    described: DescribedStreamsGroup | None = None


class StreamsHandler:
    """Lives on the broker's loop."""

    def __init__(
        self,
        coordinators: GroupCoordinators,
        topics: InternalTopicMaker,
        *,
        commit_timeout_ms: int,
    ) -> None:
        self._coordinators = coordinators
        self._topics = topics
        self._commit_timeout_ms = commit_timeout_ms

    async def heartbeat(
        self, context: RequestContext, request: StreamsHeartbeat
    ) -> StreamsHeartbeatAnswer:
        """The member's epoch and tasks from now on. The broker asks the controller for internal
        topics that are missing, and the status says why one could not be created. Raises
        InvalidGroupId, InvalidRequest, StreamsInvalidTopology, and what `StreamsProtocol.heartbeat`
        raises.
        """
        _check(request)
        wanted = request._replace(client_id=context.client_id, client_host=context.address)
        answer: StreamsHeartbeatAnswer = await self._call(
            request.group_id,
            lambda shard, number, _wall_ms: shard.streams_heartbeat(number, wanted),
        )
        if not answer.to_create:
            return answer
        self._topics.create(map(_new_topic, answer.to_create))
        failures = self._topics.failures(topic.name for topic in answer.to_create)
        return _with_failures(answer, failures) if failures else answer

    async def describe(
        self, _context: RequestContext, group_ids: Sequence[str]
    ) -> list[DescribedStreams]:
        """Streams groups; each with its own failure, GROUP_ID_NOT_FOUND where there is none of that
        type. Raises InvalidRequest for too many.
        """

        async def one(group_id: str) -> DescribedStreams:
            try:
                check_group_id(group_id)
                described = await self._call(
                    group_id, lambda shard, number, _: shard.describe_streams(number, group_id)
                )
            except PylogError as error:
                return DescribedStreams(group_id, failure_of(error))
            return DescribedStreams(group_id, None, described)

        return await each_of(group_ids, one)

    async def _call(self, group_id: str, operation: GroupOperation) -> Any:
        timeout_ms = self._commit_timeout_ms
        return await self._coordinators.call(group_id, operation, timeout_ms=timeout_ms)


def _new_topic(topic: TopicInfo) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.partitions,
        topic.replication_factor or -1,
        config={each.key: each.value for each in topic.topic_configs} or None,
    )


def _with_failures(
    answer: StreamsHeartbeatAnswer, failures: dict[str, str]
) -> StreamsHeartbeatAnswer:
    words = ", ".join(f"{name} ({why})" for name, why in sorted(failures.items()))
    return answer._replace(
        status=tuple(
            each._replace(detail=f"{each.detail}; Creation failed: {words}.")
            if each.code is StatusCode.MISSING_INTERNAL_TOPICS
            else each
            for each in answer.status
        )
    )


def _check(request: StreamsHeartbeat) -> None:
    if not request.group_id:
        raise InvalidRequest("group_id is empty")  # Kafka's code for it in this request
    check_group_id(request.group_id)
    check_names(
        member_id=request.member_id,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        process_id=request.process_id,
        user_endpoint=request.endpoint.host if request.endpoint is not None else None,
    )
    tags = request.client_tags or ()
    if len(tags) > CLIENT_TAGS_MAX:
        raise InvalidRequest(f"{len(tags)} client_tags; the limit is {CLIENT_TAGS_MAX}")
    for key, value in tags:
        check_names(client_tags=key)
        check_names(client_tags=value)
    if request.owned is not None:
        check_partitions(sum(1 for _ in request.owned.all()))
    if request.topology is not None:
        _check_topology(request.topology)


def _check_topology(topology: StreamsGroupTopologyValue) -> None:
    subtopologies = topology.subtopologies
    if len(subtopologies) > SUBTOPOLOGIES_MAX:
        raise InvalidRequest(
            f"{len(subtopologies)} subtopologies; the limit is {SUBTOPOLOGIES_MAX}"
        )
    check_size("topology", sum(map(_size_of, subtopologies)), TOPOLOGY_BYTES_MAX)
    names = list(dict.fromkeys(name for each in subtopologies for name in _topics_of(each)))
    if len(names) > TOPICS_PER_REQUEST_MAX:
        raise InvalidRequest(
            f"{len(names)} topics in one request; the limit is {TOPICS_PER_REQUEST_MAX}"
        )
    for each in subtopologies:
        check_names(subtopology_id=each.subtopology_id)
        _check_numbers(each)
    if internal := [name for name in names if name in INTERNAL]:
        raise StreamsInvalidTopology(
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is "
            "prohibited."
        )
    if wrong := [name for name in names if topic_name_fault(name)]:
        shown = ",".join(name[:80] for name in wrong[:10])
        raise StreamsInvalidTopology(f"Topic names {shown} are not valid topic names.")


def _check_numbers(subtopology: Subtopology) -> None:
    """Refuse numbers that the topology's record cannot hold, or that name no topic."""
    for topic in _internal_topics(subtopology):
        if not 0 <= topic.replication_factor <= REPLICAS_MAX:
            raise StreamsInvalidTopology(
                f"topic {topic.name}: replication_factor={topic.replication_factor} is not from 0 "
                f"to {REPLICAS_MAX}"
            )
    lists = (
        len(subtopology.source_topics),
        len(subtopology.source_topic_regex),
        len(subtopology.repartition_source_topics),
    )
    for group in subtopology.copartition_groups:
        for numbers, count in zip(group, lists, strict=True):
            if any(not 0 <= number < min(count, REPLICAS_MAX) for number in numbers):
                raise StreamsInvalidTopology(
                    f"a copartition group of subtopology {subtopology.subtopology_id!r} names a "
                    "topic by a number that the subtopology does not have"
                )


def _internal_topics(subtopology: Subtopology) -> tuple[TopicInfo, ...]:
    return (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)


def _topics_of(subtopology: Subtopology) -> Iterable[str]:
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from (topic.name for topic in _internal_topics(subtopology))


def _size_of(subtopology: Subtopology) -> int:
    texts = [
        subtopology.subtopology_id,
        *subtopology.source_topics,
        *subtopology.source_topic_regex,
        *subtopology.repartition_sink_topics,
    ]
    for topic in _internal_topics(subtopology):
        texts.append(topic.name)
        for config in topic.topic_configs:
            texts += config
    numbers = 2 * len(texts)
    for group in subtopology.copartition_groups:
        numbers += 3 + sum(map(len, group))
    return sum(len(text.encode()) for text in texts) + 4 * numbers
