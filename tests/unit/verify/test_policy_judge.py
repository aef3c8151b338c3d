"""The judge of changing policies: what it must see, and what it must not cry about."""

from __future__ import annotations

import pytest

from tests.verify.policy_judge import Found, Judge, Policy, Written

COMPACT = Policy(deletes=False, compacts=True)
KEEP = Policy()


def judged(*policies: Policy) -> Judge:
    """Keys a, b, a, b at 0, 100, 200, 300 ms; the policies held in turn from 1,000 ms on."""
    judge = Judge()
    for number, key in enumerate((b"a", b"b", b"a", b"b")):
        judge.written.append(Written(key, b"%d" % number, number * 100, number))
    for number, policy in enumerate(policies):
        judge.changing(policy)
        judge.changed(1_000 * (number + 1))
    return judge


def found(*offsets: int) -> list[Found]:
    return [Found(n, (b"a", b"b")[n % 2], b"%d" % n) for n in offsets]


def test_all_that_was_written_is_fine() -> None:
    judge = judged(KEEP)
    assert judge.on_read(found(0, 1, 2, 3), 0, 4, 2_000) == 0
    assert judge.broken == []


def test_compaction_may_take_what_has_a_successor() -> None:
    judge = judged(COMPACT)
    assert judge.on_read(found(2, 3), 0, 4, 2_000) == 2
    assert judge.broken == []


def test_without_compaction_nothing_may_go_from_the_middle() -> None:
    judge = judged(KEEP)
    judge.on_read(found(0, 2, 3), 0, 4, 2_000)
    assert len(judge.broken) == 1
    assert "nothing has compacted it" in judge.broken[0]


def test_what_compaction_was_over_for_must_stay() -> None:
    judge = judged(COMPACT, KEEP)
    judge.written.append(Written(b"a", b"4", 2_500, 4))  # offset 2 has a successor only since
    judge.on_read([*found(3), Found(4, b"a", b"4")], 0, 5, 3_000)
    assert len(judge.broken) == 1
    assert "offset=2" in judge.broken[0]


def test_the_last_value_must_stay() -> None:
    judge = judged(COMPACT)
    judge.on_read(found(2), 0, 4, 2_000)
    assert "the last value of its key" in judge.broken[0]


def test_the_lag_of_compaction_must_have_passed() -> None:
    judge = judged(COMPACT._replace(min_lag_ms=5_000))
    judge.on_read(found(1, 2, 3), 0, 4, 2_000)
    assert "min.compaction.lag.ms" in judge.broken[0]


def test_tombstones() -> None:
    judge = judged(COMPACT._replace(delete_retention_ms=10_000))
    judge._in_force.clear()
    judge.written.append(Written(b"a", None, 400, 4))
    judge.on_read(found(3), 0, 5, 2_000)
    assert "before delete.retention.ms" in judge.broken[0]
    judge.broken.clear()
    judge.on_read(found(3), 0, 5, 20_000)
    assert judge.broken == []
    judge.on_read(found(2, 3), 0, 5, 20_000)
    assert "its tombstone at 4 is gone" in judge.broken[0]
    judge.broken.clear()
    judge.on_read([*found(2, 3), Found(4, b"a", None)], 0, 5, 20_000)  # another leader has both
    assert judge.broken == []


def test_a_tombstone_may_have_gone_before_its_key_was_written_again() -> None:
    judge = judged(COMPACT, KEEP)  # COMPACT until 2,000 ms
    judge.written += [Written(b"a", None, 400, 4), Written(b"a", b"5", 2_500, 5)]
    rest = [*found(3), Found(5, b"a", b"5")]
    judge.on_read(rest, 0, 6, 3_000)
    assert judge.broken == []
    judge.written[4].at_ms = 2_400
    judge.on_read(rest, 0, 6, 3_000)
    assert "nothing has compacted it" in judge.broken[0]


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (Policy(retention_ms=500), True),
        (Policy(retention_ms=1_950), False),
        (Policy(retention_bytes=150), True),  # two records of at most 102 bytes are left
        (Policy(retention_bytes=250), False),
        (COMPACT._replace(retention_ms=500, retention_bytes=0), False),
    ],
)
def test_the_start_moves_by_age_or_size(policy: Policy, allowed: bool) -> None:
    judge = judged(policy)
    judge.on_start(2, 2_000)
    assert (judge.broken == []) == allowed


def test_a_start_that_a_policy_of_before_allowed_in_its_time() -> None:
    judge = judged(Policy(retention_ms=500), KEEP)  # until 2,000 ms
    judge.on_start(2, 9_000)
    assert judge.broken == []
    judge.written.append(Written(b"a", b"4", 1_800, 4))
    judge.on_start(5, 9_000)
    assert "the newest record before being 7200 ms old" in judge.broken[0]


def test_a_segment_is_as_old_as_what_compaction_left_of_it() -> None:
    def moved(*policies: Policy) -> list[str]:
        judge = judged(*policies)  # the last one is in force at 3,100 ms
        judge.written += [Written(b"a", b"4", 1_500, 4), Written(b"a", b"5", 2_900, 5)]
        judge.on_start(5, 3_100)
        return judge.broken

    old = Policy(retention_ms=2_000)
    assert moved(COMPACT, old) == []
    assert "the newest record before being 1600 ms old" in moved(KEEP, old)[0]


def test_the_start_of_a_leader_never_goes_back() -> None:
    judge = judged(Policy(retention_ms=0))
    judge.on_start(2, 2_000, leader=1)
    judge.on_start(1, 2_500, leader=2)
    judge.on_start(1, 2_500, leader=None)
    assert judge.broken == []
    judge.on_start(1, 2_500, leader=1)
    assert "1's log start went back from 2 to 1" in judge.broken[0]
