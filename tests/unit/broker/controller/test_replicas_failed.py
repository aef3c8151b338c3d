"""A log fails under a broker that is otherwise well: others lead, and what its next life may do."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog.model import NO_LEADER, BrokerEpoch, BrokerId, TopicId
from pylog_broker.controller.effects import Report
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure, FailuresNoted, PartitionsAltered, ReplicasFailed
from tests.fakes.controller_shell import ControllerShell, Incarnation

Cluster = tuple[ControllerShell, list[Incarnation]]


def three(*, min_isr: int = 1, replication: int = 3) -> Cluster:
    shell = ControllerShell()
    brokers = [shell.join(number) for number in (1, 2, 3)]
    shell.create(replication=replication, config={"min.insync.replicas": str(min_isr)})
    return shell, brokers


def key(shell: ControllerShell, number: int = 0) -> tuple[TopicId, int]:
    return (shell.partition().topic_id, number)


def fail(shell: ControllerShell, broker: Incarnation, reason: str = "a bad block") -> object:
    request = ReplicasFailed(broker.broker_id, broker.epoch, (key(shell),), reason)
    return shell.call("replicas_failed", request)


def state(shell: ControllerShell) -> tuple[object, ...]:
    """Leader, leader epoch, ISR, ELR, failed replicas of the only partition."""
    found = shell.partition()
    return (
        found.leader, found.leader_epoch, found.isr, found.eligible_leader_replicas,
        found.failed_replicas,
    )  # fmt: skip


def warnings(shell: ControllerShell) -> list[str]:
    return [e.message for e in shell.others if isinstance(e, Report) and e.warning]


# ---- while others are in sync


def test_a_failed_leader_is_replaced_in_a_higher_epoch_and_its_broker_goes_on() -> None:
    shell, brokers = three()
    assert fail(shell, brokers[0]) == FailuresNoted()
    assert state(shell) == (2, 1, (2, 3), (), (1,))
    assert not shell.controller.image.brokers[brokers[0].broker_id].fenced
    (line,) = warnings(shell)
    assert line == (
        "broker 1 cannot use its logs of t-0 until it starts again; "
        "0 of these partitions have no leader now: a bad block"
    )


def test_a_failed_follower_leaves_and_the_leader_stays() -> None:
    shell, brokers = three()
    fail(shell, brokers[2])
    assert state(shell) == (1, 0, (1, 2), (), (3,))


def test_below_min_isr_it_is_not_eligible_because_its_data_may_be_gone() -> None:
    shell, brokers = three(min_isr=3)
    fail(shell, brokers[0])
    assert state(shell) == (2, 1, (2, 3), (), (1,))
    shell.lose(brokers[2])
    assert state(shell) == (2, 1, (2,), (3,), (1,))
    fail(shell, brokers[1])
    # Broker 3 holds everything committed: nothing was, since the ISR fell below its minimum.
    assert state(shell) == (NO_LEADER, 2, (), (3,), (1, 2))
    shell.join(3, life=2)
    assert state(shell) == (3, 3, (3,), (), (1, 2))


def test_a_repeat_changes_nothing_and_says_nothing() -> None:
    shell, brokers = three()
    fail(shell, brokers[0])
    offset, said = shell.controller.image.offset, len(shell.others)
    assert fail(shell, brokers[0]) == FailuresNoted()
    assert (shell.controller.image.offset, len(shell.others)) == (offset, said)


def test_it_may_not_join_again_in_this_life() -> None:
    shell, brokers = three()
    fail(shell, brokers[2])
    answer = shell.alter([1, 2, 3])
    assert isinstance(answer, PartitionsAltered)
    failure = answer.partitions[0].failure
    assert failure is not None
    assert failure.code == errors.IneligibleReplica.code
    assert "has a failed log there" in failure.message
    shell.join(3, life=2)
    assert state(shell) == (1, 0, (1, 2), (), ())
    assert shell.alter([1, 2, 3]).partitions[0].isr == (1, 2, 3)


def test_many_are_named_in_one_line() -> None:
    shell, brokers = three()
    topic_id = shell.create("many", partitions=9)
    replicas = tuple((topic_id, number) for number in range(9))
    request = ReplicasFailed(brokers[0].broker_id, brokers[0].epoch, replicas, "the disk")
    assert shell.call("replicas_failed", request) == FailuresNoted()
    (line,) = warnings(shell)
    assert "many-0, many-1, many-2, many-3, many-4 and 4 more until" in line
    leaders = {shell.partition("many", number).leader for number in range(9)}
    assert leaders == {2, 3}


def test_what_is_refused_and_what_is_passed_over() -> None:
    shell, brokers = three(replication=1)
    leader = shell.partition().leader
    offset = shell.controller.image.offset
    one = brokers[0]
    for broker, epoch, code in (
        (one.broker_id, one.epoch - 1, errors.StaleBrokerEpoch.code),
        (BrokerId(9), one.epoch, errors.BrokerIdNotRegistered.code),
    ):
        stale = ReplicasFailed(broker, BrokerEpoch(epoch), (key(shell),), "x")
        answer = shell.call("replicas_failed", stale)
        assert isinstance(answer, Failure)
        assert answer.code == code
    stranger = next(b for b in brokers if b.broker_id != leader)
    unknown = (key(shell), key(shell, 7), (TopicId("x" * 22), 0))
    request = ReplicasFailed(stranger.broker_id, stranger.epoch, unknown, "x")
    assert shell.call("replicas_failed", request) == FailuresNoted()
    assert shell.controller.image.offset == offset


def test_a_restarted_controller_remembers() -> None:
    shell, brokers = three()
    fail(shell, brokers[0])
    image = shell.controller.image
    again = ControllerShell(
        MetadataImage.from_records(image.records(), image.offset), settings=shell.settings
    )
    assert again.partition().failed_replicas == (1,)


# ---- the last one


def alone(shell: ControllerShell) -> None:
    shell.alter([1])
    assert state(shell) == (1, 0, (1,), (), ())


def test_the_last_replica_takes_the_partition_offline_and_brings_it_back_whole() -> None:
    shell, brokers = three()
    alone(shell)
    fail(shell, brokers[0])
    assert state(shell) == (NO_LEADER, 1, (), (1,), (1,))
    assert warnings(shell)[-1].endswith("1 of these partitions have no leader now: a bad block")
    shell.join(2, life=2)  # holds less than was committed
    assert state(shell)[0] == NO_LEADER
    shell.join(1, life=2)
    assert state(shell) == (1, 2, (1,), (), ())


@pytest.mark.parametrize("how", ["named", "power", "directory"])
def test_the_last_replica_that_comes_back_without_records_leads_nothing(how: str) -> None:
    shell, brokers = three()
    alone(shell)
    fail(shell, brokers[0])
    changes: dict[str, object] = {
        "named": {"lost_replicas": (key(shell),)},
        "power": {"log_intact": False},
        "directory": {"directory_id": "other"},
    }[how]  # type: ignore[assignment]
    shell.lose(brokers[0])
    shell.join(1, life=2, **changes)
    assert state(shell) == (NO_LEADER, 1, (), (), ())


def test_the_last_replica_that_still_does_not_work_stays_eligible_for_a_later_life() -> None:
    shell, brokers = three()
    alone(shell)
    fail(shell, brokers[0])
    shell.join(1, life=2, failed_replicas=(key(shell),))
    assert state(shell) == (NO_LEADER, 1, (), (1,), (1,))
    shell.join(1, life=3)
    assert state(shell) == (1, 2, (1,), (), ())


@pytest.mark.parametrize("lost", [False, True])
def test_an_only_replica_comes_back_in_any_case(lost: bool) -> None:
    shell, brokers = three(replication=1)
    leader = shell.partition().leader
    broker = next(b for b in brokers if b.broker_id == leader)
    fail(shell, broker)
    assert state(shell) == (NO_LEADER, 1, (), (leader,), (leader,))
    replicas = (key(shell),)
    shell.join(leader, life=2, failed_replicas=replicas, log_intact=not lost)
    assert state(shell) == (NO_LEADER, 1, (), (leader,), (leader,))
    shell.join(leader, life=3, lost_replicas=replicas if lost else ())
    assert state(shell) == (leader, 2, (leader,), (), ())


def test_an_unclean_election_passes_over_a_failed_log() -> None:
    shell, brokers = three()
    shell.create("u", config={"unclean.leader.election.enable": "true"})
    shell.advance(shell.settings.session_timeout_ms + 1, alive=tuple(brokers))
    topic_id = shell.partition("u").topic_id
    for broker in brokers:
        request = ReplicasFailed(broker.broker_id, broker.epoch, ((topic_id, 0),), "x")
        shell.call("replicas_failed", request)
    found = shell.partition("u")
    assert (found.leader, found.isr, len(found.failed_replicas)) == (NO_LEADER, (), 3)
    shell.join(2, life=2, lost_replicas=((topic_id, 0),))
    assert shell.partition("u").leader == 2


# ---- at registration


def test_only_the_named_logs_leave_when_one_is_rotten_at_the_start() -> None:
    shell, _ = three(min_isr=3)
    other = shell.create("other", config={"min.insync.replicas": "3"})
    shell.join(2, life=2, failed_replicas=((other, 0),))
    whole, rotten = shell.partition(), shell.partition("other")
    assert (set(whole.isr), whole.eligible_leader_replicas) == ({1, 3}, (2,))
    assert (set(rotten.isr), rotten.eligible_leader_replicas) == ({1, 3}, ())
    assert rotten.failed_replicas == (2,)
    assert "1 of its logs do not work and 0 lack records" in warnings(shell)[-1]


def test_the_same_incarnation_registering_again_changes_nothing() -> None:
    shell, _ = three()
    offset = shell.controller.image.offset
    shell.register(2, failed_replicas=(key(shell),))
    assert shell.controller.image.offset == offset
