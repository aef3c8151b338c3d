"""Changes of the ISR, from the follower that stops to the controller's answer."""

from __future__ import annotations

from dataclasses import replace

from pylog.model import (
    BrokerId,
)
from pylog_broker.metadata.messages import PartitionsAltered
from tests.fakes.broker_group import BrokerGroup

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))


def test_a_frozen_follower_leaves_and_comes_back(group: BrokerGroup) -> None:
    """F-R12, F-R15, F-R23."""
    group.create_topic()
    group.run()
    group.cut_links = {(THREE, ONE)}
    token = group.produce(1, b"a", timeout_ms=100_000)
    group.advance(group.settings.replica_lag_time_max_ms - 1)
    assert token not in group.answers
    assert group.record().isr == (ONE, TWO, THREE)
    group.advance(group.settings.replica_lag_time_max_ms // 2 + 1_000)
    assert group.record().isr == (ONE, TWO)
    assert group.error(token) == 0
    group.cut_links = set()
    group.advance(2_000)
    assert group.record().isr == (ONE, TWO, THREE)
    assert group.stored(1) == group.stored(3)
    changes = group.managers[ONE].isr_changes
    assert (changes.shrinks, changes.expands) == (1, 1)
    assert group.managers[TWO].isr_changes.shrinks == 0, "only leaders count"


def test_isr_changes_are_asked_for_again_while_the_controller_is_away(group: BrokerGroup) -> None:
    group.create_topic()
    group.set_isr(1, 2)
    group.controller_reachable = False
    group.tell()
    group.advance(1_000)
    sent = len(group.sent_isrs)
    assert 3 <= sent <= 8, "with backoff"
    group.controller_reachable = True
    group.advance(1_000)
    assert group.record().isr == (ONE, TWO, THREE)
    assert len(group.sent_isrs) == sent + 1
    assert group.state(1).isr == (ONE, TWO, THREE)


def test_an_isr_change_that_was_made_for_older_metadata_waits_for_the_newer(
    group: BrokerGroup,
) -> None:
    group.create_topic()
    group.set_isr(1, 2)
    group.tell()
    group.set_isr(1, 2)  # committed, and nobody knows yet
    group.advance(600)
    assert len(group.sent_isrs) == 1
    group.tell()
    group.advance(600)
    assert group.record().isr == (ONE, TWO, THREE)


def test_a_late_answer_of_the_controller_is_ignored(group: BrokerGroup) -> None:
    """B-R19."""
    group.create_topic()
    group.set_isr(1, 2)
    group.tell()
    group.advance(600)
    before = group.state(1)
    leader = group.managers[ONE]
    for request_id in (0, 1, 2):
        assert leader.on_partitions_altered(group.now_ms, request_id, PartitionsAltered()) == []
        assert leader.on_partitions_altered(group.now_ms, request_id, None) == []
    assert group.state(1) == before


def test_one_request_carries_the_proposals_of_all_partitions(group: BrokerGroup) -> None:
    group.create_topic(partitions=20)
    for partition in range(20):
        group.set_isr(1, 2, partition=partition)
    group.tell()
    group.advance(600)
    assert {len(request.partitions) for request in group.sent_isrs} == {20}
    assert len(group.sent_isrs) == 1


def test_a_fenced_follower_is_not_proposed(group: BrokerGroup) -> None:
    """B-R18, B-R22."""
    group.create_topic()
    group.run()
    group.append(replace(group.image.brokers[THREE], in_controlled_shutdown=True))
    group.set_isr(1, 2)
    group.tell()
    group.advance(1_000)
    assert group.sent_isrs == []
    token = group.produce(1, b"a")
    group.cut_links = {(THREE, ONE)}
    group.run()
    assert group.error(token) == 0
