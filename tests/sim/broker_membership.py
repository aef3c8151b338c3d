"""A simulated broker's part in its cluster: it hears the metadata and keeps its session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylog import errors
from pylog.model import ControllerEpoch
from pylog_broker.controller.effects import RejectSession, TellSession
from pylog_broker.metadata.image import MetadataDelta, MetadataGap
from pylog_broker.metadata.messages import Failure, MetadataBatch
from tests.sim.controller_node import ControllerProcess
from tests.sim.rpc import Rpc

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess

HEARTBEAT_MS = 300


class BrokerMembership:
    """The membership of one life of a broker, from its registration on."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process
        self.highest_controller_epoch = ControllerEpoch(-1)
        self._watch: Rpc | None = None
        self._session: Rpc | None = None

    def start(self) -> None:
        """Begin all of it."""
        self._listen()
        self._open_session()
        self._heartbeat()

    def _listen(self) -> None:
        """Listen to the metadata from where the image ends."""
        controller = self._process.cluster.controller.process
        if controller is None:
            self._process.timer(50 + self._process.node.rng.random() * 50, self._listen)
            return
        rpc = self._watch = Rpc(
            self._process.cluster.net, self._process, controller, self._watch_broken
        )
        rpc.tell(controller.serve_watch, rpc, self._process.image.offset + 1)

    def _watch_broken(self) -> None:
        self._process.timer(20 + self._process.node.rng.random() * 50, self._listen)

    def on_metadata_batch(self, rpc: Rpc, batch: MetadataBatch) -> None:
        """Committed metadata arrives."""
        if rpc is not self._watch or self._process.core is None or self._process.is_closing:
            return
        if batch.controller_epoch < self.highest_controller_epoch:
            rpc.close()
            return
        self.highest_controller_epoch = batch.controller_epoch
        try:
            delta: MetadataDelta = self._process.image.apply(batch)
        except MetadataGap:
            rpc.close()
            return
        self._process.cluster.scheduler.note(
            "metadata", self._process.name, self._process.image.offset
        )
        self._process.step(
            self._process.core.on_metadata(self._process.now_ms(), self._process.image, delta)
        )
        if self._process.groups is not None:
            self._process.groups.on_metadata(delta)
        if self._process.shares is not None:
            self._process.shares.on_metadata(delta)
        self._progress()

    def _open_session(self) -> None:
        """The stream whose break tells the controller of our death."""
        controller = self._process.cluster.controller.process
        if controller is None:
            self._process.timer(50 + self._process.node.rng.random() * 50, self._open_session)
            return
        broker, epoch = self._process.broker_id, self._process.broker_epoch
        rpc = self._session = Rpc(
            self._process.cluster.net,
            self._process,
            controller,
            self._session_broken,
            lambda: controller.session_ended(rpc, broker, epoch),
        )
        rpc.tell(controller.serve_session, rpc, self._process)
        self._progress()

    def _session_broken(self) -> None:
        self._process.timer(20 + self._process.node.rng.random() * 50, self._open_session)

    def _progress(self) -> None:
        rpc = self._session
        if rpc is not None and rpc.open:
            controller = rpc.server
            assert isinstance(controller, ControllerProcess)
            rpc.tell(
                controller.serve_session_progress,
                self._process.broker_id,
                self._process.broker_epoch,
                self._process.image.offset,
                self._process.image.offset >= self._process.broker_epoch,
            )

    def on_session_state(self, effect: TellSession) -> None:
        """Follow the controller's view of this broker's session."""
        self._process.cluster.scheduler.note("session", self._process.name, effect.fenced)
        if effect.should_stop:
            self._process.stop_with_cluster()

    def on_session_rejected(self, effect: RejectSession) -> None:
        """Another incarnation has our id: stop serving."""
        if effect.broker_epoch == self._process.broker_epoch:
            self._process.cluster.scheduler.note(
                "rejected", self._process.name, effect.failure.message
            )
            self._process.node.kill(self._process.node.rng.randint(20, 200))

    def _heartbeat(self) -> None:
        self._process.ask_controller(
            ControllerProcess.serve_heartbeat,
            (self._process.broker_id, self._process.broker_epoch),
            self._heartbeat_answered,
        )
        self._process.timer(HEARTBEAT_MS, self._heartbeat)

    def _heartbeat_answered(self, answer: object) -> None:
        if isinstance(answer, Failure) and answer.code == errors.StaleBrokerEpoch.code:
            self._process.cluster.scheduler.note("stale", self._process.name, answer.message)
            self._process.node.kill(self._process.node.rng.randint(20, 200))
