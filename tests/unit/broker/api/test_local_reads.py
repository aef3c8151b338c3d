"""OpenLocalRead over a real replica manager and a real socket; the reader is the client's own."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from pylog import errors
from pylog.client.cluster.server import Server
from pylog.client.ranges import local_reads as client_reads
from pylog.client.ranges.local_files import LocalRead
from pylog.client.ranges.local_reads import LASTING_MS, PASSING_MS, LocalRange, LocalReads
from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog.rpc.v1 import log_pb2
from pylog_broker.api import local_reads
from pylog_broker.api.context import RequestContext
from pylog_broker.api.local_reads import LocalReadHandler, LocalReadOffer
from pylog_broker.net.file_door import FileDoor
from pylog_broker.protobuf.local_reads import query_from, read_offered
from pylog_broker.replication.effects import ColdRead, Effect, LocalReadEnded, LocalReadsOpened
from pylog_broker.replication.range_messages import LocalReadQuery
from pylog_broker.replication.settings import ReplicationSettings
from tests.fakes.broker_group import T0, WALL_MS, BrokerGroup
from tests.fakes.paged_files import PagedFiles

ONE = BrokerId(1)
CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5", "me")
COMMITTED = log_pb2.READ_COMMITTED
SETTINGS = ReplicationSettings(local_read_max_descriptors=2)


class StandingClock:
    """Time passes when a test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return WALL_MS

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody waits here")


class World:
    """Broker 1 of three with ten records, and a client of its machine: a `Server` too."""

    def __init__(self, root: Path) -> None:
        self.group = BrokerGroup(root, settings=SETTINGS)
        self.group.create_topic(config={"segment.bytes": "1024"})
        self.group.run()
        for _ in range(5):
            self.group.produce(1, batch=encode_batch([b"v" * 100] * 2, timestamps=WALL_MS))
        self.group.run()
        self.manager = self.group.managers[ONE]
        self.clock = StandingClock()
        self.pool = ThreadPoolExecutor(1)
        self.cold: list[ColdRead] = []
        self.handler = LocalReadHandler(
            self.manager, self.perform, cast(Any, self.clock), partial(FileDoor, self.pool), "m"
        )
        self.client = LocalReads(cast(Any, self.clock), 5_000)
        self.client._machine_id = "m"
        self.calls = 0

    def perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case LocalReadsOpened(token, answers):
                    cast(Callable[[object], None], token)(answers)
                case LocalReadEnded(read_id, cause):
                    self.handler.on_ended(read_id, cause)
                case ColdRead():
                    self.cold.append(effect)
                case _:
                    self.group._post(ONE, [effect])

    async def call(self, _api: object, request: Any, _timeout_s: float) -> Any:
        """The client's call, as a connection would carry it."""
        self.calls += 1
        return read_offered(await self.handler.handle(CONTEXT, query_from(request)))

    async def open(self, start: int = 0, end: int = 10) -> LocalRead | None:
        wanted = LocalRange(T0, "", 0, start, end, COMMITTED)
        return await self.client.open(1, cast(Server, self), wanted)

    async def opened(self, start: int = 0, end: int = 10) -> LocalRead:
        read = await self.open(start, end)
        assert read is not None, self.client.fallbacks
        return read

    async def until(self, done: Callable[[], bool]) -> None:
        while not done():
            await asyncio.sleep(0)

    def elect(self, leader: int) -> None:
        """The metadata come to broker 1, and it does what follows."""
        self.group.elect(leader)
        self.group.tell(ONE)
        mail = [effect for sender, effect in self.group._mail if sender == ONE]
        self.group._mail.clear()
        self.perform(mail)

    def close(self) -> None:
        self.handler.close()
        self.pool.shutdown()


def run(test: Callable[[World], Coroutine[Any, Any, None]], root: Path) -> None:
    async def main() -> None:
        world = World(root)
        try:
            async with asyncio.timeout(10):
                await test(world)
        finally:
            world.close()

    asyncio.run(main())


def offsets(read: LocalRead) -> list[int]:
    found: list[int] = []
    while (block := read.next_block()) is not None:
        found += [record.offset for record in iter_records(block, "t", 0)]
    return found


def ask(world: World, **wanted: Any) -> Coroutine[Any, Any, LocalReadOffer]:
    query = LocalReadQuery(T0, "", **{"start": 0, "end": 10, "machine_id": "m", **wanted})
    return world.handler.handle(CONTEXT, query)


def test_a_range_is_read_from_its_files_and_given_back(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        read = await world.opened()
        assert world.manager.local_reads.descriptors == 2
        assert offsets(read) == [*range(10)]
        assert (read.fault, read.position) == ("", 10)
        world.client.release(read)
        world.client.release(read)
        await world.until(lambda: not world.manager.local_reads.reads)
        assert world.manager.local_reads.descriptors == 0
        log = world.group.logs[ONE].get(T0)
        assert log is not None
        assert world.handler.counts.bytes_read.by_topic == {"t": log.size}
        assert world.client.bytes_read == log.size
        assert (world.handler.counts.opened, world.handler.counts.fallbacks) == (1, {})

    run(test, tmp_path)


def test_a_change_of_leaders_reaches_the_reader_at_once(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        read = await world.opened()
        files = [file.descriptor for file in read._files]
        world.elect(2)
        assert (offsets(read), read.fault, read.position) == ([], "over", 0)
        world.client.release(read)
        await world.until(lambda: not world.manager.local_reads.reads)
        assert world.handler.counts.fallbacks == {"leader_change": 1}
        assert len(files) == 2
        assert await world.open() is None
        assert world.client.fallbacks == {"FENCED_LEADER_EPOCH": 1}

    run(test, tmp_path)


def test_files_of_a_reader_that_rests_are_closed(tmp_path: Path) -> None:
    """Spark has enough rows for now; nobody calls next_block."""

    async def test(world: World) -> None:
        read = await world.opened()
        assert read.next_block() is not None
        world.elect(1)
        await world.until(lambda: not read._files)
        assert read.fault == "over"
        world.client.release(read)

    run(test, tmp_path)


def test_time_ends_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_reads, "CHECK_SECONDS", 0.001)

    async def test(world: World) -> None:
        read = await world.opened()
        world.clock.now_ms += 59_999
        world.handler._look()
        assert read.next_block() is not None
        world.clock.now_ms += 1
        await world.until(lambda: not read._files)
        assert world.handler.counts.fallbacks == {"expired": 1}
        world.client.release(read)
        await world.until(lambda: world.handler._timer is None)  # nothing is left to look at
        again = await world.opened(read.position)
        assert offsets(again) == [*range(read.position, 10)]
        world.client.release(again)

    run(test, tmp_path)


def test_refusals_are_told_and_remembered(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.client._machine_id = "another"
        assert await world.open() is None
        assert await world.open() is None
        assert (world.calls, world.client.fallbacks) == (1, {"RESOURCE_NOT_FOUND": 1})
        assert world.handler.counts.fallbacks == {"resource_not_found": 1}
        assert world.handler._door is None  # nothing was made for a stranger
        world.client._machine_id = "m"
        world.clock.now_ms += LASTING_MS
        read = await world.opened()
        assert await world.open() is None  # both files are held
        assert world.client.fallbacks["THROTTLING_QUOTA_EXCEEDED"] == 1
        world.client.release(read)
        await world.until(lambda: not world.manager.local_reads.reads)
        world.clock.now_ms += PASSING_MS
        again = await world.opened()
        world.client.release(again)

    run(test, tmp_path)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"machine_id": ""}, errors.ResourceNotFound.code),
        ({"start": 11, "end": 12}, errors.OffsetOutOfRange.code),
        ({"start": 10, "end": 11}, errors.OffsetNotAvailable.code),
        ({"current_leader_epoch": LeaderEpoch(5)}, errors.UnknownLeaderEpoch.code),
    ],
)
def test_wrong_requests(tmp_path: Path, wanted: dict[str, Any], code: int) -> None:
    async def test(world: World) -> None:
        offer = await ask(world, **wanted)
        assert offer.failure is not None
        assert offer.failure.code == code
        assert world.manager.local_reads.reads == {}

    run(test, tmp_path)


def test_ranges_that_are_none(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        for start, end in ((5, 5), (6, 5), (-1, 5)):
            with pytest.raises(errors.InvalidRequest, match="0 <= start_offset < end_offset"):
                await ask(world, start=start, end=end)

    run(test, tmp_path)


def test_no_descriptor_to_spare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        for number, code in (
            (errno.EMFILE, errors.ThrottlingQuotaExceeded.code),
            (errno.ENOENT, errors.KafkaStorageError.code),
        ):
            error = OSError(number, "no")

            def offer(_self: FileDoor, _key: int, _paths: object, error: OSError = error) -> bytes:
                raise error

            monkeypatch.setattr(FileDoor, "offer", offer)
            refused = await ask(world)
            assert refused.failure is not None
            assert refused.failure.code == code
        assert world.manager.local_reads.descriptors == 0

    run(test, tmp_path)


def test_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))

    async def test(world: World) -> None:
        refused = await ask(world)
        assert refused.failure is not None
        assert refused.failure.code == errors.ResourceNotFound.code
        assert "could not make its socket" in refused.failure.message

    run(test, tmp_path)


def test_nobody_waits_for_an_answer_any_more(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        log = world.group.logs[ONE].get(T0)
        assert log is not None
        log._reader._files = PagedFiles()
        asking = asyncio.ensure_future(ask(world, end=3))
        await world.until(lambda: bool(world.cold))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        [cold] = world.cold
        cast(Any, cold.read)()
        world.perform(world.manager.on_cold_read(1, cold))
        assert world.manager.local_reads.reads == {}

    run(test, tmp_path)


def test_nobody_comes_for_the_files(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.handler._make_door = partial(FileDoor, world.pool, claim_seconds=0.01)
        assert (await ask(world)).failure is None
        await world.until(lambda: not world.manager.local_reads.reads)
        assert world.handler.counts.fallbacks == {"unclaimed": 1}

    run(test, tmp_path)


def test_damage_is_reported(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        log = world.group.logs[ONE].get(T0)
        assert log is not None
        path = Path(log.segments[0].log_path)
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        read = await world.opened()
        path.write_bytes(data)  # the same file
        assert (offsets(read), read.is_damaged) == ([], True)
        world.client.release(read)
        await world.until(lambda: bool(world.handler.counts.fallbacks))
        assert world.handler.counts.fallbacks == {"damaged": 1}

    run(test, tmp_path)


class Impostor:
    """A server that answers as it likes, with a socket that does what `serve` does."""

    def __init__(self, folder: Path, answer: log_pb2.OpenLocalReadResponse) -> None:
        self.answer = answer
        self.listener = socket.socket(socket.AF_UNIX)
        self.answer.socket_path = str(folder / "s")
        self.listener.bind(self.answer.socket_path)
        self.listener.listen()
        self.listener.setblocking(False)

    async def call(self, _api: object, _request: object, _timeout_s: float) -> object:
        return self.answer


def offered(*files: tuple[int, int], end: int = 10) -> log_pb2.OpenLocalReadResponse:
    return log_pb2.OpenLocalReadResponse(
        end_offset=end, token=b"t" * 32, files=[log_pb2.FileRange(begin=b, end=e) for b, e in files]
    )


async def try_to_open(server: object, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    client = LocalReads(SYSTEM_CLOCK, 5_000)
    client._machine_id = "m"
    wanted = LocalRange(TopicPartition("t", 0), "", 0, 0, 10, COMMITTED)
    assert await client.open(1, cast(Server, server), wanted) is None
    return client.fallbacks


def test_a_reader_believes_no_impostor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_reads, "HAND_OVER_SECONDS", 0.1)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number, wrong in enumerate(
            [offered(), offered((0, 9), end=0), offered(*[(0, 9)] * 17)]
        ):
            folder = tmp_path / str(number)
            folder.mkdir()
            server = Impostor(folder, wrong)
            assert await try_to_open(server, monkeypatch) == {"UNKNOWN_SERVER_ERROR": 1}
            server.listener.close()
        server = Impostor(tmp_path, offered((0, 9), (0, 9)))
        assert await try_to_open(server, monkeypatch) == {"SOCKET": 1}  # it says nothing
        [silent, _] = await loop.sock_accept(server.listener)
        silent.close()

        async def closes() -> None:
            connection, _ = await loop.sock_accept(server.listener)
            connection.close()

        async def sends_one() -> None:
            connection, _ = await loop.sock_accept(server.listener)
            await loop.sock_recv(connection, 32)
            with (tmp_path / "x").open("wb") as file:
                socket.send_fds(connection, [b"\x01"], [file.fileno()])
            connection.close()

        for serve in (closes, sends_one):
            serving = asyncio.ensure_future(serve())
            assert await try_to_open(server, monkeypatch) == {"SOCKET": 1}
            await serving
        monkeypatch.setattr("os.geteuid", lambda: 4_711)
        assert await try_to_open(server, monkeypatch) == {"SOCKET": 1}  # another user's
        server.listener.close()
        (tmp_path / "s").unlink()
        assert await try_to_open(server, monkeypatch) == {"SOCKET": 1}  # another container's

    asyncio.run(main())


def test_what_is_deleted_goes_over_the_network(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        log = world.group.logs[ONE].get(T0)
        assert log is not None
        read = await world.opened(2)
        log.advance_log_start(Offset(4))
        world.handler._look()
        assert (offsets(read), read.fault) == ([], "over")
        world.client.release(read)
        await world.until(lambda: not world.manager.local_reads.reads)
        assert world.handler.counts.fallbacks == {"log_start": 1}
        assert await world.open(2) is None
        assert world.client.fallbacks == {"OFFSET_OUT_OF_RANGE": 1}

    run(test, tmp_path)
