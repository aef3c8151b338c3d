"""The answers of a `FakeCluster` about sinks: one dumb coordinator, which keeps its decisions, and
ends transactions of `TransactionalIds` in the same moment. Nothing times out by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pylog import errors
from pylog.rpc.v1 import sink_pb2, sink_pb2_grpc
from tests.fakes.fake_transactions import FakeTransactionalId, TransactionalIds

Key = tuple[str, str]
Task = tuple[str, int, int, int]
"""Run, batch, number, attempt."""


@dataclass
class FakeSink:
    """One sink."""

    runs: list[str] = field(default_factory=list)
    has_ended: bool = False
    """The newest run."""
    decision: sink_pb2.SinkDecision | None = None
    tasks: dict[str, Task] = field(default_factory=dict)
    prepared: dict[str, int] = field(default_factory=dict)
    """The time that each waits for the decision, by transactional id."""
    free: list[str] = field(default_factory=list)
    made: int = 0


class SinkWorld:
    """All sinks of a cluster. `lease_ms` is what attempts are told."""

    def __init__(
        self, ids: TransactionalIds, begin_anew: Callable[[sink_pb2.OverwrittenTopic], None]
    ) -> None:
        """`begin_anew`: carries out what is overwritten."""
        self.ids = ids
        self.begin_anew = begin_anew
        self.sinks: dict[Key, FakeSink] = {}
        self.lease_ms = 30_000
        self.keep_ms: list[int] = []
        """The times for which decisions asked to be remembered."""

    def sink(self, key: sink_pb2.SinkKey) -> FakeSink:
        return self.sinks.setdefault((key.query_id, key.sink_id), FakeSink())

    def end(self, sink: FakeSink, name: str, *, committed: bool) -> None:
        """The attempt that has this transactional id is over."""
        known = self.ids.ids[name]
        self.ids._decide(known, committed=committed)
        del sink.tasks[name]
        sink.prepared.pop(name, None)
        sink.free.append(name)

    def number(self, sink: FakeSink, run: str) -> int:
        if run not in sink.runs:
            return len(sink.runs)
        number = sink.runs.index(run)
        if number != len(sink.runs) - 1:
            raise errors.SinkRunSuperseded(f"run {run} is not the newest")
        return number

    def begin(
        self, request: sink_pb2.BeginSinkTaskRequest, response: sink_pb2.BeginSinkTaskResponse
    ) -> None:
        sink = self.sink(request.sink)
        number = self.number(sink, request.run_id)
        last = sink.decision
        if last is not None and request.batch_id <= last.batch_id:
            if request.batch_id < last.batch_id or number <= last.run_number:
                raise errors.SinkBatchDecided(f"batch {request.batch_id} was written already")
            response.decided.CopyFrom(last)
            return
        if request.run_id not in sink.runs:
            sink.runs.append(request.run_id)
            sink.has_ended = False
            for name in list(sink.tasks):
                self.end(sink, name, committed=False)
        if sink.has_ended:
            raise errors.InvalidTxnState(f"run {request.run_id} was aborted")
        task = (request.run_id, request.batch_id, request.task, request.attempt)
        name = next((name for name, known in sink.tasks.items() if known == task), "")
        if not name:
            name = sink.free.pop(0) if sink.free else self._fresh(request.sink, sink)
            sink.tasks[name] = task
        known = self.ids.ids[name]
        response.member.transactional_id = name
        response.member.producer_id = known.producer_id
        response.member.producer_epoch = known.epoch
        response.lease_ms = self.lease_ms

    def _fresh(self, key: sink_pb2.SinkKey, sink: FakeSink) -> str:
        name = f"__sink/{key.query_id}/{key.sink_id}/{sink.made}"
        sink.made += 1
        self.ids.ids[name] = FakeTransactionalId(5_000 + len(self.ids.ids))
        return name

    def member(self, sink: FakeSink, member: sink_pb2.SinkMember) -> str:
        name = member.transactional_id
        if name not in sink.tasks or self.ids.ids[name].epoch != member.producer_epoch:
            raise errors.InvalidTxnState(f"{name} was aborted")
        return name

    def decide(
        self, request: sink_pb2.DecideSinkBatchRequest, response: sink_pb2.DecideSinkBatchResponse
    ) -> None:
        sink = self.sink(request.sink)
        number = self.number(sink, request.run_id)
        last = sink.decision
        if last is not None and request.batch_id <= last.batch_id:
            same = (last.row_count, last.checksum) == (request.row_count, request.checksum)
            if request.batch_id < last.batch_id or not (number > last.run_number or same):
                raise errors.SinkBatchDecided(f"batch {request.batch_id} was written already")
            response.decision.CopyFrom(last)
            return
        counted = [self.member(sink, member) for member in request.members]
        for name in counted:
            if name not in sink.prepared:
                raise errors.InvalidTxnState(f"{name} is not prepared")
        if request.run_id not in sink.runs:
            sink.runs.append(request.run_id)
        for name in list(sink.tasks):
            self.end(sink, name, committed=name in counted)
        self.keep_ms.append(request.keep_ms)
        sink.decision = sink_pb2.SinkDecision(
            batch_id=request.batch_id,
            run_number=number,
            row_count=request.row_count,
            checksum=request.checksum,
            digest=request.digest,
            decided_ms=999 + len(self.keep_ms),  # one later than the other
            expires_ms=-1,
            receipt=request.receipt,
            overwritten=request.overwritten,
        )
        for each in request.overwritten:
            self.begin_anew(each)
        response.decision.CopyFrom(sink.decision)
        response.is_new = True

    def abort(self, request: sink_pb2.AbortSinkBatchRequest) -> int:
        sink = self.sink(request.sink)
        if request.HasField("member"):
            names = [name for name in sink.tasks if name == request.member.transactional_id]
        else:
            wanted = (request.run_id, request.batch_id)
            names = [name for name, task in sink.tasks.items() if task[:2] == wanted]
            if request.ends_run and sink.runs[-1:] in ([], [request.run_id]):
                sink.runs = sink.runs or [request.run_id]
                sink.has_ended = True
        for name in names:
            self.end(sink, name, committed=False)
        return len(names)


class FakeSinks(sink_pb2_grpc.SinkServicer):
    """One broker's side of it."""

    def __init__(self, world: SinkWorld, broker: int) -> None:
        self._world = world
        self._broker = broker

    def _carry_out(self, name: str, request: Any, response: Any, step: Any) -> Any:
        world, key = self._world, request.sink
        with world.ids.lock:
            code = world.ids.fault(name)
            placed = f"__sink/{key.query_id}/{key.sink_id}/0"
            if not code and world.ids.coordinator_of(placed) != self._broker:
                code = errors.NotCoordinator.code
            if not code:
                try:
                    step()
                except errors.PylogError as error:
                    response.error.code, response.error.message = error.code, str(error)
                    return response
                if world.ids.is_lost(name):
                    response.Clear()
                    code = errors.RequestTimedOut.code
            response.error.code = code
            return response

    def BeginSinkTask(self, request: sink_pb2.BeginSinkTaskRequest, _context: Any) -> Any:
        response = sink_pb2.BeginSinkTaskResponse()
        return self._carry_out(
            "BeginSinkTask", request, response, lambda: self._world.begin(request, response)
        )

    def RenewSinkTask(self, request: sink_pb2.RenewSinkTaskRequest, _context: Any) -> Any:
        sink = self._world.sink(request.sink)
        return self._carry_out(
            "RenewSinkTask",
            request,
            sink_pb2.RenewSinkTaskResponse(),
            lambda: self._world.member(sink, request.member),
        )

    def PrepareSinkTask(self, request: sink_pb2.PrepareSinkTaskRequest, _context: Any) -> Any:
        sink = self._world.sink(request.sink)

        def prepare() -> None:
            sink.prepared[self._world.member(sink, request.member)] = request.timeout_ms

        return self._carry_out(
            "PrepareSinkTask", request, sink_pb2.PrepareSinkTaskResponse(), prepare
        )

    def DecideSinkBatch(self, request: sink_pb2.DecideSinkBatchRequest, _context: Any) -> Any:
        response = sink_pb2.DecideSinkBatchResponse()
        return self._carry_out(
            "DecideSinkBatch", request, response, lambda: self._world.decide(request, response)
        )

    def AbortSinkBatch(self, request: sink_pb2.AbortSinkBatchRequest, _context: Any) -> Any:
        response = sink_pb2.AbortSinkBatchResponse()

        def abort() -> None:
            response.attempts = self._world.abort(request)

        return self._carry_out("AbortSinkBatch", request, response, abort)

    def ListSinks(self, request: sink_pb2.ListSinksRequest, _context: Any) -> Any:
        """All of them, by broker 1."""
        response = sink_pb2.ListSinksResponse()
        for (query_id, sink_id), sink in self._world.sinks.items() if self._broker == 1 else ():
            wanted = request.query_id in ("", query_id) and request.sink_id in ("", sink_id)
            if not wanted:
                continue
            told = response.sinks.add(held_since_ms=-1, prepared_since_ms=-1)
            told.sink.query_id, told.sink.sink_id = query_id, sink_id
            if sink.decision is not None:
                told.last.CopyFrom(sink.decision)
        return response
