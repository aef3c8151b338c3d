"""Kafka's names, defaults and ranges, and how a topic's settings lie over the broker's."""

from __future__ import annotations

import pytest

from pylog.errors import InvalidConfig
from pylog_broker.config import BROKER_CONFIG, BROKER_NAMES, TOPIC_CONFIG, BrokerConfig, TopicConfig


def test_defaults_of_the_tables_are_those_of_the_classes() -> None:
    assert TopicConfig.from_mapping({}) == TopicConfig()
    assert BrokerConfig.from_mapping({}) == BrokerConfig()
    texts = {name: text for name, text in BrokerConfig().to_mapping().items() if text is not None}
    assert BrokerConfig.from_mapping(texts) == BrokerConfig()
    assert TopicConfig.from_mapping(TopicConfig().to_mapping()) == TopicConfig()
    for key in TOPIC_CONFIG:
        if key.name in BROKER_NAMES:
            assert BROKER_CONFIG[BROKER_NAMES[key.name]].default == key.default
        value = getattr(TopicConfig(), key.name.replace(".", "_"))
        assert value == (tuple(key.default) if isinstance(key.default, list) else key.default)
    for key in BROKER_CONFIG:
        if key.name not in BROKER_NAMES.values():
            value = getattr(BrokerConfig(), key.name.replace(".", "_"))
            assert value == (tuple(key.default) if isinstance(key.default, list) else key.default)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("log.segment.bytes", 1073741824),
        ("log.index.interval.bytes", 4096),
        ("message.max.bytes", 1048588),
        ("log.retention.ms", 604800000),
        ("log.retention.bytes", -1),
        ("min.insync.replicas", 1),
        ("unclean.leader.election.enable", False),
        ("replica.lag.time.max.ms", 30000),
        ("replica.fetch.max.bytes", 1048576),
        ("leader.imbalance.per.broker.percentage", 10),
        ("socket.request.max.bytes", 104857600),
    ],
)
def test_kafkas_defaults(name: str, default: object) -> None:
    assert BROKER_CONFIG[name].default == default


def test_a_topic_over_a_broker_over_the_defaults() -> None:
    broker = BrokerConfig.from_mapping({"log.segment.bytes": "5000", "min.insync.replicas": "2"})
    topic = TopicConfig.from_mapping(
        {"min.insync.replicas": "3", "cleanup.policy": "compact,delete"}, broker.topic
    )
    assert (topic.segment_bytes, topic.min_insync_replicas) == (5000, 3)
    assert topic.cleanup_policy == ("compact", "delete")
    assert topic.compacted
    assert topic.segment_ms == 604800000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"segment.byte": "1"}, r"segment\.byte; did you mean segment\.bytes\?"),
        ({"segment.bytes": "1"}, r"segment\.bytes='1'.*from 1024 to 2147483647"),
        ({"segment.bytes": "many"}, "segment.bytes='many'"),
        ({"retention.ms": "-2"}, r"retention\.ms='-2'.*at least -1"),
        ({"cleanup.policy": "keep"}, "one of delete, compact"),
        ({"cleanup.policy": ""}, r"cleanup\.policy"),
        ({"compression.type": "none"}, "one of producer, uncompressed, gzip, snappy, lz4, zstd"),
        ({"message.timestamp.type": "createtime"}, "CreateTime, LogAppendTime"),
        ({"unclean.leader.election.enable": "yes"}, "true or false"),
        (
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
            r"min\.compaction\.lag\.ms=9 is above",
        ),
    ],
)
def test_refused_topic_settings(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        TopicConfig.from_mapping(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"log.segment.byte": "1"}, r"did you mean log\.segment\.bytes"),
        ({"broker.session.timeout.ms": "1000"}, "must be below"),
        ({"replica.lag.time.max.ms": "100"}, "out of the ISR"),
        ({"num.partitions": "0"}, "at least|from 1"),
    ],
)
def test_refused_broker_settings(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        BrokerConfig.from_mapping(given)
