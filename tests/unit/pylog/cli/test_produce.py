"""`pylog produce`: however it ends, it says how many records there are; and it copies topics."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylog import Producer, errors
from pylog.cli import produce
from pylog.cli.main import main
from pylog.cli.produce import _Tally
from pylog.next_steps import next_step
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.waiting import eventually

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        running.create_topic("t", 1)
        monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", running.bootstrap_servers[0])
        yield running


@pytest.fixture
def run(
    cluster: FakeCluster,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Exit status, standard output and standard error of a command that reads `stdin`."""

    def call(*arguments: str, stdin: bytes | io.RawIOBase = b"") -> tuple[int, str, str]:
        raw = io.BytesIO(stdin) if isinstance(stdin, bytes) else io.BufferedReader(stdin)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
        status = main(arguments)
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode()

    return call


def stored(run: Run) -> list[str]:
    status, out, _ = run("consume", "t", "--until-end")
    assert status == 0
    return out.splitlines()


def test_a_bad_line_is_named_and_what_was_stored_before_it_is_counted(run: Run) -> None:
    split = ("produce", "t", "--key-separator", ":")
    assert run(*split, stdin=b"a:1\nb:2\nno key\nd:4\n") == (
        1, "",
        "pylog: line 3 has no ':' between key and value: 'no key'\n"
        "pylog: 2 of 3 lines that were read are acknowledged, 1 are not\n"
        "pylog: lines 1 to 2 are stored; --from-line 3 goes on\n",
    )  # fmt: skip
    assert stored(run) == ["1", "2"]
    status, out, err = run(*split, "--keep-going", "--json", stdin=b"no key\na:3\n\nb:4\n")
    told = {"topic": "t", "records": 2, "failed": 2, "next_line": 1}
    assert (status, json.loads(out)) == (1, told)
    first, third, count = map(json.loads, err.splitlines())
    assert (first["line"], first["error"], third["line"]) == (1, "BadLine", 3)
    assert "line 1 has no ':'" in first["message"]
    assert (count["records"], count["failed"], count["next_line"]) == (2, 2, 1)
    assert stored(run) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_file_that_failed_in_the_middle_is_stored_whole_and_once(
    run: Run, tmp_path: Path, form: tuple[str, ...]
) -> None:
    """The fifth line is too large at first; then the command goes on where it says."""
    lines = tmp_path / "lines"
    values = [b"%d" % number for number in range(1, 9)]
    lines.write_bytes(b"\n".join([*values[:4], bytes(2_000), *values[5:]]))
    at_most = ("--config", "max.request.size=1000")
    status, out, err = run("produce", "t", str(lines), *at_most, *form)
    assert status == 1
    if form:
        assert json.loads(out)["next_line"] == 5
        assert json.loads(err.splitlines()[0]) | {"message": ""} == {
            "error": "MESSAGE_TOO_LARGE", "code": 10, "retriable": False, "line": 5, "message": "",
                "next_step": next_step(errors.MessageTooLarge),
        }  # fmt: skip
    else:
        assert err.startswith("pylog: line 5: MESSAGE_TOO_LARGE: ")
        assert "pylog: 4 of 5 lines that were read are acknowledged, 1 are not\n" in err
        assert err.endswith("pylog: lines 1 to 4 are stored; --from-line 5 goes on\n")
    lines.write_bytes(b"\n".join(values))
    assert run("produce", "t", str(lines), *at_most, "--from-line", "5", "-q") == (0, "", "")
    assert stored(run) == [value.decode() for value in values]


def test_a_first_line_behind_the_end_is_told(run: Run) -> None:
    status, _, err = run("produce", "t", "--from-line", "9", stdin=b"a\nb\n")
    assert (status, "--from-line 9: the input has 2 lines" in err) == (2, True)
    assert run("produce", "t", "--from-line", "3", stdin=b"a\nb\n")[0] == 0  # all are stored


def test_what_is_stored_behind_a_failure_is_told() -> None:
    tally = _Tally(3, last=9)
    for number in (3, 4, 6, 8):
        tally.listener(number)(None, None)
    for number in (7, 5, 9):
        tally.listener(number)(None, errors.MessageTooLarge("too large"))
    assert (tally.read, tally.failed, tally.next_line) == (7, 3, 5)
    assert tally._way_on() == (
        "lines 3 to 4 are stored; --from-line 5 goes on, and sends 2 again of those behind it, "
        "which are stored too"
    )


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_so_is_a_line_that_is_no_json(run: Run, quiet: tuple[str, ...]) -> None:
    lines = b'{"value": "a"}\nnonsense\n'
    status, out, err = run("produce", "t", "--input", "json", *quiet, stdin=lines)
    assert (status, out) == (1, "")
    first, last, on = err.splitlines()
    assert on == "pylog: lines 1 to 1 are stored; --from-line 2 goes on"
    assert first.startswith("pylog: line 2 is no record: ")
    assert last == "pylog: 1 of 2 lines that were read are acknowledged, 1 are not"


def test_a_first_line_that_finds_no_topic_is_counted(run: Run) -> None:
    status, _, err = run("--api-timeout", "1", "produce", "nope", stdin=b"a\nb\n")
    assert status == 1
    first = err.splitlines()[0]
    assert first.startswith("pylog: line 1: UNKNOWN_TOPIC_OR_PARTITION: topic nope")
    assert first.endswith(f". {next_step(errors.UnknownTopicOrPartition)}")
    assert "pylog: 0 of 1 lines that were read are acknowledged, 1 are not\n" in err


def test_a_line_beyond_the_limit_is_not_read_whole(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "LINE_BYTES_MAX", 3)
    lines = b"one\n1234\ntwo\n123456789\nx\n12345678"
    status, _, err = run("produce", "t", "--keep-going", stdin=lines)
    assert (status, err.splitlines()) == (1, [
        "pylog: line 2 is longer than 3 bytes",
        "pylog: line 4 is longer than 3 bytes",
        "pylog: line 6 is longer than 3 bytes",
        "pylog: 3 of 6 lines that were read are acknowledged, 3 are not",
    ])  # fmt: skip
    assert stored(run) == ["one", "two", "x"]


class Breaking(io.RawIOBase):
    """Gives two lines, and then an error."""

    def __init__(
        self, error: BaseException, before_second: Callable[[], None] = lambda: None
    ) -> None:
        self._error = error
        self._before_second = before_second
        self._lines = [b"a\n", b"b\n"]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        if not self._lines:
            raise self._error
        if len(self._lines) == 1:
            self._before_second()
        line = self._lines.pop(0)
        buffer[: len(line)] = line
        return len(line)


@pytest.mark.parametrize(
    ("error", "status", "last"),
    [
        (KeyboardInterrupt(), 130, "\n"),
        (OSError(5, "Input/output error"), 1, "pylog: [Errno 5] Input/output error\n"),
    ],
    ids=["Ctrl-C", "the input fails"],
)
@pytest.mark.parametrize("quiet", [(), ("--quiet",), ("--json",)])
def test_what_breaks_it_off_is_no_reason_to_be_silent(
    run: Run, error: BaseException, status: int, last: str, quiet: tuple[str, ...]
) -> None:
    found, out, err = run("produce", "t", *quiet, stdin=Breaking(error))
    assert (found, out) == (status, "")
    if quiet == ("--json",):
        told = json.loads(err.splitlines()[0])
        assert told.pop("message") == "2 of 2 lines that were read are acknowledged"
        assert told == {"records": 2, "failed": 0, "next_line": 3}
    else:
        assert err == (
            "pylog: 2 of 2 lines that were read are acknowledged\n"
            f"pylog: lines 1 to 2 are stored; --from-line 3 goes on\n{last}"
        )
    assert stored(run) == ["a", "b"]


@pytest.fixture
def shell(cluster: FakeCluster) -> Callable[[str], tuple[int, str, str]]:
    """Status, output and errors of a line for the shell, in which `pylog` is the command."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = f"{sys.executable} -m pylog.cli.main"

    def run(line: str) -> tuple[int, str, str]:
        done = subprocess.run(
            ["bash", "-c", f'set -o pipefail; pylog() {{ {command} "$@"; }}; {line}'],
            env=environment,
            capture_output=True,
            timeout=60,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


def test_a_reader_that_went_away_does_not_keep_the_count(
    shell: Callable[[str], tuple[int, str, str]],
) -> None:
    line = "(printf 'a\\n'; sleep 0.5) | pylog produce t --json | true"
    status, out, err = shell(line)
    assert (status, out) == (141, "")
    assert json.loads(err)["message"] == "1 of 1 lines that were read are acknowledged"


def test_a_topic_is_copied_as_the_help_says(
    cluster: FakeCluster, run: Run, shell: Callable[[str], tuple[int, str, str]]
) -> None:
    """Keys, headers, nulls, bytes that are no text, times; line ends and quotes within."""
    cluster.create_topic("orders", 1)
    cluster.create_topic("copy", 1)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        send = producer.send
        send("orders", b"v", key=b"k", headers=[("h", b"1"), ("h", None), ("b", b"\xff")])
        send("orders", None, key=b"\x00\xff")
        send("orders", b"", key=None, timestamp_ms=5)
        send("orders", 'two\nlines, "quoted" \\ \u2028 \U0001f600'.encode(), key=b"")
        send("orders", bytes(range(256)))
        producer.flush()
    line = "pylog consume orders --json --until-end | pylog produce copy --input json"
    assert run("produce", "--help")[1].count(line) == 1
    assert shell(line) == (0, "", "5 records sent to copy\n")
    first, second = (
        run("consume", name, "--until-end", "--json")[1] for name in ("orders", "copy")
    )
    assert first.count("\n") == 5
    assert second == first.replace('"topic": "orders"', '"topic": "copy"')


def test_until_the_end_is_from_the_beginning_unless_it_is_said(run: Run, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"a\nb\nc\n")
    assert run("produce", "t", str(lines))[0] == 0
    assert stored(run) == ["a", "b", "c"]
    assert run("consume", "t", "--until-end", "--offset", "-1")[1] == "c\n"
    assert run("consume", "t", "--until-end", "--offset", "latest")[1] == ""


def test_ctrl_c_waits_a_little_for_what_is_under_way_and_no_longer(
    cluster: FakeCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pylog.cli.produce.INTERRUPTED_SECONDS_MAX", 0.2)

    def gone() -> None:
        partition = cluster.topics["t"].partitions[0]
        eventually(20, lambda: partition.end == 1, "the first line is stored")
        cluster.stop_broker(1)

    given = Breaking(KeyboardInterrupt(), before_second=gone)
    status, _, err = run("produce", "t", "--config", "linger.ms=0", stdin=given)
    assert status == 130
    assert "CLIENT_CLOSED" in err
    # the answer to the first line may have been on its way
    assert re.search(r"pylog: [01] of 2 lines that were read are acknowledged, [12] are not\n", err)
