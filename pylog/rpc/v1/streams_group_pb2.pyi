from pylog.rpc.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StreamsTopicInfo(_message.Message):
    __slots__ = ("name", "partitions", "replication_factor", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: int
    replication_factor: int
    configs: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Subtopology(_message.Message):
    __slots__ = ("subtopology_id", "source_topics", "source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics", "copartition_groups")
    SUBTOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TOPICS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TOPIC_REGEX_FIELD_NUMBER: _ClassVar[int]
    STATE_CHANGELOG_TOPICS_FIELD_NUMBER: _ClassVar[int]
    REPARTITION_SINK_TOPICS_FIELD_NUMBER: _ClassVar[int]
    REPARTITION_SOURCE_TOPICS_FIELD_NUMBER: _ClassVar[int]
    COPARTITION_GROUPS_FIELD_NUMBER: _ClassVar[int]
    subtopology_id: str
    source_topics: _containers.RepeatedScalarFieldContainer[str]
    source_topic_regex: _containers.RepeatedScalarFieldContainer[str]
    state_changelog_topics: _containers.RepeatedCompositeFieldContainer[StreamsTopicInfo]
    repartition_sink_topics: _containers.RepeatedScalarFieldContainer[str]
    repartition_source_topics: _containers.RepeatedCompositeFieldContainer[StreamsTopicInfo]
    copartition_groups: _containers.RepeatedCompositeFieldContainer[CopartitionGroup]
    def __init__(self, subtopology_id: _Optional[str] = ..., source_topics: _Optional[_Iterable[str]] = ..., source_topic_regex: _Optional[_Iterable[str]] = ..., state_changelog_topics: _Optional[_Iterable[_Union[StreamsTopicInfo, _Mapping]]] = ..., repartition_sink_topics: _Optional[_Iterable[str]] = ..., repartition_source_topics: _Optional[_Iterable[_Union[StreamsTopicInfo, _Mapping]]] = ..., copartition_groups: _Optional[_Iterable[_Union[CopartitionGroup, _Mapping]]] = ...) -> None: ...

class CopartitionGroup(_message.Message):
    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics")
    SOURCE_TOPICS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TOPIC_REGEX_FIELD_NUMBER: _ClassVar[int]
    REPARTITION_SOURCE_TOPICS_FIELD_NUMBER: _ClassVar[int]
    source_topics: _containers.RepeatedScalarFieldContainer[int]
    source_topic_regex: _containers.RepeatedScalarFieldContainer[int]
    repartition_source_topics: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, source_topics: _Optional[_Iterable[int]] = ..., source_topic_regex: _Optional[_Iterable[int]] = ..., repartition_source_topics: _Optional[_Iterable[int]] = ...) -> None: ...

class Topology(_message.Message):
    __slots__ = ("epoch", "subtopologies")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SUBTOPOLOGIES_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    subtopologies: _containers.RepeatedCompositeFieldContainer[Subtopology]
    def __init__(self, epoch: _Optional[int] = ..., subtopologies: _Optional[_Iterable[_Union[Subtopology, _Mapping]]] = ...) -> None: ...

class TaskIds(_message.Message):
    __slots__ = ("subtopology_id", "partitions")
    SUBTOPOLOGY_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    subtopology_id: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, subtopology_id: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class StreamsTasks(_message.Message):
    __slots__ = ("active", "standby", "warmup")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    STANDBY_FIELD_NUMBER: _ClassVar[int]
    WARMUP_FIELD_NUMBER: _ClassVar[int]
    active: _containers.RepeatedCompositeFieldContainer[TaskIds]
    standby: _containers.RepeatedCompositeFieldContainer[TaskIds]
    warmup: _containers.RepeatedCompositeFieldContainer[TaskIds]
    def __init__(self, active: _Optional[_Iterable[_Union[TaskIds, _Mapping]]] = ..., standby: _Optional[_Iterable[_Union[TaskIds, _Mapping]]] = ..., warmup: _Optional[_Iterable[_Union[TaskIds, _Mapping]]] = ...) -> None: ...

class StreamsEndpoint(_message.Message):
    __slots__ = ("host", "port")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class StreamsTag(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class StreamsTags(_message.Message):
    __slots__ = ("tags",)
    TAGS_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.RepeatedCompositeFieldContainer[StreamsTag]
    def __init__(self, tags: _Optional[_Iterable[_Union[StreamsTag, _Mapping]]] = ...) -> None: ...

class StreamsGroupHeartbeatRequest(_message.Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "endpoint_information_epoch", "instance_id", "rack_id", "rebalance_timeout_ms", "topology", "owned", "process_id", "user_endpoint", "client_tags", "shutdown_application", "client_id")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_INFORMATION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    OWNED_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    USER_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TAGS_FIELD_NUMBER: _ClassVar[int]
    SHUTDOWN_APPLICATION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int
    instance_id: str
    rack_id: str
    rebalance_timeout_ms: int
    topology: Topology
    owned: StreamsTasks
    process_id: str
    user_endpoint: StreamsEndpoint
    client_tags: StreamsTags
    shutdown_application: bool
    client_id: str
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., endpoint_information_epoch: _Optional[int] = ..., instance_id: _Optional[str] = ..., rack_id: _Optional[str] = ..., rebalance_timeout_ms: _Optional[int] = ..., topology: _Optional[_Union[Topology, _Mapping]] = ..., owned: _Optional[_Union[StreamsTasks, _Mapping]] = ..., process_id: _Optional[str] = ..., user_endpoint: _Optional[_Union[StreamsEndpoint, _Mapping]] = ..., client_tags: _Optional[_Union[StreamsTags, _Mapping]] = ..., shutdown_application: _Optional[bool] = ..., client_id: _Optional[str] = ...) -> None: ...

class StreamsGroupHeartbeatResponse(_message.Message):
    __slots__ = ("error", "member_id", "member_epoch", "heartbeat_interval_ms", "status", "tasks", "endpoint_information_epoch", "endpoints")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_INFORMATION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    status: _containers.RepeatedCompositeFieldContainer[StreamsStatus]
    tasks: StreamsTasks
    endpoint_information_epoch: int
    endpoints: EndpointInformation
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., heartbeat_interval_ms: _Optional[int] = ..., status: _Optional[_Iterable[_Union[StreamsStatus, _Mapping]]] = ..., tasks: _Optional[_Union[StreamsTasks, _Mapping]] = ..., endpoint_information_epoch: _Optional[int] = ..., endpoints: _Optional[_Union[EndpointInformation, _Mapping]] = ...) -> None: ...

class StreamsStatus(_message.Message):
    __slots__ = ("code", "detail")
    class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STALE_TOPOLOGY: _ClassVar[StreamsStatus.Code]
        MISSING_SOURCE_TOPICS: _ClassVar[StreamsStatus.Code]
        INCORRECTLY_PARTITIONED_TOPICS: _ClassVar[StreamsStatus.Code]
        MISSING_INTERNAL_TOPICS: _ClassVar[StreamsStatus.Code]
        SHUTDOWN_APPLICATION: _ClassVar[StreamsStatus.Code]
    STALE_TOPOLOGY: StreamsStatus.Code
    MISSING_SOURCE_TOPICS: StreamsStatus.Code
    INCORRECTLY_PARTITIONED_TOPICS: StreamsStatus.Code
    MISSING_INTERNAL_TOPICS: StreamsStatus.Code
    SHUTDOWN_APPLICATION: StreamsStatus.Code
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    code: StreamsStatus.Code
    detail: str
    def __init__(self, code: _Optional[_Union[StreamsStatus.Code, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class EndpointInformation(_message.Message):
    __slots__ = ("endpoints",)
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    endpoints: _containers.RepeatedCompositeFieldContainer[EndpointToPartitions]
    def __init__(self, endpoints: _Optional[_Iterable[_Union[EndpointToPartitions, _Mapping]]] = ...) -> None: ...

class EndpointToPartitions(_message.Message):
    __slots__ = ("user_endpoint", "active", "standby")
    USER_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    STANDBY_FIELD_NUMBER: _ClassVar[int]
    user_endpoint: StreamsEndpoint
    active: _containers.RepeatedCompositeFieldContainer[StreamsTopicPartitions]
    standby: _containers.RepeatedCompositeFieldContainer[StreamsTopicPartitions]
    def __init__(self, user_endpoint: _Optional[_Union[StreamsEndpoint, _Mapping]] = ..., active: _Optional[_Iterable[_Union[StreamsTopicPartitions, _Mapping]]] = ..., standby: _Optional[_Iterable[_Union[StreamsTopicPartitions, _Mapping]]] = ...) -> None: ...

class StreamsTopicPartitions(_message.Message):
    __slots__ = ("topic", "partitions")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class StreamsGroupDescribeRequest(_message.Message):
    __slots__ = ("group_ids",)
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    group_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class StreamsGroupDescribeResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[DescribedStreamsGroup]
    def __init__(self, groups: _Optional[_Iterable[_Union[DescribedStreamsGroup, _Mapping]]] = ...) -> None: ...

class DescribedStreamsGroup(_message.Message):
    __slots__ = ("error", "group_id", "state", "group_epoch", "assignment_epoch", "topology", "members")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GROUP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    topology: Topology
    members: _containers.RepeatedCompositeFieldContainer[DescribedStreamsMember]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., group_id: _Optional[str] = ..., state: _Optional[str] = ..., group_epoch: _Optional[int] = ..., assignment_epoch: _Optional[int] = ..., topology: _Optional[_Union[Topology, _Mapping]] = ..., members: _Optional[_Iterable[_Union[DescribedStreamsMember, _Mapping]]] = ...) -> None: ...

class DescribedStreamsMember(_message.Message):
    __slots__ = ("member_id", "member_epoch", "instance_id", "rack_id", "client_id", "client_host", "topology_epoch", "process_id", "user_endpoint", "client_tags", "assigned", "target")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    USER_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TAGS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    member_epoch: int
    instance_id: str
    rack_id: str
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    user_endpoint: StreamsEndpoint
    client_tags: _containers.RepeatedCompositeFieldContainer[StreamsTag]
    assigned: StreamsTasks
    target: StreamsTasks
    def __init__(self, member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., instance_id: _Optional[str] = ..., rack_id: _Optional[str] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., topology_epoch: _Optional[int] = ..., process_id: _Optional[str] = ..., user_endpoint: _Optional[_Union[StreamsEndpoint, _Mapping]] = ..., client_tags: _Optional[_Iterable[_Union[StreamsTag, _Mapping]]] = ..., assigned: _Optional[_Union[StreamsTasks, _Mapping]] = ..., target: _Optional[_Union[StreamsTasks, _Mapping]] = ...) -> None: ...
