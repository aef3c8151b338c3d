"""The place of compiled kernels, and the modules that loading the package must not load."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pylog.records.kernels import warm

PACKAGE = Path(__file__).parents[4] / "pylog"


def test_warm_tells_how_long_it_took() -> None:
    warm()
    assert 0 <= warm() < 1000


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    return set(run.stdout.split())


def test_what_a_broker_needs_is_light() -> None:
    light = "from pylog.records import batch, builder, validate, reader, murmur2"
    few = (
        "from pylog.records.builder import encode_batch\n"
        "from pylog.records.reader import iter_records\n"
        "list(iter_records(encode_batch([b'one']), 't', 0))"
    )
    for statement in (light, few):
        assert loaded_by(statement).isdisjoint({"numba", "numpy", "pyarrow", "grpc"})
    lists = loaded_by("from pylog.records.kernels import warm; warm(columns=False)")
    assert "numba" in lists
    assert lists.isdisjoint({"pyarrow", "grpc", "pandas"})


def warm_in(site: Path, home: Path) -> str:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NUMBA_", "XDG_", "PYTHON"))
    }
    environment |= {"PYTHONPATH": str(site), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    code = "import pylog.records.kernels as k; k.warm(columns=False); print(k.__file__)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment,
        cwd=site,
    )  # fmt: skip
    return run.stdout


@pytest.mark.slow
def test_a_read_only_installation_caches_for_the_user(tmp_path: Path) -> None:
    site, home = tmp_path / "site", tmp_path / "home"
    shutil.copytree(PACKAGE, site / "pylog", ignore=shutil.ignore_patterns("__pycache__"))
    # A file where the cache folder would be: nobody, not even root, can write there.
    (site / "pylog" / "records" / "__pycache__").write_text("")
    home.mkdir()
    assert warm_in(site, home).startswith(str(site))
    cached = {path: path.stat().st_mtime_ns for path in home.rglob("*.nbi")}
    assert len(cached) >= 5
    warm_in(site, home)
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*.nbi")} == cached
    # And without a home to write to it still works.
    assert warm_in(site, Path("/proc/nowhere")).startswith(str(site))
