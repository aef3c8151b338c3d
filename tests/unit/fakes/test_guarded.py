from __future__ import annotations

import signal
import subprocess
import sys

from tests.fakes.guarded import GuardedMemory

READ_PAST = """
import ctypes, sys
from tests.fakes.guarded import GuardedMemory
memory = GuardedMemory(100)
view = memory.hold(b"abc")
address = ctypes.addressof(ctypes.c_char.from_buffer(memory._map)) + memory._room - 3
assert ctypes.string_at(address, 3) == b"abc"
print("inside", flush=True)
ctypes.string_at(address, 4)
"""


def test_the_data_is_there() -> None:
    memory = GuardedMemory(5000)
    for data in (b"", b"abc", b"x" * 5000):
        assert memory.hold(data) == data
        assert memory.hold(data).readonly


def test_one_byte_too_far_ends_the_process() -> None:
    run = subprocess.run([sys.executable, "-c", READ_PAST], capture_output=True, check=False)
    assert run.stdout == b"inside\n"
    assert run.returncode == -signal.SIGSEGV
