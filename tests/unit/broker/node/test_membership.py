"""Membership against a scripted controller: register, follow, return, give up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, cast

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerEpoch, BrokerId, ControllerEpoch, Offset
from pylog.rpc.v1 import cluster_pb2
from pylog_broker.metadata.messages import (
    BrokerRegistered,
    Failure,
    MetadataBatch,
    RegisterBroker,
)
from pylog_broker.metadata.records import ClusterRecord, Endpoint, usual_listeners
from pylog_broker.node.epoch_file import EpochFile
from pylog_broker.node.link import ControllerLink, LeaseLine
from pylog_broker.node.membership import Membership
from tests.fakes.memory_files import MemoryFiles


class ScriptedController:
    """Answers registrations from a list; streams say what is put into their queues."""

    target = "scripted:1"

    def __init__(self) -> None:
        self.registrations: list[RegisterBroker] = []
        self.answers: list[BrokerRegistered | Failure] = []
        self.sessions: asyncio.Queue[cluster_pb2.SessionResponse | errors.PylogError]
        self.sessions = asyncio.Queue()
        self.batches: asyncio.Queue[MetadataBatch] = asyncio.Queue()
        self.progress: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.watched_from: list[int] = []

    async def register(self, request: RegisterBroker) -> BrokerRegistered | Failure:
        self.registrations.append(request)
        return self.answers.pop(0)

    async def session(
        self, requests: AsyncIterator[cluster_pb2.SessionRequest]
    ) -> AsyncGenerator[cluster_pb2.SessionResponse, None]:
        async def read() -> None:
            async for request in requests:
                self.progress.put_nowait((request.broker_epoch, request.metadata_offset))

        reader = asyncio.ensure_future(read())
        try:
            while True:
                said = await self.sessions.get()
                if isinstance(said, errors.PylogError):
                    raise said
                yield said
        finally:
            reader.cancel()

    async def watch_metadata(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, from_offset: Offset
    ) -> AsyncGenerator[MetadataBatch, None]:
        self.watched_from.append(from_offset)
        while True:
            yield await self.batches.get()


class SilentLine:
    def renew(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, seconds: float) -> None:
        raise ConnectionError

    def close(self) -> None:
        pass


class Broker:
    """A membership with what it reported."""

    def __init__(self) -> None:
        self.controller = ScriptedController()
        self.files = MemoryFiles()
        self.files.mkdir("/b")
        self.epochs = EpochFile(self.files, ["/b"])
        self.heard: asyncio.Queue[object] = asyncio.Queue()
        put = self.heard.put_nowait
        self.membership = Membership(
            cast(ControllerLink, self.controller), cast(LeaseLine, SilentLine()), SYSTEM_CLOCK,
            self.epochs, self.registration, lease_ms=60_000, heartbeat_ms=60_000,
            on_registered=lambda epoch: put(("registered", epoch)),
            on_metadata=lambda image, delta: put(("metadata", image.offset)),
            on_unfenced=lambda: put("unfenced"), on_fenced=lambda: put("fenced"),
            on_cluster_stops=lambda: put("cluster stops"),
        )  # fmt: skip

    def registration(self) -> RegisterBroker:
        return RegisterBroker(
            BrokerId(3), "incarnation", "cluster", "host", None,
            usual_listeners(Endpoint("c", 1), Endpoint("r", 2)), "directory", "boot", True,
            self.epochs.highest,
        )  # fmt: skip


def granted(broker_epoch: int, controller_epoch: int = 1) -> BrokerRegistered:
    return BrokerRegistered(BrokerEpoch(broker_epoch), ControllerEpoch(controller_epoch))


def says(fenced: bool, epoch: int = 1, should_stop: bool = False) -> cluster_pb2.SessionResponse:
    return cluster_pb2.SessionResponse(
        fenced=fenced, controller_epoch=epoch, should_stop=should_stop
    )


def run(test: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        broker = Broker()
        try:
            async with asyncio.timeout(10):
                await test(broker)
        finally:
            await broker.membership.stop()

    asyncio.run(main())


def test_registers_reports_progress_and_is_unfenced() -> None:
    async def test(broker: Broker) -> None:
        controller = broker.controller
        controller.answers = [granted(5)]
        broker.membership.start()
        assert await broker.heard.get() == ("registered", 5)
        assert await controller.progress.get() == (5, -1)
        batch = MetadataBatch(ControllerEpoch(1), Offset(0), (ClusterRecord("cluster"),))
        controller.batches.put_nowait(batch)
        assert await broker.heard.get() == ("metadata", 0)
        assert await controller.progress.get() == (5, 0)
        controller.sessions.put_nowait(says(fenced=False))
        assert await broker.heard.get() == "unfenced"
        controller.sessions.put_nowait(says(fenced=False, should_stop=True))
        assert await broker.heard.get() == "cluster stops"

    run(test)


def test_a_broken_session_is_opened_again_under_the_same_epoch() -> None:
    async def test(broker: Broker) -> None:
        controller = broker.controller
        controller.answers = [granted(5)]
        broker.membership.start()
        await controller.progress.get()
        controller.sessions.put_nowait(errors.BrokerUnreachable("killed"))
        assert await controller.progress.get() == (5, -1)
        assert len(controller.registrations) == 1

    run(test)


def test_a_stale_epoch_registers_anew() -> None:
    async def test(broker: Broker) -> None:
        controller = broker.controller
        controller.answers = [granted(5), granted(9)]
        broker.membership.start()
        await controller.progress.get()
        controller.sessions.put_nowait(errors.StaleBrokerEpoch("unknown"))
        assert await controller.progress.get() == (9, -1)
        assert [request.highest_controller_epoch for request in controller.registrations] == [-1, 1]

    run(test)


def test_a_controller_that_was_set_back_is_not_obeyed() -> None:
    async def test(broker: Broker) -> None:
        controller = broker.controller
        broker.epochs.raise_to(ControllerEpoch(4))
        controller.answers = [granted(5, controller_epoch=3), granted(6, controller_epoch=4)]
        broker.membership.start()
        assert await broker.heard.get() == ("registered", 6)
        await controller.progress.get()
        controller.sessions.put_nowait(says(fenced=False, epoch=2))
        await controller.progress.get()
        assert broker.heard.empty()
        assert broker.membership.fenced

    run(test)


def test_a_refusal_for_good_ends_the_broker() -> None:
    async def test(broker: Broker) -> None:
        broker.controller.answers = [Failure(errors.InconsistentClusterId.code, "another cluster")]
        broker.membership.start()
        reason = await broker.membership.ended
        assert isinstance(reason, errors.InconsistentClusterId)
        assert "another cluster" in str(reason)

    run(test)
