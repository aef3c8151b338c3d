"""Streams on real Spark that commit to a group, and begin where one has come to."""

from __future__ import annotations

import json

import pytest

from pylog.client.admin.admin import AdminClient
from pylog.model import TopicPartition
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.spark_reads import Reads, ends_with, fill, numbers, values
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GROUP = {"pylog.commit.group": "g", "startingOffsets": "earliest", "pylog.client.id": "loader"}


def offsets(cluster: FakeCluster) -> dict[str, int]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        listed = admin.list_group_offsets("g")
    assert all(at is not None and "loader" in at.metadata for at in listed.values())
    return {str(tp): at.offset for tp, at in listed.items() if at is not None}


def test_the_last_batch_of_available_now_is_committed(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 5, 2)
    assert sum(reads.run(**GROUP, maxOffsetsPerTrigger=4)) == 7
    assert offsets(cluster) == {"a-0": 5, "a-1": 2}
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        lags = admin.group_lag("g")["g"]
        assert [lag.lag for lag in lags.values()] == [0, 0]
        fill(cluster.topics["a"].partitions[0], "more")
        lag = admin.group_lag("g")["g"][TopicPartition("a", 0)]
    assert (lag.lag, (lag.lag_seconds or 0) > 1e6) == (1, True)  # it is of 1970


def test_once_commits_its_batch_at_its_next_start(cluster: FakeCluster, reads: Reads) -> None:
    """N-L15: Spark tells nobody that the batch was committed."""
    numbers(cluster, "a", 3)
    reads.start(trigger={"once": True}, **GROUP).awaitTermination(60)
    assert offsets(cluster) == {}
    reads.start(trigger={"once": True}, **GROUP).awaitTermination(60)
    eventually(30, lambda: offsets(cluster) == {"a-0": 3}, "the commit of the first run")


def test_a_running_query_commits_as_it_goes(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 3)
    query = reads.start(trigger={"processingTime": "0 seconds"}, **GROUP)
    try:
        eventually(60, lambda: offsets(cluster) == {"a-0": 3}, "the first batch's commit")
        fill(cluster.topics["a"].partitions[0], "later")
        eventually(60, lambda: offsets(cluster) == {"a-0": 4}, "the next batch's commit")
        # Members that join take the group over; the query goes on.
        cluster.groups.join_consumer("g", "m", "a")
        fill(cluster.topics["a"].partitions[0], "last")
        query.processAllAvailable()
        assert "last" in reads.out()
        assert query.isActive
        assert offsets(cluster) == {"a-0": 4}
        assert query.lastProgress is not None
        shown = json.loads(query.lastProgress.sources[0].latestOffset)
        assert (shown["recordsBehindLatest"], shown["secondsBehindLatest"]) == (0, 0)
    finally:
        query.stop()


def test_64_a_group_with_live_members_is_refused(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 3)
    cluster.groups.join_consumer("g", "m", "a")
    text = ends_with(reads.start(**GROUP))
    assert "[PYLOG_COMMIT_GROUP_IN_USE] pylog.commit.group='g': the group has live members" in text


def test_a_query_and_a_batch_begin_where_a_group_has_come_to(
    cluster: FakeCluster, reads: Reads
) -> None:
    numbers(cluster, "a", 3, 2)
    cluster.groups.commit("consumers", "a", 1)
    with pytest.raises(Exception, match="PYLOG_NO_COMMITTED_OFFSET"):
        reads.batch(startingOffsets="committed:consumers").collect()
    batch = reads.batch(startingOffsets="committed:consumers,earliest")
    assert values(batch) == ["0-1", "0-2", "1-0", "1-1"]
    assert values(reads.batch(startingOffsets="committed:consumers,latest")) == ["0-1", "0-2"]
    assert sum(reads.run(startingOffsets="committed:consumers,latest")) == 2
    assert reads.out() == ["0-1", "0-2"]
    cluster.groups.commit("consumers", "a", 0)  # a checkpoint wins over it
    assert sum(reads.run(startingOffsets="committed:consumers,earliest")) == 0
