"""A command that a signal ends: a status, and no trace."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import Producer
from pylog.cli import __main__ as entry
from pylog.cli import main as command_line
from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Those of a command in the foreground, whoever runs the tests, until the test is over."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_ctrl_c_during_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def interrupted(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "pylog.cli.main":
            raise KeyboardInterrupt
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    assert entry.main() == 130


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_status_of_a_signal(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int
) -> None:
    def run(*_arguments: object, **_options: object) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(command_line.cli, "main", run)
    assert entry.main() == status


def test_a_command_that_is_terminated_says_nothing() -> None:
    with FakeCluster() as cluster:
        cluster.create_topic("t")
        where = cluster.bootstrap_servers[0]
        with Producer(bootstrap_servers=where) as producer:
            producer.send("t", "one").result(10)
        reading = subprocess.Popen(
            [sys.executable, "-m", "pylog.cli", "-b", where, "consume", "t", "--from-beginning"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert reading.stdout is not None
        assert reading.stdout.readline() == b"one\n"
        reading.terminate()
        out, err = reading.communicate(timeout=20)
        assert (reading.returncode, out, err.strip()) == (143, b"", b"")
