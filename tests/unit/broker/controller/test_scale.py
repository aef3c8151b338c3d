"""Thousands of partitions are no matter: the core takes far less than a second for each change of
a thousand, and `docs/operating.md` tells what many cost.

The bounds are ten times what an idle core needs, so that only a change of order fails.
"""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Callable

import pytest

from pylog_broker.api.context import RequestContext
from pylog_broker.api.metadata import MetadataHandler, MetadataQuery
from pylog_broker.metadata import codec
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.protobuf.metadata import metadata_response
from tests.fakes.controller_shell import ControllerShell

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5")


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def test_a_thousand_partitions_are_created_lose_a_broker_and_get_it_back() -> None:
    shell = ControllerShell()
    brokers = [shell.join(number) for number in (1, 2, 3)]
    assert cpu_seconds(lambda: shell.create(partitions=1_000)) < 0.3
    assert cpu_seconds(lambda: shell.lose(brokers[0])) < 0.3
    assert all(shell.partition(number=n).leader in (2, 3) for n in range(1_000))
    assert cpu_seconds(lambda: shell.join(1, life=2)) < 0.3


@pytest.mark.slow
def test_ten_thousand_partitions_are_created_at_once() -> None:
    """F-K12: the most that one request may ask for."""
    shell = ControllerShell()
    brokers = [shell.join(number) for number in (1, 2, 3)]
    assert cpu_seconds(lambda: shell.create(partitions=10_000)) < 4
    assert cpu_seconds(lambda: shell.lose(brokers[0])) < 4


@pytest.mark.slow
def test_metadata_of_five_thousand_partitions_fit_an_answer_and_little_memory() -> None:
    """F-K57."""
    shell = ControllerShell()
    for number in (1, 2, 3):
        shell.join(number)
    shell.create(partitions=5_000)
    image = shell.controller.image
    handler = MetadataHandler(lambda: image, lambda: None)
    answers: list[bytes] = []

    def ask() -> None:
        query = MetadataQuery((), (), all_topics=True)
        view = asyncio.run(handler.handle(CONTEXT, query))
        answers.append(metadata_response(view).SerializeToString())

    assert cpu_seconds(ask) < 1
    assert len(answers[0]) < 256 * 1024
    encoded = [codec.encode_record(record) for record in image.records()]
    tracemalloc.start()
    copy = MetadataImage.from_records(map(codec.decode_record, encoded), image.offset)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert copy == image
    assert taken < 8 << 20
