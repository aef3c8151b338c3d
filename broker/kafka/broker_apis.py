"""Brokers' calls of each other beside Fetch: a row for each API, and its handler.

A row names the generated codec and the version that both sides speak. A new API is a schema in
`schemas/`, its module in the tables of `headers` and of `node.software`, a row here, and a handler
that `BoundBrokerApi` ties to it; `BrokerCalls.call` sends it, and `ReplicationServer` answers it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pylog import errors
from pylog_broker.api.context import RequestContext
from pylog_broker.kafka.generated import add_partitions_to_txn, write_txn_markers
from pylog_broker.kafka_primitives import Chunks

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class BrokerApi(Generic[RequestT, ResponseT]):
    """One call between brokers. `counted_as`: its name among the counters and in the request log,
    where clients have an API of the same name.
    """

    key: int
    counted_as: str
    version: int
    encode_request: Callable[[RequestT, int], Chunks]
    decode_request: Callable[[memoryview, int, int], RequestT]
    encode_response: Callable[[ResponseT, int], Chunks]
    decode_response: Callable[[memoryview, int, int], ResponseT]


@dataclass(frozen=True, slots=True)
class BoundBrokerApi(Generic[RequestT, ResponseT]):
    """An API and its handler. `refused` makes an answer of the error that a call fails with."""

    api: BrokerApi[RequestT, ResponseT]
    handle: Callable[[RequestContext, RequestT], Awaitable[ResponseT]]
    refused: Callable[[RequestT, errors.PylogError], ResponseT]


AnyBoundBrokerApi: TypeAlias = BoundBrokerApi[Any, Any]

ADD_PARTITIONS_TO_TXN: Final = BrokerApi(
    add_partitions_to_txn.KEY,
    "AddPartitionsToTxnOfBroker",
    5,
    add_partitions_to_txn.encode_request,
    add_partitions_to_txn.decode_request,
    add_partitions_to_txn.encode_response,
    add_partitions_to_txn.decode_response,
)
WRITE_TXN_MARKERS: Final = BrokerApi(
    write_txn_markers.KEY,
    "WriteTxnMarkersOfBroker",
    2,
    write_txn_markers.encode_request,
    write_txn_markers.decode_request,
    write_txn_markers.encode_response,
    write_txn_markers.decode_response,
)
