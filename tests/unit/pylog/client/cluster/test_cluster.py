"""The connections of a client end when they are told to, whatever they were about to do."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from pylog import errors
from pylog.client.background import shared_loop
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.cluster_settings import ClusterSettings
from pylog.client.cluster.denials import UNKNOWN_TOPIC_GRACE_MS
from pylog.client.cluster.metadata import Address
from pylog.client.cluster.server import Server
from pylog.client.settings import ADMIN_SETTINGS
from pylog.clock import SYSTEM_CLOCK
from pylog.rpc import apis
from pylog.rpc.v1 import log_pb2
from tests.fakes.fake_cluster import FakeCluster


def test_a_close_together_with_a_wish_for_a_refresh_returns() -> None:
    thread = shared_loop()

    async def close_while_asked() -> None:
        cluster = Cluster(thread, settings)
        await cluster.connected(10_000)
        # The refreshing rests until it is wanted, which it is in the same turn as the close.
        while not (cluster._wanted and cluster._wanted._waiters):
            await asyncio.sleep(0)
        cluster.refresh_soon()
        async with asyncio.timeout(5):
            await cluster.close()

    with FakeCluster(1) as running:
        given = {"bootstrap_servers": running.bootstrap_servers, "retry_backoff_ms": 1}
        settings = ClusterSettings.of(ADMIN_SETTINGS.parse(given))
        for _ in range(5):
            thread.run(close_while_asked())


def test_the_first_answer_is_for_whoever_waits_and_topics_are_asked_for_at_once() -> None:
    thread = shared_loop()

    async def begin() -> tuple[int, int]:
        cluster = Cluster(thread, settings)
        refreshing = asyncio.ensure_future(cluster.refresh())
        while not cluster._asking:
            await asyncio.sleep(0)
        await cluster.connected(10_000)  # it comes while the first request is under way
        await refreshing
        asked = running.metadata_requests
        await cluster.refresh("t")
        known = len(cluster.metadata.topics["t"].partitions)
        await cluster.close()
        return asked, known

    with FakeCluster(1) as running:
        running.create_topic("t", 3)
        given = {"bootstrap_servers": running.bootstrap_servers, "retry_backoff_ms": 60_000}
        settings = ClusterSettings.of(ADMIN_SETTINGS.parse(given))
        assert thread.run(asyncio.wait_for(begin(), 30)) == (1, 3)


def test_a_topic_that_is_new_does_not_wait_for_the_pause_behind_a_refresh() -> None:
    thread = shared_loop()

    async def ask() -> tuple[list[int], int]:
        cluster = Cluster(thread, settings)
        for name in ("a", "b", "c"):
            await cluster.topic(name, 30_000)
        counts = [len(cluster.metadata.topics[name].partitions) for name in ("a", "b", "c")]
        asked = running.metadata_requests
        cluster.refresh_soon("a")  # a known one waits
        await asyncio.sleep(0)
        await cluster.close()
        return counts, running.metadata_requests - asked

    with FakeCluster(1) as running:
        for count, name in enumerate(("a", "b", "c"), 1):
            running.create_topic(name, count)
        given = {
            "bootstrap_servers": running.bootstrap_servers,
            "retry_backoff_ms": 60_000,
            "retry_backoff_max_ms": 60_000,
        }
        settings = ClusterSettings.of(ADMIN_SETTINGS.parse(given))
        assert thread.run(asyncio.wait_for(ask(), 30)) == ([1, 2, 3], 0)


def test_one_denial_of_a_known_topic_is_asked_again_and_counts_for_nothing() -> None:
    thread = shared_loop()

    async def ask() -> tuple[bool, bool, bool]:
        is_known = asyncio.Event()
        cluster = Cluster(
            thread,
            settings,
            on_change=lambda _: None if "t" in cluster.denied else is_known.set(),
        )
        await cluster.refresh("t")
        running.hidden_topics.add("t")  # as by a broker that has just started
        await cluster.refresh()
        denied = cluster.denied["t"]
        is_known.clear()
        running.hidden_topics.clear()
        await is_known.wait()
        known = "t" in cluster.metadata.topics
        await cluster.close()
        is_old = denied._replace(newest_ms=denied.since_ms + UNKNOWN_TOPIC_GRACE_MS)
        return denied.counts(), is_old.counts(), known

    with FakeCluster(1) as running:
        running.create_topic("t")
        given = {"bootstrap_servers": running.bootstrap_servers, "retry_backoff_ms": 1}
        settings = ClusterSettings.of(ADMIN_SETTINGS.parse(given))
        assert thread.run(asyncio.wait_for(ask(), 60)) == (False, True, True)


def answers_of_three(
    asks: int, offsets: dict[int, int], later: dict[int, int], *, forward: bool = True
) -> list[int]:
    """The metadata offsets in the answers of three brokers; `later`: theirs from the second answer
    on.
    """
    thread = shared_loop()

    async def ask() -> list[int]:
        cluster = Cluster(thread, settings)
        await cluster.refresh()
        request, found = log_pb2.MetadataRequest(), []
        for _ in range(asks):
            answer = await cluster.ask_any(request, forward=forward)
            found.append(answer.metadata_offset)
            running.metadata_offsets = later
        await cluster.close()
        return found

    with FakeCluster(3) as running:
        running.metadata_offsets = offsets
        given = {"bootstrap_servers": running.bootstrap_servers}
        settings = ClusterSettings.of(ADMIN_SETTINGS.parse(given))
        return thread.run(asyncio.wait_for(ask(), 60))


def test_what_an_administrator_is_told_does_not_go_back() -> None:
    same, one_is_behind = {1: 7, 2: 7, 3: 7}, {1: 7, 2: 7, 3: 5}
    assert answers_of_three(30, same, one_is_behind) == [7] * 30
    assert 5 in answers_of_three(30, same, one_is_behind, forward=False)


def test_the_newest_that_there_is_is_believed() -> None:
    assert answers_of_three(10, {1: 7, 2: 7, 3: 7}, {1: 4, 2: 5, 3: 4}) == [7] + [5] * 9


def test_a_server_that_is_silent_does_not_keep_an_older_answer_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pylog.client.cluster.cluster.METADATA_ANSWER_S_MAX", 3_600)
    thread = shared_loop()

    async def ask() -> list[int]:
        cluster = Cluster(thread, settings)
        request, found = log_pb2.MetadataRequest(), []
        for offset in (7, 5):
            running.metadata_offsets = {1: offset}
            answer = await cluster.ask_any(request, forward=True)
            found.append(answer.metadata_offset)
        await cluster.close()
        return found

    with FakeCluster(1) as running, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        both = [*running.bootstrap_servers, f"127.0.0.1:{silent.getsockname()[1]}"]
        given = {"bootstrap_servers": both, "request_timeout_ms": 3_600_000}
        settings = ClusterSettings.of(ADMIN_SETTINGS.parse(given))
        assert thread.run(asyncio.wait_for(ask(), 60)) == [7, 5]


def test_what_cannot_be_understood_does_not_end_the_refreshing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = shared_loop()

    async def go_on() -> None:
        cluster = Cluster(thread, settings)
        learn, faults = cluster._learn, iter([ValueError("a partition of no topic")])

        def stumble(*answer: Any, **more: Any) -> None:
            for fault in faults:
                raise fault
            learn(*answer, **more)

        monkeypatch.setattr(cluster, "_learn", stumble)
        await cluster.connected(10_000)
        await cluster.close()

    with FakeCluster(1) as running:
        given = {"bootstrap_servers": running.bootstrap_servers, "retry_backoff_ms": 1}
        settings = ClusterSettings.of(ADMIN_SETTINGS.parse(given))
        thread.run(go_on())
    assert "a partition of no topic" in caplog.text


class LostReason(grpc.aio.AioRpcError):
    """A refused connection as gRPC tells of it when it saw the hang-up first."""

    def __init__(self) -> None:
        super().__init__(
            grpc.StatusCode.UNAVAILABLE,
            grpc.aio.Metadata(),
            grpc.aio.Metadata(),
            details="failed to connect to all addresses; Timeout occurred: FD shutdown",
        )


class LosesReasons:
    """A channel whose calls fail so."""

    def unary_unary(self, *_method: object) -> Any:
        async def fails(_request: object, timeout: float) -> None:
            raise LostReason

        return fails


@pytest.mark.parametrize(
    ("listening", "words"), [(False, "connection refused"), (True, "no connection")]
)
def test_a_reason_that_grpc_lost_is_asked_of_the_kernel(listening: bool, words: str) -> None:
    async def call(port: int) -> None:
        server = Server(Address("127.0.0.1", port))
        await server.channel.close(None)
        server.channel = cast(grpc.aio.Channel, LosesReasons())
        await server.call(apis.METADATA, log_pb2.MetadataRequest(), 1)

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        if listening:
            held.listen()
        port = held.getsockname()[1]
        with pytest.raises(errors.BrokerUnreachable, match=f"^127.0.0.1:{port}: {words}$"):
            shared_loop().run(call(port))


def test_a_connection_over_grpc_gets_as_long_as_it_may_take() -> None:
    """Nobody says anything at this port."""
    thread = shared_loop()

    async def call() -> None:
        cluster = Cluster(thread, settings)
        try:
            server = cluster.server(settings.bootstrap[0])
            await server.call(apis.METADATA, log_pb2.MetadataRequest(), 30)
        finally:
            await cluster.close()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        given = {"bootstrap_servers": f"127.0.0.1:{silent.getsockname()[1]}"}
        given |= {"socket_connection_setup_timeout_ms": "50"}
        settings = ClusterSettings.of(ADMIN_SETTINGS.parse(given))
        began_ms = SYSTEM_CLOCK.monotonic_ms()
        with pytest.raises(errors.BrokerUnreachable):
            thread.run(call())
        assert SYSTEM_CLOCK.monotonic_ms() - began_ms < 5_000  # of 10 without the setting


def test_a_time_out_tells_the_last_fault_also_in_the_midst_of_an_attempt() -> None:
    thread = shared_loop()
    attempts = 0

    async def attempt(_left_s: float) -> None:
        nonlocal attempts
        attempts += 1
        if attempts > 1:
            await asyncio.sleep(60)
        raise errors.OffsetNotAvailable("the tale of the first attempt")

    async def run() -> None:
        cluster = Cluster(thread, settings)
        try:
            await cluster.retrying(attempt, 2_000, "trying")
        finally:
            await cluster.close()

    with FakeCluster(1) as running:
        given = {"bootstrap_servers": running.bootstrap_servers, "retry_backoff_ms": 1}
        settings = ClusterSettings.of(ADMIN_SETTINGS.parse(given))
        with pytest.raises(errors.RequestTimedOut, match="the tale of the first attempt"):
            thread.run(run())
    assert attempts == 2
