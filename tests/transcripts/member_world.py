"""A member of a classic group that transcripts talk to, with its commits. A request is answered by
the command that follows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeVar

from pylog import errors
from pylog.client.answers import Callback
from pylog.client.membership.assignors import CooperativeStickyAssignor, RangeAssignor
from pylog.client.membership.classic_membership import ClassicMembership
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import (
    Acknowledged,
    CoordinatorFound,
    FindCoordinator,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    PartitionCommitted,
    Synced,
    SyncGroup,
)
from pylog.client.membership.offset_commits import OffsetCommits
from pylog.consumer_protocol import (
    Assignment,
    decode_subscription,
    encode_assignment,
)
from pylog.model import OffsetAndMetadata, TopicPartition
from tests.fakes.short_text import short_text

CODES = {errors.error_name(kind): code for code, kind in errors.ERRORS_BY_CODE.items()}

R = TypeVar("R")


def partitions(numbers: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("t", int(number)) for number in numbers.split(",") if number)


class MemberWorld:
    """Member `me` of group g, whose topic is t; its coordinator is broker 7."""

    def __init__(self, assignor: str = "cooperative-sticky", instance: str = "") -> None:
        settings = MembershipSettings()
        self._now_ms = 0
        self._said: list[object] = []
        self._for_user: deque[Callback] = deque()
        identity = GroupIdentity("g", instance or None)
        self._finder = CoordinatorFinder(settings, identity, lambda: 0.5)
        self._commits = OffsetCommits(
            settings,
            identity,
            self._finder,
            self._for_user,
            lambda: {tp: OffsetAndMetadata(10) for tp in self._member.owned},
            lambda tp: "",
            lambda tp, topic_id: False,
            lambda now_ms, generation, code: self._member.on_commit_fault(now_ms, generation, code),
            lambda: 0.5,
        )
        kinds = {kind.name: kind for kind in (RangeAssignor, CooperativeStickyAssignor)}
        self._protocol = assignor
        self._member = ClassicMembership(
            settings,
            identity,
            self._finder,
            [kinds[assignor]()],
            self._for_user,
            self._commits.commit_consumed,
            lambda: 0.5,
        )
        self._member.listener = self
        self._requests: dict[type[object], object] = {}

    # ---- the user -----------------------------------------------------------------------------

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._said.append(f"revoked {short_text(partitions)}")

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._said.append(f"assigned {short_text(partitions)}")

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._said.append(f"lost {short_text(partitions)}")

    def subscribe(self) -> list[object]:
        self._member.subscribe(["t"])
        return self._polled()

    def user_polls(self) -> list[object]:
        self._member.on_user_poll(self._now_ms)
        self._commits.on_user_poll(self._now_ms)
        while self._for_user:
            callback = self._for_user.popleft()
            callback.answer.succeed(callback.run())
        return self._polled()

    def leave(self) -> list[object]:
        self._member.leave()
        return self._polled()

    def wait(self, ms: str) -> list[object]:
        self._now_ms += int(ms)
        return self._polled()

    # ---- the coordinator ----------------------------------------------------------------------

    def found(self) -> list[object]:
        self._finder.on_found(self._now_ms, self._sent(FindCoordinator), CoordinatorFound(7))
        return self._polled()

    def joined(self, generation: str, code: str = "", leader: str = "other") -> list[object]:
        answer = Joined(int(generation), "me", leader, self._protocol, code=CODES.get(code, 0))
        self._member.on_joined(self._now_ms, self._sent(JoinGroup), answer)
        return self._polled()

    def synced(self, numbers: str = "", code: str = "") -> list[object]:
        assignment = encode_assignment(Assignment(partitions(numbers)))
        answer = Synced(assignment, CODES.get(code, 0))
        self._member.on_synced(self._now_ms, self._sent(SyncGroup), answer)
        return self._polled()

    def alive(self, code: str = "") -> list[object]:
        answer = Acknowledged(CODES.get(code, 0))
        self._member.on_heartbeat(self._now_ms, self._sent(Heartbeat), answer)
        return self._polled()

    def committed(self, code: str = "") -> list[object]:
        request = self._sent(OffsetCommit)
        answers = [PartitionCommitted(tp, CODES.get(code, 0)) for tp, _ in request.offsets]
        self._commits.on_committed(self._now_ms, request, answers)
        return self._polled()

    def left(self) -> list[object]:
        self._member.on_left(self._now_ms, self._sent(LeaveGroup), Acknowledged())
        return self._polled()

    def _sent(self, kind: type[R]) -> R:
        request = self._requests.pop(kind)
        assert isinstance(request, kind)
        return request

    # ---- what is said -------------------------------------------------------------------------

    def _polled(self) -> list[object]:
        for manager in (self._member, self._commits, self._finder):
            for effect in manager.poll(self._now_ms).effects:
                self._requests[type(effect)] = effect
                self._said.append(_readable(effect) if isinstance(effect, JoinGroup) else effect)
        said, self._said = self._said, []
        return [*said, f"is {self._member.state.name}, has {short_text(self._member.owned)}"]


def _readable(request: JoinGroup) -> str:
    """With what the member tells in its subscription."""
    ((name, data),) = request.protocols
    told = decode_subscription(data)
    return (
        f"JoinGroup({request.member_id!r}, {name}, owned={short_text(told.owned)}, "
        f"generation={told.generation}, reason={request.reason!r})"
    )
