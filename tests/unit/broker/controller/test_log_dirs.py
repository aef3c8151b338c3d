"""Brokers with several log directories: placing, failing, and what a registration tells of them."""

from __future__ import annotations

from typing import Any

import pytest

from pylog import errors
from pylog.model import NO_LEADER, BrokerId, TopicId
from pylog_broker.controller.effects import Report
from pylog_broker.controller.returning import Loss, Returning, Whereabouts
from pylog_broker.metadata.admin import DeleteTopics
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import (
    BrokerDirectory,
    BrokerUnregistered,
    ClaimBroker,
    Failure,
    FailuresNoted,
    LogDirectory,
    RegisterBroker,
    ReplicaKey,
    ReplicasFailed,
)
from pylog_broker.metadata.records import RegisterBrokerRecord
from tests.fakes.controller_shell import ControllerShell, Incarnation

ONE = BrokerId(1)


def dirs(broker: int, *letters: str, intact: bool = True, **replicas: Any) -> dict[str, Any]:
    """The fields of a registration: these directories of a broker work, and what is in them."""
    live = tuple(
        LogDirectory(f"{broker}{letter}", intact, tuple(replicas.get(letter, ())))
        for letter in letters
    )
    return {"directory_id": live[0].directory_id, "log_dirs": live, "log_intact": intact}


def three(
    *, partitions: int = 4, replication: int = 3
) -> tuple[ControllerShell, list[Incarnation]]:
    """Three brokers with the directories a and b, and a topic."""
    shell = ControllerShell()
    brokers = [shell.join(number, **dirs(number, "a", "b")) for number in (1, 2, 3)]
    shell.create(partitions=partitions, replication=replication)
    return shell, brokers


def fail(shell: ControllerShell, broker: Incarnation, *directories: str) -> object:
    request = ReplicasFailed(broker.broker_id, broker.epoch, (), "the disk", directories)
    return shell.call("replicas_failed", request)


def places(shell: ControllerShell, broker: int = 1, topic: str = "t") -> list[str]:
    """The directory of the broker's replica, by partition."""
    found = shell.controller.image.topics_by_name[topic].partitions
    return [found[number].directory_of(BrokerId(broker)) for number in sorted(found)]


def warnings(shell: ControllerShell) -> list[str]:
    return [e.message for e in shell.others if isinstance(e, Report) and e.warning]


# ---- placing


def test_a_new_replica_comes_to_the_directory_with_the_fewest() -> None:
    shell, _ = three()
    assert places(shell) == ["1a", "1b", "1a", "1b"]
    shell.create("more", partitions=3)
    assert places(shell, topic="more") == ["1a", "1b", "1a"]
    shell.create("last")
    assert places(shell, topic="last") == ["1b"]


def test_what_was_deleted_counts_no_more() -> None:
    shell, _ = three(partitions=1)
    shell.create("u", partitions=2)
    assert places(shell, topic="u") == ["1b", "1a"]
    shell.call("delete_topics", DeleteTopics(("t",)))
    shell.create("v", partitions=2)
    assert places(shell, topic="v") == ["1a", "1b"]
    image = shell.controller.image
    assert MetadataImage.from_records(image.records(), image.offset) == image


def test_one_directory_is_that_of_the_registration() -> None:
    shell = ControllerShell()
    shell.join(1)
    shell.create(replication=1)
    assert places(shell) == ["directory-1"]


# ---- failing


def test_a_failed_directory_moves_its_leaders_only() -> None:
    shell, brokers = three()
    led = [shell.partition(number=n).leader for n in range(4)]
    assert fail(shell, brokers[0], "1b") == FailuresNoted()
    for number in range(4):
        partition = shell.partition(number=number)
        struck = number % 2 == 1
        assert partition.failed_replicas == ((1,) if struck else ())
        assert (1 in partition.isr) is not struck
        assert partition.leader != 1 if struck else partition.leader == led[number]
    registration = shell.controller.image.brokers[ONE]
    assert (registration.live_log_dirs, registration.fenced) == (("1a",), False)
    first, second = warnings(shell)
    assert first == (
        "broker 1 has lost its log directory 1b until it starts again, 1 are left: the disk"
    )
    assert "t-1, t-3 until it starts again" in second


def test_nothing_new_is_placed_there_and_a_repeat_changes_nothing() -> None:
    shell, brokers = three()
    fail(shell, brokers[0], "1b")
    shell.create("new", partitions=3)
    assert places(shell, topic="new") == ["1a", "1a", "1a"]
    offset = shell.controller.image.offset
    assert fail(shell, brokers[0], "1b", "unknown") == FailuresNoted()
    assert shell.controller.image.offset == offset


def test_it_stays_offline_over_a_fence_and_until_the_next_life() -> None:
    shell, brokers = three()
    fail(shell, brokers[0], "1b")
    shell.lose(brokers[0])
    assert shell.controller.image.brokers[ONE].live_log_dirs == ("1a",)
    shell.join(1, life=2, **dirs(1, "a", "b"))
    assert shell.controller.image.brokers[ONE].live_log_dirs == ("1a", "1b")
    assert all(shell.partition(number=n).failed_replicas == () for n in range(4))


def test_a_report_of_an_older_life_is_refused() -> None:
    shell, brokers = three()
    shell.join(1, life=2, **dirs(1, "a", "b"))
    answer = fail(shell, brokers[0], "1b")
    assert isinstance(answer, Failure)
    assert answer.code == errors.StaleBrokerEpoch.code


# ---- coming back


def test_a_missing_directory_takes_its_replicas_offline() -> None:
    shell, brokers = three()
    shell.lose(brokers[0])
    shell.join(1, life=2, **dirs(1, "a"), offline_log_dirs=("1b",))
    assert places(shell) == ["1a", "1b", "1a", "1b"], "they are where they were"
    assert [shell.partition(number=n).failed_replicas for n in range(4)] == [(), (1,), (), (1,)]
    assert "1 of its log directories are offline, with 2 replicas" in warnings(shell)[-1]
    shell.create("new", partitions=2)
    assert places(shell, topic="new") == ["1a", "1a"]


def test_the_last_replica_keeps_its_claim_while_its_directory_is_away() -> None:
    shell, brokers = three(partitions=2, replication=1)
    alone = next(n for n in range(2) if shell.partition(number=n).replicas == (1,))
    letter = places(shell)[alone][1]
    other = "b" if letter == "a" else "a"
    shell.lose(brokers[0])
    shell.join(1, life=2, **dirs(1, other), offline_log_dirs=(f"1{letter}",))
    away = shell.partition(number=alone)
    assert (away.leader, away.eligible_leader_replicas) == (NO_LEADER, (1,))
    shell.join(1, life=3, **dirs(1, "a", "b"))
    assert shell.partition(number=alone).leader == 1


def test_a_directory_that_is_given_up_counts_as_lost_and_its_replicas_move() -> None:
    shell, brokers = three()
    shell.lose(brokers[0])
    shell.join(1, life=2, **dirs(1, "a", "c"))
    assert places(shell) == ["1a", "1c", "1a", "1c"]
    for number in range(4):
        partition = shell.partition(number=number)
        assert 1 not in (*partition.isr, *partition.failed_replicas)
    assert "2 replicas were in log directories that it has no more" in warnings(shell)[-1]


def test_what_an_unregistered_broker_brings_counts_for_nothing_and_stays_where_it_is() -> None:
    """The broker goes on with the logs that it finds; with another directory in the metadata, the
    loss of theirs would go unnoticed.
    """
    shell, brokers = three(partitions=2)
    shell.lose(brokers[0])
    assert shell.call("unregister_broker", ONE) == BrokerUnregistered(ONE)
    keys = [(shell.partition().topic_id, number) for number in range(2)]
    shell.join(1, life=2, **dirs(1, "a", "b", b=keys))
    assert places(shell) == ["1b", "1b"]
    for number in range(2):
        partition = shell.partition(number=number)
        assert (1 in partition.isr, partition.emptied_replicas) == (False, (1,))


def test_one_that_is_not_there_leaves_to_the_others_but_not_the_last() -> None:
    shell, brokers = three(partitions=1)
    for number, broker in enumerate(brokers, 1):
        shell.lose(broker)
        shell.join(number, life=2, **dirs(number, "a", "b"))
        if number < 3:
            assert number not in shell.partition().isr
    # All crashed before one of them had made its log: somebody must begin.
    assert (shell.partition().leader, shell.partition().isr) == (3, (3,))


def single(*replicas: ReplicaKey) -> dict[str, Any]:
    """The fields of a registration: the only directory of broker 1, and what is in it."""
    return {
        "directory_id": "directory-1",
        "log_dirs": (LogDirectory("directory-1", True, replicas),),
    }


def last_claimant(*, replication: int) -> tuple[ControllerShell, ReplicaKey]:
    """Broker 1 was left alone with a partition, and then its log failed."""
    shell = ControllerShell()
    brokers = [shell.join(number) for number in (1, 2, 3)]
    shell.create(replication=replication)
    key = (shell.partition().topic_id, 0)
    for other in brokers[1:]:
        shell.lose(other)
    request = ReplicasFailed(ONE, brokers[0].epoch, (key,), "a bad block")
    assert shell.call("replicas_failed", request) == FailuresNoted()
    assert (shell.partition().leader, shell.partition().eligible_leader_replicas) == (
        NO_LEADER,
        (1,),
    )
    shell.lose(brokers[0])
    return shell, key


def test_a_damaged_replica_that_was_removed_by_hand_claims_nothing() -> None:
    """Else an empty log would lead, and have the others cut theirs."""
    shell, _ = last_claimant(replication=3)
    shell.join(1, life=2, **single())
    found = shell.partition()
    assert (found.leader, found.isr, found.eligible_leader_replicas) == (NO_LEADER, (), ())
    shell.join(2, life=2)
    assert shell.partition().leader == NO_LEADER, "an operator decides"


def test_one_that_came_back_whole_leads_and_an_only_replica_begins_anew() -> None:
    shell, key = last_claimant(replication=3)
    shell.join(1, life=2, **single(key))
    assert shell.partition().leader == 1
    shell, _ = last_claimant(replication=1)
    shell.join(1, life=2, **single())
    assert shell.partition().leader == 1
    assert "it holds the only replica of 1 partitions" in warnings(shell)[-1]


def test_one_directory_that_is_told_makes_no_other_record_than_one_that_is_not() -> None:
    shell = ControllerShell()
    shell.join(1, **single())
    assert shell.controller.image.brokers[ONE].log_dirs == ()
    assert shell.controller.image.brokers[ONE].all_log_dirs == ("directory-1",)


def test_the_first_directory_may_change() -> None:
    """Broker 1 is the same, whichever of its directories are there."""
    shell, brokers = three()
    shell.broken(brokers[0])
    shell.join(1, life=2, **dirs(1, "b"), offline_log_dirs=("1a",))
    shell.join(1, life=3, **dirs(1, "a", "b"))
    assert shell.controller.image.brokers[ONE].all_log_dirs == ("1a", "1b")


def test_another_brokers_directory_is_a_copy() -> None:
    shell, _ = three()
    log_dirs = (LogDirectory("4a", True), LogDirectory("1b", True))
    request = shell.registration(4, directory_id="4a", log_dirs=log_dirs)
    answer = shell.call("register_broker", request)
    assert isinstance(answer, Failure)
    assert "the directory 1b belongs to broker 1" in answer.message


def test_any_of_its_directories_claims_the_broker() -> None:
    shell, brokers = three()
    shell.lose(brokers[0])
    found = BrokerDirectory(ONE, "1b", shell.controller.decided.cluster_id, "boot", False)
    answer: Any = shell.call("claim_broker", ClaimBroker("new", "host-1", (found,)))
    assert (answer.broker_id, answer.directory_id) == (1, "1b")


# ---- where a replica is

KEY = (TopicId("t"), 0)


@pytest.mark.parametrize(
    ("assigned", "changes", "expected"),
    [
        ("1a", dirs(1, "a", "b", a=[KEY]), Whereabouts("1a")),
        ("1a", dirs(1, "a", "b"), Whereabouts("1a", absent=True)),
        ("1a", dirs(1, "a", "b", intact=False), Whereabouts("1a", Loss.TAIL, absent=True)),
        ("1a", dirs(1, "a", "b", a=[KEY], b=[KEY]), Whereabouts("1a")),
        ("1a", dirs(1, "a", "b", b=[KEY]), Whereabouts("1b", Loss.TAIL)),
        ("1a", dirs(1, "b", b=[KEY]), Whereabouts("1b", Loss.TAIL)),
        ("1a", dirs(1, "b", b=[KEY]) | {"offline_log_dirs": ("1a",)},
         Whereabouts("1a", offline=True)),
        ("1a", dirs(1, "b") | {"offline_log_dirs": ("",)}, Whereabouts("1a", offline=True)),
        ("1a", dirs(1, "b") | {"offline_log_dirs": ("1c",)}, Whereabouts("", Loss.ALL)),
        ("", dirs(1, "a", "b", a=[KEY]), Whereabouts("1a")),
        ("1a", {"directory_id": "1a"}, Whereabouts("1a")),
        ("1a", {"directory_id": "other"}, Whereabouts("", Loss.ALL)),
    ],
)  # fmt: skip
def test_where_a_replica_is(assigned: str, changes: dict[str, Any], expected: Whereabouts) -> None:
    shell = ControllerShell()
    known = registered(shell)
    request: RegisterBroker = shell.registration(1, life=2, **changes)
    assert Returning(known, request).where(KEY, assigned) == expected
    found = {each.directory_id for each in request.live_log_dirs if KEY in each.replicas}
    place = assigned if assigned in found else next(iter(found), "")
    assert Returning(None, request).where(KEY, assigned) == Whereabouts(place, Loss.ALL)


def registered(shell: ControllerShell) -> RegisterBrokerRecord:
    shell.join(1, **dirs(1, "a", "b"))
    return shell.controller.image.brokers[ONE]
