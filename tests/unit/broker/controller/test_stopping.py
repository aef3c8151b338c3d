"""Brokers and whole clusters that stop in order, and brokers that are gone for good."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog.model import NO_LEADER, BrokerId, ControllerEpoch
from pylog_broker.controller.effects import TellSession
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import (
    AlterPartition,
    BrokerState,
    BrokerUnregistered,
    Failure,
    PartitionIsr,
    PartitionsAltered,
    ShutdownPermitted,
)
from tests.fakes.controller_shell import ControllerShell

EPOCH_1 = ControllerEpoch(1)
B1 = BrokerId(1)


def test_a_controlled_shutdown_moves_the_leaders_first() -> None:
    shell = ControllerShell()
    brokers = [shell.join(n) for n in (1, 2, 3)]
    shell.create(partitions=3)
    assert shell.call("controlled_shutdown", B1, brokers[0].epoch) == ShutdownPermitted(0)
    for number in range(3):
        partition = shell.partition(number=number)
        assert partition.leader != B1
        assert B1 not in partition.isr
    shell.broken(brokers[0])
    shell.advance(400, alive=tuple(brokers[1:]))
    assert shell.controller.image.brokers[B1].fenced
    assert shell.controller.image.brokers[B1].in_controlled_shutdown
    # It may join no ISR and is not unfenced until it registers anew.
    refused = shell.alter([1, 2, 3]).partitions[0].failure
    assert refused is not None
    assert refused.code == errors.IneligibleReplica.code
    shell.join(1, life=2)
    assert not shell.controller.image.brokers[B1].in_controlled_shutdown


def test_a_stopping_leader_waits_for_a_replica_that_may_catch_up() -> None:
    shell = ControllerShell()
    one, two = shell.join(1), shell.join(2)
    shell.create(assignment={0: [1, 2]})
    shell.alter([1])  # 2 lags behind
    controller = shell.controller
    shell.perform(controller.controlled_shutdown(shell.now_ms, B1, one.epoch, "stop"))
    assert "stop" not in shell.replies
    answer = shell.alter([1, 2])  # 2 has caught up: it leads, and 1 learns that it does not
    assert answer.partitions[0].failure is not None
    assert answer.partitions[0].failure.code == errors.NewLeaderElected.code
    assert answer.partitions[0].leader == two.broker_id
    assert shell.replies.pop("stop") == ShutdownPermitted(0)
    assert shell.partition().isr == (2,)
    assert (controller.elections.elections, controller.elections.unclean) == (1, 0)


def test_a_stopping_leader_does_not_wait_for_ever() -> None:
    shell = ControllerShell()
    one, two = shell.join(1), shell.join(2)
    shell.create(assignment={0: [1, 2]})
    shell.alter([1])
    shell.perform(shell.controller.controlled_shutdown(shell.now_ms, B1, one.epoch, "stop"))
    shell.advance(2_900, alive=(one, two))
    assert "stop" not in shell.replies
    shell.advance(200, alive=(one, two))
    assert shell.replies.pop("stop") == ShutdownPermitted(0)
    partition = shell.partition()
    assert (partition.leader, partition.isr) == (NO_LEADER, ())
    assert partition.eligible_leader_replicas == (1,)


def test_a_cluster_that_stops_in_order_keeps_its_in_sync_replicas() -> None:
    shell = ControllerShell()
    brokers = [shell.join(n) for n in (1, 2, 3)]
    shell.create()
    before = shell.partition()
    shell.others.clear()
    shell.perform(shell.controller.stop_cluster(shell.now_ms))
    assert shell.others == [
        TellSession(b.broker_id, b.epoch, False, True, EPOCH_1) for b in brokers
    ]
    for broker in brokers:
        assert shell.call("controlled_shutdown", broker.broker_id, broker.epoch) == (
            ShutdownPermitted(0)
        )
        shell.broken(broker)
    shell.advance(10_000)
    assert shell.partition() == before
    shell.perform(shell.controller.cluster_stopped(shell.now_ms))
    stopped = shell.partition()
    assert (stopped.leader, stopped.isr) == (NO_LEADER, ())
    assert stopped.eligible_leader_replicas == before.isr
    assert shell.controller.image.live_brokers() == []


@pytest.mark.parametrize("first", [1, 2, 3])
def test_after_a_stop_of_the_cluster_any_of_the_in_sync_replicas_leads(first: int) -> None:
    """Also when the others have lost their disks, and with one in-sync replica enough."""
    shell = ControllerShell()
    brokers = [shell.join(n) for n in (1, 2, 3)]
    shell.create()
    shell.perform(shell.controller.stop_cluster(shell.now_ms))
    for broker in brokers:
        shell.broken(broker)
    shell.perform(shell.controller.cluster_stopped(shell.now_ms))
    image = MetadataImage.from_records(
        shell.controller.image.records(), shell.controller.image.offset
    )
    again = ControllerShell(image, settings=shell.settings, now_ms=5)
    for other in {1, 2, 3} - {first}:
        again.register(other, life=2, log_intact=False)
    again.join(first, life=2)
    partition = again.partition()
    assert (partition.leader, partition.isr) == (first, (first,))


def test_a_leader_that_outlives_the_stop_cannot_shrink_its_isr() -> None:
    shell = ControllerShell()
    one, *_ = [shell.join(n) for n in (1, 2, 3)]
    shell.create()
    before = shell.partition()
    shell.perform(shell.controller.stop_cluster(shell.now_ms))
    shell.perform(shell.controller.cluster_stopped(shell.now_ms))
    wish = PartitionIsr(
        before.topic_id, 0, before.leader_epoch, before.partition_epoch,
        (BrokerState(one.broker_id, one.epoch),),
    )  # fmt: skip
    answer = shell.call("alter_partition", AlterPartition(one.broker_id, one.epoch, (wish,)))
    assert isinstance(answer, PartitionsAltered)
    assert [altered.failure.code for altered in answer.partitions if altered.failure] == [
        errors.FencedLeaderEpoch.code
    ]
    assert shell.partition().eligible_leader_replicas == before.isr


def test_a_broker_is_unregistered_only_when_it_is_gone() -> None:
    shell = ControllerShell()
    one, two = shell.join(1), shell.join(2)
    shell.create(assignment={0: [1, 2]}, config={"min.insync.replicas": "2"})
    refused = shell.call("unregister_broker", B1)
    assert isinstance(refused, Failure)
    assert refused.code == errors.InvalidRequest.code
    shell.lose(one)
    assert shell.partition().eligible_leader_replicas == (1,)
    assert shell.call("unregister_broker", B1) == BrokerUnregistered(B1)
    assert shell.partition().eligible_leader_replicas == ()
    assert B1 not in shell.controller.image.brokers
    unknown = shell.call("unregister_broker", B1)
    assert isinstance(unknown, Failure)
    assert unknown.code == errors.BrokerIdNotRegistered.code
    assert two.broker_id in shell.controller.image.brokers


def test_a_controller_that_has_just_started_waits_for_a_broker_before_it_is_unregistered() -> None:
    before = ControllerShell()
    before.lose(before.join(1))
    shell = ControllerShell(before.controller.image, now_ms=before.now_ms + 5_000)
    refused = shell.call("unregister_broker", B1)
    assert isinstance(refused, Failure)
    assert refused.code == errors.InvalidRequest.code
    assert "may be running" in refused.message
    assert "broker.session.timeout.ms" in refused.message
    shell.advance(shell.settings.session_timeout_ms + 1)
    assert shell.call("unregister_broker", B1) == BrokerUnregistered(B1)
