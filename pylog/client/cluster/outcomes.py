"""Calls about several items, each with an outcome of its own. An item that fails with a retriable
error is asked for again, alone, until the time is up. On the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from pylog import errors
from pylog.client.cluster.cluster import Cluster

K = TypeVar("K")
V = TypeVar("V")
M = TypeVar("M")
Answers = Iterable[tuple[K, errors.PylogError | None, V]]
"""A server's answers about items: a fault, or a value."""


def passes_at_leader(error: errors.PylogError) -> bool:
    """Whether a partition's leader, or another one, may answer later."""
    return error.retriable


def passes_at_controller(error: errors.PylogError) -> bool:
    """Whether the controller may soon say otherwise of the same item.

    As in Kafka's AdminClient that is less than `retriable`: an unknown topic is an answer, a full
    disk is for people to mend, and what timed out there was made, so that a second attempt would be
    refused because it exists.
    """
    return isinstance(error, errors.NotController | errors.ThrottlingQuotaExceeded)


class Outcomes(Generic[K, V]):
    """`results` and `faults` by item; `passing` has the last fault of those still asked for."""

    def __init__(self, wanted: Iterable[K], passes: Callable[[errors.PylogError], bool]) -> None:
        self._wanted = tuple(dict.fromkeys(wanted))
        self._passes = passes
        self.results: dict[K, V] = {}
        self.faults: dict[K, errors.PylogError] = {}
        self.passing: dict[K, errors.PylogError] = {}

    @property
    def left(self) -> list[K]:
        """The items that have neither a result nor a fault."""
        return [k for k in self._wanted if k not in self.results and k not in self.faults]

    @property
    def nothing_told(self) -> bool:
        """Whether no server said anything of any item."""
        return not (self.results or self.faults or self.passing)

    def told(self, item: K, fault: errors.PylogError | None, value: V) -> None:
        """A server's answer about an item."""
        if fault is None:
            self.results[item] = value
        elif self._passes(fault):
            self.passing[item] = fault
        else:
            self.faults[item] = fault

    async def complete(
        self,
        cluster: Cluster,
        attempt: Callable[[float], Awaitable[None]],
        timeout_ms: int,
        what: str,
    ) -> None:
        """Run `attempt(seconds left)`, which asks for what is `left`, until nothing is.

        RequestTimedOut, as `Cluster.retrying`, after `timeout_ms`.
        """

        async def once(left_s: float) -> None:
            await attempt(left_s)
            for item in self.left:
                raise self.passing.get(item) or errors.NetworkException(
                    f"{what}: {item}: the server's answer leaves it out"
                )

        await cluster.retrying(once, timeout_ms, what)

    def late(self, what: str, timeout_ms: int, error: errors.RequestTimedOut) -> None:
        """The time is up: what is left has failed, by its own last fault or by the call's."""
        for item in self.left:
            last = self.passing.get(item)
            self.faults[item] = errors.RequestTimedOut(
                f"{what}: {item}: not done within {timeout_ms / 1000:.3g} s; last fault: "
                f"{last.name}: {last}"
                if last is not None
                else f"{item}: {error}"
            )

    def in_order(self) -> dict[K, V]:
        """The results in the order in which they were asked for."""
        return {item: self.results[item] for item in self._wanted if item in self.results}


async def ask_controller(
    cluster: Cluster,
    wanted: Sequence[tuple[K, M]],
    ask: Callable[[list[M], float], Awaitable[Answers[K, V]]],
    timeout_ms: int,
    what: str,
) -> Outcomes[K, V]:
    """The outcome for each wanted item; `ask(messages, seconds left)` gets those of what is left.

    RequestTimedOut when no server said anything in time.
    """
    outcomes: Outcomes[K, V] = Outcomes((item for item, _ in wanted), passes_at_controller)

    async def attempt(left_s: float) -> None:
        left = set(outcomes.left)
        messages = [message for item, message in wanted if item in left]
        for item, fault, value in await ask(messages, left_s):
            outcomes.told(item, fault, value)
        for fault in outcomes.passing.values():
            _look_for_controller(cluster, fault)

    try:
        await outcomes.complete(cluster, attempt, timeout_ms, what)
    except errors.RequestTimedOut as error:
        if outcomes.nothing_told:
            raise
        outcomes.late(what, timeout_ms, error)
    return outcomes


def raise_passing(cluster: Cluster, fault: errors.PylogError | None) -> None:
    """Raise the controller's fault with a whole call if it is to be asked again."""
    if fault is not None and passes_at_controller(fault):
        _look_for_controller(cluster, fault)
        raise fault


def _look_for_controller(cluster: Cluster, fault: errors.PylogError) -> None:
    if isinstance(fault, errors.NotController):
        cluster.refresh_soon()
