"""The pytest fixtures that come with the package."""

from __future__ import annotations

import pytest

from pylog import Consumer, Producer
from pylog.local import LocalCluster

pytestmark = pytest.mark.integration


def test_a_topic_of_a_running_cluster(pylog_cluster: LocalCluster, pylog_topic: str) -> None:
    servers = pylog_cluster.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(pylog_topic, b"hello").result(10)
    with Consumer(pylog_topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.poll(10)] == [b"hello"]
