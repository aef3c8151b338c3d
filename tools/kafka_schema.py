"""Reads the schema files of Kafka's messages and records (see kafka_codecs.py)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FIXED = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q",
    "uuid": "16s",
}  # fmt: skip
SIZES = {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "q": 8, "16s": 16}
PYTHON = {"bool": "bool", "uuid": "bytes", "string": "str", "bytes": "bytes", "records": "bytes"}
EVER = (0, 32_767)
FIELD = re.compile(
    r"(?P<name>\w+): (?P<array>\[)?(?P<type>\w+)(?(array)\])(?P<null>\?)?"
    r"(?: versions (?P<versions>[\d+-]+))?(?: tag (?P<tag>\d+))?(?: default (?P<default>\S+))?$"
)
HEAD = re.compile(r"(api|record) (\w+) (?:key|type) (\d+) versions (\S+) flexible (\S+)$")
SECTIONS = {"api": ("request", "response"), "record": ("key", "value")}


def version_range(text: str) -> tuple[int, int]:
    """`3+`, `0-12`, `none` as an inclusive range."""
    if text == "none":
        return (1000, 999)
    if text.endswith("+"):
        return (int(text[:-1]), 999)
    low, high = text.split("-")
    return (int(low), int(high))


@dataclass
class Field:
    """One field of a schema; `fields` are the children of a struct. `frozen`: of a record, which
    nobody changes.
    """

    name: str
    type: str
    array: bool
    null: bool
    versions: tuple[int, int]
    tag: int | None
    default: str | None
    frozen: bool = False
    fields: list[Field] = field(default_factory=list)

    def active(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    @property
    def is_fixed(self) -> bool:
        return self.type in FIXED and not self.array and not self.null

    @property
    def element_type(self) -> str:
        return PYTHON.get(self.type) or ("int" if self.type in FIXED else self.type)

    @property
    def annotation(self) -> str:
        text = self.element_type
        if self.array:
            text = f"tuple[{text}, ...]" if self.frozen else f"list[{text}]"
        return text + (" | None" if self.null else "")

    @property
    def default_value(self) -> str:
        """The default as an expression, good for comparing and for a local variable."""
        if self.null and (self.default == "null" or self.type == "records"):
            return "None"
        if self.array:
            return "()" if self.frozen else "[]"
        if self.type in SIMPLE_DEFAULTS:
            return self.default or SIMPLE_DEFAULTS[self.type]
        return f"{self.type}()"


SIMPLE_DEFAULTS = {
    "bool": "False", "int8": "0", "int16": "0", "uint16": "0", "int32": "0", "int64": "0",
    "uuid": "ZERO_UUID", "string": '""', "bytes": 'b""', "records": "None",
}  # fmt: skip


@dataclass
class Api:
    """A parsed schema file. `key`: a record's type."""

    kind: str  # api or record
    name: str
    key: int
    versions: tuple[int, int]
    flexible: tuple[int, int]
    comment: str
    messages: dict[str, list[Field]]

    def is_flexible(self, version: int) -> bool:
        return self.flexible[0] <= version <= self.flexible[1]


def parse(path: Path) -> Api:
    """The schema in `path`; ValueError names the line that is wrong."""
    api: Api | None = None
    comment: list[str] = []
    levels: list[list[Field]] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.strip()
        if text.startswith("#"):
            comment.append(text[1:].strip())
        elif head := HEAD.match(text):
            api = Api(
                head[1], head[2], int(head[3]), version_range(head[4]), version_range(head[5]),
                " ".join(comment), {},
            )  # fmt: skip
        elif api and text in SECTIONS[api.kind]:
            levels = [api.messages.setdefault(text, [])]
        elif text:
            match = FIELD.match(text)
            depth = (len(line) - len(line.lstrip())) // 2
            if not match or not 1 <= depth <= len(levels):
                raise ValueError(f"{path.name}:{number}: not a field: {line!r}")
            new = Field(
                match["name"], match["type"], bool(match["array"]), bool(match["null"]),
                version_range(match["versions"]) if match["versions"] else EVER,
                int(match["tag"]) if match["tag"] else None, match["default"],
                api is not None and api.kind == "record",
            )  # fmt: skip
            levels[depth - 1].append(new)
            levels[depth:] = [new.fields]
    if api is None:
        raise ValueError(f"{path.name}: no line that says which api or record it is")
    return api
