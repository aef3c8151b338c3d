"""Heartbeats that wait for news, in both protocols."""

from __future__ import annotations

from typing import Any

import pytest

from pylog.errors import (
    FencedInstanceId,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog_broker.coordinator.groups.classic.messages import Heartbeat
from pylog_broker.coordinator.groups.consumer.messages import ConsumerHeartbeatAnswer
from pylog_broker.coordinator.groups.consumer.protocol import COLLECT_MS_MAX, WAKE_AFTER_MS
from pylog_broker.group_settings import GroupSettings
from tests.fakes.classic_clients import AT_ONCE, Client, G, stable
from tests.fakes.classic_clients import settle as settle_members
from tests.fakes.consumer_members import (
    REBALANCE_MS,
    Consumer,
    delete_topic,
    set_topic,
    settle_consumers,
    shard_with,
)
from tests.fakes.group_shard import GroupShard

INTERVAL_MS = GroupSettings().consumer_heartbeat_interval_ms
SESSION_MS = GroupSettings().consumer_session_timeout_ms
STANDING_MS = 5_000


def group(count: int) -> tuple[GroupShard, list[Consumer]]:
    shard = shard_with(t=6)
    members = [Consumer(shard, f"m{number}") for number in range(count)]
    settle_consumers(*members)
    return shard, members


def stand(member: Consumer, **changes: Any) -> int:
    """Sends a heartbeat that may stand; its number."""
    request = member.request(standing_ms=STANDING_MS, **changes)
    return member.shard.ask(lambda c, r: c.consumer_heartbeat(r, request))


def answered(member: Consumer, number: int) -> ConsumerHeartbeatAnswer:
    """The answer that came, which the member hears."""
    answer = member.hear(member.shard.replies[number])
    assert isinstance(answer, ConsumerHeartbeatAnswer)
    return answer


def test_one_without_news_is_answered_when_its_time_is_over() -> None:
    shard, (member,) = group(1)
    number = stand(member)
    shard.advance(STANDING_MS - 1)
    assert number not in shard.replies
    shard.advance(1)
    answer = answered(member, number)
    assert answer == ConsumerHeartbeatAnswer("m0", member.epoch, INTERVAL_MS, None)


def test_one_that_brings_news_or_gets_some_is_answered_at_once() -> None:
    shard, (member,) = group(1)
    joining = Consumer(shard, "m1")
    assert stand(joining) in shard.replies  # its epoch
    everything = stand(member, rebalance_timeout_ms=REBALANCE_MS, subscribed_names=("t",))
    assert everything in shard.replies


def test_one_that_stands_hears_of_a_change_soon() -> None:
    shard, (first,) = group(1)
    number = stand(first)
    Consumer(shard, "m1").beat()
    assert number not in shard.replies
    shard.advance(WAKE_AFTER_MS)
    answered(first, number)
    assert first.reads == [0, 1, 2]
    shard.advance(STANDING_MS)  # its timer is gone


def test_partitions_go_from_hand_to_hand_without_a_heartbeat_interval() -> None:
    shard, (first,) = group(1)
    second = Consumer(shard, "m1")
    before = stand(first)
    second.beat()
    waits = stand(second)
    shard.advance(WAKE_AFTER_MS)
    answered(first, before)
    assert waits not in shard.replies
    first.beat()  # it has given them up
    shard.advance(WAKE_AFTER_MS)
    answered(second, waits)
    assert (first.reads, second.reads) == ([0, 1, 2], [3, 4, 5])
    assert shard.now_ms <= 3 * WAKE_AFTER_MS


def test_each_of_many_hears_once_and_nothing_stays() -> None:
    shard, members = group(20)
    shard.advance(COLLECT_MS_MAX)
    numbers = [stand(member) for member in members]
    set_topic(shard, "t", 40)
    shard.advance(100)
    for member, number in zip(members, numbers, strict=True):
        answered(member, number)
    settle_consumers(*members)
    assert sorted(read for member in members for read in member.reads) == [*range(40)]
    shard.advance(SESSION_MS - 1_000)
    assert not shard.coordinator.consumer._standing
    assert not shard.coordinator.consumer._rounds


def test_a_later_heartbeat_has_the_one_before_it_answered() -> None:
    shard, (member,) = group(1)
    first = stand(member)
    second = stand(member)
    assert shard.replies[first] == ConsumerHeartbeatAnswer("m0", member.epoch, INTERVAL_MS, None)
    assert second not in shard.replies
    member.beat()
    assert second in shard.replies
    shard.advance(STANDING_MS)


def test_a_member_that_leaves_has_it_answered() -> None:
    shard, (member,) = group(1)
    number = stand(member)
    member.leave()
    assert number in shard.replies


def test_a_member_that_is_put_out_hears_so() -> None:
    shard, (first, second) = group(2)
    # The second one gets a target and does not give up what it should.
    number = stand(second)
    delete_topic(shard, "t")
    set_topic(shard, "t", 6, "B")
    shard.advance(WAKE_AFTER_MS)
    assert number in shard.replies
    late = shard.ask(
        lambda c, r: c.consumer_heartbeat(
            r, second.request(owned=None, standing_ms=STANDING_MS * 10)
        )
    )
    first.beat()
    shard.advance(SESSION_MS)
    assert late in shard.replies


def test_a_coordinator_that_moves_answers_all() -> None:
    shard, (member,) = group(1)
    number = stand(member)
    shard._perform(shard._runtime.on_leadership_ended(0))
    assert isinstance(shard.replies[number], NotCoordinator)


def test_a_static_members_successor_ends_it() -> None:
    shard = shard_with(t=2)
    old = Consumer(shard, "old", instance_id="i")
    settle_consumers(old)
    old.leave(epoch=-2)
    new = Consumer(shard, "new", instance_id="i")
    new.beat()
    with pytest.raises(UnknownMemberId):
        raise shard.answer(
            lambda c, r: c.consumer_heartbeat(
                r, old.request(member_epoch=1, instance_id=None, standing_ms=STANDING_MS)
            )
        )


def test_it_stands_no_longer_than_half_a_session() -> None:
    shard, (member,) = group(1)
    request = member.request(standing_ms=10 * SESSION_MS)
    number = shard.ask(lambda c, r: c.consumer_heartbeat(r, request))
    shard.advance(SESSION_MS // 2)
    assert number in shard.replies


# ---- the classic protocol ------------------------------------------------------------------------


def stand_classic(client: Client) -> int:
    request = Heartbeat(G, client.member_id, client.instance_id, client.generation, STANDING_MS)
    return client.shard.ask(lambda c, r: c.heartbeat(r, request))


def test_one_of_the_classic_protocol_is_answered_when_its_time_is_over() -> None:
    shard, (client,) = stable(1)
    number = stand_classic(client)
    shard.advance(STANDING_MS - 1)
    assert number not in shard.replies
    shard.advance(1)
    assert shard.replies[number] is None


def test_one_of_the_classic_protocol_hears_of_a_rebalance_at_once() -> None:
    shard, (first, second) = stable(2)
    numbers = [stand_classic(first), stand_classic(second)]
    Client(shard, "c").ask_to_join()
    assert all(isinstance(shard.replies[number], RebalanceInProgress) for number in numbers)
    assert isinstance(shard.replies[stand_classic(first)], RebalanceInProgress)
    shard.advance(STANDING_MS)


def test_a_later_one_of_the_classic_protocol_has_the_one_before_it_answered() -> None:
    shard, (client,) = stable(1)
    first, second = stand_classic(client), stand_classic(client)
    assert shard.replies[first] is None
    assert second not in shard.replies
    assert client.heartbeat() is None
    assert shard.replies[second] is None


def test_a_member_of_the_classic_protocol_that_goes_has_it_answered() -> None:
    shard, (client,) = stable(1)
    number = stand_classic(client)
    client.leave()
    assert isinstance(shard.replies[number], UnknownMemberId)
    shard.advance(STANDING_MS)


def test_a_static_member_that_is_replaced_has_it_answered() -> None:
    shard = GroupShard(AT_ONCE)
    old = Client(shard, "a", instance_id="i")
    old.ask_to_join()
    settle_members(old)
    number = stand_classic(old)
    Client(shard, "a", instance_id="i", starts=1).ask_to_join()
    assert isinstance(shard.replies[number], FencedInstanceId)
