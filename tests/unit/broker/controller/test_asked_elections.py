"""Elections that nobody's coming or going asks for: the periodic balance, and by command."""

from __future__ import annotations

from pylog import errors
from pylog.model import NO_LEADER, BrokerId
from pylog_broker.controller.effects import Report
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.admin import ElectedLeader, ElectLeaders, LeadersElected
from tests.fakes.controller_shell import ControllerShell

B1 = BrokerId(1)


def test_preferred_leaders_come_back_by_the_periodic_balance() -> None:
    settings = ControllerSettings(expected_brokers=3, leader_imbalance_check_ms=5_000)
    shell = ControllerShell(settings=settings)
    brokers = [shell.join(n) for n in (1, 2, 3)]
    shell.create(partitions=6)
    shell.lose(brokers[0])
    brokers[0] = shell.join(1, life=2)
    assert all(shell.partition(number=n).leader != 1 for n in range(6))
    for number in range(6):
        isr = [*shell.partition(number=number).isr, 1]
        assert shell.alter([int(b) for b in isr], number=number).failure is None
    assert shell.partition().isr[-1] == 1  # it joins at the end, the leader stays (K24)
    assert all(shell.partition(number=n).leader != 1 for n in range(6))
    shell.advance(5_100, alive=tuple(brokers))
    for number in range(6):
        partition = shell.partition(number=number)
        assert partition.leader == partition.replicas[0]


def test_a_small_imbalance_is_left_alone() -> None:
    settings = ControllerSettings(
        expected_brokers=2, leader_imbalance_check_ms=5_000, leader_imbalance_percentage=50
    )
    shell = ControllerShell(settings=settings)
    one, two = shell.join(1), shell.join(2)
    shell.create(assignment={0: [1, 2], 1: [1, 2]})
    # 2 leads one of the two partitions that 1 should lead: 50 % is not above 50 %
    shell.alter([1], number=0)
    shell.lose(one)
    one = shell.join(1, life=2)
    shell.alter([2, 1], number=1)
    partition = shell.partition(number=1)
    assert partition.leader == 2
    shell.advance(6_000, alive=(one, two))
    assert shell.partition(number=1).leader == 2


def test_elections_by_command() -> None:
    shell = ControllerShell()
    brokers = [shell.join(n) for n in (1, 2, 3)]
    shell.create(assignment={0: [1, 2, 3]})
    shell.lose(brokers[0])
    shell.join(1, life=2)

    def elect(*, unclean: bool = False, partition: int = 0) -> ElectedLeader:
        answer = shell.call("elect_leaders", ElectLeaders(unclean, (("t", partition),)))
        assert isinstance(answer, LeadersElected)
        return answer.partitions[0]

    away = elect().failure
    assert away is not None
    assert away.code == errors.PreferredLeaderNotAvailable.code
    shell.alter([2, 3, 1])
    assert elect() == ElectedLeader("t", 0, leader=B1)
    needless = elect().failure
    assert needless is not None
    assert needless.code == errors.ElectionNotNeeded.code
    unknown = elect(partition=7).failure
    assert unknown is not None
    assert unknown.code == errors.UnknownTopicOrPartition.code
    clean = elect(unclean=True).failure
    assert clean is not None
    assert clean.code == errors.ElectionNotNeeded.code
    for_all = shell.call("elect_leaders", ElectLeaders(True))
    assert isinstance(for_all, LeadersElected)
    assert for_all.failure is not None
    assert for_all.failure.code == errors.InvalidRequest.code


def test_an_unclean_election_by_command_is_loud() -> None:
    shell = ControllerShell()
    one, two = shell.join(1), shell.join(2)
    shell.create(assignment={0: [1, 2]})
    shell.alter([1])
    shell.lose(one)
    assert shell.partition().leader == NO_LEADER
    answer = shell.call("elect_leaders", ElectLeaders(True, (("t", 0),)))
    assert answer == LeadersElected((ElectedLeader("t", 0, leader=two.broker_id),))
    assert (shell.partition().isr, shell.partition().eligible_leader_replicas) == ((2,), ())
    reports = [e for e in shell.others if isinstance(e, Report) and e.warning]
    assert "acknowledged records may be lost" in reports[-1].message
