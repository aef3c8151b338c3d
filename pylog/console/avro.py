"""Avro's binary encoding, read by the schema that it was written with. Pure; reads only.

Covers all types of Avro 1.11 (logical types as what they are stored as) and container files without
compression or with deflate. Not schema resolution, not RPC.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

CONTAINER_MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
ROWS_MAX: Final = 100
"""The most records that are decoded of a container file."""
ITEMS_MAX: Final = 100_000
"""In one value: a few bytes can claim any number of nulls."""
DEPTH_MAX: Final = 64
BLOCK_BYTES_MAX: Final = 8 << 20
PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)


class AvroError(ValueError):
    """These bytes are not Avro of that schema, or this is no schema."""


class _Reader:
    """Bytes, and how far they are read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.items = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise AvroError(f"{count} bytes are wanted at {self.at}, of {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def long(self) -> int:
        shift = number = 0
        while True:
            [byte] = self.take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7
            if shift > 63:
                raise AvroError("a number of more than 64 bits")

    def count(self) -> None:
        self.items += 1
        if self.items > ITEMS_MAX:
            raise AvroError(f"more than {ITEMS_MAX} items in one value")


class Schema:
    """A schema and the types that it names."""

    def __init__(self, text: str) -> None:
        """AvroError for what is none."""
        try:
            self.root = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise AvroError(f"the schema is no JSON: {error}") from None
        self.named: dict[str, Any] = {}
        self._learn(self.root, "", 0)

    def _learn(self, schema: Any, space: str, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise AvroError(f"the schema is nested deeper than {DEPTH_MAX}")
        if isinstance(schema, str):
            return
        if isinstance(schema, list):
            for branch in schema:
                self._learn(branch, space, depth + 1)
            return
        if not isinstance(schema, dict) or "type" not in schema:
            raise AvroError("a type of the schema is neither a name, a list, nor an object")
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            name = str(schema.get("name", ""))
            space = str(schema.get("namespace", space))
            if "." in name:
                space, _, name = name.rpartition(".")
            self.named[name] = self.named[f"{space}.{name}"] = schema
            if kind == "fixed" and not _is_size(schema.get("size")):
                raise AvroError(f"{name}: a fixed type needs a size in bytes")
            if kind == "enum" and not isinstance(schema.get("symbols"), list):
                raise AvroError(f"{name}: an enum needs a list of symbols")
            if kind in ("record", "error") and not isinstance(schema.get("fields"), list):
                raise AvroError(f"{name}: a record needs a list of fields")
            for field in schema["fields"] if kind in ("record", "error") else ():
                if not isinstance(field, dict) or "type" not in field or "name" not in field:
                    raise AvroError(f"{name}: a field needs a name and a type")
                self._learn(field["type"], space, depth + 1)
        elif kind in ("array", "map"):
            self._learn(schema.get("items" if kind == "array" else "values"), space, depth + 1)
        elif not isinstance(kind, str):
            self._learn(kind, space, depth + 1)


def _is_size(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def decode(data: bytes, schema: Schema) -> Any:
    """The value; AvroError unless the bytes are exactly one."""
    reader = _Reader(data)
    value = _read(reader, schema.root, schema.named, 0)
    if reader.at != len(data):
        raise AvroError(f"{len(data) - reader.at} bytes are left over")
    return value


def read_container(data: bytes) -> tuple[list[Any], bool]:
    """The first rows of a container file, and whether these are all."""
    reader = _Reader(data)
    if reader.take(len(CONTAINER_MAGIC)) != CONTAINER_MAGIC:
        raise AvroError("no container file")
    meta = _read(reader, {"type": "map", "values": "bytes"}, {}, 0)
    schema = Schema(meta.get("avro.schema", b"").decode(errors="replace"))
    codec = meta.get("avro.codec", b"null")
    sync = reader.take(SYNC_BYTES)
    rows: list[Any] = []
    while reader.at < len(data):
        count, block = reader.long(), reader.take(reader.long())
        if reader.take(SYNC_BYTES) != sync:
            raise AvroError("a block does not end with the file's mark")
        inside = _Reader(_expanded(block, codec))
        for _ in range(count):
            if len(rows) == ROWS_MAX:
                return rows, False
            rows.append(_read(inside, schema.root, schema.named, 0))
    return rows, True


def to_json(value: Any) -> str:
    """As JSON; bytes are texts where they are UTF-8, else base64."""
    return json.dumps(value, ensure_ascii=False, default=_bytes_as_json)


def _bytes_as_json(value: Any) -> Any:
    assert isinstance(value, bytes)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def _expanded(block: bytes, codec: bytes) -> bytes:
    if codec in (b"null", b""):
        return block
    if codec != b"deflate":
        raise AvroError(f"compression {codec[:20]!r} is not known here")
    try:
        inflater = zlib.decompressobj(wbits=-15)
        expanded = inflater.decompress(block, BLOCK_BYTES_MAX)
    except zlib.error as error:
        raise AvroError(f"a block cannot be expanded: {error}") from None
    if inflater.unconsumed_tail:
        raise AvroError(f"a block is larger than {BLOCK_BYTES_MAX} bytes")
    return expanded


def _read(reader: _Reader, schema: Any, named: Mapping[str, Any], depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise AvroError(f"nested deeper than {DEPTH_MAX}")
    reader.count()
    if isinstance(schema, list):
        branch = reader.long()
        if not 0 <= branch < len(schema):
            raise AvroError(f"branch {branch} of a union of {len(schema)}")
        return _read(reader, schema[branch], named, depth + 1)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if not isinstance(kind, str):
        return _read(reader, kind, named, depth + 1)
    if kind in PRIMITIVES:
        return _primitive(reader, kind)
    if not isinstance(schema, dict):
        if kind not in named:
            raise AvroError(f"the schema does not say what {kind[:100]!r} is")
        return _read(reader, named[kind], named, depth + 1)
    if kind in ("record", "error"):
        return {
            field["name"]: _read(reader, field["type"], named, depth + 1)
            for field in schema.get("fields", ())
        }
    if kind == "enum":
        number, symbols = reader.long(), schema.get("symbols", [])
        if not 0 <= number < len(symbols):
            raise AvroError(f"symbol {number} of {len(symbols)}")
        return symbols[number]
    if kind == "fixed":
        return reader.take(int(schema.get("size", 0)))
    if kind == "array":
        return [
            _read(reader, schema["items"], named, depth + 1)
            for count in _blocks(reader)
            for _ in range(count)
        ]
    if kind == "map":
        return {
            _primitive(reader, "string"): _read(reader, schema["values"], named, depth + 1)
            for count in _blocks(reader)
            for _ in range(count)
        }
    return _read(reader, kind, named, depth + 1)  # {"type": "name of another type"}


def _blocks(reader: _Reader) -> Any:
    """The number of items of each block of an array or a map."""
    while (count := reader.long()) != 0:
        if count < 0:
            reader.long()  # the block's bytes, for readers that pass over it
        yield abs(count)


def _primitive(reader: _Reader, kind: str) -> Any:
    if kind == "null":
        return None
    if kind == "boolean":
        [byte] = reader.take(1)
        if byte > 1:
            raise AvroError(f"{byte} is neither true nor false")
        return bool(byte)
    if kind in ("int", "long"):
        return reader.long()
    if kind == "float":
        return struct.unpack("<f", reader.take(4))[0]
    if kind == "double":
        return struct.unpack("<d", reader.take(8))[0]
    data = reader.take(reader.long())
    if kind == "bytes":
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise AvroError("a string is not UTF-8") from None
