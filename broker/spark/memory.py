"""Whether an executor's heap leaves the machine its page cache, in which the brokers' data lives.

Kafka's own advice: a heap of a quarter to a half of the memory. A broker's process is not the JVM
beside it, so what that is given is taken from the cache. Pure, but for `machine_bytes`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

_SIZE: Final = re.compile(r"\s*(\d+)\s*([kmgt]?)b?\s*", re.IGNORECASE)
_UNITS: Final = {"k": 1 << 10, "": 1 << 20, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
"""Spark takes a number without unit as mebibytes."""


def executor_memory(conf: Mapping[str, str]) -> str:
    """The heap that each executor is given; empty where executors are no processes of their own."""
    master = conf.get("spark.master", "")
    if master.startswith("local") and not master.startswith("local-cluster"):
        return ""
    return conf.get("spark.executor.memory", "1g")


def memory_warning(heap: str, machine: int) -> str:
    """The warning about a `heap`, as Spark writes it, on a machine of so many bytes; often none."""
    size = _SIZE.fullmatch(heap)
    if size is None or int(size[1]) * _UNITS[size[2].lower()] * 2 <= machine:
        return ""
    return (
        f"spark.executor.memory={heap.strip()} is more than half of this machine's "
        f"{machine / (1 << 30):.1f} GiB: a broker's data lives in the page cache, for which too "
        "little is left; 1g is enough for an executor that runs a broker"
    )


def machine_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
