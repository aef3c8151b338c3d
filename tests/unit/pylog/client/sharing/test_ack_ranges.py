"""Acknowledgements as ranges: what goes in comes out, and neighbours are one."""

from __future__ import annotations

import random
from itertools import pairwise

from pylog.client.sharing.ack_ranges import merged, offsets_of, ranges_of, ranges_of_one
from pylog.client.sharing.messages import GAP, AckRange


def test_neighbours_are_one_range() -> None:
    assert ranges_of([(5, 1), (3, 1), (4, 1), (9, 2)]) == (
        AckRange(3, 5, b"\x01"),
        AckRange(9, 9, b"\x02"),
    )


def test_neighbours_of_different_types_tell_each() -> None:
    assert ranges_of([(3, 1), (4, 3), (5, 1)]) == (AckRange(3, 5, b"\x01\x03\x01"),)


def test_all_of_one_type() -> None:
    assert ranges_of_one([], 1) == ()
    assert ranges_of_one([7, 8, 9], 1) == (AckRange(7, 9, b"\x01"),)
    assert ranges_of_one([7, 9], 2) == (AckRange(7, 7, b"\x02"), AckRange(9, 9, b"\x02"))


def test_offsets_without_a_record_are_left_out() -> None:
    assert list(offsets_of([AckRange(3, 5, bytes((1, GAP, 2)))])) == [(3, 1), (5, 2)]


def test_whatever_is_cut_up_is_the_same_when_it_is_put_together() -> None:
    rng = random.Random(7)
    for _ in range(200):
        acks = {offset: rng.randint(1, 3) for offset in rng.sample(range(40), rng.randint(1, 30))}
        some = dict(rng.sample(sorted(acks.items()), rng.randint(0, len(acks))))
        rest = {offset: kind for offset, kind in acks.items() if offset not in some}
        together = merged([*ranges_of(some.items()), *ranges_of(rest.items())])
        assert dict(offsets_of(together)) == acks
        bounds = [(each.first_offset, each.last_offset) for each in together]
        assert all(a[1] + 1 < b[0] for a, b in pairwise(bounds))
