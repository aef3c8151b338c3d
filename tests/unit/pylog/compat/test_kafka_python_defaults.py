"""The settings that kafka-python's clients have when they are made."""

from __future__ import annotations

from typing import Any

import pytest

from pylog.compat.kafka_python import KafkaAdminClient, KafkaConsumer, KafkaProducer
from tests.fakes.fake_cluster import FakeCluster


def consumer(cluster: FakeCluster, *topics: str, **config: Any) -> KafkaConsumer:
    given: dict[str, Any] = {"auto_offset_reset": "earliest", **config}
    return KafkaConsumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **given)


def producer(cluster: FakeCluster, **config: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **config)


def test_a_client_has_its_settings_with_their_defaults(cluster: FakeCluster) -> None:
    with consumer(cluster, max_poll_records=7) as c:
        assert (c.config["max_poll_records"], c.config["auto_commit_interval_ms"]) == (7, 5000)
    with producer(cluster) as p:
        assert (p.config["acks"], p.config["linger_ms"]) == (-1, 0)
        assert p.config["client_id"].startswith("kafka-python-producer-")
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, client_id="a") as a:
        assert (a.config["client_id"], a.config["request_timeout_ms"]) == ("a", 30_000)


@pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer, KafkaAdminClient])
def test_a_client_takes_its_defaults_back(cluster: FakeCluster, client: Any) -> None:
    servers = {"bootstrap_servers": cluster.bootstrap_servers}
    client(**{**client.DEFAULT_CONFIG, **servers}).close()
