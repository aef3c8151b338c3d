"""Patterns of topic names, matched in time linear in the name, whatever the pattern.

Java's and Python's engines try again and again: `(x+)+$` takes them minutes on a name of forty
characters, and nothing can stop them meanwhile. RE2 cannot do that; Apache Kafka took it for the
patterns of its new consumers for the same reason (KIP-848). Constructs that RE2 does not have are
refused by name, except for those that users of Java's patterns really write: POSIX classes like
`\\p{Alpha}` and lookaheads at the beginning, `^(?!test-).*`.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pylog.errors import InvalidRegularExpression

LENGTH_MAX: Final = 10_000
"""Characters of a pattern: names of some hundred topics, one after the other."""

_POSIX: Final = {
    "Alnum", "Alpha", "Blank", "Cntrl", "Digit", "Graph", "Lower", "Print", "Punct", "Space",
    "Upper", "XDigit",
}  # fmt: skip
# The parts of a pattern: quoted text, an escape, a class, any other character.
_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\[pP]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*+\]|.", re.DOTALL
)
_POSIX_CLASS: Final = re.compile(r"\\([pP])\{(\w+)\}")
_LOOKAHEADS: Final = {"(?!": False, "(?=": True}
_REFUSED: Final = {
    "invalid perl operator: (?!": "a lookahead stands at the very beginning, like ^(?!test-).*",
    "invalid perl operator: (?=": "a lookahead stands at the very beginning, like ^(?=test-).*",
    "invalid perl operator: (?<": "there is no lookbehind",
    "invalid named capture": "there is no lookbehind",
    "bad repetition operator": "there are no possessive quantifiers; leave out the second sign",
    "invalid perl operator: (?>": "there are no atomic groups; write (?:...)",
    "invalid escape sequence": "there are no backreferences, and only the usual escapes",
    "invalid repetition size": "a count is at most 1000, also of counts within counts",
    "pattern too large": "write it shorter, or name the topics",
}


class _Lookahead(NamedTuple):
    """The beginning that a name must have, or must not have."""

    wanted: bool
    beginning: Any


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """A pattern that was understood."""

    text: str
    _anywhere: Any
    _lookaheads: tuple[_Lookahead, ...]

    def finds(self, name: str) -> bool:
        """Whether the pattern matches somewhere in a name."""
        return self._begins(name) and self._anywhere.search(name) is not None

    def matches(self, name: str) -> bool:
        """Whether the pattern matches the whole of a name."""
        return self._begins(name) and self._anywhere.fullmatch(name) is not None

    def _begins(self, name: str) -> bool:
        return all(
            (ahead.beginning.match(name) is not None) == ahead.wanted for ahead in self._lookaheads
        )


@functools.lru_cache(maxsize=64)
def topic_pattern(text: str) -> TopicPattern:
    """A pattern by its text; InvalidRegularExpression says what is wrong and what to write."""
    if len(text) > LENGTH_MAX:
        raise InvalidRegularExpression(
            f"a pattern has at most {LENGTH_MAX} characters, not {len(text)}; write it shorter, or "
            "name the topics"
        )
    lookaheads, rest = _split(text)
    return TopicPattern(
        text,
        _compiled(rest, text),
        tuple(_Lookahead(wanted, _compiled(inner, text)) for wanted, inner in lookaheads),
    )


def _split(text: str) -> tuple[list[tuple[bool, str]], str]:
    """Lookaheads after a leading `^`, and the rest without them."""
    found: list[tuple[bool, str]] = []
    rest = text.removeprefix("^")
    while rest != text and rest[:3] in _LOOKAHEADS:
        inner = _group(rest)
        if not inner:
            break
        found.append((_LOOKAHEADS[rest[:3]], inner[3:-1]))
        rest = rest[len(inner) :]
    if not found or _alternates(rest):
        return [], text
    return found, "^" + rest


def _group(text: str) -> str:
    """The group that the text begins with; nothing when it does not end."""
    depth = end = 0
    for token in _TOKEN.findall(text):
        depth += (token == "(") - (token == ")")
        end += len(token)
        if depth == 0:
            return text[:end]
    return ""


def _alternates(text: str) -> bool:
    """Whether there is a `|` outside of groups: what stands before it is one of several then."""
    depth = 0
    for token in _TOKEN.findall(text):
        depth += (token == "(") - (token == ")")
        if token == "|" and depth == 0:
            return True
    return False


def _compiled(regex: str, whole: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    tokens = [_translated(token, whole) for token in _TOKEN.findall(regex)]
    try:
        return re2.compile("".join(tokens), options=options)
    except UnicodeEncodeError:
        raise InvalidRegularExpression(f"{_shown(whole)} is no text: half a character") from None
    except re2.error as error:
        told = error.args[0] if error.args else b""
        words = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
        words = words if len(words) <= 160 else words[:157] + "..."  # it repeats the pattern
        hint = next((hint for start, hint in _REFUSED.items() if words.startswith(start)), None)
        raise InvalidRegularExpression(
            f"{_shown(whole)}: {words}" + (f"; {hint}" if hint else "")
        ) from None


def _translated(token: str, whole: str) -> str:
    """Syntax in which Java and Python differ from RE2: POSIX classes and the end of the text."""
    if token == "\\Z":
        return "\\z"
    if token.startswith("[") and len(token) > 1:
        if "&&" in token:
            raise InvalidRegularExpression(
                f"{_shown(whole)}: classes have no intersection (&&); write the characters"
            )
        return _POSIX_CLASS.sub(_posix, token)
    if token.startswith(("\\p{", "\\P{")):
        posix = _POSIX_CLASS.sub(_posix, token)
        return token if posix == token else f"[{posix}]"
    return token


def _posix(found: re.Match[str]) -> str:
    if found[2] not in _POSIX:
        return found[0]
    return f"[:{'^' if found[1] == 'P' else ''}{found[2].lower()}:]"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
