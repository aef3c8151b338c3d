"""F-S62: a warning where an executor's heap takes the page cache's memory."""

from __future__ import annotations

import pytest

from pylog_broker.spark.memory import executor_memory, machine_bytes, memory_warning

GIB = 1 << 30


@pytest.mark.parametrize(
    ("heap", "warned"),
    [
        ("4g", False), ("5g", True), ("5G", True), ("5gb", True), ("4096m", False), ("4097m", True),
        ("4097", True), ("4194305k", True), ("1t", True), ("", False), ("much", False),
    ],
)  # fmt: skip
def test_a_heap_on_a_machine_of_8_gib(heap: str, warned: bool) -> None:
    said = memory_warning(heap, 8 * GIB)
    assert bool(said) == warned
    if warned:
        assert f"spark.executor.memory={heap} is more than half of this machine's 8.0 GiB" in said


def test_executors_that_have_no_memory_of_their_own() -> None:
    assert executor_memory({"spark.master": "local[4]", "spark.executor.memory": "9g"}) == ""
    assert executor_memory({"spark.master": "local-cluster[2,1,1024]"}) == "1g"
    assert executor_memory({"spark.master": "yarn", "spark.executor.memory": "9g"}) == "9g"


def test_this_machine_has_some() -> None:
    assert machine_bytes() > GIB // 4
