"""Adding partitions: what is refused with which words, and when the answer comes."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog.model import NO_LEADER, BrokerId, PartitionEpoch
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.admin import (
    CreatePartitions,
    GrownTopic,
    NewPartitionsOf,
    PartitionsCreated,
)
from pylog_broker.metadata.messages import Failure
from tests.fakes.controller_shell import ControllerShell


@pytest.fixture
def shell() -> ControllerShell:
    """Three live brokers, a topic of two partitions; small limits."""
    settings = ControllerSettings(
        expected_brokers=3, partitions_per_request_max=20, partitions_max=50
    )
    shell = ControllerShell(settings=settings)
    for number in (1, 2, 3):
        shell.join(number)
    shell.create(partitions=2, replication=2)
    return shell


def grow(
    shell: ControllerShell,
    count: int,
    assignment: tuple[tuple[int, ...], ...] | None = None,
    *,
    name: str = "t",
    validate_only: bool = False,
) -> GrownTopic:
    chosen = None if assignment is None else tuple(tuple(map(BrokerId, a)) for a in assignment)
    wanted = CreatePartitions((NewPartitionsOf(name, count, chosen),), 0, validate_only)
    answer = shell.call("create_partitions", wanted)
    assert isinstance(answer, PartitionsCreated)
    return answer.topics[0]


def test_new_partitions_have_the_topics_replication_factor(shell: ControllerShell) -> None:
    before = [shell.partition("t", number) for number in (0, 1)]
    assert grow(shell, 5) == GrownTopic("t", None, 5)
    partitions = shell.controller.image.topics_by_name["t"].partitions
    assert sorted(partitions) == [0, 1, 2, 3, 4]
    assert [partitions[number] for number in (0, 1)] == before
    for number in (2, 3, 4):
        partition = partitions[number]
        assert len(set(partition.replicas)) == 2
        assert partition.isr == partition.replicas
        assert (partition.leader, partition.partition_epoch) == (
            partition.replicas[0], PartitionEpoch(0),
        )  # fmt: skip
    assert {partitions[number].leader for number in (2, 3, 4)} == {1, 2, 3}


def test_brokers_can_be_chosen(shell: ControllerShell) -> None:
    assert grow(shell, 4, ((3, 1), (2, 3))).failure is None
    assert [shell.partition("t", number).replicas for number in (2, 3)] == [(3, 1), (2, 3)]


@pytest.mark.parametrize(
    ("count", "assignment", "error", "words"),
    [
        (2, None, errors.InvalidPartitions, "it has 2 partitions, 2 were asked for: that is"),
        (1, None, errors.InvalidPartitions, "partitions cannot be taken away"),
        (-1, None, errors.InvalidPartitions, "partitions cannot be taken away"),
        (23, None, errors.InvalidPartitions, "the limit is 20 in one request"),
        (4, ((1, 2),), errors.InvalidReplicaAssignment, "2 partitions are added, but the assig"),
        (3, ((1, 1),), errors.InvalidReplicaAssignment, "partition 2 must name one or more diff"),
        (3, ((1,),), errors.InvalidReplicaAssignment, "partition 2 has 1 replicas, partition 0"),
        (3, ((1, 9),), errors.InvalidReplicaAssignment, "partition 2 names broker 9"),
    ],
)
def test_refusals_change_nothing(
    shell: ControllerShell,
    count: int,
    assignment: tuple[tuple[int, ...], ...] | None,
    error: type[errors.PylogError],
    words: str,
) -> None:
    offset = shell.controller.decided.offset
    grown = grow(shell, count, assignment)
    assert grown.failure is not None
    assert grown.failure.code == error.code
    assert grown.failure.message.startswith("topic t: ")
    assert words in grown.failure.message
    assert shell.controller.decided.offset == offset


def test_the_clusters_limit(shell: ControllerShell) -> None:
    for count in (20, 40):
        assert grow(shell, count).failure is None
    failure = grow(shell, 60).failure
    assert failure is not None
    assert "would exceed its limit of 50" in failure.message


def test_unknown_reserved_and_repeated_topics(shell: ControllerShell) -> None:
    missing = grow(shell, 3, name="no").failure
    assert missing is not None
    assert missing.code == errors.UnknownTopicOrPartition.code
    twice = CreatePartitions((NewPartitionsOf("t", 3), NewPartitionsOf("t", 4)), 0)
    answer = shell.call("create_partitions", twice)
    assert isinstance(answer, PartitionsCreated)
    why = Failure(errors.InvalidRequest.code, "topic t: the request names it twice")
    assert [t.failure for t in answer.topics] == [why] * 2


def test_validation_only_writes_nothing(shell: ControllerShell) -> None:
    offset = shell.controller.decided.offset
    assert grow(shell, 3, validate_only=True) == GrownTopic("t", None, 3)
    assert shell.controller.decided.offset == offset


def test_the_answer_waits_for_the_brokers_and_names_a_lost_leader(shell: ControllerShell) -> None:
    one = shell.join(1, life=2)
    wanted = CreatePartitions((NewPartitionsOf("t", 3, ((BrokerId(1), BrokerId(2)),)),), 5_000)
    shell.perform(shell.controller.create_partitions(shell.now_ms, wanted, "token"))
    assert "token" not in shell.replies
    shell.lose(one)
    assert shell.partition("t", 2).leader == 2 != NO_LEADER
    shell.advance(5_000)
    assert shell.replies["token"] == PartitionsCreated((GrownTopic("t", None, 3),))
