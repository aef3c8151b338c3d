"""Numbers beyond all bounds, bytes that are no text, closed streams: one line, never a trace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from pylog.cli.main import main
from tests.fakes.fake_cluster import FakeCluster

HUGE = "9" * 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def shell(cluster: FakeCluster) -> Callable[[str], tuple[int, bytes, bytes]]:
    """Status, output and errors of a line for the shell, in which `pylog` is the command."""
    environment = {
        **os.environ,
        "PYLOG_BOOTSTRAP_SERVERS": cluster.bootstrap_servers[0],
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = f"{sys.executable} -m pylog.cli.main"

    def run(line: str) -> tuple[int, bytes, bytes]:
        done = subprocess.run(
            ["bash", "-c", f'pylog() {{ {command} "$@"; }}; {line}'],
            env=environment,
            capture_output=True,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize(
    ("line", "status", "out", "err"),
    [
        ("pylog topics list >&-", 1, b"", b"pylog: standard output is closed\n"),
        ("pylog topics list >/dev/full", 1, b"", b"pylog: [Errno 28] No space left on device\n"),
        ("pylog produce t <&-", 1, b"", b"pylog: standard input is closed\n"),
        ("echo x | pylog produce t 2>&-", 0, b"", b""),
        ("printf '' | pylog produce t", 0, b"", b"0 records sent to t\n"),
        ("printf 'a\\n' | pylog produce t -q --headers $'n=\\xff' && pylog consume t --offset -1 "
         "--until-end --format $'%h\\xfe\\n'", 0, b"n=\xff\xfe\n", b""),
    ],
)  # fmt: skip
def test_streams(
    shell: Callable[[str], tuple[int, bytes, bytes]], line: str, status: int, out: bytes, err: bytes
) -> None:
    assert shell(line) == (status, out, err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume", "t", "--group", "\udcff"),
        ("consume", "t", "--share-group", "\udcff"),
        ("produce", "\udcff"),
        ("groups", "describe", "g", "\udcff"),
        ("groups", "reset-offsets", "\udcff", "--topic", "t", "--to-latest"),
        ("configs", "describe", "group", "\udcff"),
        ("configs", "alter", "topic", "t", "--set", "retention.ms=\udcff"),
        ("transactions", "describe", "\udcff"),
        ("sinks", "abort", "\udcff", "s"),
    ],
    ids=" ".join,
)
def test_names_are_text(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert main(["-b", cluster.bootstrap_servers[0], *arguments]) == 2
    assert "\\udcff' is no text in UTF-8." in capsys.readouterr().err.splitlines()[-1]


def test_names_in_utf8_need_no_locale(shell: Callable[[str], tuple[int, bytes, bytes]]) -> None:
    locale = "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0"
    status, _, err = shell(f"{locale} pylog groups describe \u00e9 --json")
    assert (status, b"there is no group '\\u00e9'" in err.replace(b"\\\\", b"\\")) == (1, True)


def test_settings_of_a_consumer_that_commits_by_itself(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("-b", cluster.bootstrap_servers[0], "consume", "t", "--group", "g")
    asked = ("--config", "enable.auto.commit=perhaps", "--timeout", "0")
    assert main([*at, *asked]) == 1
    assert "enable_auto_commit='perhaps': it must be true or false" in capsys.readouterr().err
    assert main([*at, *asked, "--max-messages", "1"]) == 2
    assert "there is an option of the command for it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("consume", "t", "--offset", HUGE), 2, "beyond 64 bits"),
        (("consume", "t", "--offset", f"-{HUGE}"), 2, "beyond 64 bits"),
        (("consume", "t", "--offset", f"@{HUGE}"), 2, "beyond 64 bits"),
        (("consume", "t", "--offset", "@1969-12-31"), 2, "--offset @1969-12-31: no record is"),
        (("topics", "offsets", "t", "--at", "1969-12-31"), 2, "--at 1969-12-31: no record is of"),
        (("consume", "t", "--timeout", "nan"), 2, "nan is not a number up to"),
        (("topics", "offsets", "t", "--at", HUGE), 1, "later than any time"),
        (("topics", "create", "z", "--partitions", HUGE), 1, "it must be 1 to 2147483647"),
        (("topics", "create", "z", "--replication-factor", HUGE), 1, "replicas; it must be 1 to"),
        (("topics", "alter", "t", "--partitions", HUGE), 1, "give the new total, 1 to 2147483647"),
        (("cluster", "unregister", HUGE, "--yes"), 1, f"no broker {HUGE} is registered"),
        (("--api-timeout", "inf", "topics", "list"), 2, "inf is not a number up to"),
        (("bench", "produce", "--rate", "nan"), 2, "nan is not a number up to"),
        (("produce", "t", "--key-separator", ""), 2, "must not be empty"),
        # bad input 63
        (("-b", "", "topics", "list"), 1, "bootstrap_servers is empty"),
        (("-b", " , ", "topics", "list"), 1, "bootstrap_servers is empty"),
        (("topics", "list", "-b", ":"), 1, "':' has no port"),
    ],
)
def test_values(
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    status: int,
    words: str,
) -> None:
    monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", cluster.bootstrap_servers[0])
    assert main(arguments) == status
    err = capsys.readouterr().err
    assert words in err
    assert "defect" not in err
