"""kafka-python's listener for what a group gives and takes."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from pylog.compat.kafka_python.structs import theirs

logger = logging.getLogger(__name__)


class ConsumerRebalanceListener(ABC):
    """Told within polls which partitions a consumer loses and gets."""

    @abstractmethod
    def on_partitions_revoked(self, revoked: Any) -> Any:
        """These are read no more, and can still be committed."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: Any) -> Any:
        """These are new."""

    def on_partitions_lost(self, lost: Any) -> Any:
        """These may be another member's by now; by default they count as revoked."""
        return self.on_partitions_revoked(lost)


class AsyncConsumerRebalanceListener(ABC):
    """The same with coroutines, for programs that check types; `subscribe` refuses it."""

    @abstractmethod
    async def on_partitions_revoked(self, revoked: Any) -> Any:
        """These are read no more."""

    @abstractmethod
    async def on_partitions_assigned(self, assigned: Any) -> Any:
        """These are new."""

    async def on_partitions_lost(self, lost: Any) -> Any:
        """These may be another member's by now."""
        return await self.on_partitions_revoked(lost)


class Listening:
    """Passes pylog's calls on, with kafka-python's partitions. An error of the listener is logged,
    as there.
    """

    def __init__(self, listener: ConsumerRebalanceListener) -> None:
        self._listener = listener

    def on_partitions_revoked(self, partitions: Iterable[tuple[str, int]]) -> None:
        """These are read no more."""
        _tell(self._listener.on_partitions_revoked, partitions)

    def on_partitions_assigned(self, partitions: Iterable[tuple[str, int]]) -> None:
        """These are new."""
        _tell(self._listener.on_partitions_assigned, partitions)

    def on_partitions_lost(self, partitions: Iterable[tuple[str, int]]) -> None:
        """These may be another member's by now."""
        _tell(self._listener.on_partitions_lost, partitions)


def _tell(method: Callable[[Any], Any], partitions: Iterable[tuple[str, int]]) -> None:
    try:
        method({theirs(tp) for tp in partitions})
    except Exception:
        logger.exception("a rebalance listener raised")
