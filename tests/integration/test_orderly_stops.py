"""A broker that is asked to stop in the middle of its work: what its directory says afterwards."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from pylog.clock import SYSTEM_CLOCK
from pylog.local import LocalCluster
from pylog.model import NewTopic, TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.head.head import Head
from pylog_broker.head.settings import HeadSettings
from pylog_broker.metadata.admin import CreateTopics, DeleteTopics, TopicsCreated, TopicsDeleted
from pylog_broker.node.service import BrokerService
from pylog_broker.node.settings import NodeReady, NodeSettings
from pylog_broker.replication.produce_messages import PartitionBatch, Produce
from pylog_broker.storage.directories.clean_marker import CLEAN_MARKER
from pylog_broker.storage.files import OsFiles

pytestmark = pytest.mark.integration

PATIENCE_S = 60
SECRET = bytes(16)


class HeldSyncs(OsFiles):
    """A disk on which syncs of a thread take until they are let go, as soon as `held` is set."""

    def __init__(self) -> None:
        self.held = threading.Event()
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def fsync(self, handle: int) -> None:
        if self.held.is_set() and threading.current_thread() is not threading.main_thread():
            may_end = self.may_end
            self.begun.set()
            assert may_end.wait(PATIENCE_S)
        super().fsync(handle)

    def let_go(self) -> None:
        """Let those end that have begun."""
        may_end, self.may_end = self.may_end, threading.Event()
        self.begun.clear()
        may_end.set()


def run(main: Callable[[], Coroutine[None, None, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await main()

    asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


class Cluster:
    """A driver and one broker in this process, on one loop; the broker's disk can be held."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = HeldSyncs()
        self.stop = asyncio.Event()
        self.ready: asyncio.Future[NodeReady] = asyncio.get_running_loop().create_future()
        self.head = Head(
            HeadSettings(data_dir=str(root), brokers=1, secret=SECRET, listen="127.0.0.1:0")
        )

    async def start(self) -> None:
        """Return when the broker serves."""
        await self.begin()
        await self.ready

    async def begin(self) -> None:
        """Return when the broker has begun to start."""
        await self.head.start()
        settings = NodeSettings(
            data_dir=str(self.root), controller=self.head.bootstrap, secret=SECRET
        )
        self.broker = BrokerService(settings, self.stop, asyncio.Event(), self.ready.set_result)
        self.broker._files = self.files
        self.running = asyncio.ensure_future(self.broker.run())

    async def create(self, name: str, **config: str) -> None:
        """Make a topic; returns when the broker knows of it."""
        shell = self.head.controller.shell
        request = CreateTopics((NewTopic(name, config=config),))
        created = await shell.ask(
            lambda now_ms, token: shell.controller.create_topics(now_ms, request, token)
        )
        assert isinstance(created, TopicsCreated)
        assert created.topics[0].failure is None

    async def delete(self, name: str) -> None:
        """Returns when the broker knows of it."""
        shell = self.head.controller.shell
        request = DeleteTopics((name,))
        deleted = await shell.ask(
            lambda now_ms, token: shell.controller.delete_topics(now_ms, request, token)
        )
        assert isinstance(deleted, TopicsDeleted)
        assert deleted.topics[0].failure is None
        image = self.broker._membership.image
        await until(lambda: name not in image.topics_by_name)

    def append(self, name: str) -> None:
        manager = self.broker._engine.manager
        batches = (PartitionBatch(TopicPartition(name, 0), None, encode_batch([b"v"])),)
        now_ms, wall_ms = SYSTEM_CLOCK.monotonic_ms(), SYSTEM_CLOCK.wall_ms()
        effects = manager.produce(now_ms, wall_ms, Produce(1, 1_000, batches), lambda acks: None)
        self.broker._engine.perform(effects)

    async def ended_cleanly(self) -> bool:
        ended = await self.running
        await self.head.stop()
        return ended.clean


def test_a_stop_over_a_sync_and_over_new_metadata_is_a_clean_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The sync that an acknowledgement waits for is held until the broker stops; then the stop's
    own are, until a topic was deleted that the broker hosts.
    """

    async def main() -> None:
        cluster = Cluster(tmp_path)
        files = cluster.files
        await cluster.start()
        await cluster.create("t", **{"flush.messages": "1"})
        await cluster.create("deleted")
        logs = cluster.broker._logs
        names = {TopicPartition("t", 0), TopicPartition("deleted", 0)}
        await until(lambda: {log.topic_partition for log in logs.logs} == names)
        files.held.set()
        cluster.append("t")
        await until(files.begun.is_set)
        cluster.stop.set()
        await until(lambda: cluster.broker._disk_work.pool._shutdown)
        assert not logs._retired
        while not logs._retired:  # one task syncs several files
            files.let_go()
            await asyncio.sleep(0)
        await until(files.begun.is_set)
        await cluster.delete("deleted")
        files.held.clear()
        files.let_go()
        assert await cluster.ended_cleanly()

    run(main)
    told = [line.message for line in caplog.records if line.levelno >= logging.WARNING]
    assert [text for text in told if "closed here" in text] == []
    directory = tmp_path / "broker-1"
    assert (directory / CLEAN_MARKER).exists()
    assert (directory / "deleted-0").exists()  # the next start takes it away


def test_a_start_that_is_stopped_in_the_middle_leaves_the_directory_as_a_stop_does(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        cluster.files.held.set()
        await cluster.begin()
        await until(cluster.files.begun.is_set)  # its logs are being opened
        cluster.stop.set()
        cluster.files.held.clear()
        cluster.files.let_go()
        assert await cluster.ended_cleanly()

    run(main)
    assert (tmp_path / "broker-1" / CLEAN_MARKER).exists()


@pytest.mark.parametrize(
    "signals",
    [
        (signal.SIGTERM,),
        (signal.SIGTERM, signal.SIGTERM),
        (signal.SIGHUP,),
        (signal.SIGTERM, signal.SIGHUP),
    ],
)
def test_signals_end_a_broker_cleanly(tmp_path: Path, signals: tuple[signal.Signals, ...]) -> None:
    with LocalCluster(2, data_dir=tmp_path) as cluster:
        broker = cluster._nodes[1]
        for number in signals:
            broker.send(number)
        assert broker.wait(PATIENCE_S)
        assert broker._process.returncode == 0
        assert (tmp_path / "broker-1" / CLEAN_MARKER).exists()
