"""kafka-python's admin client over a cluster in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pylog.compat.kafka_python import (
    KafkaAdminClient,
    KafkaProducer,
    OffsetSpec,
    TopicPartition,
    errors,
)
from pylog.compat.kafka_python.admin import ConfigResource, MemberToRemove, NewPartitions
from tests.fakes.consumers import fill
from tests.fakes.fake_cluster import FakeCluster

T0 = TopicPartition("t", 0)


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


def test_altered_settings_have_an_outcome_each(
    cluster: FakeCluster, admin: KafkaAdminClient
) -> None:
    cluster.create_topic("u")
    resources = [ConfigResource("topic", name, {"segment.bytes": 7}) for name in ("t", "u")]
    assert admin.alter_configs(resources) == {"topic": {"t": "OK", "u": "OK"}}
    cluster.item_faults.extend((0, 0, 0, 40))
    outcomes = admin.alter_configs(resources)["topic"]
    assert outcomes["t"] == "OK"
    assert outcomes["u"].startswith("[Error 40] InvalidConfigurationError: ")
    with pytest.raises(ValueError, match=r"Unrecognized configs: \['segmnt'\]"):
        admin.alter_configs([ConfigResource("topic", "t", {"segmnt": 7})])
    told = admin.alter_configs([ConfigResource("topic", "t", {"b": 7})], raise_on_unknown=False)
    assert told == {"topic": {"t": "OK"}}


def test_a_reset_without_names_is_of_all_that_was_set(
    cluster: FakeCluster, admin: KafkaAdminClient
) -> None:
    resource = ConfigResource("topic", "t")
    for reset, left in ((["segment.bytes"], ["a"]), (None, [])):
        admin.alter_configs(
            [ConfigResource("topic", "t", {"segment.bytes": 7, "a": 1})], raise_on_unknown=False
        )
        admin.reset_configs([ConfigResource("topic", "t", reset)])
        assert list(admin.describe_configs([resource])["topic"]["t"]) == left


def test_responses_have_attributes(admin: KafkaAdminClient) -> None:
    response = admin.create_partitions({"t": NewPartitions(3)})
    assert [(row.name, row.error_code) for row in response.results] == [("t", 0)]
    assert response.to_dict() == {
        "results": [{"name": "t", "error_code": 0, "error_message": None}]
    }
    elected = admin.elect_leaders(0, {"t": [1, 0]})
    (topic,) = elected.replica_election_results
    rows = [(row.partition_id, row.error_code) for row in topic.partition_result]
    assert (elected.error_code, topic.topic, rows) == (0, "t", [(0, 0), (1, 0)])
    with pytest.raises(AttributeError, match="no field 'topic'"):
        _ = elected.topic


def test_an_election_that_is_not_needed_is_no_error(
    cluster: FakeCluster, admin: KafkaAdminClient
) -> None:
    cluster.item_faults.append(84)
    (topic,) = admin.elect_leaders(0, {"t": [0]}).replica_election_results
    assert [row.error_code for row in topic.partition_result] == [84]


def test_a_negative_offset_resets_to_the_end(cluster: FakeCluster, admin: KafkaAdminClient) -> None:
    fill(cluster, 3)
    for asked, wanted in ((-1, 3), (2, 2), (9, 3)):
        assert admin.reset_group_offsets("g", {T0: asked})[T0]["offset"] == wanted


def test_removed_members_are_told_by_name(cluster: FakeCluster, admin: KafkaAdminClient) -> None:
    member = cluster.groups.join_classic("g", "m", b"", b"")
    told = admin.remove_group_members("g", [MemberToRemove(member), MemberToRemove(None, "x")])
    assert told == {member: errors.NoError, "x": errors.UnknownMemberIdError}


@pytest.mark.parametrize("level", ["read_committed", "READ_COMMITTED", 1])
def test_an_isolation_level_is_a_word_or_a_number(
    cluster: FakeCluster, admin: KafkaAdminClient, level: Any
) -> None:
    servers = cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers, transactional_id="x") as p:
        p.init_transactions()
        p.begin_transaction()
        p.send("t", b"v", partition=0).get(30)
        assert admin.list_partition_offsets({T0: OffsetSpec.LATEST}, level)[T0].offset == 0
        assert admin.list_partition_offsets({T0: OffsetSpec.LATEST})[T0].offset == 1
        p.abort_transaction()
