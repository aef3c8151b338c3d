"""Members of a group of the consumer protocol, as their own programs see them, over a shard in
memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pylog.model import TopicId
from pylog_broker.coordinator.groups.consumer.group import ConsumerGroup
from pylog_broker.coordinator.groups.consumer.messages import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
)
from pylog_broker.coordinator.groups.consumer.protocol import COLLECT_MS_MAX, COLLECTING_FROM
from pylog_broker.coordinator.groups.consumer.topics import (
    Partitions,
    SubscribedTopic,
    TopicIdPartition,
)
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import CommittedOffset, OffsetCommit
from tests.fakes.classic_clients import TP, G
from tests.fakes.group_shard import GroupShard

REBALANCE_MS = 30_000


def set_topic(shard: GroupShard, name: str, count: int, generation: str = "A") -> None:
    """The topic is there, with so many partitions; of another `generation` it is another topic."""
    shard.topics[name] = SubscribedTopic(name, TopicId(name.ljust(21, generation) + "A"), count)
    shard.tell(lambda c: c.on_topics_changed({name}))


def delete_topic(shard: GroupShard, name: str) -> None:
    del shard.topics[name]
    shard.tell(lambda c: c.on_topics_deleted({name}))


def shard_with(config: Any = None, **topics: int) -> GroupShard:
    shard = GroupShard(config)
    for name, count in topics.items():
        set_topic(shard, name, count)
    return shard


def consumer_group(shard: GroupShard) -> ConsumerGroup:
    found = shard.coordinator.groups[G]
    assert isinstance(found, ConsumerGroup)
    return found


@dataclass
class Consumer:
    """A member that sends heartbeats when told to, and by itself gives up at once what it should.

    `owned` is what it reads.
    """

    shard: GroupShard
    member_id: str
    subscribed: tuple[str, ...] = ("t",)
    instance_id: str | None = None
    assignor: str | None = None
    regex: str | None = None
    epoch: int = 0
    owned: Partitions = frozenset()
    answers: list[Any] = field(default_factory=list)

    def request(self, **changes: Any) -> ConsumerHeartbeat:
        """Everything when it joins; later only what changes, and what it reads."""
        joins = self.epoch == 0
        made = ConsumerHeartbeat(
            G,
            self.member_id,
            self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            subscribed_names=self.subscribed if joins else None,
            subscribed_regex=self.regex if joins else None,
            server_assignor=self.assignor if joins else None,
            owned=self.owned,
            client_id="client",
            client_host="host",
        )
        return made._replace(**changes)

    def send(self, request: ConsumerHeartbeat) -> Any:
        """The answer, which the member does not hear."""
        return self.shard.answer(lambda c, r: c.consumer_heartbeat(r, request))

    def beat(self, **changes: Any) -> Any:
        """One heartbeat, and what its answer makes of the member."""
        return self.hear(self.send(self.request(**changes)))

    def hear(self, answer: Any) -> Any:
        self.answers.append(answer)
        if isinstance(answer, ConsumerHeartbeatAnswer):
            self.member_id, self.epoch = answer.member_id, answer.member_epoch
            if answer.assigned is not None:
                self.owned = answer.assigned
        return answer

    def leave(self, epoch: int = -1) -> Any:
        """It reads nothing any more, and says so."""
        self.owned = frozenset()
        answer = self.send(self.request(member_epoch=epoch, owned=None))
        self.epoch = 0
        return answer

    def commit(self, offset: int) -> Any:
        caller = Caller(self.member_id, self.instance_id, self.epoch)
        request = OffsetCommit(G, caller, {TP: CommittedOffset(offset)})
        return self.shard.answer(lambda c, r: c.commit_offsets(self.shard.wall_ms, r, request))

    @property
    def reads(self) -> list[int]:
        """The partitions that it reads of a single topic."""
        return sorted(each.partition for each in self.owned)


def partitions(shard: GroupShard, name: str) -> set[TopicIdPartition]:
    return set(shard.topics[name].partitions())


def settle_consumers(*consumers: Consumer) -> int:
    """All send heartbeats until the group is stable; how many rounds it took."""
    for rounds in range(1, 10):
        for consumer in consumers:
            answer = consumer.beat()
            assert isinstance(answer, ConsumerHeartbeatAnswer), answer
        shard = consumers[0].shard
        if consumer_group(shard).state_name == "Stable":
            return rounds
        if len(consumers) >= COLLECTING_FROM:
            shard.advance(COLLECT_MS_MAX)
    raise AssertionError(consumer_group(consumers[0].shard))
