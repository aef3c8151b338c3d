"""The rule of consistent cuts, by examples and against a twin that tries all ends."""

from __future__ import annotations

import random
from itertools import product

import pytest

from pylog.model import TopicPartition, TransactionName, TransactionSpan
from pylog_connector.consistent_cuts import Ends, Spans, added, joined, lowered, raised

PLACES = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
P, Q, R = PLACES
ZERO = dict.fromkeys(PLACES, 0)


def spans(
    **parts: dict[TopicPartition, tuple[int, int]],
) -> dict[TopicPartition, dict[TransactionName, TransactionSpan]]:
    """Transactions by a letter, each with (first, marker) by partition."""
    found: dict[TopicPartition, dict[TransactionName, TransactionSpan]] = {at: {} for at in PLACES}
    for letter, of in parts.items():
        name = TransactionName(ord(letter), 0)
        for at, (first, marker) in of.items():
            found[at][name] = TransactionSpan(name, first, marker)
    return found


def ends(*offsets: int) -> dict[TopicPartition, int]:
    return dict(zip(PLACES, offsets, strict=True))


@pytest.mark.parametrize(
    ("known", "proposed", "cut"),
    [
        ({}, (5, 6, 7), (5, 6, 7)),
        ({"t": {P: (1, 3), Q: (2, 4)}}, (4, 5, 9), (4, 5, 9)),
        ({"t": {P: (1, 3), Q: (2, 5)}}, (4, 5, 9), (1, 2, 9)),  # its marker lies behind in one
        ({"t": {P: (1, 3), Q: (2, -1)}}, (4, 2, 9), (1, 2, 9)),  # its marker is not written yet
        ({"t": {P: (1, 3), Q: (7, 9)}}, (4, 5, 9), (1, 5, 9)),  # all of it lies behind in one
        ({"t": {P: (1, 8)}}, (4, 5, 9), (1, 5, 9)),  # one partition, and the end inside
        # u lies around t in P, and w around u in R: all of them go
        (
            {"t": {P: (4, 6), Q: (5, -1)}, "u": {P: (2, 5), R: (3, 8)}, "w": {R: (1, 4)}},
            (7, 5, 9),
            (2, 5, 1),
        ),
        (
            {
                "t": {P: (4, 6), Q: (5, -1)},
                "u": {P: (2, 5), R: (3, 8)},
                "w": {R: (1, 3), Q: (0, 1)},
            },
            (7, 5, 9),
            (2, 0, 1),
        ),
    ],
)
def test_ends_are_lowered_to_a_cut(
    known: dict[str, dict[TopicPartition, tuple[int, int]]],
    proposed: tuple[int, int, int],
    cut: tuple[int, int, int],
) -> None:
    assert lowered(ZERO, ends(*proposed), spans(**known)).ends == ends(*cut)


def test_a_start_inside_a_transaction_is_where_it_begins() -> None:
    known = spans(t={P: (1, 8), Q: (2, 4)})
    assert lowered(ends(3, 0, 0), ends(9, 9, 9), known).ends == ends(9, 9, 9)
    assert lowered(ends(3, 0, 0), ends(8, 9, 9), known).ends == ends(3, 2, 9)


def test_the_smallest_cut_beyond_a_start_has_all_that_is_around_it() -> None:
    known = spans(t={P: (0, 6), Q: (3, 5)}, u={Q: (1, 4), R: (0, 2)}, w={R: (5, 7)})
    assert raised(ZERO, ends(9, 9, 9), known, P) == ends(7, 6, 3)
    assert raised(ZERO, ends(9, 9, 9), known, R) == ends(7, 6, 3)
    assert raised(ZERO, ends(9, 5, 9), known, P) is None  # t is not whole below that
    assert raised(ZERO, ends(0, 9, 9), known, P) is None
    assert raised(ZERO, ends(9, 9, 9), spans(), P) == ends(1, 0, 0)


def test_what_is_known_of_a_transaction_grows_backwards() -> None:
    name, other = TransactionName(1, 0), TransactionName(2, 0)
    known = {name: TransactionSpan(name, 8, 9)}
    found = [TransactionSpan(name, 3, 4), TransactionSpan(other, 1, 2)]
    assert added(known, found) == {
        name: TransactionSpan(name, 3, 9),
        other: TransactionSpan(other, 1, 2),
    }


# ---- the twin ------------------------------------------------------------------------------------


def is_cut(starts: Ends, cut: Ends, known: Spans) -> bool:
    for name in {name for of in known.values() for name in of}:
        parts = [(at, of[name]) for at, of in known.items() if name in of]
        whole = all(0 <= span.marker < cut[at] for at, span in parts)
        absent = all(cut[at] <= max(span.first, starts[at]) for at, span in parts)
        if not whole and not absent:
            return False
    return True


def test_cuts_are_those_of_a_search_through_all_ends() -> None:
    for seed in range(400):
        rng = random.Random(seed)
        size = 7
        starts = {at: rng.randrange(3) for at in PLACES}
        proposed = {at: rng.randint(starts[at], size) for at in PLACES}
        known: dict[TopicPartition, dict[TransactionName, TransactionSpan]] = {
            at: {} for at in PLACES
        }
        for producer in range(rng.randrange(6)):
            name = TransactionName(producer, 0)
            for at in rng.sample(PLACES, rng.randint(1, 3)):
                first = rng.randrange(size)
                marker = rng.choice([-1, rng.randint(first, size)])
                if marker < 0 or marker >= starts[at]:
                    known[at][name] = TransactionSpan(name, first, marker)
        choices = (range(starts[at], proposed[at] + 1) for at in PLACES)
        cuts = [
            cut
            for offsets in product(*choices)
            if is_cut(starts, cut := dict(zip(PLACES, offsets, strict=True)), known)
        ]
        highest = {at: max(cut[at] for cut in cuts) for at in PLACES}
        assert highest in cuts, seed
        found = lowered(starts, proposed, known)
        assert found.ends == highest, seed
        assert joined(rng.choice(cuts), rng.choice(cuts)) in cuts, seed
        for at in PLACES:
            beyond = [cut for cut in cuts if cut[at] > starts[at]]
            lowest = {each: min(cut[each] for cut in beyond) for each in PLACES} if beyond else None
            assert raised(starts, highest, known, at) == lowest, seed
