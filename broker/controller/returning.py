"""Where the replicas of a broker that registers are, and which of them it may lack (KIP-858).

Pure. The metadata have each replica in one log directory; the registration tells which directories
work, what is in them, and which ones do not. In this order:

1. its directory works: there it is; or it was moved by hand to another one that works;
2. its directory is offline (or one is whose id nobody knows): the replica is, too, for this life;
3. its directory is not among the broker's any more: the replica is lost, unless it was moved.

A broker that was unregistered has lost everything by what the cluster promises, wherever it is.

What was moved by hand may be an old copy, so it counts as one that may lack records. So does one
that is not there, if others are in sync or its log is known to have failed: somebody removed it. Of
the last one that nothing was heard of, it may be that it was never made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from pylog_broker.metadata.image import BrokerRegistration
from pylog_broker.metadata.messages import RegisterBroker, ReplicaKey


class Loss(Enum):
    """What a broker's new incarnation may lack of what the old one had."""

    NONE = auto()
    """The same directory, and the log survived: a clean stop, or the same boot of the host."""
    TAIL = auto()
    """The same directory, but what was not fsynced may be gone (KIP-966's unclean shutdown)."""
    ALL = auto()
    """Another directory: whatever it holds is not what the cluster counted on."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """One replica. `directory_id` empty: nowhere yet. `offline`: it does not work in this life.
    `absent`: it is not in its directory, which works; it was not made yet, or somebody removed it.
    """

    directory_id: str
    loss: Loss = Loss.NONE
    offline: bool = False
    absent: bool = False


class Returning:
    """The directories of one registration, beside what was known of the broker before."""

    def __init__(self, known: BrokerRegistration | None, request: RegisterBroker) -> None:
        self._known = known
        self._intact = {each.directory_id: each.intact for each in request.live_log_dirs}
        self._offline = frozenset(request.offline_log_dirs)
        self._is_told = bool(request.log_dirs)  # what is in the directories
        self._found: dict[ReplicaKey, list[str]] = {}
        for directory in request.live_log_dirs:
            for key in directory.replicas:
                self._found.setdefault(key, []).append(directory.directory_id)

    @property
    def loss(self) -> Loss:
        """The worst that befell a whole directory, for the log; offline ones not counted."""
        known = self._known
        if known is None or not self._intact.keys() & set(known.all_log_dirs):
            return Loss.ALL
        return Loss.NONE if all(self._intact.values()) else Loss.TAIL

    def where(self, replica: ReplicaKey, assigned: str) -> Whereabouts:
        """What became of a replica that the metadata have in the directory `assigned`."""
        found = self._found.get(replica, [])
        if self._known is None:
            # It brings logs all the same, and goes on with them where they are. With another
            # directory in the metadata nobody would notice when theirs is lost.
            place = assigned if assigned in found else next(iter(found), "")
            return Whereabouts(place, Loss.ALL)
        assigned = assigned or self._known.directory_id
        if assigned in self._intact:
            if found and assigned not in found:
                return Whereabouts(found[0], Loss.TAIL)
            loss = Loss.NONE if self._intact[assigned] else Loss.TAIL
            return Whereabouts(assigned, loss, absent=self._is_told and not found)
        if assigned in self._offline or "" in self._offline:
            return Whereabouts(assigned, offline=True)
        if found:
            return Whereabouts(found[0], Loss.TAIL)
        return Whereabouts("", Loss.ALL)
