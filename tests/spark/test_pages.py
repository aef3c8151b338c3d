"""The tutorial runs as it stands there, from its first step to its last."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.integration]

TUTORIAL = (Path(__file__).parents[2] / "docs/tutorial.md").read_text()


def test_the_tutorial(tmp_path: Path) -> None:
    steps = re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL)
    assert len(steps) == len(re.findall(r"^## \d+\. ", TUTORIAL, re.MULTILINE)) == 10
    program = tmp_path / "tutorial.py"
    program.write_text(
        'import os, sys\nos.environ["PYSPARK_PYTHON"] = sys.executable\n' + "\n".join(steps)
    )
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5_000:]
    said = done.stdout
    assert "101 records, 8 keys" in said
    assert "40 and then 61" in said
    assert re.search(r"leader \d is dead; the record is at offset \d+", said)
    assert "Row(partition=0" in said
