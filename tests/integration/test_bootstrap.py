"""Bootstrap addresses of every kind (bad input 63), for both ways to the brokers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import AdminClient, LocalCluster, NewTopic, Producer, errors
from tests.fakes import one_way_out

pytestmark = pytest.mark.integration

ROUTINGS = ["direct", "gateway"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1) as running:
        with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("t"))
        yield running


def gateway(cluster: LocalCluster) -> str:
    return cluster.bootstrap_servers.split(",")[0]


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that is held, and at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def works(bootstrap: Any, routing: str) -> None:
    with Producer(bootstrap_servers=bootstrap, client_routing=routing) as producer:
        assert producer.send("t", b"x").result(20).topic == "t"


@pytest.mark.parametrize("routing", ROUTINGS)
def test_one_good_address_among_bad_ones_is_enough(
    cluster: LocalCluster, nobody: str, routing: str
) -> None:
    works([nobody, "no-such-host.invalid:9092", gateway(cluster)], routing)
    works(f" {nobody} , {gateway(cluster)},", routing)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_nobody_reachable_names_each_address_and_its_fault(nobody: str, routing: str) -> None:
    silent = socket.create_server(("127.0.0.1", 0))  # accepts, and says nothing
    mute = f"127.0.0.1:{silent.getsockname()[1]}"
    bootstrap = [nobody, "no-such-host.invalid:9092", mute]
    with (
        silent,
        AdminClient(bootstrap_servers=bootstrap, client_routing=routing) as admin,
        pytest.raises(errors.BootstrapFailed) as caught,
    ):
        admin.describe_cluster(timeout=2)
    said = str(caught.value)
    assert "within 2 s" in said
    assert f"{nobody}: connection refused" in said
    assert "no-such-host.invalid:9092: " in said
    assert f"{mute}: " in said


@pytest.mark.parametrize(
    ("bootstrap", "words"),
    [
        ("", "empty"),
        ([], "empty"),
        ("127.0.0.1", "has no port"),
        ("127.0.0.1:x", "port 'x'"),
        ("127.0.0.1:0", "port '0'"),
        ("127.0.0.1:65536", "port '65536'"),
        ("http://127.0.0.1:9092", "no scheme"),
        ("::1", "in brackets"),
        ("fe80::1:9092", "in brackets"),
    ],
)
def test_what_is_no_address_is_refused_at_construction(bootstrap: Any, words: str) -> None:
    with pytest.raises(errors.InvalidConfig, match=words):
        Producer(bootstrap_servers=bootstrap)


def test_an_address_of_ipv6_only_works(cluster: LocalCluster) -> None:
    port = int(gateway(cluster).rpartition(":")[2])
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    here = listener.getsockname()[1]
    with one_way_out.relay(listener, lambda: socket.create_connection(("127.0.0.1", port))):
        works(f"[::1]:{here}", "gateway")


def test_an_unknown_routing_names_the_two(cluster: LocalCluster) -> None:
    with pytest.raises(errors.InvalidConfig, match=r"client_routing='proxy'.* direct, gateway"):
        Producer(bootstrap_servers=gateway(cluster), client_routing="proxy")
