"""The value of a setting that holds, and the sources of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pylog import errors
from pylog.config import ConfigKey, ConfigTable
from pylog.model import BrokerEpoch, BrokerId, Offset, TopicId
from pylog_broker import config as config_module
from pylog_broker.config import BROKER_CONFIG, TOPIC_CONFIG
from pylog_broker.group_settings import GROUP_CONFIG
from pylog_broker.metadata import config_view
from pylog_broker.metadata.admin import ConfigEntry, ConfigSource, ConfigsQuestion, ConfigValue
from pylog_broker.metadata.config_view import describe
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.records import (
    ConfigRecord,
    ConfigResourceType,
    Endpoint,
    RegisterBrokerRecord,
    TopicRecord,
    usual_listeners,
)

TOPIC, BROKER, CLUSTER = (
    ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.CLUSTER,
)  # fmt: skip
GROUP = ConfigResourceType.GROUP
STATIC = {"log.segment.bytes": "4000", "num.partitions": "3"}


@pytest.fixture
def image() -> MetadataImage:
    broker = RegisterBrokerRecord(
        BrokerId(1), BrokerEpoch(0), "i", "h", None,
        usual_listeners(Endpoint("h", 1), Endpoint("h", 2)), "d", "b",
        static_config=tuple(STATIC.items()),
    )  # fmt: skip
    records = (
        broker,
        TopicRecord("t", TopicId("A" * 22)),
        ConfigRecord(CLUSTER, "", "log.segment.bytes", "5000"),
        ConfigRecord(BROKER, "1", "log.segment.bytes", "6000"),
        ConfigRecord(TOPIC, "t", "segment.bytes", "7000"),
    )
    return MetadataImage.from_records(records, Offset(4))


def entry(image: MetadataImage, kind: ConfigResourceType, name: str, key: str) -> ConfigEntry:
    described = describe(image, STATIC, ConfigsQuestion(kind, name, (key,)))
    assert described.failure is None
    (found,) = described.entries
    return found


def test_a_topics_value_stands_over_the_clusters_the_start_and_the_default(
    image: MetadataImage,
) -> None:
    found = entry(image, TOPIC, "t", "segment.bytes")
    assert (found.value, found.source) == ("7000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert (found.read_only, found.sensitive, found.type) == (False, False, "int")
    assert found.synonyms == (
        ConfigValue("segment.bytes", "7000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ConfigValue("log.segment.bytes", "5000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ConfigValue("log.segment.bytes", "4000", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigValue("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG),
    )


def test_a_groups_value_stands_over_what_brokers_were_started_with(image: MetadataImage) -> None:
    image.configs[GROUP, "g"] = {"consumer.session.timeout.ms": "50000"}
    static = {"group.consumer.session.timeout.ms": "46000"}
    name = "consumer.session.timeout.ms"
    described = describe(image, static, ConfigsQuestion(GROUP, "g"))
    assert [each.name for each in described.entries] == [key.name for key in GROUP_CONFIG]
    found = next(each for each in described.entries if each.name == name)
    assert (found.value, found.source, found.read_only, found.type) == (
        "50000", ConfigSource.DYNAMIC_GROUP_CONFIG, False, "int",
    )  # fmt: skip
    assert found.synonyms == (
        ConfigValue(name, "50000", ConfigSource.DYNAMIC_GROUP_CONFIG),
        ConfigValue(f"group.{name}", "46000", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigValue(f"group.{name}", "45000", ConfigSource.DEFAULT_CONFIG),
    )
    found = entry(image, GROUP, "other", "share.auto.offset.reset")
    assert (found.value, found.source) == ("latest", ConfigSource.DEFAULT_CONFIG)


def test_a_brokers_value_stands_over_the_clusters(image: MetadataImage) -> None:
    found = entry(image, BROKER, "1", "log.segment.bytes")
    assert [(s.value, s.source) for s in found.synonyms] == [
        ("6000", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("5000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("4000", ConfigSource.STATIC_BROKER_CONFIG),
        ("1073741824", ConfigSource.DEFAULT_CONFIG),
    ]
    found = entry(image, BROKER, "1", "num.partitions")
    assert (found.value, found.source, found.read_only) == (
        "3", ConfigSource.STATIC_BROKER_CONFIG, True,
    )  # fmt: skip
    found = entry(image, BROKER, "1", "broker.rack")
    assert (found.value, found.source) == (None, ConfigSource.DEFAULT_CONFIG)


def test_all_settings_of_a_resource_and_only_the_set_ones_of_the_cluster(
    image: MetadataImage,
) -> None:
    def names(kind: ConfigResourceType, name: str) -> list[str]:
        return [e.name for e in describe(image, STATIC, ConfigsQuestion(kind, name)).entries]

    assert names(TOPIC, "t") == [key.name for key in TOPIC_CONFIG]
    assert names(BROKER, "1") == [key.name for key in BROKER_CONFIG]
    assert names(CLUSTER, "") == ["log.segment.bytes"]


@pytest.mark.parametrize(
    ("kind", "name", "keys", "error", "words"),
    [
        (TOPIC, "no", None, errors.UnknownTopicOrPartition, "topic no: it does not exist"),
        (TOPIC, "t", ("segment.byte",), errors.InvalidConfig, "did you mean segment.bytes?"),
        (BROKER, "9", None, errors.InvalidRequest, "no broker '9' is registered; there are: 1"),
        (BROKER, "٣", None, errors.InvalidRequest, "no broker"),
        (BROKER, "9" * 5000, None, errors.InvalidRequest, "no broker"),
        (GROUP, "", None, errors.InvalidRequest, "a group's settings need the group's name"),
        (GROUP, "g", ("segment.bytes",), errors.InvalidConfig, "unknown group setting"),
        (CLUSTER, "x", None, errors.InvalidRequest, "have no name, not 'x'"),
    ],
)
def test_what_is_not_there_is_named(
    image: MetadataImage,
    kind: ConfigResourceType,
    name: str,
    keys: tuple[str, ...] | None,
    error: type[errors.PylogError],
    words: str,
) -> None:
    described = describe(image, STATIC, ConfigsQuestion(kind, name, keys))
    assert described.failure is not None
    assert described.failure.code == error.code
    assert words in described.failure.message
    assert described.entries == ()


def test_a_secret_is_never_shown(image: MetadataImage, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = ConfigKey("segment.bytes", str, None, "A password.", sensitive=True)
    monkeypatch.setattr(config_view, "TOPIC_CONFIG", ConfigTable([secret]))
    found = entry(image, TOPIC, "t", "segment.bytes")
    assert (found.value, found.sensitive, found.type) == (None, True, "password")
    assert {synonym.value for synonym in found.synonyms} == {None}
    monkeypatch.setattr(config_module, "BROKER_CONFIG", ConfigTable([replace(secret, name="k")]))
    assert config_module.without_secrets({"k": "s3cret"}) == ()
