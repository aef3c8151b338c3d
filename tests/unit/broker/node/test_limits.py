"""Bad input 81: limits of the machine that a broker cannot live within."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pylog.errors import InvalidConfig
from pylog_broker.config import BrokerConfig
from pylog_broker.node.limits import check_limits, memory_max

MIB = 1024 * 1024
SMALL = replace(
    BrokerConfig(), log_tail_cache_max_bytes=8 * MIB, log_cleaner_dedupe_buffer_size=4 * MIB
)


def test_too_few_files_are_named_with_the_number_needed() -> None:
    with pytest.raises(InvalidConfig, match=r"256 files open; a broker needs 512 .*ulimit -n"):
        check_limits(SMALL, files_max=256, memory_max=sys.maxsize)
    check_limits(SMALL, files_max=512, memory_max=sys.maxsize)


def test_memory_below_the_caches_is_named_with_the_number_needed() -> None:
    with pytest.raises(InvalidConfig, match=rf"log\.tail\.cache.* needs {140 * MIB}: lower them"):
        check_limits(SMALL, files_max=1024, memory_max=140 * MIB - 1)
    check_limits(SMALL, files_max=1024, memory_max=140 * MIB)
    without = replace(SMALL, log_cleaner_enable=False)
    check_limits(without, files_max=1024, memory_max=136 * MIB)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "900"}, 900),
        ("0::/\n", {"memory.max": "700"}, 700),
        ("4:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": "600"}, 600),
        ("4:cpu,memory:/\n", {"memory/memory.limit_in_bytes": "500"}, 500),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": str(2**63 - 4096)}, sys.maxsize),
        ("1:cpu:/\n", {"memory/memory.limit_in_bytes": "1"}, sys.maxsize),
        (None, {}, sys.maxsize),
    ],
)
def test_control_groups(
    own: str | None, files: dict[str, str], expected: int, tmp_path: Path
) -> None:
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    if own is not None:
        (tmp_path / "own").write_text(own)
    assert memory_max(tmp_path / "cgroup", tmp_path / "own") == expected
