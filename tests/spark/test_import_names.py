"""The wheel brings import names of its own: a project's packages called `broker` and `connector`,
and an archive of the wheel handed to executors, do no harm to the format.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.spark_reads import numbers

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent

APPLICATION = """
import json, sys
from pyspark.sql import SparkSession

import broker, connector

def homes(rows):
    import broker, connector, pylog, pylog_connector, pyspark_pylog
    modules = broker, connector, pylog, pylog_connector, pyspark_pylog
    yield ",".join(module.__file__ for module in modules)

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.read.format("pylog").option("pylog.bootstrap.servers", sys.argv[1])
rows = frame.option("subscribe", "numbers").load().count()
executors = spark.sparkContext.parallelize([1], 1).mapPartitions(homes).collect()[0].split(",")
(driver,) = list(homes(None))
print("FOUND", json.dumps([rows, driver.split(","), executors]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation", "-o", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("pylog_spark-*.whl")
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project, with packages that are called as two of our folders are."""
    folder = tmp_path / "project"
    for name in ("broker", "connector"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("# the user's own\n")
    (folder / "application.py").write_text(APPLICATION)
    return folder


def run(project: Path, *command: str, path: str) -> tuple[int, list[str], list[str]]:
    """Rows that were read; where driver and executor have their modules from."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    said = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert said, done.stderr[-3000:]
    rows, driver, executor = json.loads(said[0].removeprefix("FOUND "))
    return rows, driver, executor


def test_a_project_keeps_its_own_broker_and_connector(
    wheel: Path, project: Path, cluster: FakeCluster
) -> None:
    numbers(cluster, "numbers", 7)
    installed = project.parent / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    servers = cluster.bootstrap_servers[0]
    path = os.pathsep.join([str(installed), str(project)])
    rows, *sides = run(project, sys.executable, "application.py", servers, path=path)
    assert rows == 7
    for homes in sides:
        theirs, ours = homes[:2], homes[2:]
        assert all(Path(home).is_relative_to(project) for home in theirs)
        assert all(Path(home).is_relative_to(installed) for home in ours)


def test_an_archive_of_the_wheel_is_enough(
    wheel: Path, project: Path, cluster: FakeCluster
) -> None:
    numbers(cluster, "numbers", 7)
    archive = project.parent / "pylog.zip"
    archive.write_bytes(wheel.read_bytes())
    submit = [f"{BIN}/spark-submit", "--py-files", str(archive), "application.py"]
    servers = cluster.bootstrap_servers[0]
    rows, *sides = run(project, *submit, servers, path=str(project))
    assert rows == 7
    for homes in sides:
        assert all("pylog.zip/" in home for home in homes[2:])
