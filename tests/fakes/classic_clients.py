"""Members of a classic group, as their own programs see them, over a shard in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pylog.errors import MemberIdRequired
from pylog.model import TopicPartition
from pylog_broker.coordinator.groups.classic.group import ClassicGroup
from pylog_broker.coordinator.groups.classic.messages import (
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Leaving,
    MemberProtocol,
    Synced,
    SyncGroup,
)
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import CommittedOffset, OffsetCommit
from tests.fakes.group_shard import GroupShard

G = "g"
SESSION_MS = 10_000
REBALANCE_MS = 30_000
AT_ONCE = GroupConfig(initial_rebalance_delay_ms=0)
TP = TopicPartition("t", 0)


def subscription(*topics: str) -> bytes:
    """As consumers write it, version 0 without user data."""
    names = b"".join(len(t).to_bytes(2, "big") + t.encode() for t in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


RANGE = MemberProtocol("range", subscription("t"))


@dataclass
class Client:
    """A member as its own program sees it: it joins when told to, and remembers the answers."""

    shard: GroupShard
    name: str
    instance_id: str | None = None
    protocols: tuple[MemberProtocol, ...] = (RANGE,)
    protocol_type: str = "consumer"
    session_timeout_ms: int = SESSION_MS
    rebalance_timeout_ms: int = REBALANCE_MS
    member_id: str = ""
    generation: int = -1
    request_id: int = 0
    starts: int = 0
    protocol: str | None = None

    def request(self, **changes: Any) -> JoinGroup:
        self.starts += 1
        made = JoinGroup(
            G,
            self.member_id,
            self.instance_id,
            self.name,
            "host",
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.protocol_type,
            self.protocols,
            f"{self.instance_id or self.name}-{self.starts}",
        )
        return made._replace(**changes)

    def ask_to_join(self, **changes: Any) -> None:
        """Sends the request; with a new id once more."""
        for _ in range(2):
            request = self.request(**changes)
            self.request_id = self.shard.ask(
                lambda c, r, request=request: c.join(self.shard.wall_ms, r, request)
            )
            answer = self.answer
            if not isinstance(answer, Joined) or not isinstance(answer.error, MemberIdRequired):
                return
            self.member_id = answer.member_id

    @property
    def answer(self) -> Any:
        return self.shard.replies.get(self.request_id)

    @property
    def joined(self) -> Joined:
        answer = self.answer
        assert isinstance(answer, Joined), answer
        assert answer.error is None
        self.member_id, self.generation = answer.member_id, answer.generation
        self.protocol = answer.protocol
        return answer

    def sync(self, assignments: dict[str, bytes] | None = None, **changes: Any) -> None:
        request = SyncGroup(
            G,
            self.member_id,
            self.instance_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            assignments or {},
        )._replace(**changes)
        self.request_id = self.shard.ask(lambda c, r: c.sync(self.shard.wall_ms, r, request))

    def heartbeat(self) -> Any:
        request = Heartbeat(G, self.member_id, self.instance_id, self.generation)
        return self.shard.answer(lambda c, r: c.heartbeat(r, request))

    def leave(self) -> Any:
        request = LeaveGroup(G, (Leaving(self.member_id, self.instance_id),))
        return self.shard.answer(lambda c, r: c.leave(self.shard.wall_ms, r, request))

    def commit(self, offset: int) -> Any:
        caller = Caller(self.member_id, self.instance_id, self.generation)
        request = OffsetCommit(G, caller, {TP: CommittedOffset(offset)})
        return self.shard.answer(lambda c, r: c.commit_offsets(self.shard.wall_ms, r, request))


def state(shard: GroupShard) -> str:
    return shard.coordinator.groups[G].state_name


def group(shard: GroupShard) -> ClassicGroup:
    found = shard.coordinator.groups[G]
    assert isinstance(found, ClassicGroup)
    return found


def settle(*clients: Client) -> None:
    """All have joined: the leader gives each its own name."""
    for client in clients:
        _ = client.joined
    names = {client.member_id: client.name.encode() for client in clients}
    leader = next(client for client in clients if client.joined.leader == client.member_id)
    for client in (each for each in clients if each is not leader):
        client.sync()
    leader.sync(names)
    for client in clients:
        assert client.answer == Synced("consumer", "range", client.name.encode())


def stable(count: int, config: GroupConfig = AT_ONCE) -> tuple[GroupShard, list[Client]]:
    """A stable group of so many, the first of which leads."""
    shard = GroupShard(config)
    clients = [Client(shard, f"c{number}") for number in range(count)]
    clients[0].ask_to_join()
    for client in clients[1:]:
        client.ask_to_join()
    if count > 1:
        settle_again(*clients)
    else:
        settle(*clients)
    assert state(shard) == "Stable"
    return shard, clients


def settle_again(*clients: Client) -> None:
    """A rebalance goes on: a member that does not wait yet joins again."""
    for client in [client for client in clients if client.answer is not None]:
        client.ask_to_join()
    settle(*clients)
