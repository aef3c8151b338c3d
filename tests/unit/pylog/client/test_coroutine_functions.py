"""Coroutine functions where pylog calls code of the user's: refused, as nobody would await them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pylog import AdminClient, NewTopic, errors
from pylog.aio import AsyncConsumer, AsyncProducer, AsyncShareConsumer
from tests.fakes.fake_cluster import FakeCluster

WHERE = {"bootstrap_servers": "127.0.0.1:1"}


async def code(*_: object) -> None:
    raise AssertionError


class Called:
    async def __call__(self, *_: object) -> None:
        raise AssertionError


class Methods:
    on_send = on_acknowledgement = on_consume = on_partitions_revoked = code


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("value_serializer", lambda: AsyncProducer(**WHERE, value_serializer=code)),
        ("key_serializer", lambda: AsyncProducer(**WHERE, key_serializer=Called())),
        ("partitioner", lambda: AsyncProducer(**WHERE, partitioner=code)),
        ("interceptor_classes", lambda: AsyncProducer(**WHERE, interceptor_classes=[Methods])),
        ("deserializer", lambda: AsyncConsumer(**WHERE, deserializer=code)),
        ("interceptor_classes", lambda: AsyncConsumer(**WHERE, interceptor_classes=[Methods])),
        ("deserializer", lambda: AsyncShareConsumer(**WHERE, group_id="g", deserializer=code)),
    ],
)
def test_among_settings(name: str, make: Callable[[], Any]) -> None:
    with pytest.raises(errors.InvalidConfig, match=f"^{name}: .* is a coroutine function"):
        make()


def test_as_callbacks() -> None:
    async def use(servers: Any) -> None:
        refused = pytest.raises(errors.InvalidRequest, match=r"is a coroutine function; .* plain")
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            with refused:
                await producer.send("t", b"x", on_delivery=code)
        async with AsyncConsumer(bootstrap_servers=servers, group_id="g") as consumer:
            with refused:
                consumer.subscribe("t", listener=Methods())
            assert consumer.subscription() == set()
            with refused:
                consumer.commit_async({("t", 0): 1}, callback=code)
        async with AsyncShareConsumer(bootstrap_servers=servers, group_id="g") as shared:
            with refused:
                shared.set_acknowledgement_commit_callback(code)

    with (
        FakeCluster() as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics(NewTopic("t"))
        asyncio.run(use(cluster.bootstrap_servers))
