"""The uses of `format("kafka")` in a Python file, read from its text; the file is not run.

A use is one chain of calls, such as `spark.readStream.format("kafka").option(...).load()`. Values
count that stand in the file: texts and numbers in the chain, in a name that the file gives one
value, and in dictionaries of such. Other values are only known when the program runs; of their
options the names are judged. A chain that goes on in a second statement is read as two, of which
the second names no format.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

from pylog import errors

FORMATS: Final = ("kafka", "pylog")
USES: Final = ("read", "readStream", "write", "writeStream")
SOURCE_BYTES_MAX: Final = 4 << 20


@dataclass(slots=True)
class Pipeline:
    """One use of the format. `unknown` are options whose values only the program knows, as
    it may know the mode; `partial` says that there may be more options than are seen.
    """

    line: int
    use: str
    options: dict[str, object] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    mode: str | None = None
    mode_is_known: bool = True
    output_mode: str | None = None
    partial: bool = False


def pipelines_in(text: str) -> list[Pipeline]:
    """Every use of the format, in the file's order; InvalidConfig where it is no Python."""
    if len(text) > SOURCE_BYTES_MAX:
        raise errors.InvalidConfig(f"the file is longer than {SOURCE_BYTES_MAX} characters")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise errors.InvalidConfig(f"this is no Python: {error}") from None
    named = _single_values(tree)
    inner = {
        id(node.func.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in inner:
            pipeline = _pipeline(node, named)
            if pipeline is not None:
                found.append(pipeline)
    return sorted(found, key=lambda one: one.line)


def _single_values(tree: ast.AST) -> dict[str, ast.expr]:
    """The names that the file assigns once."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign) and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, []).append(node.value or node.target)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _pipeline(node: ast.Call, named: dict[str, ast.expr]) -> Pipeline | None:
    calls, use = _chain(node)
    if use is None:
        return None
    found = Pipeline(node.lineno, use)
    formats = []
    for name, call in reversed(calls):
        if name == "format":
            formats.append(_text(_first(call), named))
        elif name == "option" and len(call.args) == 2:
            _take(found, call.args[0], call.args[1], named)
        elif name == "options":
            _take_all(found, call.keywords, named)
        elif name == "mode":
            _take_mode(found, _first(call), named)
        elif name == "outputMode":
            found.output_mode = _text(_first(call), named) or found.output_mode
        elif name in ("save", "load", "start"):
            _take_arguments(found, name, call, formats, named)
    return found if formats and formats[-1] in FORMATS else None


def _chain(node: ast.Call) -> tuple[list[tuple[str, ast.Call]], str | None]:
    """The calls, the last one first, and which of Spark's builders they begin with."""
    calls = []
    at: ast.expr = node
    while True:
        if isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute):
            calls.append((at.func.attr, at))
            at = at.func.value
        elif isinstance(at, ast.Attribute):
            if at.attr in USES:
                return calls, at.attr
            at = at.value
        else:
            return calls, None


def _first(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else (call.keywords[0].value if call.keywords else None)


def _take_arguments(
    found: Pipeline,
    name: str,
    call: ast.Call,
    formats: list[str | None],
    named: dict[str, ast.expr],
) -> None:
    """`save(format=..., mode=..., **options)` and the like."""
    rest = []
    for keyword in call.keywords:
        if keyword.arg == "format":
            formats.append(_text(keyword.value, named))
        elif keyword.arg == "mode" and name == "save":
            _take_mode(found, keyword.value, named)
        elif keyword.arg == "outputMode" and name == "start":
            found.output_mode = _text(keyword.value, named) or found.output_mode
        elif keyword.arg not in ("schema", "partitionBy", "queryName"):
            rest.append(keyword)
    _take_all(found, rest, named)


def _take_mode(found: Pipeline, value: ast.expr | None, named: dict[str, ast.expr]) -> None:
    found.mode = _text(value, named)
    found.mode_is_known = found.mode is not None


def _take_all(found: Pipeline, keywords: list[ast.keyword], named: dict[str, ast.expr]) -> None:
    for keyword in keywords:
        if keyword.arg is not None:
            _take(found, ast.Constant(keyword.arg), keyword.value, named)
            continue
        value = _resolved(keyword.value, named)
        if not isinstance(value, ast.Dict):
            found.partial = True
            continue
        for key, item in zip(value.keys, value.values, strict=True):
            if key is None:
                _take_all(found, [ast.keyword(None, item)], _without(named, keyword.value))
            else:
                _take(found, key, item, named)


def _without(named: dict[str, ast.expr], used: ast.expr) -> dict[str, ast.expr]:
    """So that a dictionary which holds itself ends."""
    name = used.id if isinstance(used, ast.Name) else None
    return {one: value for one, value in named.items() if one != name}


def _take(found: Pipeline, key: ast.expr, value: ast.expr, named: dict[str, ast.expr]) -> None:
    name = _text(key, named)
    if name is None:
        found.partial = True
        return
    value = _resolved(value, named)
    found.options.pop(name, None)
    found.unknown = [one for one in found.unknown if one != name]
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        inner = value.operand
        if isinstance(inner, ast.Constant) and isinstance(inner.value, int | float):
            found.options[name] = -inner.value
            return
    if isinstance(value, ast.Constant) and isinstance(value.value, str | int | float | bool):
        found.options[name] = value.value
    else:
        found.unknown.append(name)


def _resolved(value: ast.expr, named: dict[str, ast.expr]) -> ast.expr:
    seen: set[str] = set()
    while isinstance(value, ast.Name) and value.id in named and value.id not in seen:
        seen.add(value.id)
        value = named[value.id]
    return value


def _text(value: ast.expr | None, named: dict[str, ast.expr]) -> str | None:
    found = None if value is None else _resolved(value, named)
    if isinstance(found, ast.Constant) and isinstance(found.value, str):
        return found.value
    return None
