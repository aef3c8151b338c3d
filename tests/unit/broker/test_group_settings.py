"""Settings of single groups: what they take, and what holds where bounds have moved."""

from __future__ import annotations

import pytest

from pylog.errors import InvalidConfig
from pylog_broker.config import BROKER_CONFIG, BrokerConfig
from pylog_broker.group_settings import (
    BOUNDS,
    BROKER_NAMES,
    GROUP_CONFIG,
    GroupSettings,
    SameSettings,
)

BROKER = BrokerConfig()


def test_the_names_are_kafkas() -> None:
    of_42 = {
        "consumer.heartbeat.interval.ms",
        "consumer.session.timeout.ms",
        "share.auto.offset.reset",
        "share.heartbeat.interval.ms",
        "share.isolation.level",
        "share.record.lock.duration.ms",
        "share.session.timeout.ms",
        "streams.heartbeat.interval.ms",
        "streams.initial.rebalance.delay.ms",
        "streams.num.standby.replicas",
        "streams.session.timeout.ms",
    }
    later = {
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.topic.name",
        "share.delivery.count.limit",
        "share.partition.max.record.locks",
        "share.renew.acknowledge.enable",
    }
    assert {key.name for key in GROUP_CONFIG} == of_42 | later


def test_a_group_without_values_goes_by_the_brokers() -> None:
    assert GroupSettings.of_broker(BROKER) == GroupSettings()
    config = BrokerConfig.from_mapping({"group.streams.num.standby.replicas": "2"})
    assert GroupSettings.of_broker(config) == GroupSettings(streams_num_standby_replicas=2)
    assert SameSettings().of("g") == GroupSettings()


def test_every_default_and_bound_is_a_setting_of_brokers() -> None:
    for name, broker_name in BROKER_NAMES.items():
        assert GROUP_CONFIG[name].default == BROKER_CONFIG[broker_name].default
    for bounds in BOUNDS.values():
        assert [bound for bound in bounds if bound is not None and bound not in BROKER_CONFIG] == []


def test_own_values_stand_over_the_brokers() -> None:
    own = {
        "consumer.session.timeout.ms": "50000",
        "share.auto.offset.reset": "by_duration:P1DT2H3.5S",
        "share.isolation.level": "read_committed",
    }
    expected = GroupSettings(
        consumer_session_timeout_ms=50_000,
        share_auto_offset_reset="by_duration:P1DT2H3.5S",
        share_isolation_level="read_committed",
    )
    assert GroupSettings.from_mapping(own, BROKER) == expected
    assert GroupSettings.resolve(own, BROKER) == expected


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("consumer.session.timeout.ms", "44999", "below the brokers' group.consumer.min.session"),
        ("consumer.session.timeout.ms", "60001", "above the brokers' group.consumer.max.session"),
        ("consumer.heartbeat.interval.ms", "4999", "group.consumer.min.heartbeat.interval.ms=5000"),
        ("share.heartbeat.interval.ms", "15001", "group.share.max.heartbeat.interval.ms=15000"),
        ("share.record.lock.duration.ms", "14999", "group.share.min.record.lock.duration.ms=15000"),
        ("share.record.lock.duration.ms", "60001", "group.share.max.record.lock.duration.ms=60000"),
        ("share.auto.offset.reset", "newest", "it must be earliest, latest, or by_duration:"),
        ("share.auto.offset.reset", "by_duration:P", "ISO 8601"),
        ("share.auto.offset.reset", "by_duration:PT", "ISO 8601"),
        ("share.auto.offset.reset", "by_duration:-PT1H", "ISO 8601"),
        ("share.auto.offset.reset", "by_duration:P1DT", "ISO 8601"),
        ("errors.deadletterqueue.topic.name", "jobs", "begins with 'dlq.' (errors.deadletterqueue"),
        ("errors.deadletterqueue.topic.name", "__jobs", "has the name of an internal one"),
        ("errors.deadletterqueue.topic.name", "dlq.a b", "dlq.a b"),
        ("errors.deadletterqueue.copy.record.enable", "1", "true or false"),
        ("share.isolation.level", "snapshot", "one of read_committed, read_uncommitted"),
        ("share.delivery.count.limit", "1", "from 2 to 10"),
        ("streams.num.standby.replicas", "3", "above the brokers' group.streams.max.standby"),
        ("streams.session.timeout.ms", "x", "a whole number"),
        ("streams.session.timeout", "5", "did you mean streams.session.timeout.ms"),
        ("session.timeout.ms", "5", "unknown group setting session.timeout.ms"),
    ],
)
def test_refusals_name_the_setting_and_its_limit(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as told:
        GroupSettings.from_mapping({name: value}, BROKER)
    assert words in str(told.value)


def test_a_heartbeat_comes_before_the_session_ends() -> None:
    config = BrokerConfig.from_mapping({"group.share.min.session.timeout.ms": "6000"})
    own = {"share.session.timeout.ms": "7000", "share.heartbeat.interval.ms": "7000"}
    with pytest.raises(InvalidConfig, match=r"share.heartbeat.interval.ms=7000 must be below"):
        GroupSettings.from_mapping(own, config)


def test_what_holds_lies_within_bounds_that_have_moved() -> None:
    config = BrokerConfig.from_mapping(
        {
            "group.consumer.min.session.timeout.ms": "50000",
            "group.consumer.session.timeout.ms": "55000",
            "group.streams.max.standby.replicas": "1",
        }
    )
    own = {
        "consumer.session.timeout.ms": "45000",
        "streams.num.standby.replicas": "2",
        "share.auto.offset.reset": "of a later version",
        "share.later.setting": "1",
    }
    assert GroupSettings.resolve(own, config) == GroupSettings(
        consumer_session_timeout_ms=50_000, streams_num_standby_replicas=1
    )
