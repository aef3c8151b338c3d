"""A controller's directory that an earlier version wrote is opened, and goes on being written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pylog_broker.controller.metadata_log import MetadataLog
from pylog_broker.storage.files import OsFiles
from tests.golden.make_metadata_directory import FOLDER, FORM, DurableShell, described

FORMS = sorted(path.name for path in FOLDER.iterdir())


@pytest.fixture(params=FORMS)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER / request.param, tmp_path / "controller"))


def expected(directory: Path) -> object:
    return json.loads((directory / "image.json").read_text(encoding="utf-8"))


def reopened(directory: Path) -> object:
    log = MetadataLog.open(OsFiles(), str(directory), boot_id="boot")
    log.close()
    return json.loads(described(log.image))


def test_todays_form_is_among_them() -> None:
    assert FORM in FORMS


def test_everything_is_found(directory: Path) -> None:
    assert reopened(directory) == expected(directory)


def test_a_controller_goes_on_from_it(directory: Path) -> None:
    before = expected(directory)
    assert isinstance(before, dict)
    shell = DurableShell(directory)
    shell.create("new", replication=1, assignment={0: [1]})
    shell.snapshot()
    shell.create("newer", replication=1, assignment={0: [1]})
    shell.metadata.close()
    after = reopened(directory)
    assert after == json.loads(described(shell.controller.image))
    assert isinstance(after, dict)
    assert after["offset"] > before["offset"]


def test_without_its_newest_snapshot_the_older_one_leads_to_the_same(directory: Path) -> None:
    snapshots = sorted(path for path in directory.iterdir() if path.name[:20].isdigit())
    assert len(snapshots) == 2
    snapshots[-1].write_bytes(b"")
    assert reopened(directory) == expected(directory)
