"""`AdminClient`: topics, configurations, records, groups and the cluster, by synchronous calls.
Those about transactions are in `transaction_use`, those about sinks of queries in `sink_use`, those
about moving replicas in `reassignment_use`.

Topic calls go to the gateway, which metadata names; what a broker can answer is asked of brokers,
so that it works while the controller is away. Groups are asked of their coordinators.
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Literal, TypeVar, Unpack

from pylog import errors
from pylog.client.admin import admin_wire, group_admin, group_wire, share_group_admin
from pylog.client.admin.admin_types import (
    ConfigEntry,
    ConfigResource,
    GroupDescription,
    GroupListing,
    LogDirDescription,
    PartitionLag,
    SharePartitionOffset,
)
from pylog.client.admin.broker_admin import (
    AskBrokers,
    configs_of_any_broker,
    log_dirs,
    statuses,
)
from pylog.client.admin.broker_types import BrokerStatus
from pylog.client.admin.reassignment_use import ReassignmentUse
from pylog.client.admin.sink_use import SinkUse
from pylog.client.admin.transaction_use import TransactionUse
from pylog.client.arguments import addresses, mapping, settings_of, several, shown, whole_or_none
from pylog.client.background import close_at_exit, shared_loop
from pylog.client.closing import Closing
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.cluster_settings import ClusterSettings
from pylog.client.cluster.denials import UNKNOWN_TOPIC_GRACE_MS
from pylog.client.cluster.metadata import ClusterSnapshot, TopicInfo
from pylog.client.cluster.offsets import delete_records, list_offsets, raise_faults
from pylog.client.cluster.outcomes import Answers, ask_controller, raise_passing
from pylog.client.cluster.server import Server
from pylog.client.cluster.shown import Shown
from pylog.client.cluster.wire import error_of, metadata_request, snapshot_of
from pylog.client.not_offered import ADMIN_NOT_OFFERED, refuses
from pylog.client.settings import ADMIN_SETTINGS
from pylog.client.timeouts import seconds
from pylog.client.topics_and_partitions import one_partition, some_partitions
from pylog.client.typed_settings import AdminSettings
from pylog.clock import SYSTEM_CLOCK
from pylog.config import INT_MAX
from pylog.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ClusterDescription,
    FeatureDescription,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicDescription,
    TopicPartition,
    topic_name_fault,
)
from pylog.plain_text import is_text
from pylog.rpc import apis
from pylog.rpc.v1 import admin_pb2, log_pb2

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
M = TypeVar("M")

OFFSET_SPECS: Final = {
    "earliest": EARLIEST_TIMESTAMP,
    "latest": LATEST_TIMESTAMP,
    "max_timestamp": MAX_TIMESTAMP,
}
_ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")


@refuses(ADMIN_NOT_OFFERED)
class AdminClient(TransactionUse, SinkUse, ReassignmentUse, Closing, Shown):
    """Administers a cluster. Thread safe.

    Each call takes `timeout` in seconds (None: `default_api_timeout_ms`). For several items that do
    not all succeed it raises PartialFailure, which holds the result or the error of each; for one
    item, the error itself. Any call raises BootstrapFailed when no server answers in that time,
    RequestTimedOut with the last fault when it could not be done in it (the controller is away, a
    partition has no leader), ClientClosed after `close`, and WrongThread in a callback of pylog's.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        bootstrap_servers: str | Iterable[str] | None = None,
        **settings: Unpack[AdminSettings],
    ) -> None:
        given = settings_of(config, {"bootstrap_servers": bootstrap_servers, **settings})
        given["bootstrap_servers"] = addresses(given["bootstrap_servers"])
        values = ADMIN_SETTINGS.parse(given)
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
        know of. `validate_only` checks, and makes nothing.

        Raises TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidReplicationFactor,
        InvalidReplicaAssignment, InvalidConfig.
        """
        wanted = []
        for topic in admin_wire.new_topics(topics):
            _check_name(topic.name)
            wanted.append((topic.name, admin_wire.new_topic_message(topic)))

        async def attempt(topics: list[admin_pb2.NewTopic], left_s: float) -> Answers[str, str]:
            request = admin_pb2.CreateTopicsRequest(
                topics=topics, timeout_ms=int(left_s * 1000), validate_only=validate_only
            )
            server = await self._gateway()
            response = await server.call(apis.CREATE_TOPICS, request, left_s)
            return [(t.name, admin_wire.fault_of_topic(t), t.topic_id) for t in response.topics]

        return self._each(wanted, attempt, timeout, "create topics")

    def delete_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, str]:
        """The deleted topics' ids by name. Their names are free again at once.

        Raises UnknownTopicOrPartition for what does not exist.
        """
        names = _names(topics)

        async def attempt(names: list[str], left_s: float) -> Answers[str, str]:
            request = admin_pb2.DeleteTopicsRequest(names=names, timeout_ms=int(left_s * 1000))
            server = await self._gateway()
            response = await server.call(apis.DELETE_TOPICS, request, left_s)
            for name in names:
                self._cluster.metadata.forget_topic(name)
                self._cluster.topics.pop(name, None)
            return [(t.name, admin_wire.fault_of_topic(t), t.topic_id) for t in response.topics]

        return self._each([(name, name) for name in names], attempt, timeout, "delete topics")

    def delete_topics_by_id(
        self, topic_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, str]:
        """The deleted topics' names by their ids: never a topic that was made anew under the name.

        Raises UnknownTopicId for what does not exist (any more).
        """
        wanted = admin_wire.topic_ids(topic_ids)

        async def attempt(ids: list[str], left_s: float) -> Answers[str, str]:
            request = admin_pb2.DeleteTopicsRequest(topic_ids=ids, timeout_ms=int(left_s * 1000))
            server = await self._gateway()
            response = await server.call(apis.DELETE_TOPICS, request, left_s)
            for topic in response.topics:
                self._cluster.metadata.forget_topic(topic.name)
                self._cluster.topics.pop(topic.name, None)
            return [(t.topic_id, error_of(t.error), t.name) for t in response.topics]

        return self._each([(each, each) for each in wanted], attempt, timeout, "delete topics")

    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> list[str]:
        """All topics' names, sorted; internal ones only when asked for."""
        snapshot = self._snapshot((), all_topics=True, timeout_ms=self._milliseconds(timeout))
        return sorted(t.name for t in snapshot.topics if internal or not t.internal)

    def describe_topics(
        self, topics: str | Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Topics with leader and replicas of each partition; None given: all that are not
        internal. Never older than what this client was told before, where a server that knows as
        much answers. Raises UnknownTopicOrPartition when the controller denies one, or, while that
        cannot be asked, once brokers have denied it for 3 s.
        """
        timeout_ms = self._milliseconds(timeout)
        if topics is None:
            snapshot = self._snapshot((), all_topics=True, timeout_ms=timeout_ms)
            found = [t for t in snapshot.topics if not t.internal]
        else:
            names = _names(topics)
            found = self._described(names, timeout_ms)
        faults = {t.name: t.error for t in found if t.error is not None}
        results = {t.name: admin_wire.topic_description(t) for t in found if t.error is None}
        raise_faults(results, faults)
        return results

    def _described(self, names: list[str], timeout_ms: int) -> list[TopicInfo]:
        """As told by any broker, and what it does not know by the controller; when that cannot be
        asked, a broker's denial counts when it is repeated.
        """
        clock = self._cluster.clock
        until = clock.monotonic_ms() + min(timeout_ms, UNKNOWN_TOPIC_GRACE_MS)
        request = metadata_request(tuple(names), all_topics=False)

        async def attempt(_left_s: float) -> tuple[ClusterSnapshot, frozenset[str]]:
            response, sure = await self._cluster.ask_surely(request, forward=True)
            return snapshot_of(response), sure

        while True:
            snapshot, sure = self._retry(attempt, timeout_ms, "metadata")
            doubtful = [
                topic
                for topic in snapshot.topics
                if topic.error is not None and topic.error.retriable and topic.name not in sure
            ]
            if not doubtful or clock.monotonic_ms() >= until:
                return list(snapshot.topics)
            clock.sleep(0.1)

    def create_partitions(
        self,
        topics: Mapping[str, NewPartitions | int],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> dict[str, int]:
        """The partition count of each topic after its growth; returns once all partitions have a
        leader that the live brokers know of. Records stay where they are, but keys go to other
        partitions from then on.

        Raises InvalidPartitions for a total that is no growth, UnknownTopicOrPartition,
        InvalidReplicaAssignment.
        """
        wanted = [(topic.topic, topic) for topic in admin_wire.growth(topics).topics]

        async def attempt(
            topics: list[admin_pb2.NewPartitions], left_s: float
        ) -> Answers[str, int]:
            request = admin_pb2.CreatePartitionsRequest(
                topics=topics, timeout_ms=int(left_s * 1000), validate_only=validate_only
            )
            server = await self._gateway()
            response = await server.call(apis.CREATE_PARTITIONS, request, left_s)
            return [
                (t.name, admin_wire.fault_of_topic(t), t.num_partitions) for t in response.topics
            ]

        return self._each(wanted, attempt, timeout, "create partitions")

    # ---- configurations -----------------------------------------------------------------------

    def describe_configs(
        self, resources: Any, *, timeout: float | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Settings by name for each resource, with the source of each value.

        `resources`: one ConfigResource (or pair `("topic", name)`, `("group", name)`,
        `("broker", id)`), several, or a mapping of each to the names of the settings that are
        wanted. A group need not exist. `("broker", "")` stands for the cluster's defaults: only
        what is set there comes back. While the controller cannot be reached, brokers answer from
        the metadata that they have. Raises InvalidConfig for names of settings that do not exist,
        UnknownTopicOrPartition, and InvalidRequest for a broker that is not registered.
        """
        asked = admin_wire.questions(resources).resources

        async def attempt(
            questions: list[admin_pb2.ConfigQuestion], left_s: float
        ) -> Answers[ConfigResource, dict[str, ConfigEntry]]:
            request = admin_pb2.DescribeConfigsRequest(resources=questions)
            try:
                server = await self._gateway()
                response = await server.call(apis.DESCRIBE_CONFIGS, request, left_s)
            except (errors.BrokerUnreachable, errors.NotController) as error:
                told = await configs_of_any_broker(self._cluster, request, left_s)
                if told is None:
                    raise error
                response = told
            return [
                (*admin_wire.resource_and_fault(described), admin_wire.entries_of(described))
                for described in response.resources
            ]

        wanted = [(admin_wire.resource_of(question.resource), question) for question in asked]
        return self._each(wanted, attempt, timeout, "describe configurations")

    def incremental_alter_configs(
        self,
        changes: Mapping[Any, admin_wire.ConfigChanges],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change settings; what is not named stays. Of one resource all changes hold, or none.

        By resource (as for `describe_configs`) either new values by name, None for the default, or
        AlterConfigOps. Back when the live brokers go by them. Raises InvalidConfig, which names
        setting and limit (KIP-339).
        """
        altered = admin_wire.changes(changes).resources

        async def attempt(
            resources: list[admin_pb2.AlteredResource], left_s: float
        ) -> Answers[ConfigResource, None]:
            request = admin_pb2.AlterConfigsRequest(
                resources=resources, timeout_ms=int(left_s * 1000), validate_only=validate_only
            )
            server = await self._gateway()
            response = await server.call(apis.ALTER_CONFIGS, request, left_s)
            return [(*admin_wire.resource_and_fault(told), None) for told in response.resources]

        wanted = [(admin_wire.resource_of(change.resource), change) for change in altered]
        self._each(wanted, attempt, timeout, "alter configurations")

    # ---- records ------------------------------------------------------------------------------

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, str | int],
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Each partition's offset: 'earliest', 'latest', 'max_timestamp', or that of the first
        record at or after a time in milliseconds since 1970; None where no record is that late.
        For 'read_committed' a partition ends where its first open transaction begins.
        """
        if isolation_level not in _ISOLATION_LEVELS:
            levels = ", ".join(_ISOLATION_LEVELS)
            raise errors.InvalidRequest(f"isolation_level {isolation_level!r} is not of {levels}")
        wanted = {}
        shape = "{TopicPartition(topic, number): 'latest'}"
        for given, spec in mapping(partitions, "partitions", shape).items():
            tp = one_partition(given)
            by_name = isinstance(spec, str)
            timestamp = OFFSET_SPECS.get(spec) if by_name else whole_or_none(spec, 0, math.inf)
            if timestamp is None:
                raise errors.InvalidRequest(
                    f"{tp}: {spec!r} is not one of {', '.join(OFFSET_SPECS)}, or milliseconds "
                    f"since 1970"
                )
            wanted[tp] = timestamp
        timeout_ms = self._milliseconds(timeout)
        listing, faults = self._run(
            list_offsets(
                self._cluster,
                wanted,
                timeout_ms,
                read_committed=isolation_level == "read_committed",
            )
        )
        raise_faults(listing, faults)
        return {tp: listing[tp] for tp in wanted}

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Remove all records before each offset (-1: all that are readable); the low watermarks,
        once all live replicas have them (KIP-107).

        Raises OffsetOutOfRange above the high watermark, UnknownTopicOrPartition.
        """
        wanted = {}
        shape = "{TopicPartition(topic, number): offset}"
        for given, offset in mapping(offsets, "offsets", shape).items():
            tp = one_partition(given)
            before = whole_or_none(offset, -1)
            if before is None:
                raise errors.OffsetOutOfRange(
                    f"{tp}: delete_records up to {offset!r}; it must be an offset, or -1 for all"
                )
            wanted[tp] = before
        timeout_ms = self._milliseconds(timeout)
        results, faults = self._run(delete_records(self._cluster, wanted, timeout_ms))
        raise_faults(results, faults)
        return {tp: results[tp] for tp in wanted}

    # ---- groups -------------------------------------------------------------------------------

    def list_groups(
        self,
        states: str | Iterable[str] | None = None,
        types: str | Iterable[str] | None = None,
        *,
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """All groups in the order of their ids; only those of these states ("Stable", "Empty", ...)
        and types ("classic", "consumer", "share", "streams") where some are given.

        Every live broker is asked for the groups that it coordinates. PartialFailure holds the
        lists of the brokers that answered and the errors of the others, by broker id.
        """
        request = group_wire.list_request(states, types)
        timeout_ms = self._milliseconds(timeout)
        listed, faults = self._run(group_admin.list_groups(self._cluster, request, timeout_ms))
        raise_faults(listed, faults)
        found = {group.group_id: group for groups in listed.values() for group in groups}
        return [found[each] for each in sorted(found)]

    def describe_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Groups of consumers with their members, whichever protocol these speak. Raises
        GroupIdNotFound, InvalidGroupId.
        """
        ids = group_wire.group_ids(groups)
        timeout_ms = self._milliseconds(timeout)
        outcomes = self._run(group_admin.describe_groups(self._cluster, ids, timeout_ms))
        raise_faults(outcomes.in_order(), outcomes.faults)
        return outcomes.in_order()

    def delete_groups(self, groups: str | Iterable[str], *, timeout: float | None = None) -> None:
        """Forget groups with all their offsets. Raises NonEmptyGroup while one has live members,
        GroupIdNotFound.
        """
        ids = group_wire.group_ids(groups)
        timeout_ms = self._milliseconds(timeout)
        outcomes = self._run(group_admin.delete_groups(self._cluster, ids, timeout_ms))
        raise_faults(outcomes.in_order(), outcomes.faults)

    def list_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's positions: the next offset that it will read, with leader epoch and metadata.
        None given: all partitions that have one; else None where nothing is committed. A group that
        does not exist has none.

        `require_stable`: wait for open transactions that commit positions of the group;
        UnstableOffsetCommit where one does not end in time.
        """
        wanted = None if partitions is None else some_partitions((partitions,))
        ids, timeout_ms = [group_wire.group_id(group)], self._milliseconds(timeout)
        asking = group_admin.group_offsets(
            self._cluster, ids, wanted, timeout_ms, require_stable=require_stable
        )
        outcomes = self._run(asking)
        raise_faults({}, outcomes.faults)
        committed, faults = outcomes.results[group]
        raise_faults(committed, faults)
        return {tp: committed.get(tp) for tp in (sorted(committed) if wanted is None else wanted)}

    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout: float | None = None,
    ) -> None:
        """Set where a group goes on. One without members is made if it is not there; whether an
        offset exists in its partition is not looked at.

        Raises UnknownMemberId while the group has live members: stop them first, as they would go
        on where they are and commit that. OffsetMetadataTooLarge.
        """
        group, wanted = group_wire.group_id(group), group_wire.positions(offsets)
        timeout_ms = self._milliseconds(timeout)
        asking = group_admin.alter_group_offsets(self._cluster, group, wanted, timeout_ms)
        _raise_faults_of_items(self._run(asking))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> None:
        """Forget a group's positions in these partitions. Raises GroupSubscribedToTopic where live
        members read the topic, GroupIdNotFound.
        """
        group, wanted = group_wire.group_id(group), some_partitions((partitions,))
        timeout_ms = self._milliseconds(timeout)
        asking = group_admin.delete_group_offsets(self._cluster, group, wanted, timeout_ms)
        _raise_faults_of_items(self._run(asking))

    def list_share_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, SharePartitionOffset | None]:
        """The start offset of a share group, with its lag: in these partitions (None where it has
        not begun), or in all that it has state of. Raises GroupIdNotFound.
        """
        wanted = None if partitions is None else some_partitions((partitions,))
        ids, timeout_ms = [group_wire.group_id(group)], self._milliseconds(timeout)
        asking = share_group_admin.offsets(self._cluster, ids, wanted, timeout_ms)
        outcomes = self._run(asking)
        raise_faults({}, outcomes.faults)
        found, faults = outcomes.results[group]
        raise_faults(found, faults)
        return {tp: found.get(tp) for tp in (sorted(found) if wanted is None else wanted)}

    def alter_share_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> None:
        """Set where a share group begins: all before it is done with, and all from there on is
        delivered, whatever became of it. Raises NonEmptyGroup while the group has live members.
        """
        group, wanted = group_wire.group_id(group), group_wire.start_offsets(offsets)
        timeout_ms = self._milliseconds(timeout)
        asking = share_group_admin.alter_offsets(self._cluster, group, wanted, timeout_ms)
        _raise_faults_of_items(self._run(asking))

    def delete_share_group_offsets(
        self, group: str, topics: str | Iterable[str], *, timeout: float | None = None
    ) -> None:
        """Forget all that a share group knows of these topics. Raises NonEmptyGroup while the group
        has live members, GroupIdNotFound.
        """
        names = _names(topics)
        group, timeout_ms = group_wire.group_id(group), self._milliseconds(timeout)
        asking = share_group_admin.delete_offsets(self._cluster, group, names, timeout_ms)
        _raise_faults_of_items(self._run(asking))

    def remove_group_members(
        self,
        group: str,
        members: str | Iterable[str] | None = None,
        *,
        reason: str = "",
        timeout: float | None = None,
    ) -> list[str]:
        """The ids of the members that were removed: those with these member ids or instance ids;
        None given: all. A program that still runs joins again.

        Raises GroupIdNotFound, and UnknownMemberId for a member that is not there. `reason` is for
        the coordinator's log.
        """
        chosen = [members] if isinstance(members, str) else members
        if chosen is not None:
            chosen = several(chosen, "members", "member ids, or instance ids")
        if not is_text(reason):
            raise errors.InvalidRequest(f"reason={shown(reason)}: give a text in UTF-8")
        group, timeout_ms = group_wire.group_id(group), self._milliseconds(timeout)
        asking = group_admin.remove_members(self._cluster, group, chosen, reason, timeout_ms)
        removed, faults = self._run(asking)
        raise_faults(removed, faults)
        return list(removed)

    def group_lag(
        self, groups: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, PartitionLag]]:
        """The lag of each group, by partition: those in which it has a position, and those that a
        member is to read. In records, and in seconds: the age of the oldest record that the group
        has not passed. A partition whose end offset could not be fetched holds the error. Raises
        GroupIdNotFound.
        """
        ids = group_wire.group_ids(groups)
        timeout_ms = self._milliseconds(timeout)
        lags, faults = self._run(group_admin.group_lag(self._cluster, ids, timeout_ms))
        raise_faults(lags, faults)
        return lags

    # ---- cluster ------------------------------------------------------------------------------

    def describe_cluster(
        self, *, include_fenced_brokers: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        """The cluster's id, its controller's epoch, and the live brokers in the order of ids; with
        `include_fenced_brokers` also those that are registered but do not serve (KIP-1073).
        """
        request = metadata_request((), all_topics=False)
        request.include_fenced_brokers = bool(include_fenced_brokers)
        snapshot = self._ask_metadata(request, self._milliseconds(timeout))
        return ClusterDescription(
            snapshot.cluster_id,
            snapshot.controller_epoch,
            admin_wire.broker_descriptions(snapshot),
            None if snapshot.controller is None else str(snapshot.controller),
            snapshot.controller_since_ms or None,
        )

    def describe_features(self, *, timeout: float | None = None) -> dict[str, FeatureDescription]:
        """The features of the cluster by name: `metadata.version` says what its brokers may write,
        and is raised when all of them run a version that supports more.
        """

        async def attempt(left_s: float) -> admin_pb2.DescribeFeaturesResponse:
            server = await self._gateway()
            request = admin_pb2.DescribeFeaturesRequest()
            response = await server.call(apis.DESCRIBE_FEATURES, request, left_s)
            return response

        response = self._retry(attempt, self._milliseconds(timeout), "describe features")
        return admin_wire.feature_descriptions(response.features)

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, FeatureDescription]:
        """Raise features to these levels, all or none; the features as they are then.
        `validate_only` checks, and changes nothing. A level cannot be lowered.

        Raises InvalidUpdateVersion, which names the brokers that do not support a level, and
        InvalidRequest for a feature that is not known.
        """
        request = admin_pb2.UpdateFeaturesRequest(
            levels=admin_wire.feature_levels(levels), validate_only=validate_only
        )

        async def attempt(left_s: float) -> admin_pb2.UpdateFeaturesResponse:
            server = await self._gateway()
            response = await server.call(apis.UPDATE_FEATURES, request, left_s)
            raise_passing(self._cluster, error_of(response.error))
            return response

        response = self._retry(attempt, self._milliseconds(timeout), "update features")
        fault = error_of(response.error)
        if fault is not None:
            raise fault
        return admin_wire.feature_descriptions(response.features)

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        unclean: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Each partition's leader after the election.

        The preferred leader (the first replica) is elected; None given: wherever another leads, and
        only these partitions come back. `unclean` elects a replica that is out of sync where there
        is no leader: acknowledged records may be lost, so the partitions must be named.
        """
        request = admin_pb2.ElectLeadersRequest(unclean=unclean, all_partitions=partitions is None)
        for tp in () if partitions is None else some_partitions((partitions,)):
            request.partitions.add(topic=tp.topic, partition=tp.partition)

        async def attempt(left_s: float) -> admin_pb2.ElectLeadersResponse:
            server = await self._gateway()
            response = await server.call(apis.ELECT_LEADERS, request, left_s)
            raise_passing(self._cluster, error_of(response.error))
            return response

        response = self._retry(attempt, self._milliseconds(timeout), "elect leaders")
        whole = error_of(response.error)
        if whole is not None:
            raise whole
        results: dict[TopicPartition, int] = {}
        faults: dict[TopicPartition, errors.PylogError] = {}
        for item in response.partitions:
            tp = TopicPartition(item.topic, item.partition)
            fault = error_of(item.error, str(tp))
            if fault is None or isinstance(fault, errors.ElectionNotNeeded):
                results[tp] = item.leader
            else:
                faults[tp] = fault
        raise_faults(results, faults)
        return results

    def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, list[LogDirDescription]]:
        """The directories of each broker (None: of all live ones), with the size of each replica;
        asked of the brokers themselves. Raises BrokerNotAvailable for one that is away for 3 s.
        """
        return self._of_brokers(log_dirs, brokers, timeout)

    def describe_brokers(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, BrokerStatus]:
        """The status of each broker (None: each live one): its listeners, its parts and their
        states, and its replicas with their roles; asked of the brokers themselves. Raises
        BrokerNotAvailable for one that is away for 3 s.
        """
        return self._of_brokers(statuses, brokers, timeout)

    def _of_brokers(
        self, ask: AskBrokers[V], brokers: Iterable[int] | None, timeout: float | None
    ) -> dict[int, V]:
        timeout_ms = self._milliseconds(timeout)
        live = {
            b.id: b for b in self._snapshot((), all_topics=False, timeout_ms=timeout_ms).brokers
        }
        wanted = sorted(live) if brokers is None else admin_wire.broker_ids(brokers, "brokers")
        results, faults = self._run(ask(self._cluster, live, wanted, timeout_ms / 1000))
        raise_faults(results, faults)
        return {broker: results[broker] for broker in wanted}

    def unregister_broker(self, broker: int, *, timeout: float | None = None) -> None:
        """Forget a broker that has stopped for good; its replicas count as lost. Raises
        BrokerIdNotRegistered, and InvalidRequest for one that runs.
        """
        if not 0 <= broker <= INT_MAX:
            raise errors.BrokerIdNotRegistered(f"no broker {broker} is registered")
        request = admin_pb2.UnregisterBrokerRequest(broker_id=broker)

        async def attempt(left_s: float) -> admin_pb2.UnregisterBrokerResponse:
            server = await self._gateway()
            response = await server.call(apis.UNREGISTER_BROKER, request, left_s)
            raise_passing(self._cluster, error_of(response.error, f"broker {broker}"))
            return response

        response = self._retry(attempt, self._milliseconds(timeout), "unregister a broker")
        fault = error_of(response.error, f"broker {broker}")
        if fault is not None:
            raise fault

    # ---- the rest -----------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of connections."""
        if self._closed:
            return
        self._closed = True
        closing = self._thread.start(self._cluster.close())
        if not self._thread.is_current():
            closing.result()

    def _on_fork(self) -> None:
        """In a forked child."""
        self._closed = True

    def _close_at_exit(self) -> None:
        """The interpreter ends without a `close()`."""
        self.close()

    def _milliseconds(self, timeout: float | None) -> int:
        return self._timeout_ms if timeout is None else int(seconds(timeout) * 1000)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            coroutine.close()
            raise self._thread.closed("the admin client")
        return self._thread.run(coroutine)

    def _each(
        self,
        wanted: list[tuple[K, M]],
        attempt: Callable[[list[M], float], Awaitable[Answers[K, V]]],
        timeout: float | None,
        what: str,
    ) -> dict[K, V]:
        timeout_ms = self._milliseconds(timeout)
        outcomes = self._run(ask_controller(self._cluster, wanted, attempt, timeout_ms, what))
        raise_faults(outcomes.in_order(), outcomes.faults)
        return outcomes.in_order()

    def _retry(self, attempt: Callable[[float], Awaitable[T]], timeout_ms: int, what: str) -> T:
        return self._run(self._cluster.retrying(attempt, timeout_ms, what))

    def _snapshot(
        self, topics: Iterable[str], *, all_topics: bool, timeout_ms: int
    ) -> ClusterSnapshot:
        request = metadata_request(tuple(topics), all_topics=all_topics)
        return self._ask_metadata(request, timeout_ms)

    def _ask_metadata(self, request: log_pb2.MetadataRequest, timeout_ms: int) -> ClusterSnapshot:
        async def attempt(_left_s: float) -> log_pb2.MetadataResponse:
            return await self._cluster.ask_any(request, forward=True)

        return snapshot_of(self._retry(attempt, timeout_ms, "metadata"))

    async def _gateway(self) -> Server:
        server = self._cluster.gateway()
        if server is None:
            self._cluster.refresh_soon()
            raise errors.NotController(
                "no server knows where the controller's gateway is; is the controller running?"
            )
        return server


def _raise_faults_of_items(outcomes: Mapping[K, errors.PylogError | None]) -> None:
    """Nothing when all went well; the error itself for a single item, else PartialFailure."""
    faults = {item: fault for item, fault in outcomes.items() if fault is not None}
    raise_faults({item: None for item in outcomes if item not in faults}, faults)


def _names(topics: object) -> list[str]:
    """Topics by name: one, or several."""
    names = [topics] if isinstance(topics, str) else several(topics, "topics", "a name, or several")
    for name in names:
        _check_name(name)
    return names


def _check_name(name: str) -> None:
    fault = topic_name_fault(name) if isinstance(name, str) else f"{name!r} is not a topic's name"
    if fault is not None:
        raise errors.InvalidTopic(fault)
