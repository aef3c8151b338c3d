"""Moves by command: what is refused with which words, and how a move ends or is taken back."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog.model import NO_LEADER, BrokerId
from pylog_broker.controller.effects import Report
from pylog_broker.metadata.admin import (
    AlteredReassignment,
    AlterPartitionReassignments,
    DeleteTopics,
    ListPartitionReassignments,
    NewReplicas,
    OngoingReassignment,
    PartitionReassignmentsAltered,
)
from pylog_broker.metadata.messages import Failure
from tests.fakes.controller_shell import ControllerShell, Incarnation


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


class Moves:
    """Five live brokers, and a topic `t` of one partition on brokers 1 and 2."""

    def __init__(self) -> None:
        self.shell = ControllerShell()
        self.brokers: list[Incarnation] = [self.shell.join(n) for n in range(1, 6)]
        self.shell.create(assignment={0: [1, 2]})

    def alter(
        self, *replicas: int, partition: int = 0, topic: str = "t", may_change: bool = True
    ) -> Failure | None:
        wanted = NewReplicas(topic, partition, ids(*replicas))
        return self.ask(AlterPartitionReassignments((wanted,), may_change))

    def cancel(self) -> Failure | None:
        return self.ask(AlterPartitionReassignments((NewReplicas("t", 0, None),)))

    def ask(self, request: AlterPartitionReassignments) -> Failure | None:
        answer = self.shell.call("alter_partition_reassignments", request)
        assert isinstance(answer, PartitionReassignmentsAltered)
        assert [(each.topic, each.partition) for each in answer.partitions] == [
            (each.topic, each.partition) for each in request.partitions
        ]
        return answer.partitions[0].failure

    def ongoing(self) -> tuple[OngoingReassignment, ...]:
        return self.shell.controller.list_partition_reassignments(ListPartitionReassignments())


@pytest.fixture
def moves() -> Moves:
    return Moves()


def test_a_partition_moves_when_all_new_replicas_are_in_sync(moves: Moves) -> None:
    shell = moves.shell
    assert moves.alter(3, 4) is None
    assert moves.ongoing() == (OngoingReassignment("t", 0, ids(3, 4, 1, 2), ids(3, 4), ids(1, 2)),)
    assert (shell.partition().leader, shell.partition().isr) == (1, (1, 2))
    assert shell.alter([1, 2, 3]).partitions[0].failure is None
    assert moves.ongoing() != ()
    epoch = shell.partition().leader_epoch
    (answer,) = shell.alter([1, 2, 3, 4]).partitions
    # the leader that asked is none any more
    assert answer.failure is not None
    assert answer.failure.code == errors.NewLeaderElected.code
    partition = shell.partition()
    assert (partition.replicas, partition.isr, partition.leader) == (ids(3, 4), ids(3, 4), 3)
    assert partition.leader_epoch == epoch + 1
    assert partition.directories == ("directory-3", "directory-4")
    assert moves.ongoing() == ()
    assert shell.controller.elections.unclean == 0


def test_the_end_is_no_unclean_election_when_all_members_change_at_once() -> None:
    moves = Moves()
    moves.shell.create("one", assignment={0: [1]})
    assert moves.alter(4, topic="one") is None
    moves.shell.alter([1, 4], topic="one")
    assert moves.shell.partition("one").isr == (4,)
    assert moves.shell.controller.elections.unclean == 0


def test_more_replicas(moves: Moves) -> None:
    assert moves.alter(1, 2, 3) is None
    moves.shell.alter([1, 2, 3])
    partition = moves.shell.partition()
    assert (partition.replicas, partition.leader) == (ids(1, 2, 3), 1)
    assert not partition.is_reassigning
    assert partition.leader_epoch == 1  # so that its leader takes the whole record


def test_fewer_replicas_and_another_order_at_once(moves: Moves) -> None:
    assert moves.alter(2) is None
    partition = moves.shell.partition()
    assert (partition.replicas, partition.isr, partition.leader) == (ids(2), ids(2), 2)
    assert moves.ongoing() == ()


REFUSED = {
    "no replica": ((), errors.InvalidReplicaAssignment, "t-0: the list of replicas is empty"),
    "one twice": (
        (3, 3), errors.InvalidReplicaAssignment, "t-0: broker 3 is named more than once"),
    "an unknown one": (
        (3, 99), errors.InvalidReplicaAssignment, "t-0: broker 99 is not registered"),
    "a fenced one": (
        (3, 5), errors.InvalidReplicaAssignment,
        "t-0: broker 5 is fenced: it could not copy anything now; start it first"),
}  # fmt: skip


@pytest.mark.parametrize(("target", "error", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_targets(
    moves: Moves, target: tuple[int, ...], error: type[errors.PylogError], text: str
) -> None:
    moves.shell.lose(moves.brokers[4])
    before = moves.shell.partition()
    assert moves.alter(*target) == Failure(error.code, text)
    assert moves.shell.partition() == before


def test_a_replica_that_stays_may_be_away(moves: Moves) -> None:
    moves.shell.lose(moves.brokers[1])
    assert moves.alter(2, 3) is None
    assert moves.ongoing()[0].removing == ids(1)


def test_unknown_partitions_and_repeats(moves: Moves) -> None:
    for topic, number in (("t", 1), ("other", 0)):
        failure = moves.alter(3, topic=topic, partition=number)
        assert failure == Failure(
            errors.UnknownTopicOrPartition.code, f"{topic}-{number}: there is no such partition"
        )
    twice = NewReplicas("t", 0, ids(3))
    failure = moves.ask(AlterPartitionReassignments((twice, twice)))
    assert failure == Failure(errors.InvalidRequest.code, "t-0: the request names it twice")
    assert moves.ongoing() == ()


def test_one_bad_partition_does_not_stop_the_others(moves: Moves) -> None:
    answer = moves.shell.call(
        "alter_partition_reassignments",
        AlterPartitionReassignments(
            (NewReplicas("gone", 0, ids(3)), NewReplicas("t", 0, ids(3, 4)))
        ),
    )
    assert isinstance(answer, PartitionReassignmentsAltered)
    assert answer.partitions[1] == AlteredReassignment("t", 0)
    assert answer.partitions[0].failure is not None
    assert [each.topic for each in moves.ongoing()] == ["t"]


def test_the_replication_factor_changes_by_request_only(moves: Moves) -> None:
    failure = moves.alter(3, 4, 5, may_change=False)
    assert failure is not None
    assert failure.code == errors.InvalidReplicationFactor.code
    assert moves.alter(3, 4, may_change=False) is None
    # in the midst, the replicas of before are those that count
    assert moves.alter(4, 5, may_change=False) is None


def test_cancel(moves: Moves) -> None:
    assert moves.cancel() == Failure(errors.NoReassignmentInProgress.code, "t-0: it does not move")
    moves.alter(3, 4)
    moves.shell.alter([1, 2, 3])
    assert moves.cancel() is None
    partition = moves.shell.partition()
    assert (partition.replicas, partition.isr, partition.leader) == (ids(1, 2), ids(1, 2), 1)
    assert moves.ongoing() == ()
    assert moves.cancel() is not None


def test_a_cancel_that_would_lose_records_is_refused(moves: Moves) -> None:
    moves.alter(3, 4)
    moves.shell.alter([1, 2, 3])
    moves.shell.lose(moves.brokers[0])
    moves.shell.lose(moves.brokers[1])
    assert moves.shell.partition().isr == (3,)
    before = moves.shell.partition()
    text = (
        "t-0: only the brokers [3] hold all committed records, and none of them would stay; let "
        "one of them be among the replicas, or wait for the others"
    )
    refused = Failure(errors.InvalidReplicaAssignment.code, text)
    assert moves.cancel() == refused
    assert moves.alter(4, 5) == refused
    assert moves.shell.partition() == before
    assert moves.alter(3, 5) is None


def test_a_member_that_is_fenced_does_not_end_a_move(moves: Moves) -> None:
    moves.alter(3, 4)
    moves.shell.alter([1, 2, 3])
    moves.shell.lose(moves.brokers[2])
    assert moves.shell.partition().isr == (1, 2)
    (refused,) = moves.shell.alter([1, 2, 3, 4]).partitions
    assert refused.failure is not None
    assert moves.ongoing() != ()


def test_a_move_ends_over_the_loss_of_the_last_old_member(moves: Moves) -> None:
    """3 and 4 are in sync, but min.insync.replicas holds the end up until 1 is fenced."""
    moves.shell.create("two", assignment={0: [1, 2, 5]}, config={"min.insync.replicas": "2"})
    moves.shell.alter([1, 2], topic="two")
    assert moves.alter(5, 3, topic="two") is None
    moves.shell.alter([1, 2, 3], topic="two")
    assert moves.shell.partition("two").is_reassigning
    moves.shell.alter([1, 2, 3, 5], topic="two")
    assert moves.shell.partition("two").replicas == (5, 3)


def test_a_stopping_leader_does_not_count_for_the_end_of_a_move(moves: Moves) -> None:
    """4 catches up, for which 1 has waited; the ISR without 1 is smaller than the minimum."""
    shell, one = moves.shell, moves.brokers[0]
    shell.create("two", assignment={0: [1, 2, 3]}, config={"min.insync.replicas": "2"})
    shell.alter([1, 3], topic="two")
    shell.alter([1], topic="two")
    assert moves.alter(1, 4, 2, topic="two") is None
    shell.perform(shell.controller.controlled_shutdown(shell.now_ms, one.broker_id, one.epoch, ""))
    before = shell.partition("two")
    assert (before.isr, before.eligible_leader_replicas) == (ids(1), ids(3))
    (altered,) = shell.alter([1, 4], topic="two").partitions
    assert (altered.leader, altered.isr) == (4, ids(4))
    after = shell.partition("two")
    assert after.replicas == before.replicas == ids(1, 4, 2, 3)
    assert (after.leader, after.isr, after.eligible_leader_replicas) == (4, ids(4), ids(3, 1))
    assert after.partition_epoch == before.partition_epoch + 1
    shell.alter([4, 2], topic="two")
    assert shell.partition("two").replicas == ids(1, 4, 2)


def test_a_topic_that_is_deleted_moves_no_more(moves: Moves) -> None:
    moves.alter(3, 4)
    moves.shell.call("delete_topics", DeleteTopics(("t",)))
    assert moves.ongoing() == ()


def test_preferred_leaders_follow_the_target(moves: Moves) -> None:
    moves.alter(2, 1)
    assert moves.shell.partition().leader == 1
    moves.shell.advance(400_000, alive=tuple(moves.brokers))
    assert moves.shell.partition().leader == 2


def test_the_source_of_a_move_may_come_back_with_less_when_nobody_else_holds_it() -> None:
    moves = Moves()
    moves.shell.create("one", assignment={0: [1]})
    moves.alter(4, topic="one")
    moves.shell.lose(moves.brokers[0])
    assert moves.shell.partition("one").leader == NO_LEADER
    moves.shell.join(1, life=2, log_intact=False)
    assert moves.shell.partition("one").leader == 1


def test_new_partitions_have_as_many_replicas_as_the_target(moves: Moves) -> None:
    from pylog_broker.metadata.admin import CreatePartitions, NewPartitionsOf

    moves.alter(3, 4)
    moves.shell.call("create_partitions", CreatePartitions((NewPartitionsOf("t", 2),), 0))
    assert len(moves.shell.partition("t", 1).replicas) == 2


def test_moves_are_told_in_the_log(moves: Moves) -> None:
    moves.alter(3, 4)
    moves.cancel()
    said = [each.message for each in moves.shell.others if isinstance(each, Report)]
    assert said[-2:] == ["replicas move by command: t-0", "moves are cancelled by command: t-0"]


def test_the_list_can_name_partitions(moves: Moves) -> None:
    moves.alter(3, 4)
    listed = moves.shell.controller.list_partition_reassignments
    assert listed(ListPartitionReassignments((("t", 0), ("t", 0), ("u", 1)))) == moves.ongoing()
    assert listed(ListPartitionReassignments((("t", 7),))) == ()
