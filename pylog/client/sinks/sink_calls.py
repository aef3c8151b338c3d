"""A client's calls to the coordinators of sinks. On the loop.

All of them may be asked again, and are until they are answered or their time is up. A coordinator
that moved, or cannot be reached, is looked for again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from pylog import errors
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.server import Server
from pylog.client.sinks import sink_wire
from pylog.client.sinks.sink_types import (
    CoordinatorPorts,
    FramedPort,
    SinkAttempt,
    SinkBatch,
    SinkDecision,
    SinkKey,
    SinkMember,
)
from pylog.rpc import apis
from pylog.rpc.apis import RequestT, ResponseT, UnaryApi
from pylog.rpc.v1 import sink_pb2

FIND_S_MAX: Final = 3.0
"""One broker that swallows requests must not hold up the question that every broker can answer."""
COORDINATORS_MAX: Final = 1_000
_ELSEWHERE: Final = (
    errors.NotCoordinator,
    errors.CoordinatorNotAvailable,
    errors.BrokerUnreachable,
    errors.RequestTimedOut,
)


class BegunTask(NamedTuple):
    """An attempt may write for `member`, and renews that within `lease_ms`; or its batch counts
    already.
    """

    member: SinkMember | None
    decided: SinkDecision | None
    lease_ms: int


class SinkCalls:
    """The calls about sinks of one client, over its connections."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators: OrderedDict[SinkKey, int] = OrderedDict()

    async def begin(self, attempt: SinkAttempt, timeout_ms: int) -> BegunTask:
        """A transaction for the attempt, the same when it is asked for again. UnsupportedVersion
        where the coordinator would take positions for rows.
        """
        request = sink_wire.begin_request(attempt)
        response = await self._ask(
            attempt.sink, apis.BEGIN_SINK_TASK, request, timeout_ms, "begin to write"
        )
        if attempt.progress_group and not response.of_progress:
            raise errors.UnsupportedVersion(
                f"{attempt.sink}: the broker that coordinates it is of a version that does not "
                "commit positions with a batch"
            )
        return BegunTask(
            sink_wire.member_of(response.member) if response.HasField("member") else None,
            sink_wire.decision_of(response.decided) if response.HasField("decided") else None,
            response.lease_ms,
        )

    async def renew(self, sink: SinkKey, member: SinkMember, timeout_ms: int) -> None:
        """The attempt still writes. InvalidTxnState where it was aborted."""
        request = sink_pb2.RenewSinkTaskRequest(
            sink=sink_wire.key_message(sink), member=sink_wire.member_message(member)
        )
        await self._ask(sink, apis.RENEW_SINK_TASK, request, timeout_ms, "renew")

    async def prepare(
        self, sink: SinkKey, member: SinkMember, wait_ms: int, timeout_ms: int
    ) -> None:
        """All of its rows are stored; it waits up to `wait_ms` for the decision."""
        request = sink_pb2.PrepareSinkTaskRequest(
            sink=sink_wire.key_message(sink),
            member=sink_wire.member_message(member),
            timeout_ms=wait_ms,
        )
        await self._ask(sink, apis.PREPARE_SINK_TASK, request, timeout_ms, "prepare")

    async def decide(self, batch: SinkBatch, timeout_ms: int) -> tuple[SinkDecision, bool]:
        """The decision, and whether it was made by this call."""
        request = sink_wire.decide_request(batch)
        response = await self._ask(
            batch.sink, apis.DECIDE_SINK_BATCH, request, timeout_ms, "decide"
        )
        return sink_wire.decision_of(response.decision), response.is_new

    async def abort(
        self, sink: SinkKey, run_id: str, batch_id: int, timeout_ms: int, *, ends_run: bool
    ) -> int:
        """The number of open attempts that were aborted, of the batch or, where it `ends_run`, of
        the whole run.
        """
        request = sink_wire.abort_request(sink, run_id, batch_id, ends_run=ends_run)
        response = await self._ask(sink, apis.ABORT_SINK_BATCH, request, timeout_ms, "abort")
        return int(response.attempts)

    async def abort_attempt(self, sink: SinkKey, member: SinkMember, timeout_ms: int) -> None:
        """Nothing of the attempt counts. One that has ended stays as it is."""
        request = sink_wire.abort_attempt_request(sink, member)
        await self._ask(sink, apis.ABORT_SINK_BATCH, request, timeout_ms, "abort an attempt")

    def ports(self, sink: SinkKey) -> CoordinatorPorts:
        """The coordinator that was found last (-1: none), and the brokers' framed ports: enough for
        a process without metadata to call it.
        """
        cluster = self._cluster
        ports: tuple[FramedPort, ...] = ()
        if cluster.settings.framed and not cluster.settings.by_gateway:
            ports = tuple(
                FramedPort(info.id, info.stream.host, info.stream.port)
                for info in cluster.metadata.brokers.values()
                if info.stream is not None
            )
        return CoordinatorPorts(
            cluster.metadata.cluster_id, self._coordinators.get(sink, -1), ports
        )

    async def _ask(
        self,
        sink: SinkKey,
        api: UnaryApi[RequestT, ResponseT],
        request: RequestT,
        timeout_ms: int,
        what: str,
    ) -> ResponseT:
        async def attempt(left_s: float) -> ResponseT | errors.PylogError:
            try:
                server = await self._server(sink, left_s)
                response = await server.call(api, request, left_s)
                sink_wire.raise_fault(response.error.code, response.error.message)  # type: ignore[attr-defined]
            except errors.ThrottlingQuotaExceeded as error:
                return error  # a limit, which does not pass while the batch is written
            except _ELSEWHERE:
                self._coordinators.pop(sink, None)
                raise
            return response

        answer = await self._cluster.retrying(attempt, timeout_ms, f"{what} ({sink})")
        if isinstance(answer, errors.PylogError):
            raise answer
        return answer

    async def _server(self, sink: SinkKey, left_s: float) -> Server:
        broker = self._coordinators.get(sink)
        if broker is None:
            broker = await self._find(sink, left_s)
            self._coordinators[sink] = broker
            while len(self._coordinators) > COORDINATORS_MAX:
                self._coordinators.popitem(last=False)
        server = self._cluster.broker(broker)
        if server is None:
            self._cluster.refresh_soon()
            raise errors.CoordinatorNotAvailable(f"its coordinator, broker {broker}, is away")
        return server

    async def _find(self, sink: SinkKey, left_s: float) -> int:
        """Its coordinator, as the first broker that answers says."""
        cluster = self._cluster
        brokers = list(cluster.metadata.brokers.values())
        cluster.rng.shuffle(brokers)
        last: errors.PylogError = errors.CoordinatorNotAvailable("no broker is live")
        for broker in brokers:
            server = cluster.server_of(broker)
            try:
                answer = await server.call(
                    apis.FIND_COORDINATOR, sink_wire.find_request(sink), min(left_s, FIND_S_MAX)
                )
            except errors.BrokerUnreachable as error:
                last = error
            else:
                return sink_wire.coordinator_in(answer, sink)
        cluster.refresh_soon()
        raise last
