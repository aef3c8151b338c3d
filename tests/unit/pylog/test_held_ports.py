from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from pylog import errors
from pylog.held_ports import LOOPBACK, PORTS, HeldPorts


@pytest.fixture
def held() -> Iterator[HeldPorts]:
    held = HeldPorts()
    yield held
    held.close()


def serve(port: int) -> socket.socket:
    """As a server does, which sets SO_REUSEADDR."""
    return socket.create_server((LOOPBACK, port))


@pytest.mark.skipif(sys.platform != "linux", reason="ports are held on Linux only")
def test_a_held_port_is_its_servers_again_and_again(held: HeldPorts) -> None:
    port = held.any()
    assert port in PORTS
    for _ in range(2):
        with serve(port):
            socket.create_connection((LOOPBACK, port)).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((LOOPBACK, port))
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind((LOOPBACK, port))


@pytest.mark.skipif(sys.platform != "linux", reason="ports are held on Linux only")
def test_two_owners_never_get_the_same(held: HeldPorts, monkeypatch: pytest.MonkeyPatch) -> None:
    first = held.any()
    monkeypatch.setattr("random.choice", lambda _: first)
    other = HeldPorts()
    for owner in (other, held):
        with pytest.raises(errors.BrokerNotAvailable, match="no free port from 20000 to 31999"):
            owner.any()
    held.close()
    assert other.any() == first
    other.close()


def test_a_port_that_somebody_listens_on_is_not_taken(held: HeldPorts) -> None:
    port = held.any()
    held.close()
    with serve(port), pytest.raises(OSError, match="Address already in use"):
        held.take(LOOPBACK, port)
    held.take(LOOPBACK, port)
    with serve(port):
        pass
