"""Moving replicas by the admin client: what is asked, what comes back, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pylog import errors
from pylog.client.admin.admin import AdminClient
from pylog.model import PartitionReassignment, TopicPartition
from tests.fakes.fake_cluster import FakeCluster

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


@pytest.fixture
def admin() -> Iterator[AdminClient]:
    with FakeCluster(2) as cluster:
        cluster.create_topic("a")
        cluster.create_topic("b")
        with AdminClient(
            bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=1, retry_backoff_max_ms=5
        ) as client:
            yield client


def test_moves_are_begun_listed_and_cancelled(admin: AdminClient) -> None:
    admin.alter_partition_reassignments({A0: [9], ("b", 0): (2,)})
    moves = {A0: PartitionReassignment((9, 1), (9,), (1,))}
    assert admin.list_partition_reassignments() == moves
    assert admin.list_partition_reassignments(A0) == moves
    assert admin.list_partition_reassignments([B0]) == {}
    admin.alter_partition_reassignments({A0: None})
    assert admin.list_partition_reassignments() == {}


def test_each_partition_has_its_own_outcome(admin: AdminClient) -> None:
    with pytest.raises(errors.NoReassignmentInProgress, match="a-0: it does not move"):
        admin.alter_partition_reassignments({A0: None})
    with pytest.raises(errors.PartialFailure) as partly:
        admin.alter_partition_reassignments({A0: None, B0: [1]})
    assert partly.value.results == {B0: None}
    assert list(partly.value.errors) == [A0]


def test_nothing_to_do(admin: AdminClient) -> None:
    admin.alter_partition_reassignments({})
    assert admin.list_partition_reassignments([]) == {}


@pytest.mark.parametrize("wrong", [7, "a-0", [A0], {A0: 7}, {A0: ["1"]}, {A0: [-1]}, {7: [1]}])
def test_wrong_arguments_are_named(admin: AdminClient, wrong: Any) -> None:
    with pytest.raises(errors.PylogError):
        admin.alter_partition_reassignments(wrong)
