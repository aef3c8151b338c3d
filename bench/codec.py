"""Nanoseconds per record of the record codec: encode, decode, validate, from and to Arrow; each
compression codec; what a broker's check of a compressed batch costs on the loop and by a thread.

    .venv/bin/python -m bench.codec [records]

Best of five, one thread, 100-byte values. A tiny size runs as a test.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import timeit
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Final

import pyarrow as pa

from pylog.records import kernels
from pylog.records.arrow_partitions import partitions_for_keys
from pylog.records.batch import read_header
from pylog.records.builder import encode_batch
from pylog.records.columnar import decode_to_arrow, encode_from_arrow
from pylog.records.compression import CODEC_NAMES
from pylog.records.reader import iter_chunks, iter_records
from pylog.records.validate import check_batch, check_records

VALUE: Final = b"x" * 100
BATCH_BYTES: Final = (16 * 1024, 256 * 1024, 1024 * 1024)
SMALL_BATCHES: Final = (1, 10, 100)
RECORD_BYTES: Final = 110
LIMIT: Final = 1 << 30


def rows(size: int) -> Iterator[tuple[str, int, Callable[[], object]]]:
    """(what, how many records one call handles, the call)."""
    for count in SMALL_BATCHES:
        values, times = [VALUE] * count, array("q", range(count))
        yield (
            f"encode lists, batch of {count}",
            count,
            lambda v=values, t=times: encode_batch(v, timestamps=t),  # type: ignore[misc]
        )
    for batch_bytes in BATCH_BYTES:
        yield from _large(size, batch_bytes)
    keys = pa.array([b"key %d" % i for i in range(size)])
    yield "partitions of keys", size, lambda: partitions_for_keys(keys, 12)


def _large(size: int, batch_bytes: int) -> Iterator[tuple[str, int, Callable[[], object]]]:
    count = max(min(size, batch_bytes // RECORD_BYTES), 1)
    values, times = [VALUE] * count, array("q", range(count))
    one = encode_batch(values, timestamps=times)
    many = b"".join(
        encode_batch(values, timestamps=times, base_offset=base)
        for base in range(0, max(size, count), count)
    )
    total = len(many) // len(one) * count
    column = pa.array([VALUE] * size)
    name = f"{batch_bytes >> 10} KiB batches"
    yield f"encode lists, {name}", count, lambda: encode_batch(values, timestamps=times)
    yield (
        f"encode from Arrow, {name}",
        size,
        lambda: encode_from_arrow(column, batch_size=batch_bytes, default_timestamp_ms=5),
    )
    yield f"decode to Arrow, {name}", total, lambda: decode_to_arrow(many, "topic", 0)
    yield (
        f"decode to lists of values, {name}",
        total,
        lambda: sum(len(chunk.values) for chunk in iter_chunks(many, "topic", 0)),
    )
    yield (
        f"for record: record.value, {name}",
        total,
        lambda: _read_values(many),
    )
    yield (
        f"check CRC and every record, {name}",
        count,
        lambda: check_records(
            one, check_batch(one, max_message_bytes=LIMIT), max_decompressed_bytes=LIMIT
        ),
    )


def compressed_rows(size: int) -> Iterator[tuple[str, int, Callable[[], object]]]:
    """The codecs on batches of JSON: as a producer writes them, as a reader and a broker open
    them."""
    rng = random.Random(1)
    documents = [
        json.dumps({"id": rng.randrange(10**6), "name": "abc"[rng.randrange(3)], "v": rng.random()})
        for _ in range(size)
    ]
    for batch_bytes in BATCH_BYTES[:2]:
        count = max(min(size, batch_bytes // len(documents[0])), 1)
        values = [document.encode() for document in documents[:count]]
        for codec in CODEC_NAMES:
            packed = encode_batch(values, timestamps=5, compression=codec)
            name = f"{codec}, {batch_bytes >> 10} KiB batches ({len(packed)} bytes)"
            yield (
                f"encode, {name}",
                count,
                lambda v=values, c=codec: encode_batch(v, timestamps=5, compression=c),  # type: ignore[misc]
            )
            yield f"decode, {name}", count, lambda p=packed: decode_to_arrow(p, "topic", 0)  # type: ignore[misc]


def check_costs(size: int) -> None:
    """Print microseconds of `check_records` for whole batches, on the loop and by a thread."""
    with ThreadPoolExecutor(1) as pool:
        for count in (1, 60, 240, 1000):
            values = [
                b'{"id": %d, "name": "alpha", "v": 0.%d}' % (i * 7919, i) for i in range(count)
            ]
            for codec in CODEC_NAMES[1:]:
                batch = encode_batch(values, timestamps=5, compression=codec)
                calls = max(1, size // count // 20)
                inline = min(timeit.repeat(lambda b=batch: _check(b), number=calls, repeat=3))  # type: ignore[misc]
                hop = min(asyncio.run(_seconds_by_thread(pool, batch, calls)) for _ in repeat(0, 3))
                print(
                    f"check {codec}, {len(batch)} bytes, {count} records"
                    f"{inline / calls * 1e6:10.1f} us on the loop {hop / calls * 1e6:8.1f} us by a "
                    "thread"
                )


def _check(batch: bytes) -> None:
    check_records(batch, read_header(batch), max_decompressed_bytes=LIMIT)


async def _seconds_by_thread(pool: ThreadPoolExecutor, batch: bytes, calls: int) -> float:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for _ in range(calls):
        await loop.run_in_executor(pool, _check, batch)
    return loop.time() - begin


def _read_values(data: bytes) -> None:
    for record in iter_records(data, "topic", 0):
        record.value  # noqa: B018


def main(size: int = 100_000) -> None:
    """Print a line for each row."""
    kernels.warm()
    for name, count, call in (*rows(size), *compressed_rows(size)):
        repeats = max(1, size // count // 4)
        best = min(timeit.repeat(call, number=repeats, repeat=5)) / repeats / count
        print(f"{name:50} {best * 1e9:8.1f} ns/record {1e-6 / best:8.2f} M/s")
    check_costs(size)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
