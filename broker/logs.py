"""The log lines of a driver or broker process: one form, who says it, no floods, no secrets.

`logging.format` chooses the form: `text` for people, `logfmt` (key=value) and `json` for machines,
one line each, whatever is in them: what came over a wire forges no line and moves no cursor, for it
is escaped here, in all that is logged (`pylog.plain_text`). `logging.level` is a level, and levels
of single loggers: `INFO,pylog.grpc=DEBUG`. Everything goes to standard error.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.errors import InvalidConfig
from pylog.plain_text import TEXT_CHARS_MAX, cut, escaped, escaped_json
from pylog_broker.log_settings import DEFAULT_LEVEL, FORMATS, parse_levels

TRACEBACK_CHARS_MAX: Final = 64_000
WINDOW_MS: Final = 10_000
SAME_TEXT_MAX: Final = 3
"""Lines of the very same text in a window; the rest is counted."""
SAME_KIND_MAX: Final = 200
"""Lines of one kind (the same text but for what is filled in) in a window."""
KINDS_MAX: Final = 2_000


@dataclass(slots=True)
class Identity:
    """The identity of this process, as far as it is known by now. One per process: its loop writes
    it, every logger reads it.
    """

    broker: int | None = None
    broker_epoch: int | None = None
    controller_epoch: int | None = None
    cluster: str = ""

    def fields(self) -> dict[str, Any]:
        """The fields that are known."""
        known = {
            "cluster": self.cluster or None,
            "broker": self.broker,
            "broker_epoch": self.broker_epoch,
            "controller_epoch": self.controller_epoch,
        }
        return {name: value for name, value in known.items() if value is not None}

    def __str__(self) -> str:
        """For people: ` [broker 1, epoch 12]`, or nothing yet."""
        if self.broker is not None:
            epoch = f", epoch {self.broker_epoch}" if self.broker_epoch is not None else ""
            return f" [broker {self.broker}{epoch}]"
        if self.controller_epoch is not None:
            return f" [controller, epoch {self.controller_epoch}]"
        return ""


IDENTITY: Final = Identity()

_log = logging.getLogger("pylog.logs")

_secrets: set[str] = set()


def hide(secret: str) -> None:
    """Never print this text."""
    if secret:
        _secrets.add(secret)


def set_up(given: Mapping[str, str]) -> None:
    """Log to standard error as `logging.format` and `logging.level` of `given` say.

    InvalidConfig when one of them is wrong; then nothing has changed.
    """
    form = given.get("logging.format", FORMATS[0]).strip()
    if form not in FORMATS:
        raise InvalidConfig(f"logging.format={form!r}: it must be one of {', '.join(FORMATS)}")
    levels = parse_levels(given.get("logging.level", ""))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter({"text": Text, "logfmt": Logfmt, "json": Json}[form]())
    handler.addFilter(Floods(SYSTEM_CLOCK))
    logging.basicConfig(handlers=[handler], force=True)
    _levels.use(given.get("logging.level", DEFAULT_LEVEL), levels)


@dataclass(slots=True)
class _Levels:
    """The levels in effect. One per process, as are the loggers."""

    text: str = DEFAULT_LEVEL
    loggers: tuple[str, ...] = ()

    def use(self, text: str, levels: Mapping[str, str]) -> None:
        for name in self.loggers:
            logging.getLogger(name).setLevel(logging.NOTSET)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        self.text, self.loggers = text, tuple(name for name in levels if name)


_levels: Final = _Levels()


def follow(started_with: str, *dynamic: Mapping[str, str]) -> None:
    """Log as `logging.level` of the metadata says: the last of `dynamic` that has it counts, else
    what the process was started with.
    """
    text = started_with
    for layer in dynamic:
        text = layer.get("logging.level", text)
    if text == _levels.text:
        return
    try:
        levels = parse_levels(text)
    except InvalidConfig as error:
        _levels.text = text  # say it once
        _log.warning("%s; the levels stay as they are", error)
        return
    before = _levels.text
    _levels.use(text, levels)
    _log.info("logging.level is %s from now on, and was %s", text, before)


class Floods(logging.Filter):
    """Holds back lines that repeat themselves; the next one of their kind tells how many."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._windows: dict[tuple[str, int, str], list[int]] = {}  # [began, lines, held back]

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is to be written. Each line of level DEBUG is: somebody asks for it."""
        if record.levelno <= logging.DEBUG:
            return True
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            return True  # the handler reports a faulty line by itself
        same_text = (record.name, record.levelno, text[:TEXT_CHARS_MAX])
        same_kind = (record.name, -record.levelno, str(record.msg))
        held = self._count(same_text, SAME_TEXT_MAX)
        if held is not None and str(record.msg) != text:
            more = self._count(same_kind, SAME_KIND_MAX)
            held = None if more is None else held + more
        if held:
            record.msg = f"{text} ({held} more like it were held back)"
            record.args = ()
        return held is not None

    def _count(self, key: tuple[str, int, str], limit: int) -> int | None:
        """The number of lines that were held back before this one; None: this one is held back,
        too."""
        now_ms = self._clock.monotonic_ms()
        window = self._windows.get(key)
        if window is None or now_ms - window[0] >= WINDOW_MS:
            if window is None and len(self._windows) >= KINDS_MAX:
                self._windows.clear()
            self._windows[key] = [now_ms, 1, 0]
            return window[2] if window else 0
        window[1] += 1
        if window[1] <= limit:
            return 0
        window[2] += 1
        return None


class Text(logging.Formatter):
    """`2026-01-31 12:00:00,000 INFO pylog.node [broker 1, epoch 12]: unfenced`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with its traceback on indented lines of its own: only a line of ours begins
        with a time.
        """
        lead = f"{self.formatTime(record)} {record.levelname} {record.name}{IDENTITY}"
        lines = [f"{lead}: {escaped(record.getMessage())}"]
        lines += [f"  {escaped(line)}" for line in _traceback(self, record).split("\n") if line]
        return _hidden("\n".join(lines))


class Logfmt(logging.Formatter):
    """`time=… level=info logger=pylog.node broker=1 … message="…"`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields = _fields(self, record).items()
        return _hidden(escaped_json(" ".join(f"{key}={_quoted(value)}" for key, value in fields)))


class Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        return _hidden(escaped_json(json.dumps(_fields(self, record), ensure_ascii=False)))


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return {
        "time": time.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        **IDENTITY.fields(),
        "message": _message(formatter, record),
    }


def _message(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    text, trace = cut(record.getMessage()), _traceback(formatter, record)
    return f"{text}\n{trace}" if trace else text


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    trace = formatter.formatException(record.exc_info) if record.exc_info else ""
    return cut(trace, TRACEBACK_CHARS_MAX)


def _quoted(value: object) -> str:
    text = str(value)
    if text and all(character.isalnum() or character in "-_.:/+" for character in text):
        return text
    return json.dumps(text, ensure_ascii=False)


def _hidden(line: str) -> str:
    for secret in _secrets:
        line = line.replace(secret, "***")
    return line
