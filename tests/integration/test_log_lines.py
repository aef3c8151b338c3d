"""Log lines of real processes, in the form that machines read."""

from __future__ import annotations

import json
import socket

import pytest

from pylog import AdminClient, LocalCluster, errors
from pylog.rpc import streams

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


FORGED = (
    "\n2026-01-31 12:00:00,000 ERROR pylog.node: all is lost\r\x1b[2J\x9b\u2028\u202e" + "y" * 3_000
)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_hostile_greeting_forges_no_line(form: str) -> None:
    with LocalCluster(1, config={"logging.format": form}) as cluster:
        at = ("127.0.0.1", cluster._ports[1][2])
        with socket.create_connection(at, timeout=10) as stranger:
            stranger.sendall(streams.hello(streams.PRODUCE, FORGED, 1, ""))
            answer = b""
            while data := stranger.recv(65_536):
                answer += data
        lines = (cluster.data_dir / "logs" / "broker-1.log").read_text().split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert [line for line in lines if line.startswith("2026-01-31 12:00:00,000")] == []
    (told,) = [line for line in lines if "stream listener: closed" in line]
    assert "all is lost" in told
    assert len(told) < 600
    assert answer.endswith(b"ask for metadata anew")
    assert b"\x1b" not in answer


@pytest.mark.parametrize(
    ("setting", "value"), [("logging.format", "xml"), ("logging.level", "LOUD")]
)
def test_a_wrong_form_or_level_is_refused(setting: str, value: str) -> None:
    with pytest.raises(errors.InvalidConfig, match=f"{setting}='{value}'"):
        LocalCluster(1, config={setting: value})


def test_levels_change_while_the_cluster_runs() -> None:
    """For all processes, for one broker, and back again; a restart keeps what was set."""
    with (
        LocalCluster(1) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        folder = cluster.data_dir / "logs"
        admin.incremental_alter_configs(
            {("broker", ""): {"logging.level": "INFO,pylog.grpc=DEBUG"}}
        )
        told = "logging.level is INFO,pylog.grpc=DEBUG from now on, and was INFO"
        for process in ("controller", "broker-1"):
            assert told in (folder / f"{process}.log").read_text()
        admin.incremental_alter_configs({("broker", 1): {"logging.level": "WARNING"}})
        with pytest.raises(errors.InvalidConfig, match="'LOUD' is not a level"):
            admin.incremental_alter_configs({("broker", 1): {"logging.level": "LOUD"}})
        quiet = (folder / "broker-1.log").read_text()
        cluster.stop(1)
        assert (folder / "broker-1.log").read_text() == quiet
        cluster.start(1)
        admin.incremental_alter_configs({("broker", 1): {"logging.level": None}})
        text = (folder / "broker-1.log").read_text()
        assert "is INFO,pylog.grpc=DEBUG from now on, and was WARNING" in text
