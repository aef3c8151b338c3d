"""Which leases are held, what they keep, and which end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pylog.errors import PolicyViolation, ThrottlingQuotaExceeded
from pylog.model import TopicId, TopicPartition
from pylog_broker.storage.read_leases import (
    End,
    Ended,
    HeldBack,
    Keeper,
    Key,
    LeasedRange,
    LeaseLimits,
    ReadLease,
    ReadLeases,
    Refused,
)

IDS = [TopicId("a" * 22), TopicId("b" * 22)]


def held(partition: int, start: int, end: int, topic: int = 0) -> LeasedRange:
    return LeasedRange(TopicPartition("ab"[topic], partition), IDS[topic], start, end)


def key(partition: int, topic: int = 0) -> Key:
    return IDS[topic], partition


def take(leases: ReadLeases, holder: str, *ranges: LeasedRange, now: int = 0) -> list[Refused]:
    return leases.take(now, holder, f"host-{holder}", 100, ranges)


def renew(leases: ReadLeases, holder: str, *ranges: LeasedRange, now: int = 0) -> list[Refused]:
    return leases.renew(now, holder, f"host-{holder}", 100, ranges)


def test_a_partition_is_held_from_the_first_offset_of_all_its_leases() -> None:
    leases = ReadLeases()
    assert leases.floor(key(0)) is None
    assert take(leases, "one", held(0, 50, 60), held(1, 7, 9)) == []
    assert take(leases, "two", held(0, 20, 30)) == []
    assert (leases.floor(key(0)), leases.floor(key(1))) == (20, 7)
    assert leases.floor(key(0, topic=1)) is None
    assert len(leases) == 3


def test_a_plan_takes_the_place_of_the_one_before_it() -> None:
    leases = ReadLeases()
    take(leases, "one", held(0, 0, 10), held(1, 0, 10))
    assert take(leases, "one", held(0, 10, 20)) == []
    assert leases.of("one") == (held(0, 10, 20),)
    assert leases.floor(key(1)) is None
    assert take(leases, "one") == []
    assert (len(leases), leases.of("one"), leases.floor(key(0))) == (0, (), None)


def test_a_renewal_is_of_all_that_a_holder_has() -> None:
    leases = ReadLeases()
    take(leases, "one", held(0, 0, 10), held(1, 0, 10))
    take(leases, "two", held(0, 5, 10))
    assert renew(leases, "one", now=60) == []
    ended = leases.expire(100)
    assert ended == [Ended(ReadLease("two", held(0, 5, 10), 2), End.EXPIRED)]
    assert leases.of("one") == (held(0, 0, 10), held(1, 0, 10))
    assert [each.lease.range for each in leases.expire(160)] == [held(0, 0, 10), held(1, 0, 10)]
    assert len(leases) == 0
    assert leases.ended == {End.EXPIRED: 3}


def test_a_renewal_gives_a_new_leader_what_it_does_not_know_and_takes_nothing_away() -> None:
    leases = ReadLeases()
    assert renew(leases, "one", held(0, 40, 50)) == []
    assert renew(leases, "one", held(0, 45, 60), held(1, 0, 5)) == []
    assert leases.of("one") == (held(0, 40, 60), held(1, 0, 5))


def test_a_renewal_that_comes_late_does_not_shorten_a_lease() -> None:
    leases = ReadLeases()
    take(leases, "one", held(0, 0, 10), now=50)
    leases.renew(60, "one", "host", 10, ())
    assert leases.expire(149) == []
    assert len(leases.expire(150)) == 1


def test_segments_go_up_to_the_first_held_offset() -> None:
    leases = ReadLeases()
    segments = [(10, 100), (20, 100), (30, 100)]
    assert leases.hold_back(key(0), Keeper.RETENTION, segments, 1_000) == HeldBack(3, [])
    take(leases, "one", held(0, 20, 25))
    assert leases.hold_back(key(0), Keeper.RETENTION, segments, 1_000) == HeldBack(2, [])
    assert leases.kept_bytes == 100
    take(leases, "one", held(0, 19, 25))
    assert leases.hold_back(key(0), Keeper.RETENTION, segments, 1_000) == HeldBack(1, [])
    assert leases.kept_bytes == 200
    assert leases.hold_back(key(0), Keeper.CLEANER, segments[:2], 1_000) == HeldBack(1, [])
    assert leases.kept_bytes == 300
    assert leases.hold_back(key(0), Keeper.RETENTION, [], 1_000) == HeldBack(0, [])
    assert leases.kept_bytes == 100
    take(leases, "one")
    assert leases.kept_bytes == 0


def test_above_the_quota_the_oldest_leases_that_keep_something_end() -> None:
    leases = ReadLeases()
    take(leases, "ahead", held(0, 40, 50))  # the oldest, and keeps nothing of what would go
    take(leases, "slow", held(0, 15, 50))
    take(leases, "slower", held(0, 5, 50))
    segments = [(10, 100), (20, 100), (30, 100)]
    back = leases.hold_back(key(0), Keeper.RETENTION, segments, 200)
    why = (
        "leases keep 300 bytes of the partition from retention, more than read.lease.max.bytes=200"
    )
    assert back == HeldBack(
        3,
        [
            Ended(ReadLease("slow", held(0, 15, 50), 1), End.QUOTA, why),
            Ended(ReadLease("slower", held(0, 5, 50), 2), End.QUOTA, why),
        ],
    )
    assert str(back.ended[0]) == (
        f"the read lease on a-0 from offset 15 to 50 of holder slow ends: {why}"
    )
    assert leases.floor(key(0)) == 40
    assert (leases.kept_bytes, leases.ended) == (0, {End.QUOTA: 2})


def test_where_there_is_no_room_nothing_is_kept() -> None:
    leases = ReadLeases()
    take(leases, "one", held(0, 5, 50))
    back = leases.hold_back(key(0), Keeper.RETENTION, [(10, 100)], 0, End.NO_ROOM)
    why = "it keeps 100 bytes from retention, and the disk has no room"
    assert back == HeldBack(1, [Ended(ReadLease("one", held(0, 5, 50), 0), End.NO_ROOM, why)])


def test_a_lease_that_ended_by_force_does_not_come_back_before_the_next_plan() -> None:
    leases = ReadLeases()
    take(leases, "one", held(0, 5, 50), held(1, 0, 5))
    (ended,) = leases.hold_back(key(0), Keeper.RETENTION, [(10, 100)], 99).ended
    (refused,) = renew(leases, "one", held(0, 5, 50), held(1, 0, 5))
    assert refused.topic_partition == TopicPartition("a", 0)
    assert isinstance(refused.error, PolicyViolation)
    assert str(refused.error) == f"the read lease on a-0 has ended: {ended.why}"
    assert leases.floor(key(0)) is None
    assert take(leases, "one", held(0, 50, 60)) == []
    assert renew(leases, "one", held(0, 50, 60)) == []
    assert leases.floor(key(0)) == 50


def test_leases_are_bounded() -> None:
    leases = ReadLeases(LeaseLimits(of_partition=2, of_client=3, in_all=4))
    assert leases.take(0, "a", "x", 100, [held(0, 0, 1), held(1, 0, 1)]) == []
    assert leases.take(0, "b", "x", 100, [held(0, 0, 1)]) == []
    refusals = [
        *leases.take(0, "c", "y", 100, [held(0, 0, 1)]),
        *leases.take(0, "d", "x", 100, [held(2, 0, 1)]),
        *leases.renew(0, "e", "y", 100, [held(2, 0, 1), held(3, 0, 1)]),
    ]
    advice = "; read without one, or end other reads"
    assert [str(each.error) for each in refusals] == [
        f"a-0 has as many read leases as it may, 2{advice}",
        f"client x has as many read leases as it may, 3{advice}",
        f"this broker has as many read leases as it may, 4{advice}",
    ]
    assert all(isinstance(each.error, ThrottlingQuotaExceeded) for each in refusals)
    leases.expire(100)
    assert len(leases) == 0
    assert leases.take(200, "d", "x", 100, [held(n, 0, 1) for n in range(3)]) == []


@pytest.mark.parametrize("what", ["take", "renew"])
def test_a_holder_of_nothing_is_forgotten(what: str) -> None:
    leases = ReadLeases()
    getattr(leases, what)(0, "one", "host", 100, [])
    assert leases.expire(1_000) == []
    assert leases._holders == {}
    assert leases._by_client == {}


# ---- against a dumb twin -------------------------------------------------------------------------

LIMITS = LeaseLimits(of_partition=2, of_client=4, in_all=6)


@dataclass
class Twin:
    """Leases as a plain list, searched through each time."""

    rows: list[list[object]] = field(default_factory=list)
    """[number, holder, partition, start, end], in the order of taking."""
    expires: dict[str, int] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict)
    forced: set[tuple[str, int]] = field(default_factory=set)
    number: int = 0

    def of(self, holder: str) -> dict[int, tuple[int, int]]:
        return {row[2]: (row[3], row[4]) for row in self.rows if row[1] == holder}  # type: ignore[misc]

    def knows(self, holder: str) -> bool:
        return bool(self.of(holder)) or any(each[0] == holder for each in self.forced)

    def begin(self, holder: str, client: str, until: int, *, longer: bool) -> None:
        if not self.knows(holder):
            self.client[holder], self.expires[holder] = client, until
        self.expires[holder] = max(until, self.expires[holder]) if longer else until

    def add(self, holder: str, partition: int, start: int, end: int) -> bool:
        client = self.client[holder]
        here = [row for row in self.rows if row[2] == partition]
        of_client = [row for row in self.rows if self.client[str(row[1])] == client]
        forced = [each for each in self.forced if self.client[each[0]] == client]
        if (
            len(here) >= LIMITS.of_partition
            or len(of_client) + len(forced) >= LIMITS.of_client
            or len(self.rows) >= LIMITS.in_all
        ):
            return False
        self.rows.append([self.number, holder, partition, start, end])
        self.number += 1
        return True

    def floor(self, partition: int) -> int | None:
        return min((row[3] for row in self.rows if row[2] == partition), default=None)  # type: ignore[type-var, return-value]


HOLDERS = st.sampled_from("pqr")
CLIENTS = st.sampled_from("xy")
RANGES = st.dictionaries(
    st.integers(0, 2), st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=3
)
SEGMENTS = st.lists(st.tuples(st.integers(1, 10), st.integers(1, 9)), max_size=4)


def ranges_of(wanted: Iterable[tuple[int, tuple[int, int]]]) -> list[LeasedRange]:
    return [held(n, start, start + length) for n, (start, length) in wanted]


class Leases(RuleBasedStateMachine):
    """Both hear the same events, and must know and say the same."""

    def __init__(self) -> None:
        super().__init__()
        self.leases = ReadLeases(LIMITS)
        self.twin = Twin()
        self.now = 0

    @rule(holder=HOLDERS, client=CLIENTS, timeout=st.integers(1, 20), wanted=RANGES)
    def take(
        self, holder: str, client: str, timeout: int, wanted: dict[int, tuple[int, int]]
    ) -> None:
        twin = self.twin
        twin.begin(holder, client, self.now + timeout, longer=False)
        twin.forced = {each for each in twin.forced if each[0] != holder}
        twin.rows = [row for row in twin.rows if row[1] != holder]
        no = []
        for n, (start, length) in wanted.items():
            if not twin.add(holder, n, start, start + length):
                no.append(n)
        refused = self.leases.take(self.now, holder, client, timeout, ranges_of(wanted.items()))
        assert [each.topic_partition.partition for each in refused] == no

    @rule(holder=HOLDERS, client=CLIENTS, timeout=st.integers(1, 20), wanted=RANGES)
    def renew(
        self, holder: str, client: str, timeout: int, wanted: dict[int, tuple[int, int]]
    ) -> None:
        twin = self.twin
        twin.begin(holder, client, self.now + timeout, longer=True)
        no = []
        for n, (start, length) in wanted.items():
            mine = [row for row in twin.rows if (row[1], row[2]) == (holder, n)]
            if (holder, n) in twin.forced:
                no.append(n)
            elif mine:
                mine[0][3] = min(mine[0][3], start)  # type: ignore[call-overload]
                mine[0][4] = max(mine[0][4], start + length)  # type: ignore[call-overload]
            elif not twin.add(holder, n, start, start + length):
                no.append(n)
        refused = self.leases.renew(self.now, holder, client, timeout, ranges_of(wanted.items()))
        assert [each.topic_partition.partition for each in refused] == no

    @rule(by=st.integers(0, 15))
    def time_passes(self, by: int) -> None:
        self.now += by
        twin = self.twin
        late = {h for h in twin.expires if twin.knows(h) and twin.expires[h] <= self.now}
        gone = {(row[1], row[2]) for row in twin.rows if row[1] in late}
        twin.rows = [row for row in twin.rows if row[1] not in late]
        twin.forced = {each for each in twin.forced if each[0] not in late}
        ended = self.leases.expire(self.now)
        assert {
            (each.lease.holder, each.lease.range.topic_partition.partition) for each in ended
        } == gone

    @rule(partition=st.integers(0, 2), steps=SEGMENTS, most=st.integers(0, 20))
    def retention_comes(self, partition: int, steps: list[tuple[int, int]], most: int) -> None:
        segments, end = [], 0
        for length, size in steps:
            end += length
            segments.append((end, size))
        twin, ended = self.twin, []
        while True:
            floor = twin.floor(partition)
            stay = [s for at, s in segments if floor is not None and at > floor]
            if sum(stay) <= most:
                break
            rows = [row for row in twin.rows if row[2] == partition and row[3] < end]  # type: ignore[operator]
            oldest = min(rows, key=lambda row: row[0])  # type: ignore[arg-type, return-value]
            twin.rows.remove(oldest)
            twin.forced.add((str(oldest[1]), partition))
            ended.append(oldest[1])
        back = self.leases.hold_back(key(partition), Keeper.RETENTION, segments, most)
        assert back.free == len(segments) - len(stay)
        assert [each.lease.holder for each in back.ended] == ended
        assert self.leases.kept_bytes >= sum(stay)

    @invariant()
    def both_know_the_same(self) -> None:
        for holder in "pqr":
            found = {
                each.topic_partition.partition: (each.start, each.end)
                for each in self.leases.of(holder)
            }
            assert found == self.twin.of(holder)
        for partition in range(3):
            assert self.leases.floor(key(partition)) == self.twin.floor(partition)
        assert len(self.leases) == len(self.twin.rows)


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
