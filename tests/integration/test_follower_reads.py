"""A consumer reads the follower in its rack, and the leader when that one goes (F-R69)."""

from __future__ import annotations

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition

pytestmark = [pytest.mark.integration, pytest.mark.slow]

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_a_consumer_reads_the_follower_in_its_rack(transport: str) -> None:
    config = {"replica.selector.class": "RackAwareReplicaSelector", "min.insync.replicas": "2"}
    with LocalCluster(3, config=config, racks=("a", "b", "c")) as cluster:
        servers = cluster.bootstrap_servers
        with (
            AdminClient(bootstrap_servers=servers) as admin,
            Producer(bootstrap_servers=servers, linger_ms=0) as producer,
            Consumer(
                bootstrap_servers=servers,
                client_rack="b",
                auto_offset_reset="earliest",
                client_transport=transport,
            ) as consumer,
        ):
            admin.create_topics(NewTopic("t", replica_assignment={0: [1, 2, 3]}))
            consumer.assign([T0])
            found: list[bytes] = []

            def more(first: int, last: int) -> None:
                sent = [b"%d" % number for number in range(first, last)]
                for value in sent:
                    producer.send("t", value).result(30)
                while len(found) < last:
                    found.extend(record.value for record in consumer.poll(10))
                assert found[first:] == sent

            more(0, 50)
            partition = consumer._positions.partitions[T0]
            assert partition.follower is not None
            assert partition.follower.broker == 2
            more(50, 100)
            cluster.kill(2)
            more(100, 150)
            assert partition.follower is None
            cluster.start(2)
            more(150, 160)
        with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as plain:
            plain.assign([T0])
            assert len(plain.poll(10)) > 0
            assert plain._positions.partitions[T0].follower is None
