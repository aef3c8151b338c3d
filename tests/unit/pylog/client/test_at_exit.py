"""The end of a program that has not closed its clients."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from pylog import errors
from pylog.client import background


class Loop:
    """The shared loop, which is to be stopped at last."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


class Client:
    """Closes as it is told."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.closed = False

    def _close_at_exit(self) -> None:
        if self.fault is not None:
            raise self.fault
        self.closed = True


def ended(monkeypatch: pytest.MonkeyPatch, *clients: Client) -> Loop:
    loop = Loop()
    monkeypatch.setattr(background, "_shared", loop)
    monkeypatch.setattr(background, "_open", set(clients))
    background._at_exit()
    return loop


def test_all_clients_are_closed_and_the_loop_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Client(), Client()
    assert ended(monkeypatch, *clients).stopped
    assert all(client.closed for client in clients)


def test_clients_are_refused_behind_the_end_of_the_program() -> None:
    """Handlers of `atexit` that were there before pylog's run later, that of `logging` for one."""
    program = """
import atexit

def late():
    producer.flush()
    for attempt in (
        lambda: producer.send("t", b"x"),
        lambda: AdminClient(bootstrap_servers="127.0.0.1:1"),
        lambda: Consumer("t", bootstrap_servers="127.0.0.1:1"),
        admin.list_topics,
    ):
        try:
            attempt()
        except ClientClosed as error:
            print(error)

atexit.register(late)
from pylog import AdminClient, Consumer, Producer
from pylog.errors import ClientClosed
producer = Producer(bootstrap_servers="127.0.0.1:1")
admin = AdminClient(bootstrap_servers="127.0.0.1:1")
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    closed, *ends, admin_closed = run.stdout.splitlines()
    assert (closed, admin_closed) == ("the producer is closed", "the admin client is closed")
    assert len(ends) == 2
    assert all("the program ends" in line for line in ends)
    assert run.stderr == ""


def test_one_that_another_thread_uses_is_told_in_a_line_and_the_others_are_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    busy, other = Client(errors.WrongThread("the consumer is in use by another thread")), Client()
    assert ended(monkeypatch, busy, other).stopped
    assert other.closed
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is None
    assert "the consumer is in use by another thread" in record.getMessage()


def test_a_forks_parent_has_its_clients_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    client, loop = Client(), Loop()
    loop.pid = -1
    monkeypatch.setattr(background, "_shared", loop)
    monkeypatch.setattr(background, "_open", {client})
    background._at_exit()
    assert not client.closed
    assert not loop.stopped
