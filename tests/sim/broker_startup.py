"""The start of a simulated broker: it claims an id, opens its logs and registers."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from pylog import errors
from pylog_broker.log_dirs import directories_of
from pylog_broker.metadata.features import SUPPORTED
from pylog_broker.metadata.messages import (
    BrokerClaim,
    BrokerRegistered,
    ClaimBroker,
    Failure,
)
from pylog_broker.metadata.records import Endpoint, Software, usual_listeners
from pylog_broker.node.offers import find_directories
from pylog_broker.node.registration import registration_of
from pylog_broker.storage.directories.directory import MetaProperties
from pylog_broker.storage.manager.opening import Opening
from tests.sim.controller_node import ControllerProcess
from tests.sim.disk import DATA_ROOT

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess


class BrokerStartup:
    """The start of one life of a broker, up to its registration."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process
        self._claimed: BrokerClaim | None = None

    def claim(self) -> None:
        """Ask which broker this process shall be."""
        process = self._process
        log_dirs = process.cluster.broker_config().log_dirs
        try:
            found = find_directories(process.files, DATA_ROOT, log_dirs)
        except (OSError, errors.PylogError) as error:
            process.cluster.scheduler.note("looked", process.name, error)
            process.node.kill(process.node.rng.randint(100, 1_000))
            return
        request = ClaimBroker(
            process.incarnation, process.node.machine.name, found, process.node.number
        )
        process.ask_controller(ControllerProcess.serve_claim, request, self._claim_answered)

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
        self._process.is_opening = True
        self._process.pool.run("start", lambda: self._open_logs(claim), self._opened)

    def _opened(self, error: object) -> None:
        self._process.is_opening = False
        if isinstance(error, OSError | errors.PylogError):
            self._process.cluster.scheduler.note("open", self._process.name, error)
            self._process.cluster.sometimes["open refused"] += 1
            self._process.node.kill(self._process.node.rng.randint(100, 1_000))
            return
        if isinstance(error, Exception):
            raise error
        logs = self._process.logs
        assert logs is not None
        for manager in logs.opened:
            self._process.node.opened(manager.directory, self._process.boot_id)
        opened = {log.directory for log in logs.logs}
        away = [gone.path for gone in logs.offline]
        shadows, node = self._process.cluster.shadows, self._process.node
        shadows.recovered(self._process.broker_id, node.disk, opened, away)
        lost = [f"{each.directory}/{name}" for each in logs.opened for name in each.failed]
        if lost:
            self._process.timer(node.rng.randint(100, 3_000), node.replace_logs, lost)
        if logs.missing:
            self._process.cluster.sometimes["log directory offline at start"] += 1
            self._process.timer(node.rng.randint(500, 4_000), node.kill, 100)
        self.register()

    def _open_logs(self, claim: BrokerClaim) -> None:
        process = self._process
        config = process.cluster.broker_config()
        paths = directories_of(DATA_ROOT, claim.broker_id, config.log_dirs)
        opening = Opening(
            process.files,
            paths,
            MetaProperties(claim.cluster_id, claim.broker_id, "", process.boot_id),
            new_directory_id=self._new_id,
            wall_ms=process.node.clock.now_ms(),
            config=config,
        )
        for step in opening.steps:
            step()
        process.logs = opening.finish()

    def _new_id(self) -> str:
        raw = self._process.node.rng.randbytes(16)
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    def register(self) -> None:
        """Become a broker of the cluster."""
        process = self._process
        assert process.logs is not None
        assert self._claimed is not None
        request = registration_of(
            process.logs,
            incarnation_id=process.incarnation,
            host_id=process.node.machine.name,
            rack=process.cluster.rack(process.node.number),
            listeners=usual_listeners(Endpoint(process.name, 9092), Endpoint(process.name, 9093)),
            software=Software("pylog", "1", features=SUPPORTED),
            highest_controller_epoch=process.membership.highest_controller_epoch,
            previous_broker_epoch=self._claimed.broker_epoch,
            static_config=(),
        )
        process.ask_controller(ControllerProcess.serve_register, request, self._register_answered)

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
        except (OSError, errors.KafkaStorageError) as error:
            self._process.cluster.scheduler.note("registered", self._process.name, error)
            self._process.node.kill(self._process.node.rng.randint(100, 1_000))
            return
        self._process.registered(answer.broker_epoch)
