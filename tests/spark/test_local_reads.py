"""The option `pylog.local.reads` on real Spark, over a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pylog import AdminClient, LocalCluster, NewTopic, Producer
from tests.fakes.waiting import eventually
from tests.integration.test_metrics import scrape, value

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def broker() -> Iterator[LocalCluster]:
    with LocalCluster(1, config={"metrics.listen": "127.0.0.1:0"}) as running:
        yield running


def test_the_rows_are_those_of_fetches(spark: SparkSession, broker: LocalCluster) -> None:
    """Of committed transactions and aborted ones, over several segments."""
    address = broker.bootstrap_servers
    with AdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic("t", 2, 1, config={"segment.bytes": "1000000"})])
    with Producer(bootstrap_servers=address, transactional_id="x") as producer:
        producer.init_transactions()
        for number in range(8):
            producer.begin_transaction()
            for each in range(12_000):
                producer.send("t", b"%d-%d" % (number, each) + b"v" * 90, partition=each % 2)
            producer.flush()
            if number % 3 == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()

    def rows(**options: str) -> pa.Table:
        frame = spark.read.format("pylog").option("pylog.bootstrap.servers", address)
        frame = frame.option("subscribe", "t").options(**options)
        return frame.load().orderBy("partition", "offset").toArrow()

    for isolation, count in (("read_committed", 60_000), ("read_uncommitted", 96_000)):
        wanted = rows(**{"pylog.isolation.level": isolation})
        assert wanted.num_rows == count
        local = {"pylog.isolation.level": isolation, "pylog.local.reads": "true"}
        assert rows(**local) == wanted
    url = broker.metrics_urls[1]
    eventually(10, lambda: value(scrape(url), "pylog_local_reads") == 0, "all is given back")
    found = scrape(url)
    # Those of aborted transactions were read, and left out.
    assert value(found, "pylog_local_read_bytes_total", topic="t") > 2 * 96_000 * 90
