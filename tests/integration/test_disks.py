"""A sample of `make disks`: one disk that is full for a while, one that fails."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.verify.disks import UNAVAILABLE

pytestmark = pytest.mark.integration


def test_a_full_disk_and_a_failing_one_lose_nothing() -> None:
    command = [sys.executable, "-m", "tests.verify.disks", "--fills", "1", "--faults", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == UNAVAILABLE:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fills 1, faults 1" in done.stdout
    assert "lost 0, duplicated 0, out of order 0" in done.stdout
