"""The `pylog` command as a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.verify.spark_cluster import default_sigint

PYLOG = (sys.executable, "-m", "pylog.cli.main")

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PYLOG, *arguments], input=stdin, capture_output=True, timeout=60)


def test_a_session_from_an_empty_folder_to_consumed_records(tmp_path: Path) -> None:
    local = subprocess.Popen(
        [*PYLOG, "local", "--brokers", "2", "--data-dir", str(tmp_path), "--json"],
        stdout=subprocess.PIPE,
    )
    try:
        assert local.stdout is not None
        servers = json.loads(local.stdout.readline())["bootstrap_servers"]
        at = ("-b", servers)
        assert run(*at, "topics", "create", "t", "--replication-factor", "2").returncode == 0
        done = run(*at, "produce", "t", stdin=b"one\ntwo\nthree\n")
        assert (done.returncode, done.stderr) == (0, b"3 records sent to t\n")
        done = run(*at, "consume", "t", "--from-beginning", "--max-messages", "3")
        assert (done.returncode, done.stdout) == (0, b"one\ntwo\nthree\n")
        assert run(*at, "topics", "create", "t").returncode == 1

        # The reader goes away: quietly.
        reading = subprocess.Popen(
            [*PYLOG, *at, "consume", "t", "--from-beginning"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert reading.stdout is not None
        assert reading.stdout.readline() == b"one\n"
        reading.stdout.close()
        done = run(*at, "produce", "t", stdin=b"x\n" * 100)
        assert done.returncode == 0
        assert reading.wait(20) == 141
        assert reading.stderr is not None
        assert reading.stderr.read() == b""
        reading.stderr.close()

        # Ctrl-C.
        reading = subprocess.Popen(
            [*PYLOG, *at, "consume", "t", "--from-beginning"],
            stdout=subprocess.PIPE,
            preexec_fn=default_sigint,
        )
        assert reading.stdout is not None
        assert reading.stdout.readline() == b"one\n"
        reading.send_signal(signal.SIGINT)
        assert reading.wait(20) == 130
        reading.stdout.close()
    finally:
        local.send_signal(signal.SIGINT)
        assert local.wait(30) == 0
        assert local.stdout is not None
        local.stdout.close()
