"""A sink of a query, by bare gRPC calls: attempts of tasks, and a driver that decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pylog.rpc.v1 import sink_pb2, sink_pb2_grpc
from tests.fakes.raw_transactions import SECONDS, RawProducer, RawTransactions, until_it_works

RUN = "run-1"


class RawSink:
    """Requests go to the sink's coordinator, and again where that says that it may work later."""

    def __init__(self, world: RawTransactions, query_id: str, sink_id: str = "orders") -> None:
        self.world = world
        self.key = sink_pb2.SinkKey(query_id=query_id, sink_id=sink_id)
        self.first_id = f"__sink/{query_id}/{sink_id}/0"

    def coordinator(self) -> tuple[int, str]:
        """The broker, and its address."""
        return self.world.coordinator(self.first_id)

    def ask(self, name: str, request: Any) -> Any:
        """The answer; raises the error that it is."""

        def once() -> Any:
            return self.ask_once(self.coordinator()[1], name, request)

        return until_it_works(once)

    def ask_once(self, server: str, name: str, request: Any, seconds: float = SECONDS) -> Any:
        channel = self.world.raw._channel(server)
        stub: Any = sink_pb2_grpc.SinkStub(channel)  # type: ignore[no-untyped-call]
        return getattr(stub, name)(request, timeout=seconds)

    # ---- tasks -----------------------------------------------------------------------------------

    def begin(self, batch: int, task: int = 0, attempt: int = 0, run: str = RUN) -> Any:
        request = sink_pb2.BeginSinkTaskRequest(
            sink=self.key, run_id=run, batch_id=batch, task=task, attempt=attempt
        )
        return self.ask("BeginSinkTask", request)

    def writer(self, batch: int, task: int = 0, **more: Any) -> RawProducer:
        """An attempt that writes in its transaction."""
        member = self.begin(batch, task, **more).member
        assert member.transactional_id, "the batch is decided already"
        made = RawProducer(self.world, member.transactional_id)
        made.producer_id, made.epoch = member.producer_id, member.producer_epoch
        return made

    def renew(self, writer: RawProducer) -> Any:
        request = sink_pb2.RenewSinkTaskRequest(sink=self.key, member=member_of(writer))
        return self.ask("RenewSinkTask", request)

    def prepare(self, writer: RawProducer, timeout_ms: int = 0) -> Any:
        request = sink_pb2.PrepareSinkTaskRequest(
            sink=self.key, member=member_of(writer), timeout_ms=timeout_ms
        )
        return self.ask("PrepareSinkTask", request)

    def staged(
        self,
        batch: int,
        topic: str,
        values: Sequence[bytes],
        *,
        partition: int = 0,
        timeout_ms: int = 0,
        **more: Any,
    ) -> RawProducer:
        """An attempt that has written these and waits for its decision."""
        writer = self.writer(batch, **more)
        writer.send(topic, *values, partition=partition)
        self.prepare(writer, timeout_ms)
        return writer

    # ---- the driver ------------------------------------------------------------------------------

    def decision(
        self, batch: int, *writers: RawProducer, run: str = RUN, rows: int = 1, **more: Any
    ) -> Any:
        """The request."""
        return sink_pb2.DecideSinkBatchRequest(
            sink=self.key, run_id=run, batch_id=batch, members=map(member_of, writers),
            row_count=rows, checksum=rows, keep_ms=more.pop("keep_ms", -1), **more,
        )  # fmt: skip

    def decide(self, batch: int, *writers: RawProducer, **more: Any) -> Any:
        return self.ask("DecideSinkBatch", self.decision(batch, *writers, **more))

    def abort(self, batch: int, run: str = RUN) -> int:
        """The number of attempts that the call aborts."""
        request = sink_pb2.AbortSinkBatchRequest(sink=self.key, run_id=run, batch_id=batch)
        return int(self.ask("AbortSinkBatch", request).attempts)

    # ---- looking after it ------------------------------------------------------------------------

    def listed(self) -> list[Any]:
        """The sink as its coordinator lists it."""
        request = sink_pb2.ListSinksRequest(query_id=self.key.query_id, receipts=True)
        return list(self.ask("ListSinks", request).sinks)

    def forget(self) -> None:
        self.ask("ForgetSink", sink_pb2.ForgetSinkRequest(sink=self.key))


def member_of(writer: RawProducer) -> sink_pb2.SinkMember:
    return sink_pb2.SinkMember(
        transactional_id=writer.transactional_id, producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
    )  # fmt: skip
