"""docs/configuration.md is what the code's tables say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pylog_broker.config import BROKER_CONFIG, TOPIC_CONFIG

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date_and_names_every_setting() -> None:
    done = subprocess.run(
        [sys.executable, "tools/configuration.py", "--check"], cwd=ROOT, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    page = (ROOT / "docs/configuration.md").read_text()
    for key in (*TOPIC_CONFIG, *BROKER_CONFIG):
        assert f"`{key.name}`" in page
