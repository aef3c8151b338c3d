"""The admin client for asyncio does what the other one does."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest

from pylog import AdminClient, NewTopic, errors
from pylog.aio import AsyncAdminClient
from tests.fakes.fake_cluster import FakeCluster


def test_topics_and_settings() -> None:
    async def work(servers: list[str]) -> None:
        async with AsyncAdminClient(bootstrap_servers=servers) as admin:
            await asyncio.gather(*(admin.create_topics(NewTopic(name)) for name in ("a", "b")))
            assert await admin.list_topics() == ["a", "b"]
            await admin.incremental_alter_configs({("topic", "a"): {"segment.bytes": "5000"}})
            (entries,) = (await admin.describe_configs(("topic", "a"))).values()
            assert entries["segment.bytes"].value == "5000"
            with pytest.raises(errors.UnknownTopicOrPartition, match="no"):
                await admin.delete_topics("no")
            with pytest.raises(errors.NotOffered, match=r"AsyncAdminClient\.create_acls: "):
                admin.create_acls()
            await admin.alter_group_offsets("g", {("a", 0): 5})
            assert [group.group_id for group in await admin.list_groups()] == ["g"]
        with pytest.raises(errors.ClientClosed):
            await admin.list_topics()

    with FakeCluster() as cluster:
        asyncio.run(work(cluster.bootstrap_servers))


def test_it_has_every_method() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}

    assert methods(AdminClient) == methods(AsyncAdminClient)


def test_a_call_that_is_cancelled_holds_no_thread() -> None:
    async def work() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        async with AsyncAdminClient(bootstrap_servers="127.0.0.1:1") as admin:
            for _ in range(4):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(admin.list_topics(), 0.02)
            await asyncio.wait_for(asyncio.to_thread(lambda: None), 0.5)

    asyncio.run(work())
