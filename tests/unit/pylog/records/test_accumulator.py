from __future__ import annotations

import random

import pytest

from pylog.records.accumulator import BatchBuilder, record_size_bound
from pylog.records.batch import HEADER_SIZE, read_header
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records


@pytest.mark.parametrize("seed", range(20))
def test_the_size_is_an_upper_bound(seed: int) -> None:
    rng = random.Random(seed)
    builder = BatchBuilder(1 << 20)
    size = rng.choice((0, 60, 130, 8000, 20_000))
    for _ in range(rng.choice((1, 20, 300))):
        index = builder.try_append(
            rng.choice((None, rng.randbytes(rng.randint(0, size)))),
            rng.choice((None, rng.randbytes(rng.randint(0, 80)))),
            rng.choice((None, [("h", b"x" * rng.randint(0, 70))])),
            rng.choice((0, 10**12, 10**12 + 5, 2**63 - 1)),
        )
        if index < 0:
            break
        assert len(builder) == index + 1
        assert len(builder.seal()) <= builder.size
    assert builder.size <= 1 << 20


def test_the_bound_is_tight_for_small_records() -> None:
    builder = BatchBuilder(16_384)
    while builder.try_append(b"x" * 100, None, None, 10**12 + len(builder)) >= 0:
        pass
    batch = builder.seal()
    assert 0.95 * 16_384 < len(batch) <= 16_384
    assert record_size_bound(100) - 100 <= 17


def test_what_was_appended_comes_back() -> None:
    builder = BatchBuilder(1000, "lz4")
    rows = [
        (b"a", None, None, 5),
        (None, b"k", None, 4),
        (b"", b"", [("h", None)], 9),
        (b"z", None, [], 9),
    ]
    for index, (value, key, headers, timestamp) in enumerate(rows):
        assert builder.try_append(value, key, headers, timestamp) == index
    batch = builder.seal(producer_id=1, producer_epoch=2, base_sequence=3, transactional=True)
    got = [(r.value, r.key, r.headers or None, r.timestamp_ms) for r in iter_records(batch, "t", 0)]
    assert got == [(v, k, h or None, t) for v, k, h, t in rows]
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1, 2, 3)
    assert header.is_transactional
    again = builder.seal(producer_id=1, producer_epoch=2, base_sequence=3, transactional=True)
    assert again == batch


def test_full() -> None:
    builder = BatchBuilder(200)
    assert builder.size == HEADER_SIZE
    assert builder.try_append(b"x" * 500, None, None, 0) == 0  # an empty batch takes any record
    assert builder.is_full
    assert builder.try_append(b"", None, None, 0) == -1
    assert len(builder) == 1
    assert builder.seal() == encode_batch([b"x" * 500], timestamps=[0])


def test_a_malformed_header_leaves_the_batch_as_it_was() -> None:
    builder = BatchBuilder(200)
    builder.try_append(b"a", None, None, 1)
    before = builder.size
    with pytest.raises(TypeError, match="header key"):
        builder.try_append(b"b", b"k", [(None, b"")], 1)  # type: ignore[list-item]
    assert (len(builder), builder.size) == (1, before)
    assert builder.seal() == encode_batch([b"a"], timestamps=[1])
