"""Tables for notebooks, which `_repr_html_` of descriptions returns. Pure.

Everything is text here: names, addresses and values of others are escaped, and no markup, script or
style of theirs gets through.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from pylog.plain_text import escaped

ROWS_MAX: Final = 200
"""The most rows of one table; a note tells how many more there are."""
TEXT_CHARS_MAX: Final = 200


def html_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], count: int
) -> str:
    """A title and a table of the first rows out of `count`."""
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>"
        for row in islice(rows, ROWS_MAX)
    )
    more = f"<p>… and {count - ROWS_MAX} more</p>" if count > ROWS_MAX else ""
    return (
        f"<div><p><b>{_text(title)}</b></p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{more}</div>"
    )


def ids(numbers: Iterable[int]) -> str:
    """Brokers or partitions, in one cell."""
    return ", ".join(map(str, numbers))


def _text(cell: object) -> str:
    if cell is None:
        return ""
    text = cell.decode(errors="replace") if isinstance(cell, bytes) else str(cell)
    return html.escape(escaped(text, TEXT_CHARS_MAX))
