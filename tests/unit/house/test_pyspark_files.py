"""An installation's changes to the path of Spark's Python processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PTH = Path(__file__).parents[3] / "pyspark_pylog" / "_pylog_pyspark_files.pth"
ARCHIVES = (
    "python/lib/pyspark.zip",
    "python/lib/py4j-0.10.9.9-src.zip",
    "jars/spark-core_2.13-4.3.0.jar",
)


def site_packages(at: Path, *, py4j: bool) -> Path:
    """A folder of installed packages, this file among them."""
    (at / "pyspark" / "python" / "lib").mkdir(parents=True)
    if py4j:
        (at / "py4j").mkdir()
    shutil.copy(PTH, at)
    return at


def path_with(site: Path, given: list[str]) -> list[str]:
    """The paths of `given` that a process with those packages looks into, or looked into before,
    which Spark started with that path.
    """
    code = (
        "import site, sys; site.addsitedir(sys.argv[1]); "
        "print(sys.path, [*sys.path_importer_cache])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(site)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(given)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return [path for path in given if repr(path) in done.stdout]


def archives_of(site: Path) -> list[str]:
    return [str(site / "pyspark" / name) for name in ARCHIVES]


def test_pyspark_is_imported_from_files_and_not_from_its_own_archive(tmp_path: Path) -> None:
    site = site_packages(tmp_path / "here", py4j=True)
    others = [*archives_of(tmp_path / "elsewhere"), str(tmp_path / "job.zip")]
    assert path_with(site, [*archives_of(site), *others]) == others


@pytest.mark.parametrize("py4j", [True, False])
def test_a_path_stays_where_it_must(tmp_path: Path, py4j: bool) -> None:
    """Without py4j beside it the archive is all that there is."""
    site = site_packages(tmp_path / "here", py4j=py4j)
    elsewhere = archives_of(tmp_path / "elsewhere")
    given = elsewhere if py4j else archives_of(site)
    assert path_with(site, given) == given


def test_it_is_read_before_files_of_others_that_import() -> None:
    assert sorted(["Z.pth", "distutils-precedence.pth", "a.pth", PTH.name])[1] == PTH.name
