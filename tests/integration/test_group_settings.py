"""Settings of groups: kept with the metadata, and heard of by members while they run."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pylog import AdminClient, ConfigResource, LocalCluster, errors
from pylog.cli.main import main
from pylog.rpc.v1 import group_pb2
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

GROUP = ConfigResource("group", "g")
SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


def test_settings_are_kept_checked_and_taken_back(admin: AdminClient) -> None:
    admin.incremental_alter_configs({GROUP: {SESSION: "50000"}})
    entry = admin.describe_configs(GROUP)[GROUP][SESSION]
    assert (entry.value, entry.source) == ("50000", "DYNAMIC_GROUP_CONFIG")
    with pytest.raises(errors.InvalidConfig, match=r"below the brokers' group\.consumer\.min"):
        admin.incremental_alter_configs({GROUP: {SESSION: "1"}})
    admin.incremental_alter_configs({GROUP: {SESSION: None}})
    entry = admin.describe_configs({GROUP: [SESSION]})[GROUP][SESSION]
    assert (entry.value, entry.source, entry.is_default) == ("45000", "DEFAULT_CONFIG", True)


def test_a_member_hears_of_a_change_with_its_next_heartbeat(
    raw: RawClient, admin: AdminClient
) -> None:
    stub = raw.group(raw.servers[1])

    def found() -> bool:
        asked = group_pb2.FindCoordinatorRequest(keys=["live"])
        (answer,) = stub.FindCoordinator(asked, timeout=10).coordinators
        return not answer.error.code

    def beat(epoch: int) -> group_pb2.ConsumerGroupHeartbeatResponse:
        request = group_pb2.ConsumerGroupHeartbeatRequest(
            group_id="live", member_id="m", member_epoch=epoch
        )
        if epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topics.names.append("t")
            request.owned.SetInParent()
        answer: group_pb2.ConsumerGroupHeartbeatResponse
        answer = stub.ConsumerGroupHeartbeat(request, timeout=10)
        return answer

    eventually(30, found, "the group has a coordinator")
    eventually(30, lambda: not beat(0).error.code, "the member joins")
    interval_ms = beat(1).heartbeat_interval_ms
    assert interval_ms == 5_000
    admin.incremental_alter_configs({("group", "live"): {INTERVAL: "9000"}})
    assert beat(1).heartbeat_interval_ms == 9_000
    admin.incremental_alter_configs({("group", "live"): {INTERVAL: None}})
    assert beat(1).heartbeat_interval_ms == 5_000


def test_the_command_line_shows_and_changes_them(
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    assert main(("configs", "alter", "group", "cli", "--set", f"{SESSION}=50000")) == 0
    assert capsys.readouterr().out == "changed group cli\n"
    shown = ("configs", "describe", "group", "cli", "--changed", "--key", SESSION)
    assert main((*shown, "--json")) == 0
    (entry,) = json.loads(capsys.readouterr().out)["configs"]
    assert (entry["name"], entry["value"]) == (SESSION, "50000")
    assert main(("configs", "alter", "group", "cli", "--set", "session.timeout.ms=1")) != 0
    assert "unknown group setting session.timeout.ms" in capsys.readouterr().err
    assert main(("configs", "alter", "group", "cli", "--delete", SESSION)) == 0
    capsys.readouterr()
    assert main(shown) == 0
    assert capsys.readouterr().out == "group cli: nothing is set\n"
