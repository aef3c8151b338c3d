"""Generates broker/{kafka,coordinator}/generated/*.py from the schemas/*.txt beside them:

`python tools/kafka_codecs.py`, or with `--check` says whether they are up to date.

A schema is a head line `api NAME key N versions A-B flexible C+|none`, then `request` and
`response` with fields, nested by two spaces: `name: TYPE [versions A-B] [tag N] [default X]`.
TYPE is bool int8 int16 uint16 int32 int64 uuid string bytes records, a struct's name, or one of
these in brackets; `?` behind it allows null. Each version with a layout of its own gets
straight-line functions, in which neighbouring fields of fixed size share one struct.

A coordinator's record has the head line `record NAME type N versions A-B flexible C+|none`, then
`key` and `value`. The versions are the value's, and stand before it; the type stands before the
key, which has one layout and is never flexible. Its classes are tuples, which nobody changes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from kafka_schema import EVER, FIXED, SIMPLE_DEFAULTS, SIZES, Api, Field, parse

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "broker/kafka", ROOT / "broker/coordinator")


class Writer:
    """Collects lines at an indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 0
        self.structs: set[str] = set()
        self.names = 0

    def __call__(self, text: str = "") -> None:
        self.lines.append("    " * self.indent + text if text else "")

    def block(self, text: str) -> _Block:
        self(text)
        return _Block(self)

    def struct(self, layout: str) -> str:
        self.structs.add(layout)
        return "_" + layout.replace("?", "B").replace("16s", "U")

    def fresh(self) -> str:
        self.names += 1
        more, letter = divmod(self.names - 1, 26)
        return "abcdefghijklmnopqrstuvwxyz"[letter] + (str(more) if more else "")


class _Block:
    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def __enter__(self) -> None:
        self.writer.indent += 1

    def __exit__(self, *_: object) -> None:
        self.writer.indent -= 1


def runs(fields: list[Field]) -> Iterator[list[Field]]:
    """Neighbouring fields of fixed size together, others alone."""
    run: list[Field] = []
    for item in fields:
        if item.is_fixed:
            run.append(item)
            continue
        if run:
            yield run
            run = []
        yield [item]
    if run:
        yield run


def split(fields: list[Field], version: int) -> tuple[list[Field], list[Field]]:
    """The fields that are active in `version`: plain fields, tagged fields by tag."""
    active = [f for f in fields if f.active(version)]
    tagged = sorted((f for f in active if f.tag is not None), key=lambda f: f.tag or 0)
    return [f for f in active if f.tag is None], tagged


def size_min(item: Field, version: int, flexible: bool) -> int:
    """The least bytes that one element of `item` takes."""
    if item.type in FIXED:
        return SIZES[FIXED[item.type]]
    if not item.fields:
        return 1 if flexible else 2
    plain, _ = split(item.fields, version)
    sizes = (
        SIZES[FIXED[f.type]] if f.is_fixed
        else (1 if flexible else 2 if f.type == "string" and not f.array else 4)
        if f.array or f.type in SIMPLE_DEFAULTS
        else size_min(f, version, flexible)
        for f in plain
    )  # fmt: skip
    return max(1, sum(sizes) + (1 if flexible else 0))


# ---- encoding -----------------------------------------------------------------------------------


def encode_fields(w: Writer, fields: list[Field], var: str, out: str, v: int, flex: bool) -> None:
    plain, tagged = split(fields, v)
    for run in runs(plain):
        if run[0].is_fixed:
            layout = "".join(FIXED[f.type] for f in run)
            values = ", ".join(f"{var}.{f.name}" for f in run)
            w(f"{out} += {w.struct(layout)}.pack({values})")
        else:
            encode_value(w, run[0], f"{var}.{run[0].name}", out, v, flex)
    if flex:
        encode_tagged(w, tagged, var, out, v)


def encode_tagged(w: Writer, tagged: list[Field], var: str, out: str, v: int) -> None:
    if not tagged:
        w(f"{out}.append(0)")
        return
    name = w.fresh()
    w(f"tags_{name}: list[tuple[int, bytearray]] = []")
    for item in tagged:
        with w.block(f"if {var}.{item.name} != {item.default_value}:"):
            w(f"part_{name} = bytearray()")
            encode_value(w, item, f"{var}.{item.name}", f"part_{name}", v, True)
            w(f"tags_{name}.append(({item.tag}, part_{name}))")
    w(f"write_varint({out}, len(tags_{name}))")
    with w.block(f"for tag_{name}, content_{name} in tags_{name}:"):
        w(f"write_varint({out}, tag_{name})")
        w(f"write_varint({out}, len(content_{name}))")
        w(f"{out} += content_{name}")


def encode_size(w: Writer, expression: str, out: str, layout: str, flex: bool) -> None:
    if flex:
        w(f"write_varint({out}, {expression} + 1)")
    else:
        w(f"{out} += {w.struct(layout)}.pack({expression})")


def encode_value(w: Writer, item: Field, value: str, out: str, v: int, flex: bool) -> None:
    if item.is_fixed:
        w(f"{out} += {w.struct(FIXED[item.type])}.pack({value})")
        return
    if item.fields and not item.array:
        encode_struct(w, item, value, out, v, flex)
        return
    layout = "h" if item.type == "string" and not item.array else "i"
    name = w.fresh()
    w(f"value_{name} = {value}")
    if item.null:
        with w.block(f"if value_{name} is None:"):
            w(f"{out}.append(0)" if flex else f"{out} += {w.struct(layout)}.pack(-1)")
        with w.block("else:"):
            encode_present(w, item, name, out, v, flex, layout)
    else:
        encode_present(w, item, name, out, v, flex, layout)


def encode_struct(w: Writer, item: Field, value: str, out: str, v: int, flex: bool) -> None:
    """One that may be null has a byte before it (KIP-893)."""
    if not item.null:
        encode_fields(w, item.fields, value, out, v, flex)
        return
    name = w.fresh()
    w(f"value_{name} = {value}")
    with w.block(f"if value_{name} is None:"):
        w(f"{out}.append({0 if item.tag is not None else 255})")
    with w.block("else:"):
        w(f"{out}.append(1)")
        encode_fields(w, item.fields, f"value_{name}", out, v, flex)


def encode_present(
    w: Writer, item: Field, name: str, out: str, v: int, flex: bool, layout: str
) -> None:
    if item.array:
        encode_size(w, f"len(value_{name})", out, layout, flex)
        with w.block(f"for {name} in value_{name}:"):
            if item.fields:
                encode_fields(w, item.fields, name, out, v, flex)
            else:
                inner = Field(item.name, item.type, False, False, EVER, None, None)
                encode_value(w, inner, name, out, v, flex)
    elif item.type == "string":
        w(f"text_{name} = value_{name}.encode()")
        encode_size(w, f"len(text_{name})", out, layout, flex)
        w(f"{out} += text_{name}")
    else:
        encode_size(w, f"len(value_{name})", out, layout, flex)
        if item.type != "records":
            w(f"{out} += value_{name}")
            return
        with w.block(f"if len(value_{name}) <= INLINE_RECORDS_MAX:"):
            w(f"{out} += value_{name}")
        with w.block("else:"):
            w(f"chunks.append({out})")
            w(f"chunks.append(value_{name})")
            w(f"{out} = bytearray()")


# ---- decoding -----------------------------------------------------------------------------------


def decode_fields(w: Writer, fields: list[Field], prefix: str, v: int, flex: bool) -> str:
    """Emit the decoding of a struct; gives the arguments of its constructor."""
    plain, tagged = split(fields, v)
    for run in runs(plain):
        if run[0].is_fixed:
            layout = "".join(FIXED[f.type] for f in run)
            targets = ", ".join(f"{prefix}_{f.name}" for f in run)
            comma = "," if len(run) == 1 else ""
            w(f"{targets}{comma} = {w.struct(layout)}.unpack_from(buffer, position)")
            w(f"position += {sum(SIZES[FIXED[f.type]] for f in run)}")
        else:
            decode_value(w, run[0], f"{prefix}_{run[0].name}", v, flex)
    if flex:
        decode_tagged(w, tagged, prefix, v)
    return ", ".join(f"{f.name}={prefix}_{f.name}" for f in plain + tagged)


def decode_tagged(w: Writer, tagged: list[Field], prefix: str, v: int) -> None:
    if not tagged:
        with w.block("if buffer[position]:"):
            w("position = skip_tagged_fields(buffer, position)")
        with w.block("else:"):
            w("position += 1")
        return
    for item in tagged:
        w(f"{prefix}_{item.name}: {item.annotation} = {item.default_value}")
    w(f"tags_{prefix}, position = read_varint(buffer, position)")
    with w.block(f"for _ in range(tags_{prefix}):"):
        w(f"tag_{prefix}, position = read_varint(buffer, position)")
        for number, item in enumerate(tagged):
            with w.block(f"{'el' if number else ''}if tag_{prefix} == {item.tag}:"):
                w(f"end_{prefix} = skip_tag(buffer, position)")
                w("_, position = read_varint(buffer, position)")
                decode_value(w, item, f"{prefix}_{item.name}", v, True)
                with w.block(f"if position != end_{prefix}:"):
                    w(f'raise MalformedMessage("{item.name} does not fill its tagged field")')
        with w.block("else:"):
            w("position = skip_tag(buffer, position)")


def decode_value(w: Writer, item: Field, target: str, v: int, flex: bool) -> None:
    if item.is_fixed:
        layout = FIXED[item.type]
        w(f"{target}, = {w.struct(layout)}.unpack_from(buffer, position)")
        w(f"position += {SIZES[layout]}")
        return
    if item.fields and not item.array:
        decode_struct(w, item, target, v, flex)
        return
    if flex:
        w("size, position = read_varint(buffer, position)")
        w("size -= 1")
    else:
        layout = "h" if item.type == "string" and not item.array else "i"
        w(f"size, = {w.struct(layout)}.unpack_from(buffer, position)")
        w(f"position += {SIZES[layout]}")
    declared = f"{target}: {item.annotation}" if item.tag is None else target
    if item.null:
        if item.array:
            w(declared if item.tag is None else "pass")
        with w.block("if size < 0:"):
            w(f"{target if item.array else declared} = None")
        with w.block("else:"):
            decode_present(w, item, target, v, flex)
        return
    with w.block("if size < 0:"):
        w(f'null_refused("{item.name}")')
    if item.array and item.tag is None:
        w(declared)
    decode_present(w, item, target, v, flex)


def decode_struct(w: Writer, item: Field, target: str, v: int, flex: bool) -> None:
    if not item.null:
        arguments = decode_fields(w, item.fields, w.fresh(), v, flex)
        w(f"{target} = {item.type}({arguments})")
        return
    if item.tag is None:
        w(f"{target}: {item.annotation}")
    w("position += 1")
    with w.block("if buffer[position - 1] != 1:"):
        w(f"{target} = None")
    with w.block("else:"):
        arguments = decode_fields(w, item.fields, w.fresh(), v, flex)
        w(f"{target} = {item.type}({arguments})")


def decode_present(w: Writer, item: Field, target: str, v: int, flex: bool) -> None:
    if item.array:
        least = size_min(item, v, flex)
        with w.block(f"if size * {least} > length - position:"):
            w(f'count_refused("{item.name}", size, length - position)')
        found = target
        if item.frozen:
            found = f"found_{w.fresh()}"
            w(f"{found}: list[{item.element_type}] = []")
        else:
            w(f"{target} = []")
        with w.block("for _ in range(size):"):
            if item.fields:
                arguments = decode_fields(w, item.fields, w.fresh(), v, flex)
                w(f"{found}.append({item.type}({arguments}))")
            else:
                inner = Field(item.name, item.type, False, False, EVER, None, None)
                element = f"element_{w.fresh()}"
                decode_value(w, inner, element, v, flex)
                w(f"{found}.append({element})")
        if item.frozen:
            w(f"{target} = tuple({found})")
        return
    with w.block("if size > length - position:"):
        w(f'truncated("{item.name}", size, length - position)')
    source = "buffer[position : position + size]"
    text = f'str({source}, "utf-8")' if item.type == "string" else f"bytes({source})"
    w(f"{target} = {text}")
    w("position += size")


# ---- modules ------------------------------------------------------------------------------------


def layouts(api: Api, fields: list[Field]) -> dict[int, int]:
    """Version -> the first version with the same layout."""

    def layout(items: list[Field], version: int) -> tuple[object, ...]:
        return tuple((f.name, layout(f.fields, version)) for f in items if f.active(version))

    seen: dict[tuple[object, ...], int] = {}
    result: dict[int, int] = {}
    for version in range(api.versions[0], api.versions[1] + 1):
        key = (api.is_flexible(version), layout(fields, version))
        result[version] = seen.setdefault(key, version)
    return result


def write_class(w: Writer, name: str, doc: str, fields: list[Field], done: set[str]) -> None:
    for item in fields:
        if item.fields and item.type not in done:
            done.add(item.type)
            write_class(w, item.type, f"{item.name} of {name}.", item.fields, done)
    frozen = any(item.frozen for item in fields)
    if not frozen:
        w("@dataclass(slots=True)")
    with w.block(f"class {name}(NamedTuple):" if frozen else f"class {name}:"):
        w(f'"""{doc}"""')
        w()
        for item in fields:
            default = item.default_value
            if not frozen and default.endswith(("[]", "()")):
                maker = "list" if default == "[]" else default[:-2]
                default = f"field(default_factory={maker})"
            w(f"{item.name}: {item.annotation} = {default}")
    w()
    w()


def write_codec(w: Writer, api: Api, kind: str) -> None:
    fields = api.messages[kind]
    name = api.name + kind.capitalize()
    table = layouts(api, fields)
    for version in sorted(set(table.values())):
        flex = api.is_flexible(version)
        w.names = 0
        with w.block(f"def _encode_{kind}_v{version}(message: {name}) -> Chunks:"):
            w("chunks: Chunks = []")
            w("out = bytearray()")
            encode_fields(w, fields, "message", "out", version, flex)
            w("chunks.append(out)")
            w("return chunks")
        w()
        w()
        w.names = 0
        with w.block(
            f"def _decode_{kind}_v{version}(buffer: memoryview, position: int) "
            f"-> tuple[{name}, int]:"
        ):
            w("length = len(buffer)")
            arguments = decode_fields(w, fields, "message", version, flex)
            w("assert position <= length")
            w(f"return {name}({arguments}), position")
        w()
        w()
    for action in ("encode", "decode"):
        entries = ", ".join(f"{v}: _{action}_{kind}_v{first}" for v, first in table.items())
        w(f"_{action.upper()}_{kind.upper()}: Final = {{{entries}}}")
        w()
        w()
    with w.block(f"def encode_{kind}(message: {name}, version: int) -> Chunks:"):
        w('"""The body in pieces, in order."""')
        w(f"return _ENCODE_{kind.upper()}[version](message)")
    w()
    w()
    with w.block(f"def decode_{kind}(buffer: memoryview, position: int, version: int) -> {name}:"):
        w('"""The message that fills `buffer` from `position`; MalformedMessage says why not."""')
        with w.block("try:"):
            w(f"message, end = _DECODE_{kind.upper()}[version](buffer, position)")
        with w.block("except DECODE_FAULTS as error:"):
            w(f'raise MalformedMessage(f"{name} v{{version}}: {{error}}") from None')
        with w.block("if end != len(buffer):"):
            w(
                f'raise MalformedMessage(f"{name} v{{version}}: '
                '{len(buffer) - end} bytes too many")'
            )
        w("return message")


def write_record_codec(w: Writer, api: Api, kind: str) -> None:
    """Key or value of a record, with the number that stands before it."""
    fields = api.messages[kind]
    name = api.name + kind.capitalize()
    table = layouts(api, fields) if kind == "value" else {api.key: api.key}
    w.structs.add("h")
    for version in sorted(set(table.values())):
        flex = kind == "value" and api.is_flexible(version)
        suffix = f"value_v{version}" if kind == "value" else "key"
        w.names = 0
        with w.block(f"def _encode_{suffix}({kind}: {name}) -> bytearray:"):
            w("out = bytearray()")
            encode_fields(w, fields, kind, "out", version, flex)
            w("return out")
        w()
        w()
        w.names = 0
        with w.block(
            f"def _decode_{suffix}(buffer: memoryview, position: int) -> tuple[{name}, int]:"
        ):
            w("length = len(buffer)")
            arguments = decode_fields(w, fields, kind, version, flex)
            w("assert position <= length")
            w(f"return {name}({arguments}), position")
        w()
        w()
    if kind == "key":
        with w.block(f"def encode_key(key: {name}) -> bytes:"):
            w('"""The record\'s key, which begins with its type."""')
            w("return _h.pack(TYPE) + _encode_key(key)")
    else:
        entries = ", ".join(f"{v}: _encode_value_v{first}" for v, first in table.items())
        w(f"_ENCODE: Final = {{{entries}}}")
        w(f"_DECODE: Final = {{{entries.replace('_encode', '_decode')}}}")
        w()
        w()
        with w.block(f"def encode_value(value: {name}, version: int) -> bytes:"):
            w('"""The record\'s value, which begins with its version."""')
            w("return _h.pack(version) + _ENCODE[version](value)")
    w()
    w()
    with w.block(f"def decode_{kind}(buffer: memoryview) -> {name}:"):
        w(f'"""The {kind} that fills `buffer`; MalformedMessage says why not."""')
        with w.block("try:"):
            w("number, = _h.unpack_from(buffer)")
            known = "number != TYPE" if kind == "key" else "number not in _DECODE"
            with w.block(f"if {known}:"):
                what = "type" if kind == "key" else "version"
                w(f'raise MalformedMessage(f"{name}: {what} {{number}} is not known")')
            decode = "_decode_key" if kind == "key" else "_DECODE[number]"
            w(f"{kind}, end = {decode}(buffer, 2)")
        with w.block("except DECODE_FAULTS as error:"):
            w(f'raise MalformedMessage(f"{name}: {{error}}") from None')
        with w.block("if end != len(buffer):"):
            w(f'raise MalformedMessage(f"{name}: {{len(buffer) - end}} bytes too many")')
        w(f"return {kind}")


def module(api: Api, folder: str, source: str) -> str:
    """The text of the generated module."""
    body = Writer()
    done: set[str] = set()
    is_record = api.kind == "record"
    what = "" if is_record else "'s body"
    for kind, fields in api.messages.items():
        write_class(body, api.name + kind.capitalize(), f"The {kind}{what}.", fields, done)
    for number, kind in enumerate(api.messages):
        if number:
            body()
            body()
        (write_record_codec if is_record else write_codec)(body, api, kind)
    text = "\n".join(body.lines)
    low, high = api.versions
    wire = [
        name
        for name in (
            "DECODE_FAULTS", "INLINE_RECORDS_MAX", "ZERO_UUID", "Chunks", "MalformedMessage",
            "count_refused", "null_refused", "read_varint", "skip_tag", "skip_tagged_fields",
            "truncated", "write_varint",
        )
        if re.search(rf"\b{name}\b", text)
    ]  # fmt: skip
    uses_field = ", field" if "field(default" in text else ""
    number = "record type" if is_record else "api key"
    head = [
        f'"""{api.name} ({number} {api.key}), versions {low} to {high}.',
        "",
        f"Generated from {folder}/schemas/{source} by tools/kafka_codecs.py: do not edit.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        *([] if is_record else [f"from dataclasses import dataclass{uses_field}"]),
        "from struct import Struct",
        f"from typing import Final{', NamedTuple' if is_record else ''}",
        "",
        "from pylog_broker.kafka_primitives import (",
        *(f"    {name}," for name in wire),
        ")",
        "",
        f"{'TYPE' if is_record else 'KEY'}: Final = {api.key}",
        f"VERSIONS: Final = range({low}, {high + 1})",
        *([] if is_record else [f"FLEXIBLE_FROM: Final = {api.flexible[0]}"]),
        "",
    ]
    structs = Writer()
    for layout in sorted(body.structs):
        structs(f'{structs.struct(layout)}: Final = Struct(">{layout}")')
    return "\n".join(head + structs.lines) + "\n\n\n" + text + "\n"


def main() -> int:
    stale = [name for folder in FOLDERS for name in generate(folder, "--check" in sys.argv[1:])]
    if stale:
        print(f"not up to date, run `python tools/kafka_codecs.py`: {' '.join(stale)}")
        return 1
    return 0


def generate(folder: Path, check: bool) -> list[str]:
    """Write the codecs of that package; the names of those that are not as they should be."""
    package, generated = f"broker/{folder.name}", folder / "generated"
    stale: list[str] = []
    wanted = {"__init__.py": f'"""Codecs generated from {package}/schemas: do not edit."""\n'}
    for path in sorted((folder / "schemas").glob("*.txt")):
        wanted[f"{path.stem}.py"] = module(parse(path), package, path.name)
    for name, text in wanted.items():
        target = generated / name
        if check:
            if not target.exists() or target.read_text() != text:
                stale.append(f"{package}/{name}")
        else:
            generated.mkdir(exist_ok=True)
            target.write_text(text)
    strange = (path.name for path in generated.glob("*.py") if path.name not in wanted)
    return stale + sorted(f"{package}/{name}" for name in strange)


if __name__ == "__main__":
    sys.exit(main())
