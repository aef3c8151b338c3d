"""Code of the user's among the settings: objects, classes, or the import path of either."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pylog import errors


def made(setting: str, given: Any) -> Any:
    """The object itself; an import path is followed, and a class called without arguments.

    InvalidConfig names the setting.
    """
    found = _imported(setting, given) if isinstance(given, str) else given
    if not inspect.isclass(found):
        return found
    try:
        return found()
    except Exception as error:
        raise errors.InvalidConfig(
            f"{setting}={given!r}: the class could not be made without arguments: {error!r}"
        ) from error


def _imported(setting: str, path: str) -> Any:
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise errors.InvalidConfig(
            f"{setting}={path!r}: it cannot be imported ({error}); write package.module:name"
        ) from error


def method_of(setting: str, given: Any, name: str, shape: str) -> Callable[..., Any] | None:
    """The callable of a setting: the object's method `name`, or the object itself; None for
    None. InvalidConfig, with the `shape` of the call, for what cannot be called.
    """
    if given is None:
        return None
    found = made(setting, given)
    found = getattr(found, name, found)
    if not callable(found):
        raise errors.InvalidConfig(
            f"{setting}={given!r}: it must be a callable {shape}, an object with a method "
            f"`{name}`, or the import path of one"
        )
    return found  # type: ignore[no-any-return]


def chain_of(setting: str, given: Any, names: Sequence[str]) -> list[Any]:
    """The objects of a setting that lists them, each with at least one of the methods `names`."""
    listed: Sequence[Any]
    if given is None:
        return []
    if isinstance(given, str):
        listed = [path.strip() for path in given.split(",") if path.strip()]
    else:
        listed = given if isinstance(given, list | tuple) else [given]
    chain = []
    for one in listed:
        found = made(setting, one)
        if not any(callable(getattr(found, name, None)) for name in names):
            raise errors.InvalidConfig(f"{setting}: {one!r} has no method {' or '.join(names)}")
        chain.append(found)
    return chain
