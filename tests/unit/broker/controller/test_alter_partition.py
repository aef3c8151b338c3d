"""ISR changes by a leader: compare-and-set, and the replicas that may join."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pylog import errors
from pylog.model import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from pylog_broker.metadata.admin import AlterConfigs, ConfigChange
from pylog_broker.metadata.messages import (
    AlteredPartition,
    AlterPartition,
    BrokerState,
    PartitionIsr,
    PartitionsAltered,
)
from pylog_broker.metadata.records import ConfigResourceType
from tests.fakes.controller_shell import ControllerShell, Incarnation


@pytest.fixture
def cluster() -> tuple[ControllerShell, list[Incarnation]]:
    shell = ControllerShell()
    brokers = [shell.join(number) for number in (1, 2, 3)]
    shell.create(config={"min.insync.replicas": "2"})
    return shell, brokers


def request(shell: ControllerShell, members: list[int], /, **changes: object) -> AlterPartition:
    """The request that the leader would send now, with `changes` to the one partition."""
    partition, brokers = shell.partition(), shell.controller.image.brokers
    wish = PartitionIsr(
        partition.topic_id,
        0,
        partition.leader_epoch,
        partition.partition_epoch,
        tuple(
            BrokerState(
                BrokerId(b), brokers[BrokerId(b)].broker_epoch if b in brokers else BrokerEpoch(0)
            )
            for b in members
        ),
    )
    leader = partition.leader
    return AlterPartition(
        leader,
        brokers[leader].broker_epoch,
        (replace(wish, **changes),),  # type: ignore[arg-type]
    )


def send(shell: ControllerShell, asked: AlterPartition) -> AlteredPartition:
    answer = shell.call("alter_partition", asked)
    assert isinstance(answer, PartitionsAltered)
    assert answer.failure is None
    return answer.partitions[0]


Cluster = tuple[ControllerShell, list[Incarnation]]


def test_a_shrink_and_a_return_at_the_end(cluster: Cluster) -> None:
    shell, _ = cluster
    topic_id = shell.partition().topic_id
    assert send(shell, request(shell, [1, 3])) == AlteredPartition(
        topic_id, 0, None, BrokerId(1), LeaderEpoch(0), (BrokerId(1), BrokerId(3)),
        PartitionEpoch(1),
    )  # fmt: skip
    grown = send(shell, request(shell, [1, 2, 3]))
    assert grown.isr == (1, 3, 2)
    assert (grown.leader_epoch, grown.partition_epoch) == (0, 2)


def test_below_min_isr_who_leaves_is_eligible_until_it_is_back(cluster: Cluster) -> None:
    shell, _ = cluster
    send(shell, request(shell, [1]))
    assert shell.partition().eligible_leader_replicas == (2, 3)
    send(shell, request(shell, [1, 3]))
    assert shell.partition().eligible_leader_replicas == ()


def test_a_repeat_is_applied_once_and_metadata_tell_of_it(cluster: Cluster) -> None:
    shell, _ = cluster
    asked = request(shell, [1, 2])
    assert send(shell, asked).failure is None
    records = len(shell.log)
    again = send(shell, asked)
    assert again.failure is not None
    assert again.failure.code == errors.InvalidUpdateVersion.code
    assert len(shell.log) == records


@pytest.mark.parametrize("members", [[1, 2], [1, 2, 3]])
def test_a_repeat_does_not_learn_the_epoch_that_came_with_another_min_isr(
    cluster: Cluster, members: list[int]
) -> None:
    """With it a leader could shrink its ISR, by the old value enough for a commit, and a replica
    that left would be eligible by the new one.
    """
    shell, _ = cluster
    asked = request(shell, members)
    assert send(shell, asked).failure is None
    change = ConfigChange(ConfigResourceType.TOPIC, "t", {"min.insync.replicas": "3"})
    shell.call("alter_configs", AlterConfigs((change,)))
    assert shell.partition().partition_epoch == 2
    again = send(shell, asked)
    assert again.failure is not None
    assert again.failure.code == errors.InvalidUpdateVersion.code
    assert again.partition_epoch == -1


def test_asking_for_the_isr_as_it_is_shuts_out_what_was_asked_before(cluster: Cluster) -> None:
    shell, _ = cluster
    late = request(shell, [1, 2])
    barrier = send(shell, request(shell, [1, 2, 3]))
    assert (barrier.isr, barrier.partition_epoch) == ((1, 2, 3), 1)
    answer = send(shell, late)
    assert answer.failure is not None
    assert answer.failure.code == errors.InvalidUpdateVersion.code


def test_a_member_that_the_leader_has_not_heard_from_may_stay_but_none_may_join(
    cluster: Cluster,
) -> None:
    shell, brokers = cluster
    unheard = tuple(BrokerState(BrokerId(b), BrokerEpoch(-1)) for b in (2, 3))
    me = BrokerState(BrokerId(1), BrokerEpoch(brokers[0].epoch))
    assert send(shell, request(shell, [1], isr=(me, unheard[0]))).isr == (1, 2)
    answer = send(shell, request(shell, [1], isr=(me, *unheard)))
    assert answer.failure is not None
    assert answer.failure.code == errors.IneligibleReplica.code


def test_a_late_duplicate_is_not_applied(cluster: Cluster) -> None:
    # B-R19
    shell, _ = cluster
    late = request(shell, [1, 2])
    send(shell, late)
    send(shell, request(shell, [1, 2, 3]))
    before = shell.partition()
    answer = send(shell, late)
    assert answer.failure is not None
    assert answer.failure.code == errors.InvalidUpdateVersion.code
    assert shell.partition() == before


def test_an_earlier_leaders_request_is_fenced(cluster: Cluster) -> None:
    shell, brokers = cluster
    late = request(shell, [1, 2])
    shell.lose(brokers[0])
    shell.join(1, life=2)
    answer = shell.call("alter_partition", late)
    assert isinstance(answer, PartitionsAltered)
    assert answer.failure is not None
    assert answer.failure.code == errors.StaleBrokerEpoch.code
    answer = send(
        shell,
        replace(late, broker_epoch=shell.controller.image.brokers[BrokerId(1)].broker_epoch),
    )
    assert answer.failure is not None
    assert answer.failure.code == errors.FencedLeaderEpoch.code


@pytest.mark.parametrize(
    ("isr", "changes", "error"),
    [
        ([1, 2], {"topic_id": TopicId("x" * 22)}, errors.UnknownTopicId),
        ([1, 2], {"partition": 5}, errors.UnknownTopicOrPartition),
        ([1, 2], {"partition": -1}, errors.UnknownTopicOrPartition),
        ([1, 2], {"partition": 2**31 - 1}, errors.UnknownTopicOrPartition),
        ([1, 2], {"leader_epoch": LeaderEpoch(-1)}, errors.FencedLeaderEpoch),
        ([1, 2], {"leader_epoch": LeaderEpoch(1)}, errors.NotController),
        ([1, 2], {"partition_epoch": PartitionEpoch(1)}, errors.NotController),
        ([1, 2], {"partition_epoch": PartitionEpoch(-1)}, errors.InvalidUpdateVersion),
        ([2, 3, 9], {}, errors.InvalidRequest),
        ([], {}, errors.InvalidRequest),
        ([1, 1], {}, errors.InvalidRequest),
        ([1, 9], {}, errors.InvalidRequest),
        (
            [1, 2],
            {"isr": (BrokerState(BrokerId(1), BrokerEpoch(-1)),)},
            errors.IneligibleReplica,
        ),
    ],
)
def test_refusals(
    cluster: Cluster, isr: list[int], changes: dict[str, object], error: type[errors.PylogError]
) -> None:
    shell, _ = cluster
    before = shell.controller.image.offset
    answer = send(shell, request(shell, isr, **changes))
    assert answer.failure is not None
    assert answer.failure.code == error.code
    assert shell.controller.image.offset == before


def test_a_leader_may_leave_to_those_who_are_in_sync_with_it(cluster: Cluster) -> None:
    shell, _ = cluster
    asked = request(shell, [2, 3])
    answer = send(shell, asked)
    assert answer.failure is not None
    assert answer.failure.code == errors.NewLeaderElected.code
    assert "broker 2 has it now" in answer.failure.message
    now = shell.partition()
    assert (now.leader, now.leader_epoch, now.isr) == (2, 1, (2, 3))
    assert now.eligible_leader_replicas == ()
    # Its request, come twice, does nothing more.
    again = send(shell, asked)
    assert again.failure is not None
    assert again.failure.code == errors.FencedLeaderEpoch.code
    assert shell.partition() == now


def test_a_leader_may_not_leave_to_replicas_that_are_not_in_sync_or_not_live(
    cluster: Cluster,
) -> None:
    shell, brokers = cluster
    send(shell, request(shell, [1, 2]))
    for isr in ([3], [2, 3]):
        answer = send(shell, request(shell, isr))
        assert answer.failure is not None
        assert answer.failure.code == errors.InvalidRequest.code
    shell.lose(brokers[1])
    answer = send(shell, request(shell, [2]))
    assert answer.failure is not None
    assert answer.failure.code == errors.InvalidRequest.code
    assert shell.partition().leader == 1


def test_who_does_not_lead_may_not_ask(cluster: Cluster) -> None:
    shell, brokers = cluster
    asked = replace(request(shell, [1, 2]), broker_id=BrokerId(2), broker_epoch=brokers[1].epoch)
    answer = send(shell, asked)
    assert answer.failure is not None
    assert answer.failure.code == errors.InvalidRequest.code


def test_an_unknown_broker_may_not_ask(cluster: Cluster) -> None:
    shell, _ = cluster
    asked = replace(request(shell, [1, 2]), broker_id=BrokerId(9))
    answer = shell.call("alter_partition", asked)
    assert isinstance(answer, PartitionsAltered)
    assert answer.failure is not None
    assert answer.failure.code == errors.StaleBrokerEpoch.code


def test_a_fenced_replica_may_not_join(cluster: Cluster) -> None:
    # B-R18, KIP-841
    shell, brokers = cluster
    shell.lose(brokers[2])
    shell.register(3, life=2)
    answer = send(shell, request(shell, [1, 2, 3]))
    assert answer.failure is not None
    assert answer.failure.code == errors.IneligibleReplica.code
    assert "fenced" in answer.failure.message


def test_a_replica_of_an_earlier_life_may_not_join(cluster: Cluster) -> None:
    # B-R17, KIP-903
    shell, brokers = cluster
    shell.lose(brokers[2])
    old = brokers[2].epoch
    shell.join(3, life=2, directory_id="empty")
    states = [(1, brokers[0].epoch), (2, brokers[1].epoch), (3, old)]
    isr = tuple(BrokerState(BrokerId(b), e) for b, e in states)
    answer = send(shell, request(shell, [1, 2], isr=isr))
    assert answer.failure is not None
    assert answer.failure.code == errors.IneligibleReplica.code
    assert "registered anew" in answer.failure.message
    assert shell.partition().isr == (1, 2)


def test_one_bad_partition_does_not_fail_the_others(cluster: Cluster) -> None:
    shell, _ = cluster
    good = request(shell, [1, 2])
    bad = replace(good.partitions[0], topic_id=TopicId("x" * 22))
    answer = shell.call("alter_partition", replace(good, partitions=(bad, *good.partitions)))
    assert isinstance(answer, PartitionsAltered)
    assert [p.failure is None for p in answer.partitions] == [False, True]
    assert shell.partition().isr == (1, 2)
