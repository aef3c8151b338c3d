"""Wrong topics and settings, each with the error that it must get and nothing else harmed.

The numbers are those of the list of bad inputs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pylog import errors
from pylog.local import LocalCluster
from pylog.records.builder import encode_batch
from pylog.rpc.v1 import admin_pb2, log_pb2
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually
from tests.fakes.wrong_requests import (
    create,
    new_topic,
    still_works,
    topics_of,
    values,
)

pytestmark = pytest.mark.integration


# ---- topics -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..",  # 1
        "../../etc/x", "a/b", "a\0b", "a\nb", "/etc/passwd", "a b", "a:b", "\\x",  # 2
        "x" * 250,  # 3
        "t\u043epic", "e\u0301", "\ufb01", "t\u200bx", "\U0001f600",  # 4
    ],
)  # fmt: skip
def test_1_2_3_4_a_name_that_is_none_makes_no_topic(
    raw: RawClient, cluster: LocalCluster, name: str
) -> None:
    before = sorted(path.name for path in cluster.data_dir.glob("*/*/"))  # checkpoints come and go
    ((code, message),) = create(raw, new_topic(name))
    assert code == errors.InvalidTopic.code
    assert message
    assert name not in topics_of(raw)
    assert sorted(path.name for path in cluster.data_dir.glob("*/*/")) == before
    # As bad as unknown to a client that asks for it, and it cannot be deleted either.
    (described,) = raw.metadata(name).topics
    assert described.error.code == errors.InvalidTopic.code
    deleted = raw.admin().DeleteTopics(admin_pb2.DeleteTopicsRequest(names=[name]), timeout=10)
    assert deleted.topics[0].error.code == errors.InvalidTopic.code
    ack = raw.produce(raw.servers[1], name, encode_batch([b"x"]))
    assert ack.error.code == errors.UnknownTopicOrPartition.code


def test_3_the_longest_name_can_be_written_and_deleted(
    raw: RawClient, cluster: LocalCluster
) -> None:
    name = "n" * 249
    raw.create_topic(name, replicas=2)
    still_works(raw, name)
    answer = raw.admin().DeleteTopics(admin_pb2.DeleteTopicsRequest(names=[name]), timeout=10)
    assert answer.topics[0].error.code == 0
    eventually(30, lambda: not list(cluster.data_dir.glob(f"broker-*/{name}-0")), "it is renamed")
    assert len(list(cluster.data_dir.glob("broker-*/*-delete"))) == 2
    raw.create_topic(name)
    still_works(raw, name)


def test_4_5_names_that_look_alike_are_topics_of_their_own(raw: RawClient) -> None:
    names = ["a.b", "a_b", "Case", "case"]
    assert create(raw, *map(new_topic, names)) == [(0, "")] * 4
    for name in names:
        assert raw.produce(raw.leader(name), name, encode_batch([name.encode()])).base_offset == 0
    assert [values(raw, name) for name in names] == [[name.encode()] for name in names]


def test_6_internal_topics_are_not_for_clients(raw: RawClient) -> None:
    for name in ("__offsets", "__txn_state", "__cluster_metadata"):
        assert create(raw, new_topic(name))[0][0] == errors.InvalidTopic.code
        deleted = raw.admin().DeleteTopics(admin_pb2.DeleteTopicsRequest(names=[name]), timeout=10)
        assert deleted.topics[0].error.code == errors.InvalidTopic.code
        ack = raw.produce(raw.servers[1], name, encode_batch([b"x"]))
        assert ack.error.code != 0
        assert raw.fetch(raw.servers[1], name).error.code != 0


def test_7_8_impossible_counts_create_nothing(raw: RawClient) -> None:
    wrong = [
        *(new_topic("wrong", partitions=count) for count in (0, -2, 10**9, 2**31 - 1)),
        *(new_topic("wrong", replicas=count) for count in (0, -2, 3, 40_000, 2**31 - 1)),
        new_topic("wrong", replicas=2, min_insync_replicas="3"),
    ]
    before = topics_of(raw)
    refusals = [create(raw, topic)[0] for topic in wrong]
    expected = [errors.InvalidPartitions] * 4 + [errors.InvalidReplicationFactor] * 5
    assert [code for code, _ in refusals] == [e.code for e in [*expected, errors.InvalidConfig]]
    assert all("wrong" in message for _, message in refusals)
    assert topics_of(raw) == before
    # A bad one does not fail its neighbours, and nothing of the bad one is made.
    both = create(raw, new_topic("right"), new_topic("wrong", partitions=0))
    assert [code for code, _ in both] == [0, errors.InvalidPartitions.code]
    assert topics_of(raw) - before == {"right"}


def test_9_of_concurrent_creators_one_wins(cluster: LocalCluster, raw: RawClient) -> None:
    clients = [RawClient(cluster.bootstrap_servers) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for name in ("race-1", "race-2", "race-3"):
            answers = list(pool.map(lambda c, n=name: create(c, new_topic(n, 3))[0][0], clients))
            expected = [0] + [errors.TopicAlreadyExists.code] * 7
            assert sorted(answers) == sorted(expected)
            ids = {raw.metadata(name, server=s).topics[0].topic_id for s in range(3)}
            assert len(ids) == 1
    for client in clients:
        with client:
            pass
    twice = create(raw, new_topic("twin"), new_topic("twin"))
    assert [code for code, _ in twice] == [errors.InvalidRequest.code] * 2
    assert "twin" not in topics_of(raw)


def test_10_a_successor_of_a_deleted_topic_is_not_written_to(raw: RawClient, topic: str) -> None:
    old = raw.metadata(topic).topics[0].topic_id
    broker = raw.leader(topic)

    def by_id() -> int:
        item = log_pb2.PartitionBatch(topic=topic, topic_id=old, batch=encode_batch([b"old"]))
        request = log_pb2.ProduceRequest(acks=-1, timeout_ms=5_000, batches=[item])
        return int(raw.log(broker).Produce(request, timeout=10).acks[0].error.code)

    assert by_id() == 0
    raw.admin().DeleteTopics(admin_pb2.DeleteTopicsRequest(names=[topic]), timeout=10)
    eventually(30, lambda: by_id() == errors.UnknownTopicId.code, "the id is unknown")
    raw.create_topic(topic)
    assert {by_id() for _ in range(20)} == {errors.UnknownTopicId.code}
    still_works(raw, topic)


def test_11_partitions_that_are_not_there(raw: RawClient, topic: str) -> None:
    broker = raw.leader(topic)
    stub = raw.log(broker)
    for partition in (-1, 1, 2**31 - 1):
        unknown = errors.UnknownTopicOrPartition.code
        ack = raw.produce(broker, topic, encode_batch([b"x"]), partition)
        assert ack.error.code == unknown
        assert topic in ack.error.message
        assert raw.fetch(broker, topic, partition=partition).error.code == unknown
        asked = log_pb2.PartitionTimestamp(topic=topic, partition=partition, timestamp_ms=-1)
        listed = stub.ListOffsets(log_pb2.ListOffsetsRequest(partitions=[asked]), timeout=10)
        assert listed.partitions[0].error.code == unknown
        cut = log_pb2.PartitionCut(topic=topic, partition=partition, offset=-1)
        deleted = stub.DeleteRecords(log_pb2.DeleteRecordsRequest(partitions=[cut]), timeout=10)
        assert deleted.partitions[0].error.code == unknown
        end = log_pb2.PartitionEpoch(topic=topic, partition=partition, current_leader_epoch=-1)
        ends = stub.OffsetForLeaderEpoch(
            log_pb2.OffsetForLeaderEpochRequest(partitions=[end]), timeout=10
        )
        assert ends.partitions[0].error.code == unknown
    still_works(raw, topic)


# ---- settings -----------------------------------------------------------------------------------

WRONG_SETTINGS = [
    ("no.such.setting", "1", "no.such.setting"),
    ("retention.mss", "1", "did you mean retention.ms"),
    ("retention.ms", "abc", "'abc'"),
    ("retention.ms", "-5", "at least -1"),
    ("segment.bytes", "1", "from 1024 to"),
    ("segment.bytes", "99999999999999999999", "from 1024 to"),
    ("cleanup.policy", "purge", "delete, compact"),
    ("unclean.leader.election.enable", "maybe", "true or false"),
    ("min.insync.replicas", "0", "from 1 to"),
    ("min.insync.replicas", "3", "replication factor"),
    ("min.cleanable.dirty.ratio", "nan", "'nan'"),
]


def alter(raw: RawClient, topic: str, *settings: tuple[str, str]) -> Any:
    pb = admin_pb2
    resource = pb.ConfigResource(type=pb.ConfigResource.TOPIC, name=topic)
    ops = [pb.AlterConfigOp(name=name, value=value) for name, value in settings]
    request = pb.AlterConfigsRequest(
        resources=[pb.AlteredResource(resource=resource, ops=ops)], timeout_ms=10_000
    )
    return raw.admin().AlterConfigs(request, timeout=20).resources[0].error


def settings_of(raw: RawClient, topic: str) -> dict[str, str]:
    pb = admin_pb2
    resource = pb.ConfigResource(type=pb.ConfigResource.TOPIC, name=topic)
    question = pb.ConfigQuestion(resource=resource, all_names=True)
    request = pb.DescribeConfigsRequest(resources=[question])
    found = raw.admin().DescribeConfigs(request, timeout=10).resources[0]
    assert found.error.code == 0
    return {entry.name: entry.value for entry in found.entries}


def test_12_settings_that_are_none_change_nothing(raw: RawClient, topic: str) -> None:
    assert alter(raw, topic, ("segment.ms", "5000")).code == 0
    before = settings_of(raw, topic)
    for name, value, words in WRONG_SETTINGS:
        error = alter(raw, topic, ("retention.ms", "777") if name != "retention.ms" else (
            "retention.bytes", "777"), (name, value))  # fmt: skip
        assert error.code == errors.InvalidConfig.code, (name, value, error)
        assert name in error.message
        assert words in error.message
        ((code, message),) = create(
            raw,
            admin_pb2.NewTopic(
                name="wrong", num_partitions=1, replication_factor=1, config={name: value}
            ),
        )
        assert code == errors.InvalidConfig.code, (name, value, message)
        assert words in message
    assert settings_of(raw, topic) == before
    assert "wrong" not in topics_of(raw)
    still_works(raw, topic)
