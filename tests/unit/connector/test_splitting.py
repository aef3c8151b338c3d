from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog_connector.positions import EARLIEST, LATEST
from pylog_connector.ranges import Others, ReadRange
from pylog_connector.splitting import PACKED_MAX, packed, shares, split


def ranges(*sizes: int) -> list[ReadRange]:
    return [
        ReadRange("t", "id", p, 100, 100 + size, known=(100, 100 + size))
        for p, size in enumerate(sizes)
    ]


def sizes(pieces: list[ReadRange]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for piece in pieces:
        found.setdefault(piece.partition, []).append(piece.end - piece.start)
    return list(found.values())


@pytest.mark.parametrize(
    ("given_sizes", "least", "most", "wanted"),
    [
        ([5, 5], None, None, [[5], [5]]),
        ([5, 5], 2, None, [[5], [5]]),
        ([5, 5], 1, None, [[5], [5]]),  # fewer than there are
        ([8], 4, None, [[2, 2, 2, 2]]),
        ([10], 3, None, [[3, 3, 4]]),  # inexact multiples lose nothing
        ([1, 100], 4, None, [[1], [33, 33, 34]]),  # a small range stays whole
        ([1, 1, 1, 97], 6, None, [[1], [1], [1], [32, 32, 33]]),
        ([1, 1, 10000], 4, None, [[1], [1], [5000, 5000]]),
        ([4, 4, 4], 6, None, [[2, 2], [2, 2], [2, 2]]),
        ([2], 10, None, [[1, 1]]),  # never an empty piece
        ([10], None, 4, [[3, 3, 4]]),
        ([10, 3], None, 3, [[2, 3, 2, 3], [3]]),
        ([10], 4, 5, [[2, 3, 2, 3]]),  # by size first, then by count
        ([10], 2, 2, [[2, 2, 2, 2, 2]]),
        ([2**60], 2, None, [[2**59, 2**59]]),
    ],
)
def test_pieces(
    given_sizes: list[int], least: int | None, most: int | None, wanted: list[list[int]]
) -> None:
    pieces = split(ranges(*given_sizes), min_partitions=least, max_records=most)
    assert sizes(pieces) == wanted


def test_outer_pieces_keep_what_is_looked_up_late() -> None:
    others = Others(empty=(3,), first=4, step=1)
    whole = ReadRange(
        "t", "id", 0, EARLIEST, LATEST, known=(2, 8), from_earliest=True, end_time=99, others=others
    )
    first, middle, last = split([whole], min_partitions=3, max_records=None)
    assert (first.start, first.end, first.others, first.end_time) == (EARLIEST, 4, others, None)
    assert (middle.start, middle.end, middle.others, middle.end_time) == (4, 6, None, None)
    assert (last.start, last.end, last.others, last.end_time) == (6, LATEST, None, 99)
    assert all(piece.from_earliest for piece in (first, middle, last))


def test_small_ranges_share_a_task() -> None:
    whole = ranges(250, 250, 500, 1, 5000, 999, 1)
    assert [[r.partition for r in pack] for pack in packed(whole)] == [[0, 1, 2], [3], [4], [5, 6]]
    assert packed([]) == []
    assert PACKED_MAX == 1000


@given(
    st.lists(st.integers(1, 1000), max_size=8),
    st.one_of(st.none(), st.integers(1, 40)),
    st.one_of(st.none(), st.integers(1, 300)),
)
def test_pieces_are_disjoint_in_order_never_empty_and_cover_exactly(
    given_sizes: list[int], least: int | None, most: int | None
) -> None:
    whole = ranges(*given_sizes)
    pieces = split(whole, min_partitions=least, max_records=most)
    joined: list[tuple[int, int, int]] = []
    for piece in pieces:
        assert piece.start < piece.end
        assert piece.known == (piece.start, piece.end)
        if most is not None:
            assert piece.size <= most
        if joined and joined[-1][0] == piece.partition:
            partition, begin, end = joined[-1]
            assert end == piece.start
            joined[-1] = (partition, begin, piece.end)
        else:
            joined.append((piece.partition, piece.start, piece.end))
    assert joined == [(r.partition, r.start, r.end) for r in whole]


@given(st.lists(st.integers(1, 2**62), min_size=1, max_size=20), st.integers(1, 200))
def test_everyone_has_a_share(given_sizes: list[int], wanted: int) -> None:
    assert all(
        1 <= n <= size for n, size in zip(shares(given_sizes, wanted), given_sizes, strict=True)
    )
