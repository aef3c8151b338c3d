"""The cost of the memory under a log's newest bytes: `python -m bench.memory [MiB] [seconds]`.

Processor milliseconds per MB of plain `pwrite`s of 256 KiB, several rounds in turn. A virtual
machine may hand memory that its processes have given up back to its host (free page reporting,
which `/sys/module/page_reporting` tells); the first touch afterwards waits for the host, and the
guest counts that as its own system time. Memory that stays in use, or is used again at once, is
spared that. A tiny size runs as a test.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

CHUNK: Final = 256 * 1024
ROUNDS: Final = 3


def write(path: Path, mib: int, *, allocate: bool = False) -> float:
    """Processor milliseconds per MB of writing a file over, or anew."""
    chunk = os.urandom(CHUNK)
    total = mib << 20
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        if allocate:
            os.posix_fallocate(handle, 0, total)
        began = time.process_time()
        for position in range(0, total, CHUNK):
            os.pwrite(handle, chunk, position)
        return (time.process_time() - began) * 1e3 / (total / 1e6)
    finally:
        os.close(handle)


def round_of(folder: Path, mib: int, wait_s: float) -> dict[str, float]:
    """Milliseconds per MB by where the memory comes from."""
    path = folder / "file"
    found = {"a new file": write(path, mib)}
    found["the same file, written over"] = write(path, mib)
    path.unlink()
    found["a new file, right after one was removed"] = write(path, mib)
    for allocate in (False, True):
        path.unlink()
        time.sleep(wait_s)  # noqa: TID251 - the host takes the memory back meanwhile
        name = f"a new file, {wait_s:.0f} s after one was removed"
        found[name + (", allocated first" if allocate else "")] = write(
            path, mib, allocate=allocate
        )
    path.unlink()
    return found


def main(mib: int = 384, wait_s: float = 12) -> None:
    """Print every round."""
    reporting = Path("/sys/module/page_reporting").exists()
    sys.stdout.write(f"free page reporting: {'maybe' if reporting else 'not in this kernel'}\n")
    with tempfile.TemporaryDirectory(prefix="pylog-bench-") as folder:
        rounds = [round_of(Path(folder), mib, wait_s) for _ in range(ROUNDS)]
    for name in rounds[0]:
        values = " ".join(f"{found[name]:6.2f}" for found in rounds)
        sys.stdout.write(f"{name:<58} {values} ms/MB\n")


if __name__ == "__main__":
    main(*(int(number) for number in sys.argv[1:]))
