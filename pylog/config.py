"""Configuration tables: which settings there are, their types, ranges and defaults.

One helper for clients, topics, brokers and the Spark options, so that a wrong setting reads the
same everywhere: the error names the key, the value, what is allowed, and for an unknown key the
nearest known one. Pure: nothing here reads a file, an environment variable or a clock.

Names are Apache Kafka's, with dots (`linger.ms`). As Python keyword arguments they have
underscores (`linger_ms`); a table made with `separator="_"` reads and reports that spelling.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pylog import errors
from pylog.kafka_settings import KafkaSettings, Verdict
from pylog.plain_text import is_text

logger = logging.getLogger(__name__)

REQUIRED: Final = object()
"""As the default of a key: there is none, the setting must be given."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_TRUE: Final = frozenset({"true"})
_FALSE: Final = frozenset({"false"})
_TYPE_NAMES: Final = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list, or texts separated by commas",
    object: "a Python object",
}

ErrorClass = type[errors.PylogError]


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One setting.

    `type` is `bool`, `int`, `float`, `str`, `list` (of texts, in properties separated by commas) or
    `object` (passed through: callables, TLS material). Numbers and booleans may be given as text,
    as they come from property files. `None` is allowed exactly where the default is `None`. `low`
    and `high` are inclusive and count for numbers, and `high` for a text's bytes in UTF-8;
    `choices` for texts and the items of lists. A `str` must be UTF-8, as it goes over the wire; the
    items of lists need not, as they may be paths.
    """

    name: str
    type: type[Any]
    default: Any
    doc: str
    low: float | None = None
    high: float | None = None
    choices: Sequence[str] | None = None
    sensitive: bool = False
    """A secret: never shown, not even to those who may change it."""
    error: ErrorClass = errors.InvalidConfig
    """The error for a value that the setting does not take."""

    def allowed(self) -> str:
        """The values that the setting takes, in words."""
        if self.choices is not None:
            return "one of " + ", ".join(self.choices)
        words = _TYPE_NAMES[self.type]
        if self.type is str and self.high is not None:
            return f"{words} of at most {self.high} bytes"
        if self.low is not None and self.high is not None:
            return f"{words} from {self.low} to {self.high}"
        if self.low is not None:
            return f"{words}, at least {self.low}"
        if self.high is not None:
            return f"{words}, at most {self.high}"
        return words

    def parse(self, value: object, *, spelled: str = "") -> Any:
        """`value` in the key's type; the key's error names key, value and what is allowed.

        `spelled` is how the user wrote the name, for the message.
        """
        if value is None:
            if self.default is None:
                return None
            raise self._fault(value, spelled)
        parsed = self._typed(value, spelled)
        if isinstance(parsed, str) and self.high is not None:
            fits = len(parsed.encode()) <= self.high
        elif isinstance(parsed, bool | str):
            fits = self.choices is None or parsed in self.choices
        elif isinstance(parsed, int | float):
            fits = (self.low is None or parsed >= self.low) and (
                self.high is None or parsed <= self.high
            )
            # Kafka's numbers are 64 bits wide; nobody could read a larger one.
            fits = fits and not (isinstance(parsed, int) and abs(parsed) > LONG_MAX)
        elif isinstance(parsed, list):
            fits = self.choices is None or set(parsed) <= set(self.choices)
        else:
            fits = True
        if not fits:
            raise self._fault(value, spelled)
        return parsed

    def _typed(self, value: object, spelled: str) -> Any:
        if self.type is object:
            return value
        text = value.strip() if isinstance(value, str) else None
        if self.type is bool:
            if isinstance(value, bool):
                return value
            if text is not None and text.lower() in _TRUE | _FALSE:
                return text.lower() in _TRUE
        elif self.type is int:
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            if isinstance(value, float) and value.is_integer():
                return int(value)
            if text is not None and _is_whole(text):
                return int(text)
        elif self.type is float:
            if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
                return float(value)
            if text is not None:
                try:
                    number = float(text)
                except ValueError:
                    number = float("nan")
                if number == number:
                    return number
        elif self.type is str:
            if is_text(text):
                return text
            if text is not None:
                raise self._fault(value, spelled, "a text in UTF-8, without halves of characters")
        elif self.type is list:
            if text is not None:
                return [item.strip() for item in text.split(",") if item.strip()]
            if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
                return list(value)
        raise self._fault(value, spelled)

    def _fault(self, value: object, spelled: str, allowed: str = "") -> errors.PylogError:
        shown = repr(value)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        return self.error(f"{spelled or self.name}={shown}: it must be {allowed or self.allowed()}")


def _is_whole(text: str) -> bool:
    digits = text[1:] if text[:1] in ("-", "+") else text
    # isdigit alone would take "²" and int() would take "1_000": neither is a number in Kafka.
    return digits.isascii() and digits.isdigit() and len(digits) <= 19


class ConfigTable:
    """The settings that one kind of object takes, in the order of their documentation."""

    def __init__(
        self,
        keys: Iterable[ConfigKey],
        *,
        separator: str = ".",
        what: str = "setting",
        kafka: KafkaSettings | None = None,
    ) -> None:
        """`kafka`: settings of Kafka's that do not work here, and what becomes of them."""
        assert separator in (".", "_")
        self._separator = separator
        self._what = what
        self._kafka = kafka or KafkaSettings()
        self._keys: dict[str, ConfigKey] = {}
        for key in keys:
            assert key.name not in self._keys, key.name
            self._keys[key.name] = key

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self._keys.values())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._dotted(name) in self._keys

    def __getitem__(self, name: str) -> ConfigKey:
        """The key of that name; InvalidConfig names the nearest one when there is none."""
        key = self._keys.get(self._dotted(name))
        if key is None:
            raise self._unknown(name)
        return key

    def parse(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Every setting by its dotted name: what was given, checked and typed, else its default.

        A setting that is accepted without effect has a line in the log. InvalidConfig for an
        unknown name, a wrong type, a value out of range, a name given twice, and a required setting
        that is missing.
        """
        values = self.parse_given(given)
        for line in self.without_effect(given):
            logger.warning("%s", line)
        for key in self:
            if key.name in values:
                continue
            if key.default is REQUIRED:
                raise errors.InvalidConfig(
                    f"{self.spelled(key.name)} is missing: it must be {key.allowed()}"
                )
            # A fresh list each time: nobody may change a default through a value.
            values[key.name] = list(key.default) if isinstance(key.default, list) else key.default
        return values

    def parse_given(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Only the given settings, checked and typed, by dotted name (for layers of overrides). A
        setting that is accepted without effect is left out.
        """
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in self and self._reason(name, Verdict.WITHOUT_EFFECT):
                continue
            key = self[name]
            if key.name in values:
                raise errors.InvalidConfig(f"{self.spelled(key.name)} is given twice")
            values[key.name] = key.parse(value, spelled=name)
        return values

    def without_effect(self, given: Iterable[str]) -> list[str]:
        """A line for each given name that is taken without effect."""
        reasons = ((name, self._reason(name, Verdict.WITHOUT_EFFECT)) for name in given)
        return [
            f"{self._what} {name} is taken without effect: {reason}"
            for name, reason in reasons
            if reason
        ]

    def _reason(self, name: str, verdict: Verdict) -> str:
        """The reason why Kafka's setting of that name has that verdict; empty when it has another
        one."""
        ruling = self._kafka.ruling(self._dotted(name))
        return ruling.reason if ruling is not None and ruling.verdict is verdict else ""

    def spelled(self, name: str) -> str:
        """A dotted name as this table's users write it."""
        return name.replace(".", self._separator)

    def nearest(self, name: str) -> str | None:
        """The known name that `name` most probably means, in this table's spelling. One of Kafka's
        that does not work counts, too: what the user then tries says why.
        """
        close = difflib.get_close_matches(
            self._dotted(name).lower().replace("-", "."),
            [*self._keys, *self._kafka.without_effect, *self._kafka.refused],
            n=1,
            cutoff=0.6,
        )
        return self.spelled(close[0]) if close else None

    def _dotted(self, name: str) -> str:
        return name.replace("_", ".") if self._separator == "_" else name

    def _unknown(self, name: str) -> errors.InvalidConfig:
        reason = self._reason(name, Verdict.REFUSED)
        if reason:
            return errors.InvalidConfig(f"{self._what} {name[:120]} is not taken: {reason}")
        reason = self._reason(name, Verdict.WITHOUT_EFFECT)
        if reason:
            return errors.InvalidConfig(f"{self._what} {name[:120]} has no effect here: {reason}")
        nearest = self.nearest(name)
        hint = f"; did you mean {nearest}?" if nearest else ""
        return errors.InvalidConfig(f"unknown {self._what} {name[:120]}{hint}")
