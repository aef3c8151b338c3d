from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from pylog.records.arrow_partitions import partitions_for_keys, rows_by_partition
from pylog.records.murmur2 import NO_KEY, murmur2, partition_for_key

# Computed by Apache Kafka's Utils.murmur2.
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), VECTORS.items())
def test_java_vectors(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected
    assert partition_for_key(key, 1000) == (expected & 0x7FFFFFFF) % 1000
    assert partitions_for_keys(pa.array([key]), 2**31 - 1).tolist() == [
        (expected & 0x7FFFFFFF) % (2**31 - 1)
    ]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_equals_the_twin(kind: pa.DataType) -> None:
    rng = random.Random(1)
    keys = [rng.choice((None, rng.randbytes(rng.randint(0, 20)))) for _ in range(500)]
    column = pa.array(keys, kind)
    for partitions in (1, 7, 1000):
        expected = [NO_KEY if k is None else partition_for_key(k, partitions) for k in keys]
        assert partitions_for_keys(column, partitions).tolist() == expected
        assert partitions_for_keys(column.slice(13), partitions).tolist() == expected[13:]


def test_strings_and_no_rows() -> None:
    assert partitions_for_keys(pa.array(["21", "foobar"]), 9).tolist() == [
        partition_for_key(b"21", 9),
        partition_for_key(b"foobar", 9),
    ]
    assert partitions_for_keys(pa.array([], pa.string()), 9).tolist() == []
    with pytest.raises(ValueError, match="0 partitions"):
        partitions_for_keys(pa.array(["x"]), 0)


def test_rows_by_partition() -> None:
    groups = rows_by_partition(np.array([3, -1, 3, 0, 0, 3], np.int32))
    assert {p: rows.tolist() for p, rows in groups.items()} == {-1: [1], 0: [3, 4], 3: [0, 2, 5]}
    assert list(groups) == [-1, 0, 3]
    assert rows_by_partition(np.array([], np.int32)) == {}
