"""The `timeout` arguments of public calls: any number is an answer, anything else is told."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from pylog import AdminClient, Consumer, Producer, errors
from pylog.aio import AsyncConsumer
from pylog.client.producer.delivery import Delivery, handle_on
from pylog.client.timeouts import LONGEST_S, seconds, seconds_or_none
from pylog.model import TopicPartition

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(0, 0.0), (1.5, 1.5), (-3, 0.0), (-math.inf, 0.0), (math.inf, LONGEST_S), (10**99, LONGEST_S)],
)
def test_a_number_is_cut_to_what_clocks_take(given: float, wanted: float) -> None:
    assert seconds(given) == seconds_or_none(given) == wanted


@pytest.mark.parametrize("given", [math.nan, "1", True, b"", [1]])
def test_what_is_no_number_is_told(given: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match="give a number of seconds"):
        seconds(given)


def test_none_says_nothing() -> None:
    assert seconds_or_none(None) is None


def _admin(timeout: float) -> object:
    with AdminClient(bootstrap_servers=NOWHERE) as admin:
        return admin.list_topics(timeout=timeout)


def _consumer(timeout: float) -> object:
    with Consumer(bootstrap_servers=NOWHERE) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        return consumer.poll(timeout)


def _async_consumer(timeout: float) -> object:
    async def poll() -> object:
        async with AsyncConsumer(bootstrap_servers=NOWHERE) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            with pytest.raises(errors.InvalidRequest):
                await consumer.poll(timeout)
            return await consumer.poll(timeout)  # the first one has let go of the consumer

    return asyncio.run(poll())


def _flush(timeout: float) -> None:
    with Producer(bootstrap_servers=NOWHERE) as producer:
        producer.flush(timeout)


def _close(timeout: float) -> None:
    with Producer(bootstrap_servers=NOWHERE) as producer:
        producer.close(timeout)


def _result(timeout: float) -> object:
    return handle_on(Delivery(), 0).result(timeout)


@pytest.mark.parametrize("call", [_admin, _consumer, _async_consumer, _flush, _close, _result])
def test_every_call_looks_at_its_timeout(call: Callable[[float], object]) -> None:
    with pytest.raises(errors.InvalidRequest, match="timeout=nan"):
        call(math.nan)


def test_a_flush_may_wait_without_end() -> None:
    with Producer(bootstrap_servers=NOWHERE) as producer:
        producer.flush(math.inf)
