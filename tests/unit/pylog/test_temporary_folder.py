"""Temporary folders: gone with their owner, or when the next one is made."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pylog.temporary_folder import TemporaryFolder

KILLED = """
import os, signal
from pylog.temporary_folder import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "data").write_text("")
print(folder.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_goes_with_its_owner(root: Path) -> None:
    folder = TemporaryFolder()
    assert folder.path.parent == root
    assert folder.path.name.startswith("pylog-")
    folder.remove()
    folder.remove()
    assert list(root.iterdir()) == []


def test_what_a_killed_owner_left_is_removed_and_nothing_else(root: Path) -> None:
    (root / "pylog-of-a-user").mkdir()
    live = TemporaryFolder()
    done = subprocess.run(
        [sys.executable, "-c", KILLED], env={**os.environ, "TMPDIR": str(root)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    left = Path(done.stdout.strip())
    assert (left / "data").exists(), done.stderr
    new = TemporaryFolder()
    assert {path.name for path in root.iterdir()} == {
        "pylog-of-a-user", live.path.name, new.path.name,
    }  # fmt: skip
    live.remove()
    new.remove()
