"""A client that reaches nothing but the gateway; prints what it did. For test_gateway.py."""

from __future__ import annotations

import json
import socket
import sys

from pylog import AdminClient, Consumer, NewTopic, Producer, TopicPartition

GATEWAY = sys.argv[1]
TOPIC = "through"
how = {"bootstrap_servers": GATEWAY, "client_routing": "gateway", "client_id": "far away"}

with AdminClient(**how) as admin:
    brokers = admin.describe_cluster().brokers
    blocked = 0
    for broker in brokers:
        with socket.socket() as probe:
            blocked += probe.connect_ex((broker.host, broker.port)) != 0
    admin.create_topics([NewTopic(TOPIC, 3, 3)])
    with Producer(**how) as producer:
        for number in range(3000):
            producer.send(TOPIC, b"%d" % number, partition=number % 3)
        producer.flush(30)
    partitions = [TopicPartition(TOPIC, number) for number in range(3)]
    ends = admin.list_offsets({partition: "latest" for partition in partitions})
    got: dict[int, list[int]] = {0: [], 1: [], 2: []}
    with Consumer(TOPIC, auto_offset_reset="earliest", **how) as consumer:
        while sum(map(len, got.values())) < 3000:
            for record in consumer.poll(5):
                got[record.partition].append(int(record.value))
    admin.delete_records({partitions[0]: 10})
    starts = admin.list_offsets({partitions[0]: "earliest"})
    print(  # noqa: T201
        json.dumps(
            {
                "brokers": len(brokers),
                "blocked": blocked,
                "ends": [end.offset if (end := ends[p]) else None for p in partitions],
                "in order": all(got[n] == list(range(n, 3000, 3)) for n in got),
                "start": first.offset if (first := starts[partitions[0]]) else None,
            }
        )
    )
