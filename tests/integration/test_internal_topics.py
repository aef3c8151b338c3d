"""Internal topics of a running cluster: made for brokers, and for users only to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pylog import AdminClient, LocalCluster, NewTopic, Producer, errors
from pylog.model import BrokerEpoch, BrokerId
from pylog_broker.metadata.messages import EnsureInternalTopic, Failure, InternalTopicEnsured
from pylog_broker.node.link import ControllerLink
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

NAME = "__consumer_offsets"


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, config={"offsets.topic.num.partitions": "10"}) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            assert "Traceback" not in log.read_text()


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


def ask(
    cluster: LocalCluster, *requests: EnsureInternalTopic
) -> list[InternalTopicEnsured | Failure]:
    """The controller's answers to brokers that ask at once."""

    async def main() -> list[InternalTopicEnsured | Failure]:
        gateway = cluster.bootstrap_servers.split(",")[0]
        links = [ControllerLink(gateway, bytes.fromhex(cluster._secret)) for _ in requests]
        try:
            asked = zip(links, requests, strict=True)
            return list(
                await asyncio.gather(*(link.ensure_internal_topic(each) for link, each in asked))
            )
        finally:
            for link in links:
                await link.close()

    return asyncio.run(main())


def requests_of(admin: AdminClient) -> list[EnsureInternalTopic]:
    """One of each broker, as it is registered now."""
    return [
        EnsureInternalTopic(BrokerId(broker.id), BrokerEpoch(broker.epoch), NAME)
        for broker in admin.describe_cluster().brokers
    ]


def test_brokers_that_ask_at_once_get_one_topic_that_users_only_see(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    answers = ask(cluster, *requests_of(admin))
    assert len(answers) == 3
    assert len(set(answers)) == 1
    (ensured,) = set(answers)
    assert isinstance(ensured, InternalTopicEnsured)
    assert (ensured.name, ensured.num_partitions) == (NAME, 10)
    cluster.kill_controller()
    cluster.start_controller()
    eventually(30, lambda: len(admin.describe_cluster().brokers) == 3, "all brokers are back")
    assert set(ask(cluster, *requests_of(admin))) == {ensured}

    assert admin.list_topics() == []
    assert admin.list_topics(internal=True) == [NAME]
    described = admin.describe_topics([NAME])[NAME]
    assert described.internal
    assert {len(partition.replicas) for partition in described.partitions} == {3}
    with pytest.raises(errors.InvalidTopic, match="the cluster's own"):
        admin.create_topics([NewTopic("__mine")])
    with pytest.raises(errors.InvalidTopic, match="the cluster's own"):
        admin.delete_topics([NAME])
    with (
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        pytest.raises(errors.InvalidTopic),
    ):
        producer.send(NAME, b"mine").result(10)


def test_with_fewer_brokers_than_configured_the_asker_waits() -> None:
    config = {"offsets.topic.replication.factor": "3"}
    with (
        LocalCluster(1, config=config) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        (answer,) = ask(cluster, *requests_of(admin))
        assert isinstance(answer, Failure)
        assert answer.code == errors.CoordinatorNotAvailable.code
        assert "it needs 3 replicas, and 1 brokers are registered" in answer.message
        assert admin.list_topics(internal=True) == []
