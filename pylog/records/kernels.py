"""Loading the compiled kernels ahead of need.

A first use would stall for tenths of a second (from the cache) or for seconds (compiling), so a
broker warms them before it registers, a client may in the background.
"""

from __future__ import annotations

from importlib import import_module

from pylog.clock import SYSTEM_CLOCK

_FOR_LISTS = ("encode_kernels", "decode_kernels")
_FOR_COLUMNS = (
    "arrow_encode_kernels",
    "arrow_decode_kernels",
    "scan_kernels",
    "partitioner_kernels",
)


def warm(columns: bool = True) -> int:
    """Compile or load every kernel and run the common ones once; milliseconds taken.

    Without `columns` those for Arrow, and pyarrow itself, stay out: a broker never needs them.
    """
    begin = SYSTEM_CLOCK.monotonic_ms()
    for name in _FOR_LISTS + (_FOR_COLUMNS if columns else ()):
        import_module(f"pylog.records.{name}")
    _run_once()
    return SYSTEM_CLOCK.monotonic_ms() - begin


def _run_once() -> None:
    from pylog.records.builder import SMALL_BATCH_RECORDS, encode_batch
    from pylog.records.reader import iter_records
    from pylog.records.validate import check_batch, check_records

    values = [b"warm"] * (SMALL_BATCH_RECORDS + 1)
    batch = encode_batch(values, compression="lz4")
    header = check_batch(batch, max_message_bytes=len(batch))
    check_records(batch, header, max_decompressed_bytes=1 << 10)
    assert [record.value for record in iter_records(batch, "warm", 0)] == values
