"""The start of a query that has lost its checkpoint: `startingOffsets=committed:<group>`, with the
takeover where it is meant, as the product's `BoundsReader.committed` does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.client.admin import sink_wire as admin_wire
from pylog.client.admin.sink_types import SinkListing
from pylog.client.membership.messages import OffsetFetch, OffsetsFetched
from pylog.client.membership.wire import GroupWire
from pylog.client.sinks.sink_types import SinkKey
from pylog.model import TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import group_pb2, sink_pb2
from tests.sim.coordinator_shell import Refused
from tests.sim.rpc import Actor
from tests.sim.sink_calls import FIND_MS, REQUEST_MS, SinkCaller
from tests.sim.sink_progress import Positions

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

LIST_MS = 4_000
ABORT_MS = 3_000
POSITIONS_MS = 5_000

Heard = Callable[[Positions | errors.PylogError], None]


class Start:
    """The look-ups of one driver."""

    def __init__(
        self, cluster: Cluster, actor: Actor, caller: SinkCaller, sink: SinkKey, heard: Heard
    ) -> None:
        """`heard` gets the positions, or why they cannot be told."""
        self._cluster = cluster
        self._actor = actor
        self._caller = caller
        self._group = sink.sink_id
        self._heard = heard
        self._wire = GroupWire(actor.name, REQUEST_MS, require_stable=True)
        self._until_ms = 0

    def look(self, *, takes_over: bool) -> None:
        """First end what earlier queries have left open, where that is meant."""
        if takes_over:
            self._caller.list_sinks(self._group, self._listed, LIST_MS)
        else:
            self._look_up()

    def _listed(self, listed: list[SinkListing] | errors.PylogError) -> None:
        if isinstance(listed, errors.PylogError):
            self._heard(listed)
            return
        self._abort([each for each in listed if self._group in each.progress_groups])

    def _abort(self, left: list[SinkListing]) -> None:
        if not left:
            self._look_up()
            return
        first, *rest = left
        sink = SinkKey(first.query_id, first.sink_id)
        key = admin_wire.key_message(*sink)
        request = sink_pb2.AbortSinkBatchRequest(sink=key, whole_sink=True)

        def aborted(answer: Any) -> None:
            if isinstance(answer, errors.PylogError):
                self._heard(answer)
                return
            self._cluster.sometimes["sinks: open batch of another query aborted"] += 1
            self._abort(rest)

        self._caller.ask(sink, apis.ABORT_SINK_BATCH, request, aborted, ABORT_MS)

    # ---- the group's positions

    def _look_up(self) -> None:
        self._until_ms = self._actor.machine.now_ms() + POSITIONS_MS
        self._find()

    def _again(self, why: str) -> None:
        self._cluster.sometimes[f"sinks: positions not told: {why}"] += 1
        if self._actor.machine.now_ms() >= self._until_ms:
            self._heard(errors.RequestTimedOut("positions"))
        else:
            self._actor.timer(80, self._find)

    def _find(self) -> None:
        request = group_pb2.FindCoordinatorRequest(
            type=group_pb2.COORDINATOR_GROUP, keys=[self._group]
        )

        def found(answer: Any) -> None:
            if answer is None or isinstance(answer, Refused) or answer.coordinators[0].error.code:
                self._again("no coordinator")
            else:
                self._fetch(answer.coordinators[0].broker_id)

        self._caller.call(self._caller.any_broker(), apis.FIND_COORDINATOR, request, found, FIND_MS)

    def _fetch(self, broker: int) -> None:
        topic, count = self._cluster.TOPIC, self._cluster.swarm.partitions
        partitions = tuple(TopicPartition(topic, number) for number in range(count))
        request = OffsetFetch(broker, self._group, partitions)
        message = self._wire.message(request, lambda _name: "")

        def answered(answer: Any) -> None:
            if answer is None or isinstance(answer, Refused):
                self._again("no answer")
                return
            told: Any = self._wire.answer(request, answer)
            self._take(told)

        self._caller.call(broker, apis.OFFSET_FETCH, message, answered, REQUEST_MS, of_groups=True)

    def _take(self, told: OffsetsFetched) -> None:
        code = next((each.code for each in told.partitions if each.code), told.code)
        if code:
            self._again(errors.ERRORS_BY_CODE[code].__name__)
            return
        self._heard(
            {
                each.topic_partition.partition: each.committed.offset
                for each in told.partitions
                if each.committed is not None and each.committed.offset
            }
        )
