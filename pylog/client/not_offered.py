"""Names of the public surface that this version does not have: one table per class.

A call to such a method raises NotOffered with the reason and what to do meanwhile, instead of an
AttributeError that looks like a typing mistake. Delete a row when the method comes to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeVar

from pylog import errors

ClassT = TypeVar("ClassT")

_SECURITY: Final = "authorization and quotas are not offered yet; leave the call out"

ADMIN_NOT_OFFERED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "create_acls",
            "describe_acls",
            "delete_acls",
            "alter_client_quotas",
            "describe_client_quotas",
            "describe_user_scram_credentials",
            "alter_user_scram_credentials",
        ),
        _SECURITY,
    ),
}


def refuses(table: Mapping[str, str]) -> Callable[[type[ClassT]], type[ClassT]]:
    """Decorates a class: each method of the table raises NotOffered when called.

    Real methods, unknown to type checkers: a `__getattr__` would slow down every attribute of every
    instance, as CPython specializes none of a class that has one (PEP 659).
    """

    def add(owner: type[ClassT]) -> type[ClassT]:
        for name, reason in table.items():
            setattr(owner, name, _refusal(owner.__name__, name, reason))
        return owner

    return add


def _refusal(owner: str, name: str, reason: str) -> Callable[..., NoReturn]:
    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise errors.NotOffered(f"{owner}.{name}: {reason}")

    refuse.__name__ = name
    refuse.__qualname__ = f"{owner}.{name}"
    refuse.__doc__ = f"Raises NotOffered: {reason}."
    return refuse
