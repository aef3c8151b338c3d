"""Errors have one form: a line for people, an object for machines, both on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pylog import errors
from pylog.cli import failures
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
