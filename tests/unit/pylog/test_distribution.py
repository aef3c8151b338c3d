"""The distribution that is installed, and the error when both are."""

from __future__ import annotations

import json
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from pylog import LocalCluster, distribution, errors, local
from pylog.cli import main as cli_main
from pylog.cli.main import main

ROOT = Path(__file__).parents[3]


def test_the_command_refuses_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("pylog_spark-0.1.0.dist-info", "pylog_client-0.2.0.dist-info", "pylog_x-1.txt"):
        (tmp_path / name).mkdir()
    found = distribution.installed(tmp_path)
    assert found == {"pylog-spark": "0.1.0", "pylog-client": "0.2.0"}
    monkeypatch.setattr(distribution, "installed", lambda: found)
    assert main(["completion", "bash"]) == 1
    assert capsys.readouterr().err == (
        "pylog: DUPLICATE_RESOURCE: pylog-spark 0.1.0 and pylog-client 0.2.0 are both installed, "
        "and each has overwritten files of the other's package 'pylog': uninstall both (pip "
        "uninstall pylog-spark pylog-client), then install the one that you want; pylog-spark has "
        "everything that pylog-client has\n"
    )
    assert main(["completion", "bash", "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"] == "DUPLICATE_RESOURCE"


def test_one_alone_is_well(tmp_path: Path) -> None:
    assert distribution.installed(tmp_path / "nothing") == {}
    (tmp_path / "pylog_client-0.2.0.dist-info").mkdir()
    assert distribution.installed(tmp_path) == {"pylog-client": "0.2.0"}
    assert distribution.clash({"pylog-client": "0.2.0"}) == ""


def test_the_version_is_that_of_the_one_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"pylog-client": "0.2.0"}

    def version(name: str) -> str:
        if name not in there:
            raise metadata.PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(metadata, "version", version)
    assert distribution.version() == "0.2.0"
    there.clear()
    assert distribution.version() == "unknown"


def test_a_client_alone_says_where_brokers_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    with pytest.raises(errors.ResourceNotFound, match="install pylog-spark in its place"):
        LocalCluster()
    monkeypatch.setattr(cli_main, "_entry_points", dict)
    assert main(["dump", "x"]) == 1
    assert "pylog dump comes with pylog-spark, which is not installed" in capsys.readouterr().err


def test_both_are_described_alike() -> None:
    """The client's metadata are those of the whole, less what it does not need."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    client = tomllib.loads((ROOT / "packaging/client/pyproject.toml").read_text())["project"]
    for name in ("version", "license", "license-files", "authors", "requires-python"):
        assert client[name] == whole[name], name
    assert set(client["dependencies"]) < set(whole["dependencies"])
    spark_alone = {"pyspark", "pandas", "numba", "grpcio-health-checking", "grpcio-reflection"}
    spark_alone |= {"prometheus-client", "starlette", "uvicorn", "jinja2"}
    left_out = set(whole["dependencies"]) - set(client["dependencies"])
    assert {item.split("[")[0].split(">")[0].split("<")[0] for item in left_out} == spark_alone
    assert set(client["optional-dependencies"]["console"]) < set(whole["dependencies"])
    licence = (ROOT / "LICENSE").read_text()
    assert (ROOT / "packaging/client/LICENSE").read_text() == licence
    assert "Version 2.0, January 2004" in licence
    assert whole["scripts"] == client["scripts"]
