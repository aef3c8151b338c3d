"""confluent-kafka's `AdminClient` over pylog's: calls return futures, which threads settle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, TypeVar

from pylog import errors, model
from pylog.client.admin import admin as pylog_admin
from pylog.client.admin import admin_types
from pylog.compat.confluent_kafka import settings
from pylog.compat.confluent_kafka.admin import resources as r
from pylog.compat.confluent_kafka.admin import security
from pylog.compat.confluent_kafka.admin.metadata import (
    BrokerMetadata,
    ClusterMetadata,
    GroupMember,
    GroupMetadata,
    cluster_metadata,
    seconds,
)
from pylog.compat.confluent_kafka.error import (
    KafkaError,
    KafkaException,
    error_of,
    exception_of,
    local,
    translating,
)
from pylog.compat.confluent_kafka.model import (
    OFFSET_INVALID,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    Node,
    TopicCollection,
    TopicPartition,
    TopicPartitionInfo,
    uuid_of,
)

K = TypeVar("K")
Q = TypeVar("Q")

_KINDS: Final = {
    r.ResourceType.TOPIC: "topic",
    r.ResourceType.BROKER: "broker",
    r.ResourceType.GROUP: "group",
}
_STATES: Final = {
    "PreparingRebalance": ConsumerGroupState.PREPARING_REBALANCING,
    "CompletingRebalance": ConsumerGroupState.COMPLETING_REBALANCING,
    "Stable": ConsumerGroupState.STABLE,
    "Dead": ConsumerGroupState.DEAD,
    "Empty": ConsumerGroupState.EMPTY,
}
_TYPES: Final = {"classic": ConsumerGroupType.CLASSIC, "consumer": ConsumerGroupType.CONSUMER}
_OURS: Final = {state: name for name, state in _STATES.items()}


class AdminClient:
    """Administers a cluster; thread safe. Calls return at once, with a future for each item."""

    def __init__(self, conf: dict[str, Any], **kwargs: Any) -> None:
        parsed = settings.parse(settings.merged((conf,), kwargs), settings.ADMIN)
        for name in ("error_cb", "stats_cb", "throttle_cb"):
            parsed.callback(name)
        try:
            self._admin = pylog_admin.AdminClient(**settings.admin_settings(parsed))
        except errors.InvalidConfig as error:
            raise local(KafkaError._INVALID_ARG, str(error)) from error
        self._timeout_s = parsed.number("socket.timeout.ms", 60_000) / 1000
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="pylog-admin")

    # ---- futures ------------------------------------------------------------------------------

    def _each(
        self, items: Iterable[Q], call: Callable[[], Any], result: Callable[[Q, Any], Any]
    ) -> dict[Q, Future[Any]]:
        """A future for each item of one call; `result(item, value)` is what it gives."""
        futures: dict[Q, Future[Any]] = {}
        for item in items:
            if item in futures:
                raise ValueError(f"{item!r} is given twice")
            futures[item] = Future()
        for future in futures.values():
            future.set_running_or_notify_cancel()
        if futures:
            self._threads.submit(_settle, futures, call, result)
        return futures

    def _one(self, call: Callable[[], Any]) -> Future[Any]:
        return self._each([0], lambda: {0: call()}, lambda _item, value: value)[0]

    def _wait_s(self, named: Mapping[str, Any]) -> float:
        """The longer of the two timeouts that calls take."""
        given = [named.get("request_timeout"), named.get("operation_timeout")]
        asked = [float(each) for each in given if each is not None and each > 0]
        return max(asked, default=self._timeout_s)

    # ---- topics -------------------------------------------------------------------------------

    def create_topics(
        self, new_topics: Sequence[r.NewTopic], **kwargs: Any
    ) -> dict[str, Future[None]]:
        """Create topics; None for each, once it has its leaders."""
        wanted = {topic.topic: _new_topic(topic) for topic in new_topics}
        return self._each(
            [topic.topic for topic in new_topics],
            lambda: self._admin.create_topics(
                list(wanted.values()),
                timeout=self._wait_s(kwargs),
                validate_only=bool(kwargs.get("validate_only", False)),
            ),
            _nothing,
        )

    def delete_topics(self, topics: Sequence[str], **kwargs: Any) -> dict[str, Future[None]]:
        """Delete topics; None for each."""
        names = _listed(topics, "topics")
        return self._each(
            names,
            lambda: self._admin.delete_topics(names, timeout=self._wait_s(kwargs)),
            _nothing,
        )

    def create_partitions(
        self, new_partitions: Sequence[r.NewPartitions], **kwargs: Any
    ) -> dict[str, Future[None]]:
        """Grow topics; None for each."""
        wanted = {
            each.topic: model.NewPartitions(each.new_total_count, each.replica_assignment)
            for each in new_partitions
        }
        return self._each(
            [each.topic for each in new_partitions],
            lambda: self._admin.create_partitions(
                wanted,
                timeout=self._wait_s(kwargs),
                validate_only=bool(kwargs.get("validate_only", False)),
            ),
            _nothing,
        )

    def describe_topics(
        self, topics: TopicCollection, **kwargs: Any
    ) -> dict[str, Future[r.TopicDescription]]:
        """A TopicDescription for each topic."""
        if not isinstance(topics, TopicCollection):
            raise TypeError("topics must be a TopicCollection")
        names, nodes = list(topics.topic_names), self._nodes
        allowed = _allowed(security.TOPIC_OPERATIONS, kwargs)

        def call() -> Any:
            known = nodes()
            try:
                return _described(self._admin.describe_topics(names), known, allowed)
            except errors.PartialFailure as failure:
                found = _described(failure.results, known, allowed)
                raise errors.PartialFailure(found, failure.errors) from failure

        return self._each(names, call, _same)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster with its topics, or with one."""
        return cluster_metadata(self._admin, topic, timeout)

    def list_offsets(
        self, topic_partition_offsets: Mapping[TopicPartition, r.OffsetSpec], **kwargs: Any
    ) -> dict[TopicPartition, Future[r.ListOffsetsResultInfo]]:
        """A ListOffsetsResultInfo for each partition."""
        level = kwargs.get("isolation_level", IsolationLevel.READ_UNCOMMITTED)
        committed = level is IsolationLevel.READ_COMMITTED
        wanted = {tp.ours(): spec.ours() for tp, spec in topic_partition_offsets.items()}
        return self._each(
            topic_partition_offsets,
            lambda: _by_place(
                self._admin.list_offsets(
                    wanted,
                    isolation_level="read_committed" if committed else "read_uncommitted",
                    timeout=self._wait_s(kwargs),
                )
            ),
            lambda _tp, at: (
                r.ListOffsetsResultInfo(-1, -1, None)
                if at is None
                else r.ListOffsetsResultInfo(at.offset, at.timestamp_ms, at.leader_epoch)
            ),
        )

    def delete_records(
        self, topic_partition_offsets: Sequence[TopicPartition], **kwargs: Any
    ) -> dict[TopicPartition, Future[r.DeletedRecords]]:
        """Remove all records before each partition's offset; DeletedRecords for each."""
        wanted = {tp.ours(): tp.offset for tp in topic_partition_offsets}
        return self._each(
            topic_partition_offsets,
            lambda: _by_place(self._admin.delete_records(wanted, timeout=self._wait_s(kwargs))),
            lambda _tp, low: r.DeletedRecords(low),
        )

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Sequence[TopicPartition] | None = None,
        **kwargs: Any,
    ) -> Future[dict[TopicPartition, KafkaException | None]]:
        """Elect leaders; gives the outcome for each partition."""
        if not isinstance(election_type, ElectionType):
            raise TypeError("election_type must be an ElectionType")
        wanted = None if partitions is None else [tp.ours() for tp in partitions]

        def call() -> Any:
            unclean = election_type is ElectionType.UNCLEAN
            told: dict[TopicPartition, KafkaException | None] = {}
            try:
                done: Mapping[Any, Any] = self._admin.elect_leaders(
                    wanted, unclean=unclean, timeout=self._wait_s(kwargs)
                )
            except errors.PartialFailure as failure:
                done = failure.results
                for tp, error in failure.errors.items():
                    told[TopicPartition(*tp)] = exception_of(error)  # type: ignore[misc]
            told.update((TopicPartition(*tp), None) for tp in done)
            return told

        return self._one(call)

    # ---- settings -----------------------------------------------------------------------------

    def describe_configs(
        self, resources: Sequence[r.ConfigResource], **kwargs: Any
    ) -> dict[r.ConfigResource, Future[dict[str, r.ConfigEntry]]]:
        """The settings of each resource, by name."""
        ours = {_resource(each): each for each in resources}

        def call() -> Any:
            return _translated_keys(
                lambda: self._admin.describe_configs(list(ours), timeout=self._wait_s(kwargs)), ours
            )

        return self._each(
            resources,
            call,
            lambda _resource, entries: {name: _entry(e) for name, e in entries.items()},
        )

    def incremental_alter_configs(
        self, resources: Sequence[r.ConfigResource], **kwargs: Any
    ) -> dict[r.ConfigResource, Future[None]]:
        """Change settings by the resources' `incremental_configs`; what is not named stays."""
        ours = {_resource(each): each for each in resources}
        changes = {
            key: [
                admin_types.AlterConfigOp(
                    entry.name,
                    None if op is r.AlterConfigOpType.DELETE else str(entry.value),
                    op.name.lower(),
                )
                for entry in each.incremental_configs
                for op in [entry.incremental_operation or r.AlterConfigOpType.SET]
            ]
            for key, each in ours.items()
        }
        return self._alter(resources, ours, lambda: changes, kwargs)

    def alter_configs(
        self, resources: Sequence[r.ConfigResource], **kwargs: Any
    ) -> dict[r.ConfigResource, Future[None]]:
        """Have each resource's settings be what `set_config` says, all others their defaults."""
        ours = {_resource(each): each for each in resources}

        def changes() -> Any:
            known = self._admin.describe_configs(list(ours), timeout=self._wait_s(kwargs))
            wanted: dict[Any, list[admin_types.AlterConfigOp]] = {}
            for key, each in ours.items():
                dynamic = f"DYNAMIC_{key.type.upper()}_CONFIG"
                wanted[key] = [
                    admin_types.AlterConfigOp(name, None, "delete")
                    for name, entry in known[key].items()
                    if entry.source in (dynamic, "GROUP_CONFIG")
                    and name not in each.set_config_dict
                ]
                for name, value in each.set_config_dict.items():
                    wanted[key].append(admin_types.AlterConfigOp(name, str(value)))
            return wanted

        return self._alter(resources, ours, changes, kwargs)

    def _alter(
        self,
        resources: Sequence[r.ConfigResource],
        ours: Mapping[Any, r.ConfigResource],
        changes: Callable[[], Any],
        kwargs: Mapping[str, Any],
    ) -> dict[r.ConfigResource, Future[None]]:
        def call() -> Any:
            def alter() -> Any:
                self._admin.incremental_alter_configs(
                    changes(),
                    timeout=self._wait_s(kwargs),
                    validate_only=bool(kwargs.get("validate_only", False)),
                )
                return dict.fromkeys(ours)

            return _translated_keys(alter, ours)

        return self._each(resources, call, _nothing)

    # ---- groups -------------------------------------------------------------------------------

    def list_consumer_groups(self, **kwargs: Any) -> Future[r.ListConsumerGroupsResult]:
        """All groups of consumers; with `states` and `types` only such ones."""
        states = [_OURS[s] for s in kwargs.get("states") or () if s in _OURS] or None
        types = [t.name.lower() for t in kwargs.get("types") or ()] or None

        def call() -> Any:
            faults: list[Exception] = []
            try:
                listed = self._admin.list_groups(states, types, timeout=self._wait_s(kwargs))
            except errors.PartialFailure as failure:
                listed = [g for groups in failure.results.values() for g in groups]  # type: ignore[attr-defined]
                faults = [exception_of(error) for error in failure.errors.values()]
            valid = [
                r.ConsumerGroupListing(
                    group.group_id,
                    group.protocol_type == "",
                    _STATES.get(group.state, ConsumerGroupState.UNKNOWN),
                    _TYPES.get(group.type, ConsumerGroupType.UNKNOWN),
                )
                for group in listed
                if group.type in _TYPES
            ]
            return r.ListConsumerGroupsResult(valid, faults)

        return self._one(call)

    def describe_consumer_groups(
        self, group_ids: Sequence[str], **kwargs: Any
    ) -> dict[str, Future[r.ConsumerGroupDescription]]:
        """A ConsumerGroupDescription for each group."""
        ids = _listed(group_ids, "group_ids")
        if not ids:
            raise ValueError("group_ids must not be empty")
        allowed = _allowed(security.GROUP_OPERATIONS, kwargs)
        return self._each(
            ids,
            lambda: self._admin.describe_groups(ids, timeout=self._wait_s(kwargs)),
            lambda _group, told: _group_description(told, allowed),
        )

    def delete_consumer_groups(
        self, group_ids: Sequence[str], **kwargs: Any
    ) -> dict[str, Future[None]]:
        """Forget groups with their offsets; None for each."""
        ids = _listed(group_ids, "group_ids")
        if not ids:
            raise ValueError("group_ids must not be empty")

        def call() -> Any:
            self._admin.delete_groups(ids, timeout=self._wait_s(kwargs))
            return dict.fromkeys(ids)

        return self._each(ids, call, _nothing)

    def list_consumer_group_offsets(
        self, list_consumer_group_offsets_request: Sequence[ConsumerGroupTopicPartitions], **kw: Any
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """A group's positions in these partitions, or in all that it has one in."""
        futures = {}
        for request in list_consumer_group_offsets_request:
            group, asked = request.group_id, request.topic_partitions
            wanted = None if asked is None else [tp.ours() for tp in asked]

            def call(group: str = group, wanted: Any = wanted) -> Any:
                found = self._admin.list_group_offsets(group, wanted, timeout=self._wait_s(kw))
                told = [
                    TopicPartition(*tp)
                    if at is None
                    else TopicPartition(*tp, at.offset, at.metadata or None, at.leader_epoch)
                    for tp, at in found.items()
                ]
                return ConsumerGroupTopicPartitions(group, told)

            futures[group] = self._one(call)
        return futures

    def alter_consumer_group_offsets(
        self,
        alter_consumer_group_offsets_request: Sequence[ConsumerGroupTopicPartitions],
        **kw: Any,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """Set where groups without members go on; partitions with an `error` where that failed."""
        futures = {}
        for request in alter_consumer_group_offsets_request:
            group, given = request.group_id, list(request.topic_partitions or ())
            wanted = {
                tp.ours(): model.OffsetAndMetadata(tp.offset, tp.metadata or "", tp.leader_epoch)
                for tp in given
                if tp.offset != OFFSET_INVALID
            }

            def call(group: str = group, wanted: Any = wanted, given: Any = given) -> Any:
                faults: Mapping[Any, errors.PylogError] = {}
                try:
                    self._admin.alter_group_offsets(group, wanted, timeout=self._wait_s(kw))
                except errors.PartialFailure as failure:
                    faults = failure.errors
                told = []
                for tp in given:
                    one = TopicPartition(tp.topic, tp.partition, tp.offset, tp.metadata)
                    fault = faults.get(tp.ours())
                    one.error = None if fault is None else error_of(fault)
                    told.append(one)
                return ConsumerGroupTopicPartitions(group, told)

            futures[group] = self._one(call)
        return futures

    def list_groups(self, group: str | None = None, timeout: float = -1) -> list[GroupMetadata]:
        """Groups with their members, or one; metadata and assignment are not told as bytes."""
        with translating():
            listed = self._admin.list_groups(timeout=seconds(timeout))
            ids = [g.group_id for g in listed if group in (None, g.group_id) and g.type in _TYPES]
            found = self._admin.describe_groups(ids, timeout=seconds(timeout)) if ids else {}
        return [_group_metadata(each) for each in found.values()]

    # ---- the cluster --------------------------------------------------------------------------

    def describe_cluster(self, **kwargs: Any) -> Future[r.DescribeClusterResult]:
        """The cluster with its brokers. `controller` is the first broker: pylog's controller is no
        broker, and every broker passes on what is for it.
        """

        def call() -> Any:
            cluster = self._admin.describe_cluster(timeout=self._wait_s(kwargs))
            nodes = [Node(b.id, b.host, b.port, b.rack) for b in cluster.brokers]
            controller = nodes[0] if nodes else None
            return r.DescribeClusterResult(controller, nodes, cluster.cluster_id, allowed)

        allowed = _allowed(security.CLUSTER_OPERATIONS, kwargs)
        return self._one(call)

    def cluster_id(self, timeout: float = -1) -> str:
        """The cluster's id."""
        with translating():
            return self._admin.describe_cluster(timeout=seconds(timeout)).cluster_id

    def _nodes(self) -> dict[int, Node]:
        brokers = self._admin.describe_cluster(include_fenced_brokers=True).brokers
        return {b.id: Node(b.id, b.host, b.port, b.rack) for b in brokers}

    # ---- what pylog does not have -------------------------------------------------------------

    def create_acls(self, acls: Sequence[Any], **kwargs: Any) -> dict[Any, Future[None]]:
        """Raises KafkaException: pylog has no authorization yet."""
        raise _no_security("create_acls")

    def describe_acls(self, acl_binding_filter: Any, **kwargs: Any) -> Future[Any]:
        """Raises KafkaException: pylog has no authorization yet."""
        raise _no_security("describe_acls")

    def delete_acls(self, acl_binding_filters: Sequence[Any], **kwargs: Any) -> dict[Any, Any]:
        """Raises KafkaException: pylog has no authorization yet."""
        raise _no_security("delete_acls")

    def describe_user_scram_credentials(
        self, users: Sequence[str] | None = None, **kwargs: Any
    ) -> Any:
        """Raises KafkaException: pylog has no users yet."""
        raise _no_security("describe_user_scram_credentials")

    def alter_user_scram_credentials(self, alterations: Sequence[Any], **kwargs: Any) -> Any:
        """Raises KafkaException: pylog has no users yet."""
        raise _no_security("alter_user_scram_credentials")

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Raises KafkaException: pylog has no authentication yet."""
        raise _no_security("set_sasl_credentials")

    # ---- the rest -----------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> int:
        """0: the futures are settled without it."""
        return 0

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        exc_traceback: TracebackType | None,
    ) -> None:
        self._threads.shutdown()
        with translating():
            self._admin.close()


def _settle(
    futures: Mapping[Any, Future[Any]],
    call: Callable[[], Any],
    result: Callable[[Any, Any], Any],
) -> None:
    """Give each future its result or its exception."""
    results: Mapping[Any, Any] = {}
    faults: Mapping[Any, BaseException] = {}
    whole: BaseException | None = None
    try:
        results = call()
    except errors.PartialFailure as failure:
        results, faults = failure.results, failure.errors
    except BaseException as error:  # noqa: BLE001  the futures' owners hear of it
        whole = error
    for item, future in futures.items():
        place = item.ours() if isinstance(item, TopicPartition) else item
        try:
            fault = whole or faults.get(item) or faults.get(place)
            if fault is not None:
                raise exception_of(fault) if isinstance(fault, errors.PylogError) else fault
            future.set_result(result(item, results[item if item in results else place]))
        except BaseException as error:  # noqa: BLE001  the same
            future.set_exception(error)


def _listed(given: Any, what: str) -> list[str]:
    """The names; TypeError for a single one, whose letters would be taken for names."""
    if not isinstance(given, list):
        raise TypeError(f"{what} must be a list, not {type(given).__name__}")
    return list(given)


def _nothing(_item: object, _value: object) -> None:
    return None


def _same(_item: object, value: Any) -> Any:
    return value


def _by_place(found: Mapping[Any, Any]) -> dict[Any, Any]:
    return dict(found)


def _translated_keys(call: Callable[[], Mapping[Any, Any]], ours: Mapping[Any, Any]) -> Any:
    """The results of a call by the caller's own resources."""
    try:
        return {ours[key]: value for key, value in call().items()}
    except errors.PartialFailure as failure:
        raise errors.PartialFailure(
            {ours[key]: value for key, value in failure.results.items()},
            {ours[key]: error for key, error in failure.errors.items()},
        ) from failure


def _no_security(call: str) -> KafkaException:
    text = f"{call}: pylog has no authorization and no users yet; leave the call out"
    return local(KafkaError._UNSUPPORTED_FEATURE, text)


def _new_topic(topic: r.NewTopic) -> model.NewTopic:
    config = {name: str(value) for name, value in (topic.config or {}).items()} or None
    if topic.replica_assignment:
        placed = dict(enumerate(topic.replica_assignment))
        return model.NewTopic(topic.topic, replica_assignment=placed, config=config)
    return model.NewTopic(
        topic.topic, topic.num_partitions, topic.replication_factor, config=config
    )


def _resource(given: r.ConfigResource) -> admin_types.ConfigResource:
    kind = _KINDS.get(given.restype)
    if kind is None:
        raise local(
            KafkaError._INVALID_ARG,
            f"{given.restype.name} has no settings: give TOPIC, BROKER or GROUP",
        )
    return admin_types.ConfigResource(kind, given.name)


def _entry(entry: admin_types.ConfigEntry) -> r.ConfigEntry:
    synonyms = {
        each.name: r.ConfigEntry(each.name, each.value, _source(each.source), is_synonym=True)
        for each in entry.synonyms
    }
    return r.ConfigEntry(
        entry.name,
        entry.value,
        _source(entry.source),
        entry.read_only,
        entry.is_default,
        entry.sensitive,
        False,
        synonyms,
    )


def _source(name: str) -> int:
    known = {source.name: source.value for source in r.ConfigSource}
    return int(known.get(name, known["GROUP_CONFIG"] if "GROUP" in name else 0))


def _allowed(
    operations: tuple[security.AclOperation, ...], kwargs: Mapping[str, Any]
) -> list[security.AclOperation] | None:
    """All operations, where the caller asks for them: nothing is forbidden without an authorizer,
    and a broker of Kafka answers so too.
    """
    return list(operations) if kwargs.get("include_authorized_operations") else None


def _described(
    found: Mapping[Any, Any],
    nodes: Mapping[int, Node],
    allowed: list[security.AclOperation] | None,
) -> dict[Any, Any]:
    def named(ids: Iterable[int]) -> list[Node]:
        return [nodes[each] for each in ids if each in nodes]

    return {
        name: r.TopicDescription(
            topic.name,
            uuid_of(topic.topic_id),
            topic.internal,
            [
                TopicPartitionInfo(
                    p.partition, nodes.get(p.leader), named(p.replicas), named(p.isr)
                )
                for p in topic.partitions
            ],
            allowed,
        )
        for name, topic in found.items()
    }


def _group_description(
    group: admin_types.GroupDescription, allowed: list[security.AclOperation] | None
) -> r.ConsumerGroupDescription:
    broker = group.coordinator
    return r.ConsumerGroupDescription(
        group.group_id,
        group.protocol_type == "",
        [
            r.MemberDescription(
                member.member_id,
                member.client_id,
                member.client_host,
                r.MemberAssignment([TopicPartition(*tp) for tp in member.assignment or ()]),
                member.instance_id,
                None
                if member.target is None
                else r.MemberAssignment([TopicPartition(*tp) for tp in member.target]),
            )
            for member in group.members
        ],
        group.assignor,
        _STATES.get(group.state, ConsumerGroupState.UNKNOWN),
        Node(broker.id, broker.host, broker.port, broker.rack),
        allowed,
        _TYPES.get(group.type, ConsumerGroupType.UNKNOWN),
    )


def _group_metadata(group: admin_types.GroupDescription) -> GroupMetadata:
    found = GroupMetadata()
    found.id, found.state = group.group_id, group.state
    found.protocol_type, found.protocol = group.protocol_type, group.assignor
    found.broker = BrokerMetadata()
    found.broker.id, found.broker.host = group.coordinator.id, group.coordinator.host
    found.broker.port = group.coordinator.port
    for each in group.members:
        member = GroupMember()
        member.id, member.client_id, member.client_host = (
            each.member_id,
            each.client_id,
            each.client_host,
        )
        found.members.append(member)
    return found
