"""The types of settings are those of the tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_generated_types_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "tools/typed_settings.py", "--check"], cwd=ROOT, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
