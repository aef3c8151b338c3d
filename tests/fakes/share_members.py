"""Members of a share group, as their own programs see them, over a shard in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pylog_broker.coordinator.groups.consumer.topics import Partitions
from pylog_broker.coordinator.groups.share.group import ShareGroup
from pylog_broker.coordinator.groups.share.messages import ShareHeartbeat, ShareHeartbeatAnswer
from tests.fakes.classic_clients import G
from tests.fakes.group_shard import GroupShard


def share_group(shard: GroupShard) -> ShareGroup:
    found = shard.coordinator.groups[G]
    assert isinstance(found, ShareGroup)
    return found


@dataclass
class Sharer:
    """A member that sends heartbeats when told to. Where it `initializes`, the test that takes its
    requests has the state of partitions initialized at once.
    """

    shard: GroupShard
    member_id: str
    subscribed: tuple[str, ...] = ("t",)
    initializes: bool = True
    epoch: int = 0
    assigned: Partitions = frozenset()
    answers: list[Any] = field(default_factory=list)

    def request(self, **changes: Any) -> ShareHeartbeat:
        names = self.subscribed if self.epoch == 0 else None
        made = ShareHeartbeat(
            G,
            self.member_id,
            self.epoch,
            subscribed_names=names,
            client_id="client",
            client_host="host",
        )
        return made._replace(**changes)

    def send(self, request: ShareHeartbeat) -> Any:
        """The answer, which the member does not hear."""
        answer = self.shard.answer(lambda c, r: c.share_heartbeat(r, request))
        if self.initializes and isinstance(answer, ShareHeartbeatAnswer) and answer.to_initialize:
            self.initialized(answer.to_initialize)
        return answer

    def initialized(self, partitions: Partitions) -> None:
        self.shard.answer(lambda c, r: c.share.state_initialized(r, G, partitions))

    def beat(self, **changes: Any) -> Any:
        """One heartbeat, and what its answer makes of the member."""
        answer = self.send(self.request(**changes))
        self.answers.append(answer)
        if isinstance(answer, ShareHeartbeatAnswer):
            self.member_id, self.epoch = answer.member_id, answer.member_epoch
            if answer.assigned is not None:
                self.assigned = answer.assigned
        return answer

    def leave(self) -> Any:
        answer = self.send(self.request(member_epoch=-1, subscribed_names=None))
        self.epoch, self.assigned = 0, frozenset()
        return answer

    @property
    def reads(self) -> list[int]:
        """The partitions that it reads of a single topic."""
        return sorted(each.partition for each in self.assigned)


def settle_sharers(*members: Sharer) -> None:
    """All send heartbeats until nothing changes."""
    for _ in range(5):
        before = [(member.epoch, member.assigned) for member in members]
        for member in members:
            answer = member.beat()
            assert isinstance(answer, ShareHeartbeatAnswer), answer
        if before == [(member.epoch, member.assigned) for member in members]:
            return
    raise AssertionError(share_group(members[0].shard))
