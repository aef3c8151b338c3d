"""Known bugs of moves, put in on purpose, where the internal topics of coordinators move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pylog.model import BrokerId
from pylog_broker.controller import reassigning
from pylog_broker.node.coordinators import CoordinatorShell
from pylog_broker.replication.effects import LeadershipEnded
from pylog_broker.replication.isr import FollowerProgress, LeaderState
from tests.sim.swarm import INTERNAL_MOVES, Swarm
from tests.sim.variant import Variant

_production_may_join = LeaderState._may_join


def _goes_on(_self: CoordinatorShell[Any], _ended: LeadershipEnded) -> None:
    pass


def _as_soon_as_it_fetches(
    self: LeaderState, follower: BrokerId, progress: FollowerProgress
) -> bool:
    if follower in self.adding:
        return self._is_eligible(follower, progress)
    return _production_may_join(self, follower, progress)


def _any_number(*_args: object) -> bool:
    return True


def _moving(*faults: str, **more: Any) -> Callable[[Swarm], Swarm]:
    """Internal topics move often, `faults` among it, to three members of one group."""

    def leaning(swarm: Swarm) -> Swarm:
        groups = swarm.groups
        if groups is None:
            return swarm
        groups = replace(groups, groups=1, members=3, faults=("crash", "close"), interval_ms=700.0)
        return replace(
            swarm,
            groups=groups,
            faults=(*INTERNAL_MOVES, *faults),
            fault_interval_ms=700.0,
            log_dirs=1,
            **more,
        )

    return leaning


MOVE_VARIANTS: dict[str, Variant] = {
    "coordinator_outlives_its_move": Variant(
        "A coordinator goes on after its partition has moved away",
        ((CoordinatorShell, "on_leadership_ended", _goes_on),),
        leaning=_moving(),
        caught_by=8,
        groups=True,
        moves=True,
    ),
    "added_before_it_has_the_log": Variant(
        "A replica that a move adds is in the ISR as soon as it fetches",
        ((LeaderState, "_may_join", _as_soon_as_it_fetches),),
        leaning=_moving(),
        groups=True,
        moves=True,
    ),
    "moved_under_min_isr": Variant(
        "A move ends when those that it adds are in sync, and they are too few for acks=all",
        ((reassigning, "is_enough", _any_number),),
        leaning=_moving("isolate", "kill", min_insync=2, brokers=5, replication_factor=3),
        caught_by=5,
        groups=True,
        moves=True,
    ),
}
