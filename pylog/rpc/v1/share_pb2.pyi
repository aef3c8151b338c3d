from pylog.rpc.v1 import common_pb2 as _common_pb2
from pylog.rpc.v1 import group_pb2 as _group_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ShareAcquireMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCH_OPTIMIZED: _ClassVar[ShareAcquireMode]
    RECORD_LIMIT: _ClassVar[ShareAcquireMode]
BATCH_OPTIMIZED: ShareAcquireMode
RECORD_LIMIT: ShareAcquireMode

class ShareGroupHeartbeatRequest(_message.Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topics", "client_id", "standing_ms")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    STANDING_MS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str
    subscribed_topics: _group_pb2.SubscribedTopics
    client_id: str
    standing_ms: int
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., rack_id: _Optional[str] = ..., subscribed_topics: _Optional[_Union[_group_pb2.SubscribedTopics, _Mapping]] = ..., client_id: _Optional[str] = ..., standing_ms: _Optional[int] = ...) -> None: ...

class ShareGroupHeartbeatResponse(_message.Message):
    __slots__ = ("error", "member_id", "member_epoch", "heartbeat_interval_ms", "assignment")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: _group_pb2.AssignedPartitions
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., heartbeat_interval_ms: _Optional[int] = ..., assignment: _Optional[_Union[_group_pb2.AssignedPartitions, _Mapping]] = ...) -> None: ...

class ShareGroupDescribeRequest(_message.Message):
    __slots__ = ("group_ids",)
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    group_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ShareGroupDescribeResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[DescribedShareGroup]
    def __init__(self, groups: _Optional[_Iterable[_Union[DescribedShareGroup, _Mapping]]] = ...) -> None: ...

class DescribedShareGroup(_message.Message):
    __slots__ = ("error", "group_id", "state", "group_epoch", "assignment_epoch", "assignor", "members")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GROUP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: _containers.RepeatedCompositeFieldContainer[DescribedShareMember]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., group_id: _Optional[str] = ..., state: _Optional[str] = ..., group_epoch: _Optional[int] = ..., assignment_epoch: _Optional[int] = ..., assignor: _Optional[str] = ..., members: _Optional[_Iterable[_Union[DescribedShareMember, _Mapping]]] = ...) -> None: ...

class DescribedShareMember(_message.Message):
    __slots__ = ("member_id", "rack_id", "member_epoch", "client_id", "client_host", "subscribed_topics", "assigned")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    rack_id: str
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topics: _containers.RepeatedScalarFieldContainer[str]
    assigned: _group_pb2.AssignedPartitions
    def __init__(self, member_id: _Optional[str] = ..., rack_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., subscribed_topics: _Optional[_Iterable[str]] = ..., assigned: _Optional[_Union[_group_pb2.AssignedPartitions, _Mapping]] = ...) -> None: ...

class ShareFetchRequest(_message.Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "max_wait_ms", "min_bytes", "max_bytes", "max_records", "batch_size", "acquire_mode", "is_renew_ack", "partitions", "forgotten", "client_id", "rack_id")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    SHARE_SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    ACQUIRE_MODE_FIELD_NUMBER: _ClassVar[int]
    IS_RENEW_ACK_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    acquire_mode: ShareAcquireMode
    is_renew_ack: bool
    partitions: _containers.RepeatedCompositeFieldContainer[SharePartitionFetch]
    forgotten: _containers.RepeatedCompositeFieldContainer[SharePartition]
    client_id: str
    rack_id: str
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., share_session_epoch: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., min_bytes: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_records: _Optional[int] = ..., batch_size: _Optional[int] = ..., acquire_mode: _Optional[_Union[ShareAcquireMode, str]] = ..., is_renew_ack: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[SharePartitionFetch, _Mapping]]] = ..., forgotten: _Optional[_Iterable[_Union[SharePartition, _Mapping]]] = ..., client_id: _Optional[str] = ..., rack_id: _Optional[str] = ...) -> None: ...

class SharePartition(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class SharePartitionFetch(_message.Message):
    __slots__ = ("topic_id", "partition", "acknowledgements")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    acknowledgements: _containers.RepeatedCompositeFieldContainer[AcknowledgementBatch]
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., acknowledgements: _Optional[_Iterable[_Union[AcknowledgementBatch, _Mapping]]] = ...) -> None: ...

class AcknowledgementBatch(_message.Message):
    __slots__ = ("first_offset", "last_offset", "types")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    last_offset: int
    types: bytes
    def __init__(self, first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., types: _Optional[bytes] = ...) -> None: ...

class ShareFetchResponse(_message.Message):
    __slots__ = ("error", "acquisition_lock_timeout_ms", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ACQUISITION_LOCK_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    acquisition_lock_timeout_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[SharePartitionData]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., acquisition_lock_timeout_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[SharePartitionData, _Mapping]]] = ...) -> None: ...

class SharePartitionData(_message.Message):
    __slots__ = ("error", "topic_id", "partition", "acknowledge_error", "current_leader", "current_leader_epoch", "batches", "acquired")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_ERROR_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic_id: str
    partition: int
    acknowledge_error: _common_pb2.Error
    current_leader: int
    current_leader_epoch: int
    batches: bytes
    acquired: _containers.RepeatedCompositeFieldContainer[AcquiredRecords]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., acknowledge_error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., current_leader: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., batches: _Optional[bytes] = ..., acquired: _Optional[_Iterable[_Union[AcquiredRecords, _Mapping]]] = ...) -> None: ...

class AcquiredRecords(_message.Message):
    __slots__ = ("first_offset", "last_offset", "delivery_count")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    last_offset: int
    delivery_count: int
    def __init__(self, first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., delivery_count: _Optional[int] = ...) -> None: ...

class ShareAcknowledgeRequest(_message.Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "partitions", "client_id")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    SHARE_SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_RENEW_ACK_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    member_id: str
    share_session_epoch: int
    is_renew_ack: bool
    partitions: _containers.RepeatedCompositeFieldContainer[SharePartitionFetch]
    client_id: str
    def __init__(self, group_id: _Optional[str] = ..., member_id: _Optional[str] = ..., share_session_epoch: _Optional[int] = ..., is_renew_ack: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[SharePartitionFetch, _Mapping]]] = ..., client_id: _Optional[str] = ...) -> None: ...

class ShareAcknowledgeResponse(_message.Message):
    __slots__ = ("error", "acquisition_lock_timeout_ms", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ACQUISITION_LOCK_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    acquisition_lock_timeout_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[SharePartitionAck]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., acquisition_lock_timeout_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[SharePartitionAck, _Mapping]]] = ...) -> None: ...

class SharePartitionAck(_message.Message):
    __slots__ = ("error", "topic_id", "partition", "current_leader", "current_leader_epoch")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic_id: str
    partition: int
    current_leader: int
    current_leader_epoch: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., current_leader: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ...) -> None: ...

class DescribeShareGroupOffsetsRequest(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[ShareGroupPartitions]
    def __init__(self, groups: _Optional[_Iterable[_Union[ShareGroupPartitions, _Mapping]]] = ...) -> None: ...

class ShareGroupPartitions(_message.Message):
    __slots__ = ("group_id", "all", "partitions")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    all: bool
    partitions: _containers.RepeatedCompositeFieldContainer[_group_pb2.PartitionName]
    def __init__(self, group_id: _Optional[str] = ..., all: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[_group_pb2.PartitionName, _Mapping]]] = ...) -> None: ...

class DescribeShareGroupOffsetsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[ShareGroupOffsets]
    def __init__(self, groups: _Optional[_Iterable[_Union[ShareGroupOffsets, _Mapping]]] = ...) -> None: ...

class ShareGroupOffsets(_message.Message):
    __slots__ = ("error", "group_id", "offsets")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    group_id: str
    offsets: _containers.RepeatedCompositeFieldContainer[ShareGroupOffset]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., group_id: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[ShareGroupOffset, _Mapping]]] = ...) -> None: ...

class ShareGroupOffset(_message.Message):
    __slots__ = ("error", "topic", "partition", "start_offset", "leader_epoch", "lag", "topic_id")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic: str
    partition: int
    start_offset: int
    leader_epoch: int
    lag: int
    topic_id: str
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., start_offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., lag: _Optional[int] = ..., topic_id: _Optional[str] = ...) -> None: ...

class AlterShareGroupOffsetsRequest(_message.Message):
    __slots__ = ("group_id", "offsets")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    offsets: _containers.RepeatedCompositeFieldContainer[ShareGroupOffset]
    def __init__(self, group_id: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[ShareGroupOffset, _Mapping]]] = ...) -> None: ...

class AlterShareGroupOffsetsResponse(_message.Message):
    __slots__ = ("error", "offsets")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    offsets: _containers.RepeatedCompositeFieldContainer[ShareGroupOffset]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., offsets: _Optional[_Iterable[_Union[ShareGroupOffset, _Mapping]]] = ...) -> None: ...

class DeleteShareGroupOffsetsRequest(_message.Message):
    __slots__ = ("group_id", "topics")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group_id: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteShareGroupOffsetsResponse(_message.Message):
    __slots__ = ("error", "topics")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topics: _containers.RepeatedCompositeFieldContainer[ShareGroupTopic]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[ShareGroupTopic, _Mapping]]] = ...) -> None: ...

class ShareGroupTopic(_message.Message):
    __slots__ = ("error", "topic", "topic_id")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic: str
    topic_id: str
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic: _Optional[str] = ..., topic_id: _Optional[str] = ...) -> None: ...
