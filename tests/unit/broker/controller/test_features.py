"""Feature levels: a new cluster's, an old directory's, the brokers that may register, and the
levels that may be raised.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pylog import errors
from pylog.model import Offset
from pylog_broker.controller.effects import AppendRecords, Reply
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.admin import FeatureState, FeaturesUpdated, UpdateFeatures
from pylog_broker.metadata.features import METADATA_VERSION, NEWEST_LEVEL, level_of
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import BrokerRegistered, Failure
from pylog_broker.metadata.records import NOT_TOLD, FeatureLevelRecord, FeatureRange, Software
from tests.fakes.controller_shell import ControllerShell

FUTURE = Software("pylog", "9.0", features=(FeatureRange(METADATA_VERSION, NEWEST_LEVEL + 1, 9),))
RAISE = UpdateFeatures(((METADATA_VERSION, NEWEST_LEVEL),))


def earlier_cluster(brokers: int = 0) -> ControllerShell:
    """One that a version without feature levels made, with brokers of that version."""
    first = ControllerShell(settings=ControllerSettings(expected_brokers=1))
    records = [r for r in first.log if not isinstance(r, FeatureLevelRecord)]
    shell = ControllerShell(MetadataImage.from_records(records, Offset(len(records) - 1)))
    for number in range(1, brokers + 1):
        shell.join(number, software=NOT_TOLD)
    return shell


def level(shell: ControllerShell) -> int:
    return level_of(shell.controller.image.features, METADATA_VERSION)


def update(shell: ControllerShell, request: UpdateFeatures) -> FeaturesUpdated:
    answer = shell.call("update_features", request)
    assert isinstance(answer, FeaturesUpdated)
    return answer


def refused(shell: ControllerShell, request: UpdateFeatures) -> Failure:
    """The failure of a request that is refused; nothing is written."""
    offset = shell.controller.decided.offset
    answer = update(shell, request)
    assert answer.failure is not None
    assert answer.features == ()
    assert shell.controller.decided.offset == offset
    return answer.failure


def test_a_new_cluster_starts_at_the_newest_level() -> None:
    shell = ControllerShell()
    assert shell.controller.describe_features() == (
        FeatureState(METADATA_VERSION, NEWEST_LEVEL, 1, NEWEST_LEVEL),
    )


def test_an_old_directory_stays_at_the_first_level_over_each_start() -> None:
    shell = earlier_cluster(brokers=1)
    assert level(shell) == 1
    again = ControllerShell(shell.controller.image)
    assert level(again) == 1
    assert not any(isinstance(record, FeatureLevelRecord) for record in again.log)
    assert again.controller.describe_features() == (FeatureState(METADATA_VERSION, 1, 1, 1),)


@pytest.mark.parametrize(
    ("software", "words"),
    [
        (
            NOT_TOLD,
            "broker 1 runs an earlier version, which supports metadata.version level 1 only",
        ),
        (FUTURE, "broker 1 runs pylog 9.0, which supports metadata.version levels 4 to 9"),
    ],
)
def test_a_broker_that_cannot_read_the_metadata_is_refused_by_name(
    software: Software, words: str
) -> None:
    shell = ControllerShell()
    offset = shell.controller.decided.offset
    answer = shell.call("register_broker", shell.registration(1, software=software))
    assert isinstance(answer, Failure)
    assert answer.code == errors.UnsupportedVersion.code
    assert words in answer.message
    assert f"this cluster has level {NEWEST_LEVEL}" in answer.message
    assert shell.controller.decided.offset == offset


def test_newer_and_earlier_versions_work_side_by_side_until_the_level_is_raised() -> None:
    shell = earlier_cluster(brokers=1)
    shell.join(2)
    failure = refused(shell, RAISE)
    assert failure.code == errors.InvalidUpdateVersion.code
    assert failure.message == (
        "feature metadata.version cannot be set to level 3: broker 1 (an earlier version) supports "
        "level 1 only; run a newer version there, or unregister those that are gone"
    )
    shell.join(1, life=2)
    assert update(shell, RAISE) == FeaturesUpdated(
        None, (FeatureState(METADATA_VERSION, NEWEST_LEVEL, 1, NEWEST_LEVEL),)
    )
    assert level(shell) == NEWEST_LEVEL
    back = shell.call("register_broker", shell.registration(2, life=2, software=NOT_TOLD))
    assert isinstance(back, Failure)


def test_a_broker_that_is_down_counts_until_it_is_unregistered() -> None:
    shell = earlier_cluster(brokers=2)
    shell.join(1, life=2)
    gone = shell.join(2, life=2, software=NOT_TOLD)
    shell.lose(gone)
    assert "broker 2 (an earlier version)" in refused(shell, RAISE).message
    shell.call("unregister_broker", gone.broker_id)
    assert update(shell, RAISE).failure is None


def test_a_dry_run_changes_nothing_and_says_the_same() -> None:
    shell = earlier_cluster()
    offset = shell.controller.decided.offset
    dry = update(shell, replace(RAISE, validate_only=True))
    assert shell.controller.decided.offset == offset
    assert dry == update(shell, RAISE)
    behind = earlier_cluster(brokers=1)
    assert refused(behind, replace(RAISE, validate_only=True)) == refused(behind, RAISE)


def test_it_is_told_when_it_is_durable_and_a_repeat_writes_nothing() -> None:
    shell = earlier_cluster()
    controller = shell.controller
    effects = controller.update_features(1_000, RAISE, "token")
    (append,) = effects
    assert isinstance(append, AppendRecords)
    assert append.records == (FeatureLevelRecord(METADATA_VERSION, NEWEST_LEVEL),)
    assert level(shell) == 1
    told = controller.on_committed(1_000, append.last_offset)
    assert [effect.token for effect in told if isinstance(effect, Reply)] == ["token"]
    assert len(controller.update_features(1_000, RAISE, "again")) == 1


@pytest.mark.parametrize(
    ("levels", "error", "words"),
    [
        ((), errors.InvalidRequest, "no feature is named"),
        ((("other", 1),), errors.InvalidRequest, "'other' is not known; there is metadata.version"),
        (((METADATA_VERSION, 1),), errors.InvalidUpdateVersion, "it is at 3"),
        (((METADATA_VERSION, 4),), errors.InvalidUpdateVersion, "supports levels 1 to 3"),
        (((METADATA_VERSION, 3),) * 2, errors.InvalidRequest, "names it twice"),
        (((METADATA_VERSION, 3), ("other", 1)), errors.InvalidRequest, "is not known"),
    ],
)
def test_what_is_refused(
    levels: tuple[tuple[str, int], ...], error: type[errors.PylogError], words: str
) -> None:
    failure = refused(ControllerShell(), UpdateFeatures(levels))
    assert failure.code == error.code
    assert words in failure.message


def test_many_brokers_that_are_behind_are_counted() -> None:
    shell = ControllerShell(
        earlier_cluster().controller.image, settings=ControllerSettings(expected_brokers=9)
    )
    for number in range(1, 9):
        answer = shell.call("register_broker", shell.registration(number, software=NOT_TOLD))
        assert isinstance(answer, BrokerRegistered)
    assert "broker 5 (an earlier version)" in refused(shell, RAISE).message
    assert ", and 3 more do not either" in refused(shell, RAISE).message
