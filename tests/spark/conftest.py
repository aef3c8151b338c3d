"""The fixtures that most tests here share: one Spark session, because starting the JVM costs more
than most of them, and for each test a cluster in this process. Modules with a cluster of another
kind have a fixture of that name themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.spark_reads import Reads


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Else Spark's workers are the first python3 on the path, which has no pyarrow.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("pylog-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        # Most code runs a few times only: compiling it thoroughly costs more than it gives.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        yield running


@pytest.fixture
def reads(spark: SparkSession, cluster: FakeCluster, tmp_path: Path) -> Reads:
    return Reads(spark, cluster, tmp_path)
