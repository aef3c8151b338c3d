from pylog.rpc.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IsolationLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READ_UNCOMMITTED: _ClassVar[IsolationLevel]
    READ_COMMITTED: _ClassVar[IsolationLevel]
READ_UNCOMMITTED: IsolationLevel
READ_COMMITTED: IsolationLevel

class MetadataRequest(_message.Message):
    __slots__ = ("topics", "all_topics", "topic_ids", "include_fenced_brokers")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ALL_TOPICS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_FENCED_BROKERS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    all_topics: bool
    topic_ids: _containers.RepeatedScalarFieldContainer[str]
    include_fenced_brokers: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., all_topics: _Optional[bool] = ..., topic_ids: _Optional[_Iterable[str]] = ..., include_fenced_brokers: _Optional[bool] = ...) -> None: ...

class MetadataResponse(_message.Message):
    __slots__ = ("cluster_id", "controller_epoch", "brokers", "controller", "topics", "metadata_offset", "gateway", "controller_since_ms", "fenced_brokers")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    FENCED_BROKERS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller_epoch: int
    brokers: _containers.RepeatedCompositeFieldContainer[_common_pb2.Broker]
    controller: _common_pb2.Endpoint
    topics: _containers.RepeatedCompositeFieldContainer[TopicMetadata]
    metadata_offset: int
    gateway: bool
    controller_since_ms: int
    fenced_brokers: _containers.RepeatedCompositeFieldContainer[_common_pb2.Broker]
    def __init__(self, cluster_id: _Optional[str] = ..., controller_epoch: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[_common_pb2.Broker, _Mapping]]] = ..., controller: _Optional[_Union[_common_pb2.Endpoint, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicMetadata, _Mapping]]] = ..., metadata_offset: _Optional[int] = ..., gateway: _Optional[bool] = ..., controller_since_ms: _Optional[int] = ..., fenced_brokers: _Optional[_Iterable[_Union[_common_pb2.Broker, _Mapping]]] = ...) -> None: ...

class TopicMetadata(_message.Message):
    __slots__ = ("error", "name", "topic_id", "internal", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    name: str
    topic_id: str
    internal: bool
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionMetadata]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., name: _Optional[str] = ..., topic_id: _Optional[str] = ..., internal: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[PartitionMetadata, _Mapping]]] = ...) -> None: ...

class PartitionMetadata(_message.Message):
    __slots__ = ("error", "partition", "leader", "leader_epoch", "replicas", "isr", "eligible_leader_replicas", "offline_replicas", "partition_epoch")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_LEADER_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partition: int
    leader: int
    leader_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    isr: _containers.RepeatedScalarFieldContainer[int]
    eligible_leader_replicas: _containers.RepeatedScalarFieldContainer[int]
    offline_replicas: _containers.RepeatedScalarFieldContainer[int]
    partition_epoch: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partition: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[int]] = ..., eligible_leader_replicas: _Optional[_Iterable[int]] = ..., offline_replicas: _Optional[_Iterable[int]] = ..., partition_epoch: _Optional[int] = ...) -> None: ...

class ProduceRequest(_message.Message):
    __slots__ = ("correlation", "acks", "timeout_ms", "batches", "client_id", "following", "transactional_id", "transaction_version")
    CORRELATION_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    FOLLOWING_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    correlation: int
    acks: int
    timeout_ms: int
    batches: _containers.RepeatedCompositeFieldContainer[PartitionBatch]
    client_id: str
    following: _containers.RepeatedCompositeFieldContainer[ProduceRequest]
    transactional_id: str
    transaction_version: int
    def __init__(self, correlation: _Optional[int] = ..., acks: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[PartitionBatch, _Mapping]]] = ..., client_id: _Optional[str] = ..., following: _Optional[_Iterable[_Union[ProduceRequest, _Mapping]]] = ..., transactional_id: _Optional[str] = ..., transaction_version: _Optional[int] = ...) -> None: ...

class PartitionBatch(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "batch")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    partition: int
    batch: bytes
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., batch: _Optional[bytes] = ...) -> None: ...

class ProduceResponse(_message.Message):
    __slots__ = ("correlation", "acks", "following")
    CORRELATION_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWING_FIELD_NUMBER: _ClassVar[int]
    correlation: int
    acks: _containers.RepeatedCompositeFieldContainer[PartitionAck]
    following: _containers.RepeatedCompositeFieldContainer[ProduceResponse]
    def __init__(self, correlation: _Optional[int] = ..., acks: _Optional[_Iterable[_Union[PartitionAck, _Mapping]]] = ..., following: _Optional[_Iterable[_Union[ProduceResponse, _Mapping]]] = ...) -> None: ...

class PartitionAck(_message.Message):
    __slots__ = ("error", "topic", "partition", "base_offset", "log_append_time_ms", "log_start_offset", "current_leader", "current_leader_epoch", "record_index")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_APPEND_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECORD_INDEX_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic: str
    partition: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    current_leader: int
    current_leader_epoch: int
    record_index: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., base_offset: _Optional[int] = ..., log_append_time_ms: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., current_leader: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., record_index: _Optional[int] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("correlation", "max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "partitions", "client_id", "rack_id", "standing_answers", "standing_bytes")
    CORRELATION_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_ID_FIELD_NUMBER: _ClassVar[int]
    STANDING_ANSWERS_FIELD_NUMBER: _ClassVar[int]
    STANDING_BYTES_FIELD_NUMBER: _ClassVar[int]
    correlation: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: IsolationLevel
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionFetch]
    client_id: str
    rack_id: str
    standing_answers: int
    standing_bytes: int
    def __init__(self, correlation: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., min_bytes: _Optional[int] = ..., max_bytes: _Optional[int] = ..., isolation_level: _Optional[_Union[IsolationLevel, str]] = ..., partitions: _Optional[_Iterable[_Union[PartitionFetch, _Mapping]]] = ..., client_id: _Optional[str] = ..., rack_id: _Optional[str] = ..., standing_answers: _Optional[int] = ..., standing_bytes: _Optional[int] = ...) -> None: ...

class PartitionFetch(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "fetch_offset", "max_bytes", "current_leader_epoch", "last_fetched_epoch")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FETCH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_FETCHED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., fetch_offset: _Optional[int] = ..., max_bytes: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., last_fetched_epoch: _Optional[int] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("correlation", "partitions", "stands")
    CORRELATION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    STANDS_FIELD_NUMBER: _ClassVar[int]
    correlation: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionData]
    stands: bool
    def __init__(self, correlation: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionData, _Mapping]]] = ..., stands: _Optional[bool] = ...) -> None: ...

class PartitionData(_message.Message):
    __slots__ = ("error", "topic", "partition", "high_watermark", "last_stable_offset", "log_start_offset", "batches", "aborted", "current_leader", "current_leader_epoch", "preferred_read_replica", "diverging", "damaged_end_offset")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_READ_REPLICA_FIELD_NUMBER: _ClassVar[int]
    DIVERGING_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic: str
    partition: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    batches: bytes
    aborted: _containers.RepeatedCompositeFieldContainer[AbortedTransaction]
    current_leader: int
    current_leader_epoch: int
    preferred_read_replica: int
    diverging: EpochEnd
    damaged_end_offset: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., high_watermark: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., batches: _Optional[bytes] = ..., aborted: _Optional[_Iterable[_Union[AbortedTransaction, _Mapping]]] = ..., current_leader: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., preferred_read_replica: _Optional[int] = ..., diverging: _Optional[_Union[EpochEnd, _Mapping]] = ..., damaged_end_offset: _Optional[int] = ...) -> None: ...

class AbortedTransaction(_message.Message):
    __slots__ = ("producer_id", "first_offset")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    first_offset: int
    def __init__(self, producer_id: _Optional[int] = ..., first_offset: _Optional[int] = ...) -> None: ...

class EpochEnd(_message.Message):
    __slots__ = ("epoch", "end_offset")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    end_offset: int
    def __init__(self, epoch: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class ListOffsetsRequest(_message.Message):
    __slots__ = ("partitions", "isolation_level")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_LEVEL_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionTimestamp]
    isolation_level: IsolationLevel
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionTimestamp, _Mapping]]] = ..., isolation_level: _Optional[_Union[IsolationLevel, str]] = ...) -> None: ...

class PartitionTimestamp(_message.Message):
    __slots__ = ("topic", "partition", "timestamp_ms", "current_leader_epoch", "from_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    timestamp_ms: int
    current_leader_epoch: int
    from_offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., from_offset: _Optional[int] = ...) -> None: ...

class ListOffsetsResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ...) -> None: ...

class PartitionOffset(_message.Message):
    __slots__ = ("error", "topic", "partition", "offset", "timestamp_ms", "leader_epoch", "topic_id")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    leader_epoch: int
    topic_id: str
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., topic_id: _Optional[str] = ...) -> None: ...

class SplitRangesRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[RangeToSplit]
    def __init__(self, partitions: _Optional[_Iterable[_Union[RangeToSplit, _Mapping]]] = ...) -> None: ...

class RangeToSplit(_message.Message):
    __slots__ = ("topic", "partition", "current_leader_epoch", "start_offset", "end_offset", "piece_bytes", "pieces_max", "even")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PIECE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PIECES_MAX_FIELD_NUMBER: _ClassVar[int]
    EVEN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    current_leader_epoch: int
    start_offset: int
    end_offset: int
    piece_bytes: int
    pieces_max: int
    even: bool
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., piece_bytes: _Optional[int] = ..., pieces_max: _Optional[int] = ..., even: _Optional[bool] = ...) -> None: ...

class SplitRangesResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[SplitRange]
    def __init__(self, partitions: _Optional[_Iterable[_Union[SplitRange, _Mapping]]] = ...) -> None: ...

class SplitRange(_message.Message):
    __slots__ = ("error", "topic", "partition", "topic_id", "bytes", "pieces", "next")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic: str
    partition: int
    topic_id: str
    bytes: int
    pieces: _containers.RepeatedCompositeFieldContainer[RangePiece]
    next: RangePiece
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., topic_id: _Optional[str] = ..., bytes: _Optional[int] = ..., pieces: _Optional[_Iterable[_Union[RangePiece, _Mapping]]] = ..., next: _Optional[_Union[RangePiece, _Mapping]] = ...) -> None: ...

class RangePiece(_message.Message):
    __slots__ = ("end_offset", "bytes")
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    end_offset: int
    bytes: int
    def __init__(self, end_offset: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class AwaitRecordsRequest(_message.Message):
    __slots__ = ("partitions", "min_records", "max_wait_ms", "isolation_level")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MIN_RECORDS_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_LEVEL_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[WaitedPartition]
    min_records: int
    max_wait_ms: int
    isolation_level: IsolationLevel
    def __init__(self, partitions: _Optional[_Iterable[_Union[WaitedPartition, _Mapping]]] = ..., min_records: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., isolation_level: _Optional[_Union[IsolationLevel, str]] = ...) -> None: ...

class WaitedPartition(_message.Message):
    __slots__ = ("topic", "partition", "current_leader_epoch", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    current_leader_epoch: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class AwaitRecordsResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[WaitedPartitionEnd]
    def __init__(self, partitions: _Optional[_Iterable[_Union[WaitedPartitionEnd, _Mapping]]] = ...) -> None: ...

class WaitedPartitionEnd(_message.Message):
    __slots__ = ("error", "topic", "partition", "end_offset")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic: str
    partition: int
    end_offset: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class DescribeTransactionsInRangeRequest(_message.Message):
    __slots__ = ("partitions", "named")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[TransactionRange]
    named: _containers.RepeatedCompositeFieldContainer[TransactionName]
    def __init__(self, partitions: _Optional[_Iterable[_Union[TransactionRange, _Mapping]]] = ..., named: _Optional[_Iterable[_Union[TransactionName, _Mapping]]] = ...) -> None: ...

class TransactionRange(_message.Message):
    __slots__ = ("topic", "partition", "current_leader_epoch", "start_offset", "end_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    current_leader_epoch: int
    start_offset: int
    end_offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class TransactionName(_message.Message):
    __slots__ = ("producer_id", "producer_epoch")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ...) -> None: ...

class DescribeTransactionsInRangeResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[DescribedTransactions]
    def __init__(self, partitions: _Optional[_Iterable[_Union[DescribedTransactions, _Mapping]]] = ...) -> None: ...

class DescribedTransactions(_message.Message):
    __slots__ = ("error", "topic", "partition", "topic_id", "last_stable_offset", "next_offset", "transactions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic: str
    partition: int
    topic_id: str
    last_stable_offset: int
    next_offset: int
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionSpan]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., topic_id: _Optional[str] = ..., last_stable_offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., transactions: _Optional[_Iterable[_Union[TransactionSpan, _Mapping]]] = ...) -> None: ...

class TransactionSpan(_message.Message):
    __slots__ = ("producer_id", "producer_epoch", "first_offset", "marker_offset")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MARKER_OFFSET_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    first_offset: int
    marker_offset: int
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., first_offset: _Optional[int] = ..., marker_offset: _Optional[int] = ...) -> None: ...

class LeaseReadsRequest(_message.Message):
    __slots__ = ("holder", "timeout_ms", "renew", "topics", "followed")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWED_FIELD_NUMBER: _ClassVar[int]
    holder: str
    timeout_ms: int
    renew: bool
    topics: _containers.RepeatedCompositeFieldContainer[LeasedTopic]
    followed: _containers.RepeatedCompositeFieldContainer[LeasedTopic]
    def __init__(self, holder: _Optional[str] = ..., timeout_ms: _Optional[int] = ..., renew: _Optional[bool] = ..., topics: _Optional[_Iterable[_Union[LeasedTopic, _Mapping]]] = ..., followed: _Optional[_Iterable[_Union[LeasedTopic, _Mapping]]] = ...) -> None: ...

class LeasedTopic(_message.Message):
    __slots__ = ("topic", "topic_id", "partitions", "start_offsets", "end_offsets", "current_leader_epochs")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    START_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    END_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    start_offsets: _containers.RepeatedScalarFieldContainer[int]
    end_offsets: _containers.RepeatedScalarFieldContainer[int]
    current_leader_epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., start_offsets: _Optional[_Iterable[int]] = ..., end_offsets: _Optional[_Iterable[int]] = ..., current_leader_epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class LeaseReadsResponse(_message.Message):
    __slots__ = ("timeout_ms", "refused")
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    timeout_ms: int
    refused: _containers.RepeatedCompositeFieldContainer[RefusedLease]
    def __init__(self, timeout_ms: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[RefusedLease, _Mapping]]] = ...) -> None: ...

class RefusedLease(_message.Message):
    __slots__ = ("error", "topic", "partition")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic: str
    partition: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class OpenLocalReadRequest(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "current_leader_epoch", "start_offset", "end_offset", "isolation_level", "machine_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    partition: int
    current_leader_epoch: int
    start_offset: int
    end_offset: int
    isolation_level: IsolationLevel
    machine_id: str
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., isolation_level: _Optional[_Union[IsolationLevel, str]] = ..., machine_id: _Optional[str] = ...) -> None: ...

class OpenLocalReadResponse(_message.Message):
    __slots__ = ("error", "end_offset", "socket_path", "token", "files", "aborted")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SOCKET_PATH_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    end_offset: int
    socket_path: str
    token: bytes
    files: _containers.RepeatedCompositeFieldContainer[FileRange]
    aborted: _containers.RepeatedCompositeFieldContainer[AbortedRange]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., end_offset: _Optional[int] = ..., socket_path: _Optional[str] = ..., token: _Optional[bytes] = ..., files: _Optional[_Iterable[_Union[FileRange, _Mapping]]] = ..., aborted: _Optional[_Iterable[_Union[AbortedRange, _Mapping]]] = ...) -> None: ...

class FileRange(_message.Message):
    __slots__ = ("begin", "end")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    begin: int
    end: int
    def __init__(self, begin: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class AbortedRange(_message.Message):
    __slots__ = ("producer_id", "first_offset", "last_offset")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    first_offset: int
    last_offset: int
    def __init__(self, producer_id: _Optional[int] = ..., first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ...) -> None: ...

class InitProducerIdRequest(_message.Message):
    __slots__ = ("transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch", "client_id", "delivery_timeout_ms", "enable_2pc", "keep_prepared_txn")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ENABLE_2PC_FIELD_NUMBER: _ClassVar[int]
    KEEP_PREPARED_TXN_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int
    client_id: str
    delivery_timeout_ms: int
    enable_2pc: bool
    keep_prepared_txn: bool
    def __init__(self, transactional_id: _Optional[str] = ..., transaction_timeout_ms: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., client_id: _Optional[str] = ..., delivery_timeout_ms: _Optional[int] = ..., enable_2pc: _Optional[bool] = ..., keep_prepared_txn: _Optional[bool] = ...) -> None: ...

class InitProducerIdResponse(_message.Message):
    __slots__ = ("error", "producer_id", "producer_epoch", "throttle_time_ms", "ongoing_txn_producer_id", "ongoing_txn_producer_epoch")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    THROTTLE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    ONGOING_TXN_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    ONGOING_TXN_PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    producer_id: int
    producer_epoch: int
    throttle_time_ms: int
    ongoing_txn_producer_id: int
    ongoing_txn_producer_epoch: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., throttle_time_ms: _Optional[int] = ..., ongoing_txn_producer_id: _Optional[int] = ..., ongoing_txn_producer_epoch: _Optional[int] = ...) -> None: ...

class DeleteRecordsRequest(_message.Message):
    __slots__ = ("partitions", "timeout_ms")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionCut]
    timeout_ms: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionCut, _Mapping]]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class PartitionCut(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class DeleteRecordsResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionLowWatermark]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionLowWatermark, _Mapping]]] = ...) -> None: ...

class PartitionLowWatermark(_message.Message):
    __slots__ = ("error", "topic", "partition", "low_watermark")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LOW_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic: str
    partition: int
    low_watermark: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., low_watermark: _Optional[int] = ...) -> None: ...

class OffsetForLeaderEpochRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionEpoch]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionEpoch, _Mapping]]] = ...) -> None: ...

class PartitionEpoch(_message.Message):
    __slots__ = ("topic", "partition", "leader_epoch", "current_leader_epoch")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    leader_epoch: int
    current_leader_epoch: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ...) -> None: ...

class OffsetForLeaderEpochResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionEpochEnd]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionEpochEnd, _Mapping]]] = ...) -> None: ...

class PartitionEpochEnd(_message.Message):
    __slots__ = ("error", "topic", "partition", "leader_epoch", "end_offset")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    topic: str
    partition: int
    leader_epoch: int
    end_offset: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...
