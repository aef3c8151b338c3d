"""The format in which `pylog consume` prints a record: one like kcat's, or JSON."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable
from typing import Final

from pylog.plain_text import escaped_json
from pylog.records.record import Record

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_FIELDS: Final[dict[str, Callable[[Record], bytes]]] = {
    "K": lambda r: b"%d" % (-1 if r.key is None else len(r.key)),
    "V": lambda r: b"%d" % (-1 if r.value is None else len(r.value)),
    "t": lambda r: r.topic.encode(),
    "p": lambda r: b"%d" % r.partition,
    "o": lambda r: b"%d" % r.offset,
    "T": lambda r: b"%d" % r.timestamp_ms,
    "h": lambda r: b",".join(
        name.encode() + b"=" + (value if value is not None else b"NULL")
        for name, value in r.headers
    ),
    "%": lambda _: b"%",
}
FIELDS_HELP: Final = (
    "%k key, %v value, %t topic, %p partition, %o offset, %T timestamp in ms, %h headers, "
    "%K and %V lengths in bytes (-1: null), %% %"
)


def compile_format(
    text: str, null: str = "", *, on_terminal: bool = False
) -> Callable[[Record], bytes]:
    r"""A printer for a format such as `%k\t%v\n`; ValueError names what is wrong in it.

    A null key or value is printed as `null`; keys and values come out byte for byte, but for what a
    terminal would obey where that is `on_terminal`.
    """
    nothing = os.fsencode(null)
    fields = {
        **_FIELDS,
        "k": lambda r: nothing if r.key is None else r.key,
        "v": lambda r: nothing if r.value is None else r.value,
    }
    if on_terminal:
        fields |= {name: _visible(fields[name]) for name in ("k", "v", "h")}
    parts: list[bytes | Callable[[Record], bytes]] = []
    tokens = re.findall(r"([^\\%]+)|\\(x[0-9a-fA-F]{2}|.?)|%(.?)", text, re.DOTALL)
    for literal, escape, field in tokens:
        if literal:
            parts.append(os.fsencode(literal))
        elif field or (not escape and text.endswith("%")):
            if field not in fields:
                raise ValueError(f"%{field} is no field; there are {FIELDS_HELP}")
            parts.append(fields[field])
        elif len(escape) == 3:
            parts.append(bytes.fromhex(escape[1:]))
        elif escape in _ESCAPES:
            parts.append(_ESCAPES[escape].encode())
        else:
            raise ValueError(f"\\{escape} is no escape; there are \\n \\t \\r \\0 \\\\ \\xHH")
    return lambda record: b"".join(
        part if isinstance(part, bytes) else part(record) for part in parts
    )


def _visible(field: Callable[[Record], bytes]) -> Callable[[Record], bytes]:
    """The field with escapes in place of bytes that are no text, and of all that `escaped` escapes;
    values of several lines stay so.
    """

    def read(record: Record) -> bytes:
        said = field(record).decode(errors="backslashreplace")
        if said.isprintable():
            return said.encode()
        return "".join(
            c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in said
        ).encode()

    return read


def as_json(record: Record) -> bytes:
    """One line: bytes as UTF-8 text, or `{"base64": ...}` where they are not UTF-8. Characters
    that a terminal would obey are escaped, which means the same in JSON.
    """
    line = json.dumps(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": [[name, _text(value)] for name, value in record.headers],
        },
        ensure_ascii=False,
    )
    return escaped_json(line).encode() + b"\n"


def _text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}
