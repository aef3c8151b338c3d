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


def settings_of(dotted: object, named: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names that keywords have: those of a dictionary with Kafka's dotted names,
    and those given by keyword. None of `bootstrap_servers` and `group_id` counts as not given.
    InvalidConfig for one that is given twice, and for no address.
    """
    wanted = "a dictionary of Kafka's names, such as {'bootstrap.servers': 'host:port'}"
    given: dict[str, Any] = {}
    table = {} if dotted is None else mapping(dotted, "config", wanted, errors.InvalidConfig)
    for name, value in table.items():
        if not isinstance(name, str):
            raise errors.InvalidConfig(f"config has the name {shown(name)}: a name is a text")
        given[name.replace(".", "_")] = value
    for name, value in named.items():
        if value is None and name in ("bootstrap_servers", "group_id"):
            continue
        if name in given:
            raise errors.InvalidConfig(f"{name} is given twice: in the dictionary and by keyword")
        given[name] = value
    if "bootstrap_servers" not in given:
        raise errors.InvalidConfig(
            "bootstrap_servers is missing: give 'host:port', or a list of such"
        )
    return given


def topics_and_settings(
    given: tuple[str | Mapping[str, Any], ...], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The topics, and the settings: of a dictionary that stands before them, and by keyword."""
    if given and isinstance(given[0], Mapping):
        return given[1:], settings_of(given[0], named)
    return given, settings_of(None, named)


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
