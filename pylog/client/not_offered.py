"""What the public surface names and this version does not have: one table per class.

A call to such a method raises NotOffered with the reason and what to do meanwhile, instead of an
AttributeError that looks like a typing mistake. Delete a row when the method comes to be.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from pylog import errors

_TRANSACTIONS: Final = (
    "transactions are not offered yet; the idempotent producer stores each record once per session"
)
_GROUPS: Final = "consumer groups are not offered yet; give the consumer topics, or assign() it"
_SECURITY: Final = "authorization and quotas are not offered yet"
_REASSIGNMENT: Final = "moving replicas is not offered yet; place them with NewTopic"

PRODUCER_NOT_OFFERED: Final[Mapping[str, str]] = dict.fromkeys(
    (
        "init_transactions",
        "begin_transaction",
        "send_offsets_to_transaction",
        "commit_transaction",
        "abort_transaction",
        "transaction",
    ),
    _TRANSACTIONS,
)

CONSUMER_NOT_OFFERED: Final[Mapping[str, str]] = dict.fromkeys(
    ("committed", "commit", "commit_async", "group_metadata"),
    f"{_GROUPS}; keep position() yourself and seek() to it",
)

ADMIN_NOT_OFFERED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "list_groups",
            "describe_groups",
            "delete_groups",
            "list_group_offsets",
            "alter_group_offsets",
            "delete_group_offsets",
            "remove_group_members",
        ),
        _GROUPS,
    ),
    **dict.fromkeys(
        ("alter_partition_reassignments", "list_partition_reassignments"), _REASSIGNMENT
    ),
    **dict.fromkeys(
        (
            "list_transactions",
            "describe_transactions",
            "describe_producers",
            "abort_transaction",
            "fence_producers",
        ),
        _TRANSACTIONS,
    ),
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


def refuse_later(owner: str, name: str, table: Mapping[str, str]) -> Callable[..., NoReturn]:
    """For `__getattr__`: a method of the table that raises NotOffered when called.

    AttributeError for a name that is not in the table, with the nearest one.
    """
    reason = table.get(name)
    if reason is None:
        near = difflib.get_close_matches(name, list(table), n=1, cutoff=0.75)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise AttributeError(f"{owner} has no attribute {name!r}{hint}")

    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise errors.NotOffered(f"{owner}.{name}: {reason}")

    return refuse
