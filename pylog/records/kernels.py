"""Loading the compiled kernels ahead of need.

A first use would stall for tenths of a second (from the cache) or for seconds (compiling), so a
broker warms them before it registers, a producer in the background (`compiled` tells when).
"""

from __future__ import annotations

import threading
from importlib import import_module

from pylog.clock import SYSTEM_CLOCK
from pylog.records import compiled, native

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
    for name in compiled.FOR_LISTS + (_FOR_COLUMNS if columns else ()):
        import_module(f"pylog.records.{name}")
    if native.is_on():
        _run_once()
    compiled.load()
    return SYSTEM_CLOCK.monotonic_ms() - begin


def warm_in_background() -> threading.Thread | None:
    """The thread that loads the kernels for lists, begun unless it was before; None when they are
    there.
    """
    with _Background.lock:
        if _Background.thread is None and compiled.begin():
            # Not a daemon: an interpreter that ends beside a thread inside of LLVM may crash.
            thread = threading.Thread(target=warm, args=(False,), name="pylog-kernels")
            _Background.thread = thread
            thread.start()
    return _Background.thread


class _Background:
    lock = threading.Lock()
    thread: threading.Thread | None = None


def _run_once() -> None:
    """A batch there and back, past `compiled.is_small`: until then others do without."""
    from pylog.records.batch import header_before
    from pylog.records.compression import Compression, compress
    from pylog.records.native.list_encoder import encode_lists
    from pylog.records.native.runs import read_runs
    from pylog.records.validate import check_batch, check_records

    values = [b"warm"] * (compiled.SMALL_BATCH_RECORDS + 1)
    encoded, base, largest = encode_lists(0, values, None, None, 0)
    compression = Compression.of("lz4")
    records = compress(compression, encoded)
    fields = (len(values), base, largest, 0, -1, -1, -1, -1)
    batch = header_before(records, compression.codec, *fields) + records
    header = check_batch(batch, max_message_bytes=len(batch))
    check_records(batch, header, max_decompressed_bytes=1 << 10)
    chunks = read_runs(
        batch, "warm", 0, from_offset=0, check_crcs=True, max_decompressed_bytes=1 << 10
    )
    assert [record.value for chunk in chunks for record in chunk.records()] == values
