"""The table of APIs says what the services say."""

from __future__ import annotations

from pylog.rpc.apis import UNARY_APIS
from pylog.rpc.v1 import (
    admin_pb2,
    group_pb2,
    log_pb2,
    share_pb2,
    sink_pb2,
    streams_group_pb2,
    transaction_pb2,
)

FOR_SIMPLE_CLIENTS = {"/pylog.v1.Log/Produce", "/pylog.v1.Log/Fetch"}
"""pylog's own clients have streams for these."""


def test_each_unary_call_of_the_services_has_its_row() -> None:
    offered = {}
    files = (
        log_pb2, group_pb2, streams_group_pb2, share_pb2, sink_pb2, admin_pb2, transaction_pb2,
    )  # fmt: skip
    for messages in files:
        file = messages.DESCRIPTOR
        for service in file.services_by_name.values():
            for method in service.methods:
                if not method.client_streaming:
                    path = f"/{service.full_name}/{method.name}"
                    offered[path] = (method.input_type.full_name, method.output_type.full_name)
    rows = {
        api.path: (api.request.DESCRIPTOR.full_name, api.response.DESCRIPTOR.full_name)
        for api in UNARY_APIS
    }
    assert {*offered} - {*rows} == FOR_SIMPLE_CLIENTS
    assert rows == {path: offered[path] for path in rows}


def test_each_row_has_a_key_of_its_own_that_two_bytes_hold() -> None:
    keys = {api.key for api in UNARY_APIS}
    assert len(keys) == len(UNARY_APIS)
    assert all(0 <= key < 1 << 15 for key in keys)
    assert all(0 <= api.version_max < 1 << 15 for api in UNARY_APIS)
