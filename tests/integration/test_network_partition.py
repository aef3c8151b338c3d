"""Real brokers in cut networks: a leader without everybody, a follower without its leader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import one_way_out

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SCRIPT = Path(__file__).parent / "scripts" / "cut_off_brokers.py"


def test_nothing_is_lost_or_doubled_when_brokers_are_cut_off(tmp_path: Path) -> None:
    """F-O45."""
    if not one_way_out.available():
        pytest.skip("making networks of one's own needs root, unshare and ip")
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        ["unshare", "--net", sys.executable, str(SCRIPT), str(tmp_path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    assert seen["each once and in order"], seen
    assert seen["acknowledged"] >= 30
