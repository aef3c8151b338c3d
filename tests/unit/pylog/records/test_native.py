"""The switch that turns off what rests on CPython's layout, and when it turns by itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pylog.records import native

WITHOUT = """
import logging
logging.basicConfig(format="%(levelname)s %(message)s")
from pylog.records import builder, kernels, native, reader
assert not native.is_on()
kernels.warm()
values = [b"v%d" % number for number in range(5_000)]
batch = builder.encode_batch(values, keys=values, timestamps=7)
records = [record for record in reader.iter_records(batch, "t", 0)]
assert [record.value for record in records] == values
assert records[-1].offset == 4_999
from pylog.client.producer import delivery
assert delivery.UNSHARED == -1
"""


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("word", ["off", "0", "False"])
def test_the_environment_turns_it_off_with_one_line(word: str) -> None:
    said = run(WITHOUT, PYLOG_NATIVE=word)
    assert said.splitlines() == [
        "WARNING records are read and written without native addresses, slower: "
        "PYLOG_NATIVE says so"
    ]


def test_a_program_turns_it_off_once() -> None:
    code = "from pylog.records import native\nnative.turn_off('test')\nnative.turn_off()\n"
    lines = run(code + WITHOUT, PYLOG_NATIVE="")
    assert lines.count("without native addresses, slower: test") == 1


def test_this_interpreter_is_as_believed() -> None:
    assert native.layout_fault() == ""
    if not os.environ.get(native.VARIABLE):
        assert native.is_on()


@pytest.mark.parametrize(
    ("implementation", "version", "free_threaded", "fault"),
    [
        ("cpython", (3, 11, 7), False, ""),
        ("cpython", (3, 13, 0), False, ""),
        ("cpython", (3, 14, 0), False, "cpython 3.14 is not CPython 3.11 to 3.13"),
        ("cpython", (3, 13, 1), True, "cpython 3.13 is built without its lock"),
        ("pypy", (3, 11, 0), False, "pypy 3.11 is not CPython 3.11 to 3.13"),
    ],
)
def test_other_interpreters_do_without(
    implementation: str, version: tuple[int, ...], free_threaded: bool, fault: str
) -> None:
    found = native.interpreter_fault(implementation, version, free_threaded=free_threaded)
    assert found == fault
