"""A member's identity in its group, as all its managers see it, and how it is set. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pylog.consumer_protocol import NO_GENERATION


@dataclass(slots=True)
class GroupIdentity:
    """Changed by the membership alone; what is committed bears it."""

    group_id: str
    instance_id: str | None = None
    member_id: str = ""
    generation: int = NO_GENERATION
    takes_part: bool = False
    """Whether the group gives it partitions; a consumer that assigns them itself commits without
    being a member.
    """
    life: int = 0
    """Another one whenever the member has lost what it had, and when it joins after that: nothing
    of one life is committed in another, in which the partitions may be others'.
    """

    def forget_generation(self) -> None:
        """The member has no part in the current one."""
        if self.generation != NO_GENERATION:
            self.life += 1
        self.generation = NO_GENERATION

    def forget(self) -> None:
        """The coordinator does not know the member any more."""
        self.forget_generation()
        self.member_id = ""

    def join_again(self) -> None:
        """The member asks to be one, maybe once more."""
        self.life += self.life > 0


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """The consumer's settings that the managers need."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000

    def backoff_ms(self, failures: int, jitter: float) -> int:
        """The milliseconds to wait after so many failures: exponential, within 20 % (KIP-580)."""
        wait = self.retry_backoff_ms * 2 ** min(max(failures - 1, 0), 30)
        return int(min(wait, self.retry_backoff_max_ms) * (0.8 + 0.4 * jitter))
