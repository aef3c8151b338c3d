"""Where the replicas of a broker that registers are, and what each may still claim (KIP-858).

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
from enum import Enum, Flag, auto
from typing import Final

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


class Evidence(Flag):
    """What is known of one replica of a broker that registers anew."""

    NOTHING_LEFT = auto()
    """Its directory is the broker's no more, or the broker was unregistered (Loss.ALL)."""
    REMOVED = auto()
    """It is not in its directory, and it was made: others are in sync, or its log had failed."""
    MAY_LACK = auto()
    """What was not synced may be gone, or the broker says that records are (Loss.TAIL)."""
    ONLY_ONE = auto()
    """The partition has no other replica."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What becomes of a replica's place among those that may lead. `lost`: it leaves ISR and ELR.
    `emptied`: nothing of what it held is left. `alone`: it may lack records, and nobody has more.
    """

    lost: bool = False
    emptied: bool = False
    alone: bool = False


CLAIMS: Final[tuple[tuple[str, Evidence, Claim], ...]] = (
    ("its data are gone", Evidence.NOTHING_LEFT, Claim(lost=True, emptied=True)),
    # to stay offline would gain nothing: no other replica could be better
    (
        "it was removed, and was the only one",
        Evidence.REMOVED | Evidence.ONLY_ONE,
        Claim(emptied=True, alone=True),
    ),
    ("it was removed", Evidence.REMOVED, Claim(lost=True, emptied=True)),
    (
        "it may lack records, and is the only one",
        Evidence.MAY_LACK | Evidence.ONLY_ONE,
        Claim(alone=True),
    ),
    # the partition may be offline for it until a better replica or an operator comes
    ("it may lack records", Evidence.MAY_LACK, Claim(lost=True)),
    ("it is whole, or offline for this life", Evidence(0), Claim()),
)
"""Each case with the evidence that it needs; the first of which all is there holds."""


def claim_of(evidence: Evidence) -> Claim:
    """What a replica of which this is known may still claim."""
    return next(claim for _, needed, claim in CLAIMS if needed in evidence)


def evidence_of(found: Whereabouts, *, lacks: bool, was_made: bool, only: bool) -> Evidence:
    """`lacks`: the broker says that records are gone. `was_made`: others hold the partition, or it
    had a log here that failed, so that one that is absent was removed. `only`: of its partition.
    """
    evidence = Evidence(0)
    if found.loss is Loss.ALL:
        evidence |= Evidence.NOTHING_LEFT
    if found.absent and was_made:
        evidence |= Evidence.REMOVED
    if found.loss is Loss.TAIL or lacks:
        evidence |= Evidence.MAY_LACK
    return evidence | Evidence.ONLY_ONE if only else evidence
