"""No escape sequence comes where none may come: in helps, errors, tables and progress bars."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator

import click
import pytest

from pylog import errors
from pylog.cli.context import Settings, print_json, print_table
from pylog.cli.main import COMMANDS, cli, main
from pylog.cli.progress import progress
from tests.fakes.fake_cluster import FakeCluster

ESCAPE = "\x1b"
TABLES = (
    ("topics", "list"),
    ("topics", "describe"),
    ("topics", "describe", "t"),
    ("configs", "describe", "topic", "t"),
    ("cluster", "describe"),
    ("cluster", "log-dirs"),
    ("cluster", "brokers", "--replicas"),
)
ERRORS = (
    ("topics", "describe", "not a name"),
    ("topics", "create", "t"),
    ("topics", "nonsense"),
    ("topics", "list", "--nonsense"),
    ("acls",),
)


class Screen(io.StringIO):
    """A standard output that is a terminal, or says that it is none."""

    def __init__(self, *, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


Written = Callable[[], str]
Plain = tuple[str, dict[str, str], bool]
COLORFUL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
PLAIN: tuple[Plain, ...] = (
    ("NO_COLOR", {**COLORFUL, "NO_COLOR": "1"}, True),
    ("NO_COLOR and FORCE_COLOR", {**COLORFUL, "NO_COLOR": "1", "FORCE_COLOR": "1"}, True),
    ("dumb", {"TERM": "dumb"}, True),
    ("no terminal", COLORFUL, False),
    ("no terminal, FORCE_COLOR", {**COLORFUL, "FORCE_COLOR": "1"}, False),
)


def at_screen(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, tty: bool) -> Written:
    """The text written to stdout and stderr from now on."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TERM", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    out, err = Screen(tty=tty), Screen(tty=tty)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    return lambda: out.getvalue() + err.getvalue()


@pytest.fixture(params=PLAIN, ids=[name for name, _, _ in PLAIN])
def begin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Written]:
    """To be called in the test: pytest puts its own streams there before."""
    _, variables, tty = request.param
    return lambda: at_screen(monkeypatch, variables, tty=tty)


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        running.create_topic("t", 2)
        yield running


def test_a_terminal_gets_its_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests below would see nothing in any case."""
    written = at_screen(monkeypatch, COLORFUL, tty=True)
    print_table(("a",), [("1",)])
    assert ESCAPE in written()
    written = at_screen(monkeypatch, COLORFUL, tty=True)
    with progress("sending", 10, unit="bytes") as advance:
        advance(5)
    assert ESCAPE in written()


@pytest.mark.parametrize("columns", ["1", "10", "30"])
def test_a_narrow_terminal_shows_whole_words(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", "24")  # without it a dumb terminal has 80 columns
    written = at_screen(monkeypatch, {"TERM": "dumb"}, tty=True)
    print_table(("topic", "partition", "lag s"), [("flights", 7, "12.5")])
    head, _, row, *more = [line.split() for line in written().splitlines()]
    if columns == "30":
        assert (head, row, more) == (
            ["topic", "partition", "lag", "s"],
            ["flights", "7", "12.5"],
            [],
        )
    else:
        assert "partition" in written()
        assert "7" in row


def test_helps(begin: Callable[[], Written]) -> None:
    written = begin()
    for name in COMMANDS:
        main([name, "--help"])
        command = cli.get_command(click.Context(cli), name)
        for inner in command.commands if isinstance(command, click.Group) else ():
            main([name, inner, "--help"])
    main(["--help"])
    assert written().count("Usage: pylog ") > 20
    assert ESCAPE not in written()


def test_tables_and_errors(cluster: FakeCluster, begin: Callable[[], Written]) -> None:
    written = begin()
    servers = cluster.bootstrap_servers[0]
    for arguments in TABLES:
        assert main(["-b", servers, *arguments]) == 0, arguments
    for arguments in ERRORS:
        assert main(["-b", servers, *arguments]) != 0, arguments
    assert "PartitionCount" in written()
    assert "listener" in written()
    assert ESCAPE not in written()


def test_progress_bars(begin: Callable[[], Written]) -> None:
    written = begin()
    with progress("sending", 10, unit="bytes") as advance:
        advance(5)
    assert written() == ""


HOSTILE = "[red]a\n\x1b[2Jb\x9b\u2028\u202e"
SHOWN = r"[red]a\n\x1b[2Jb\x9b\u2028\u202e"


def test_a_table_obeys_nothing_that_a_server_says(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("rack",), [(HOSTILE,)])
    assert capsys.readouterr().out.splitlines()[-1] == SHOWN


def test_json_says_what_a_server_said_and_moves_no_cursor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_json({"rack": HOSTILE})
    line = capsys.readouterr().out.removesuffix("\n")
    assert line.isprintable()
    assert json.loads(line) == {"rack": HOSTILE}


def test_a_servers_error_is_escaped_where_it_comes_in() -> None:
    error = errors.from_code(errors.InvalidRequest.code, HOSTILE)
    assert (type(error), str(error)) == (errors.InvalidRequest, SHOWN)
    assert str(errors.from_code(31_999, HOSTILE)) == f"error code 31999: {SHOWN}"


def test_an_error_is_printed_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise errors.InvalidRequest(HOSTILE)

    monkeypatch.setattr(Settings, "admin", fails)
    assert main(["topics", "list"]) == 1
    said = capsys.readouterr().err
    assert said.removesuffix("\n").isprintable()
    assert "INVALID_REQUEST" in said
