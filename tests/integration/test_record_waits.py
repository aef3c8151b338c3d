"""Waits for records at real brokers, one of which may be far from having them."""

from __future__ import annotations

import threading

import pytest

from pylog import AdminClient, LocalCluster, NewTopic, Producer
from pylog.client.ranges.range_reader import RangeReader
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition

pytestmark = pytest.mark.integration


def test_brokers_wait_for_records_of_committed_transactions() -> None:
    with LocalCluster(brokers=2) as cluster:
        address = cluster.bootstrap_servers
        admin = AdminClient(bootstrap_servers=address)
        admin.create_topics([NewTopic("waits", 4, 1)])
        settings = {"bootstrap_servers": address, "isolation_level": "read_committed"}
        reader = RangeReader(CONSUMER_SETTINGS.parse(settings))
        reader.topics(["waits"])
        places = [TopicPartition("waits", p) for p in range(4)]
        ends = dict.fromkeys(places, 0)
        assert not reader.await_records(ends, 20, 200)
        ready, go = threading.Event(), threading.Event()

        def write() -> None:
            with Producer(bootstrap_servers=address, transactional_id="w") as producer:
                producer.init_transactions()
                producer.begin_transaction()
                for number in range(40):
                    producer.send("waits", b"v", partition=number % 4)
                producer.flush()
                ready.set()
                go.wait(30)
                producer.commit_transaction()

        writer = threading.Thread(target=write)
        writer.start()
        assert ready.wait(30)
        assert not reader.await_records(ends, 20, 300)  # nothing of an open transaction counts
        go.set()
        began_ms = SYSTEM_CLOCK.monotonic_ms()
        assert reader.await_records(ends, 20, 30_000)
        assert SYSTEM_CLOCK.monotonic_ms() - began_ms < 25_000
        writer.join(30)
        reader.close()
        admin.close()
