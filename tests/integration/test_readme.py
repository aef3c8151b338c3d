"""The README's session runs, and prints what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_session_prints_what_the_readme_shows(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", README, re.DOTALL)
    assert found is not None
    session, output = found.groups()
    done = subprocess.run(
        [sys.executable, "-c", session],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == output
