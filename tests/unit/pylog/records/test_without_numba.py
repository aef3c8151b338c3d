"""A process without numba reads and writes the same records, in plain Python."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import InvalidTimestamp, MessageTooLarge, PylogError
from pylog.records import (
    arrow_partitions,
    arrow_writer,
    compiled_columns,
    plain_arrow_writer,
    plain_columns,
)
from pylog.records.arrow_encoder import ArrowEncoder, BatchSettings
from pylog.records.batch import with_log_append_time
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog.records.compression import CODEC_NAMES

data = st.one_of(st.none(), st.binary(max_size=20), st.integers(60, 70).map(bytes))
headers = st.lists(
    st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=3
)
times = st.one_of(st.integers(0, 2**41), st.integers(-(2**62), 2**62))
rows = st.lists(st.tuples(data, data, headers, times), min_size=1, max_size=12)
# Of several faults in one batch either way may name another one first.
sound_rows = st.lists(
    st.tuples(data, data, headers, st.integers(0, 2**41)), min_size=1, max_size=12
)
codecs = st.sampled_from(CODEC_NAMES)


def fetched(batches: list[Any], codec: str) -> bytes:
    parts, offset = [], 7
    for number, records in enumerate(batches):
        values, keys, pairs, stamps = map(list, zip(*records, strict=True))
        batch = encode_batch(
            values,
            keys=keys if number % 2 else None,
            headers=pairs,
            timestamps=stamps,
            compression=codec,
            base_offset=offset,
        )
        parts.append(with_log_append_time(batch, 77_000) if number % 3 == 2 else batch)
        offset += len(records)
        if number % 2:
            marker = encode_control_batch(
                ControlType.ABORT,
                producer_id=1,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=1,
                base_offset=offset,
            )
            parts.append(marker)
            offset += 1
    return b"".join(parts)


def decoded(engine: Any, buffer: bytes, **how: Any) -> tuple[Any, ...]:
    asked = {
        "from_offset": 0,
        "to_offset": 2**63 - 1,
        "include_headers": True,
        "check_crcs": True,
        "max_decompressed_bytes": 1 << 20,
    }
    columns, error, offset = engine.decode_readable(buffer, "t", 3, **(asked | how))
    columns.validate(full=True)
    place = columns.schema.get_field_index("timestamp")
    plain = columns.set_column(place, "timestamp", columns["timestamp"].cast("int64"))
    return columns.schema, plain.to_pylist(), type(error), str(error), offset


def both(buffer: bytes, **how: Any) -> tuple[Any, ...]:
    found = decoded(plain_columns, buffer, **how)
    assert found == decoded(compiled_columns, buffer, **how)
    return found


@given(st.lists(rows, max_size=4), codecs, st.integers(0, 30), st.integers(0, 30), st.booleans())
def test_columns_are_those_of_the_kernels(
    batches: list[Any], codec: str, start: int, stop: int, with_headers: bool
) -> None:
    buffer = fetched(batches, codec)
    both(buffer, include_headers=with_headers)
    both(buffer, from_offset=start, to_offset=stop)
    both(buffer[: len(buffer) - 5])


@given(st.lists(sound_rows, min_size=1, max_size=4), codecs, st.data(), st.booleans())
def test_so_are_errors(batches: list[Any], codec: str, draw: Any, check: bool) -> None:
    buffer = bytearray(fetched(batches, codec))
    place = draw.draw(st.integers(0, len(buffer) - 1))
    buffer[place] ^= draw.draw(st.integers(1, 255))
    both(bytes(buffer), check_crcs=check)


def test_what_arrow_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    late = encode_batch([b"x"], timestamps=[2**62])
    assert both(encode_batch([b"a"], timestamps=[5]) + late)[2] is InvalidTimestamp
    monkeypatch.setattr(plain_columns, "BYTES_MAX", 150)
    large = b"".join(encode_batch([bytes(100)], base_offset=at) for at in range(2))
    found = decoded(plain_columns, large)
    assert (len(found[1]), found[2], found[4]) == (1, MessageTooLarge, 1)


@given(rows, codecs, st.integers(100, 300), st.booleans(), st.booleans(), st.data())
def test_batches_are_those_of_the_kernels_to_the_byte(
    records: list[Any], codec: str, size: int, keyed: bool, headed: bool, draw: Any
) -> None:
    values, keys, pairs, stamps = map(list, zip(*records, strict=True))
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    lists = [[{"key": k, "value": v} for k, v in row] or None for row in pairs]
    encoder = ArrowEncoder(
        pa.array(values, draw.draw(st.sampled_from([pa.binary(), pa.large_binary()]))),
        key=pa.array(keys, pa.binary()) if keyed else None,
        headers=pa.array(lists, kind) if headed else None,
        timestamp=pa.array(stamps, pa.int64()),
    )
    chosen = draw.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=9))
    how = BatchSettings(
        batch_size=size, compression=codec, producer_id=5, producer_epoch=1, base_sequence=2**31 - 2
    )
    at = np.array(chosen, np.int64)
    columns = (
        encoder._value.take(at),
        encoder._key.take(at) if keyed else encoder._key,
        encoder._headers.take(at) if encoder._headers is not None else None,
        arrow_writer.frozen(encoder._timestamps[at]),
    )
    assert plain_arrow_writer.encode(*columns, how) == arrow_writer.encode(*columns, how)
    sizes = plain_arrow_writer.header_sizes(encoder._headers)
    assert sizes.tolist() == arrow_writer.header_sizes(encoder._headers).tolist()


@given(st.lists(data, max_size=20), st.integers(1, 100))
def test_keys_go_where_they_went(keys: list[bytes | None], partitions: int) -> None:
    column = pa.array(keys, pa.binary())
    plainly = np.empty(len(keys), np.int32)
    arrow_partitions._fill_plainly(arrow_partitions.byte_column(column, "key"), partitions, plainly)
    assert plainly.tolist() == arrow_partitions.partitions_for_keys(column, partitions).tolist()


WITHOUT = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None  # as where they are not installed
import pyarrow as pa
from pylog.client.producer.arrow import encode_rows
from pylog.records import compiled, kernels, native
from pylog.records.arrow_encoder import ArrowEncoder, BatchSettings, stamp_producer
from pylog.records.builder import encode_batch
from pylog.records.columnar import decode_to_arrow, encode_from_arrow
from pylog.records.compression import Compression
from pylog.records.reader import first_record_at_or_after, iter_records
assert not compiled.is_there() and not native.is_on()
assert kernels.warm_in_background() is None
values = [b"%d" % n for n in range(100_000)]
batch = encode_batch(values, compression="lz4", timestamps=list(range(100_000)))
assert [record.value for record in iter_records(batch, "t", 0)] == values
assert first_record_at_or_after(batch, 5_000) == (5_000, 5_000)
assert decode_to_arrow(batch, "t", 0)["value"].to_pylist() == values
table = pa.table({"key": values[:500], "value": values[:500]})
(again,) = encode_from_arrow(table["value"], key=table["key"], batch_size=1 << 20)
assert decode_to_arrow(again, "t", 0)["key"].to_pylist() == values[:500]
later = BatchSettings(batch_size=1 << 20, stamped_later=True)
(unstamped,) = ArrowEncoder(table["value"]).encode(None, later)
assert decode_to_arrow(stamp_producer(unstamped, 7, 0, 0), "t", 0).num_rows == 500
placed = list(encode_rows("t", table, partitions=4, partition=None, ignore_keys=False, stick=int,
    batch_size=1 << 20, compression=Compression.of("none"), now_ms=1, stamped_later=False))
assert sorted(number for number, _ in placed) == [0, 1, 2, 3]
print("whole")
"""


def test_a_process_without_numba_does_everything() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("whole\n", "")


def test_errors_name_where() -> None:
    buffer = bytearray(encode_batch([b"a"]) + encode_batch([b"b"], base_offset=1))
    buffer[-1] ^= 1
    _, error, offset = plain_columns.decode_readable(
        bytes(buffer), "t", 3, from_offset=0, to_offset=9, include_headers=False, check_crcs=True,
        max_decompressed_bytes=1 << 20,
    )  # fmt: skip
    assert isinstance(error, PylogError)
    assert (str(error)[:30], offset) == ("t-3, batch at offset 1: the ba", 1)
