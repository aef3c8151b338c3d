"""A sample of `make policy-changes`."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_a_dozen_changes_of_policy_lose_nothing() -> None:
    command = [sys.executable, "-m", "tests.verify.policy_changes"]
    command += ["--changes", "12", "--topics", "2", "--kill-each", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 promises broken" in done.stdout
