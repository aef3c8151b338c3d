"""Every setting of Apache Kafka 4.2 has a verdict, and each verdict is what happens."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pylog import errors, kafka_settings
from pylog.client.consumer.consumer_settings import parse_settings
from pylog.client.settings import (
    ADMIN_SETTINGS,
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    SHARE_CONSUMER_SETTINGS,
)
from pylog.config import REQUIRED, ConfigTable
from pylog.kafka_settings import KafkaSettings, Verdict
from pylog_broker.config import BROKER_CONFIG, TOPIC_CONFIG, BrokerConfig, without_secrets
from pylog_connector.errors import ConnectorError, UnknownOption
from pylog_connector.option_names import check_names
from pylog_connector.options import source_options, without_effect

NAMES = Path(__file__).resolve().parents[2] / "golden/kafka_settings"

KINDS: dict[str, tuple[ConfigTable, KafkaSettings]] = {
    "producer": (PRODUCER_SETTINGS, kafka_settings.PRODUCER),
    "consumer": (CONSUMER_SETTINGS, kafka_settings.CONSUMER),
    "share consumer": (SHARE_CONSUMER_SETTINGS, kafka_settings.SHARE_CONSUMER),
    "admin": (ADMIN_SETTINGS, kafka_settings.ADMIN),
    "topic": (TOPIC_CONFIG, kafka_settings.TOPIC),
    "broker": (BROKER_CONFIG, kafka_settings.BROKER),
}
WITHOUT_AND_IN_THE_TABLE = {"client.rack"}
"""Checked and sent along, though nobody looks at it."""


def kafkas(kind: str) -> list[str]:
    kind = "consumer" if kind == "share consumer" else kind  # Kafka has one list for both
    return (NAMES / f"{kind}.txt").read_text().split()


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_of_kafka_has_one_verdict(kind: str) -> None:
    table, settings = KINDS[kind]
    names = kafkas(kind)
    assert len(names) > 30
    without = [name for name in names if name not in table and settings.ruling(name) is None]
    assert without == []
    works = {key.name for key in table} - WITHOUT_AND_IN_THE_TABLE
    assert not works & {*settings.without_effect, *settings.refused}
    assert not set(settings.without_effect) & set(settings.refused)


@pytest.mark.parametrize("kind", KINDS)
def test_each_verdict_is_what_happens(kind: str) -> None:
    table, settings = KINDS[kind]
    for name in {*kafkas(kind), *settings.without_effect, *settings.refused} - {
        key.name for key in table
    }:
        ruling = settings.ruling(name)
        assert ruling is not None
        spelled = table.spelled(name)
        if ruling.verdict is Verdict.WITHOUT_EFFECT:
            assert table.parse_given({spelled: "x"}) == {}
            [line] = table.without_effect({spelled: "x"})
            assert line.endswith(f"{spelled} is taken without effect: {ruling.reason}")
            with pytest.raises(errors.InvalidConfig, match="has no effect here"):
                table[spelled]
        else:
            with pytest.raises(errors.InvalidConfig) as told:
                table.parse_given({spelled: "x"})
            assert f"{spelled} is not taken: {ruling.reason}" in str(told.value)
            assert table.without_effect({spelled: "x"}) == []


@pytest.mark.parametrize("kind", ["producer", "consumer", "share consumer", "admin"])
def test_a_client_says_once_what_it_takes_without_effect(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    table, _ = KINDS[kind]
    required = {key.name.replace(".", "_"): "h:1" for key in table if key.default is REQUIRED}
    with caplog.at_level(logging.WARNING):
        values = table.parse({**required, "metric_reporters": "org.example.Reporter"})
    assert "metric.reporters" not in values
    [line] = [record.getMessage() for record in caplog.records]
    assert line == (
        f"{'admin client' if kind == 'admin' else kind} setting metric_reporters is taken without "
        "effect: metrics() tells the metrics, which nothing else reports or samples"
    )


def test_a_reset_policy_is_taken_in_any_case() -> None:
    values = parse_settings("h:1", None, {"auto_offset_reset": "Earliest"})
    assert values["auto.offset.reset"] == "earliest"


def test_a_name_that_is_nobodys_is_told_the_nearest() -> None:
    for table, wrong, right in (
        (PRODUCER_SETTINGS, "linger_msec", "linger_ms"),
        (CONSUMER_SETTINGS, "metric_reporter", "metric_reporters"),
        (BROKER_CONFIG, "num.io.thread", "num.io.threads"),
        (TOPIC_CONFIG, "retention.mss", "retention.ms"),
    ):
        with pytest.raises(errors.InvalidConfig, match=f"did you mean {right}\\?"):
            table.parse_given({wrong: "1"})


def test_a_broker_starts_with_a_properties_file_that_it_need_not_honour() -> None:
    given = {"num.io.threads": "8", "queued.max.requests": "500", "log.segment.bytes": "2048"}
    config = BrokerConfig.from_mapping(given)
    assert config.topic.segment_bytes == 2048
    assert without_secrets(given) == (("log.segment.bytes", "2048"),)
    assert len(BROKER_CONFIG.without_effect(given)) == 2


def test_the_spark_format_goes_by_the_same_table() -> None:
    read = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
    rack = {**read, "pylog.client.rack": "a", "kafka.metric.reporters": "x"}
    assert "client.rack" not in source_options(rack, streaming=True).client
    told = without_effect(rack, sink=False)
    assert told["pylog.client.rack"] == "tasks read from leaders only"
    assert "kafka.metric.reporters" in told


@pytest.mark.parametrize("name", sorted({*kafkas("producer"), *kafkas("consumer")}))
def test_no_setting_of_kafkas_clients_is_unknown_to_the_spark_format(name: str) -> None:
    try:
        check_names({f"pylog.{name}": "x"})
    except UnknownOption as error:
        raise AssertionError(name) from error
    except ConnectorError:
        pass  # refused, with a reason
