"""Partitions whose ISR was never enough to commit, and a loss of power of the only leader."""

from __future__ import annotations

import pytest

from pylog.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from pylog_broker.controller.effects import AppendRecords, Report, TellSession
from pylog_broker.metadata.admin import (
    AlterConfigs,
    ConfigChange,
    CreatePartitions,
    NewPartitionsOf,
)
from pylog_broker.metadata.records import (
    BrokerChangeRecord,
    ConfigResourceType,
    PartitionRecord,
    RegisterBrokerRecord,
)
from tests.fakes.controller_shell import ControllerShell

B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
TWO_IN_SYNC = {"min.insync.replicas": "2"}
State = tuple[int, tuple[int, ...], tuple[int, ...]]
OFFLINE_FOR_GOOD: State = (NO_LEADER, (), ())
LEADS: State = (1, (1,), ())


@pytest.fixture
def shell() -> ControllerShell:
    """Broker 1 is alone; 2 and 3 are registered, and away."""
    shell = ControllerShell()
    for number in (1, 2, 3):
        broker = shell.join(number)
        if number != 1:
            shell.lose(broker)
    return shell


def state(shell: ControllerShell, number: int = 0) -> State:
    partition = shell.partition(number=number)
    return partition.leader, partition.isr, partition.eligible_leader_replicas


def set_min_isr(shell: ControllerShell, resource: ConfigResourceType, value: str | None) -> None:
    name = "t" if resource is ConfigResourceType.TOPIC else ""
    change = ConfigChange(resource, name, {"min.insync.replicas": value})
    shell.call("alter_configs", AlterConfigs((change,), timeout_ms=0))


def power_lost(shell: ControllerShell, life: int = 2) -> State:
    """Broker 1 comes back, its directory not known to be whole; how the partition is then."""
    shell.join(1, life, log_intact=False)
    return state(shell)


def record(
    topic_id: TopicId,
    leader: int,
    epochs: tuple[int, int],
    isr: tuple[BrokerId, ...] = (),
    elr: tuple[BrokerId, ...] = (),
) -> PartitionRecord:
    return PartitionRecord(
        topic_id, 0, (B1, B2, B3), isr, BrokerId(leader), LeaderEpoch(epochs[0]),
        PartitionEpoch(epochs[1]), elr, directories=("directory-1", "directory-2", "directory-3"),
        never_committed=True,
    )  # fmt: skip


def test_the_only_one_ever_in_sync_leads_with_what_its_disk_kept(shell: ControllerShell) -> None:
    topic_id = shell.create(config=TWO_IN_SYNC)
    assert shell.log[-1] == record(topic_id, 1, (0, 0), isr=(B1,))
    request = shell.registration(1, 2, log_intact=False)
    epoch = BrokerEpoch(len(shell.log))
    registered = RegisterBrokerRecord(
        B1, epoch, request.incarnation_id, request.host_id, None, request.listeners,
        request.directory_id, request.boot_id,
        software=request.software,
    )  # fmt: skip
    effects = shell.controller.register_broker(shell.now_ms, request, "token")
    eligible = record(topic_id, NO_LEADER, (1, 1), elr=(B1,))
    assert effects == [AppendRecords(Offset(epoch), (registered, eligible))]
    shell.perform(effects)
    life = shell.register(1, 2)
    shell.open(life)
    assert shell.progress(life) == [
        AppendRecords(
            Offset(epoch + 2),
            (
                BrokerChangeRecord(B1, epoch, fenced=False, in_controlled_shutdown=False),
                record(topic_id, 1, (2, 2), isr=(B1,)),
            ),
        )
    ]
    assert shell.others[-2:] == [
        TellSession(B1, epoch, False, False, shell.controller.image.controller_epoch),
        Report("broker 1 is unfenced"),
    ]
    assert shell.controller.elections.unclean == 0


def test_so_it_does_after_it_was_fenced_and_once_more(shell: ControllerShell) -> None:
    shell.create(config=TWO_IN_SYNC)
    shell.lose(shell.register(1))
    assert state(shell) == (NO_LEADER, (), (1,))
    assert power_lost(shell) == LEADS
    assert power_lost(shell, 3) == LEADS


def test_others_that_come_first_wait_for_it(shell: ControllerShell) -> None:
    """They may lack what was acknowledged to acks=1."""
    shell.create(config=TWO_IN_SYNC)
    shell.register(1, 2, log_intact=False)
    shell.join(2, 2)
    assert state(shell) == (NO_LEADER, (), (1,))


def test_a_new_partition_of_an_old_topic(shell: ControllerShell) -> None:
    shell.join(2, 2)
    shell.create(config=TWO_IN_SYNC)
    shell.lose(shell.register(2, 2))
    shell.call("create_partitions", CreatePartitions((NewPartitionsOf("t", 2),), timeout_ms=0))
    assert shell.partition(number=1).never_committed
    power_lost(shell)
    assert state(shell, 1) == LEADS
    assert state(shell, 0) == (NO_LEADER, (), (2,))


def test_what_may_have_been_committed_stays_offline(shell: ControllerShell) -> None:
    shell.create(config=TWO_IN_SYNC)
    two = shell.join(2, 2)
    shell.alter([1, 2])
    shell.alter([1])
    assert state(shell) == (1, (1,), (2,))
    shell.register(2, 3, log_intact=False)
    assert two.broker_id not in shell.partition().eligible_leader_replicas
    assert power_lost(shell) == OFFLINE_FOR_GOOD


@pytest.mark.parametrize("config", [{}, {"min.insync.replicas": "1"}])
def test_a_leader_that_is_enough_commits_alone(
    shell: ControllerShell, config: dict[str, str]
) -> None:
    shell.create(config=config)
    assert power_lost(shell) == OFFLINE_FOR_GOOD


def test_the_clusters_minimum_counts_and_never_more_than_there_are_replicas(
    shell: ControllerShell,
) -> None:
    set_min_isr(shell, ConfigResourceType.CLUSTER, "2")
    shell.create("one", replication=1)
    assert not shell.partition("one").never_committed
    shell.create()
    assert power_lost(shell) == LEADS


@pytest.mark.parametrize("resource", [ConfigResourceType.TOPIC, ConfigResourceType.CLUSTER])
def test_a_minimum_that_was_lowered_for_a_while_let_the_leader_commit(
    shell: ControllerShell, resource: ConfigResourceType
) -> None:
    set_min_isr(shell, ConfigResourceType.CLUSTER, "2")
    shell.create()
    set_min_isr(shell, resource, "1")
    set_min_isr(shell, resource, "2")
    assert power_lost(shell) == OFFLINE_FOR_GOOD


def test_a_higher_minimum_changes_nothing(shell: ControllerShell) -> None:
    shell.create(config=TWO_IN_SYNC)
    set_min_isr(shell, ConfigResourceType.TOPIC, "3")
    shell.join(2, 2)
    shell.alter([1, 2])
    assert shell.partition().never_committed
    shell.register(2, 3, log_intact=False)
    assert power_lost(shell) == LEADS


def test_a_new_directory_has_nothing_to_lead_with(shell: ControllerShell) -> None:
    shell.create(config=TWO_IN_SYNC)
    shell.lose(shell.register(1))
    shell.join(1, 2, directory_id="empty")
    assert state(shell) == OFFLINE_FOR_GOOD


def test_nor_has_a_broker_that_is_unregistered(shell: ControllerShell) -> None:
    shell.create(config=TWO_IN_SYNC)
    shell.lose(shell.register(1))
    shell.call("unregister_broker", B1)
    assert state(shell) == OFFLINE_FOR_GOOD
