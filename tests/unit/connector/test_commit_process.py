"""The modules that the process loads in which Spark ends a batch of a streaming query: it is a
fresh one for each query, and after each pause.
"""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyarrow as pa

from pylog.client.sinks.sink_types import SinkKey
from pylog_connector.clients import drop_staging_producer
from pylog_connector.options import sink_options
from pylog_connector.sink import Reported
from pylog_connector.sink_identity import SinkBatchId
from pylog_connector.staging import stage_batches
from tests.fakes.fake_cluster import FakeCluster

ROOT: Final = Path(__file__).parents[3]

CODE: Final = """
import base64, pickle, sys
import pyspark.sql.datasource
before = set(sys.modules)
from pyspark.sql.types import StringType, StructField, StructType
options = dict(pair.split("=", 1) for pair in sys.argv[2:])
from pylog_connector.datasource import PylogDataSource
schema = StructType([StructField("value", StringType())])
writer = PylogDataSource(options).streamWriter(schema, False)
messages = pickle.loads(base64.b64decode(sys.argv[1]))
writer.commit(messages, 0)
heavy = {"grpc", "numba", "pandas", "numpy", "pyarrow", "asyncio", "uvloop"}
print(sorted(heavy & (set(sys.modules) - before)))
"""


def test_a_commit_loads_nothing_heavy() -> None:
    with FakeCluster() as cluster:
        cluster.create_topic("t")
        given = {
            "pylog.bootstrap.servers": ",".join(cluster.bootstrap_servers),
            "pylog.exactly.once": "true",
            "topic": "t",
        }
        to = sink_options(given)
        batch = SinkBatchId(SinkKey("q", "t"), "r", 0)
        report = stage_batches([pa.record_batch({"value": ["a", "b"]})], to, ["value"], batch, 0, 1)
        told = base64.b64encode(pickle.dumps([Reported(report)])).decode()
        pairs = [f"{name}={value}" for name, value in given.items()]
        run = subprocess.run(
            [sys.executable, "-c", CODE, told, *pairs],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        assert run.stdout.strip() == "[]"
        decided = cluster.sinks.sinks["q", "t"].decision
        assert decided is not None
        assert decided.row_count == 2
        drop_staging_producer(to)
