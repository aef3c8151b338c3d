"""Configurations: checks, and what a change of min.insync.replicas does to partitions."""

from __future__ import annotations

import itertools

import pytest

from pylog import errors
from pylog.model import NO_LEADER
from pylog_broker.config import (
    BROKER_CONFIG,
    CLUSTER_WIDE_NAMES,
    BrokerConfig,
    TopicConfig,
    as_text,
)
from pylog_broker.controller.effects import Report
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.admin import (
    AlterConfigs,
    AlteredConfig,
    ConfigChange,
    ConfigsAltered,
    ConfigsQuestion,
)
from pylog_broker.metadata.features import GROUP_SETTINGS_LEVEL, METADATA_VERSION
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import ConfigResourceType
from tests.fakes.controller_shell import ControllerShell

TOPIC, BROKER, CLUSTER = (
    ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.CLUSTER,
)  # fmt: skip
GROUP = ConfigResourceType.GROUP
MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


@pytest.fixture
def shell() -> ControllerShell:
    """Three live brokers and a topic of one partition."""
    shell = ControllerShell()
    for number in (1, 2, 3):
        shell.join(number)
    shell.create()
    return shell


def alter(
    shell: ControllerShell,
    kind: ConfigResourceType,
    name: str,
    values: dict[str, str | None],
    *,
    validate_only: bool = False,
) -> Failure | None:
    change = ConfigChange(kind, name, values)
    answer = shell.call("alter_configs", AlterConfigs((change,), validate_only))
    assert isinstance(answer, ConfigsAltered)
    assert answer.resources == (AlteredConfig(kind, name, answer.resources[0].failure),)
    return answer.resources[0].failure


def test_values_are_set_and_put_back(shell: ControllerShell) -> None:
    assert alter(shell, TOPIC, "t", {"retention.ms": "5", "segment.bytes": "2048"}) is None
    assert alter(shell, TOPIC, "t", {"retention.ms": None}) is None
    assert shell.controller.image.topic_configs("t") == {"segment.bytes": "2048"}
    assert alter(shell, CLUSTER, "", {"log.retention.ms": "7"}) is None
    assert shell.controller.image.cluster_configs() == {"log.retention.ms": "7"}
    assert alter(shell, BROKER, "2", {"log.segment.bytes": "7000"}) is None
    assert shell.controller.image.broker_configs(2) == {"log.segment.bytes": "7000"}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "name", "values", "error", "words"),
    [
        (TOPIC, "t", {"retention.mss": "1"}, errors.InvalidConfig, "did you mean retention.ms"),
        (TOPIC, "t", {"retention.ms": "x"}, errors.InvalidConfig, "retention.ms='x'"),
        (TOPIC, "t", {MIN_ISR: "4"}, errors.InvalidConfig, "above the replication factor 3"),
        (TOPIC, "t", {"segment.bytes": "1"}, errors.InvalidConfig, "segment.bytes='1'"),
        (TOPIC, "no", {}, errors.UnknownTopicOrPartition, "topic no: it does not exist"),
        (BROKER, "9", {}, errors.InvalidRequest, "no broker '9'"),
        (BROKER, "x", {}, errors.InvalidRequest, "no broker 'x'"),
        (BROKER, "1", {MIN_ISR: "2"}, errors.InvalidConfig, "topic or for the cluster only"),
        (CLUSTER, "x", {}, errors.InvalidRequest, "no name"),
        (CLUSTER, "", {"retention.ms": "1"}, errors.InvalidConfig, "retention.ms"),
        (CLUSTER, "", {"num.partitions": "3"}, errors.InvalidConfig, "cannot be changed on a run"),
        (BROKER, "1", {"broker.rack": "x"}, errors.InvalidConfig, "spark.pylog.broker.broker.rack"),
        (BROKER, "1", {"num.io.threads": "8"}, errors.InvalidConfig, "is one event loop"),
        (BROKER, "1", {"ssl.key.password": "8"}, errors.InvalidConfig, "TLS"),
        (TOPIC, "t", {"remote.storage.enable": "true"}, errors.InvalidConfig, "tiered storage"),
        (CLUSTER, "", {"log.retention.hours": "1"}, errors.InvalidConfig, "set log.retention.ms"),
        (
            CLUSTER,
            "",
            {"log.cleaner.min.compaction.lag.ms": "9223372036854775808"},
            errors.InvalidConfig,
            "it must be a whole number",
        ),
    ],
)
def test_refusals_change_nothing(
    shell: ControllerShell,
    kind: ConfigResourceType,
    name: str,
    values: dict[str, str | None],
    error: type[errors.PylogError],
    words: str,
) -> None:
    # bad input 12
    offset = shell.controller.image.offset
    failure = alter(shell, kind, name, {**values})
    assert failure is not None
    assert failure.code == error.code
    assert words in failure.message
    assert shell.controller.image.offset == offset


def test_one_bad_value_leaves_the_whole_resource(shell: ControllerShell) -> None:
    assert alter(shell, TOPIC, "t", {"retention.ms": "5", "segment.bytes": "x"}) is not None
    assert shell.controller.image.topic_configs("t") == {}


def test_validation_only_writes_nothing(shell: ControllerShell) -> None:
    assert alter(shell, TOPIC, "t", {"retention.ms": "5"}, validate_only=True) is None
    assert shell.controller.image.topic_configs("t") == {}


def test_a_lower_min_isr_clears_the_eligible_replicas(shell: ControllerShell) -> None:
    alter(shell, TOPIC, "t", {MIN_ISR: "2"})
    shell.alter([1])
    assert shell.partition().eligible_leader_replicas == (2, 3)
    alter(shell, TOPIC, "t", {MIN_ISR: "1"})
    # With one in-sync replica the leader goes on now, without 2 and 3.
    assert shell.partition().eligible_leader_replicas == ()


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (CLUSTER, "")])
def test_a_changed_min_isr_outdates_requests_under_the_old_one(
    shell: ControllerShell, kind: ConfigResourceType, name: str
) -> None:
    before = shell.partition()
    assert alter(shell, kind, name, {MIN_ISR: "2"}) is None
    after = shell.partition()
    assert after.partition_epoch == before.partition_epoch + 1
    assert (after.leader_epoch, after.isr) == (before.leader_epoch, before.isr)
    alter(shell, kind, name, {MIN_ISR: "2"})
    assert shell.partition() == after


def test_a_topics_own_value_hides_the_clusters(shell: ControllerShell) -> None:
    alter(shell, TOPIC, "t", {MIN_ISR: "2"})
    before = shell.partition()
    alter(shell, CLUSTER, "", {MIN_ISR: "3"})
    assert shell.partition() == before


@pytest.mark.parametrize("spelled", ["true", " True", "TRUE "])
def test_allowing_unclean_elections_takes_effect_at_once(
    shell: ControllerShell, spelled: str
) -> None:
    shell.alter([1])
    shell.advance(6_100)  # all leases run out, and the time after the start is over
    shell.join(2, life=2)
    assert shell.partition().leader == NO_LEADER
    alter(shell, TOPIC, "t", {"unclean.leader.election.enable": spelled})
    assert (shell.partition().leader, shell.partition().isr) == (2, (2,))


def test_lists_are_appended_to_and_subtracted_from(shell: ControllerShell) -> None:
    def change(
        kind: ConfigResourceType, name: str, appended: dict[str, str], subtracted: dict[str, str]
    ) -> Failure | None:
        request = ConfigChange(kind, name, appended=appended, subtracted=subtracted)
        answer = shell.call("alter_configs", AlterConfigs((request,)))
        assert isinstance(answer, ConfigsAltered)
        return answer.resources[0].failure

    policy = "cleanup.policy"
    assert change(TOPIC, "t", {policy: "compact"}, {}) is None
    assert shell.controller.image.topic_configs("t") == {policy: "delete,compact"}
    assert change(TOPIC, "t", {policy: "compact"}, {}) is None
    assert shell.controller.image.topic_configs("t") == {policy: "delete,compact"}
    assert change(TOPIC, "t", {}, {policy: "delete"}) is None
    assert shell.controller.image.topic_configs("t") == {policy: "compact"}
    nothing_left = change(TOPIC, "t", {}, {policy: "compact"})
    assert nothing_left is not None
    assert "must name delete, compact or both" in nothing_left.message
    no_list = change(TOPIC, "t", {"segment.bytes": "5"}, {})
    assert no_list is not None
    assert "segment.bytes is no list" in no_list.message
    assert change(CLUSTER, "", {"log.cleanup.policy": "compact"}, {}) is None
    assert shell.controller.image.cluster_configs() == {"log.cleanup.policy": "delete,compact"}
    assert change(BROKER, "2", {}, {"log.cleanup.policy": "delete"}) is None
    assert shell.controller.image.broker_configs(2) == {"log.cleanup.policy": "compact"}  # type: ignore[arg-type]


def test_a_resource_named_twice_is_not_changed(shell: ControllerShell) -> None:
    changes = tuple(ConfigChange(TOPIC, "t", {"segment.bytes": text}) for text in ("5000", "6000"))
    answer = shell.call("alter_configs", AlterConfigs(changes))
    assert isinstance(answer, ConfigsAltered)
    failures = [resource.failure for resource in answer.resources]
    assert [failure and failure.code for failure in failures] == [errors.InvalidRequest.code] * 2
    assert shell.controller.image.topic_configs("t") == {}


def test_the_same_value_again_writes_nothing(shell: ControllerShell) -> None:
    alter(shell, TOPIC, "t", {"segment.bytes": "5000"})
    offset = shell.controller.image.offset
    assert alter(shell, TOPIC, "t", {"segment.bytes": "5000", "retention.ms": None}) is None
    assert shell.controller.image.offset == offset


def test_a_cluster_value_must_suit_every_broker() -> None:
    shell = ControllerShell()
    shell.join(1, static_config=(("log.cleaner.max.compaction.lag.ms", "100"),))
    failure = alter(shell, CLUSTER, "", {"log.cleaner.min.compaction.lag.ms": "200"})
    assert failure is not None
    assert "with what broker 1 has: min.compaction.lag.ms=200 is above" in failure.message
    failure = alter(shell, BROKER, "1", {"log.cleaner.min.compaction.lag.ms": "200"})
    assert failure is not None
    assert alter(shell, BROKER, "1", {"log.cleaner.min.compaction.lag.ms": "100"}) is None


def _started_with(min_isr: int, image: MetadataImage | None = None) -> ControllerShell:
    settings = ControllerSettings(
        expected_brokers=3,
        topic_defaults=TopicConfig(min_insync_replicas=min_isr),
        static_config={MIN_ISR: str(min_isr)},
    )
    return ControllerShell(image, settings=settings)


def test_the_first_min_isr_of_a_cluster_holds_and_a_later_one_says_so() -> None:
    first = _started_with(2)
    assert first.controller.image.cluster_configs() == {MIN_ISR: "2"}
    assert [e.warning for e in first.others if isinstance(e, Report)] == [False]
    same = _started_with(2, first.controller.image)
    assert [e.warning for e in same.others if isinstance(e, Report)] == [False]
    other = _started_with(3, same.controller.image)
    assert other.controller.image.cluster_configs() == {MIN_ISR: "2"}
    (warning,) = [e for e in other.others if isinstance(e, Report) and e.warning]
    assert "started with min.insync.replicas=3, but the cluster's metadata say 2" in warning.message
    # Taken from the metadata, the start's value holds again, and is in the metadata at once.
    assert alter(other, CLUSTER, "", {MIN_ISR: None}) is None
    assert other.controller.image.cluster_configs() == {MIN_ISR: "3"}


SOME_VALUES = {MIN_ISR: ("1", "2", "3"), UNCLEAN: ("false", "true")}


def test_each_cluster_wide_setting_is_tried_below() -> None:
    assert SOME_VALUES.keys() == CLUSTER_WIDE_NAMES


@pytest.mark.parametrize(
    ("name", "head", "broker", "dynamic"),
    [
        (name, *three)
        for name, values in SOME_VALUES.items()
        for three in itertools.product((None, *values), repeat=3)
    ],
)
def test_controller_and_brokers_go_by_one_value_whatever_they_were_started_with(
    name: str, head: str | None, broker: str | None, dynamic: str | None
) -> None:
    """Set, put back, and after a start of the controller; each as the metadata have it alone."""
    of_head = {} if head is None else {name: head}
    of_broker = {} if broker is None else {name: broker}
    settings = ControllerSettings.from_config(
        BrokerConfig.from_mapping(of_head), expected_brokers=1, static_config=of_head
    )
    shell = ControllerShell(settings=settings)
    shell.join(1, static_config=tuple(of_broker.items()))
    shell.create(replication=1)
    steps: list[tuple[str | None, str | None]] = [(dynamic, dynamic or head), (None, head)]
    for value, holds in steps:
        assert alter(shell, CLUSTER, "", {name: value}) is None
        for image in (shell.controller.image, _replayed(shell)):
            judged = _judged(settings, image, name)
            assert judged == str(holds or as_text(BROKER_CONFIG[name].default))
            if name == MIN_ISR:  # leaders go by it, too
                live = BrokerConfig.from_mapping(of_broker).under(image.cluster_configs())
                assert str(live.topic.min_insync_replicas) == judged
            for kind, resource in ((TOPIC, "t"), (BROKER, "1")):
                question = ConfigsQuestion(kind, resource, (name,))
                (told,) = shell.controller.describe_configs(question).entries
                assert told.value == judged
        shell = ControllerShell(_replayed(shell), settings=settings)


def _replayed(shell: ControllerShell) -> MetadataImage:
    image = shell.controller.image
    return MetadataImage.from_records(image.records(), image.offset)


def _judged(settings: ControllerSettings, image: MetadataImage, name: str) -> str:
    config = settings.with_setting(name, {}, image.cluster_configs())
    return config.to_mapping()[name]


def test_a_broker_that_was_started_with_another_value_says_that_it_does_not_count() -> None:
    shell = _started_with(2)
    shell.join(1, static_config=((MIN_ISR, "2"),))
    shell.join(2, static_config=((MIN_ISR, "3"),))
    (warning,) = [e for e in shell.others if isinstance(e, Report) and e.warning]
    assert warning.message == (
        "broker 2 was started with min.insync.replicas=3, but 2 holds in the cluster: a broker's "
        "own value does not count; give it to the driver, or change it with `pylog configs alter "
        "broker default --set min.insync.replicas=3`"
    )


# ---- groups --------------------------------------------------------------------------------------


def test_a_group_that_does_not_exist_has_settings(shell: ControllerShell) -> None:
    values = {"consumer.session.timeout.ms": "50000", "share.isolation.level": "read_committed"}
    assert alter(shell, GROUP, "g", {**values}) is None
    assert shell.controller.image.group_configs("g") == values
    assert alter(shell, GROUP, "g", dict.fromkeys(values)) is None
    assert (GROUP, "g") not in shell.controller.image.configs


@pytest.mark.parametrize(
    ("name", "values", "error", "words"),
    [
        ("", {}, errors.InvalidRequest, "a group's settings need the group's name"),
        ("g" * 256, {}, errors.InvalidGroupId, "256 characters; the limit is 255"),
        ("g", {"retention.ms": "5"}, errors.InvalidConfig, "unknown group setting retention.ms"),
        (
            "g",
            {"consumer.session.timeout.ms": "1"},
            errors.InvalidConfig,
            "group 'g': consumer.session.timeout.ms=1 is below the brokers' "
            "group.consumer.min.session.timeout.ms=45000",
        ),
    ],
)
def test_refusals_of_groups_change_nothing(
    shell: ControllerShell,
    name: str,
    values: dict[str, str | None],
    error: type[errors.PylogError],
    words: str,
) -> None:
    offset = shell.controller.image.offset
    failure = alter(shell, GROUP, name, values)
    assert failure is not None
    assert failure.code == error.code
    assert words in failure.message
    assert shell.controller.image.offset == offset


def test_groups_with_settings_are_bounded(
    shell: ControllerShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pylog_broker.controller.configs.GROUPS_MAX", 1)
    one = {"share.delivery.count.limit": "7"}
    assert alter(shell, GROUP, "a", {**one}) is None
    failure = alter(shell, GROUP, "b", {**one})
    assert failure is not None
    assert "1 groups have settings of their own" in failure.message
    assert alter(shell, GROUP, "a", {"share.delivery.count.limit": "8"}) is None
    assert alter(shell, GROUP, "a", {"share.delivery.count.limit": None}) is None
    assert alter(shell, GROUP, "b", {**one}) is None


def test_a_cluster_of_an_earlier_level_has_no_settings_of_groups(shell: ControllerShell) -> None:
    shell.controller.decided.features[METADATA_VERSION] = GROUP_SETTINGS_LEVEL - 1
    failure = alter(shell, GROUP, "g", {"share.isolation.level": "read_committed"})
    assert failure is not None
    assert failure.code == errors.UnsupportedVersion.code
    assert "need metadata.version 3, and this cluster is at 2" in failure.message
