"""The groups of a simulated broker: the product's shards, their shell and their handlers.

They run on the broker's loop in simulated time, over its replica manager, and are asked by messages
of the protocol. All that they write is noted for the ghost state first, and what an answer promises
is compared with what is committed before it leaves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.model import CONSUMER_OFFSETS
from pylog.rpc.apis import JOIN_GROUP, OFFSET_COMMIT
from pylog_broker.api.api import GroupApi
from pylog_broker.api.groups.committed_offsets import CommittedOffsetsHandler
from pylog_broker.api.groups.find_coordinator import FindCoordinatorHandler
from pylog_broker.api.groups.group_admin import GroupAdminHandler
from pylog_broker.api.groups.members import MembersHandler
from pylog_broker.api.groups.streams import StreamsHandler
from pylog_broker.coordinator.runtime.shard import ShardPhase
from pylog_broker.metadata.image import MetadataDelta
from pylog_broker.node.coordinators import Coordinators, CoordinatorShell
from pylog_broker.node.group_coordinators import GroupShards
from pylog_broker.protobuf.group_apis import group_apis
from pylog_broker.replication.effects import (
    Effect,
    HighWatermarkMoved,
    InternalAppended,
    InternalRead,
    LeadershipBegan,
    LeadershipEnded,
)
from tests.sim.coordinator_shell import Clock, Engine, UnaryCall, UnaryCalls

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess

CALL_MS = 1_500
"""The time for which a request to a coordinator may wait for other replicas."""


class GroupService(UnaryCalls):
    """The service for groups of one life of a broker, from its registration on."""

    def __init__(self, process: BrokerProcess) -> None:
        super().__init__(process, "groups")
        cluster, incarnation = process.cluster, process.incarnation
        assert cluster.groups is not None
        self._cluster = cluster
        self._ghost = cluster.groups.ghost
        self._ids = cluster.scheduler.rng(f"member ids {incarnation}")
        clock: Any = Clock(process)
        engine: Any = Engine(process)
        pool: Any = None
        no_streams: Any = None  # groups of that type are not run here
        self.shards = GroupShards(cluster.groups.config, engine, clock, pool, lambda: process.image)
        self._leaderships = Coordinators({CONSUMER_OFFSETS: self.shards.shell})
        self.offsets = CommittedOffsetsHandler(
            self.shards, lambda: process.image, commit_timeout_ms=CALL_MS
        )
        api = GroupApi(
            FindCoordinatorHandler(lambda: process.image, self._internal_topics.ensure),
            MembersHandler(
                self.shards, lambda: process.image, self._new_id, commit_timeout_ms=CALL_MS
            ),
            self.offsets,
            GroupAdminHandler(self.shards, lambda: process.image, commit_timeout_ms=CALL_MS),
            StreamsHandler(self.shards, no_streams, commit_timeout_ms=CALL_MS),
        )
        self._apis = {each.api.key: each for each in group_apis(api)}

    def _new_id(self) -> str:
        return f"{self._ids.getrandbits(48):012x}"

    @property
    def shells(self) -> tuple[CoordinatorShell[Any], ...]:
        """The shell of its coordinators."""
        return (self.shards.shell,)

    # ---- what the replica manager and the metadata tell

    def perform(self, effect: Effect) -> None:
        """An effect that is a coordinator's."""
        match effect:
            case LeadershipBegan():
                self._leaderships.on_leadership_began(effect)
            case LeadershipEnded():
                self.note_end(self.shards.shell, effect)
                self._leaderships.on_leadership_ended(effect)
            case HighWatermarkMoved():
                self._leaderships.on_high_watermark_moved(effect)
                self._compare(effect.topic_partition.partition)
            case InternalRead(token, data):
                answer: Any = token
                if data.failure is not None:
                    self._sometimes["groups: log not read"] += 1
                answer(data)
            case InternalAppended(token, failure):
                answer = token
                if failure is not None:
                    name = errors.ERRORS_BY_CODE[failure.code].__name__
                    self._sometimes["groups: append refused"] += 1
                    self._sometimes[f"groups: append: {name}"] += 1
                answer(failure)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """The image has changed."""
        self.shards.on_metadata(delta)

    def compare_all(self) -> None:
        """I14, for every shard that has nothing under way; how many that are is the caller's."""
        for number in self.shards.shell.runtime.coordinators():
            self._compare(number)

    def _compare(self, number: int) -> None:
        """I14: what a shard has in memory is what its log says, when all of it is committed."""
        led = self.shards.shell.runtime._led.get(number)
        if led is None or led.shard.phase is not ShardPhase.ACTIVE:
            return
        machine = led.shard._machine
        topic = self._process.image.topics_by_name.get(CONSUMER_OFFSETS)
        if machine._uncommitted or machine._open or topic is None:
            return
        ghost = self._cluster.shadows.ghost(topic.topic_id, number)
        is_newest = led.shard.epoch == ghost.newest_epoch
        if not is_newest or ghost.committed_end != machine.next_offset or ghost.is_lossy:
            return
        if ghost.lacks_tombstones(self._process.broker_id):
            self._sometimes["groups: memory of a log without its tombstones"] += 1
            return
        self._sometimes["groups: memory compared with the log"] += 1
        self._ghost.check_memory(self._process.name, number, led.shard.coordinator)

    # ---- calls

    def _check(self, asked: UnaryCall, given: Any) -> None:
        if asked.api == OFFSET_COMMIT.key:
            self._check_committed(asked.message, given.partitions.items())
        elif asked.api == JOIN_GROUP.key and given.error is None:
            self._ghost.joined(asked.message.group_id, given.member_id, given.generation)

    def _check_committed(self, message: Any, outcomes: Iterable[tuple[Any, Any]]) -> None:
        """I10: what is answered as committed is."""
        tags = {(each.topic, each.partition): each.metadata for each in message.offsets}
        for tp, fault in outcomes:
            if fault is None:
                self._ghost.acknowledged(self._process.name, message.group_id, tags[tp])

    def stop(self) -> None:
        """The broker closes its logs."""
        self._internal_topics.stop()
        self.shards.shell.stop()
