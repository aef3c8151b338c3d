"""Limits that the machine sets for this process, and whether a broker can live within them.

A broker that has too few would not fail at its start but in the middle of its work, when a segment
cannot be opened or the kernel ends it. So it does not start, and says what it needs.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Final

from pylog.errors import InvalidConfig
from pylog_broker.config import BrokerConfig

FILES_MIN: Final = 512
"""Connections of clients and brokers, and the three files that each partition keeps open."""
PROCESS_BYTES: Final = 128 * 1024 * 1024
"""The memory that a broker needs beside its caches."""

_UNLIMITED: Final = 2**60  # what cgroup v1 says without a limit is about 2^63
_CGROUPS: Final = Path("/sys/fs/cgroup")


def check_limits(config: BrokerConfig, *, files_max: int, memory_max: int) -> None:
    """InvalidConfig, with the number that is needed, when a limit is too low."""
    if files_max < FILES_MIN:
        raise InvalidConfig(
            f"this process may have {files_max} files open; a broker needs {FILES_MIN} at least, "
            "and three more for each partition: raise `ulimit -n`"
        )
    keys = config.log_cleaner_dedupe_buffer_size if config.log_cleaner_enable else 0
    needed = PROCESS_BYTES + config.log_tail_cache_max_bytes + keys
    if memory_max < needed:
        raise InvalidConfig(
            f"this process may have {memory_max} bytes of memory; with log.tail.cache.max.bytes="
            f"{config.log_tail_cache_max_bytes} and log.cleaner.dedupe.buffer.size="
            f"{config.log_cleaner_dedupe_buffer_size} a broker needs {needed}: lower them, or "
            "raise the limit"
        )


def open_segments_max(files_max: int) -> int:
    """The number of full segments that may stay open for readers: a quarter of the files that the
    process may open. Connections leave logs the half; so as much again is there for the three files
    that each partition has open, and for what rolls, checkpoints and passes of the cleaner open in
    between.
    """
    return files_max // 4


def memory_max(cgroups: Path = _CGROUPS, own_cgroup: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes that this process may have, by its limits and those of its control groups."""
    found = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    limits = [limit for limit in found if limit != resource.RLIM_INFINITY]
    for path in _cgroup_files(cgroups, own_cgroup):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < _UNLIMITED:
            limits.append(int(text))
    return min(limits, default=sys.maxsize)


def _cgroup_files(cgroups: Path, own_cgroup: Path) -> list[Path]:
    """The files that may hold a memory limit: at the own group and all above it, both versions."""
    found = []
    try:
        lines = own_cgroup.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        root = cgroups / "memory" if controllers else cgroups
        file = "memory.limit_in_bytes" if controllers else "memory.max"
        group = root / name.strip("/")
        found += [group / file, *(above / file for above in group.parents if root in above.parents)]
        found.append(root / file)
    return found
