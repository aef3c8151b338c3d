"""Share sessions: which partitions each member fetches here, and by which connection. Pure.

A member has one with each broker. Its requests are numbered by the session's epoch: 0 begins a new
session, -1 ends it, and in between each one is one higher than the one before. The records of a
member that ends its session, or loses its connection, are given back: the owner of the session's
partitions does that, with the results of `open` and the other methods.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pylog.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound
from pylog.model import TopicId

NEW_SESSION: Final = 0
LAST_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class SessionKey(NamedTuple):
    """The group and the member of a session."""

    group_id: str
    member_id: str


class SharePartitionKey(NamedTuple):
    """A partition of a topic, as a group reads it."""

    group_id: str
    topic_id: TopicId
    partition: int


@dataclass(slots=True, eq=False)
class ShareSession:
    """`partitions`: in the order in which they are fetched, which goes round. `used_ms`: when the
    member last asked.

    `unconfirmed`: the partitions of which the member gets nothing before it is known that their
    state here is the group's, and the number of the question. Invariant: all are in `partitions`.
    """

    key: SessionKey
    connection: str
    used_ms: int
    epoch: int = NEW_SESSION
    """The epoch of the request before."""
    partitions: dict[SharePartitionKey, None] = field(default_factory=dict)
    unconfirmed: dict[SharePartitionKey, int] = field(default_factory=dict)

    def add(self, partitions: Iterable[SharePartitionKey]) -> None:
        """The member fetches these, too."""
        self.partitions |= dict.fromkeys(partitions)

    def forget(self, partitions: Iterable[SharePartitionKey]) -> None:
        """The member does not fetch these any more."""
        for each in partitions:
            self.partitions.pop(each, None)
            self.unconfirmed.pop(each, None)

    def in_turn(self) -> list[SharePartitionKey]:
        """All of them; the first one is last the next time, so that none is always first."""
        found = [*self.partitions]
        if len(found) > 1:
            del self.partitions[found[0]]
            self.partitions[found[0]] = None
        return found


class ShareSessions:
    """Invariant: a session is in `_by_connection` under its own connection."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """group.share.max.share.sessions, and never more."""
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[str, dict[SessionKey, None]] = {}
        self._by_group: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def of_group(self, group_id: str) -> int:
        """The number of sessions that members of the group have here."""
        return self._by_group.get(group_id, 0)

    def get(self, key: SessionKey) -> ShareSession | None:
        """The member's session."""
        return self._sessions.get(key)

    def open(self, now_ms: int, key: SessionKey, connection: str) -> ShareSession:
        """A new session, in place of the member's present one: close that first. Raises
        ShareSessionLimitReached.
        """
        assert key not in self._sessions, key
        if len(self._sessions) >= self.limit:
            raise ShareSessionLimitReached(
                f"this broker has {len(self._sessions)} share sessions, as many as "
                "group.share.max.share.sessions allows"
            )
        session = self._sessions[key] = ShareSession(key, connection, now_ms)
        self._by_connection.setdefault(connection, {})[key] = None
        self._by_group[key.group_id] = self.of_group(key.group_id) + 1
        return session

    def next(self, now_ms: int, key: SessionKey, epoch: int, connection: str) -> ShareSession:
        """The session that a request of that epoch goes on with; it belongs to the connection that
        the request came by. Raises ShareSessionNotFound and InvalidShareSessionEpoch.
        """
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound(
                f"member {key.member_id!r} of group {key.group_id!r} has no share session here: "
                "epoch 0 begins one"
            )
        expected = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        if epoch not in (expected, LAST_EPOCH):
            raise InvalidShareSessionEpoch(
                f"the request has epoch {epoch}; the share session of member {key.member_id!r} "
                f"goes on with {expected}, and ends with -1"
            )
        if epoch != LAST_EPOCH:
            session.epoch = epoch
        session.used_ms = now_ms
        if session.connection != connection:
            self._leave_connection(session)
            session.connection = connection
            self._by_connection.setdefault(connection, {})[key] = None
        return session

    def close(self, session: ShareSession) -> None:
        """It is over."""
        if self._sessions.get(session.key) is not session:
            return
        del self._sessions[session.key]
        self._leave_connection(session)
        left = self.of_group(session.key.group_id) - 1
        if left:
            self._by_group[session.key.group_id] = left
        else:
            del self._by_group[session.key.group_id]

    def _leave_connection(self, session: ShareSession) -> None:
        others = self._by_connection[session.connection]
        del others[session.key]
        if not others:
            del self._by_connection[session.connection]

    def by_connection(self, connection: str) -> list[ShareSession]:
        """Those whose last request came by that connection."""
        return [self._sessions[key] for key in self._by_connection.get(connection, ())]

    def unused_since(self, since_ms: int) -> list[ShareSession]:
        """Those whose member has not asked since then."""
        return [each for each in self._sessions.values() if each.used_ms <= since_ms]
