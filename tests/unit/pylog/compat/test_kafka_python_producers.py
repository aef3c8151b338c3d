"""kafka-python's producer over a cluster in memory."""

from __future__ import annotations

from typing import Any

import pytest

from pylog.compat.kafka_python import KafkaProducer, OffsetAndMetadata, TopicPartition, errors
from tests.fakes.fake_cluster import FakeCluster

T0 = TopicPartition("t", 0)


def producer(cluster: FakeCluster, **config: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **config)


def test_transactions_are_initialized_once(cluster: FakeCluster) -> None:
    with producer(cluster, transactional_id="x") as p:
        with pytest.raises(errors.IllegalStateError, match="init_transactions"):
            p.send("t", b"v")
        for _ in range(2):
            p.init_transactions()
        with pytest.raises(errors.IllegalStateError, match="begin_transaction"):
            p.send("t", b"v")
        p.begin_transaction()
        for nobody in (None, 5):
            with pytest.raises(TypeError, match="group_metadata"):
                p.send_offsets_to_transaction({T0: OffsetAndMetadata(1)}, nobody)  # type: ignore[arg-type]
        assert p.send("t", b"v", partition=0).get(30).offset == 0
        p.commit_transaction()
