"""Generates pylog/client/typed_settings.py, the types of the clients' settings, from the tables
that the clients go by:

`python tools/typed_settings.py`, or with `--check` says whether it is up to date.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from pylog.client.settings import (
    ADMIN_SETTINGS,
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    SHARE_CONSUMER_SETTINGS,
)
from pylog.config import ConfigKey, ConfigTable

MODULE = Path(__file__).resolve().parent.parent / "pylog/client/typed_settings.py"

HEAD = '''"""The types of the clients' settings, for editors and type checkers. Generated from the
tables in `settings` by tools/typed_settings.py; do not edit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypedDict, TypeVar

V = TypeVar("V")


class HasSerialize(Protocol):
    """An object that serializes."""

    @property
    def serialize(self) -> Callable[..., Any]:
        """(topic, data) or (data) -> bytes, str or None."""


class HasDeserialize(Protocol):
    """An object that deserializes."""

    @property
    def deserialize(self) -> Callable[..., Any]:
        """(topic, data) or (data) -> object."""


class HasPartition(Protocol):
    """An object that places records."""

    @property
    def partition(self) -> Callable[..., int]:
        """(topic, key, value, partitions) -> partition."""


Serialize = Callable[[Any], Any] | Callable[[Any, Any], Any] | HasSerialize | str
"""Code of (data) or (topic, data), or its import path."""
Deserialize = Callable[[Any], V] | Callable[[Any, Any], V]
"""Code of (data) or (topic, data)."""
'''

APART = {"bootstrap.servers", "group.id"}
"""Parameters of their own, as they are missed in most programs."""
CODE = {"deserializer", "key.deserializer", "value.deserializer"}
"""Parameters of their own, which decide what consumers return."""
OBJECTS = {
    "serializer": "Serialize | None",
    "key.serializer": "Serialize | None",
    "value.serializer": "Serialize | None",
    "partitioner": "str | Callable[..., int] | HasPartition | None",
    "partitioner.class": "str | Callable[..., int] | HasPartition | None",
    "partition.assignment.strategy": "str | Sequence[Any]",
}
SPECIAL = {"acks": 'Literal["all", "-1", "0", "1", -1, 0, 1]'}
NAMES = {bool: "bool", int: "int", float: "float", str: "str", list: "str | Sequence[str]"}
CLASSES = (
    ("ProducerSettings", "Settings of a Producer.", PRODUCER_SETTINGS),
    ("ConsumerSettings", "Settings of a Consumer.", CONSUMER_SETTINGS),
    ("ShareConsumerSettings", "Settings of a ShareConsumer.", SHARE_CONSUMER_SETTINGS),
    ("AdminSettings", "Settings of an AdminClient.", ADMIN_SETTINGS),
)


def type_of(key: ConfigKey) -> str:
    """The type that a value of the setting has in Python."""
    if key.name in SPECIAL:
        written = SPECIAL[key.name]
    elif key.type is object:
        return OBJECTS.get(key.name, "object")
    elif key.choices is not None:
        written = f"Literal[{', '.join(repr(choice) for choice in key.choices)}]"
    else:
        written = NAMES[key.type]
    return f"{written} | None" if key.default is None else written


def class_of(name: str, doc: str, table: ConfigTable) -> str:
    """A TypedDict with the table's settings."""
    lines = [f"class {name}(TypedDict, total=False):", f'    """{doc}"""', ""]
    lines += [
        f"    {key.name.replace('.', '_')}: {type_of(key)}"
        for key in table
        if key.name not in APART | CODE
    ]
    return "\n".join(lines)


def module() -> str:
    """The whole module, as ruff writes it."""
    text = "\n\n\n".join([HEAD.rstrip(), *(class_of(*each) for each in CLASSES)]) + "\n"
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(MODULE), "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def main() -> None:
    """Write the module, or check it."""
    if "--check" not in sys.argv[1:]:
        MODULE.write_text(module())
    elif not MODULE.exists() or MODULE.read_text() != module():
        sys.exit(f"{MODULE} is not up to date: run python tools/typed_settings.py")


if __name__ == "__main__":
    main()
