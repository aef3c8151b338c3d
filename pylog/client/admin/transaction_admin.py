"""Administration of transactions: each one is asked of its coordinator, lists of every live broker,
producers of the leaders of partitions. On the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pylog import errors
from pylog.client.admin import sink_wire, transaction_wire
from pylog.client.admin.coordinators import ask_coordinators
from pylog.client.admin.group_admin import ask_every_broker
from pylog.client.admin.transaction_types import (
    FencedProducer,
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.metadata import BrokerInfo
from pylog.client.cluster.offsets import Answers as PartitionAnswers
from pylog.client.cluster.offsets import Faults, ask_leaders
from pylog.client.cluster.outcomes import Answers, Outcomes
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import error_of
from pylog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import group_pb2, log_pb2, transaction_pb2

OF_TRANSACTIONS = group_pb2.COORDINATOR_TRANSACTION
FENCING_TIMEOUT_MS = 60_000
"""The transaction time-out of a producer that only fences: the default of all others."""

Producers = dict[TopicPartition, list[ProducerState]]


async def list_transactions(
    cluster: Cluster, request: transaction_pb2.ListTransactionsRequest, timeout_ms: int
) -> tuple[dict[int, list[TransactionListing]], dict[int, errors.PylogError]]:
    """The transactional ids of each live broker, or why it could not be asked."""

    async def ask(server: Server, broker: BrokerInfo, left_s: float) -> list[TransactionListing]:
        response = await server.call(apis.LIST_TRANSACTIONS, request, left_s)
        fault = error_of(response.error, f"broker {broker.id}")
        if fault is not None:
            raise fault
        return [
            TransactionListing(
                each.transactional_id,
                broker.id,
                each.producer_id,
                each.state,
                *sink_wire.sink_of(each.transactional_id),
            )
            for each in response.transactions
        ]

    return await ask_every_broker(cluster, ask, timeout_ms, "list transactions")


async def describe_transactions(
    cluster: Cluster, ids: Sequence[str], timeout_ms: int
) -> Outcomes[str, TransactionDescription]:
    """The state of each transactional id, as its coordinator knows it."""

    async def ask(
        server: Server, broker: BrokerInfo, part: list[str], left_s: float
    ) -> Answers[str, TransactionDescription]:
        request = transaction_pb2.DescribeTransactionsRequest(transactional_ids=part)
        response = await server.call(apis.DESCRIBE_TRANSACTIONS, request, left_s)
        return [
            (
                told.transactional_id,
                error_of(told.error, f"transactional id {told.transactional_id!r}"),
                transaction_wire.description_of(told, broker.id),
            )
            for told in response.transactions
        ]

    return await ask_coordinators(
        cluster, ids, ask, timeout_ms, "describe transactions", OF_TRANSACTIONS
    )


async def fence_producers(
    cluster: Cluster, ids: Sequence[str], timeout_ms: int
) -> Outcomes[str, FencedProducer]:
    """Give each transactional id a newer epoch, which aborts what is open."""

    async def ask(
        server: Server, _broker: BrokerInfo, part: list[str], left_s: float
    ) -> Answers[str, FencedProducer]:
        answers: list[tuple[str, errors.PylogError | None, Any]] = []
        for each in part:
            request = log_pb2.InitProducerIdRequest(
                transactional_id=each,
                transaction_timeout_ms=FENCING_TIMEOUT_MS,
                producer_id=NO_PRODUCER_ID,
                producer_epoch=NO_PRODUCER_EPOCH,
                client_id=cluster.settings.client_id,
            )
            response = await server.call(apis.INIT_PRODUCER_ID, request, left_s)
            fault = error_of(response.error, f"transactional id {each!r}")
            fenced = FencedProducer(response.producer_id, response.producer_epoch)
            answers.append((each, fault, fenced))
        return answers

    return await ask_coordinators(cluster, ids, ask, timeout_ms, "fence producers", OF_TRANSACTIONS)


async def describe_producers(
    cluster: Cluster, partitions: Sequence[TopicPartition], timeout_ms: int
) -> tuple[Producers, Faults]:
    """The producers that the leader of each partition knows."""

    async def ask(
        server: Server, part: Mapping[TopicPartition, int], left_s: float
    ) -> PartitionAnswers:
        request = transaction_pb2.DescribeProducersRequest()
        for topic, partition in part:
            request.partitions.add(topic=topic, partition=partition)
        response = await server.call(apis.DESCRIBE_PRODUCERS, request, left_s)
        return [
            (
                TopicPartition(told.topic, told.partition),
                error_of(told.error, f"{told.topic}-{told.partition}"),
                list(map(transaction_wire.producer_of, told.producers)),
            )
            for told in response.partitions
        ]

    wanted = dict.fromkeys(partitions, 0)
    return await ask_leaders(cluster, wanted, timeout_ms, ask, "describe producers")


async def write_abort(
    cluster: Cluster, partition: TopicPartition, producer: ProducerState, timeout_ms: int
) -> None:
    """Have the partition's leader end the producer's transaction there, without its coordinator."""
    marker = transaction_pb2.TxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=False,
        coordinator_epoch=-1 if producer.coordinator_epoch is None else producer.coordinator_epoch,
    )
    marker.partitions.add(topic=partition.topic, partition=partition.partition)

    async def ask(
        server: Server, _part: Mapping[TopicPartition, int], left_s: float
    ) -> PartitionAnswers:
        request = transaction_pb2.WriteTxnMarkersRequest(markers=[marker])
        response = await server.call(apis.WRITE_TXN_MARKERS, request, left_s)
        return [
            (
                TopicPartition(told.topic, told.partition),
                error_of(told.error, f"{told.topic}-{told.partition}"),
                None,
            )
            for told_of_marker in response.markers
            for told in told_of_marker.partitions
        ]

    _, faults = await ask_leaders(cluster, {partition: 0}, timeout_ms, ask, "abort a transaction")
    for fault in faults.values():
        raise fault


def hanging(
    opened: Sequence[tuple[TopicPartition, ProducerState]],
    names: Mapping[int, str],
    known: Mapping[str, TransactionDescription],
) -> list[HangingTransaction]:
    """The open transactions that no coordinator will end. `names`: transactional ids by producer
    id; `known`: the coordinators' descriptions.

    A coordinator ends a transaction in the partitions that it knows of, under the producer's
    present epoch. (Kafka's `find-hanging` compares the same.)
    """
    found = []
    for tp, producer in opened:
        name = names.get(producer.producer_id)
        described = known.get(name) if name is not None else None
        if (
            described is None
            or described.start_time_ms is None
            or tp not in described.partitions
            or described.producer_id != producer.producer_id
        ):
            found.append(HangingTransaction(tp, producer, name))
    return found
