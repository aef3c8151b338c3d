"""Echo's row in the table of APIs (`pylog/rpc/apis.py`). Its messages are protobuf's own, where an
API has messages in `proto/`.
"""

from __future__ import annotations

from typing import Final

from google.protobuf import struct_pb2, wrappers_pb2

from pylog.rpc.apis import UnaryApi

ECHO: Final = UnaryApi(10_900, "Log", "Echo", wrappers_pb2.StringValue, struct_pb2.Struct)
