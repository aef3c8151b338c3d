"""Methods that Kafka's clients have and these do not say so by name, with the reason.

Bad input 52.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pylog import AdminClient, Consumer, Producer, errors, kafka_settings
from pylog.client.not_offered import ADMIN_NOT_OFFERED
from pylog.client.settings import ADMIN_SETTINGS, CONSUMER_SETTINGS, PRODUCER_SETTINGS
from pylog.config import ConfigTable
from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as running:
        yield running


def test_each_method_gives_its_reason(cluster: FakeCluster) -> None:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        for name, reason in ADMIN_NOT_OFFERED.items():
            with pytest.raises(errors.NotOffered) as told:
                getattr(client, name)()
            assert str(told.value) == f"AdminClient.{name}: {reason}"


@pytest.mark.parametrize("quota", [-1, 0, float("nan"), 1e300])
def test_52_no_quota_is_taken(cluster: FakeCluster, quota: float) -> None:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for kind in ("user", "client-id", "client", "ip"):
            change = {(kind, "a"): {"producer_byte_rate": str(quota)}}
            with pytest.raises(errors.NotOffered, match=f"{kind} 'a': quotas are not offered yet"):
                admin.incremental_alter_configs(change)
            with pytest.raises(errors.NotOffered, match="quotas are not offered yet"):
                admin.describe_configs((kind, "a"))
        with pytest.raises(errors.NotOffered, match="quotas are not offered yet"):
            admin.alter_client_quotas({"client-id": "a"}, {"producer_byte_rate": quota})


@pytest.mark.parametrize(
    ("kind", "table", "absent"),
    [
        (AdminClient, ADMIN_SETTINGS, kafka_settings.ADMIN.refused),
        (Consumer, CONSUMER_SETTINGS, kafka_settings.CONSUMER.refused),
        (Producer, PRODUCER_SETTINGS, kafka_settings.PRODUCER.refused),
    ],
)
def test_settings_that_are_not_there_give_their_reason(
    kind: type, table: ConfigTable, absent: dict[str, str]
) -> None:
    assert not [name for name in absent if name in table]
    for name, reason in absent.items():
        spelled = name.replace(".", "_")
        with pytest.raises(errors.InvalidConfig) as told:
            kind(bootstrap_servers="127.0.0.1:1", **{spelled: "x"})
        assert f"{spelled} is not taken: {reason}" in str(told.value)
