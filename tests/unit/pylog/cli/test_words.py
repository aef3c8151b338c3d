"""The command line's texts and completions, without a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from pylog.cli import context
from pylog.cli import progress as progress_module
from pylog.cli.main import COMMANDS, NOT_OFFERED, WITH_BROKERS, cli, main
from pylog.cli.progress import progress
from pylog.cli.record_format import as_json, compile_format
from pylog.cli.record_input import Line, json_reader, text_reader
from pylog.records.record import Record
from tests.fakes.fake_cluster import FakeCluster

HEAVY = (
    "grpc",
    "google.protobuf",
    "numpy",
    "pyarrow",
    "numba",
    "rich",
    "pylog.client.cluster.cluster",
)


def _complete(words: str, *, shell: str = "bash") -> list[str]:
    """The words that the shell would offer for the last of these."""
    comp = click.shell_completion.get_completion_class(shell)
    assert comp is not None
    *args, incomplete = words.split(" ")[1:]
    found = comp(cli, {}, "pylog", "_PYLOG_COMPLETE").get_completions(args, incomplete)
    return [item.value for item in found]


def _command_at(path: tuple[str, ...]) -> click.Command:
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        inner = command.get_command(click.Context(command), name)
        assert inner is not None
        command = inner
    return command


def _every_command() -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = [()]
    for name in (*COMMANDS, *WITH_BROKERS):
        command = _command_at((name,))
        paths.append((name,))
        if isinstance(command, click.Group):
            paths += [(name, inner) for inner in command.commands]
    return paths


@pytest.mark.parametrize("path", _every_command(), ids=" ".join)
def test_every_command_has_a_help(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Usage: {' '.join(('pylog', *path))} ")
    assert len(out.splitlines()) > 4


@pytest.mark.parametrize("path", _every_command(), ids=" ".join)
def test_every_option_has_a_help(path: tuple[str, ...]) -> None:
    options = [o for o in _command_at(path).params if isinstance(o, click.Option)]
    assert [o.name for o in options if not o.hidden and not o.help] == []


@pytest.mark.parametrize("path", [p for p in _every_command() if len(p) == 2], ids=" ".join)
def test_examples_in_helps_name_real_options(path: tuple[str, ...]) -> None:
    group = cli.get_command(click.Context(cli), path[0])
    assert isinstance(group, click.Group)
    command = group.commands[path[1]]
    known = {option for parameter in command.params for option in parameter.opts}
    prefix = f"pylog {' '.join(path)}"
    for line in (command.help or "").splitlines():
        if prefix in line:
            words = line.partition(prefix)[2].split()
            given = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert given <= known, line


def test_the_list_of_commands_is_cheap() -> None:
    code = (
        "import sys; from pylog.cli.main import main; status = main(['--help']); "
        f"print([m for m in {HEAVY!r} if m in sys.modules]); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_version_and_unknown_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pylog 0.")
    assert main(["topic", "list"]) == 2
    assert "No such command 'topic'. Did you mean 'topics'?" in capsys.readouterr().err
    assert not set(NOT_OFFERED) & set(COMMANDS)


def test_words_are_completed() -> None:
    assert _complete("pylog co") == ["completion", "configs", "console", "consume"]
    assert _complete("pylog configs describe b") == ["broker"]
    assert _complete("pylog configs describe broker d") == ["default"]
    assert "--from-beginning" in _complete("pylog consume t --from")


def test_topics_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeCluster() as cluster:
        monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", cluster.bootstrap_servers[0])
        for name in ("flights", "fruits", "orders"):
            cluster.create_topic(name)
        assert _complete("pylog consume f") == ["flights", "fruits"]
        assert _complete("pylog topics describe flights o") == ["orders"]
        assert _complete("pylog configs describe topic fr") == ["fruits"]
    monkeypatch.setattr(context, "COMPLETION_SECONDS_MAX", 0.1)
    assert _complete("pylog consume f") == []  # nobody answers


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_PYLOG_COMPLETE={shell}_complete" in script
    assert main(["completion", shell, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"shell": shell, "script": script[:-1]}
    assert main(["completion", "csh"]) == 2


def test_a_defect_is_one_line_and_shows_its_trace_on_demand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("the\nroof")

    monkeypatch.setattr(cli, "main", broken)
    assert main(["topics", "list"]) == 1
    assert capsys.readouterr().err == (
        "pylog: a defect of pylog itself: RuntimeError: the roof (set PYLOG_DEBUG=1 to see where)\n"
    )
    monkeypatch.setenv("PYLOG_DEBUG", "1")
    with pytest.raises(RuntimeError):
        main(["topics", "list"])


# ---- lines in ------------------------------------------------------------------------------------


def test_lines_as_text() -> None:
    read = text_reader("::", "NULL", [("h", b"1")])
    assert read(b"k::v::w", 1) == Line(b"v::w", b"k", [("h", b"1")])
    assert read(b"NULL::NULL", 1) == Line(None, None, [("h", b"1")])
    assert read(b"::", 1) == Line(b"", b"", [("h", b"1")])
    with pytest.raises(click.ClickException, match=r"line 7 has no '::' between key and value"):
        read(b"no", 7)
    assert text_reader(None, None, [])(b"a:b", 1) == Line(b"a:b")


def test_lines_as_json() -> None:
    line = {
        "value": {"base64": "//4="}, "key": None, "headers": [["a", "b"], ["c", None]],
        "timestamp": 5, "topic": "t", "offset": 7,
    }  # fmt: skip
    assert json_reader(json.dumps(line).encode(), 1) == Line(
        b"\xff\xfe", None, [("a", b"b"), ("c", None)], 5
    )
    assert json_reader('{"value": "ä"}'.encode(), 1) == Line("ä".encode())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "line 3 is no record: Expecting value"),
        (b"[]", "it must be an object with a 'value'"),
        (b'{"key": "k"}', "it must be an object with a 'value'"),
        (b'{"value": 5}', "5 is neither a text, null, nor"),
        (b'{"value": {"base64": "?"}}', "'?' is no base64"),
        (b'{"value": {"base64": 5}}', '{"base64": 5} is neither a text, null, nor'),
        (b'{"value": {"base64": "\\u00e9"}}', "is no base64"),
        (b'{"value": "v", "headers": [1]}', "its headers must be [[NAME, VALUE], ...], not 1"),
        (b'{"value": "v", "headers": ["ab"]}', 'must be [[NAME, VALUE], ...], not "ab"'),
        (b'{"value": "v", "headers": {"ab": "c"}}', 'must be [[NAME, VALUE], ...], not {"ab"'),
        (b'{"value": "v", "headers": [["a"]]}', 'must be [[NAME, VALUE], ...], not ["a"]'),
        (b'{"value": "v", "headers": [[null, "b"]]}', 'VALUE], ...], not [null, "b"]'),
        (b"[" * 100_000, "line 3 is no record: maximum recursion depth"),
        (b"\xff", "line 3 is no record"),
    ],
)
def test_lines_that_are_no_records(line: bytes, words: str) -> None:
    with pytest.raises(click.ClickException) as refused:
        json_reader(line, 3)
    assert words in str(refused.value.message)


# ---- records out ---------------------------------------------------------------------------------


def _record(key: bytes | None, value: bytes | None) -> Record:
    return Record.of("t", 1, 7, 99, key=key, value=value, headers=[("h", b"1"), ("n", None)])


@pytest.mark.parametrize(
    ("layout", "shown"),
    [
        (r"%k\t%v\n", b"k\t\xff\x00\n"),
        (r"%t-%p@%o %T %h", b"t-1@7 99 h=1,n=NULL"),
        (r"%K/%V%%\\\x00\xfF\0\r", b"1/2%\\\x00\xff\x00\r"),
    ],
)
def test_formats(layout: str, shown: bytes) -> None:
    assert compile_format(layout)(_record(b"k", b"\xff\0")) == shown


def test_nulls() -> None:
    assert compile_format("%k|%v|%K")(_record(None, None)) == b"||-1"
    assert compile_format("%k|%v", "NULL")(_record(None, b"")) == b"NULL|"


def test_what_a_terminal_would_obey() -> None:
    show = compile_format("%k|%v|%h\x1b\n", on_terminal=True)
    record = Record.of(
        "t",
        1,
        7,
        99,
        key=b"\x1b[2J\xff",
        value="\u00e4\n\tb\r\x9b\u202e".encode(),
        headers=[("\x07", b"\0")],
    )
    assert show(record) == (
        b"\\x1b[2J\\xff|" + "\u00e4\n\tb".encode() + rb"\r\x9b\u202e|\x07=\x00" + b"\x1b\n"
    )
    line = as_json(record)
    assert line.decode().strip().isprintable()
    assert json.loads(line)["value"] == "\u00e4\n\tb\r\x9b\u202e"
    plain = Record.of("t", 1, 7, 99, key=None, value="\u00e4".encode(), headers=[])
    assert "\u00e4".encode() in as_json(plain)


@pytest.mark.parametrize("layout", ["%", "%z", "\\", "\\q", "\\x4", "%k\\xg0"])
def test_formats_that_are_none(layout: str) -> None:
    with pytest.raises(ValueError, match=r"is no field|is no escape"):
        compile_format(layout)


# ---- progress ------------------------------------------------------------------------------------


def test_progress_only_where_a_person_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*, tty: bool, hidden: bool) -> str:
        isatty: Callable[[], bool] = lambda: tty  # noqa: E731
        monkeypatch.setattr(progress_module.sys.stderr, "isatty", isatty)
        with progress("sending", 10, unit="bytes", hidden=hidden) as advance:
            advance(10)
        return capsys.readouterr().err

    monkeypatch.setenv("TERM", "xterm")
    assert run(tty=False, hidden=False) == ""
    assert run(tty=True, hidden=True) == ""
    assert "sending" in run(tty=True, hidden=False)
