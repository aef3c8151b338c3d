"""Write `kafka_python/`, `aiokafka/` and `confluent_kafka/`: batches made by other clients, checked
in.

    python -m venv SCRATCH
    SCRATCH/bin/pip install kafka-python==3.0.12 aiokafka==0.14.0 confluent-kafka==2.16.1 \\
        cramjam==2.14.0 python-snappy==0.7.3 lz4==4.4.5 zstandard==0.25.0 crc32c==2.9.post0
    SCRATCH/bin/python -m tests.golden.make_clients

The first two are asked for a batch directly. confluent-kafka (librdkafka 2.16.0) writes to a mock
broker in its own process, whose log is fetched. Run it again only to add cases; the files must not
change with a version of pylog.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from confluent_kafka import Producer
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from tests.golden.client_cases import CASES, Case
from tests.golden.mock_cluster import MockCluster

HERE = Path(__file__).parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def built(builder_type: Any, case: Case) -> bytes:
    """The batch as kafka-python and aiokafka, its relative, write it."""
    producer_id, producer_epoch, base_sequence = case.producer
    builder = builder_type(
        magic=2,
        compression_type=case.codec,
        is_transactional=int(case.transactional),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=1 << 24,
    )
    for offset, (key, value, timestamp, headers) in enumerate(case.rows):
        appended = builder.append(offset, timestamp, key, value, list(headers))
        assert appended is not None
    return bytes(builder.build())


def produced(cluster: MockCluster, case: Case) -> bytes:
    """The batch as librdkafka writes it; producer ids are the mock broker's."""
    topic = f"topic-{case.name}"
    config: dict[str, Any] = {
        "bootstrap.servers": cluster.address,
        "compression.codec": CODECS[case.codec],
        "linger.ms": 1_000,
        "enable.idempotence": case.producer[0] >= 0,
        "log_level": 3,
    }
    if case.transactional:
        config["transactional.id"] = topic
    producer = Producer(config)
    if case.transactional:
        producer.init_transactions(10)
        producer.begin_transaction()
    for key, value, timestamp, headers in case.rows:
        producer.produce(
            topic, value, key, 0, timestamp=timestamp, headers=list(headers) if headers else None
        )
    assert producer.flush(20) == 0
    if case.transactional:
        producer.commit_transaction(10)
    return cluster.fetch(topic)


def main() -> None:
    """Write every case for every client that can make it."""
    cluster = MockCluster()
    for case in CASES:
        made = {
            "aiokafka": lambda case=case: built(AiokafkaBuilder, case),
            "confluent_kafka": lambda case=case: produced(cluster, case),
        }
        if not case.null_headers:
            made["kafka_python"] = lambda case=case: built(KafkaPythonBuilder, case)
        for client, make in made.items():
            folder = HERE / client
            folder.mkdir(exist_ok=True)
            (folder / f"{case.name}.bin").write_bytes(make())


if __name__ == "__main__":
    main()
