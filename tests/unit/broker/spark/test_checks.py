"""Spark settings under which a broker would die, be doubled or not be restarted are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog_broker.process.addresses import Address
from pylog_broker.spark.checks import gateway_problems, master_host, open_doors, problems

ROOT = Path(__file__).parents[4]


def conf_file(name: str) -> dict[str, str]:
    lines = (ROOT / "spark-conf" / name).read_text().splitlines()
    pairs = (line.split(None, 1) for line in lines if line and not line.startswith("#"))
    return {key: value.split("#")[0].strip() for key, value in pairs}


def test_the_shipped_local_configuration_is_fine() -> None:
    assert problems(conf_file("local.conf"), brokers=3) == []


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://api:6443"])
def test_the_shipped_cluster_configuration_is_fine(master: str) -> None:
    assert problems({**conf_file("cluster.conf"), "spark.master": master}, brokers=3) == []


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"spark.speculation": "true"}, "spark.speculation"),
        ({"spark.dynamicAllocation.enabled": "true"}, "spark.dynamicAllocation.enabled"),
        ({"spark.python.worker.reuse": "true"}, "spark.python.worker.reuse"),
        ({"spark.executor.pyspark.memory": "1g"}, "spark.executor.pyspark.memory"),
        ({"spark.task.maxFailures": "4"}, "spark.task.maxFailures"),
        ({"spark.task.cpus": "2"}, "spark.task.cpus"),
        ({"spark.deploy.maxExecutorRetries": "10"}, "spark.deploy.maxExecutorRetries"),
        ({"spark.master": "local-cluster[2,1,512]"}, "spark.master"),
        ({"spark.master": "local[2,1000000]"}, "spark.master"),
        ({"spark.master": "local[3]"}, "spark.master"),
        ({"spark.master": "local[2]"}, "spark.master"),
        ({"spark.master": "local"}, "spark.master"),
        ({"spark.master": "yarn"}, "spark.executor.maxNumFailures"),
    ],
)
def test_each_wrong_setting_is_named_alone(change: dict[str, str], key: str) -> None:
    found = problems({**conf_file("local.conf"), **change}, brokers=3)
    assert [problem.key for problem in found] == [key]
    assert str(found[0]).startswith(f"{key}=")


SAFE = {"spark.authenticate": "true", "spark.ui.enabled": "false"}
HERE = {"spark.master": "local-cluster[3,1,512]", "spark.driver.bindAddress": "127.0.0.1"}


@pytest.mark.parametrize(
    ("conf", "begins"),
    [
        (SAFE, []),
        ({}, ["spark.authenticate is not set", "the Spark UI asks nobody"]),
        ({**SAFE, "spark.authenticate": "false"}, ["spark.authenticate is not set"]),
        ({**SAFE, "spark.ui.enabled": "TRUE"}, ["the Spark UI asks nobody"]),
        ({**SAFE, "spark.ui.enabled": "true", "spark.ui.filters": "a.Filter"}, []),
        (HERE, []),
        ({**HERE, "spark.master": "spark://h:7077"}, ["spark.authenticate", "the Spark UI"]),
        ({**HERE, "spark.driver.bindAddress": "0.0.0.0"}, ["spark.authenticate", "the Spark UI"]),
        ({"spark.master": "local[3,9]", "spark.driver.host": "localhost"}, []),
    ],
)
def test_what_spark_offers_to_strangers_is_told(conf: dict[str, str], begins: list[str]) -> None:
    told = open_doors({"spark.master": "yarn", **conf})
    assert [text.startswith(begin) for text, begin in zip(told, begins, strict=True)] == [
        True for _ in begins
    ]


@pytest.mark.parametrize("name", ["cluster.conf", "standalone.conf"])
def test_the_shipped_configurations_keep_strangers_from_sparks_ports(name: str) -> None:
    conf = conf_file(name)
    assert conf["spark.authenticate"] == conf["spark.network.crypto.enabled"] == "true"
    assert conf["spark.network.crypto.cipher"] == "AES/GCM/NoPadding"
    assert conf["spark.network.crypto.saslFallback"] == "false"
    assert conf["spark.ui.killEnabled"] == "false"
    assert "spark.authenticate.secret" not in conf, "everybody would know it"
    if name == "standalone.conf":
        assert conf["spark.master.rest.enabled"] == "false"
        assert conf["spark.deploy.maxExecutorRetries"] == "-1"
    else:
        assert conf["spark.ui.enabled"] == "false"


def test_the_shipped_configurations_leave_no_door_open() -> None:
    assert open_doors(conf_file("local.conf")) == []
    for master in ("yarn", "spark://h:7077", "k8s://https://api:6443"):
        assert open_doors({**conf_file("cluster.conf"), "spark.master": master}) == []
    assert any("kill links" in text for text in open_doors({"spark.master": "yarn"}))


@pytest.mark.parametrize(
    ("master", "host"),
    [
        ("spark://host:7077", "host"),
        ("spark://10.0.0.1:7077,10.0.0.2:7077", "10.0.0.1"),
        ("spark://[::1]:7077", "::1"),
        ("yarn", ""),
        ("k8s://https://api:6443", ""),
        ("local-cluster[3,1,512]", ""),
    ],
)
def test_where_a_master_is(master: str, host: str) -> None:
    assert master_host(master) == host


@pytest.mark.parametrize("master", ["yarn", "k8s://https://api:6443", "spark://other:7077"])
def test_a_gateway_that_brokers_cannot_reach_is_refused(master: str) -> None:
    """Bad input 51: loopback, and localhost as the name, on a cluster of several machines."""
    here = Address("127.0.0.1", 9092)
    (found,) = gateway_problems(master, here, None, master_is_here=False)
    assert str(found).startswith("spark.pylog.listen=127.0.0.1:9092: set it to 0.0.0.0:9092")
    anywhere = Address("0.0.0.0", 9092)
    (found,) = gateway_problems(master, anywhere, "localhost", master_is_here=False)
    assert str(found).startswith("spark.pylog.advertised.host=localhost: set it to this host's")
    assert gateway_problems(master, anywhere, "gw.example", master_is_here=False) == []


def test_loopback_is_fine_where_everything_is_on_this_machine() -> None:
    here = Address("127.0.0.1", 9092)
    assert gateway_problems("local-cluster[3,1,512]", here, None, master_is_here=False) == []
    assert gateway_problems("spark://me:7077", here, "localhost", master_is_here=True) == []
