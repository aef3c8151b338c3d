"""Settings that change on a running broker: what its logs and its leaders go by."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId
from pylog_broker.config import TopicConfig
from pylog_broker.metadata.records import ConfigRecord, ConfigResourceType
from pylog_broker.replication.effects import ProduceDone
from tests.fakes.broker_group import T0, BrokerGroup

TOPIC, BROKER, CLUSTER = (
    ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.CLUSTER,
)  # fmt: skip


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path)
    group.create_topic()
    group.run()
    return group


def change(
    group: BrokerGroup, kind: ConfigResourceType, name: str, key: str, value: object
) -> None:
    group.append(ConfigRecord(kind, name, key, None if value is None else str(value)))
    group.tell()
    group.run()


def config(group: BrokerGroup, broker: int) -> TopicConfig:
    log = group.logs[BrokerId(broker)].get(T0)
    assert log is not None
    return log.config


def segment_bytes(group: BrokerGroup) -> list[int]:
    return [config(group, broker).segment_bytes for broker in (1, 2, 3)]


def test_the_topic_over_the_broker_over_the_cluster(group: BrokerGroup) -> None:
    default = TopicConfig().segment_bytes
    assert segment_bytes(group) == [default] * 3
    change(group, CLUSTER, "", "log.segment.bytes", 4000)
    assert segment_bytes(group) == [4000] * 3
    change(group, BROKER, "2", "log.segment.bytes", 5000)
    assert segment_bytes(group) == [4000, 5000, 4000]
    change(group, TOPIC, "t", "segment.bytes", 6000)
    assert segment_bytes(group) == [6000] * 3
    change(group, TOPIC, "t", "segment.bytes", None)
    assert segment_bytes(group) == [4000, 5000, 4000]
    change(group, CLUSTER, "", "log.segment.bytes", None)
    change(group, BROKER, "2", "log.segment.bytes", None)
    assert segment_bytes(group) == [default] * 3


def test_they_hold_after_a_restart(group: BrokerGroup) -> None:
    change(group, CLUSTER, "", "log.segment.bytes", 4000)
    change(group, BROKER, "2", "log.segment.bytes", 5000)
    group.start(BrokerId(2))
    group.run()
    assert segment_bytes(group) == [4000, 5000, 4000]


def test_what_a_newer_version_wrote_does_not_stop_a_broker(group: BrokerGroup) -> None:
    change(group, CLUSTER, "", "log.segment.colour", "blue")
    change(group, TOPIC, "t", "segment.colour", "blue")
    change(group, TOPIC, "t", "segment.bytes", 6000)
    assert segment_bytes(group) == [6000] * 3


def test_the_largest_batch_changes_between_two_produces(group: BrokerGroup) -> None:
    def outcome(size: int) -> int:
        token = group.produce(1, b"x" * size)
        group.run()
        done = group.answers[token]
        assert isinstance(done, ProduceDone)
        failure = done.acks[0].failure
        return 0 if failure is None else failure.code

    assert outcome(5_000) == 0
    change(group, CLUSTER, "", "message.max.bytes", 2_000)
    assert outcome(5_000) == errors.MessageTooLarge.code
    change(group, TOPIC, "t", "max.message.bytes", 10_000)
    assert outcome(5_000) == 0
    change(group, TOPIC, "t", "max.message.bytes", None)
    assert outcome(5_000) == errors.MessageTooLarge.code


def test_what_the_storage_reads_changes_too(group: BrokerGroup) -> None:
    logs = group.logs[BrokerId(2)]
    assert logs.config.producer_id_expiration_ms == 86_400_000
    change(group, CLUSTER, "", "producer.id.expiration.ms", 300_000)
    assert logs.config.producer_id_expiration_ms == 300_000
    change(group, BROKER, "2", "log.cleaner.backoff.ms", 7)
    cleaner = logs.live[0].cleaner
    assert (cleaner.config.log_cleaner_backoff_ms, logs.config.num_partitions) == (7, 1)
    change(group, BROKER, "2", "num.partitions", 9)  # read at the start only
    assert logs.config.num_partitions == 1
