from pylog.rpc.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SinkKey(_message.Message):
    __slots__ = ("query_id", "sink_id")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    SINK_ID_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    sink_id: str
    def __init__(self, query_id: _Optional[str] = ..., sink_id: _Optional[str] = ...) -> None: ...

class SinkMember(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ...) -> None: ...

class SinkRange(_message.Message):
    __slots__ = ("topic", "partition", "first_offset", "last_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ...) -> None: ...

class OverwrittenTopic(_message.Message):
    __slots__ = ("topic", "topic_id", "starts")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    starts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., starts: _Optional[_Iterable[int]] = ...) -> None: ...

class SinkDecision(_message.Message):
    __slots__ = ("batch_id", "run_number", "row_count", "checksum", "digest", "decided_ms", "expires_ms", "receipt", "overwritten")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DECIDED_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    OVERWRITTEN_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    run_number: int
    row_count: int
    checksum: int
    digest: str
    decided_ms: int
    expires_ms: int
    receipt: _containers.RepeatedCompositeFieldContainer[SinkRange]
    overwritten: _containers.RepeatedCompositeFieldContainer[OverwrittenTopic]
    def __init__(self, batch_id: _Optional[int] = ..., run_number: _Optional[int] = ..., row_count: _Optional[int] = ..., checksum: _Optional[int] = ..., digest: _Optional[str] = ..., decided_ms: _Optional[int] = ..., expires_ms: _Optional[int] = ..., receipt: _Optional[_Iterable[_Union[SinkRange, _Mapping]]] = ..., overwritten: _Optional[_Iterable[_Union[OverwrittenTopic, _Mapping]]] = ...) -> None: ...

class BeginSinkTaskRequest(_message.Message):
    __slots__ = ("sink", "run_id", "batch_id", "task", "attempt", "progress_group", "progress_digest")
    SINK_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_GROUP_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    sink: SinkKey
    run_id: str
    batch_id: int
    task: int
    attempt: int
    progress_group: str
    progress_digest: str
    def __init__(self, sink: _Optional[_Union[SinkKey, _Mapping]] = ..., run_id: _Optional[str] = ..., batch_id: _Optional[int] = ..., task: _Optional[int] = ..., attempt: _Optional[int] = ..., progress_group: _Optional[str] = ..., progress_digest: _Optional[str] = ...) -> None: ...

class BeginSinkTaskResponse(_message.Message):
    __slots__ = ("error", "member", "decided", "lease_ms", "of_progress")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    OF_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    member: SinkMember
    decided: SinkDecision
    lease_ms: int
    of_progress: bool
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., member: _Optional[_Union[SinkMember, _Mapping]] = ..., decided: _Optional[_Union[SinkDecision, _Mapping]] = ..., lease_ms: _Optional[int] = ..., of_progress: _Optional[bool] = ...) -> None: ...

class RenewSinkTaskRequest(_message.Message):
    __slots__ = ("sink", "member")
    SINK_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    sink: SinkKey
    member: SinkMember
    def __init__(self, sink: _Optional[_Union[SinkKey, _Mapping]] = ..., member: _Optional[_Union[SinkMember, _Mapping]] = ...) -> None: ...

class RenewSinkTaskResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class PrepareSinkTaskRequest(_message.Message):
    __slots__ = ("sink", "member", "timeout_ms")
    SINK_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    sink: SinkKey
    member: SinkMember
    timeout_ms: int
    def __init__(self, sink: _Optional[_Union[SinkKey, _Mapping]] = ..., member: _Optional[_Union[SinkMember, _Mapping]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class PrepareSinkTaskResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class DecideSinkBatchRequest(_message.Message):
    __slots__ = ("sink", "run_id", "batch_id", "members", "row_count", "checksum", "digest", "receipt", "keep_ms", "overwritten", "visible_timeout_ms", "progress_groups")
    SINK_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    KEEP_MS_FIELD_NUMBER: _ClassVar[int]
    OVERWRITTEN_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_GROUPS_FIELD_NUMBER: _ClassVar[int]
    sink: SinkKey
    run_id: str
    batch_id: int
    members: _containers.RepeatedCompositeFieldContainer[SinkMember]
    row_count: int
    checksum: int
    digest: str
    receipt: _containers.RepeatedCompositeFieldContainer[SinkRange]
    keep_ms: int
    overwritten: _containers.RepeatedCompositeFieldContainer[OverwrittenTopic]
    visible_timeout_ms: int
    progress_groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sink: _Optional[_Union[SinkKey, _Mapping]] = ..., run_id: _Optional[str] = ..., batch_id: _Optional[int] = ..., members: _Optional[_Iterable[_Union[SinkMember, _Mapping]]] = ..., row_count: _Optional[int] = ..., checksum: _Optional[int] = ..., digest: _Optional[str] = ..., receipt: _Optional[_Iterable[_Union[SinkRange, _Mapping]]] = ..., keep_ms: _Optional[int] = ..., overwritten: _Optional[_Iterable[_Union[OverwrittenTopic, _Mapping]]] = ..., visible_timeout_ms: _Optional[int] = ..., progress_groups: _Optional[_Iterable[str]] = ...) -> None: ...

class DecideSinkBatchResponse(_message.Message):
    __slots__ = ("error", "decision", "is_new")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    decision: SinkDecision
    is_new: bool
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., decision: _Optional[_Union[SinkDecision, _Mapping]] = ..., is_new: _Optional[bool] = ...) -> None: ...

class AbortSinkBatchRequest(_message.Message):
    __slots__ = ("sink", "run_id", "batch_id", "whole_sink", "member", "ends_run")
    SINK_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    WHOLE_SINK_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ENDS_RUN_FIELD_NUMBER: _ClassVar[int]
    sink: SinkKey
    run_id: str
    batch_id: int
    whole_sink: bool
    member: SinkMember
    ends_run: bool
    def __init__(self, sink: _Optional[_Union[SinkKey, _Mapping]] = ..., run_id: _Optional[str] = ..., batch_id: _Optional[int] = ..., whole_sink: _Optional[bool] = ..., member: _Optional[_Union[SinkMember, _Mapping]] = ..., ends_run: _Optional[bool] = ...) -> None: ...

class AbortSinkBatchResponse(_message.Message):
    __slots__ = ("error", "attempts")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    attempts: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., attempts: _Optional[int] = ...) -> None: ...

class ListSinksRequest(_message.Message):
    __slots__ = ("query_id", "sink_id", "receipts")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    SINK_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    sink_id: str
    receipts: bool
    def __init__(self, query_id: _Optional[str] = ..., sink_id: _Optional[str] = ..., receipts: _Optional[bool] = ...) -> None: ...

class ListSinksResponse(_message.Message):
    __slots__ = ("error", "sinks")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    sinks: _containers.RepeatedCompositeFieldContainer[ListedSink]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., sinks: _Optional[_Iterable[_Union[ListedSink, _Mapping]]] = ...) -> None: ...

class ListedSink(_message.Message):
    __slots__ = ("sink", "run_id", "last", "open_attempts", "prepared_attempts", "held_since_ms", "prepared_since_ms", "progress_groups")
    SINK_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    OPEN_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PREPARED_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    HELD_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    PREPARED_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_GROUPS_FIELD_NUMBER: _ClassVar[int]
    sink: SinkKey
    run_id: str
    last: SinkDecision
    open_attempts: int
    prepared_attempts: int
    held_since_ms: int
    prepared_since_ms: int
    progress_groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sink: _Optional[_Union[SinkKey, _Mapping]] = ..., run_id: _Optional[str] = ..., last: _Optional[_Union[SinkDecision, _Mapping]] = ..., open_attempts: _Optional[int] = ..., prepared_attempts: _Optional[int] = ..., held_since_ms: _Optional[int] = ..., prepared_since_ms: _Optional[int] = ..., progress_groups: _Optional[_Iterable[str]] = ...) -> None: ...

class ForgetSinkRequest(_message.Message):
    __slots__ = ("sink",)
    SINK_FIELD_NUMBER: _ClassVar[int]
    sink: SinkKey
    def __init__(self, sink: _Optional[_Union[SinkKey, _Mapping]] = ...) -> None: ...

class ForgetSinkResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...
