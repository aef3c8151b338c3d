"""How a simulated broker starts: it claims an id, opens its logs and registers."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from broker.metadata.messages import (
    BrokerClaim,
    BrokerDirectory,
    BrokerRegistered,
    ClaimBroker,
    Failure,
    RegisterBroker,
)
from broker.metadata.records import Endpoint
from broker.storage.directories.directory import find_broker_directories
from broker.storage.manager.log_directories import LogDirectories
from broker.storage.manager.manager import LogManager
from pylog import errors
from tests.sim.controller_node import ControllerProcess
from tests.sim.disk import DATA_ROOT

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess


class BrokerStartup:
    """Of one life of a broker, up to its registration."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process
        self._claimed: BrokerClaim | None = None

    def claim(self) -> None:
        """Ask which broker this process shall be."""
        found = tuple(
            BrokerDirectory(
                directory.meta.broker_id,
                directory.meta.directory_id,
                directory.meta.cluster_id,
                directory.meta.boot_id,
                directory.meta.clean,
                directory.locked,
            )
            for directory in find_broker_directories(self._process.files, DATA_ROOT)
        )
        request = ClaimBroker(
            self._process.incarnation,
            self._process.node.machine.name,
            found,
            self._process.node.number,
        )
        self._process.ask_controller(ControllerProcess.serve_claim, request, self._claim_answered)

    def _claim_answered(self, answer: BrokerClaim | Failure | None) -> None:
        self._process.cluster.scheduler.note("claimed", self._process.name, answer)
        if isinstance(answer, Failure):
            self._process.node.kill(self._process.node.rng.randint(20, 200))
        elif answer is None:
            self._process.timer(100 + self._process.node.rng.random() * 100, self.claim)
        elif answer.retry_after_ms > 0:
            self._process.timer(answer.retry_after_ms, self.claim)
        elif self._claimed is None:
            self._claimed = answer
            self._open(answer)

    def _open(self, claim: BrokerClaim) -> None:
        self._process.broker_id = claim.broker_id
        self._process.cluster.granted(self._process.node, claim.broker_id)
        try:
            self._open_logs(claim)
        except (OSError, errors.PylogError) as error:
            self._process.cluster.scheduler.note("open", self._process.name, error)
            self._process.cluster.sometimes["open refused"] += 1
            self._process.node.kill(self._process.node.rng.randint(100, 1_000))
            return
        assert self._process.logs is not None
        self._process.node.opened(self._process.root, self._process.boot_id)
        opened = {(log.topic_id, log.topic_partition.partition) for log in self._process.logs.logs}
        self._process.cluster.shadows.recovered(
            self._process.broker_id, self._process.node.disk, opened
        )
        if self._process.logs.failed:
            lost = [f"{self._process.root}/{name}" for name in self._process.logs.failed]
            self._process.timer(
                self._process.node.rng.randint(100, 3_000), self._process.node.replace_logs, lost
            )
        self.register()

    def _open_logs(self, claim: BrokerClaim) -> None:
        self._process.root = f"{DATA_ROOT}/broker-{claim.broker_id}"
        new_id = (
            base64.urlsafe_b64encode(self._process.node.rng.randbytes(16)).rstrip(b"=").decode()
        )
        opened = LogManager.open(
            self._process.files,
            self._process.root,
            cluster_id=claim.cluster_id,
            broker_id=claim.broker_id,
            boot_id=self._process.boot_id,
            new_directory_id=new_id,
            wall_ms=self._process.node.clock.now_ms(),
            config=self._process.cluster.broker_config(),
        )
        self._process.logs = LogDirectories([opened])

    def register(self) -> None:
        """Become a broker of the cluster."""
        assert self._process.logs is not None
        request = RegisterBroker(
            broker_id=self._process.broker_id,
            incarnation_id=self._process.incarnation,
            cluster_id=self._process.logs.meta.cluster_id,
            host_id=self._process.node.machine.name,
            rack=None,
            client_endpoint=Endpoint(self._process.name, 9092),
            replication_endpoint=Endpoint(self._process.name, 9093),
            directory_id=self._process.logs.meta.directory_id,
            boot_id=self._process.boot_id,
            log_intact=self._process.logs.log_intact,
            highest_controller_epoch=self._process.membership.highest_controller_epoch,
            failed_replicas=self._process.logs.failed_replicas,
            lost_replicas=self._process.logs.lost_replicas,
        )
        self._process.ask_controller(
            ControllerProcess.serve_register, request, self._register_answered
        )

    def _register_answered(self, answer: BrokerRegistered | Failure | None) -> None:
        if self._process.core is not None:
            return
        if not isinstance(answer, BrokerRegistered):
            if answer is not None:
                self._process.cluster.scheduler.note(
                    "register", self._process.name, answer.code, answer.message
                )
                self._process.node.kill(self._process.node.rng.randint(20, 200))
                return
            self._process.timer(100 + self._process.node.rng.random() * 100, self.register)
            return
        assert self._process.logs is not None
        try:
            self._process.logs.registered()
        except OSError as error:
            self._process.cluster.scheduler.note("registered", self._process.name, error)
            self._process.node.kill(self._process.node.rng.randint(100, 1_000))
            return
        self._process.registered(answer.broker_epoch)
