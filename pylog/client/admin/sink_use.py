"""The admin client's calls about sinks of queries, whose batches count once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, TypeVar

from pylog.client.admin import sink_admin, sink_wire
from pylog.client.admin.sink_types import SinkListing
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.offsets import raise_faults

T = TypeVar("T")


class SinkUse(ABC):
    """A part of `AdminClient`, whose means of asking it uses."""

    _cluster: Cluster

    @abstractmethod
    def _milliseconds(self, timeout: float | None) -> int: ...

    @abstractmethod
    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    def list_sinks(
        self,
        query_id: str | None = None,
        sink_id: str | None = None,
        *,
        receipts: bool = False,
        timeout: float | None = None,
    ) -> list[SinkListing]:
        """All sinks of queries, by query and name; only those of that query, or of that name, where
        they are given. `receipts`: with where the records of their last batches lie.

        Every live broker is asked for those that it coordinates. PartialFailure holds the lists of
        the brokers that answered and the errors of the others, by broker id.
        """
        request = sink_wire.list_request(query_id, sink_id, receipts)
        asking = sink_admin.list_sinks(self._cluster, request, self._milliseconds(timeout))
        listed, faults = self._run(asking)
        raise_faults(listed, faults)
        found = [each for part in listed.values() for each in part]
        return sorted(found, key=lambda each: (each.query_id, each.sink_id))

    def abort_sink(self, query_id: str, sink_id: str, *, timeout: float | None = None) -> int:
        """The number of open attempts of a sink that were aborted: for a query that left them open
        and does not start again. A batch that is decided stands; one that is being written fails.
        """
        key = sink_wire.key_message(query_id, sink_id)
        return self._run(sink_admin.abort_sink(self._cluster, key, self._milliseconds(timeout)))

    def forget_sink(self, query_id: str, sink_id: str, *, timeout: float | None = None) -> None:
        """Forget a sink, whose query does not come back: its open attempts are aborted, and a batch
        that is written again counts again. Raises InvalidRequest where there is no such sink.
        """
        key = sink_wire.key_message(query_id, sink_id)
        self._run(sink_admin.forget_sink(self._cluster, key, self._milliseconds(timeout)))
