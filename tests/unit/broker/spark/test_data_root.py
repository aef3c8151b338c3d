"""Data never lies where Spark cleans up."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog_broker.spark.executor import (
    RACK_VARIABLE,
    BrokerCannotRun,
    TaskSettings,
    config_here,
    data_root,
)


def settings(data_dir: Path, log_dirs: str = "") -> TaskSettings:
    return TaskSettings(
        "app", str(data_dir), "c:1", "g:1", b"", "b:0", "r:0", "s:0", None, False,
        {"log.dirs": log_dirs} if log_dirs else {},
    )  # fmt: skip


def test_roots_below_sparks_folders_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = tmp_path / "spark-local"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(spark))
    data = tmp_path / "data{slot}"
    assert data_root(settings(data), 3) == tmp_path / "data3"
    assert data_root(settings(data, f"d1,{tmp_path}/disk"), 3) == tmp_path / "data3"
    with pytest.raises(BrokerCannotRun, match=r"the data directory .* set spark\.pylog\.data\.dir"):
        data_root(settings(spark / "data"), 0)
    with pytest.raises(BrokerCannotRun, match=r"set spark\.pylog\.broker\.log\.dirs to a folder"):
        data_root(settings(data, f"{tmp_path}/disk, {spark}/disk"), 0)


def test_an_executor_names_the_rack_of_its_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings(tmp_path, "d1")
    monkeypatch.delenv(RACK_VARIABLE, raising=False)
    assert config_here(given) == {"log.dirs": "d1"}
    monkeypatch.setenv(RACK_VARIABLE, " zone-b ")
    assert config_here(given) == {"log.dirs": "d1", "broker.rack": "zone-b"}
