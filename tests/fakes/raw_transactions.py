"""A transactional producer, and an admin, by bare gRPC calls: for tests of what brokers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from pylog.clock import SYSTEM_CLOCK
from pylog.errors import from_code
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog.records.transactions import without_aborted
from pylog.rpc.v1 import (
    group_pb2,
    group_pb2_grpc,
    log_pb2,
    transaction_pb2,
    transaction_pb2_grpc,
)
from tests.fakes.raw_client import RawClient

SECONDS = 30.0
PATIENCE_MS = 40_000


def until_it_works(call: Callable[[], Any]) -> Any:
    """The answer to a call that is made again while its error says that it may work later."""
    begin_ms = SYSTEM_CLOCK.monotonic_ms()
    while True:
        answer = None
        try:
            answer = call()
        except (grpc.RpcError, LookupError, ValueError) as error:
            fault: Exception = error
        else:
            error = answer.error
            if not error.code:
                return answer
            fault = from_code(error.code, error.message)
            if not getattr(fault, "retriable", False):
                raise fault
        if SYSTEM_CLOCK.monotonic_ms() - begin_ms > PATIENCE_MS:
            raise fault
        SYSTEM_CLOCK.sleep(0.05)


class RawTransactions:
    """A client's requests to coordinators, through the brokers of `raw`."""

    def __init__(self, raw: RawClient) -> None:
        self.raw = raw

    def address(self, broker: int) -> str:
        for server in range(len(self.raw.servers)):
            try:
                answer = self.raw.metadata(server=server)
            except grpc.RpcError:
                continue
            for each in answer.brokers:
                if each.id == broker:
                    return f"{each.endpoint.host}:{each.endpoint.port}"
        raise LookupError(f"nobody knows broker {broker}")

    def server(self) -> str:
        """A broker that lives."""
        for server in range(len(self.raw.servers)):
            try:
                answer = self.raw.metadata(server=server)
            except grpc.RpcError:
                continue
            return f"{answer.brokers[0].endpoint.host}:{answer.brokers[0].endpoint.port}"
        raise LookupError("nobody answers")

    def groups(self, server: str) -> Any:
        return group_pb2_grpc.GroupStub(self.raw._channel(server))  # type: ignore[no-untyped-call]

    def transactions(self, server: str) -> Any:
        return transaction_pb2_grpc.TransactionStub(self.raw._channel(server))  # type: ignore[no-untyped-call]

    def coordinator(
        self, key: str, kind: Any = group_pb2.COORDINATOR_TRANSACTION
    ) -> tuple[int, str]:
        """The broker that coordinates, and its address."""
        request = group_pb2.FindCoordinatorRequest(type=kind, keys=[key])

        def find() -> Any:
            found = self.groups(self.server()).FindCoordinator(request, timeout=SECONDS)
            return found.coordinators[0]

        broker = until_it_works(find).broker_id
        return broker, self.address(broker)

    def describe(self, transactional_id: str) -> Any:
        request = transaction_pb2.DescribeTransactionsRequest(transactional_ids=[transactional_id])

        def ask() -> Any:
            server = self.coordinator(transactional_id)[1]
            answer = self.transactions(server).DescribeTransactions(request, timeout=SECONDS)
            return answer.transactions[0]

        return until_it_works(ask)

    def committed(self, topic: str, partition: int = 0, offset: int = 0) -> list[bytes | None]:
        """The values that a reader of committed records sees now, from an offset on."""
        data = self.fetch(topic, partition, committed=True, offset=offset)
        aborted = [(each.producer_id, each.first_offset) for each in data.aborted]
        batches = without_aborted(data.batches, aborted)
        return [record.value for record in iter_records(batches, topic, partition)]

    def all_written(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """The values that a reader of everything sees now."""
        data = self.fetch(topic, partition, committed=False)
        return [record.value for record in iter_records(data.batches, topic, partition)]

    def fetch(self, topic: str, partition: int = 0, *, committed: bool, offset: int = 0) -> Any:
        request = log_pb2.FetchRequest(
            correlation=1, min_bytes=0, max_bytes=1 << 24,
            isolation_level=log_pb2.READ_COMMITTED if committed else log_pb2.READ_UNCOMMITTED,
            partitions=[
                log_pb2.PartitionFetch(
                    topic=topic, partition=partition, fetch_offset=offset, max_bytes=1 << 22,
                    current_leader_epoch=-1, last_fetched_epoch=-1,
                )
            ],
        )  # fmt: skip

        def ask() -> Any:
            leader = self.leader(topic, partition)
            answer = self.raw.log(leader).Fetch(request, timeout=SECONDS)
            return answer.partitions[0]

        return until_it_works(ask)

    def leader_id(self, topic: str, partition: int = 0) -> int:
        for server in range(len(self.raw.servers)):
            try:
                found = self.raw.partition(topic, partition, server=server)
            except grpc.RpcError:
                continue
            return int(found.leader)
        raise LookupError("nobody answers")

    def leader(self, topic: str, partition: int = 0) -> str:
        return self.address(self.leader_id(topic, partition))


class RawProducer:
    """One instance of a transactional producer. It counts sequences; nothing is retried but what
    the broker calls retriable.
    """

    def __init__(
        self, world: RawTransactions, transactional_id: str, *, timeout_ms: int = 60_000
    ) -> None:
        self.world = world
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.producer_id, self.epoch = -1, -1
        self.version = 2
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self, **fields: Any) -> Any:
        request = log_pb2.InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms,
            producer_id=self.producer_id, producer_epoch=self.epoch, **fields,
        )  # fmt: skip
        answer = until_it_works(
            lambda: self.world.raw.log(self._server()).InitProducerId(request, timeout=SECONDS)
        )
        self._becomes(answer)
        return answer

    def send(self, topic: str, *values: bytes, partition: int = 0) -> Any:
        """The ack of one batch."""
        key = topic, partition
        sequence = self.sequences.get(key, 0)
        batch = encode_batch(
            values, producer_id=self.producer_id, producer_epoch=self.epoch,
            base_sequence=sequence, transactional=True, timestamps=SYSTEM_CLOCK.wall_ms(),
        )  # fmt: skip
        ack = until_it_works(lambda: self.send_once(topic, partition, batch))
        self.sequences[key] = sequence + len(values)
        return ack

    def send_once(self, topic: str, partition: int, batch: bytes) -> Any:
        request = log_pb2.ProduceRequest(
            correlation=1, acks=-1, timeout_ms=10_000, transactional_id=self.transactional_id,
            transaction_version=self.version,
            batches=[log_pb2.PartitionBatch(topic=topic, partition=partition, batch=batch)],
        )  # fmt: skip
        leader = self.world.leader(topic, partition)
        return self.world.raw.log(leader).Produce(request, timeout=SECONDS).acks[0]

    def add(self, topic: str, *partitions: int) -> Any:
        """Adds partitions, as a producer of transaction version 1 does."""
        request = transaction_pb2.AddPartitionsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.producer_id,
            producer_epoch=self.epoch,
            partitions=[
                transaction_pb2.TxnPartition(topic=topic, partition=each) for each in partitions
            ],
        )  # fmt: skip
        return until_it_works(
            lambda: self._coordinator().AddPartitionsToTxn(request, timeout=SECONDS)
        )

    def commit(self) -> Any:
        return self.end(committed=True)

    def abort(self) -> Any:
        return self.end(committed=False)

    def end(self, *, committed: bool) -> Any:
        answer = self.end_once(committed=committed)
        if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self._becomes(answer)
        return answer

    def end_once(self, *, committed: bool) -> Any:
        """The answer; this producer goes on as it is."""
        request = transaction_pb2.EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.producer_id,
            producer_epoch=self.epoch, committed=committed, transaction_version=self.version,
        )  # fmt: skip
        return until_it_works(lambda: self._coordinator().EndTxn(request, timeout=SECONDS))

    def commit_offsets(self, group: str, topic: str, offset: int, **fields: Any) -> Any:
        request = transaction_pb2.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id, group_id=group,
            producer_id=self.producer_id, producer_epoch=self.epoch,
            generation_or_epoch=fields.pop("generation", -1), transaction_version=self.version,
            offsets=[transaction_pb2.TxnOffset(topic=topic, offset=offset, leader_epoch=-1)],
            **fields,
        )  # fmt: skip

        def ask() -> Any:
            _, server = self.world.coordinator(group, group_pb2.COORDINATOR_GROUP)
            return self.world.transactions(server).TxnOffsetCommit(request, timeout=SECONDS)

        return until_it_works(ask)

    def _becomes(self, answer: Any) -> None:
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def _server(self) -> str:
        return self.world.coordinator(self.transactional_id)[1]

    def _coordinator(self) -> Any:
        return self.world.transactions(self._server())
