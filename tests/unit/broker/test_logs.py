"""Log lines: their forms, their sources, floods, secrets, levels."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Callable, Iterator

import pytest

from pylog.errors import InvalidConfig
from pylog_broker import logs
from pylog_broker.log_settings import FORMATS, parse_levels
from pylog_broker.logs import IDENTITY, Floods


class SteppedClock:
    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


@pytest.fixture
def stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[[], str]]:
    """The lines that were logged since the last call; all is as it was afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    for handler in handlers:
        root.removeHandler(handler)
    monkeypatch.setattr(IDENTITY, "broker", 1)
    monkeypatch.setattr(IDENTITY, "broker_epoch", 12)
    monkeypatch.setattr(IDENTITY, "cluster", "abc")
    monkeypatch.setattr(logs, "_secrets", {"f00d"})
    yield lambda: capsys.readouterr().err
    for handler in list(root.handlers):
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    logging.getLogger("pylog.test.fine").setLevel(logging.NOTSET)


def say(form: str, message: str, *arguments: object, level: str = "") -> None:
    logs.set_up({"logging.format": form, "logging.level": level})
    logging.getLogger("pylog.test").info(message, *arguments)


def test_text_is_for_people(stderr: Callable[[], str]) -> None:
    say("text", "unfenced after %d ms", 7)
    line = stderr()
    assert line.endswith(" INFO pylog.test [broker 1, epoch 12]: unfenced after 7 ms\n")


def test_json_has_every_field_on_one_line(stderr: Callable[[], str]) -> None:
    say("json", 'a "quote" and a\nline')
    line = stderr()
    assert line.count("\n") == 1
    said = json.loads(line)
    assert said.pop("time").endswith("Z")
    assert said == {
        "level": "info",
        "logger": "pylog.test",
        "cluster": "abc",
        "broker": 1,
        "broker_epoch": 12,
        "message": 'a "quote" and a\nline',
    }


def test_logfmt_is_key_value(stderr: Callable[[], str]) -> None:
    say("logfmt", "disk full: 7 bytes\nleft")
    line = stderr()
    assert line.count("\n") == 1
    pairs = dict(part.split("=", 1) for part in shlex.split(line))
    assert (pairs["level"], pairs["broker"], pairs["broker_epoch"]) == ("info", "1", "12")
    assert pairs["message"] == r"disk full: 7 bytes\nleft"


FORGED = (
    "of cluster x\n2026-01-31 12:00:00,000 ERROR pylog.node: all is lost\r\x1b[2J\x9b\u2028\u202e"
)


@pytest.mark.parametrize("form", FORMATS)
def test_what_came_over_a_wire_forges_no_line(stderr: Callable[[], str], form: str) -> None:
    """As the message, as its argument, and in an exception."""
    logs.set_up({"logging.format": form})
    logger = logging.getLogger("pylog.test")
    logger.info("closed: %s", FORGED)
    logger.info(FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logger.exception("unexpected")
    *lines, end = stderr().split("\n")
    assert end == ""
    assert [line for line in lines if not line.isprintable()] == []
    ours = [line for line in lines if not line.startswith("  ")]
    assert len(ours) == 3
    if form == "json":
        assert json.loads(ours[0])["message"] == f"closed: {FORGED}"
        assert json.loads(ours[2])["message"].endswith(f"ValueError: {FORGED}")
    else:
        assert r"of cluster x\n2026-01-31" in ours[0]
        assert r"\u001b[2J" in ours[0] or r"\x1b[2J" in ours[0]
        assert r"\u2028\u202e" in ours[0]


@pytest.mark.parametrize("form", FORMATS)
def test_a_long_line_is_cut(stderr: Callable[[], str], form: str) -> None:
    say(form, "%s", "x" * 1_000_000)
    line = stderr()
    assert len(line) < 5_000
    assert "(995904 more characters)" in line


@pytest.mark.parametrize("form", FORMATS)
def test_no_secret_is_printed_not_even_in_a_traceback(stderr: Callable[[], str], form: str) -> None:
    logs.set_up({"logging.format": form})
    try:
        raise ValueError("the secret f00d is wrong")
    except ValueError:
        logging.getLogger("pylog.test").exception("refused f00d")
    said = stderr()
    assert "ValueError" in said
    assert "f00d" not in said


def test_levels_by_logger(stderr: Callable[[], str]) -> None:
    logs.set_up({"logging.level": "warning, pylog.test.fine=DEBUG"})
    logging.getLogger("pylog.test").info("not this")
    logging.getLogger("pylog.test.fine").debug("but this")
    said = stderr()
    assert "not this" not in said
    assert "but this" in said


def test_levels_follow_the_metadata(stderr: Callable[[], str]) -> None:
    """A broker's own value over the cluster's over that of the start; a value may go again."""
    fine = logging.getLogger("pylog.test.fine")
    logs.set_up({"logging.level": "WARNING"})
    logs.follow("WARNING", {}, {})
    assert not fine.isEnabledFor(logging.INFO)
    logs.follow("WARNING", {"logging.level": "ERROR"}, {"logging.level": "INFO,pylog.test=DEBUG"})
    assert fine.isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("pylog.other").isEnabledFor(logging.DEBUG)
    assert "logging.level is INFO,pylog.test=DEBUG from now on, and was WARNING" in stderr()
    logs.follow("WARNING", {"logging.level": "ERROR"}, {})
    assert not fine.isEnabledFor(logging.WARNING)
    logs.follow("WARNING", {"logging.level": "LOUD"}, {})
    assert not fine.isEnabledFor(logging.WARNING)
    logs.follow("WARNING", {}, {})
    assert fine.isEnabledFor(logging.WARNING)
    assert not fine.isEnabledFor(logging.INFO)


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("logging.level", "LOUD", "'LOUD' is not a level"),
        ("logging.level", "INFO,pylog=", "'pylog=' is not a level"),
        ("logging.format", "xml", "one of text, logfmt, json"),
    ],
)
def test_wrong_settings_are_named(setting: str, value: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        logs.set_up({setting: value})


def test_levels_have_a_default_for_all_others() -> None:
    assert parse_levels("") == {"": "INFO"}
    assert parse_levels("pylog.grpc=debug") == {"": "INFO", "pylog.grpc": "DEBUG"}


def record(message: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("pylog.test", logging.INFO, "", 0, message, arguments, None)


def test_repeats_are_held_back_and_counted() -> None:
    clock = SteppedClock()
    floods = Floods(clock)
    shown = [floods.filter(record("no session: %s", "refused")) for _ in range(10)]
    assert shown == [True] * logs.SAME_TEXT_MAX + [False] * (10 - logs.SAME_TEXT_MAX)
    assert floods.filter(record("no session: %s", "another reason"))
    clock.now_ms += logs.WINDOW_MS
    again = record("no session: %s", "refused")
    assert floods.filter(again)
    assert again.getMessage() == "no session: refused (7 more like it were held back)"


def test_lines_that_somebody_asks_for_are_not_held_back() -> None:
    floods = Floods(SteppedClock())
    line = logging.LogRecord("pylog.request", logging.DEBUG, "", 0, "Fetch", (), None)
    assert all(floods.filter(line) for _ in range(1_000))


def test_lines_that_differ_in_details_only_have_a_limit_too() -> None:
    clock = SteppedClock()
    floods = Floods(clock)
    shown = sum(floods.filter(record("closed %d", number)) for number in range(1_000))
    assert shown == logs.SAME_KIND_MAX
    clock.now_ms += logs.WINDOW_MS
    again = record("closed %d", 5_000)
    assert floods.filter(again)
    assert "(800 more like it" in again.getMessage()


def test_what_is_remembered_is_bounded() -> None:
    floods = Floods(SteppedClock())
    for number in range(3 * logs.KINDS_MAX):
        floods.filter(record(f"line {number}"))
    assert len(floods._windows) <= logs.KINDS_MAX


def test_a_faulty_line_goes_on_to_who_reports_it() -> None:
    assert Floods(SteppedClock()).filter(record("%d", "no number"))
