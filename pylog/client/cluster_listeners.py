"""Objects of the user's that want to know the cluster: Kafka's `ClusterResourceListener` (KIP-78).

An interceptor, serializer or deserializer that has a method `on_update(cluster_id)` gets the
cluster's id before its first record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Self

from pylog.client.background import logger


class ClusterListeners:
    """Tells each listener once, on the thread that has the first record, while other threads wait.
    An error that a listener raises is logged and changes nothing.
    """

    __slots__ = ("_lock", "_methods", "_telling", "told")

    def __init__(self, methods: Iterable[Callable[[str], Any]]) -> None:
        self._methods = list(methods)
        self._lock = threading.RLock()
        self._telling = ""
        self.told = ""
        """The id that all listeners know; empty: none yet."""

    @classmethod
    def among(cls, *given: object) -> Self | None:
        """The listeners among these objects, each once; None when there are none. A method of an
        object stands for the object.
        """
        owners = [getattr(each, "__self__", each) for each in given]
        distinct = {id(owner): owner for owner in owners}.values()
        hooks = [getattr(owner, "on_update", None) for owner in distinct]
        methods = [hook for hook in hooks if callable(hook)]
        return cls(methods) if methods else None

    def tell(self, cluster_id: str) -> None:
        """Return once all listeners know the id."""
        if cluster_id == self.told:
            return
        with self._lock:
            if cluster_id == self._telling:
                return  # told meanwhile; or a listener itself uses the client
            self._telling = cluster_id
            for method in self._methods:
                try:
                    method(cluster_id)
                except Exception:  # noqa: BLE001  a user's code: the client goes on
                    logger.exception("on_update of a listener raised")
            self.told = cluster_id
