from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Error(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("host", "port")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class Broker(_message.Message):
    __slots__ = ("id", "endpoint", "rack", "epoch", "stream_endpoint", "fenced_since_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STREAM_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    FENCED_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    id: int
    endpoint: Endpoint
    rack: str
    epoch: int
    stream_endpoint: Endpoint
    fenced_since_ms: int
    def __init__(self, id: _Optional[int] = ..., endpoint: _Optional[_Union[Endpoint, _Mapping]] = ..., rack: _Optional[str] = ..., epoch: _Optional[int] = ..., stream_endpoint: _Optional[_Union[Endpoint, _Mapping]] = ..., fenced_since_ms: _Optional[int] = ...) -> None: ...
