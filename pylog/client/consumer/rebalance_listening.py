"""The user's listener, which may have some of Kafka's methods, as one that has them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pylog import errors
from pylog.client.arguments import shown
from pylog.client.user_code import check_plain
from pylog.model import TopicPartition

METHODS: Final = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")

_Told = Callable[[list[TopicPartition]], Any]


class RebalanceListening:
    """Passes on what the user's object has a method for; what is lost is revoked where it has none
    for that.
    """

    def __init__(self, listener: object) -> None:
        """InvalidRequest for an object with none of the methods."""
        revoked, assigned, lost = (_method(listener, name) for name in METHODS)
        if not (revoked or assigned or lost):
            raise errors.InvalidRequest(
                f"listener={shown(listener)}: give an object with some of the methods "
                f"{', '.join(METHODS)}"
            )
        self._revoked, self._assigned, self._lost = revoked, assigned, lost or revoked

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These are read no more, and still the member's own."""
        _tell(self._revoked, partitions)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These are new; none may be."""
        _tell(self._assigned, partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These may be another member's by now."""
        _tell(self._lost, partitions)


def _method(listener: object, name: str) -> _Told | None:
    method = getattr(listener, name, None)
    check_plain(method, f"listener={shown(listener)}")
    return method if callable(method) else None


def _tell(method: _Told | None, partitions: Sequence[TopicPartition]) -> None:
    if method is not None:
        method(list(partitions))
