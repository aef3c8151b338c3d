"""Log lines of real processes, in the form that machines read."""

from __future__ import annotations

import json

import pytest

from pylog import LocalCluster, errors

pytestmark = pytest.mark.integration


def test_every_line_is_json_and_says_who_it_is_of() -> None:
    with LocalCluster(1, config={"logging.format": "json", "logging.level": "DEBUG"}) as cluster:
        secret = cluster._secret
        cluster.stop(1)
        folder = cluster.data_dir / "logs"
        text = {file.stem: file.read_text() for file in folder.iterdir()}
    lines = {name: [json.loads(line) for line in said.splitlines()] for name, said in text.items()}
    last = lines["broker-1"][-1]
    assert last["message"] == "ended: asked to stop"
    assert (last["broker"], last["level"], last["logger"]) == (1, "info", "pylog.node")
    assert last["broker_epoch"] >= 0
    assert last["cluster"] == lines["controller"][-1]["cluster"]
    assert lines["controller"][-1]["controller_epoch"] == 1
    assert not [name for name, said in text.items() if secret in said]


@pytest.mark.parametrize(
    ("setting", "value"), [("logging.format", "xml"), ("logging.level", "LOUD")]
)
def test_a_wrong_form_or_level_is_refused(setting: str, value: str) -> None:
    with pytest.raises(errors.InvalidConfig, match=f"{setting}='{value}'"):
        LocalCluster(1, config={setting: value})
