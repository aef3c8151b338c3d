"""Batches in plain Python, while the compiled kernels are not there, against the kernels."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.errors import PylogError
from pylog.records import compiled, native
from pylog.records.batch import HEADER_SIZE, MAGIC_OFFSET, with_log_append_time
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog.records.compression import CODEC_NAMES
from pylog.records.reader import first_record_at_or_after, iter_chunks

data = st.one_of(st.none(), st.binary(max_size=20), st.integers(60, 70).map(bytes))
headers = st.lists(
    st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=3
)
times = st.one_of(st.integers(0, 2**41), st.integers(-(2**62), 2**62))
rows = st.lists(st.tuples(data, data, headers, times), min_size=1, max_size=12)
control = st.just("control")

needs_native = pytest.mark.skipif(not native.is_on(), reason="about what is off")


@contextmanager
def state(*, done: bool, begun: bool = False) -> Iterator[None]:
    progress = compiled._Progress
    before = progress.done, progress.begun
    progress.done, progress.begun = done, begun
    try:
        yield
    finally:
        progress.done, progress.begun = before


def made(batches: list[Any], codec: str) -> list[bytes]:
    parts, offset = [], 7
    for number, records in enumerate(batches):
        if records == "control":
            marker = encode_control_batch(
                ControlType.COMMIT,
                producer_id=1,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=1,
                base_offset=offset,
            )
            parts.append(marker)
            offset += 1
            continue
        values, keys, pairs, stamps = map(list, zip(*records, strict=True))
        batch = encode_batch(
            values,
            keys=keys if number % 2 else None,
            headers=pairs if number % 3 else None,
            timestamps=stamps,
            compression=codec,
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            base_offset=offset,
            leader_epoch=number % 2 - 1,
            transactional=bool(number % 4),
        )
        parts.append(with_log_append_time(batch, 77_000) if number % 5 == 4 else batch)
        offset += len(records)
    return parts


def read(buffer: bytes, **how: Any) -> tuple[list[tuple[Any, ...]], object]:
    """Every record with all its parts, and the error behind them."""
    found: list[tuple[Any, ...]] = []
    try:
        for chunk in iter_chunks(buffer, "t", 3, max_decompressed_bytes=1 << 20, **how):
            found += [record._parts() for record in chunk.records()]
    except PylogError as error:
        return found, (type(error), str(error), getattr(error, "record_index", None))
    return found, None


def both(buffer: bytes, **how: Any) -> None:
    with state(done=False, begun=True):
        plain = read(buffer, **how)
    with state(done=True):
        assert read(buffer, **how) == plain


@settings(max_examples=60)
@given(st.lists(st.one_of(rows, rows, control), max_size=6), st.sampled_from(CODEC_NAMES))
def test_the_same_bytes_and_the_same_records(batches: list[Any], codec: str) -> None:
    with state(done=False):
        plain = b"".join(made(batches, codec))
    with state(done=True):
        assert b"".join(made(batches, codec)) == plain
    for from_offset in (0, 9, 15):
        for include_control in (False, True):
            both(plain, from_offset=from_offset, include_control=include_control)


@settings(max_examples=120)
@given(
    st.lists(rows, min_size=1, max_size=3),
    st.sampled_from(("none", "none", "none", "gzip", "lz4")),
    st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), min_size=1, max_size=3),
    st.booleans(),
)
def test_the_same_faults_of_damaged_bytes(
    batches: list[Any], codec: str, damage: list[tuple[int, int]], check_crcs: bool
) -> None:
    parts = [bytearray(batch) for batch in made(batches, codec)]
    for position, byte in damage:  # behind the fields that brokers set
        batch = parts[position % len(parts)]
        batch[MAGIC_OFFSET + position % (len(batch) - MAGIC_OFFSET)] = byte
    both(b"".join(parts), check_crcs=check_crcs)


@settings(max_examples=120)
@given(rows, st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), min_size=1, max_size=3))
def test_the_same_faults_of_damaged_records(
    records: list[Any], damage: list[tuple[int, int]]
) -> None:
    (batch,) = made([records], "none")
    damaged = bytearray(batch)
    for position, byte in damage:
        damaged[HEADER_SIZE + position % (len(damaged) - HEADER_SIZE)] = byte
    both(bytes(damaged), check_crcs=False)


@settings(max_examples=50)
@given(rows, st.sampled_from(CODEC_NAMES), times)
def test_the_same_record_is_found_by_time(records: list[Any], codec: str, time_ms: int) -> None:
    (batch,) = made([records], codec)
    for from_offset in (0, 9):
        with state(done=False):
            plain = first_record_at_or_after(batch, time_ms, from_offset=from_offset)
        with state(done=True):
            found = first_record_at_or_after(batch, time_ms, from_offset=from_offset)
        assert found == plain


@pytest.mark.parametrize("count", [1, 4, 300])
def test_times_of_numpy_are_taken_before_the_kernels_are_there(count: int) -> None:
    stamps = [1_000 + number * 7919 % 500 for number in range(count)]
    with state(done=False):
        plain = encode_batch([b"v"] * count, timestamps=stamps)
        assert encode_batch([b"v"] * count, timestamps=np.array(stamps)) == plain


@needs_native
def test_what_is_small() -> None:
    small, cold = compiled.SMALL_BATCH_RECORDS, compiled.COLD_BATCH_RECORDS
    with state(done=True):
        assert [compiled.is_small(n) for n in (small, small + 1)] == [True, False]
        assert not compiled.is_small_read(1)
        assert not compiled.begin()
        assert compiled.is_loaded()
    with state(done=False):
        assert not compiled.is_loaded()
        assert [compiled.is_small(n) for n in (cold, cold + 1)] == [True, False]
        assert compiled.is_small_read(compiled.COLD_READ_BYTES - 1)
        assert not compiled.is_small_read(compiled.COLD_READ_BYTES)
        assert compiled.begin()
        assert not compiled.begin()
        assert compiled.is_small(cold + 1)  # they are on their way


def modules_after(code: str) -> set[str]:
    lines = f"import sys\n{code}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_some_hundred_records_load_nothing(codec: str) -> None:
    code = (
        "from pylog.records.builder import encode_batch\n"
        "from pylog.records.reader import iter_records\n"
        f"batch = encode_batch([b'v'] * {compiled.COLD_BATCH_RECORDS}, compression={codec!r})\n"
        "assert len(list(iter_records(batch * 3, 't', 0))) == 3 * {}\n"
    ).format(compiled.COLD_BATCH_RECORDS)
    assert modules_after(code).isdisjoint({"numba", "numpy"})


def test_many_records_to_write_load_nothing_and_many_to_read_do() -> None:
    code = (
        "from pylog.records.builder import encode_batch\n"
        "from pylog.records.reader import iter_records\n"
        "batch = encode_batch([b'v'] * 100_000, timestamps=[5] * 50_000 + [6] * 50_000)\n"
    )
    assert modules_after(code).isdisjoint({"numba", "numpy"})
    assert "numba" in modules_after(f"{code}next(iter_records(batch, 't', 0))")


@needs_native
def test_background_loading_ends_with_kernels_in_use() -> None:
    code = (
        "from pylog.records import compiled, kernels\n"
        "thread = kernels.warm_in_background()\n"
        "assert kernels.warm_in_background() is thread\n"
        "thread.join()\n"
        "assert not compiled.is_small(4)\n"
    )
    assert "numba" in modules_after(code)
