from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from pylog_connector.clients import drop_producer, drop_reader, producer_for, reader_for
from pylog_connector.options import SinkOptions, sink_options, source_options


def options(**client: str) -> SinkOptions:
    given = {"pylog.bootstrap.servers": "h:1", "topic": "a"}
    return sink_options({**given, **{f"pylog.{k}": v for k, v in client.items()}})


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({}, 1_048_576),
        ({"batch.size": "70000"}, 70_000),
        ({"batch.max.size": "50000"}, 50_000),
        ({"max.request.size": "300000"}, 300_000),
        ({"buffer.memory": "800000"}, 100_000),
        ({"buffer.memory": "800000", "batch.size": "300000"}, 300_000),
    ],
)
def test_batches_are_as_large_as_requests_may_be(given: dict[str, str], size: int) -> None:
    to = options(**given)
    producer = producer_for(to).producer
    assert producer._accumulator.batch_size == size
    assert producer_for(to).producer is producer
    drop_producer(to)


@pytest.fixture
def task() -> Iterator[None]:
    """This process works for a task of Spark's."""
    TaskContext._getOrCreate()
    yield
    TaskContext._taskContext = None


def patience_ms(**given: str) -> tuple[int, int]:
    """The times for which a reader and a producer with these settings try a cluster that does not
    answer.
    """
    source = source_options(
        {"pylog.bootstrap.servers": "h:1", "subscribe": "a"}
        | {f"pylog.{k}": v for k, v in given.items() if k != "max.block.ms"},
        streaming=True,
    )
    sink = options(**{k: v for k, v in given.items() if k != "default.api.timeout.ms"})
    found = (
        reader_for(source)._cluster.settings.bootstrap_timeout_ms,
        producer_for(sink).producer._loop.cluster.settings.bootstrap_timeout_ms,
    )
    drop_reader(source)
    drop_producer(sink)
    return found


def test_the_driver_tells_a_wrong_address_soon() -> None:
    assert patience_ms() == (8_000, 8_000)


@pytest.mark.usefixtures("task")
def test_a_task_waits_for_a_cluster_that_starts_again() -> None:
    assert patience_ms() == (60_000, 60_000)
    assert patience_ms(**{"default.api.timeout.ms": "7", "max.block.ms": "8"}) == (7, 8)
    assert patience_ms(**{"bootstrap.timeout.ms": "9"}) == (9, 9)
