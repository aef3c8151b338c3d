"""FindCoordinator: which broker coordinates a group, or a transactional id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from pylog.errors import CoordinatorNotAvailable, InvalidRequest, PylogError
from pylog.model import CONSUMER_OFFSETS, BrokerId
from pylog_broker.api.context import RequestContext
from pylog_broker.api.groups.names import check_group_id
from pylog_broker.api.limits import check_items
from pylog_broker.api.transactional_ids import check_transactional_id, partition_of
from pylog_broker.controller.settings import SHARE_GROUP_STATE, TRANSACTION_STATE
from pylog_broker.coordinator.runtime.runtime import partition_for
from pylog_broker.metadata.image import MetadataImage, TopicImage
from pylog_broker.metadata.messages import Failure, InternalTopicEnsured, failure_of

NO_BROKER: Final = BrokerId(-1)


class CoordinatorType(Enum):
    """The kinds of keys that a coordinator is responsible for."""

    GROUP = "group"
    TRANSACTION = "transaction"
    SHARE = "share"


_TOPICS: Final[Mapping[CoordinatorType, str]] = {
    CoordinatorType.GROUP: CONSUMER_OFFSETS,
    CoordinatorType.TRANSACTION: TRANSACTION_STATE,
    CoordinatorType.SHARE: SHARE_GROUP_STATE,
}
"""The internal topic of each: the leader of a key's partition coordinates the key."""

Ensure = Callable[[str], Awaitable[InternalTopicEnsured | Failure]]
"""Have the internal topic of that name made where it is not there."""


class FindCoordinators(NamedTuple):
    """A request for the coordinators of groups, of transactional ids, or of share state. A key of
    share state is group id, topic id and partition, with colons between them.
    """

    type: CoordinatorType
    keys: tuple[str, ...]


class FoundCoordinator(NamedTuple):
    """With a failure there is no broker."""

    key: str
    broker_id: BrokerId = NO_BROKER
    failure: Failure | None = None


class FindCoordinatorHandler:
    """Finds coordinators for the clients of a broker. Lives on the broker's loop."""

    def __init__(self, image: Callable[[], MetadataImage], ensure: Ensure) -> None:
        self._image = image
        self._ensure = ensure

    async def handle(
        self, _context: RequestContext, request: FindCoordinators
    ) -> list[FoundCoordinator]:
        """The coordinators, in the order of the keys, as far as this process has heard;
        COORDINATOR_NOT_AVAILABLE where there is none at the moment.

        Raises InvalidRequest for too many keys.
        """
        check_items(len(request.keys), "keys")
        name = _TOPICS[request.type]
        topic = self._image().topics_by_name.get(name)
        if topic is None:
            ensured = await self._ensure(name)
            topic = self._image().topics_by_name.get(name)
            if topic is None:
                return self._not_yet(request.keys, name, ensured)
        return [self._find(request.type, topic, key) for key in request.keys]

    def _not_yet(
        self, keys: Sequence[str], name: str, ensured: InternalTopicEnsured | Failure
    ) -> list[FoundCoordinator]:
        why = (
            ensured.message
            if isinstance(ensured, Failure)
            else f"{name} has just been made; ask again"
        )
        failure = Failure(CoordinatorNotAvailable.code, why)
        return [FoundCoordinator(key, NO_BROKER, failure) for key in keys]

    def _find(self, kind: CoordinatorType, topic: TopicImage, key: str) -> FoundCoordinator:
        try:
            if kind is CoordinatorType.TRANSACTION:
                check_transactional_id(key)
            elif kind is CoordinatorType.SHARE:
                _check_share_key(key)
            else:
                # Kafka takes a group without a name: very old consumers committed in it.
                check_group_id(key, may_be_empty=True)
            place = partition_of if kind is CoordinatorType.TRANSACTION else partition_for
            return FoundCoordinator(key, self._leader(topic, key, place))
        except PylogError as error:
            return FoundCoordinator(key, NO_BROKER, failure_of(error))

    def _leader(self, topic: TopicImage, key: str, place: Callable[[str, int], int]) -> BrokerId:
        number = place(key, len(topic.partitions))
        leader = topic.partitions[number].leader
        broker = self._image().brokers.get(leader)
        if broker is None or broker.fenced:
            raise CoordinatorNotAvailable(
                f"{topic.name}-{number}, which has {key!r}, has no leader at the moment"
            )
        return leader


def _check_share_key(key: str) -> None:
    """Raises InvalidRequest and InvalidGroupId."""
    parts = key.rsplit(":", 2)
    if len(parts) != 3 or not parts[1] or not (parts[2].isascii() and parts[2].isdigit()):
        raise InvalidRequest(
            f"{key[:80]!r} is no partition of a share group: group id:topic id:partition"
        )
    check_group_id(parts[0])
