"""Whether a person's terminal takes more than plain text."""

from __future__ import annotations

import os
from typing import Final, TextIO

DUMB: Final = ("dumb", "unknown")


def is_plain(stream: TextIO | None) -> bool:
    """Whether no escape sequence may be written to it: it is no terminal, or a dumb one (TERM), or
    the user does not want any (NO_COLOR is set and not empty, see no-color.org).
    """
    return (
        stream is None
        or not stream.isatty()
        or bool(os.environ.get("NO_COLOR"))
        or os.environ.get("TERM", "").lower() in DUMB
    )
