"""Read leases: ranges of offsets that readers hold while they read them. Retention by time and size
does not let a log begin behind the first offset that is held, and the cleaner rewrites nothing from
there on. Pure.

A holder is one plan of reads: a batch of a query, or a batch read. All that it holds here lives as
long as its last renewal says, so that a renewal costs the same for one partition and a thousand. A
lease is a promise of this broker alone, in memory: DeleteRecords, an overwrite and a truncation go
through it, and a new leader does not know it before its holder's next renewal.

A quota bounds the bytes that leases keep from retention or the cleaner in one partition: the oldest
of those that keep something end by force, until it holds. A holder cannot renew such a lease; it
can take one for its next plan.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from pylog.errors import PolicyViolation, PylogError, ThrottlingQuotaExceeded
from pylog.model import TopicId, TopicPartition

PARTITION_LEASES_MAX: Final = 1_000
CLIENT_LEASES_MAX: Final = 100_000
"""As many partitions as one query reads."""
LEASES_MAX: Final = 200_000
"""Of one broker: some 60 MB."""

Key = tuple[TopicId, int]
"""A partition by its topic's id, so that nothing is kept of a topic that took the name."""


class Keeper(Enum):
    """The work that leases hold back."""

    RETENTION = "retention"
    CLEANER = "the cleaner"


class End(Enum):
    """The reason for which a lease ends before its holder lets go of it; the label in metrics."""

    EXPIRED = "expired"
    QUOTA = "quota"
    NO_ROOM = "no_room"


@dataclass(frozen=True, slots=True)
class LeaseLimits:
    """The most leases of a partition, of a client, and of all together."""

    of_partition: int = PARTITION_LEASES_MAX
    of_client: int = CLIENT_LEASES_MAX
    in_all: int = LEASES_MAX


class LeasedRange(NamedTuple):
    """`start <= offset < end` of a partition, to be held."""

    topic_partition: TopicPartition
    topic_id: TopicId
    start: int
    end: int

    @property
    def key(self) -> Key:
        """The partition, by its topic's id."""
        return self.topic_id, self.topic_partition.partition


class ReadLease(NamedTuple):
    """A range that a holder has. `number`: leases were taken in this order."""

    holder: str
    range: LeasedRange
    number: int


@dataclass(frozen=True, slots=True)
class Refused:
    """That range is not held, and why."""

    topic_partition: TopicPartition
    error: PylogError


@dataclass(frozen=True, slots=True)
class Ended:
    """A lease ends without its holder's doing. `why` ends a sentence about it."""

    lease: ReadLease
    end: End
    why: str = ""

    def __str__(self) -> str:
        holder, held, _ = self.lease
        return (
            f"the read lease on {held.topic_partition} from offset {held.start} to {held.end} of "
            f"holder {holder} ends: {self.why}"
        )


class HeldBack(NamedTuple):
    """The number of the first segments that may go, and the leases that had to end for it."""

    free: int
    ended: list[Ended]


@dataclass(slots=True)
class _Holder:
    client: str
    expires_ms: int
    leases: dict[Key, ReadLease] = field(default_factory=dict)
    forced: dict[Key, str] = field(default_factory=dict)
    """Leases that ended by force, and why: a renewal does not bring them back."""

    @property
    def size(self) -> int:
        return len(self.leases) + len(self.forced)


class ReadLeases:
    """The leases of one broker, of all its log directories. The broker's loop owns it.

    Invariant: a holder has a lease or one that ended by force; each partition's leases are those of
    the holders.
    """

    def __init__(self, limits: LeaseLimits = LeaseLimits()) -> None:
        self.ended: Counter[End] = Counter()
        """Leases that ended without their holders' doing, by the reason."""
        self._limits = limits
        self._holders: dict[str, _Holder] = {}
        self._by_partition: dict[Key, dict[str, ReadLease]] = {}
        self._by_client: Counter[str] = Counter()
        self._kept: dict[tuple[Key, Keeper], int] = {}
        self._count = 0
        self._number = 0

    # ---- holders --------------------------------------------------------------------------------

    def take(
        self,
        now_ms: int,
        holder: str,
        client: str,
        timeout_ms: int,
        ranges: Iterable[LeasedRange],
    ) -> list[Refused]:
        """Hold these ranges, each of another partition, for so long; what the holder had here it
        lets go of.
        """
        before = self._holders.get(holder)
        known = _Holder(client, now_ms + timeout_ms) if before is None else before
        known.expires_ms = now_ms + timeout_ms
        self._by_client[known.client] -= len(known.forced)
        known.forced.clear()
        for lease in list(known.leases.values()):
            self._drop(known, lease)
        self._holders[holder] = known
        refused = []
        for each in ranges:
            error = self._add(holder, known, each)
            if error is not None:
                refused.append(Refused(each.topic_partition, error))
        self._forget_if_empty(holder, known)
        return refused

    def renew(
        self,
        now_ms: int,
        holder: str,
        client: str,
        timeout_ms: int,
        ranges: Iterable[LeasedRange],
    ) -> list[Refused]:
        """Hold what the holder has here for so long from now on, and these ranges beside it."""
        before = self._holders.get(holder)
        known = _Holder(client, now_ms + timeout_ms) if before is None else before
        known.expires_ms = max(known.expires_ms, now_ms + timeout_ms)
        self._holders[holder] = known
        refused = []
        for each in ranges:
            error = self._extend(holder, known, each)
            if error is not None:
                refused.append(Refused(each.topic_partition, error))
        self._forget_if_empty(holder, known)
        return refused

    def _extend(self, holder: str, known: _Holder, wanted: LeasedRange) -> PylogError | None:
        why = known.forced.get(wanted.key)
        if why is not None:
            return PolicyViolation(f"the read lease on {wanted.topic_partition} has ended: {why}")
        lease = known.leases.get(wanted.key)
        if lease is None:
            return self._add(holder, known, wanted)
        start, end = min(lease.range.start, wanted.start), max(lease.range.end, wanted.end)
        if (start, end) != (lease.range.start, lease.range.end):
            wider = lease._replace(range=lease.range._replace(start=start, end=end))
            known.leases[wanted.key] = self._by_partition[wanted.key][holder] = wider
        return None

    def _add(self, holder: str, known: _Holder, wanted: LeasedRange) -> PylogError | None:
        key, limits = wanted.key, self._limits
        here = self._by_partition.get(key)
        if here is not None and len(here) >= limits.of_partition:
            what, limit = f"{wanted.topic_partition} has", limits.of_partition
        elif self._by_client[known.client] >= limits.of_client:
            what, limit = f"client {known.client} has", limits.of_client
        elif self._count >= limits.in_all:
            what, limit = "this broker has", limits.in_all
        else:
            lease = ReadLease(holder, wanted, self._number)
            self._number += 1
            self._count += 1
            self._by_client[known.client] += 1
            known.leases[key] = lease
            if here is None:
                self._by_partition[key] = {holder: lease}
            else:
                here[holder] = lease
            return None
        return ThrottlingQuotaExceeded(
            f"{what} as many read leases as it may, {limit}; read without one, or end other reads"
        )

    def _drop(self, known: _Holder, lease: ReadLease) -> None:
        key = lease.range.key
        del known.leases[key]
        here = self._by_partition[key]
        del here[lease.holder]
        if not here:
            del self._by_partition[key]
            for keeper in Keeper:
                self._kept.pop((key, keeper), None)
        self._count -= 1
        self._by_client[known.client] -= 1

    def _forget_if_empty(self, holder: str, known: _Holder) -> None:
        if not known.size:
            del self._holders[holder]
        if self._by_client[known.client] <= 0:
            del self._by_client[known.client]

    # ---- time -----------------------------------------------------------------------------------

    def expire(self, now_ms: int) -> list[Ended]:
        """The holders that have not renewed in time let go of everything."""
        ended = []
        for holder, known in list(self._holders.items()):
            if known.expires_ms > now_ms:
                continue
            for lease in list(known.leases.values()):
                self._drop(known, lease)
                ended.append(Ended(lease, End.EXPIRED))
            self._by_client[known.client] -= len(known.forced)
            known.forced.clear()
            self._forget_if_empty(holder, known)
        if ended:
            self.ended[End.EXPIRED] += len(ended)
        return ended

    # ---- retention and the cleaner ---------------------------------------------------------------

    def floor(self, key: Key) -> int | None:
        """The first offset of a partition that is held; None where none is."""
        here = self._by_partition.get(key)
        return None if here is None else min(lease.range.start for lease in here.values())

    def hold_back(
        self,
        key: Key,
        keeper: Keeper,
        segments: Sequence[tuple[int, int]],
        bytes_max: int,
        end: End = End.QUOTA,
    ) -> HeldBack:
        """Say how many of these segments of a partition, each with its end offset and its bytes, in
        order, may go. The oldest leases end where all would keep more than `bytes_max`.
        """
        ends = [offset for offset, _ in segments]
        ended: list[Ended] = []
        while True:
            floor = self.floor(key)
            free = len(segments) if floor is None else bisect_right(ends, floor)
            kept = sum(size for _, size in segments[free:])
            if kept <= bytes_max:
                break
            oldest = min(
                (each for each in self._by_partition[key].values() if each.range.start < ends[-1]),
                key=lambda each: each.number,
            )
            ended.append(self._force(oldest, end, _why(end, keeper, kept, bytes_max)))
        if kept:
            self._kept[key, keeper] = kept
        else:
            self._kept.pop((key, keeper), None)
        return HeldBack(free, ended)

    def _force(self, lease: ReadLease, end: End, why: str) -> Ended:
        known = self._holders[lease.holder]
        self._drop(known, lease)
        known.forced[lease.range.key] = why
        self._by_client[known.client] += 1
        self.ended[end] += 1
        return Ended(lease, end, why)

    # ---- a look from outside --------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    @property
    def kept_bytes(self) -> int:
        """The bytes of segments that would have gone, or been cleaned, but for leases, as retention
        and the cleaner found them last.
        """
        return sum(self._kept.values())

    def of(self, holder: str) -> tuple[LeasedRange, ...]:
        """The ranges that a holder has here."""
        known = self._holders.get(holder)
        return () if known is None else tuple(lease.range for lease in known.leases.values())


def _why(end: End, keeper: Keeper, kept: int, bytes_max: int) -> str:
    if end is End.NO_ROOM:
        return f"it keeps {kept} bytes from {keeper.value}, and the disk has no room"
    return (
        f"leases keep {kept} bytes of the partition from {keeper.value}, more than "
        f"read.lease.max.bytes={bytes_max}"
    )
