"""The worker's connection to Spark, here two ends of a TCP connection of the test's own."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pylog_connector.spark_socket import hasten


@pytest.fixture(autouse=True)
def callbacks() -> Iterator[list[Any]]:
    """The collector's callbacks, those of a test taken out again."""
    before = list(gc.callbacks)
    yield gc.callbacks
    gc.callbacks[:] = before


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as worker,
        server.accept()[0],
    ):
        yield worker


def worker_main(outfile: Any) -> socket.socket | None:
    """As Spark's: what a task runs finds it on the stack."""
    return task()


def task() -> socket.socket | None:
    return hasten()


def tcp(connection: socket.socket, option: int) -> int:
    return connection.getsockopt(socket.IPPROTO_TCP, option)


def test_the_connection_sends_at_once(connection: socket.socket) -> None:
    assert not tcp(connection, socket.TCP_NODELAY)
    with connection.makefile("wb") as outfile:
        kept = worker_main(outfile)
    assert kept is not None
    assert tcp(connection, socket.TCP_NODELAY)
    kept.close()


def test_each_full_collection_has_it_acknowledge_at_once_again(connection: socket.socket) -> None:
    with connection.makefile("wb") as outfile:
        kept = worker_main(outfile)
    assert kept is not None
    for _ in range(2):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        gc.collect(1)
        assert not tcp(connection, socket.TCP_QUICKACK)
        gc.collect()
        assert tcp(connection, socket.TCP_QUICKACK)
    kept.close()
    gc.collect()  # Spark has ended the worker's connection: nobody minds


@pytest.mark.parametrize("outfile", [None, "a name", 3.5])
def test_without_such_a_connection_nothing_happens(outfile: Any, callbacks: list[Any]) -> None:
    before = list(callbacks)
    assert worker_main(outfile) is None
    assert callbacks == before


def test_unix_sockets_and_files_are_left_alone(callbacks: list[Any], tmp_path: Any) -> None:
    before = list(callbacks)
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("wb") as outfile:
        worker_main(outfile)
    with (tmp_path / "file").open("wb") as plain:
        worker_main(plain)
    assert callbacks == before
