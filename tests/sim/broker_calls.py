"""The calls of a simulated broker to other brokers and the controller, and the way of the
answers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pylog.model import BrokerId
from pylog_broker.metadata.messages import (
    Failure,
    FailuresNoted,
    PartitionsAltered,
    ReplicaKey,
    ReplicasFailed,
)
from pylog_broker.replication.effects import ReplicaFailed, SendAlterPartition, SendReplicaFetch
from tests.sim.controller_node import ControllerProcess
from tests.sim.rpc import Rpc

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess

CALL_TIMEOUT_MS = 1_000


class BrokerCalls:
    """The calls of one life of a broker."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process
        self._leaders: dict[BrokerId, Rpc] = {}

    @property
    def fetching(self) -> bool:
        """Whether a fetch of the broker is on its way to a leader."""
        return any(rpc.asking for rpc in self._leaders.values())

    def _leader_rpc(self, leader: BrokerId) -> Rpc | None:
        rpc = self._leaders.get(leader)
        if rpc is not None and rpc.open:
            return rpc
        process = self._process.cluster.process(leader)
        if process is None or process.core is None:
            return None
        rpc = self._leaders[leader] = Rpc(self._process.cluster.net, self._process, process)
        return rpc

    def fetch(self, effect: SendReplicaFetch) -> None:
        def heard(fetched: Any) -> None:
            assert self._process.core is not None
            throttles = self._process.throttles
            if throttles is not None:
                throttles.heard(effect.leader, fetched)
            self._process.step(
                self._process.core.on_replica_fetched(
                    self._process.now_ms(),
                    self._process.node.clock.now_ms(),
                    effect.leader,
                    effect.request_id,
                    fetched,
                )
            )

        rpc = self._leader_rpc(effect.leader)
        if rpc is None:
            self._process.timer(1 + self._process.node.rng.random() * 20, heard, None)
            return
        timeout_ms = effect.request.max_wait_ms + CALL_TIMEOUT_MS
        rpc.request(
            self._process.cluster.server(rpc).serve_replica_fetch, effect.request, heard, timeout_ms
        )

    def alter_partition(self, effect: SendAlterPartition) -> None:
        def heard(answer: Any) -> None:
            assert self._process.core is not None
            known = answer if isinstance(answer, PartitionsAltered) else None
            if isinstance(answer, Failure):
                known = PartitionsAltered(failure=answer)
            if known is not None:
                self._process.cluster.count_altered(known)
            self._process.step(
                self._process.core.on_partitions_altered(
                    self._process.now_ms(), effect.request_id, known
                )
            )

        self._process.ask_controller(
            ControllerProcess.serve_alter_partition,
            effect.request,
            heard,
            partial(self._process.cluster.alterations.post, effect.request),
        )

    def report_failed(self, effect: ReplicaFailed) -> None:
        """Tell the controller, until it has taken note."""
        assert effect.topic_id is not None
        self._report(((effect.topic_id, effect.topic_partition.partition),), (), effect.reason)

    def report_directory(self, directory_id: str, reason: str) -> None:
        """The same for a log directory with all that is in it."""
        self._report((), (directory_id,), reason)

    def _report(
        self, replicas: tuple[ReplicaKey, ...], log_dirs: tuple[str, ...], reason: str
    ) -> None:
        request = ReplicasFailed(
            self._process.broker_id, self._process.broker_epoch, replicas, reason, log_dirs
        )

        def heard(answer: object) -> None:
            if not isinstance(answer, FailuresNoted):
                self._process.timer(100, self._report, replicas, log_dirs, reason)

        self._process.ask_controller(ControllerProcess.serve_replicas_failed, request, heard)
