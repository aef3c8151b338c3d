"""The bytes of fetch requests are protobuf's."""

from __future__ import annotations

import random
from collections import deque

from pylog.client.fetching.fetch_events import FetchItem
from pylog.client.fetching.fetch_requests import (
    STANDING_ANSWERS,
    STANDING_BYTES,
    FetchRequests,
    pack_encoded,
)
from pylog.model import TopicPartition
from pylog.rpc.v1 import log_pb2

NUMBERS = (0, 1, 127, 128, 300, 16_383, 16_384, 2**31 - 1)


def test_the_bytes_are_those_of_protobuf() -> None:
    rng = random.Random(5)
    for _ in range(500):
        numbers = [rng.choice(NUMBERS) for _ in range(4)]
        committed = rng.random() < 0.5
        client, rack = rng.choice(("", "c", "ü" * 80)), rng.choice(("", "rack"))
        correlation = rng.choice((*NUMBERS, 2**63, 2**64 - 1))
        items = [
            FetchItem(
                TopicPartition(rng.choice(("t", "a" * 249)), rng.choice(NUMBERS)),
                rng.choice(("", "AAAAAAAAAAAAAAAAAAAAAA")),
                rng.choice((*NUMBERS, 2**63 - 1)),
                rng.choice((-1, *NUMBERS)),
                rng.choice((-1, *NUMBERS)),
            )
            for _ in range(rng.randrange(4))
        ]
        expected = log_pb2.FetchRequest(
            correlation=correlation,
            max_wait_ms=numbers[0],
            min_bytes=numbers[1],
            max_bytes=numbers[2],
            isolation_level="READ_COMMITTED" if committed else "READ_UNCOMMITTED",
            client_id=client,
            rack_id=rack,
            standing_answers=STANDING_ANSWERS,
            standing_bytes=min(STANDING_BYTES, numbers[2], numbers[3]),
            partitions=[
                log_pb2.PartitionFetch(
                    topic=item.topic_partition.topic,
                    topic_id=item.topic_id,
                    partition=item.topic_partition.partition,
                    fetch_offset=item.offset,
                    max_bytes=numbers[3],
                    current_leader_epoch=item.leader_epoch,
                    last_fetched_epoch=item.last_epoch,
                )
                for item in items
            ],
        )
        requests = FetchRequests(
            min_bytes=numbers[1],
            max_bytes=numbers[2],
            partition_bytes=numbers[3],
            read_committed=committed,
            client_id=client,
            rack=rack,
        )
        encoded = requests.encode(correlation, numbers[0], items)
        assert encoded == expected.SerializeToString()


def test_each_request_is_a_message() -> None:
    queue = deque([b"1", b"2"])
    assert pack_encoded(queue) == ([b"1"], None)
    assert list(queue) == [b"2"]
