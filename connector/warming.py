"""What a Python worker of Spark loads at its first task, kept out of the garbage collector's way.

Spark runs a full collection after each task of a worker that it keeps. Over the objects of numba,
pyarrow and gRPC that takes longer than a small task itself: they are loaded without collections in
between, and then frozen, which takes them out of all later ones. And the worker's connection to
Spark is made to answer at once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

from connector.spark_socket import hasten

_loaded: Final[set[Callable[[], None]]] = set()


def warm(load: Callable[[], None]) -> None:
    """In a task: run `load`, which imports, once in this process, and freeze what is there
    afterwards.
    """
    if load in _loaded:
        return
    if not _loaded:
        hasten()
    _loaded.add(load)
    collecting = gc.isenabled()
    gc.disable()
    try:
        load()
        gc.freeze()
    finally:
        if collecting:
            gc.enable()
