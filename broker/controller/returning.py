"""The places of the replicas of a broker that registers, and the claim of each to lead (KIP-858).

Pure. The metadata have each replica in one log directory; the registration tells which directories
work, what is in them, and which ones do not. `PLACES` is the table of what follows for the place of
a replica, `CLAIMS` the one of what follows for its claim to lead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Final

from pylog_broker.metadata.image import BrokerRegistration
from pylog_broker.metadata.messages import RegisterBroker, ReplicaKey


class Loss(Enum):
    """The part of the old incarnation's data that the new one may lack."""

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


class Sight(Flag):
    """The news of one replica in a registration, and of the directory that the metadata name."""

    UNREGISTERED = auto()
    """The cluster does not know the broker, or knows it no more."""
    WORKS = auto()
    """The replica's directory is among those that work."""
    OFFLINE = auto()
    """It is among those that do not work; or one is among those whose id nobody can read."""
    IN_PLACE = auto()
    """The replica lies in its directory."""
    ELSEWHERE = auto()
    """The replica lies in another directory that works, and not in its own."""
    CONTENTS_TOLD = auto()
    """The registration lists the contents of its directories."""


class Where(Enum):
    """The directory that the metadata shall name from now on."""

    ITS_OWN = auto()
    FOUND = auto()
    """The first one that it was found in."""
    NOWHERE = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """A row's answer. `loss` None: as much as befell the directory."""

    where: Where
    loss: Loss | None = None
    offline: bool = False
    absent: bool = False


PLACES: Final[tuple[tuple[str, Sight, Place], ...]] = (
    # A broker that was unregistered has lost everything by what the cluster promises, wherever it
    # is. It goes on with its logs where they are all the same: with another directory in the
    # metadata nobody would notice when theirs is lost.
    (
        "unregistered, and its log is where it was",
        Sight.UNREGISTERED | Sight.IN_PLACE,
        Place(Where.ITS_OWN, Loss.ALL),
    ),
    (
        "unregistered, and its log is elsewhere",
        Sight.UNREGISTERED | Sight.ELSEWHERE,
        Place(Where.FOUND, Loss.ALL),
    ),
    ("unregistered, without a log", Sight.UNREGISTERED, Place(Where.NOWHERE, Loss.ALL)),
    ("it is where it was", Sight.WORKS | Sight.IN_PLACE, Place(Where.ITS_OWN)),
    # It may be an old copy.
    (
        "somebody moved it by hand",
        Sight.WORKS | Sight.ELSEWHERE,
        Place(Where.FOUND, Loss.TAIL),
    ),
    # Somebody removed it, or it was never made: `Evidence` tells which.
    (
        "its directory works and lacks it",
        Sight.WORKS | Sight.CONTENTS_TOLD,
        Place(Where.ITS_OWN, absent=True),
    ),
    ("its directory works, and nothing else is told", Sight.WORKS, Place(Where.ITS_OWN)),
    # A copy in another directory is older than what the offline one holds.
    ("its directory is offline", Sight.OFFLINE, Place(Where.ITS_OWN, Loss.NONE, offline=True)),
    (
        "its directory is the broker's no more, but somebody moved the log before",
        Sight.ELSEWHERE,
        Place(Where.FOUND, Loss.TAIL),
    ),
    (
        "its directory is the broker's no more",
        Sight(0),
        Place(Where.NOWHERE, Loss.ALL),
    ),
)
"""Each case with what it needs; the first of which all is there holds."""


def place_of(sight: Sight) -> Place:
    """The place of a replica, by what the registration tells of it."""
    return next(place for _, needed, place in PLACES if needed in sight)


class Returning:
    """The directories of one registration, beside what was known of the broker before."""

    def __init__(self, known: BrokerRegistration | None, request: RegisterBroker) -> None:
        self._known = known
        self._intact = {each.directory_id: each.intact for each in request.live_log_dirs}
        self._offline = frozenset(request.offline_log_dirs)
        self._is_told = bool(request.log_dirs)
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
        """The place of a replica that the metadata have in the directory `assigned`."""
        if self._known is not None:
            assigned = assigned or self._known.directory_id
        found = self._found.get(replica, [])
        place = place_of(self._sight(assigned, found))
        loss = place.loss
        if loss is None:
            loss = Loss.NONE if self._intact[assigned] else Loss.TAIL
        directories = {Where.ITS_OWN: assigned, Where.FOUND: next(iter(found), "")}
        directory_id = directories.get(place.where, "")
        return Whereabouts(directory_id, loss, place.offline, place.absent)

    def _sight(self, assigned: str, found: list[str]) -> Sight:
        sight = Sight(0)
        if self._known is None:
            sight |= Sight.UNREGISTERED
        if assigned in self._intact:
            sight |= Sight.WORKS
        if assigned in self._offline or "" in self._offline:
            sight |= Sight.OFFLINE
        if found:
            sight |= Sight.IN_PLACE if assigned in found else Sight.ELSEWHERE
        if self._is_told:
            sight |= Sight.CONTENTS_TOLD
        return sight


class Evidence(Flag):
    """The evidence about one replica of a broker that registers anew."""

    NOTHING_LEFT = auto()
    """Its directory is the broker's no more, or the broker was unregistered (Loss.ALL)."""
    REMOVED = auto()
    """It is not in its directory, and it was made: others are in sync, or its log had failed."""
    MAY_LACK = auto()
    """Records that were not synced may be gone, or the broker says that some are (Loss.TAIL)."""
    ONLY_ONE = auto()
    """The partition has no other replica."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A replica's place among those that may lead, from now on. `lost`: it leaves ISR and ELR.
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
    """The claim that this evidence leaves a replica."""
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
