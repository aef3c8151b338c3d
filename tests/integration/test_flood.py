"""A flood of connections does not end a broker: `tests/verify/flood.py`, a tenth of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_flood_takes_no_replica_no_memory_and_no_log() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.verify.flood", "--short"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all limits hold\n")
