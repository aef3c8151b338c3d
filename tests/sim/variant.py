"""A test-only copy of the production cores with one known bug: which decisions it overrides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tests.sim.swarm import Modes, Swarm


@dataclass(frozen=True)
class Variant:
    """The overridden decisions: (class or module, name, replacement)."""

    what: str
    overrides: tuple[tuple[type | ModuleType, str, Any], ...] = ()
    caught_by: int = 1  # a seed that caught it when last looked at, to begin with
    # what a seed draws, with more of what it takes to be caught; the cores hold it as well
    leaning: Callable[[Swarm], Swarm] = lambda swarm: swarm
    groups: bool | None = False  # whether seeds have groups of consumers; None: as they draw
    transactions: bool | None = False  # likewise transactional producers
    moves: bool | None = False  # and whether partitions move to other brokers
    shares: bool = False  # and share groups, in place of groups
    sinks: bool = False  # and queries whose batches count once, in place of groups
    progress: bool | None = False  # and whether those commit what they have read
    throttles: bool = False  # and whether moves are throttled
    dead_letters: bool | None = False  # and whether those have a dead-letter topic
    offsets: bool = False  # and whether offsets of share groups are altered
    racks: bool | None = False  # and whether consumers read the replica in their rack

    def modes(self, asked: Mapping[str, bool]) -> Modes:
        """The modes of its seeds, with those that are asked for."""
        return Modes(**{name: asked.get(name) or getattr(self, name) for name in Modes._fields})

    @contextmanager
    def installed(self) -> Iterator[Variant]:
        """The overrides are in effect."""
        with ExitStack() as stack:
            for owner, name, instead in self.overrides:
                stack.enter_context(overridden(owner, name, instead))
            yield self


@contextmanager
def overridden(owner: type | ModuleType, name: str, instead: Any) -> Iterator[None]:
    """`name` of `owner` is something else for a while."""
    production = owner.__dict__[name]
    setattr(owner, name, instead)
    try:
        yield
    finally:
        setattr(owner, name, production)
