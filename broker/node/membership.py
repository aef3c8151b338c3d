"""Being a member of the cluster: registration, session, lease, metadata.

A broker whose controller is gone goes on serving what it leads; here it only tries again. It ends
when the controller says that another incarnation has taken its place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Final

from pylog import errors
from pylog.clock import Clock
from pylog.model import BrokerEpoch, BrokerId, ControllerEpoch, Offset
from pylog.rpc.v1 import cluster_pb2
from pylog_broker.metadata.image import MetadataDelta, MetadataGap, MetadataImage
from pylog_broker.metadata.messages import Failure, MetadataBatch, RegisterBroker
from pylog_broker.node.epoch_file import EpochFile
from pylog_broker.node.lease import Lease
from pylog_broker.node.link import Backoff, ControllerLink, LeaseLine

_log = logging.getLogger("pylog.node")

RETRY_SECONDS_FIRST: Final = 0.02
RETRY_SECONDS_LAST: Final = 0.5
TICK_SECONDS: Final = 0.5

_STALE: Final = (
    errors.StaleBrokerEpoch.code,
    errors.BrokerIdNotRegistered.code,
)
_RETRY_REGISTRATION: Final = (errors.DuplicateBrokerRegistration.code,)
"""The predecessor's session may take a lease to end."""


class Membership:
    """Owns the image and the streams that feed it. Lives on the broker's loop.

    `ended` is done when the broker has to stop, with the reason.
    """

    def __init__(
        self,
        link: ControllerLink,
        lease_line: LeaseLine,
        clock: Clock,
        epochs: EpochFile,
        registration: Callable[[], RegisterBroker],
        *,
        lease_ms: int,
        heartbeat_ms: int,
        on_registered: Callable[[BrokerEpoch], None],
        on_metadata: Callable[[MetadataImage, MetadataDelta], None],
        on_unfenced: Callable[[], None],
        on_fenced: Callable[[], None],
        on_cluster_stops: Callable[[], None],
    ) -> None:
        self.image = MetadataImage()
        self.broker_epoch = BrokerEpoch(-1)
        self.ended: asyncio.Future[errors.PylogError] = asyncio.get_running_loop().create_future()
        self.fenced = True
        self._link = link
        self._lease_line = lease_line
        self._clock = clock
        self._epochs = epochs
        self._registration = registration
        self._broker_id = BrokerId(-1)
        self._heartbeat_ms = heartbeat_ms
        self._lease = Lease(self._renew, clock, lease_ms=lease_ms, interval_ms=heartbeat_ms)
        self._on_registered = on_registered
        self._on_metadata = on_metadata
        self._on_unfenced = on_unfenced
        self._on_fenced = on_fenced
        self._on_cluster_stops = on_cluster_stops
        self._progress = asyncio.Event()
        self._want_unfence = True
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Begin; returns at once."""
        self._tasks = [
            self._loop.create_task(work()) for work in (self._stay_member, self._follow, self._tick)
        ]
        for task in self._tasks:
            task.add_done_callback(self._on_task_done)

    async def stop(self) -> None:
        """Leave: the streams end, and with them the session."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._loop.run_in_executor(None, self._lease.stop)
        self._lease_line.close()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or self.ended.done():
            return
        error = task.exception()
        if error is not None:
            _log.error("the broker's membership failed", exc_info=error)
        self._end(errors.UnknownServerError(f"its membership failed: {error!r}"))

    def _end(self, reason: errors.PylogError) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    def _saw(self, epoch: ControllerEpoch) -> None:
        """Take note of a controller's epoch; StaleControllerEpoch when a newer one was seen."""
        if epoch < self._epochs.highest:
            raise errors.StaleControllerEpoch(
                f"the controller at {self._link.target} has epoch {epoch}, but epoch "
                f"{self._epochs.highest} was already seen: it is not the cluster's controller "
                "any more, or its metadata was set back"
            )
        self._epochs.raise_to(epoch)

    # ---- registration and session ---------------------------------------------------------------

    async def _stay_member(self) -> None:
        backoff = Backoff(RETRY_SECONDS_FIRST, RETRY_SECONDS_LAST)
        reported = ""
        while not self.ended.done():
            try:
                if self.broker_epoch < 0:
                    await self._register()
                async with aclosing(self._link.session(self._requests())) as responses:
                    async for response in responses:
                        backoff.reset()
                        reported = ""
                        self._on_session(response)
            except errors.PylogError as error:
                if error.code in _STALE and self.broker_epoch >= 0:
                    _log.warning("session refused (%s): registering again", error)
                    self.broker_epoch = BrokerEpoch(-1)
                elif str(error) != reported:
                    reported = str(error)
                    _log.warning("no session: %s", error)
                await backoff.wait()

    async def _register(self) -> None:
        registration = self._registration()
        self._broker_id = registration.broker_id
        answer = await self._link.register(registration)
        if isinstance(answer, Failure):
            error = errors.from_code(answer.code, answer.message)
            if not error.retriable and answer.code not in _RETRY_REGISTRATION:
                self._end(errors.from_code(answer.code, f"registration refused: {error}"))
            raise error
        self._saw(answer.controller_epoch)
        self.broker_epoch = answer.broker_epoch
        _log.info(
            "registered with broker epoch %d; listening: %s",
            answer.broker_epoch,
            ", ".join(
                f"{each.name} on {each.endpoint} ({each.protocol}, for {each.purpose})"
                for each in registration.listeners
            ),
        )
        self._on_registered(answer.broker_epoch)
        if not self._lease.started:
            self._lease.start()

    async def _requests(self) -> AsyncIterator[cluster_pb2.SessionRequest]:
        registration = self._registration()
        while True:
            self._progress.clear()
            yield cluster_pb2.SessionRequest(
                broker_id=registration.broker_id,
                broker_epoch=self.broker_epoch,
                incarnation_id=registration.incarnation_id,
                metadata_offset=self.image.offset,
                want_unfence=self._want_unfence,
            )
            await self._progress.wait()

    def _on_session(self, response: cluster_pb2.SessionResponse) -> None:
        self._saw(ControllerEpoch(response.controller_epoch))
        if response.should_stop:
            self._on_cluster_stops()
        if response.fenced != self.fenced:
            self.fenced = response.fenced
            if self.fenced:
                _log.warning("fenced by the controller")
                self._on_fenced()
            else:
                _log.info("unfenced")
                self._on_unfenced()

    # ---- metadata -------------------------------------------------------------------------------

    async def _follow(self) -> None:
        backoff = Backoff(RETRY_SECONDS_FIRST, RETRY_SECONDS_LAST)
        reported = ""
        registration = self._registration()
        while True:
            try:
                batches = self._link.watch_metadata(
                    registration.broker_id, self.broker_epoch, Offset(self.image.offset + 1)
                )
                async with aclosing(batches):
                    async for batch in batches:
                        backoff.reset()
                        reported = ""
                        self._apply(batch)
            except (errors.PylogError, MetadataGap) as error:
                if str(error) != reported:
                    reported = str(error)
                    _log.warning("no metadata: %s", error)
                await backoff.wait()

    def _apply(self, batch: MetadataBatch) -> None:
        self._saw(batch.controller_epoch)
        delta = self.image.apply(batch)
        self._on_metadata(self.image, delta)
        self._progress.set()

    # ---- lease ----------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            self._lease.tick()
            await asyncio.sleep(TICK_SECONDS)

    def _renew(self) -> None:
        """On the lease thread, which must not look at the logs that a registration tells of."""
        epoch = self.broker_epoch
        if epoch >= 0:
            self._lease_line.renew(self._broker_id, epoch, self._heartbeat_ms / 1000)
