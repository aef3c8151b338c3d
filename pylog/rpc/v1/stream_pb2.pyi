from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StreamKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STREAM_UNKNOWN: _ClassVar[StreamKind]
    STREAM_PRODUCE: _ClassVar[StreamKind]
    STREAM_FETCH: _ClassVar[StreamKind]
    STREAM_CALLS: _ClassVar[StreamKind]
STREAM_UNKNOWN: StreamKind
STREAM_PRODUCE: StreamKind
STREAM_FETCH: StreamKind
STREAM_CALLS: StreamKind

class StreamHello(_message.Message):
    __slots__ = ("version", "kind", "cluster_id", "broker_id", "client_id", "software_name", "software_version", "apis")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_NAME_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    APIS_FIELD_NUMBER: _ClassVar[int]
    version: int
    kind: StreamKind
    cluster_id: str
    broker_id: int
    client_id: str
    software_name: str
    software_version: str
    apis: _containers.RepeatedCompositeFieldContainer[ApiVersion]
    def __init__(self, version: _Optional[int] = ..., kind: _Optional[_Union[StreamKind, str]] = ..., cluster_id: _Optional[str] = ..., broker_id: _Optional[int] = ..., client_id: _Optional[str] = ..., software_name: _Optional[str] = ..., software_version: _Optional[str] = ..., apis: _Optional[_Iterable[_Union[ApiVersion, _Mapping]]] = ...) -> None: ...

class ApiVersion(_message.Message):
    __slots__ = ("key", "version_max")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    key: int
    version_max: int
    def __init__(self, key: _Optional[int] = ..., version_max: _Optional[int] = ...) -> None: ...

class StreamWelcome(_message.Message):
    __slots__ = ("version", "broker_id", "broker_epoch", "frame_bytes_max", "calls_max", "software_name", "software_version", "apis")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FRAME_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    CALLS_MAX_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_NAME_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    APIS_FIELD_NUMBER: _ClassVar[int]
    version: int
    broker_id: int
    broker_epoch: int
    frame_bytes_max: int
    calls_max: int
    software_name: str
    software_version: str
    apis: _containers.RepeatedCompositeFieldContainer[ApiVersion]
    def __init__(self, version: _Optional[int] = ..., broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., frame_bytes_max: _Optional[int] = ..., calls_max: _Optional[int] = ..., software_name: _Optional[str] = ..., software_version: _Optional[str] = ..., apis: _Optional[_Iterable[_Union[ApiVersion, _Mapping]]] = ...) -> None: ...
