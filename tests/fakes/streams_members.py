"""Members of a streams group, as their own programs see them, over a shard in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pylog_broker.coordinator.generated.streams_group_topology import (
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import CommittedOffset, OffsetCommit
from pylog_broker.coordinator.groups.streams.group import StreamsGroup
from pylog_broker.coordinator.groups.streams.messages import (
    Endpoint,
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
)
from pylog_broker.coordinator.groups.streams.tasks import NO_TASKS, Tasks
from pylog_broker.group_settings import GroupSettings, SameSettings
from tests.fakes.classic_clients import TP, G
from tests.fakes.group_shard import GroupShard

REBALANCE_MS = 30_000

WORDS = StreamsGroupTopologyValue(0, (Subtopology("0", source_topics=("t",)),))
"""One stateless subtopology."""
COUNTS = StreamsGroupTopologyValue(
    0,
    (
        Subtopology("0", source_topics=("t",), repartition_sink_topics=("g-repartition",)),
        Subtopology(
            "1",
            repartition_source_topics=(TopicInfo("g-repartition"),),
            state_changelog_topics=(TopicInfo("g-changelog"),),
        ),
    ),
)
"""Records of `t` are written anew by another key, and counted."""


def at_once(**settings: Any) -> GroupConfig:
    """Settings without an initial delay."""
    given = {"streams_initial_rebalance_delay_ms": 0, **settings}
    return GroupConfig(settings=SameSettings(GroupSettings(**given)))


def streams_group(shard: GroupShard) -> StreamsGroup:
    found = shard.coordinator.groups[G]
    assert isinstance(found, StreamsGroup)
    return found


@dataclass
class Streamer:
    """A member that sends heartbeats when told to, and gives up at once what it should.

    `owned` is what it works on.
    """

    shard: GroupShard
    member_id: str
    topology: StreamsGroupTopologyValue = WORDS
    process_id: str = ""
    endpoint: Endpoint | None = None
    epoch: int = 0
    endpoint_epoch: int = 0
    owned: Tasks = NO_TASKS
    answers: list[Any] = field(default_factory=list)

    def request(self, **changes: Any) -> StreamsHeartbeat:
        joins = self.epoch == 0
        made = StreamsHeartbeat(
            G,
            self.member_id,
            self.epoch,
            self.endpoint_epoch,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            topology=self.topology if joins else None,
            owned=self.owned,
            process_id=self.process_id or self.member_id,
            endpoint=self.endpoint,
            client_id="client",
            client_host="host",
        )
        return made._replace(**changes)

    def send(self, request: StreamsHeartbeat) -> Any:
        """The answer, which the member does not hear."""
        return self.shard.answer(lambda c, r: c.streams_heartbeat(r, request))

    def beat(self, **changes: Any) -> Any:
        """One heartbeat, and what its answer makes of the member."""
        return self.hear(self.send(self.request(**changes)))

    def hear(self, answer: Any) -> Any:
        self.answers.append(answer)
        if isinstance(answer, StreamsHeartbeatAnswer):
            self.epoch = answer.member_epoch
            self.endpoint_epoch = answer.endpoint_epoch
            if answer.assigned is not None:
                self.owned = answer.assigned
        return answer

    def leave(self) -> Any:
        answer = self.send(self.request(member_epoch=-1, topology=None))
        self.epoch, self.owned = 0, NO_TASKS
        return answer

    def commit(self, offset: int, partition: int = TP.partition) -> Any:
        tp = TP._replace(partition=partition)
        request = OffsetCommit(
            G, Caller(self.member_id, None, self.epoch), {tp: CommittedOffset(offset)}
        )
        return self.shard.answer(lambda c, r: c.commit_offsets(self.shard.wall_ms, r, request))

    @property
    def active(self) -> list[tuple[str, int]]:
        return sorted(self.owned.active)

    @property
    def standby(self) -> list[tuple[str, int]]:
        return sorted(self.owned.standby)


def settle_streams(*members: Streamer) -> None:
    """All send heartbeats until nothing changes."""
    for _ in range(12):
        before = [(member.epoch, member.owned) for member in members]
        for member in members:
            answer = member.beat()
            assert isinstance(answer, StreamsHeartbeatAnswer), answer
        if before == [(member.epoch, member.owned) for member in members]:
            return
    raise AssertionError(streams_group(members[0].shard))
