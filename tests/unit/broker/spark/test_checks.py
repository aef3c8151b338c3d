"""Spark settings under which a broker would die, be doubled or not be restarted are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.spark.checks import problems

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
        ({"spark.master": "yarn"}, "spark.executor.maxNumFailures"),
    ],
)
def test_each_wrong_setting_is_named_alone(change: dict[str, str], key: str) -> None:
    found = problems({**conf_file("local.conf"), **change}, brokers=3)
    assert [problem.key for problem in found] == [key]
    assert str(found[0]).startswith(f"{key}=")
