"""pylog-client alone: its wheel in an environment without Spark, pandas, numba and brokers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pylog import LocalCluster

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
ABSENT = ("numba", "llvmlite", "pyspark", "pandas", "pylog", "_pylog")

PROGRAM = """
import json, sys
import pyarrow as pa
from pylog import AdminClient, Consumer, NewTopic, Producer
from pylog.records import compiled
where = {"bootstrap_servers": sys.argv[1]}
with AdminClient(**where) as admin:
    admin.create_topics([NewTopic("t", 3)])
values = [b"%d" % n for n in range(20_000)]
with Producer(compression_type="lz4", **where) as producer:
    for value in values:
        producer.send("t", value, key=value[:1], headers=[("h", b"1")])
    producer.flush()
    producer.send_arrow("t", pa.table({"key": values[:500], "value": values[:500]})).result(30)
with Consumer("t", auto_offset_reset="earliest", **where) as consumer:
    read = []
    while len(read) < 20_500:
        read += [(record.key, record.value) for record in consumer.poll(10)]
with Consumer("t", auto_offset_reset="earliest", group_id="g", **where) as consumer:
    rows = 0
    while rows < 20_500:
        rows += consumer.poll_arrow(10).num_rows
    consumer.commit()
same = sorted(read) == sorted([(value[:1], value) for value in values]
    + [(value, value) for value in values[:500]])
print(json.dumps({"compiled": compiled.is_there(), "same": same, "rows": rows}))
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs that environment's Python."""
    folder = tmp_path_factory.mktemp("client")
    build = [sys.executable, "-m", "build", "-q", "--no-isolation", "-o", folder / "dist"]
    subprocess.run([*build, ROOT / "packaging/client"], check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("pylog_client-*.whl")
    assert len(list((folder / "dist").glob("pylog_client-*.tar.gz"))) == 1
    environment = folder / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = environment / "lib" / version / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # The libraries of this environment, but for those that the client does without.
    for library in Path(sysconfig.get_path("purelib")).iterdir():
        if library.suffix != ".pth" and not library.name.startswith(ABSENT):
            (site / library.name).symlink_to(library)
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [environment / "bin" / "python", *arguments],
            cwd=folder,
            env=without,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_it_reads_and_writes_without_numba(client: Run) -> None:
    with LocalCluster(brokers=1) as cluster:
        done = client("-c", PROGRAM, cluster.bootstrap_servers)
        assert done.stderr == ""
        assert json.loads(done.stdout) == {"compiled": False, "same": True, "rows": 20_500}
        pylog = ("-m", "pylog.cli.main", "-b", cluster.bootstrap_servers)
        done = client(*pylog, "topics", "list")
        assert (done.returncode, done.stderr) == (0, "")
        assert "t" in done.stdout.split()
        done = client(*pylog, "groups", "describe", "g", "--json")
        assert done.returncode == 0


def test_it_says_what_it_has_and_what_it_has_not(client: Run) -> None:
    pylog = ("-m", "pylog.cli.main")
    assert client(*pylog, "--version").stdout == "pylog 0.1.0\n"
    docs = json.loads(client(*pylog, "docs", "--json").stdout)
    assert (Path(docs["documentation"]) / "docs" / "operating.md").read_text() == (
        ROOT / "docs" / "operating.md"
    ).read_text()
    notebooks = {path.name for path in Path(docs["notebooks"]).iterdir()}
    assert notebooks == {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    done = client(*pylog, "local")
    assert (done.returncode, "install pylog-spark in its place" in done.stderr) == (1, True)
    done = client(*pylog, "dump", "x")
    assert (done.returncode, "comes with pylog-spark" in done.stderr) == (1, True)
    done = client(*pylog, "paths")
    assert (done.returncode, "install the wheel of pylog-spark" in done.stderr) == (1, True)


def test_beside_the_whole_the_command_refuses(client: Run) -> None:
    found = client("-c", "import pylog; print(pylog.__path__[0])").stdout.strip()
    beside = Path(found).parent / "pylog_spark-0.1.0.dist-info"
    beside.mkdir()
    try:
        done = client("-m", "pylog.cli.main", "topics", "list")
    finally:
        beside.rmdir()
    assert (done.returncode, done.stdout) == (1, "")
    assert "pylog-spark 0.1.0 and pylog-client 0.1.0 are both installed" in done.stderr
