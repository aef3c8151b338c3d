"""`AdminClient`: topics, records and the cluster, by synchronous calls.

Topic calls go to the gateway, which metadata names; what a broker can answer is asked of brokers,
so that it works while the controller is away.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pylog import errors
from pylog.client.background import close_at_exit, shared_loop
from pylog.client.cluster import UNKNOWN_TOPIC_GRACE_MS, Cluster, ClusterSettings, Server
from pylog.client.metadata import Address, BrokerInfo, ClusterSnapshot, TopicInfo
from pylog.client.not_offered import ADMIN_NOT_OFFERED, refuse_later
from pylog.client.offsets import delete_records, list_offsets, raise_faults
from pylog.client.settings import ADMIN_SETTINGS
from pylog.client.subscription import one_partition
from pylog.client.wire import error_of, metadata_request, snapshot_of
from pylog.clock import SYSTEM_CLOCK
from pylog.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    NO_LEADER,
    BrokerDescription,
    ClusterDescription,
    NewTopic,
    OffsetAndTimestamp,
    PartitionDescription,
    TopicDescription,
    TopicPartition,
    topic_name_fault,
)
from pylog.rpc.v1 import admin_pb2, log_pb2

T = TypeVar("T")

OFFSET_SPECS: Final = {
    "earliest": EARLIEST_TIMESTAMP,
    "latest": LATEST_TIMESTAMP,
    "max_timestamp": MAX_TIMESTAMP,
}


class AdminClient:
    """Administers a cluster. Thread safe.

    Each call takes `timeout` in seconds (None: `default_api_timeout_ms`). For several items that do
    not all succeed it raises PartialFailure, which holds the result or the error of each; for one
    item, the error itself.
    """

    def __init__(self, *, bootstrap_servers: str | Iterable[str], **config: Any) -> None:
        bootstrap = (
            bootstrap_servers if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
        )
        values = ADMIN_SETTINGS.parse({"bootstrap_servers": bootstrap, **config})
        self._timeout_ms: int = values["default.api.timeout.ms"]
        self._closed = False
        self._thread = shared_loop()
        self._cluster = Cluster(
            self._thread,
            ClusterSettings.of(values),
            clock=SYSTEM_CLOCK,
            rng=random.Random(),
        )
        close_at_exit(self)

    # ---- topics -------------------------------------------------------------------------------

    def create_topics(
        self,
        topics: NewTopic | Iterable[NewTopic],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> dict[str, str]:
        """The new topics' ids by name, once every partition has a leader that the live brokers
        know of.
        """
        wanted = [topics] if isinstance(topics, NewTopic) else list(topics)
        request = admin_pb2.CreateTopicsRequest(validate_only=validate_only)
        for topic in wanted:
            _check_name(topic.name)
            request.topics.append(_new_topic(topic))
        timeout_ms = self._milliseconds(timeout)

        async def attempt(left_s: float) -> admin_pb2.CreateTopicsResponse:
            request.timeout_ms = int(left_s * 1000)
            server = await self._gateway()
            return await server.call(server.admin.CreateTopics, request, left_s)

        response = self._retry(attempt, timeout_ms, "create topics")
        return _outcome((t.name, t.error, t.topic_id) for t in response.topics)

    def delete_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, str]:
        """The deleted topics' ids by name. Their names are free again at once."""
        names = [topics] if isinstance(topics, str) else list(topics)
        for name in names:
            _check_name(name)
        request = admin_pb2.DeleteTopicsRequest(names=names)
        timeout_ms = self._milliseconds(timeout)

        async def attempt(left_s: float) -> admin_pb2.DeleteTopicsResponse:
            request.timeout_ms = int(left_s * 1000)
            server = await self._gateway()
            return await server.call(server.admin.DeleteTopics, request, left_s)

        response = self._retry(attempt, timeout_ms, "delete topics")
        for name in names:
            self._cluster.metadata.forget_topic(name)
            self._cluster.topics.pop(name, None)
        return _outcome((t.name, t.error, t.topic_id) for t in response.topics)

    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> list[str]:
        """All topics' names, sorted; internal ones only when asked for."""
        snapshot = self._snapshot((), all_topics=True, timeout_ms=self._milliseconds(timeout))
        return sorted(t.name for t in snapshot.topics if internal or not t.internal)

    def describe_topics(
        self, topics: str | Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Topics with leader and replicas of each partition; None given: all that are not
        internal.
        """
        timeout_ms = self._milliseconds(timeout)
        if topics is None:
            snapshot = self._snapshot((), all_topics=True, timeout_ms=timeout_ms)
            found = [t for t in snapshot.topics if not t.internal]
        else:
            names = [topics] if isinstance(topics, str) else list(topics)
            for name in names:
                _check_name(name)
            found = self._described(names, timeout_ms)
        faults = {t.name: t.error for t in found if t.error is not None}
        results = {t.name: _description(t) for t in found if t.error is None}
        raise_faults(results, faults)
        return results

    def _described(self, names: list[str], timeout_ms: int) -> list[TopicInfo]:
        """As told by any broker; one that was started a moment ago may not know a topic yet, so a
        denial counts when it is repeated.
        """
        clock = self._cluster.clock
        until = clock.monotonic_ms() + min(timeout_ms, UNKNOWN_TOPIC_GRACE_MS)
        while True:
            snapshot = self._snapshot(names, all_topics=False, timeout_ms=timeout_ms)
            passing = [t for t in snapshot.topics if t.error is not None and t.error.retriable]
            if not passing or clock.monotonic_ms() >= until:
                return list(snapshot.topics)
            clock.sleep(0.1)

    # ---- records ------------------------------------------------------------------------------

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, str | int],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Each partition's offset: 'earliest', 'latest', 'max_timestamp', or that of the first
        record at or after a time in milliseconds; None where no record is that late.
        """
        wanted = {}
        for given, spec in partitions.items():
            tp = one_partition(given)
            timestamp = OFFSET_SPECS.get(spec) if isinstance(spec, str) else spec
            if timestamp is None or (timestamp < 0 and not isinstance(spec, str)):
                raise errors.InvalidRequest(
                    f"{tp}: {spec!r} is not one of {', '.join(OFFSET_SPECS)}, or milliseconds "
                    f"since 1970"
                )
            wanted[tp] = timestamp
        timeout_ms = self._milliseconds(timeout)
        listing, faults = self._run(list_offsets(self._cluster, wanted, timeout_ms))
        raise_faults(listing, faults)
        return {tp: listing[tp] for tp in wanted}

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Remove all records before each offset (-1: all that are readable); the low watermarks."""
        wanted = {}
        for given, offset in offsets.items():
            tp = one_partition(given)
            if not isinstance(offset, int) or offset < -1:
                raise errors.OffsetOutOfRange(
                    f"{tp}: delete_records up to {offset!r}; it must be an offset, or -1 for all"
                )
            wanted[tp] = offset
        timeout_ms = self._milliseconds(timeout)
        results, faults = self._run(delete_records(self._cluster, wanted, timeout_ms))
        raise_faults(results, faults)
        return {tp: results[tp] for tp in wanted}

    # ---- cluster ------------------------------------------------------------------------------

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The cluster's id, its controller's epoch, and the live brokers in the order of ids."""
        snapshot = self._snapshot((), all_topics=False, timeout_ms=self._milliseconds(timeout))
        return ClusterDescription(
            snapshot.cluster_id,
            snapshot.controller_epoch,
            tuple(_broker(b) for b in sorted(snapshot.brokers, key=lambda b: b.id)),
        )

    # ---- the rest -----------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of connections."""
        if self._closed:
            return
        self._closed = True
        closing = self._thread.start(self._cluster.close())
        if not self._thread.is_current():
            closing.result()

    def close_at_exit(self) -> None:
        """The interpreter ends without a `close()`."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            return refuse_later("AdminClient", name, ADMIN_NOT_OFFERED)

    def _milliseconds(self, timeout: float | None) -> int:
        return self._timeout_ms if timeout is None else max(int(timeout * 1000), 0)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            coroutine.close()
            raise errors.ClientClosed("the admin client is closed")
        return self._thread.run(coroutine)

    def _retry(self, attempt: Callable[[float], Awaitable[T]], timeout_ms: int, what: str) -> T:
        return self._run(self._cluster.retrying(attempt, timeout_ms, what))

    def _snapshot(
        self, topics: Iterable[str], *, all_topics: bool, timeout_ms: int
    ) -> ClusterSnapshot:
        request = metadata_request(tuple(topics), all_topics=all_topics)

        async def attempt(_left_s: float) -> log_pb2.MetadataResponse:
            return await self._cluster.ask_any(request)

        return snapshot_of(self._retry(attempt, timeout_ms, "metadata"))

    async def _gateway(self) -> Server:
        address: Address | None = self._cluster.metadata.controller
        if address is None:
            self._cluster.refresh_soon()
            raise errors.NotController(
                "no server knows where the controller's gateway is; is the controller running?"
            )
        return self._cluster.server(address)


def _check_name(name: str) -> None:
    fault = topic_name_fault(name) if isinstance(name, str) else f"{name!r} is not a topic's name"
    if fault is not None:
        raise errors.InvalidTopic(fault)


def _new_topic(topic: NewTopic) -> admin_pb2.NewTopic:
    if topic.replica_assignment is not None and (
        topic.num_partitions not in (1, -1) or topic.replication_factor != -1
    ):
        raise errors.InvalidRequest(
            f"topic {topic.name}: replica_assignment says it all; leave num_partitions and "
            f"replication_factor out"
        )
    config = dict(topic.config or {})
    for key, value in config.items():
        if not isinstance(value, str):
            raise errors.InvalidConfig(
                f"topic {topic.name}: {key}={value!r}: configuration values are texts"
            )
    message = admin_pb2.NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        config=config,
    )
    if topic.replica_assignment is not None:
        message.num_partitions = -1
        for partition, brokers in sorted(topic.replica_assignment.items()):
            message.assignment.add(partition=partition, brokers=brokers)
    return message


def _outcome(items: Iterable[tuple[str, Any, T]]) -> dict[str, T]:
    results: dict[str, T] = {}
    faults: dict[str, errors.PylogError] = {}
    for name, error, value in items:
        fault = error_of(error, f"topic {name}")
        if fault is None:
            results[name] = value
        else:
            faults[name] = fault
    raise_faults(results, faults)
    return results


def _description(topic: TopicInfo) -> TopicDescription:
    return TopicDescription(
        topic.name,
        topic.topic_id,
        topic.internal,
        tuple(
            PartitionDescription(
                number,
                None if p.leader == NO_LEADER else p.leader,
                p.leader_epoch,
                p.replicas,
                p.isr,
                p.eligible_leader_replicas,
                p.offline_replicas,
            )
            for number, p in enumerate(topic.partitions)
        ),
    )


def _broker(broker: BrokerInfo) -> BrokerDescription:
    return BrokerDescription(
        broker.id, broker.address.host, broker.address.port, broker.rack or None, broker.epoch
    )
