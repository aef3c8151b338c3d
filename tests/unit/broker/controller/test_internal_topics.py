"""Internal topics: which are made, when, and with what settings."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pylog import errors
from pylog.model import BrokerEpoch, BrokerId, TopicId
from pylog_broker.config import BrokerConfig
from pylog_broker.controller.effects import AppendRecords, Effect, Reply, Report
from pylog_broker.controller.settings import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    ControllerSettings,
    InternalTopic,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import (
    EnsureInternalTopic,
    Failure,
    InternalTopicEnsured,
)
from pylog_broker.metadata.records import PartitionRecord, TopicRecord
from tests.fakes.controller_shell import ControllerShell, Incarnation, counting_ids

INTERNAL = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)


def settings_of(brokers: int = 3, **said: str) -> ControllerSettings:
    given = {name.replace("_", "."): value for name, value in said.items()}
    return ControllerSettings.from_config(
        BrokerConfig.from_mapping(given), expected_brokers=brokers, static_config=given
    )


def cluster(live: int = 3, brokers: int = 3, **said: str) -> tuple[ControllerShell, Incarnation]:
    """So many of the configured brokers are live; the first of them."""
    shell = ControllerShell(settings=settings_of(brokers, **said))
    joined = [shell.join(number) for number in range(1, live + 1)]
    return shell, joined[0]


def request(broker: Incarnation, name: str) -> EnsureInternalTopic:
    return EnsureInternalTopic(broker.broker_id, broker.epoch, name)


def ensure(shell: ControllerShell, broker: Incarnation, name: str = CONSUMER_OFFSETS) -> object:
    return shell.call("ensure_internal_topic", request(broker, name))


def refusal(answer: object) -> Failure:
    assert isinstance(answer, Failure), answer
    return answer


def warnings(shell: ControllerShell) -> list[str]:
    return [e.message for e in shell.others if isinstance(e, Report) and e.warning]


def made(shell: ControllerShell, name: str) -> list[PartitionRecord]:
    return list(shell.controller.image.topics_by_name[name].partitions.values())


OFFSETS_CONFIG = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "min.insync.replicas": "2",
    "segment.bytes": "104857600",
}
TRANSACTIONS_CONFIG = OFFSETS_CONFIG | {
    "compression.type": "uncompressed",
    "unclean.leader.election.enable": "false",
}
SHARES_CONFIG = OFFSETS_CONFIG | {"cleanup.policy": "delete", "retention.ms": "-1"}


@pytest.mark.parametrize(
    ("name", "config"),
    [
        (CONSUMER_OFFSETS, OFFSETS_CONFIG),
        (TRANSACTION_STATE, TRANSACTIONS_CONFIG),
        (SHARE_GROUP_STATE, SHARES_CONFIG),
    ],
)
def test_a_topic_is_made_as_kafka_makes_it(name: str, config: Mapping[str, str]) -> None:
    shell, one = cluster()
    answer = ensure(shell, one, name)
    topic = shell.controller.image.topics_by_name[name]
    assert answer == InternalTopicEnsured(name, topic.topic_id, 50)
    assert shell.controller.image.topic_configs(name) == config
    assert {len(partition.replicas) for partition in made(shell, name)} == {3}
    leaders = [partition.leader for partition in made(shell, name)]
    assert sorted(leaders.count(broker) for broker in set(leaders)) == [16, 17, 17]


@pytest.mark.parametrize(
    ("brokers", "factor", "min_isr"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (7, 3, 2)]
)
def test_replicas_follow_from_the_configured_brokers(
    brokers: int, factor: int, min_isr: int
) -> None:
    for topic in settings_of(brokers).internal_topics.values():
        assert topic.replication_factor == factor
        assert topic.config["min.insync.replicas"] == str(min_isr)


def test_what_an_operator_sets_holds_whatever_the_number_of_brokers() -> None:
    given = {
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "2",
        "offsets.topic.segment.bytes": "1048576",
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": "5",
        "transaction.state.log.min.isr": "3",
        "transaction.state.log.segment.bytes": "2097152",
        "share.coordinator.state.topic.num.partitions": "6",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.segment.bytes": "4194304",
    }
    assert ControllerSettings.from_config(
        BrokerConfig.from_mapping(given), expected_brokers=3, static_config=given
    ).internal_topics == {
        CONSUMER_OFFSETS: InternalTopic(
            CONSUMER_OFFSETS,
            4,
            2,
            OFFSETS_CONFIG | {"min.insync.replicas": "1", "segment.bytes": "1048576"},
        ),
        TRANSACTION_STATE: InternalTopic(
            TRANSACTION_STATE,
            5,
            5,
            TRANSACTIONS_CONFIG | {"min.insync.replicas": "3", "segment.bytes": "2097152"},
        ),
        SHARE_GROUP_STATE: InternalTopic(
            SHARE_GROUP_STATE,
            6,
            1,
            SHARES_CONFIG | {"min.insync.replicas": "1", "segment.bytes": "4194304"},
        ),
    }


def test_before_enough_brokers_are_registered_nothing_is_made() -> None:
    shell, one = cluster(live=2)
    offset = shell.controller.decided.offset
    assert ensure(shell, one) == Failure(
        errors.CoordinatorNotAvailable.code,
        "internal topic __consumer_offsets cannot be made yet: it needs 3 replicas, and 2 brokers "
        "are registered",
    )
    assert errors.CoordinatorNotAvailable.retriable
    assert shell.controller.decided.offset == offset
    shell.join(3)
    assert isinstance(ensure(shell, one), InternalTopicEnsured)


def test_a_broker_that_is_down_gets_its_replicas_all_the_same() -> None:
    shell, one = cluster()
    lost = shell.join(3, life=2)
    shell.lose(lost)
    assert isinstance(ensure(shell, one), InternalTopicEnsured)
    assert {partition.replicas[2] for partition in made(shell, CONSUMER_OFFSETS)} == {3}
    assert {len(partition.isr) for partition in made(shell, CONSUMER_OFFSETS)} == {2}


def test_with_no_broker_live_the_asker_tries_again() -> None:
    shell, one = cluster(live=1, brokers=1)
    shell.lose(one)
    failure = refusal(ensure(shell, one))
    assert failure.code == errors.CoordinatorNotAvailable.code
    assert "none of 1 registered brokers is live" in failure.message


def test_two_brokers_that_ask_at_once_hear_of_one_topic_when_it_is_durable() -> None:
    shell, one = cluster()
    two = shell.join(2, life=2)
    controller = shell.controller
    first = controller.ensure_internal_topic(1_000, request(one, CONSUMER_OFFSETS), "first")
    second = controller.ensure_internal_topic(1_000, request(two, CONSUMER_OFFSETS), "second")
    (append,) = first
    assert isinstance(append, AppendRecords)
    assert [r for r in append.records if isinstance(r, TopicRecord)] == [
        TopicRecord(CONSUMER_OFFSETS, controller.decided.topics_by_name[CONSUMER_OFFSETS].topic_id)
    ]
    assert second == []  # it rests on what is not durable yet
    effects = controller.on_committed(1_000, append.last_offset)
    topic_id = controller.image.topics_by_name[CONSUMER_OFFSETS].topic_id
    ensured = InternalTopicEnsured(CONSUMER_OFFSETS, topic_id, 50)
    assert [effect for effect in effects if isinstance(effect, Reply | Report)] == [
        Reply("first", ensured),
        Report(
            "internal topic __consumer_offsets is made, with 50 partitions and 3 replicas of each"
        ),
        Reply("second", ensured),
    ]


def test_asked_again_nothing_is_written() -> None:
    shell, one = cluster()
    first = ensure(shell, one)
    offset = shell.controller.decided.offset
    assert ensure(shell, one) == first
    assert shell.controller.decided.offset == offset


@pytest.mark.parametrize("durable", [True, False])
def test_a_controller_that_ends_between_decision_and_answer(durable: bool) -> None:
    """The next one says what is durable, or makes the topic."""
    shell, one = cluster()
    effects: list[Effect] = shell.controller.ensure_internal_topic(
        1_000, request(one, CONSUMER_OFFSETS), "lost"
    )
    (append,) = effects
    assert isinstance(append, AppendRecords)
    records = [*shell.log, *(append.records if durable else ())]
    image = MetadataImage.from_records(records, type(append.first_offset)(len(records) - 1))
    again = ControllerShell(image, settings=shell.settings, ids=counting_ids(9))
    answer = ensure(again, one)
    topic_id = TopicId(again.controller.image.topics_by_name[CONSUMER_OFFSETS].topic_id)
    assert answer == InternalTopicEnsured(CONSUMER_OFFSETS, topic_id, 50)
    before = shell.controller.decided.topics_by_name[CONSUMER_OFFSETS].topic_id
    assert (topic_id == before) is durable


def test_a_topic_of_an_older_cluster_stays_as_it_is_and_an_operator_hears_of_it_once() -> None:
    shell, one = cluster(live=1, brokers=1, offsets_topic_num_partitions="7")
    first = ensure(shell, one)
    grown = ControllerShell(shell.controller.image, settings=settings_of(3))
    offset = grown.controller.decided.offset
    assert ensure(grown, one) == first
    assert isinstance(first, InternalTopicEnsured)
    assert first.num_partitions == 7
    assert grown.controller.decided.offset == offset
    grown.join(2)
    assert warnings(grown) == [], "there are no brokers for more replicas yet"
    grown.join(3)
    grown.join(3)
    assert warnings(grown) == [
        "internal topic __consumer_offsets has 1 replicas of a partition; in a cluster of this "
        "size it would be made with 3: pylog reassign plan __consumer_offsets --replicas 3 makes a "
        "plan to that end"
    ]


def test_an_operator_hears_of_no_topic_that_has_its_replicas() -> None:
    shell, one = cluster()
    ensure(shell, one)
    shell.join(3)
    assert warnings(shell) == []
    meant = ControllerShell(shell.controller.image, settings=settings_of(4))
    meant.join(4)
    assert warnings(meant) == [], "three replicas are enough in a larger cluster, too"


def test_other_names_and_earlier_lives_are_refused() -> None:
    shell, one = cluster()
    for name in ("t", "__other", "__cluster_metadata", ""):
        assert refusal(ensure(shell, one, name)).code == errors.InvalidTopic.code
    stale = EnsureInternalTopic(one.broker_id, BrokerEpoch(one.epoch - 1), CONSUMER_OFFSETS)
    unknown = EnsureInternalTopic(BrokerId(9), one.epoch, CONSUMER_OFFSETS)
    codes = [refusal(shell.call("ensure_internal_topic", each)).code for each in (stale, unknown)]
    assert codes == [errors.StaleBrokerEpoch.code, errors.BrokerIdNotRegistered.code]
    assert CONSUMER_OFFSETS not in shell.controller.decided.topics_by_name


@pytest.mark.parametrize("name", INTERNAL)
def test_a_factor_that_the_cluster_cannot_have_is_told(name: str) -> None:
    said = {f"{prefix}.replication.factor": "5" for prefix in (
        "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")}  # fmt: skip
    settings = ControllerSettings.from_config(
        BrokerConfig.from_mapping(said), expected_brokers=3, static_config=said
    )
    shell = ControllerShell(settings=settings)
    one, _, _ = (shell.join(number) for number in (1, 2, 3))
    assert (
        "it needs 5 replicas, and 3 brokers are registered"
        in refusal(ensure(shell, one, name)).message
    )
