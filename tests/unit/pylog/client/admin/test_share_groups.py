"""Operators' work on share groups, against a real coordinator behind the messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pylog import errors
from pylog.aio import AsyncAdminClient
from pylog.client.admin.admin import AdminClient
from pylog.client.admin.admin_types import (
    GroupListing,
    GroupMember,
    PartitionLag,
    SharePartitionOffset,
)
from pylog.model import OffsetAndMetadata, TopicPartition
from tests.fakes.fake_cluster import FakeCluster

T0, T1 = (TopicPartition("t", n) for n in range(2))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        running.create_topic("t", 2)
        yield running


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[AdminClient]:
    with AdminClient(
        bootstrap_servers=cluster.bootstrap_servers,
        default_api_timeout_ms=5_000,
        retry_backoff_ms=1,
        retry_backoff_max_ms=5,
    ) as client:
        yield client


def test_a_share_group_is_listed_and_described(cluster: FakeCluster, admin: AdminClient) -> None:
    cluster.groups.coordinators = {"s": 2, "c": 1}
    epoch = cluster.groups.join_share("s", "m", "t")
    cluster.groups.commit("c", "t", 1)
    assert admin.list_groups(types="share") == [GroupListing("s", "share", "Stable", "share")]
    described = admin.describe_groups(["c", "s"])
    group = described["s"]
    assert (group.type, group.state, group.assignor) == ("share", "Stable", "simple")
    assert group.coordinator.id == 2
    assert group.members == (
        GroupMember(
            "m", "share", "m-app", "/127.0.0.1", assignment=(T0, T1), epoch=epoch, topics=("t",)
        ),
    )
    assert described["c"].type == "classic"


def test_a_group_that_is_of_no_type_is_named(admin: AdminClient) -> None:
    with pytest.raises(errors.GroupIdNotFound, match="'nobody'"):
        admin.describe_groups("nobody")


def test_start_offsets_are_listed(cluster: FakeCluster, admin: AdminClient) -> None:
    cluster.groups.join_share("s", "m", "t")
    cluster.share_starts["s"] = {T1: (7, 3), T0: (2, -1)}
    assert admin.list_share_group_offsets("s") == {
        T0: SharePartitionOffset(2),
        T1: SharePartitionOffset(7, None, 3),
    }
    other = TopicPartition("u", 0)
    assert admin.list_share_group_offsets("s", [T1, other]) == {
        T1: SharePartitionOffset(7, None, 3),
        other: None,
    }
    with pytest.raises(errors.GroupIdNotFound):
        admin.list_share_group_offsets("nobody")


def test_start_offsets_are_set_and_forgotten(cluster: FakeCluster, admin: AdminClient) -> None:
    cluster.groups.join_share("s", "m", "t")
    with pytest.raises(errors.NonEmptyGroup, match="'s' has live members"):
        admin.alter_share_group_offsets("s", {T0: 5})
    with pytest.raises(errors.NonEmptyGroup, match="'s' has live members"):
        admin.delete_share_group_offsets("s", "t")
    assert admin.remove_group_members("s") == ["m"]
    admin.alter_share_group_offsets("s", {T0: 5})
    assert admin.list_share_group_offsets("s") == {T0: SharePartitionOffset(5)}
    admin.delete_share_group_offsets("s", "t")
    assert admin.list_share_group_offsets("s") == {}
    with pytest.raises(errors.UnknownTopicOrPartition):
        admin.delete_share_group_offsets("s", ["t"])


@pytest.mark.parametrize("offset", [-1, "earliest", None, True, 2**63])
def test_what_is_no_offset_is_refused(admin: AdminClient, offset: object) -> None:
    with pytest.raises(errors.OffsetOutOfRange):
        admin.alter_share_group_offsets("s", {T0: offset})  # type: ignore[dict-item]


def test_lag_is_what_the_leader_counts(cluster: FakeCluster, admin: AdminClient) -> None:
    cluster.groups.join_share("s", "m", "t")
    cluster.groups.commit("c", "t", 0)
    cluster.share_starts["s"] = {T0: (0, 3), T1: (0, -1)}
    lags = admin.group_lag(["s", "c"])
    assert lags["s"] == {
        T0: PartitionLag(OffsetAndMetadata(0), 0, share_lag=3),
        T1: PartitionLag(OffsetAndMetadata(0), 0, lag_seconds=0.0),
    }
    assert [lag.lag for lag in lags["s"].values()] == [3, 0]
    assert lags["c"] == {T0: PartitionLag(OffsetAndMetadata(0), 0, lag_seconds=0.0)}


def test_the_same_for_asyncio(cluster: FakeCluster) -> None:
    cluster.groups.join_share("s", "m", "t")
    cluster.share_starts["s"] = {T0: (4, 1)}

    async def ask() -> dict[TopicPartition, SharePartitionOffset | None]:
        async with AsyncAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            return await admin.list_share_group_offsets("s")

    assert asyncio.run(ask()) == {T0: SharePartitionOffset(4, None, 1)}
