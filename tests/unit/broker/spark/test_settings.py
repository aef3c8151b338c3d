"""`spark.pylog.*`: defaults, what goes to the brokers, and what is refused."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog_broker.spark.settings import parse_settings


def test_defaults_and_a_data_directory_relative_to_the_submitting_host() -> None:
    settings = parse_settings({}, submit_dir="/home/me", master="local-cluster[3,1,512]")
    assert (settings.brokers, settings.listen) == (3, "127.0.0.1:9092")
    assert settings.data_dir == "/home/me/pylog-data"
    assert settings.broker_config == {}


def test_broker_configuration_goes_through_under_kafkas_names() -> None:
    settings = parse_settings(
        {
            "spark.pylog.broker.min.insync.replicas": "2",
            "spark.pylog.broker.listen": "127.0.0.1:5000",
            "spark.executor.memory": "1g",
        },
        submit_dir="/",
        master="local[3,1000000]",
    )
    assert settings.broker_config == {"min.insync.replicas": "2"}
    assert settings.broker_listen == "127.0.0.1:5000"
    assert settings.stream_listen is None


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"spark.pylog.broker": "3"}, "spark.pylog.brokers"),
        ({"spark.pylog.brokers": "0"}, "from 1 to 1000"),
        ({"spark.pylog.brokers": "three"}, "spark.pylog.brokers='three'"),
        ({"spark.pylog.allow.plaintext": "yes"}, "true or false"),
    ],
)
def test_a_wrong_setting_names_key_value_and_remedy(conf: dict[str, str], words: str) -> None:
    with pytest.raises(errors.InvalidConfig, match=words):
        parse_settings(conf, submit_dir="/", master="local[3,1000000]")


def test_a_real_cluster_needs_an_absolute_data_directory() -> None:
    with pytest.raises(errors.InvalidConfig, match="set an absolute path"):
        parse_settings({}, submit_dir="/home/me", master="spark://host:7077")


def test_a_listener_of_a_later_version_is_refused_not_ignored() -> None:
    with pytest.raises(errors.NotOffered, match=r"spark\.pylog\.kafka\.listen"):
        parse_settings(
            {"spark.pylog.kafka.listen": "127.0.0.1:9094"},
            submit_dir="/",
            master="local[3,1000000]",
        )


def test_metrics_are_the_brokers_setting_under_another_name() -> None:
    settings = parse_settings(
        {"spark.pylog.metrics.listen": "127.0.0.1:9500"}, submit_dir="/", master="local[3,1000000]"
    )
    assert settings.broker_config == {"metrics.listen": "127.0.0.1:9500"}
    with pytest.raises(errors.InvalidConfig, match="are the same setting"):
        parse_settings(
            {
                "spark.pylog.metrics.listen": "127.0.0.1:9500",
                "spark.pylog.broker.metrics.listen": "127.0.0.1:9600",
            },
            submit_dir="/",
            master="local[3,1000000]",
        )


@pytest.mark.parametrize("listen", ["", "127.0.0.1:5001"])
def test_the_listener_of_streams_is_no_setting_of_kafkas(listen: str) -> None:
    settings = parse_settings(
        {"spark.pylog.broker.stream.listen": listen}, submit_dir="/", master="local[3,1000000]"
    )
    assert (settings.stream_listen, settings.broker_config) == (listen, {})
