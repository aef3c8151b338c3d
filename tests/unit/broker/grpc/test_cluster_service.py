"""The metadata stream: catching up is shared out over turns of the controller's loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pylog.clock import SystemClock
from pylog.errors import InvalidRequest
from pylog.rpc.v1 import cluster_pb2
from pylog_broker.grpc.cluster_service import RECORDS_AT_ONCE, ClusterService
from pylog_broker.metadata import codec
from pylog_broker.metadata.messages import MetadataBatch
from pylog_broker.net.cluster_proof import BrokerSession
from pylog_broker.node.link_session import Handshake
from tests.fakes.controller_shell import ControllerShell

SECRET = b"secret"
PARTITIONS = 4 * RECORDS_AT_ONCE


class Watcher:
    """Stands for the call of a broker that watches metadata."""

    def __init__(self, session: BrokerSession) -> None:
        self.session = session
        self.batches: list[MetadataBatch] = []
        self.came = asyncio.Event()

    def invocation_metadata(self) -> Any:
        return self.session.metadata("WatchMetadata")

    async def write(self, message: cluster_pb2.MetadataBatch) -> None:
        self.batches.append(codec.decode_batch(message))
        self.came.set()


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_batch_of_thousands_of_records_leaves_turns_of_the_loop_to_others(snapshot: bool) -> None:
    shell = ControllerShell()
    shell.join(1)
    before = shell.controller.image.offset
    shell.create(partitions=PARTITIONS, replication=1)
    controller = shell.controller
    if snapshot:
        controller._ledger._tail.clear()
    expected = controller.batches_since(before)

    async def main() -> int:
        service: Any = ClusterService(controller, None, None, SystemClock(), SECRET)  # type: ignore[arg-type]
        handshake = Handshake(SECRET)
        answer = await service.Authenticate(handshake.first, None)
        await service.Authenticate(handshake.second(answer), None)
        watcher = Watcher(handshake.session)
        request = cluster_pb2.WatchMetadataRequest(from_offset=before)
        call = asyncio.ensure_future(service.WatchMetadata(request, watcher))
        turns = 0
        while not any(batch.records[-1] == expected[-1].records[-1] for batch in watcher.batches):
            turns += 1
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert tuple(watcher.batches) == expected
        return turns

    assert expected[0].snapshot is snapshot
    assert asyncio.run(main()) >= PARTITIONS // RECORDS_AT_ONCE


class Stream(Watcher):
    """Stands for the call of a broker that keeps a session."""

    def invocation_metadata(self) -> Any:
        return self.session.metadata("Session")


def test_what_ends_the_reading_of_a_session_ends_its_call() -> None:
    shell = ControllerShell()
    shell.join(1)
    epoch = shell.epoch_of(1)

    async def requests() -> AsyncIterator[cluster_pb2.SessionRequest]:
        yield cluster_pb2.SessionRequest(broker_id=1, broker_epoch=epoch)
        raise InvalidRequest("half a message")

    async def main() -> None:
        service: Any = ClusterService(shell.controller, None, shell.perform, SystemClock(), SECRET)  # type: ignore[arg-type]
        handshake = Handshake(SECRET)
        answer = await service.Authenticate(handshake.first, None)
        await service.Authenticate(handshake.second(answer), None)
        with pytest.raises(InvalidRequest, match="half a message"):
            await service.Session(requests(), Stream(handshake.session))

    asyncio.run(main())
