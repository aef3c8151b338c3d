from __future__ import annotations

import pytest

from connector.clients import drop_producer, producer_for
from connector.options import SinkOptions, sink_options


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
