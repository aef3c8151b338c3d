"""Messages too large for one side: told at once, with the limit that was met."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from pylog import errors
from pylog.client.admin.admin import AdminClient
from pylog.client.cluster import server
from pylog.client.consumer.consumer import Consumer
from pylog.client.producer.producer import Producer
from pylog.client.ranges.range_reader import RangeReader
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.clock import SYSTEM_CLOCK
from pylog.model import NewTopic, TopicPartition
from tests.fakes.fake_cluster import FakeCluster

T0 = TopicPartition("t", 0)
LIMIT = 100_000
SERVERS = rf"larger than the {LIMIT} that the server takes, its socket.request.max.bytes"
CLIENTS = rf"larger than the {LIMIT} that this client"
LATE_S = 20.0
"""Nothing here may take a good part of it: calls are given so long."""


@pytest.fixture
def strict() -> Iterator[FakeCluster]:
    """A broker that takes requests of `LIMIT` bytes."""
    with FakeCluster(1, request_bytes_max=LIMIT) as running:
        running.create_topic("t", 2)
        yield running


@pytest.fixture
def modest(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """A broker whose clients send and take messages of `LIMIT` bytes over gRPC."""
    monkeypatch.setattr(server, "MESSAGE_BYTES_MAX", LIMIT)
    with FakeCluster(1) as running:
        running.create_topic("t", 2)
        yield running


def at_once(cluster: FakeCluster, call: Callable[[], Any], words: str) -> None:
    """It fails as too large, in words that tell the limit, and long before its time is up."""
    began_ms = SYSTEM_CLOCK.monotonic_ms()
    with pytest.raises(errors.MessageTooLarge, match=words) as caught:
        call()
    assert SYSTEM_CLOCK.monotonic_ms() - began_ms < LATE_S * 1000 / 4
    assert not caught.value.retriable
    assert cluster.bootstrap_servers[0] in str(caught.value)


def admin(cluster: FakeCluster, **config: Any) -> AdminClient:
    given: dict[str, Any] = {"default_api_timeout_ms": int(LATE_S * 1000), **config}
    return AdminClient(bootstrap_servers=cluster.bootstrap_servers, **given)


def producer(cluster: FakeCluster, **config: Any) -> Producer:
    given: dict[str, Any] = {
        "linger_ms": 0,
        "max_request_size": 10 * LIMIT,
        "delivery_timeout_ms": int(LATE_S * 1000),
        "client_transport": "grpc",
        "retry_backoff_ms": 10,
        **config,
    }
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **given)


def consumer(cluster: FakeCluster, **config: Any) -> Consumer:
    given = {"client_transport": "grpc", "retry_backoff_ms": 10, **config}
    return Consumer(bootstrap_servers=cluster.bootstrap_servers, **given)


def ranges(cluster: FakeCluster) -> closing[RangeReader]:
    given = {"bootstrap_servers": cluster.bootstrap_servers, "client_transport": "grpc"}
    settings = CONSUMER_SETTINGS.parse({**given, "default_api_timeout_ms": int(LATE_S * 1000)})
    return closing(RangeReader(settings))


def make_many_topics(cluster: FakeCluster) -> None:
    """More than one answer tells of."""
    for number in range(300):
        cluster.create_topic(f"topic-{number}", 30)


# ---- one request, one answer -------------------------------------------------------------------


def test_a_request_over_the_servers_limit(strict: FakeCluster) -> None:
    large = NewTopic("large", config={"retention.ms": "1" * LIMIT})
    with admin(strict) as client:
        words = rf"a request of \d+ bytes is {SERVERS}"
        at_once(strict, lambda: client.create_topics(large), words)
        assert client.create_topics(NewTopic("small"))


def test_a_request_over_the_clients_limit(modest: FakeCluster) -> None:
    large = NewTopic("large", config={"retention.ms": "1" * LIMIT})
    with admin(modest) as client:
        words = rf"a request of \d+ bytes is {CLIENTS} sends over gRPC"
        at_once(modest, lambda: client.create_topics(large), words)
        assert client.create_topics(NewTopic("small"))


def test_an_answer_over_the_clients_limit(modest: FakeCluster) -> None:
    make_many_topics(modest)
    with admin(modest, client_transport="grpc") as client:
        at_once(modest, client.list_topics, rf"an answer of \d+ bytes is {CLIENTS} takes over gRPC")
        assert list(client.describe_topics("t")) == ["t"]


def test_an_answer_over_the_limit_of_grpc_goes_over_frames(modest: FakeCluster) -> None:
    make_many_topics(modest)
    with admin(modest) as client:
        assert list(client.describe_topics("t")) == ["t"]  # the client knows a broker from then on
        assert len(client.list_topics()) == 301


def test_metadata_over_the_clients_limit(
    modest: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The metadata that a client keeps of its topics, asked for by nobody in particular."""
    make_many_topics(modest)
    with consumer(modest) as reading:
        reading.subscribe(pattern=".*")
        at_once(modest, lambda: reading.poll(LATE_S), "an answer of .* Ask for less at once")
    with ranges(modest) as reader:
        at_once(modest, lambda: reader.topics(list(modest.topics)), "an answer of .*")
    told = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert len(told) == 2  # a line of each client
    assert all(r.exc_info is None for r in told)


def test_a_server_that_is_busy_for_a_moment_is_asked_again(strict: FakeCluster) -> None:
    strict.busy_for_calls = 3
    with admin(strict) as client:
        assert client.list_topics() == ["t"]
    assert strict.busy_for_calls == 0


# ---- records -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("brokers", "transport", "words"),
    [("strict", "auto", SERVERS), ("strict", "grpc", SERVERS), ("modest", "grpc", CLIENTS)],
)
def test_a_record_too_large_fails_alone(
    brokers: str, transport: str, words: str, request: pytest.FixtureRequest
) -> None:
    cluster: FakeCluster = request.getfixturevalue(brokers)
    with producer(cluster, client_transport=transport) as sending:
        before = sending.send("t", b"before", partition=0)
        large = sending.send("t", b"x" * (2 * LIMIT), partition=0)
        behind = [sending.send("t", b"%d" % n, partition=0) for n in range(20)]
        beside = sending.send("t", b"beside", partition=1)
        at_once(cluster, lambda: large.result(LATE_S), f"^t-0: .*{words}")
        assert before.result(LATE_S).offset == 0
        assert [one.result(LATE_S).offset for one in behind] == list(range(1, 21))
        assert beside.result(LATE_S).offset == 0


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_batches_too_large_are_taken_apart(strict: FakeCluster, transport: str) -> None:
    config = {"linger_ms": 60_000, "batch_size": 5 * LIMIT, "client_transport": transport}
    with producer(strict, **config) as sending:
        handles = [sending.send("t", b"%05d" % n * 100, partition=0) for n in range(900)]
        sending.flush(LATE_S)
        assert [handle.result(0).offset for handle in handles] == list(range(900))


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_batches_that_are_too_large_together_go_one_by_one(
    strict: FakeCluster, transport: str
) -> None:
    value = b"x" * (LIMIT * 6 // 10)
    config = {"linger_ms": 60_000, "batch_size": LIMIT * 7 // 10, "client_transport": transport}
    with producer(strict, **config) as sending:
        handles = [sending.send("t", value, partition=p) for p in (0, 1)]
        sending.flush(LATE_S)
        assert [handle.result(0).offset for handle in handles] == [0, 0]


def test_an_answer_too_large_is_told_by_poll(modest: FakeCluster) -> None:
    with producer(modest, client_transport="auto") as sending:
        sending.send("t", b"x" * (2 * LIMIT), partition=0).result(LATE_S)
        sending.send("t", b"small", partition=0).result(LATE_S)
    with consumer(modest) as reading:
        reading.assign([T0])
        reading.seek(T0, 0)
        words = f"^t-0: .*an answer of .* {CLIENTS} takes over gRPC"
        at_once(modest, lambda: reading.poll(LATE_S), words)
        at_once(modest, lambda: reading.poll(LATE_S), words)  # it stays where it was
        reading.seek(T0, 1)
        assert [record.value for record in reading.poll(LATE_S)] == [b"small"]


def test_an_answer_too_large_ends_the_reading_of_a_range(modest: FakeCluster) -> None:
    with producer(modest, client_transport="auto") as sending:
        sending.send("t", b"x" * (2 * LIMIT), partition=0).result(LATE_S)
    with ranges(modest) as reader:
        at_once(modest, lambda: list(reader.read("t", "", 0, 0, 1)), f"an answer of .* {CLIENTS}")
