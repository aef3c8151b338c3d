"""Records joined in plain Python, against those written one by one."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.records import joined, kernels_pure
from pylog.records.joined import encode_joined

same_size = st.integers(0, 200).flatmap(
    lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=150)
)
any_size = st.lists(
    st.one_of(st.binary(max_size=70), st.integers(8_180, 8_200).map(bytes)), min_size=1, max_size=90
)
steps = st.sampled_from([0, 0, 0, 1, 63, 64, 9_000, -5, 2**62])


@settings(max_examples=300)
@given(st.one_of(same_size, any_size), st.booleans(), st.booleans(), st.lists(steps), st.randoms())
def test_the_same_bytes(
    values: list[bytes], keyed: bool, same_time: bool, jumps: list[int], draw: random.Random
) -> None:
    keys = [draw.randbytes(draw.choice((0, 3, 70))) for _ in values] if keyed else None
    now, times = 1_700_000_000_000, []
    for index in range(len(values)):
        now += jumps[index] if index < len(jumps) and not same_time else 0
        times.append(now)
    expected = kernels_pure.encode_records(values, keys, None, times, times[0])
    assert encode_joined(values, keys, times, times[0]) == expected
    if same_time:
        assert encode_joined(values, keys, now, now) == expected


@pytest.mark.parametrize("count", [64, 65, 8_192, 8_193, 8_300, joined._KEPT_MAX + 1])
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("varied", [False, True])
def test_offset_deltas_of_every_size(count: int, keyed: bool, varied: bool) -> None:
    values = [b"v" * (index % 3 if varied else 2) for index in range(count)]
    keys = [b"k"] * count if keyed else None
    expected = kernels_pure.encode_records(values, keys, None, [5] * count, 5)
    assert encode_joined(values, keys, 5, 5) == expected
    assert len(joined._Kept.deltas.varints) <= joined._KEPT_MAX


def test_what_is_not_bytes_is_left_to_others() -> None:
    assert encode_joined([b"a", None], None, 5, 5) is None
    assert encode_joined([b"a", bytearray(b"b")], None, 5, 5) is None
    assert encode_joined([b"a", b"b"], [b"k", None], 5, 5) is None


def test_threads_that_grow_the_table_together(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(20):
        monkeypatch.setattr(joined._Kept, "deltas", joined._OffsetDeltas(0))
        with ThreadPoolExecutor(4) as pool:
            encoded = list(pool.map(lambda n: encode_joined([b"v"] * n, None, 5, 5), [9_000] * 4))
        assert len(set(encoded)) == 1
        assert encoded[0] == kernels_pure.encode_records([b"v"] * 9_000, None, None, [5] * 9_000, 5)
