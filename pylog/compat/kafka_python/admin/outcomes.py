"""The outcomes of one call about several items, by item."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pylog import errors

K = TypeVar("K")


def outcomes(
    items: Iterable[K], call: Callable[[], dict[K, Any] | None]
) -> tuple[dict[K, Any], dict[K, errors.PylogError]]:
    """Results and errors by item of a call to pylog's admin client, which raises an item's own
    error where there is one item. An error that is about no item is raised.
    """
    wanted = list(items)
    try:
        results = call()
    except errors.PartialFailure as failure:
        return dict(failure.results), dict(failure.errors)  # type: ignore[arg-type]
    except errors.PylogError as error:
        of_all = isinstance(error, errors.BootstrapFailed | errors.ClientClosed)
        if of_all or len(wanted) != 1:
            raise
        return {}, {wanted[0]: error}
    return (dict.fromkeys(wanted) if results is None else results), {}
