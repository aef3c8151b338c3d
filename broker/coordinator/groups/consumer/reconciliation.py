"""The next step of one member towards its target. Pure.

    STABLE --it has something that it should not--> UNREVOKED_PARTITIONS --it says: given up--+
      ^ |                                                                                      |
      | +--what it should have is another's--> UNRELEASED_PARTITIONS <--likewise---------------+
      |                                               |                                        |
      +--------------all that it should have was free-+----------------------------------------+

A member gives up first, and is at the target's epoch only then; nobody waits for it but those who
get what it gives up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pylog_broker.coordinator.groups.consumer.group import ConsumerMember, MemberState
from pylog_broker.coordinator.groups.consumer.topics import (
    NO_PARTITIONS,
    Partitions,
    TopicIdPartition,
)


def reconciled(
    member: ConsumerMember,
    target: Partitions,
    target_epoch: int,
    is_free: Callable[[TopicIdPartition], bool],
    owned: Partitions | None,
) -> ConsumerMember:
    """The member after as many steps as it can make now; as it was where it can make none.

    `owned` is what it says that it reads; None: it does not say, so it has given up nothing.
    """
    epoch = member.member_epoch
    match member.state:
        case MemberState.STABLE if epoch == target_epoch:
            return member
        case MemberState.UNREVOKED_PARTITIONS:
            if _reads_any(owned, member.revoking):
                return member
            # Another revocation of the same member has its own epoch, and so its own time.
            epoch += 1
    kept = member.assigned & target
    revoking = member.assigned - kept
    if revoking and _reads_any(owned, revoking):
        return replace(
            member.at_epoch(epoch),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoking,
        )
    wanted = target - kept
    free = frozenset(filter(is_free, wanted))
    return replace(
        member.at_epoch(target_epoch),
        state=MemberState.UNRELEASED_PARTITIONS if free != wanted else MemberState.STABLE,
        assigned=kept | free,
        revoking=NO_PARTITIONS,
    )


def _reads_any(owned: Partitions | None, partitions: Partitions) -> bool:
    return owned is None or not owned.isdisjoint(partitions)
