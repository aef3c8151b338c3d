from __future__ import annotations

import json
import random

import pytest

from pylog.records.builder import encode_batch
from pylog.records.columnar import decode_to_arrow
from pylog_connector.errors import InvalidOption
from pylog_connector.narrowing import KEYS_MAX, Narrowing, keys_of, partitions_of


def test_keys() -> None:
    assert keys_of('["a", {"base64":"AAE="}, null, "a", "\\u00e9"]') == (
        b"a",
        b"\0\1",
        None,
        "\u00e9".encode(),
    )


def test_too_many_keys_are_refused() -> None:
    assert len(keys_of(json.dumps([str(n) for n in range(KEYS_MAX)]))) == KEYS_MAX
    with pytest.raises(InvalidOption, match="names 10001 keys, and 10000 is the most"):
        keys_of(json.dumps([str(n) for n in range(KEYS_MAX + 1)]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('["a"', "not valid JSON"),
        ('{"a":1}', "give a JSON list"),
        ('["a",5]', r"keys\[1\]='5'"),
        ('["a",{"base64":"A"}]', r"keys\[1\]=.*base64"),
        ('[{"base64":5}]', r"keys\[0\]"),
        ('["\\ud800"]', r"keys\[0\]=.*surrogates"),
        ('[{"base64":"AA==","more":1}]', r"keys\[0\]"),
    ],
)
def test_wrong_keys(text: str, words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        keys_of(text)


def test_partitions() -> None:
    assert partitions_of("3") == {3}
    assert partitions_of(" 0, 3,8 - 11 ,9") == {0, 3, 8, 9, 10, 11}


@pytest.mark.parametrize("seed", range(10))
def test_the_wanted_rows_are_those_that_a_search_finds(seed: int) -> None:
    rng = random.Random(seed)
    keys = [rng.choice([None, b"", b"a", b"b", b"c"]) for _ in range(200)]
    times = [rng.choice([0, 1, 1_000, 1_700_000_000_000, 1_700_000_000_001]) for _ in keys]
    data = encode_batch([b"%d" % n for n in range(200)], keys=keys, timestamps=times)
    batch = decode_to_arrow(data, "t", 0)
    for wanted in (None, (b"a",), (None, b"b"), (b"",), (b"none",)):
        for first in (None, 0, 1, 1_700_000_000_001, 2**63 - 1):
            for last in (None, 0, 1_000, 2**63 - 1):
                narrowing = Narrowing(wanted, first, last)
                found = narrowing.of(batch).column("offset").to_pylist()
                assert found == [
                    n
                    for n in range(200)
                    if (wanted is None or keys[n] in wanted)
                    and (first is None or times[n] >= first)
                    and (last is None or times[n] <= last)
                ]


def test_nothing_is_narrowed_without_a_condition() -> None:
    assert not Narrowing()
    assert Narrowing(first_ms=0)
    assert Narrowing().may_hold(-1)
    assert Narrowing(first_ms=5).may_hold(5)
    assert not Narrowing(first_ms=5).may_hold(4)
