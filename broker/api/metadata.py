"""Metadata: brokers, topics, and what leads where, as far as this process has heard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pylog import errors
from pylog.model import NO_LEADER, BrokerId, TopicId, is_internal, topic_name_fault
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import TOPICS_PER_REQUEST_MAX
from pylog_broker.metadata.image import BrokerRegistration, MetadataImage, TopicImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import Endpoint, PartitionRecord

VIEWS_KEPT_MAX: Final = 16
"""Different queries whose views are kept while nothing changes."""


class MetadataQuery(NamedTuple):
    """The topics that a client asks for, by name and by id; or all of them."""

    topics: tuple[str, ...] = ()
    topic_ids: tuple[str, ...] = ()
    all_topics: bool = False
    fenced_brokers: bool = False


class PartitionView(NamedTuple):
    """`offline`: replicas that do not serve. `failure`: of one without a leader."""

    record: PartitionRecord
    offline: Sequence[BrokerId]
    failure: Failure | None


class TopicView(NamedTuple):
    """One topic; or an asked one that is not there, with a failure and the name or id asked."""

    name: str
    topic_id: str
    failure: Failure | None = None
    is_internal: bool = False
    partitions: Sequence[PartitionView] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class ClusterView:
    """`brokers`: those that serve, `fenced_brokers`: the others, where they were last (empty when
    not asked for); both ascending by id. `controller`: the gateway beside it. `is_gateway`: whether
    the gateway itself tells this. `controller_since_ms`: when the controller's epoch began, by the
    time of day, 0 when it is not known. `metadata_offset`: what this process has applied.
    """

    cluster_id: str
    controller_epoch: int
    metadata_offset: int
    brokers: Sequence[BrokerRegistration]
    fenced_brokers: Sequence[BrokerRegistration]
    controller: Endpoint | None
    topics: Sequence[TopicView]
    is_gateway: bool
    controller_since_ms: int


class MetadataHandler:
    """The metadata API of a broker or the gateway. Lives on its loop.

    Members of a group ask alike, and all of them at once when the group begins or a topic changes:
    they are given one view, which edges may keep what they make of.
    """

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        controller: Callable[[], Endpoint | None],
        *,
        is_gateway: bool = False,
    ) -> None:
        self._image = image
        self._controller = controller
        self._is_gateway = is_gateway
        self._seen: tuple[int, int, Endpoint | None] | None = None
        self._views: dict[MetadataQuery, ClusterView] = {}

    async def handle(self, _context: RequestContext, query: MetadataQuery) -> ClusterView:
        """The topics that the query asks for, each unknown topic with its own failure; equal
        queries get the same object while nothing has changed. Raises InvalidRequest when it is too
        much.
        """
        image, controller = self._image(), self._controller()
        seen = id(image), image.offset, controller
        if self._seen != seen:
            self._seen = seen
            self._views.clear()
        found = self._views.get(query)
        if found is None:
            found = view(image, query, controller, is_gateway=self._is_gateway)
            if len(self._views) >= VIEWS_KEPT_MAX:
                self._views.clear()
            self._views[query] = found
        return found


def view(
    image: MetadataImage,
    query: MetadataQuery,
    controller: Endpoint | None,
    *,
    is_gateway: bool = False,
) -> ClusterView:
    """The part of the image that was asked for; InvalidRequest when that is too much."""
    asked = len(query.topics) + len(query.topic_ids)
    if asked > TOPICS_PER_REQUEST_MAX:
        raise errors.InvalidRequest(
            f"{asked} topics in one request; the limit is {TOPICS_PER_REQUEST_MAX}"
        )
    return ClusterView(
        image.cluster_id,
        image.controller_epoch,
        image.offset,
        brokers_of(image, fenced=False),
        brokers_of(image, fenced=True) if query.fenced_brokers else (),
        controller,
        [*_topics(image, query)],
        is_gateway,
        image.controller_since_ms,
    )


def brokers_of(image: MetadataImage, *, fenced: bool) -> list[BrokerRegistration]:
    """The brokers that serve: registered and not fenced, ascending by id; or those that are fenced.
    One that stops in order serves until its leaders have moved.
    """
    return [broker for _, broker in sorted(image.brokers.items()) if broker.fenced == fenced]


def _topics(image: MetadataImage, query: MetadataQuery) -> Iterator[TopicView]:
    if query.all_topics:
        for name in sorted(image.topics_by_name):
            yield _topic(image, image.topics_by_name[name])
        return
    for name in dict.fromkeys(query.topics):  # a large topic named often would be a large answer
        topic = image.topics_by_name.get(name)
        if topic is not None:
            yield _topic(image, topic)
            continue
        fault = topic_name_fault(name)
        failure = (
            Failure(errors.InvalidTopic.code, fault)
            if fault
            else Failure(errors.UnknownTopicOrPartition.code, f"topic {name} does not exist")
        )
        yield TopicView(name, "", failure)
    for topic_id in dict.fromkeys(query.topic_ids):
        topic = image.topics_by_id.get(TopicId(topic_id))
        if topic is not None:
            yield _topic(image, topic)
            continue
        failure = Failure(errors.UnknownTopicId.code, f"there is no topic with id {topic_id[:64]}")
        yield TopicView("", topic_id, failure)


def _topic(image: MetadataImage, topic: TopicImage) -> TopicView:
    return TopicView(
        topic.name,
        topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[
            _partition(image, topic.name, topic.partitions[number])
            for number in sorted(topic.partitions)
        ],
    )


def _partition(image: MetadataImage, topic: str, record: PartitionRecord) -> PartitionView:
    failure = None
    if record.leader == NO_LEADER:
        failure = Failure(
            errors.LeaderNotAvailable.code,
            f"{topic}-{record.partition} has no leader: none of its in-sync replicas "
            f"{list(record.isr or record.eligible_leader_replicas)} is live",
        )
    offline = [
        broker
        for broker in record.replicas
        if broker not in image.brokers
        or image.brokers[broker].fenced
        or broker in record.failed_replicas
    ]
    return PartitionView(record, offline, failure)
