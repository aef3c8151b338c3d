"""The code that rests on CPython's layout of objects in memory, and the switch that turns all of
it off.

The contract. Everything in pylog that knows an address, an object's layout or the meaning of a
reference count stands in this package, or asks it (`client.producer.delivery`, which gives a handle
out again that nobody else holds). It believes, of CPython 3.11 to 3.13 with its lock:

- a bytes object's bytes follow its header of `bytes.__basicsize__ - 1`, its length stands at 16;
- a list's items are an array of addresses, whose own address stands at 24, its length at 16;
- an object with `__slots__` and without a dictionary has them one after the other from 16 on;
- `sys.getrefcount` tells whether anybody else holds an object.

That is looked at when this package is imported, once in each process. Where it does not hold, with
another interpreter, without numba, and on request, all of it is off, with one line in the log.
Lists of records are then encoded and decoded by plain Python, Arrow's columns are copied once more,
and each record has a handle of its own. Results are the same to the byte; it is slower.

On request: `PYLOG_NATIVE=off` in the environment, or `turn_off` before the first client is made.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import sysconfig
from importlib.util import find_spec
from typing import Final

logger = logging.getLogger(__name__)

VARIABLE: Final = "PYLOG_NATIVE"
OBJECT_TYPE: Final = 8
OBJECT_SIZE: Final = 16
OBJECT_SLOTS: Final = 16
"""The position at which the slots of an object without a dictionary begin."""
BYTES_DATA: Final = bytes.__basicsize__ - 1
LIST_ITEMS: Final = 24

_OFF: Final = frozenset({"0", "off", "false", "no"})


class Switch:
    """Whether it is on; read with each batch, so a plain attribute."""

    on = True
    why_off = ""


def is_on() -> bool:
    """Whether this process goes by addresses."""
    return Switch.on


def turn_off(why: str = "it was asked for", *, level: int = logging.WARNING) -> None:
    """From now on nothing new goes by addresses. Call it before clients are imported: whether a
    producer's handles are given out again is decided then.
    """
    if Switch.on:
        Switch.on, Switch.why_off = False, why
        logger.log(level, "records are read and written without native addresses, slower: %s", why)


def interpreter_fault(implementation: str, version: tuple[int, ...], *, free_threaded: bool) -> str:
    """The reason why objects of this interpreter may have another layout; empty when they have
    not."""
    name = f"{implementation} {'.'.join(map(str, version[:2]))}"
    if implementation != "cpython" or not (3, 11) <= version[:2] < (3, 14):
        return f"{name} is not CPython 3.11 to 3.13"
    return f"{name} is built without its lock" if free_threaded else ""


def layout_fault() -> str:
    """The layouts that are other than believed; empty when there are none."""
    word = ctypes.c_int64.from_address
    probe, holder = b"layout of bytes", [b"first", None]
    if (
        word(id(probe) + OBJECT_TYPE).value != id(bytes)
        or word(id(probe) + OBJECT_SIZE).value != len(probe)
        or ctypes.string_at(id(probe) + BYTES_DATA, len(probe)) != probe
    ):
        return "bytes objects differ from those of CPython 3.11 to 3.13"
    if word(id(holder) + OBJECT_SIZE).value != 2:
        return "lists differ from those of CPython 3.11 to 3.13"
    items = word(id(holder) + LIST_ITEMS).value
    if word(items).value != id(holder[0]) or word(items + 8).value != id(None):
        return "lists differ from those of CPython 3.11 to 3.13"
    slotted = _Slotted(probe, holder)
    slots = [word(id(slotted) + OBJECT_SLOTS + 8 * number).value for number in range(2)]
    if _Slotted.__basicsize__ != OBJECT_SLOTS + 16 or slots != [id(probe), id(holder)]:
        return "objects with slots differ from those of CPython 3.11 to 3.13"
    shared = [slotted, slotted]
    if sys.getrefcount(shared) >= sys.getrefcount(slotted):
        return "reference counts are not told"
    return ""


class _Slotted:
    __slots__ = ("first", "second")

    def __init__(self, first: object, second: object) -> None:
        self.first = first
        self.second = second


def _look() -> None:
    if os.environ.get(VARIABLE, "").strip().lower() in _OFF:
        turn_off(f"{VARIABLE} says so")
        return
    if find_spec("numba") is None:  # an installation for clients alone, and nothing to warn of
        turn_off("numba is not installed", level=logging.INFO)
        return
    fault = (
        interpreter_fault(
            sys.implementation.name,
            sys.version_info[:3],
            free_threaded=bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        )
        or layout_fault()
    )
    if fault:
        turn_off(fault)


_look()
