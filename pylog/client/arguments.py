"""Mistakes in arguments of public methods, told with the argument's name and the cure.

Numbers are never booleans: True as a partition is a slip, not partition 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any

from pylog import errors
from pylog.config import LONG_MAX


def shown(value: object) -> str:
    """A wrong value, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def addresses(given: object) -> Any:
    """`bootstrap_servers` for a settings table, which checks what is in it."""
    if isinstance(given, str):
        return given
    return several(
        given, "bootstrap_servers", "'host:port', or a list of such", errors.InvalidConfig
    )


def several(
    given: object,
    argument: str,
    wanted: str,
    error: type[errors.PylogError] = errors.InvalidRequest,
) -> list[Any]:
    """The items of what can be gone through; a text or bytes cannot. `wanted` says what to give."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | bytearray):
        return list(given)
    raise error(f"{argument}={shown(given)}: give {wanted}")


def mapping(
    given: object,
    argument: str,
    wanted: str,
    error: type[errors.PylogError] = errors.InvalidRequest,
) -> Mapping[Any, Any]:
    """The items that are given by key; `wanted` says what to give."""
    if isinstance(given, Mapping):
        return given
    raise error(f"{argument}={shown(given)}: give {wanted}")


def whole_or_none(value: object, low: int, high: float = LONG_MAX) -> int | None:
    """A whole number from `low` to `high`, also one of numpy's; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:  # also of numpy's, arrays and booleans
        return None
    return number if low <= number <= high else None


def whole(
    value: object,
    argument: str,
    low: int,
    high: int = LONG_MAX,
    error: type[errors.PylogError] = errors.InvalidRequest,
) -> int:
    """A whole number from `low` to `high`."""
    number = whole_or_none(value, low, high)
    if number is None:
        raise error(f"{argument}={shown(value)}: give a whole number from {low} to {high}")
    return number
