"""The ground of the compiled kernels: memory by address, and the compile-and-cache decorator.

Kernels take addresses, because handing them one array per value costs more than the work: a list of
bytes is read in place, and results are written once, into the memory that is handed out. Every
kernel checks its bounds itself. The package says what is believed of CPython's objects, and when it
is not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from pylog.records.batch import Buffer
from pylog.records.native import BYTES_DATA, Switch

F = TypeVar("F", bound=Callable[..., Any])

BYTES_TYPE: Final = id(bytes)
"""Kernels take it as an argument: as a global it would be frozen into the cache on disk, and the
next process has another."""
NONE: Final = id(None)

_ZEROED_UP_TO: Final = 32 * 1024  # up to here clearing costs less than a call through ctypes


def kernel(signature: Any, *, nogil: bool = False) -> Callable[[F], F]:
    """Compile for one signature at import, or load from numba's cache.

    The cache lies beside the module, or, where that is read-only, under the user's cache folder (or
    NUMBA_CACHE_DIR). Where neither can be written, as for a user without a home, it is compiled
    anew in each process: slow to start, but right. Numba looks at the kernel's own file only to see
    whether a cached one is stale: an author who changes a helper in another file must touch that
    file too.
    """

    def decorate(function: F) -> F:
        options: dict[str, Any] = {"nogil": nogil, "error_model": "numpy", "boundscheck": False}
        compile_for: Any = njit
        try:
            return cast(F, compile_for(signature, cache=True, **options)(function))
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return cast(F, compile_for(signature, **options)(function))

    return decorate


def directly(function: F) -> F:
    """A kernel of one signature, called without numba's look at its arguments' types, which costs
    as much as checking a record. They are turned into integers as `int` does.
    """
    (compiled,) = cast(Any, function).overloads.values()
    return cast(F, compiled.entry_point)


def helper(function: F) -> F:
    """A function that kernels call; compiled into each of them."""
    return cast(F, njit(error_model="numpy", boundscheck=False)(function))


def _load(bits: int) -> Callable[..., Any]:
    def load(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            return value if bits == 64 else builder.zext(value, ir.IntType(64))

        return types.int64(types.int64), generate

    return load


def _store_byte(typing_context: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        builder.store(builder.trunc(arguments[1], ir.IntType(8)), pointer, align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _store_word(typing_context: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store(arguments[1], pointer, align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _copy(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        to, of = (builder.inttoptr(address, byte) for address in arguments[:2])
        copy: Any = cgutils.raw_memcpy
        copy(builder, to, of, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


load_byte = cast(Callable[[int], int], intrinsic(_load(8)))
load_word = cast(Callable[[int], int], intrinsic(_load(64)))
store_byte = cast(Callable[[int, int], None], intrinsic(_store_byte))
store_word = cast(Callable[[int, int], None], intrinsic(_store_word))
copy_bytes = cast(Callable[[int, int, int], None], intrinsic(_copy))
"""`copy_bytes(target, source, size)`; the two do not overlap."""

_word = types.int64
new_bytes = cast(
    Callable[[int, int], int],
    types.ExternalFunction("PyBytes_FromStringAndSize", _word(_word, _word)),
)
"""`new_bytes(address, size)`: address of a new bytes object, 0 without memory. Needs the GIL."""
set_item = cast(
    Callable[[int, int, int], int],
    types.ExternalFunction("PyList_SetItem", types.int32(_word, _word, _word)),
)
"""`set_item(list, index, object)`: takes over the reference. Needs the GIL."""

new_object = cast(
    Callable[[int, int], int],
    types.ExternalFunction("PyType_GenericAlloc", _word(_word, _word)),
)
"""`new_object(type, 0)`: an instance whose slots are empty, 0 without memory. Needs the GIL."""
new_int = cast(Callable[[int], int], types.ExternalFunction("PyLong_FromLongLong", _word(_word)))
"""`new_int(value)`: 0 without memory. Needs the GIL."""
hold = cast(Callable[[int], None], types.ExternalFunction("Py_IncRef", types.void(_word)))
"""`hold(object)`: one reference more. Needs the GIL."""
untrack = cast(
    Callable[[int], None], types.ExternalFunction("PyObject_GC_UnTrack", types.void(_word))
)
"""`untrack(object)`: the cycle collector need not look at it. Needs the GIL."""

_uninitialised = ctypes.pythonapi["PyBytes_FromStringAndSize"]
_uninitialised.restype = ctypes.py_object
_uninitialised.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t)


def new_buffer(size: int) -> bytes | bytearray:
    """Memory of `size` to be written by address before anyone else sees it; `as_bytes` then.

    Never for fewer than two bytes: CPython shares those objects.
    """
    assert size > 1
    if not Switch.on:
        return bytearray(size)
    if size <= _ZEROED_UP_TO:
        return bytes(size)
    return cast(bytes, _uninitialised(None, size))


def as_bytes(buffer: bytes | bytearray) -> bytes:
    """The bytes that were written into a new buffer: usually that itself."""
    return buffer if type(buffer) is bytes else bytes(buffer)


def data_address(data: bytes | bytearray) -> int:
    """The address of an object's bytes; valid while the object lives."""
    if type(data) is bytes and Switch.on:
        return id(data) + BYTES_DATA
    return buffer_address(data)[0]


def buffer_address(buffer: Buffer) -> tuple[int, object]:
    """(address of any contiguous buffer, what must be kept alive while it is used)."""
    if type(buffer) is bytes and Switch.on:
        return id(buffer) + BYTES_DATA, buffer
    array = np.frombuffer(buffer, np.uint8)
    return array.__array_interface__["data"][0], array
