"""The producer's requests to the coordinators of its transactions and of groups, as calls."""

from __future__ import annotations

from typing import Any, assert_never

from pylog import errors
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.server import Server
from pylog.client.sending.transaction_events import (
    CommitOffsets,
    CoordinatorFound,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    OffsetsKept,
    ProducerBegun,
    TransactionAnswer,
    TransactionEnded,
    TransactionRequest,
)
from pylog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import group_pb2, log_pb2, transaction_pb2

_API_OF: dict[type[Any], apis.UnaryApi[Any, Any]] = {
    FindCoordinator: apis.FIND_COORDINATOR,
    InitProducer: apis.INIT_PRODUCER_ID,
    CommitOffsets: apis.TXN_OFFSET_COMMIT,
    EndTransaction: apis.END_TXN,
}


class TransactionCalls:
    """The calls of one producer. On the loop."""

    def __init__(self, cluster: Cluster, delivery_timeout_ms: int) -> None:
        self._cluster = cluster
        self._delivery_timeout_ms = delivery_timeout_ms

    async def call(self, request: TransactionRequest) -> TransactionAnswer:
        """The broker's answer; raises the reason why there is none."""
        server = await self._server(request)
        timeout_s = self._cluster.settings.request_timeout_ms / 1000
        try:
            response = await server.call(_API_OF[type(request)], self._message(request), timeout_s)
        except errors.PylogError as error:
            if error.retriable or error.code <= 0:
                raise
            return refused(request, error.code, str(error))
        return answer_of(request, response)

    async def _server(self, request: TransactionRequest) -> Server:
        cluster = self._cluster
        if not isinstance(request, FindCoordinator):
            server = cluster.broker(request.coordinator)
            if server is None:
                cluster.refresh_soon()
                raise errors.CoordinatorNotAvailable(f"broker {request.coordinator} is not alive")
            return server
        cluster.start()
        await cluster.connected(cluster.settings.default_api_timeout_ms)
        brokers = list(cluster.metadata.brokers)
        server = cluster.broker(cluster.rng.choice(brokers)) if brokers else None
        if server is None:
            cluster.refresh_soon()
            raise errors.CoordinatorNotAvailable("no broker is alive")
        return server

    def _message(self, request: TransactionRequest) -> Any:
        match request:
            case FindCoordinator(key, is_group):
                kind = group_pb2.COORDINATOR_TRANSACTION
                return group_pb2.FindCoordinatorRequest(
                    type=group_pb2.COORDINATOR_GROUP if is_group else kind, keys=[key]
                )
            case InitProducer():
                return log_pb2.InitProducerIdRequest(
                    transactional_id=request.transactional_id,
                    transaction_timeout_ms=request.timeout_ms,
                    producer_id=NO_PRODUCER_ID,
                    producer_epoch=NO_PRODUCER_EPOCH,
                    client_id=self._cluster.settings.client_id,
                    delivery_timeout_ms=self._delivery_timeout_ms,
                    enable_2pc=request.two_phase,
                    keep_prepared_txn=request.keep_prepared,
                )
            case CommitOffsets():
                return _commit_message(request)
            case EndTransaction():
                return transaction_pb2.EndTxnRequest(
                    transactional_id=request.transactional_id,
                    producer_id=request.producer_id,
                    producer_epoch=request.producer_epoch,
                    committed=request.committed,
                )
            case _:
                assert_never(request)


def _commit_message(request: CommitOffsets) -> transaction_pb2.TxnOffsetCommitRequest:
    group = request.group
    return transaction_pb2.TxnOffsetCommitRequest(
        transactional_id=request.transactional_id,
        group_id=group.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation_or_epoch=group.generation,
        member_id=group.member_id,
        instance_id=group.instance_id,
        offsets=[
            transaction_pb2.TxnOffset(
                topic=tp.topic,
                partition=tp.partition,
                offset=committed.offset,
                leader_epoch=-1 if committed.leader_epoch is None else committed.leader_epoch,
                metadata=committed.metadata,
            )
            for tp, committed in request.offsets
        ],
    )


def answer_of(request: TransactionRequest, response: Any) -> TransactionAnswer:
    """A broker's answer as a value."""
    match request:
        case FindCoordinator(key):
            for found in response.coordinators:
                if found.key == key:
                    return CoordinatorFound(found.broker_id, found.error.code, found.error.message)
            fault = "the answer does not name the coordinator"
            return CoordinatorFound(code=errors.CoordinatorNotAvailable.code, message=fault)
        case InitProducer():
            return ProducerBegun(
                response.producer_id,
                response.producer_epoch,
                response.ongoing_txn_producer_id,
                response.ongoing_txn_producer_epoch,
                response.error.code,
                response.error.message,
            )
        case CommitOffsets():
            faults = tuple(
                (TopicPartition(one.topic, one.partition), one.error.code, one.error.message)
                for one in response.partitions
                if one.error.code
            )
            return OffsetsKept(faults, response.error.code, response.error.message)
        case EndTransaction():
            return TransactionEnded(
                response.producer_id,
                response.producer_epoch,
                response.error.code,
                response.error.message,
            )
        case _:
            assert_never(request)


def refused(request: TransactionRequest, code: int, message: str) -> TransactionAnswer:
    """The error of a broker that does not take the call at all."""
    match request:
        case FindCoordinator():
            return CoordinatorFound(code=code, message=message)
        case InitProducer():
            return ProducerBegun(code=code, message=message)
        case CommitOffsets():
            return OffsetsKept(code=code, message=message)
        case EndTransaction():
            return TransactionEnded(code=code, message=message)
        case _:
            assert_never(request)
