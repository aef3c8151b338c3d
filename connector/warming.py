"""Modules that a Python process of Spark loads when it first needs them, kept out of the garbage
collector's way.

Spark runs a full collection after each task of a worker that it keeps. Over the objects of numba,
pyarrow and gRPC that takes longer than a small task itself: they are loaded without collections in
between, which would take a quarter of the time, and then frozen, which takes them out of all later
ones. And a worker's connection to Spark is made to answer at once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache
from typing import Final

from pylog_connector.spark_socket import hasten

_loaded: Final[set[Callable[[], None]]] = set()
_hasten_once: Final = cache(hasten)


def warm(load: Callable[[], None]) -> None:
    """In a task: as `load_once`, and the connection to Spark answers at once from the first on."""
    _hasten_once()
    load_once(load)


def load_once(load: Callable[[], None]) -> None:
    """Run `load`, which imports, once in this process, and freeze what is there afterwards."""
    if load in _loaded:
        return
    _loaded.add(load)
    collecting = gc.isenabled()
    gc.disable()
    try:
        load()
        gc.freeze()
    finally:
        if collecting:
            gc.enable()
