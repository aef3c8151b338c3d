"""Feature levels and the controller of a running cluster, as administrators see them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import pytest

from pylog import AdminClient, LocalCluster, errors
from pylog.cli.main import main
from pylog.model import FeatureDescription
from pylog_broker.metadata.features import METADATA_VERSION, NEWEST_LEVEL
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

NOW = {METADATA_VERSION: FeatureDescription(METADATA_VERSION, NEWEST_LEVEL, 1, NEWEST_LEVEL)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(2) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


def test_levels_are_shown_and_can_only_be_raised(admin: AdminClient) -> None:
    assert admin.describe_features() == NOW
    assert admin.update_features({METADATA_VERSION: NEWEST_LEVEL}) == NOW
    assert admin.update_features({METADATA_VERSION: NEWEST_LEVEL}, validate_only=True) == NOW
    with pytest.raises(errors.InvalidUpdateVersion, match=f"it is at {NEWEST_LEVEL}"):
        admin.update_features({METADATA_VERSION: 1})
    with pytest.raises(errors.InvalidUpdateVersion, match=f"supports levels 1 to {NEWEST_LEVEL}"):
        admin.update_features({METADATA_VERSION: 9}, validate_only=True)
    with pytest.raises(errors.InvalidRequest, match="'other' is not known"):
        admin.update_features({"other": 1})
    with pytest.raises(errors.InvalidRequest, match="feature other"):
        admin.update_features({"other": -1})
    assert admin.describe_features() == NOW


def test_the_command_line(
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode()

    status, out, err = run("features", "describe", "--json")
    assert (status, err) == (0, "")
    level = NEWEST_LEVEL
    assert json.loads(out) == [
        {"name": METADATA_VERSION, "level": level, "lowest": 1, "highest": level}
    ]
    status, out, err = run("features", "upgrade", "--dry-run")
    assert (status, err) == (0, "")
    assert out.startswith("this would be, nothing is changed:\nfeature            level")
    assert run("features", "upgrade")[0] == 0
    status, _, err = run("features", "upgrade", "--feature", "metadata.version=1")
    assert status == 1
    assert f"it is at {NEWEST_LEVEL}" in err
    assert run("features", "upgrade", "--feature", "metadata.version")[0] == 2
    status, out, _ = run("cluster", "describe")
    assert status == 0
    gateway = cluster.bootstrap_servers.split(",")[0]
    assert f", controller epoch 1 at {gateway} since 20" in out


def test_the_controller_says_where_it_is_and_since_when(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    first = admin.describe_cluster()
    assert first.controller == cluster.bootstrap_servers.split(",")[0]
    assert first.controller_since_ms is not None
    assert 0 <= time.time_ns() // 1_000_000 - first.controller_since_ms < 600_000
    cluster.kill_controller()
    cluster.start_controller()
    later = []

    def is_back() -> bool:
        found = admin.describe_cluster()
        if found.controller_epoch > first.controller_epoch:
            later.append(found)
        return bool(later)

    eventually(30, is_back, "the controller is back")
    assert later[0].controller == first.controller
    assert later[0].controller_since_ms is not None
    assert later[0].controller_since_ms > first.controller_since_ms
