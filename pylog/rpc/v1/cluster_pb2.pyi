from pylog.rpc.v1 import common_pb2 as _common_pb2
from pylog.rpc.v1 import records_pb2 as _records_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AuthenticateRequest(_message.Message):
    __slots__ = ("client_nonce", "server_nonce", "proof")
    CLIENT_NONCE_FIELD_NUMBER: _ClassVar[int]
    SERVER_NONCE_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    client_nonce: bytes
    server_nonce: bytes
    proof: bytes
    def __init__(self, client_nonce: _Optional[bytes] = ..., server_nonce: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class AuthenticateResponse(_message.Message):
    __slots__ = ("server_nonce", "proof")
    SERVER_NONCE_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    server_nonce: bytes
    proof: bytes
    def __init__(self, server_nonce: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class BrokerDirectory(_message.Message):
    __slots__ = ("broker_id", "directory_id", "cluster_id", "boot_id", "clean", "locked")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    CLEAN_FIELD_NUMBER: _ClassVar[int]
    LOCKED_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    directory_id: str
    cluster_id: str
    boot_id: str
    clean: bool
    locked: bool
    def __init__(self, broker_id: _Optional[int] = ..., directory_id: _Optional[str] = ..., cluster_id: _Optional[str] = ..., boot_id: _Optional[str] = ..., clean: _Optional[bool] = ..., locked: _Optional[bool] = ...) -> None: ...

class ClaimBrokerRequest(_message.Message):
    __slots__ = ("incarnation_id", "host_id", "directories", "slot")
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    incarnation_id: str
    host_id: str
    directories: _containers.RepeatedCompositeFieldContainer[BrokerDirectory]
    slot: int
    def __init__(self, incarnation_id: _Optional[str] = ..., host_id: _Optional[str] = ..., directories: _Optional[_Iterable[_Union[BrokerDirectory, _Mapping]]] = ..., slot: _Optional[int] = ...) -> None: ...

class ClaimBrokerResponse(_message.Message):
    __slots__ = ("error", "broker_id", "directory_id", "cluster_id", "retry_after_ms", "controller_epoch", "broker_epoch")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    broker_id: int
    directory_id: str
    cluster_id: str
    retry_after_ms: int
    controller_epoch: int
    broker_epoch: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., broker_id: _Optional[int] = ..., directory_id: _Optional[str] = ..., cluster_id: _Optional[str] = ..., retry_after_ms: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class RegisterBrokerRequest(_message.Message):
    __slots__ = ("broker_id", "incarnation_id", "cluster_id", "host_id", "rack", "client_endpoint", "replication_endpoint", "directory_id", "boot_id", "log_intact", "highest_controller_epoch", "failed_replicas", "lost_replicas", "static_config", "stream_endpoint", "log_dirs", "offline_log_dirs", "listeners", "software", "previous_broker_epoch")
    class StaticConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_INTACT_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FAILED_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LOST_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    STATIC_CONFIG_FIELD_NUMBER: _ClassVar[int]
    STREAM_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    LISTENERS_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    incarnation_id: str
    cluster_id: str
    host_id: str
    rack: str
    client_endpoint: _common_pb2.Endpoint
    replication_endpoint: _common_pb2.Endpoint
    directory_id: str
    boot_id: str
    log_intact: bool
    highest_controller_epoch: int
    failed_replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    lost_replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    static_config: _containers.ScalarMap[str, str]
    stream_endpoint: _common_pb2.Endpoint
    log_dirs: _containers.RepeatedCompositeFieldContainer[LogDirectory]
    offline_log_dirs: _containers.RepeatedScalarFieldContainer[str]
    listeners: _containers.RepeatedCompositeFieldContainer[_records_pb2.Listener]
    software: _records_pb2.Software
    previous_broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., incarnation_id: _Optional[str] = ..., cluster_id: _Optional[str] = ..., host_id: _Optional[str] = ..., rack: _Optional[str] = ..., client_endpoint: _Optional[_Union[_common_pb2.Endpoint, _Mapping]] = ..., replication_endpoint: _Optional[_Union[_common_pb2.Endpoint, _Mapping]] = ..., directory_id: _Optional[str] = ..., boot_id: _Optional[str] = ..., log_intact: _Optional[bool] = ..., highest_controller_epoch: _Optional[int] = ..., failed_replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ..., lost_replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ..., static_config: _Optional[_Mapping[str, str]] = ..., stream_endpoint: _Optional[_Union[_common_pb2.Endpoint, _Mapping]] = ..., log_dirs: _Optional[_Iterable[_Union[LogDirectory, _Mapping]]] = ..., offline_log_dirs: _Optional[_Iterable[str]] = ..., listeners: _Optional[_Iterable[_Union[_records_pb2.Listener, _Mapping]]] = ..., software: _Optional[_Union[_records_pb2.Software, _Mapping]] = ..., previous_broker_epoch: _Optional[int] = ...) -> None: ...

class LogDirectory(_message.Message):
    __slots__ = ("directory_id", "intact", "replicas")
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    INTACT_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    directory_id: str
    intact: bool
    replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    def __init__(self, directory_id: _Optional[str] = ..., intact: _Optional[bool] = ..., replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ...) -> None: ...

class Replica(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class RegisterBrokerResponse(_message.Message):
    __slots__ = ("error", "broker_epoch", "controller_epoch")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    broker_epoch: int
    controller_epoch: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., broker_epoch: _Optional[int] = ..., controller_epoch: _Optional[int] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "incarnation_id", "metadata_offset", "want_unfence")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WANT_UNFENCE_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    incarnation_id: str
    metadata_offset: int
    want_unfence: bool
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., incarnation_id: _Optional[str] = ..., metadata_offset: _Optional[int] = ..., want_unfence: _Optional[bool] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("fenced", "should_stop", "controller_epoch")
    FENCED_FIELD_NUMBER: _ClassVar[int]
    SHOULD_STOP_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    fenced: bool
    should_stop: bool
    controller_epoch: int
    def __init__(self, fenced: _Optional[bool] = ..., should_stop: _Optional[bool] = ..., controller_epoch: _Optional[int] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("error", "controller_epoch", "fenced")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    controller_epoch: int
    fenced: bool
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., controller_epoch: _Optional[int] = ..., fenced: _Optional[bool] = ...) -> None: ...

class WatchMetadataRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "from_offset")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    from_offset: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., from_offset: _Optional[int] = ...) -> None: ...

class MetadataBatch(_message.Message):
    __slots__ = ("controller_epoch", "first_offset", "snapshot", "records", "committed_offset", "previous_offset")
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_OFFSET_FIELD_NUMBER: _ClassVar[int]
    controller_epoch: int
    first_offset: int
    snapshot: bool
    records: _containers.RepeatedCompositeFieldContainer[_records_pb2.MetadataRecord]
    committed_offset: int
    previous_offset: int
    def __init__(self, controller_epoch: _Optional[int] = ..., first_offset: _Optional[int] = ..., snapshot: _Optional[bool] = ..., records: _Optional[_Iterable[_Union[_records_pb2.MetadataRecord, _Mapping]]] = ..., committed_offset: _Optional[int] = ..., previous_offset: _Optional[int] = ...) -> None: ...

class AlterPartitionRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "partitions")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionIsr]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionIsr, _Mapping]]] = ...) -> None: ...

class PartitionIsr(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "partition_epoch", "isr")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: _containers.RepeatedCompositeFieldContainer[BrokerState]
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[_Union[BrokerState, _Mapping]]] = ...) -> None: ...

class BrokerState(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class AlterPartitionResponse(_message.Message):
    __slots__ = ("error", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[AlteredPartition]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[AlteredPartition, _Mapping]]] = ...) -> None: ...

class AlteredPartition(_message.Message):
    __slots__ = ("error", "topic_id", "partition", "leader", "leader_epoch", "isr", "partition_epoch")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    isr: _containers.RepeatedScalarFieldContainer[int]
    partition_epoch: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[int]] = ..., partition_epoch: _Optional[int] = ...) -> None: ...

class ReplicasFailedRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "replicas", "reason", "log_dirs")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    reason: str
    log_dirs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ..., reason: _Optional[str] = ..., log_dirs: _Optional[_Iterable[str]] = ...) -> None: ...

class ReplicasFailedResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class AllocateProducerIdsRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class AllocateProducerIdsResponse(_message.Message):
    __slots__ = ("error", "first_producer_id", "count")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FIRST_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    first_producer_id: int
    count: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., first_producer_id: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class EnsureInternalTopicRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "name")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    name: str
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class EnsureInternalTopicResponse(_message.Message):
    __slots__ = ("error", "name", "topic_id", "num_partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    name: str
    topic_id: str
    num_partitions: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., name: _Optional[str] = ..., topic_id: _Optional[str] = ..., num_partitions: _Optional[int] = ...) -> None: ...

class StreamsTopic(_message.Message):
    __slots__ = ("name", "num_partitions", "replication_factor", "config")
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUM_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    name: str
    num_partitions: int
    replication_factor: int
    config: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., num_partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., config: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateStreamsTopicsRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[StreamsTopic]
    def __init__(self, topics: _Optional[_Iterable[_Union[StreamsTopic, _Mapping]]] = ...) -> None: ...

class CreateStreamsTopicsResponse(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[CreatedStreamsTopic]
    def __init__(self, topics: _Optional[_Iterable[_Union[CreatedStreamsTopic, _Mapping]]] = ...) -> None: ...

class CreatedStreamsTopic(_message.Message):
    __slots__ = ("name", "error")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    name: str
    error: _common_pb2.Error
    def __init__(self, name: _Optional[str] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class ControlledShutdownRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class ControlledShutdownResponse(_message.Message):
    __slots__ = ("error", "remaining_leaders")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REMAINING_LEADERS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    remaining_leaders: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., remaining_leaders: _Optional[int] = ...) -> None: ...
