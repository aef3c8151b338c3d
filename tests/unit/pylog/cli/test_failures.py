"""Errors have one form: a line for people, an object for machines, both on standard error."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator

import click
import pytest

from pylog import errors
from pylog.cli import failures
from pylog.cli.kafka_options import HINTS
from pylog.cli.main import cli, main
from pylog.next_steps import next_step
from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        running.create_topic("t", 1)
        monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", running.bootstrap_servers[0])
        yield running


FAULTS = [
    (["topics", "create", "t"], 1, "TOPIC_ALREADY_EXISTS", 36),
    (["topics", "describe", "nope"], 1, "UNKNOWN_TOPIC_OR_PARTITION", 3),
    (["topics", "create", "a/b"], 1, "INVALID_TOPIC", 17),
    (["acls", "list"], 1, "NOT_OFFERED", 35),
    (["mirror", "list"], 1, "NOT_OFFERED", 35),
    (["cluster", "drain", "1"], 1, "NOT_OFFERED", 35),
    (["topics", "alter", "t"], 2, "UsageError", None),
    (["topics", "nonsense"], 2, "NoSuchCommand", None),
    (["topics", "list", "--nonsense"], 2, "NoSuchOption", None),
    (["nonsense"], 2, "UsageError", None),
    (["produce", "t", "/no/such/file"], 2, "BadParameter", None),
]


@pytest.mark.parametrize("place", ["before", "behind"])
@pytest.mark.parametrize(("arguments", "status", "name", "code"), FAULTS)
def test_an_error_is_one_object_for_machines(
    cluster: FakeCluster,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    name: str,
    code: int | None,
    place: str,
) -> None:
    given = ["--json", *arguments] if place == "before" else [*arguments, "--json"]
    assert main(given) == status
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    told = json.loads(line)
    assert told["message"]
    assert told["error"] == name
    assert told.get("code") == code
    if code is not None:
        assert told["retriable"] in (True, False)
        assert told["next_step"]
    # For people it is the same in words.
    assert main(arguments) == status
    assert told["message"].split(": ")[-1][:40] in " ".join(capsys.readouterr().err.split())


def test_the_next_step_is_said_once(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topics", "delete", "nope", "neither"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(f". {next_step(errors.UnknownTopicOrPartition)}")
    assert second.endswith("there is no topic neither")
    assert main(["acls", "list"]) == 1
    assert capsys.readouterr().err.endswith("authorization is not offered yet\n")


def test_a_port_in_use_is_told_with_one_advice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert main(["local", "--listen", address]) == 1
    assert capsys.readouterr().err.endswith("; choose another port, or 0 for a free one\n")


def test_the_step_after_a_transaction_that_is_not_open_is_for_operators_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failures.Form.choose([])
    failures.tell_error(errors.InvalidTxnState("t-0: no transaction is open"))
    assert "t-0: no transaction is open. Look at what is open: `pylog transactions producers" in (
        capsys.readouterr().err
    )


def test_each_failed_item_is_an_object(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topics", "create", "t", "new", "--json"]) == 1
    out, err = capsys.readouterr()
    assert [json.loads(line)["name"] for line in out.splitlines()] == ["new"]
    assert [json.loads(line)["error"] for line in err.splitlines()] == ["TOPIC_ALREADY_EXISTS"]


def test_a_defect_is_an_object_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("the\nroof\x1b[2J")

    monkeypatch.setattr(cli, "main", broken)
    assert main(["topics", "list", "--json"]) == 1
    told = json.loads(capsys.readouterr().err)
    assert told["error"] == "RuntimeError"
    assert "the roof\\x1b[2J" in told["message"]


def test_what_stands_behind_two_dashes_is_no_option() -> None:
    failures.Form.choose(["produce", "--", "--json"])
    assert failures.Form.as_json is False
    failures.Form.choose(["--json", "produce", "--", "x"])
    assert failures.Form.as_json is True
    failures.Form.choose([])


# ---- questions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [("cluster", "unregister", "9"), ("sinks", "forget", "q", "s"),
     ("leaders", "elect", "t:0", "--unclean")],
)  # fmt: skip
@pytest.mark.parametrize(
    ("said", "last"),
    [("n\n", "pylog: nothing is changed"), ("\n", "pylog: nothing is changed"),
     ("", "pylog: nobody answers: give --yes to go on without asking"),
     ("what\n", "pylog: nobody answers: give --yes to go on without asking")],
)  # fmt: skip
def test_without_a_yes_nothing_is_done(
    cluster: FakeCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
    last: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[-1].endswith(last)) == ("", True)
    # A machine is not asked.
    assert main([*arguments, "--json"]) == 2
    told = json.loads(capsys.readouterr().err)
    assert told["message"] == "--json asks no question: give --yes to go on"


# ---- wrong usage ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["topics", "--list"], "No such option '--list'. It is a command: `pylog topics list`."),
        (["consume", "--topic", "t"], "'--topic'. The topic is an argument of the command."),
        (["groups", "describe", "--group", "g"], "'--group'. The group is an argument of the "),
        (["topics", "list", "--bootstrap-server", "x:1"], "Write -b HOST:PORT behind `pylog` or"),
        (["consume", "t", "--timeout-ms", "5"], "'--timeout-ms'. Write --timeout S, in seconds."),
        (["consume", "-C", "-t", "t"], "'-C'. Write `pylog consume`, "),
        (["consume", "t", "--tiemout", "5"], "'--tiemout'. Did you mean '--timeout'?"),
    ],
)
def test_an_option_of_kafkas_tools_is_told_in_pylogs_words(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert main([*arguments, "--json"]) == 2
    assert words in json.loads(capsys.readouterr().err)["message"]


def test_the_options_that_a_hint_for_kcats_letters_names_are_there() -> None:
    known = set()
    for name in ("consume", "produce"):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        known |= {option for parameter in command.params for option in parameter.opts}
    for option, hint in HINTS.items():
        if not option.startswith("--") and hint.startswith("Write --"):
            assert hint.split()[1].rstrip(".,") in known, option


def test_wrong_usage_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "t", "--format", "\x1b[2J\x9b2J\x07%z"]) == 2
    err = capsys.readouterr().err
    assert "\\x9b2J\\x07%z: %z is no field" in err
    assert "\x1b" not in err
    assert main(["completion"]) == 2  # a message of several lines
    assert capsys.readouterr().err.splitlines()[-2:] == ["    zsh,", "    fish"]
