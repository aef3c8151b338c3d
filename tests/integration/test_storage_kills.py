"""A sample of `make storage-kills`."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_forty_kills_of_a_storage_process_lose_nothing() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.verify.storage_kills",
        "--acks",
        "15",
        "--cleaner",
        "15",
        "--deletions",
        "10",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 records lost" in done.stdout
