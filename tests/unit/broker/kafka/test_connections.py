"""Server and client over a loopback socket, with a leader that answers from memory."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest
import uvloop

from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId
from pylog_broker.kafka import client
from pylog_broker.kafka.client import LeaderConnections
from pylog_broker.kafka.generated import api_versions, fetch
from pylog_broker.kafka.generated import offset_for_leader_epoch as epochs
from pylog_broker.kafka.headers import encode_request_header, response_body
from pylog_broker.kafka.server import LISTENER, UNPROVEN, ReplicationServer
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import Endpoint
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.net.shares import UNPROVEN_MAX
from pylog_broker.replication.effects import Effect, ReplicaFetchDone
from pylog_broker.replication.fetch_messages import EpochEnd
from pylog_broker.replication.replica_fetch_messages import (
    EpochEndQuery,
    EpochEnds,
    ReplicaEpochEnd,
    ReplicaFetch,
    ReplicaFetched,
    ReplicaPartitionData,
    ReplicaPartitionFetch,
)

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

SECRET = b"s" * 32
TOPIC = TopicId("abcdefghijklmnopqrstuA")
LEADER = BrokerId(1)


def replica_fetch(offset: int = 7, max_bytes: int = 1000) -> ReplicaFetch:
    item = ReplicaPartitionFetch(
        TOPIC, 3, LeaderEpoch(2), Offset(offset), LeaderEpoch(1), Offset(0), max_bytes
    )
    return ReplicaFetch(BrokerId(2), BrokerEpoch(9), 500, 1, 1 << 20, (item,))


class MemoryLeader:
    """Answers fetches with as many bytes as were asked for; holds back those of offset 99."""

    def __init__(self) -> None:
        self.requests: list[ReplicaFetch] = []
        self.held: list[Callable[[ReplicaFetched], None]] = []
        self.cancelled: list[object] = []

    def replica_fetch(self, now_ms: int, request: ReplicaFetch, token: object) -> list[Effect]:
        self.requests.append(request)
        item = request.partitions[0]
        if item.fetch_offset == 99:
            self.held.append(cast(Callable[[ReplicaFetched], None], token))
            return []
        data = ReplicaPartitionData(
            item.topic_id,
            item.partition,
            failure=None if item.max_bytes else Failure(6),
            high_watermark=Offset(5),
            diverging=EpochEnd(LeaderEpoch(1), Offset(4)),
            records=bytes(item.max_bytes),
            current_leader=LEADER,
            current_leader_epoch=LeaderEpoch(2),
        )
        return [ReplicaFetchDone(token, ReplicaFetched(partitions=(data,)))]

    def epoch_ends(self, query: EpochEndQuery) -> EpochEnds:
        return EpochEnds(
            tuple(
                ReplicaEpochEnd(q.topic_id, q.partition, None, q.leader_epoch, Offset(11))
                for q in query.queries
            )
        )

    def cancel(self, token: object) -> None:
        self.cancelled.append(token)


def perform(effects: Sequence[Effect]) -> None:
    for effect in effects:
        assert isinstance(effect, ReplicaFetchDone)
        cast(Callable[[ReplicaFetched], None], effect.token)(effect.fetched)


class Pair:
    """A listener and the connections to it; `reports` are both sides' log lines."""

    def __init__(self, client_secret: bytes = SECRET) -> None:
        self.leader = MemoryLeader()
        self.reports: list[str] = []
        self.reported = asyncio.Event()
        self.counters = RequestCounters()
        self.server = ReplicationServer(
            cast("ReplicaManager", self.leader), perform, SYSTEM_CLOCK, SECRET,
            name_of=lambda topic_id: "events" if topic_id == TOPIC else None,
            id_of=lambda name: TOPIC if name == "events" else None, report=self.report,
            counters=self.counters,
        )  # fmt: skip
        self.port = 0
        self.client = LeaderConnections(
            "pylog-2", client_secret, lambda broker: Endpoint("127.0.0.1", self.port),
            report=self.report,
        )  # fmt: skip

    def report(self, line: str) -> None:
        self.reports.append(line)
        self.reported.set()

    async def start(self) -> Pair:
        self.port = await self.server.start("127.0.0.1", 0)
        return self

    async def fetch(self, request: ReplicaFetch) -> ReplicaFetched | None:
        future: asyncio.Future[ReplicaFetched | None] = asyncio.get_running_loop().create_future()
        self.client.fetch(LEADER, request, future.set_result)
        return await future

    async def stop(self) -> None:
        self.client.close()
        await self.server.close()


def run(test: Callable[[Pair], Coroutine[Any, Any, None]], client_secret: bytes = SECRET) -> None:
    async def main() -> None:
        pair = await Pair(client_secret).start()
        try:
            async with asyncio.timeout(10):
                await test(pair)
        finally:
            await pair.stop()

    # Brokers run on uvloop, whose transports differ in small ways.
    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())


def test_a_fetch_travels_whole_both_ways() -> None:
    async def test(pair: Pair) -> None:
        request = replica_fetch(max_bytes=200_000)
        fetched = await pair.fetch(request)
        assert pair.leader.requests == [request]
        assert fetched is not None
        (data,) = fetched.partitions
        assert (data.topic_id, data.partition, data.high_watermark) == (TOPIC, 3, 5)
        assert data.records == bytes(200_000)
        assert data.diverging == EpochEnd(LeaderEpoch(1), Offset(4))
        assert (data.current_leader, data.current_leader_epoch) == (LEADER, 2)

    run(test)


def test_a_failure_travels_as_its_code() -> None:
    async def test(pair: Pair) -> None:
        fetched = await pair.fetch(replica_fetch(max_bytes=0))
        assert fetched is not None
        assert fetched.partitions[0].failure is not None
        assert fetched.partitions[0].failure.code == 6

    run(test)


def test_answers_keep_the_order_of_the_requests() -> None:
    async def test(pair: Pair) -> None:
        order: list[int] = []
        done = asyncio.Event()

        def on(number: int) -> Callable[[ReplicaFetched | None], None]:
            def answered(fetched: ReplicaFetched | None) -> None:
                order.append(number)
                if len(order) == 2:
                    done.set()

            return answered

        await pair.fetch(replica_fetch())
        pair.client.fetch(LEADER, replica_fetch(offset=99), on(1))
        pair.client.fetch(LEADER, replica_fetch(), on(2))
        while len(pair.leader.requests) < 3:
            await asyncio.sleep(0)
        assert order == []
        pair.leader.held[0](ReplicaFetched())
        await done.wait()
        assert order == [1, 2]

    run(test)


def test_epoch_ends_travel_by_topic_name() -> None:
    async def test(pair: Pair) -> None:
        future: asyncio.Future[memoryview | None] = asyncio.get_running_loop().create_future()
        wanted = epochs.OffsetForLeaderPartition(3, 2, 1)
        query = epochs.OffsetForLeaderEpochRequest(
            2, [epochs.OffsetForLeaderTopic("events", [wanted])]
        )
        body = epochs.encode_request(query, 4)
        pair.client._send(LEADER, epochs.KEY, 4, body, 9, future.set_result)
        buffer = await future
        assert buffer is not None
        answer = epochs.decode_response(buffer, response_body(buffer, epochs.KEY, 4), 4)
        ((topic, (end,)),) = [(t.topic, t.partitions) for t in answer.topics]
        assert (topic, end) == ("events", epochs.EpochEndOffset(0, 3, 1, 11))

    run(test)


def test_a_broken_connection_answers_none_at_once_and_frees_the_leaders_waiter() -> None:
    async def test(pair: Pair) -> None:
        await pair.fetch(replica_fetch())
        waiting = asyncio.ensure_future(pair.fetch(replica_fetch(offset=99)))
        while not pair.leader.held:
            await asyncio.sleep(0)
        await pair.server.close()
        assert await waiting is None
        while not pair.leader.cancelled:
            await asyncio.sleep(0)
        assert pair.leader.cancelled == pair.leader.held

    run(test)


def test_an_overdue_answer_breaks_the_connection_and_one_that_came_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One timer serves all requests: it was set for the first, which is answered."""
    monkeypatch.setattr(client, "ANSWER_SECONDS_MAX", 0.05)

    async def test(pair: Pair) -> None:
        request = replica_fetch()._replace(max_wait_ms=0)
        assert await pair.fetch(request) is not None
        [connection] = pair.client._connections.values()
        while connection._overdue is not None:
            await asyncio.sleep(0)
        assert await pair.fetch(request) is not None
        assert pair.reports == []
        held = replica_fetch(offset=99)._replace(max_wait_ms=0)
        assert await pair.fetch(held) is None
        assert "overdue" in pair.reports[0]

    run(test)


def test_nobody_listens() -> None:
    async def test(pair: Pair) -> None:
        await pair.server.close()
        assert await pair.fetch(replica_fetch()) is None
        assert "broker 1 at 127.0.0.1" in pair.reports[0]

    run(test)


def test_a_wrong_secret_is_named_and_nothing_is_fetched() -> None:
    async def test(pair: Pair) -> None:
        assert await pair.fetch(replica_fetch()) is None
        assert any("does not hold this cluster's secret" in line for line in pair.reports)
        assert pair.leader.requests == []

    run(test, client_secret=b"x" * 32)


def request_frame(key: int, version: int, body: bytes) -> bytes:
    header = encode_request_header(key, version, 1, "test")
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (struct.pack(">i", 65_537), "65537 bytes"),
        (struct.pack(">i", -5), "-5 bytes"),
        (struct.pack(">i", 3) + b"abc", "request header"),
        (struct.pack(">ihhih", 10, 999, 0, 1, -1), "api key 999"),
        (
            request_frame(
                fetch.KEY, 17, b"".join(fetch.encode_request(fetch.FetchRequest(), 17))
            ),
            "before authentication",
        ),
    ],
)  # fmt: skip
def test_strangers_are_closed_with_one_named_line(sent: bytes, says: str) -> None:
    async def test(pair: Pair) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
        writer.write(sent)
        assert await reader.read() == b""
        writer.close()
        await pair.reported.wait()
        assert len(pair.reports) == 1
        assert says in pair.reports[0]
        assert pair.leader.requests == []

    run(test)


def test_api_versions_needs_no_authentication_and_an_unknown_version_is_answered_as_v0() -> None:
    async def test(pair: Pair) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
        body = b"".join(api_versions.encode_request(api_versions.ApiVersionsRequest("a", "1"), 3))
        writer.write(request_frame(api_versions.KEY, 3, body))
        size = int.from_bytes(await reader.readexactly(4), "big")
        answer = api_versions.decode_response(memoryview(await reader.readexactly(size)), 4, 3)
        assert [k.api_key for k in answer.api_keys] == [1, 17, 18, 23, 36]
        writer.write(request_frame(api_versions.KEY, 77, b""))
        size = int.from_bytes(await reader.readexactly(4), "big")
        answer = api_versions.decode_response(memoryview(await reader.readexactly(size)), 4, 0)
        assert answer.error_code == 35
        assert len(answer.api_keys) == 5
        writer.close()

    run(test)


def test_a_crowd_that_proves_nothing_keeps_no_broker_out_and_takes_no_brokers_place() -> None:
    async def test(pair: Pair) -> None:
        counts = pair.server.quotas.by_listener
        crowd = [
            await asyncio.open_connection("127.0.0.1", pair.port) for _ in range(UNPROVEN_MAX + 6)
        ]
        fetched = await pair.fetch(replica_fetch())
        assert fetched is not None
        assert len(fetched.partitions) == 1
        assert counts == {LISTENER: 1, UNPROVEN: UNPROVEN_MAX - 1}
        for reader, _ in crowd[:7]:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        for _, writer in crowd:
            writer.close()
        while counts[UNPROVEN]:
            await asyncio.sleep(0)
        pair.client.close()
        while counts[LISTENER]:
            await asyncio.sleep(0)
        assert len([line for line in pair.reports if "unproven" in line]) == 1

    run(test)


def test_a_broker_that_asks_for_nothing_is_disconnected_and_comes_again_without_a_line() -> None:
    async def test(pair: Pair) -> None:
        assert await pair.fetch(replica_fetch()) is not None
        (first,) = pair.server.connections
        waiting = asyncio.ensure_future(pair.fetch(replica_fetch(offset=99)))
        while not pair.leader.held:
            await asyncio.sleep(0)
        pair.server.idle.seconds_max = 0
        for _ in range(2):
            pair.server.idle.look()
        assert pair.server.connections == {first}  # an answer is due
        pair.leader.held[0](ReplicaFetched())
        await waiting
        for _ in range(2):
            pair.server.idle.look()
        while pair.server.connections or not pair.client._connections[LEADER].broken:
            await asyncio.sleep(0)
        pair.server.idle.seconds_max = 60
        assert await pair.fetch(replica_fetch()) is not None
        assert pair.reports == []

    run(test)
