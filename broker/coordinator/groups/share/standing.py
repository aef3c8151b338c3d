"""Heartbeats of share groups that stand: they wait until there is news for their member. Pure.

A member has one at most. After each change of a group all of its standing heartbeats are looked at,
one in each decision, as each has to see the changes of the one before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from pylog.errors import PylogError
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.share.messages import ShareHeartbeat, ShareHeartbeatAnswer
from pylog_broker.coordinator.runtime.decision import (
    CancelTimer,
    Decision,
    Reply,
    RequestId,
    SetTimer,
)

WAKE_AFTER_MS: Final = 5
"""So long a change waits for others that come with it."""


@dataclass(frozen=True, slots=True)
class ShareStandingTimer:
    """A heartbeat has stood long enough."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ShareWakeTimer:
    """A group has changed, and heartbeats of it stand."""

    group_id: str


class _Standing(NamedTuple):
    """A heartbeat without news, and what it would be answered."""

    request_id: RequestId
    request: ShareHeartbeat
    answer: ShareHeartbeatAnswer


@dataclass(slots=True)
class _Round:
    """A look at a group's standing heartbeats. `left`: None before it begins."""

    left: list[str] | None = None
    is_outdated: bool = False


def is_news(request: ShareHeartbeat, answer: ShareHeartbeatAnswer, decision: Decision) -> bool:
    """Whether the member, or the broker that took its request, must hear the answer at once."""
    return bool(
        decision.records
        or answer.assigned is not None
        or answer.member_epoch != request.member_epoch
        or answer.to_initialize
    )


class StandingShareHeartbeats:
    """Groups without any are not in `_standing`. `look`: decides such a heartbeat anew."""

    def __init__(
        self,
        config: GroupConfig,
        look: Callable[[ShareHeartbeat, Decision], ShareHeartbeatAnswer],
    ) -> None:
        self._config = config
        self._look = look
        self._standing: dict[str, dict[str, _Standing]] = {}
        self._rounds: dict[str, _Round] = {}

    def answer(
        self,
        request_id: RequestId,
        request: ShareHeartbeat,
        answer: ShareHeartbeatAnswer,
        decision: Decision,
    ) -> None:
        """Answer a heartbeat, at once or later; and the one of the same member before it."""
        self.end(request.group_id, answer.member_id, decision)
        if request.standing_ms <= 0 or is_news(request, answer, decision):
            decision.effects.append(Reply(request_id, answer))
        else:
            standing = _Standing(request_id, request, answer)
            self._standing.setdefault(request.group_id, {})[answer.member_id] = standing
            timer = ShareStandingTimer(request.group_id, answer.member_id)
            longest_ms = self._config.of(request.group_id).share_session_timeout_ms // 2
            decision.effects.append(SetTimer(timer, min(request.standing_ms, longest_ms)))
        if decision.records:
            self.wake(request.group_id, decision)

    def end(
        self,
        group_id: str,
        member_id: str,
        decision: Decision,
        response: ShareHeartbeatAnswer | PylogError | None = None,
    ) -> None:
        """Answer the member's standing heartbeat, if there is one; without a response, that there
        is no news.
        """
        members = self._standing.get(group_id, {})
        standing = members.pop(member_id, None)
        if standing is None:
            return
        if not members:
            del self._standing[group_id]
        decision.effects.append(CancelTimer(ShareStandingTimer(group_id, member_id)))
        answer = standing.answer if response is None else response
        decision.effects.append(Reply(standing.request_id, answer))

    def wake(self, group_id: str, decision: Decision) -> None:
        """The group changes: have its standing heartbeats looked at."""
        if group_id not in self._standing:
            return
        present = self._rounds.get(group_id)
        if present is None:
            self._rounds[group_id] = _Round()
            decision.effects.append(SetTimer(ShareWakeTimer(group_id), WAKE_AFTER_MS))
        elif present.left is not None:
            present.is_outdated = True

    def on_timer(self, due: ShareStandingTimer | ShareWakeTimer) -> Decision:
        """A heartbeat has stood long enough, or is to be looked at."""
        decision = Decision()
        if isinstance(due, ShareStandingTimer):
            self.end(due.group_id, due.member_id, decision)
            return decision
        return self._look_again(due.group_id)

    def _look_again(self, group_id: str) -> Decision:
        """Answer the next one for which there is news; the others come after it."""
        present, decision = self._rounds[group_id], Decision()
        if present.left is None:
            present.left = [*self._standing.get(group_id, ())]
            present.left.reverse()
        while present.left:
            member_id = present.left.pop()
            standing = self._standing.get(group_id, {}).get(member_id)
            if standing is None:
                continue
            answer: ShareHeartbeatAnswer | PylogError
            try:
                answer = self._look(standing.request, decision)
            except PylogError as error:
                answer = error
            else:
                if not is_news(standing.request, answer, decision):
                    decision = Decision()
                    continue
            self.end(group_id, member_id, decision, answer)
            present.is_outdated |= bool(decision.records)
            decision.effects.append(SetTimer(ShareWakeTimer(group_id), 0))
            return decision
        del self._rounds[group_id]
        if present.is_outdated:
            self.wake(group_id, decision)
        return decision
