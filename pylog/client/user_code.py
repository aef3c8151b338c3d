"""Code of the user's among the settings: objects, classes, or the import path of either."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from pylog import errors

_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


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
    """The callable of a setting, for a topic and data: the object's method `name`, or the object
    itself; None for None. Code that takes one argument gets the data alone. InvalidConfig, with the
    `shape` of the call, for what cannot be called.
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
    check_plain(found, setting, errors.InvalidConfig)
    return _of_data(found) if _takes_one(found) else found


def check_plain(
    code: object, what: str, fault: type[errors.PylogError] = errors.InvalidRequest
) -> None:
    """The fault for a coroutine function: its coroutines would never run."""
    called = getattr(code, "__call__", None)  # noqa: B004  an object that is called
    if inspect.iscoroutinefunction(code) or inspect.iscoroutinefunction(called):
        raise fault(
            f"{what}: {getattr(code, '__qualname__', code)} is a coroutine function; pylog calls "
            f"it and awaits nothing: give a plain function, which may start a task of your loop"
        )


def _takes_one(code: Callable[..., Any]) -> bool:
    """Whether a single argument must be given, as to `lambda data: ...` or `json.dumps`."""
    try:
        parameters = inspect.signature(code).parameters.values()
    except (TypeError, ValueError):  # some builtin functions do not say
        return False
    required = [p for p in parameters if p.kind in _POSITIONAL and p.default is p.empty]
    return len(required) == 1 and not any(p.kind is p.VAR_POSITIONAL for p in parameters)


def _of_data(code: Callable[..., Any]) -> Callable[..., Any]:
    def call(_topic: str, data: Any) -> Any:
        return code(data)

    return call


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
        for name in names:
            check_plain(getattr(found, name, None), setting, errors.InvalidConfig)
        chain.append(found)
    return chain
