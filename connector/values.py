"""The meaning of an option's text: numbers, durations, flags, names. Pure.

Every function takes the option's name as users write it and raises InvalidOption, which tells name,
value and what to write instead.
"""

from __future__ import annotations

import json
import re
from typing import Final

from pylog.config import LONG_MAX
from pylog.errors import InvalidRegularExpression
from pylog.model import topic_name_fault
from pylog.topic_patterns import topic_pattern
from pylog_connector.errors import InvalidOption

INT_MAX: Final = 2**31 - 1

_UNITS_US: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_DURATION: Final = re.compile(r"([0-9]{1,18})\s*([a-z]*)")
_SIZE: Final = re.compile(r"([0-9]{1,19})\s*(b?|[kmgt]b?)")
_SHIFTS: Final = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def flag(name: str, text: str) -> bool:
    """`true` or `false`, and nothing else."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise InvalidOption(f"{name}={text!r}: it must be true or false")
    return word == "true"


def whole(name: str, text: str, *, low: int = 1, high: int = LONG_MAX, otherwise: str = "") -> int:
    """A whole number from `low` to `high`; `otherwise` says what leaving the option out means."""
    number = whole_number(text.strip())
    if number is None or not low <= number <= high:
        raise InvalidOption(
            f"{name}={shown(text)}: it must be a whole number of at least {low}"
            + ("" if high == LONG_MAX else f" and at most {high}")
            + f"; leave the option out {otherwise}"
        )
    return number


def whole_number(word: str) -> int | None:
    """The number that the digits say, below 0 too; None for a text that is no number. A number
    beyond every limit becomes some other one that is beyond them, too.
    """
    digits = word.removeprefix("-")
    # int() alone would take "1_000" and digits of other scripts, and no more than 4300 of any.
    if not (digits.isascii() and digits.isdigit()):
        return None
    return int(word[: len(word) - len(digits)] + (digits.lstrip("0") or "0")[:20])


def duration_ms(name: str, text: str) -> int:
    """A duration as Spark writes them, such as `90s` or `15m`; a bare number is milliseconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    unit = _UNITS_US.get(found[2] or "ms") if found is not None else None
    if found is None or unit is None or int(found[1]) * unit // 1_000 > LONG_MAX:
        raise InvalidOption(
            f"{name}={text!r}: it must be a whole number with us, ms, s, m, min, h or d, "
            "like 90s or 15m"
        )
    return int(found[1]) * unit // 1_000


def byte_size(name: str, text: str) -> int:
    """A number of bytes, at least 1, also with Spark's units (powers of 1024), such as `64m`."""
    found = _SIZE.fullmatch(text.strip().lower())
    size = int(found[1]) << _SHIFTS[found[2][:1]] if found is not None else 0
    if not 0 < size <= LONG_MAX:
        raise InvalidOption(
            f"{name}={text!r}: it must be a number of bytes, at least 1, or with k, m, g or t, "
            "like 64m; or leave the option out"
        )
    return size


def topic_name(name: str, text: str) -> str:
    """One topic's name."""
    topic = text.strip()
    fault = topic_name_fault(topic)
    if fault is not None:
        raise InvalidOption(f"{name}={text!r}: {fault}")
    return topic


def topic_names(name: str, text: str) -> tuple[str, ...]:
    """Names separated by commas, sorted, each once."""
    topics = sorted({topic.strip() for topic in text.split(",") if topic.strip()})
    if not topics:
        raise InvalidOption(f"{name}={text!r} names no topic; name one or more")
    for topic in topics:
        fault = topic_name_fault(topic)
        if fault is not None:
            raise InvalidOption(f"{name}={text!r}: {fault}")
    return tuple(topics)


def pattern(name: str, text: str) -> str:
    """A regular expression of topic names, stripped; see `pylog.topic_patterns`."""
    regex = text.strip()
    if not regex:
        raise InvalidOption(f"{name}={text!r} is empty; give a regular expression, like flights-.*")
    try:
        topic_pattern(regex)
    except InvalidRegularExpression as error:
        raise InvalidOption(
            f"{name}={error}; give a regular expression of RE2, like ^flights-.*"
        ) from None
    return regex


def json_object(name: str, text: str, remedy: str) -> dict[str, object]:
    """A JSON object with each key once, not empty."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_int=whole_number)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"{name}={shown(text)} is not valid JSON: {error}; {remedy}") from None
    if not isinstance(value, dict):
        raise InvalidOption(f"{name}={shown(text)}: {remedy}")
    if not value:
        raise InvalidOption(f"{name}={{}} names no topic; {remedy}")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {json.dumps(key)} stands there twice")
        found[key] = value
    return found


def shown(value: object) -> str:
    """A value for an error's text, cut when it is long."""
    text = value if isinstance(value, str) else json.dumps(value)
    return repr(text) if len(text) <= 80 else repr(text[:77] + "...")
