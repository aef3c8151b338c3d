"""The next step of one member of a streams group towards its target. Pure.

    STABLE --it has a task that it should not--> UNREVOKED_TASKS --it says: given up--+
      ^ |                                                                             |
      | +--what it should have is not free--> UNRELEASED_TASKS <--likewise------------+
      |                                              |                                |
      +-------all that it should have was free-------+--------------------------------+

As in the consumer protocol, a member gives up first. A task that changes its role at a member is
given up in the one before it is had in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pylog_broker.coordinator.groups.streams.group import MemberState, StreamsMember
from pylog_broker.coordinator.groups.streams.tasks import NO_TASKS, TaskId, TaskRole, Tasks


def reconciled(
    member: StreamsMember,
    target: Tasks,
    target_epoch: int,
    is_free: Callable[[TaskRole, TaskId], bool],
    owned: Tasks | None,
) -> StreamsMember:
    """The member after as many steps as it can make now; as it was where it can make none.

    `owned` is what it says that it works on; None: it does not say, so it has given up nothing.
    """
    after = _after(member, target, target_epoch, is_free, owned)
    if after is member:
        return member
    held = after.held.active
    since = {task: member.since.get(task, after.member_epoch) for task in held}
    return replace(after, since=since)


def _after(
    member: StreamsMember,
    target: Tasks,
    target_epoch: int,
    is_free: Callable[[TaskRole, TaskId], bool],
    owned: Tasks | None,
) -> StreamsMember:
    epoch = member.member_epoch
    match member.state:
        case MemberState.STABLE if epoch == target_epoch:
            return member
        case MemberState.UNREVOKED_TASKS:
            if _works_on_any(owned, member.revoking):
                return member
            # Another revocation of the same member has its own epoch, and so its own time.
            epoch += 1
    kept = member.assigned & target
    revoking = member.assigned - kept
    if revoking and _works_on_any(owned, revoking):
        return replace(
            member.at_epoch(epoch),
            state=MemberState.UNREVOKED_TASKS,
            assigned=kept,
            revoking=revoking,
        )
    wanted = target - kept
    free = wanted.where(is_free)
    return replace(
        member.at_epoch(target_epoch),
        state=MemberState.UNRELEASED_TASKS if free != wanted else MemberState.STABLE,
        assigned=kept | free,
        revoking=NO_TASKS,
    )


def _works_on_any(owned: Tasks | None, tasks: Tasks) -> bool:
    return owned is None or bool(owned & tasks)
