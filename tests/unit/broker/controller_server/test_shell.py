"""The controller's shell on a disk that is full for a while."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import Callable

import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerId, ControllerEpoch, topic_id_from_bytes
from pylog_broker.controller.controller import Controller
from pylog_broker.controller.effects import Effect, SnapshotDue
from pylog_broker.controller.metadata_log import MetadataLog
from pylog_broker.controller.metadata_snapshots import SNAPSHOT_SUFFIX, read_snapshot
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.controller_server import shell as shell_module
from pylog_broker.controller_server.shell import ControllerShell
from pylog_broker.metadata.features import SUPPORTED
from pylog_broker.metadata.messages import BrokerRegistered, Failure, RegisterBroker
from pylog_broker.metadata.records import Endpoint, RegisterBrokerRecord, Software, usual_listeners
from tests.fakes.memory_files import MemoryFiles


def open_shell(files: MemoryFiles) -> ControllerShell:
    log = MetadataLog.open(files, "/controller")
    settings = ControllerSettings(expected_brokers=1)
    controller = Controller(log.machine, settings, lambda: topic_id_from_bytes(bytes(16)))
    return ControllerShell(controller, log, SYSTEM_CLOCK)


async def started(files: MemoryFiles) -> ControllerShell:
    shell = open_shell(files)
    shell.perform(shell.controller.start(SYSTEM_CLOCK.monotonic_ms()))
    while shell.controller.image.controller_epoch != shell.controller.controller_epoch:
        await shell.next_change()
    return shell


def register(shell: ControllerShell, broker: int) -> Callable[[int, object], list[Effect]]:
    """A question whose answer waits for a record."""
    here = Endpoint("localhost", 9000 + broker)
    request = RegisterBroker(
        broker_id=BrokerId(broker),
        incarnation_id=f"incarnation-{broker}",
        cluster_id=shell.controller.image.cluster_id,
        host_id="host",
        rack=None,
        listeners=usual_listeners(here, here),
        software=Software("pylog", "1.0", features=SUPPORTED),
        directory_id=f"directory-{broker}",
        boot_id="boot",
        log_intact=True,
        highest_controller_epoch=ControllerEpoch(-1),
    )
    return lambda now_ms, token: shell.controller.register_broker(now_ms, request, token)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


def test_what_is_decided_waits_for_room(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shell_module, "ROOM_RETRY_SECONDS", 0.01)
    caplog.set_level(logging.WARNING)
    files = MemoryFiles()

    async def main() -> None:
        shell = await started(files)
        controller = shell.controller

        files.capacity = files._used()
        answer = await shell.ask_unless_full(register(shell, 1))
        assert isinstance(answer, Failure)
        assert answer.code == errors.KafkaStorageError.code
        assert "the change waits for room" in answer.message
        assert "no room on the disk of /controller" in answer.message
        # From now on nothing more is taken in.
        answer = await shell.ask_unless_full(register(shell, 2))
        assert isinstance(answer, Failure)
        assert answer.message.startswith("nothing was changed: ")
        assert not controller.image.brokers
        assert not shell.failed.done()
        files.capacity = None
        await until(lambda: not shell.no_room)
        assert list(controller.image.brokers) == [1]
        assert isinstance(await shell.ask_unless_full(register(shell, 2)), BrokerRegistered)
        await shell.stop()

    asyncio.run(main())
    assert sorted(MetadataLog.open(files, "/controller").image.brokers) == [1, 2]
    assert len([r for r in caplog.records if "no room" in r.message]) == 1
    assert "the metadata log can be written again" in caplog.text


def test_it_can_be_stopped_while_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_module, "ROOM_RETRY_SECONDS", 0.01)
    files = MemoryFiles()

    async def main() -> None:
        shell = await started(files)
        files.capacity = files._used()
        await shell.ask_unless_full(register(shell, 1))
        assert shell.no_room
        await shell.stop()
        files.capacity = None

    asyncio.run(main())
    assert not MetadataLog.open(files, "/controller").image.brokers


def snapshot_due(shell: ControllerShell) -> SnapshotDue:
    image = shell.controller.image
    return SnapshotDue(image.offset, image.controller_epoch)


def snapshots(files: MemoryFiles) -> list[str]:
    return [name for name in files.listdir("/controller") if name.endswith(SNAPSHOT_SUFFIX)]


class SlowSnapshots(MemoryFiles):
    """A snapshot is on its way to the disk until `release` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def write_atomic(self, path: str, data: bytes) -> None:
        if path.endswith(SNAPSHOT_SUFFIX):
            assert self.release.wait(10), "the loop or the writer waits for the snapshot"
        super().write_atomic(path, data)


def test_a_snapshot_is_written_beside_the_loop_and_the_writer() -> None:
    files = SlowSnapshots()

    async def main() -> None:
        shell = await started(files)
        end = shell.controller.image.offset + 1
        shell.perform([snapshot_due(shell)])
        # Appended, synced and answered while the snapshot is under way.
        assert isinstance(await shell.ask(register(shell, 1)), BrokerRegistered)
        assert snapshots(files) == []
        files.release.set()
        await until(lambda: bool(snapshots(files)))
        assert isinstance(await shell.ask(register(shell, 2)), BrokerRegistered)
        assert snapshots(files) == [f"{end:020d}-0000000001{SNAPSHOT_SUFFIX}"]
        await shell.stop()

    asyncio.run(main())
    # Records that came meanwhile are behind the snapshot, which does not have them.
    name = snapshots(files)[0]
    assert not any(
        isinstance(record, RegisterBrokerRecord)
        for record in read_snapshot(files.read_all(f"/controller/{name}"))
    )
    assert sorted(MetadataLog.open(files, "/controller").image.brokers) == [1, 2]


def test_the_snapshot_that_is_due_meanwhile_comes_next_and_the_log_is_cut_behind_the_older() -> (
    None
):
    files = SlowSnapshots()

    async def main() -> None:
        shell = await started(files)
        first = shell.controller.image.offset + 1
        shell.perform([snapshot_due(shell)])
        assert isinstance(await shell.ask(register(shell, 1)), BrokerRegistered)
        shell.perform([snapshot_due(shell)])
        assert isinstance(await shell.ask(register(shell, 2)), BrokerRegistered)
        shell.perform([snapshot_due(shell)])  # takes the place of the one that has not begun
        third = shell.controller.image.offset + 1
        files.release.set()
        await until(lambda: shell._snapshot is None and shell._writer is None)
        assert [int(name[:20]) for name in snapshots(files)] == [first, third]
        assert shell._log._log.log_start_offset == first
        await shell.stop()

    asyncio.run(main())
    assert sorted(MetadataLog.open(files, "/controller").image.brokers) == [1, 2]


def test_a_stop_waits_for_a_snapshot_that_is_under_way() -> None:
    files = SlowSnapshots()

    async def main() -> None:
        shell = await started(files)
        shell.perform([snapshot_due(shell)])
        stopping = asyncio.ensure_future(shell.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        files.release.set()
        await stopping

    asyncio.run(main())
    assert len(snapshots(files)) == 1
    assert MetadataLog.open(files, "/controller").image.controller_epoch == 1


def test_a_disk_that_fails_over_a_snapshot_ends_the_controller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = MemoryFiles()

    async def main() -> None:
        shell = await started(files)
        files.fail("append", SNAPSHOT_SUFFIX, errno.EIO)
        shell.perform([snapshot_due(shell)])
        async with asyncio.timeout(10):
            assert "injected" in await shell.failed
        await shell.stop()

    asyncio.run(main())
    assert "the metadata log cannot be written" in caplog.text


def test_a_defect_ends_the_controller_as_a_broken_disk_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        shell = await started(MemoryFiles())

        def broken(now_ms: int, offset: int) -> list[Effect]:
            raise AssertionError("committed what was never appended")

        monkeypatch.setattr(shell.controller, "on_committed", broken)
        waiting = asyncio.ensure_future(shell.ask(register(shell, 1)))
        async with asyncio.timeout(10):
            assert "committed what was never appended" in await shell.failed
        waiting.cancel()
        await shell.stop()

    asyncio.run(main())
    assert "a defect of the controller; it ends" in caplog.text


def test_no_room_for_a_snapshot_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()

    async def main() -> None:
        shell = await started(files)
        files.capacity = files._used()
        shell.perform([snapshot_due(shell)])
        await until(lambda: shell._snapshot is None and shell._writer is None)
        files.capacity = None
        assert isinstance(await shell.ask(register(shell, 1)), BrokerRegistered)
        await shell.stop()

    asyncio.run(main())
    assert "no snapshot of the metadata is written now" in caplog.text
