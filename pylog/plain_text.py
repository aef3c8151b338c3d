"""Text of others, made safe for a line of a log or of a terminal.

A text of a client, a server or a file may hold a line break that forges a line, an escape sequence
that a terminal obeys, or a mark that turns its direction. Python's `str.isprintable` draws the
line: letters, digits, punctuation, symbols and the space of every script pass; controls, line and
paragraph separators, format characters (directions, zero width), odd spaces and lone surrogates are
written as escapes, as `repr` does.
"""

from __future__ import annotations

import json
from typing import Final, TypeGuard

TEXT_CHARS_MAX: Final = 4_096
"""More of one text is no use to a reader, and a flood to a log."""


def is_text(value: object) -> TypeGuard[str]:
    """Whether it is a text that can be sent, which is in UTF-8: no lone surrogates, as Python makes
    of bytes that are no text.
    """
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def cut(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """At most so many characters, and a note of how many more there were."""
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}... ({len(text) - chars_max} more characters)"


def escaped(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """The text on one line, cut, without anything that a terminal would obey."""
    text = cut(text, chars_max)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def escaped_json(encoded: str) -> str:
    """JSON that says the same, without anything that a terminal would obey. Its strings keep what
    is in them.
    """
    if encoded.isprintable():
        return encoded
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in encoded)
