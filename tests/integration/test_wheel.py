"""The wheel carries the application and its settings, and says where they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def test_an_installed_wheel_knows_its_application_and_settings(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation", "-o", tmp_path]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("pylog_spark-*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    code = "import sys; from pylog.cli.main import main; sys.argv[1:] = ['paths']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    paths = dict(line.split("=", 1) for line in done.stdout.splitlines())
    for name, original in (("broker_app", "broker_app.py"), ("spark_conf", "spark-conf")):
        assert Path(paths[name]).is_relative_to(installed)
        assert Path(paths[name]).name == Path(original).name
    app = Path(paths["broker_app"]).read_text()
    assert app == (ROOT / "broker_app.py").read_text()
    shipped = {p.name: p.read_text() for p in Path(paths["spark_conf"]).iterdir()}
    assert shipped == {p.name: p.read_text() for p in (ROOT / "spark-conf").iterdir()}
    monitoring = {p.name for p in Path(paths["monitoring"]).iterdir()}
    assert {"grafana.json", "alerts.yml"} <= monitoring
    assert (installed / "pyspark_pylog" / "__init__.py").exists()
    documentation = installed / "pylog" / "documentation"
    for name in ("README.md", "docs/operating.md", "notebooks/01_quickstart.ipynb"):
        assert (documentation / name).read_bytes() == (ROOT / name).read_bytes()
    (licence,) = installed.glob("pylog_spark-*.dist-info/licenses/LICENSE")
    assert licence.read_text() == (ROOT / "LICENSE").read_text()
    # Python reads it there at its start.
    pth = "_pylog_pyspark_files.pth"
    assert (installed / pth).read_text() == (ROOT / "pyspark_pylog" / pth).read_text()


def test_wheel_and_checkout_have_the_same_modules(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "-q", "--no-isolation", "-o", tmp_path]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)  # the wheel from the sources
    (wheel,) = tmp_path.glob("pylog_spark-*.whl")
    (sources,) = tmp_path.glob("pylog_spark-*.tar.gz")
    with tarfile.open(sources) as archive:
        assert not [name for name in archive.getnames() if name.split("/")[1:2] == ["src"]]
    with zipfile.ZipFile(wheel) as zipped:
        shipped = {name for name in zipped.namelist() if name.endswith(".py")}
    here = {
        f"{link.name}/{path.relative_to(link.resolve())}"
        for link in (ROOT / "src").iterdir()
        for path in link.resolve().rglob("*.py")
    }
    shipped = {name for name in shipped if not name.startswith("pylog/documentation/")}
    assert shipped - {"pylog_broker/spark/resources/broker_app.py"} == here


def test_the_import_contracts_see_what_is_imported(tmp_path: Path) -> None:
    """Through the links of `src`, in a copy of the packages with one import too many."""
    for name in ("pylog", "broker", "connector", "pyspark_pylog"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    shutil.copytree(ROOT / "src", tmp_path / "src", symlinks=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    planted = tmp_path / "broker/storage/files.py"
    planted.write_text(f"import pylog_broker.process.process\n{planted.read_text()}")
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pylog_broker.storage.files -> pylog_broker.process.process" in done.stdout
