"""Topics: what is refused with which words, and when the answer comes."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog.model import BrokerId, NewTopic, TopicId, topic_name_fault
from pylog_broker.config import TopicConfig
from pylog_broker.controller.effects import AppendRecords
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.admin import (
    CreatedTopic,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    TopicsCreated,
    TopicsDeleted,
)
from pylog_broker.metadata.messages import Failure
from tests.fakes.controller_shell import ControllerShell


@pytest.fixture
def shell() -> ControllerShell:
    """Three live brokers; small limits, so that they can be reached."""
    settings = ControllerSettings(
        expected_brokers=3, num_partitions=2, partitions_per_request_max=100, partitions_max=150
    )
    shell = ControllerShell(settings=settings)
    for number in (1, 2, 3):
        shell.join(number)
    return shell


def create(shell: ControllerShell, *topics: NewTopic, **options: bool) -> list[CreatedTopic]:
    answer = shell.call("create_topics", CreateTopics(topics, 0, **options))
    assert isinstance(answer, TopicsCreated)
    return list(answer.topics)


def failure(shell: ControllerShell, topic: NewTopic) -> Failure:
    """The failure to create the topic, of which nothing is created."""
    offset = shell.controller.decided.offset
    (created,) = create(shell, topic)
    assert created.failure is not None
    assert created.topic_id is None
    assert shell.controller.decided.offset == offset
    legal = topic_name_fault(topic.name) is None
    assert created.failure.message.startswith(f"topic {topic.name}: " if legal else "topic '")
    return created.failure


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../../etc/x", "a/b", "a\0b", "a\nb", "/abs", "x" * 250, "tópic", "a b"],
)
def test_names_that_are_refused(shell: ControllerShell, name: str) -> None:
    # bad inputs 1 to 4
    assert failure(shell, NewTopic(name)).code == errors.InvalidTopic.code


def test_names_that_are_allowed(shell: ControllerShell) -> None:
    # bad inputs 3, 5: the longest name, and two that a metric system would confuse
    for name in ("x" * 249, "a.b", "a_b", "A.b"):
        (created,) = create(shell, NewTopic(name))
        assert created.failure is None
    deleted = shell.call("delete_topics", DeleteTopics(("x" * 249,)))
    assert isinstance(deleted, TopicsDeleted)
    assert deleted.topics[0].failure is None


def test_names_of_the_cluster_are_its_own(shell: ControllerShell) -> None:
    # bad input 6
    assert failure(shell, NewTopic("__offsets")).code == errors.InvalidTopic.code
    (created,) = create(shell, NewTopic("__offsets"), internal=True)
    assert created.failure is None
    deleted = shell.call("delete_topics", DeleteTopics(("__offsets",), (created.topic_id,)))
    assert isinstance(deleted, TopicsDeleted)
    codes = [topic.failure and topic.failure.code for topic in deleted.topics]
    assert codes == [errors.InvalidTopic.code] * 2


@pytest.mark.parametrize("count", [0, -2, 101, 10**9])
def test_partition_counts_that_are_refused(shell: ControllerShell, count: int) -> None:
    # bad inputs 7, 33
    refused = failure(shell, NewTopic("t", count))
    assert refused.code == errors.InvalidPartitions.code
    assert "1 to 100" in refused.message


def test_a_request_for_too_many_partitions_in_all(shell: ControllerShell) -> None:
    created = create(shell, NewTopic("a", 60), NewTopic("b", 60))
    assert [t.failure and t.failure.code for t in created] == [errors.InvalidPartitions.code] * 2
    assert created[0].failure is not None
    assert "120 partitions; the limit is 100" in created[0].failure.message


def test_the_cluster_has_a_limit_of_partitions(shell: ControllerShell) -> None:
    create(shell, NewTopic("a", 100))
    refused = failure(shell, NewTopic("b", 51))
    assert refused.code == errors.InvalidPartitions.code
    assert "limit of 150" in refused.message


@pytest.mark.parametrize(
    ("factor", "words"),
    [(0, "1 to 32767"), (-2, "1 to 32767"), (4, "only 3 brokers"), (40_000, "1 to 32767")],
)
def test_replication_factors_that_are_refused(
    shell: ControllerShell, factor: int, words: str
) -> None:
    # bad input 8
    refused = failure(shell, NewTopic("t", 1, factor))
    assert refused.code == errors.InvalidReplicationFactor.code
    assert words in refused.message


def test_a_broker_that_is_down_gets_its_replicas_last_and_outside_the_isr(
    shell: ControllerShell,
) -> None:
    shell.register(2, life=2)  # fenced
    (created,) = create(shell, NewTopic("t", 3, 3))
    assert created.failure is None
    for number in range(3):
        partition = shell.partition("t", number)
        assert partition.replicas[2] == 2
        assert set(partition.isr) == {1, 3}
        assert partition.leader == partition.replicas[0]


def test_with_no_broker_up_no_topic_is_made(shell: ControllerShell) -> None:
    for number in (1, 2, 3):
        shell.register(number, life=2)  # fenced
    refused = failure(shell, NewTopic("t", 1, 1))
    assert refused.code == errors.InvalidReplicationFactor.code
    assert "none of 3 registered brokers is live" in refused.message


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"retention.mss": "1"}, "did you mean retention.ms"),
        ({"retention.ms": "soon"}, "retention.ms='soon'"),
        ({"retention.ms": "-5"}, "retention.ms='-5'"),
        ({"segment.bytes": "1"}, "segment.bytes='1'"),
        ({"min.insync.replicas": "3"}, "above the replication factor 2"),
        ({"min.insync.replicas": "0"}, "min.insync.replicas"),
    ],
)
def test_configurations_that_are_refused(
    shell: ControllerShell, config: dict[str, str], words: str
) -> None:
    # bad inputs 8, 12; B-R34
    refused = failure(shell, NewTopic("t", 1, 2, config=config))
    assert refused.code == errors.InvalidConfig.code
    assert words in refused.message


def test_a_default_of_min_isr_above_the_replicas_means_all_of_them() -> None:
    defaults = TopicConfig(min_insync_replicas=2)
    shell = ControllerShell(
        settings=ControllerSettings(expected_brokers=1, topic_defaults=defaults)
    )
    shell.join(1)
    shell.create(replication=1)
    assert shell.controller.image.cluster_configs() == {"min.insync.replicas": "2"}


def test_the_same_topic_twice(shell: ControllerShell) -> None:
    # bad input 9
    twice = create(shell, NewTopic("t"), NewTopic("t"))
    assert [t.failure and t.failure.code for t in twice] == [errors.InvalidRequest.code] * 2
    (first,) = create(shell, NewTopic("t"))
    assert failure(shell, NewTopic("t")).code == errors.TopicAlreadyExists.code
    assert shell.controller.image.topics_by_name["t"].topic_id == first.topic_id


def test_defaults_and_what_comes_back(shell: ControllerShell) -> None:
    (created,) = create(shell, NewTopic("t", -1, -1, config={"retention.ms": "5"}))
    assert (created.num_partitions, created.replication_factor) == (2, 1)
    assert shell.controller.image.topic_configs("t") == {"retention.ms": "5"}


def test_validation_only_writes_nothing(shell: ControllerShell) -> None:
    offset = shell.controller.decided.offset
    (created,) = create(shell, NewTopic("t", 3, 2), validate_only=True)
    assert created == CreatedTopic("t", None, None, 3, 2)
    assert shell.controller.decided.offset == offset


# ---- assignments -------------------------------------------------------------------------------


def test_an_assignment_is_taken_as_it_is(shell: ControllerShell) -> None:
    shell.register(3, life=2)  # fenced
    shell.create(assignment={0: [3, 2], 1: [2, 1]})
    first, second = shell.partition(number=0), shell.partition(number=1)
    assert (first.replicas, first.isr, first.leader) == ((3, 2), (2,), 2)
    assert (second.replicas, second.isr, second.leader) == ((2, 1), (2, 1), 2)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ({0: [1], 2: [2]}, "without a gap"),
        ({0: []}, "one or more"),
        ({0: [1, 1]}, "different brokers"),
        ({0: [1, 2], 1: [1]}, "equally many"),
        ({0: [1, 9]}, "broker 9, which is not registered"),
    ],
)
def test_assignments_that_are_refused(
    shell: ControllerShell, assignment: dict[int, list[int]], words: str
) -> None:
    refused = failure(shell, NewTopic("t", replica_assignment=assignment))
    assert refused.code == errors.InvalidReplicaAssignment.code
    assert words in refused.message


def test_an_assignment_to_nobody_live_is_refused(shell: ControllerShell) -> None:
    shell.register(3, life=2)
    refused = failure(shell, NewTopic("t", replica_assignment={0: [3]}))
    assert refused.code == errors.InvalidReplicaAssignment.code


def test_counts_beside_an_assignment_are_refused(shell: ControllerShell) -> None:
    refused = failure(shell, NewTopic("t", 3, replica_assignment={0: [1]}))
    assert refused.code == errors.InvalidRequest.code


def test_an_empty_assignment_is_no_topic(shell: ControllerShell) -> None:
    refused = failure(shell, NewTopic("t", replica_assignment={}))
    assert refused.code == errors.InvalidPartitions.code


# ---- when the answer comes ----------------------------------------------------------------------


def test_the_answer_waits_until_every_live_broker_has_heard() -> None:
    shell = ControllerShell()
    one, two, three = (shell.join(number) for number in (1, 2, 3))
    request = CreateTopics((NewTopic("t", 1, 3),), timeout_ms=5_000)
    shell.perform(shell.controller.create_topics(shell.now_ms, request, "call"))
    for broker in (one, two):
        shell.progress(broker)
    assert "call" not in shell.replies
    shell.progress(three, shell.controller.image.offset - 1)
    assert "call" not in shell.replies
    shell.progress(three)
    assert "call" in shell.replies


def test_it_does_not_wait_for_a_broker_that_is_lost() -> None:
    shell = ControllerShell()
    one, two, three = (shell.join(number) for number in (1, 2, 3))
    request = CreateTopics((NewTopic("t", 1, 3),), timeout_ms=5_000)
    shell.perform(shell.controller.create_topics(shell.now_ms, request, "call"))
    for broker in (one, two):
        shell.progress(broker)
    shell.lose(three)
    assert "call" in shell.replies


def test_after_the_time_out_a_topic_with_a_leader_is_as_good_as_any() -> None:
    shell = ControllerShell()
    one, two = shell.join(1), shell.join(2)
    request = CreateTopics((NewTopic("t", 1, 1),), timeout_ms=1_000)
    shell.perform(shell.controller.create_topics(shell.now_ms, request, "call"))
    shell.progress(one)
    shell.advance(900, alive=(one, two))
    assert "call" not in shell.replies
    shell.advance(200, alive=(one, two))
    answer = shell.replies.pop("call")
    assert isinstance(answer, TopicsCreated)
    assert answer.topics[0].failure is None


def test_without_a_leader_the_time_out_is_an_error() -> None:
    shell = ControllerShell()
    one, two = shell.join(1), shell.join(2)
    request = CreateTopics((NewTopic("t", replica_assignment={0: [2]}),), timeout_ms=1_000)
    shell.perform(shell.controller.create_topics(shell.now_ms, request, "call"))
    shell.lose(two)
    shell.advance(1_100, alive=(one,))
    answer = shell.replies.pop("call")
    assert isinstance(answer, TopicsCreated)
    assert answer.topics[0].failure is not None
    assert answer.topics[0].failure.code == errors.RequestTimedOut.code
    assert "exists" in answer.topics[0].failure.message
    assert answer.topics[0].topic_id is not None


def test_a_time_out_before_the_commit_answers_only_after_it() -> None:
    shell = ControllerShell(settings=ControllerSettings(expected_brokers=1))
    shell.join(1)
    request = CreateTopics((NewTopic("t"),), timeout_ms=100)
    (append,) = shell.controller.create_topics(shell.now_ms, request, "call")
    assert isinstance(append, AppendRecords)
    for _ in range(10):
        shell.now_ms += 100
        assert shell.controller.on_time(shell.now_ms) == []
    effects = shell.controller.on_committed(shell.now_ms, append.last_offset)
    assert [getattr(effect, "token", None) for effect in effects] == [None, "call"]


# ---- delete ------------------------------------------------------------------------------------


def test_topics_are_deleted_by_name_and_by_id(shell: ControllerShell) -> None:
    first, second = (create(shell, NewTopic(name))[0].topic_id for name in "ab")
    assert first is not None
    assert second is not None
    answer = shell.call("delete_topics", DeleteTopics(("a", "a", "..", "z"), (second, first)))
    assert isinstance(answer, TopicsDeleted)
    codes = [topic.failure.code if topic.failure else 0 for topic in answer.topics]
    unknown, bad = errors.UnknownTopicOrPartition.code, errors.InvalidTopic.code
    assert codes == [0, unknown, bad, unknown, 0, errors.UnknownTopicId.code]
    assert answer.topics[0] == DeletedTopic("a", first)
    assert answer.topics[4] == DeletedTopic("b", second)
    assert not shell.controller.image.topics_by_name


def test_a_topic_created_anew_has_another_id(shell: ControllerShell) -> None:
    # B-R32
    old = shell.create(replication=1)
    shell.call("delete_topics", DeleteTopics(("t",)))
    assert shell.create(replication=1) != old
    assert shell.controller.image.partition(TopicId(old), 0) is None
    assert len(shell.controller.image.partitions_of(BrokerId(1))) <= 1
