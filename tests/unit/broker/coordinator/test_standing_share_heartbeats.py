"""Heartbeats of share groups that wait for news."""

from __future__ import annotations

from pylog.errors import NonEmptyGroup
from pylog_broker.coordinator.groups.consumer.topics import TopicIdPartition
from pylog_broker.coordinator.groups.share.messages import ShareHeartbeatAnswer
from pylog_broker.coordinator.groups.share.protocol import ASKED_MS
from pylog_broker.coordinator.groups.share.standing import WAKE_AFTER_MS
from pylog_broker.group_settings import GroupSettings
from tests.fakes.classic_clients import G
from tests.fakes.consumer_members import delete_topic, set_topic, shard_with
from tests.fakes.group_shard import GroupShard
from tests.fakes.share_members import Sharer, settle_sharers, share_group

INTERVAL_MS = GroupSettings().share_heartbeat_interval_ms
SESSION_MS = GroupSettings().share_session_timeout_ms
STANDING_MS = 5_000


def group(count: int, **topics: int) -> tuple[GroupShard, list[Sharer]]:
    shard = shard_with(**(topics or {"t": 4}))
    members = [Sharer(shard, f"m{number}", (*shard.topics,)) for number in range(count)]
    settle_sharers(*members)
    return shard, members


def stand(member: Sharer, standing_ms: int = STANDING_MS) -> int:
    """Sends a heartbeat that may stand; its number."""
    request = member.request(standing_ms=standing_ms)
    return member.shard.ask(lambda c, r: c.share_heartbeat(r, request))


def test_one_without_news_is_answered_when_its_time_is_over() -> None:
    shard, (member,) = group(1)
    number = stand(member)
    shard.advance(STANDING_MS - 1)
    assert number not in shard.replies
    shard.advance(1)
    assert shard.replies[number] == ShareHeartbeatAnswer("m0", member.epoch, INTERVAL_MS, None)


def test_none_stands_longer_than_half_a_session() -> None:
    shard, (member,) = group(1)
    number = stand(member, 10 * SESSION_MS)
    shard.advance(SESSION_MS // 2)
    assert number in shard.replies
    assert "m0" in share_group(shard).members


def test_all_that_stand_hear_of_a_change_soon() -> None:
    shard, members = group(3)
    numbers = [stand(each) for each in members]
    joining = Sharer(shard, "m3")
    joining.beat()
    assert not any(number in shard.replies for number in numbers)
    shard.advance(WAKE_AFTER_MS)
    epoch = share_group(shard).group_epoch
    assert [shard.replies[number].member_epoch for number in numbers] == [epoch] * 3
    read = [each for number in numbers for each in shard.replies[number].assigned]
    assert len(read) == 3


def test_a_new_topic_is_heard_of_and_read_once_it_has_state() -> None:
    shard, (member,) = group(1, t=1)
    number = stand(member)
    set_topic(shard, "t", 3)
    shard.advance(WAKE_AFTER_MS)
    answer = shard.replies[number]
    assert sorted(each.partition for each in answer.to_initialize) == [1, 2]
    member.epoch = answer.member_epoch
    number = stand(member)
    member.initialized(answer.to_initialize)
    shard.advance(WAKE_AFTER_MS)
    assert sorted(each.partition for each in shard.replies[number].assigned) == [0, 1, 2]


def test_a_later_heartbeat_has_the_one_before_it_answered() -> None:
    shard, (member,) = group(1)
    first, second = stand(member), stand(member)
    assert first in shard.replies
    assert second not in shard.replies
    member.leave()
    assert second in shard.replies


def test_state_that_nobody_tells_of_is_asked_for_again() -> None:
    shard = shard_with(t=2)
    member = Sharer(shard, "m", initializes=False)
    asked = member.beat().to_initialize
    assert len(asked) == 2
    assert member.beat().to_initialize == frozenset()
    shard.advance(ASKED_MS // 2)
    assert member.beat().to_initialize == frozenset()
    shard.advance(ASKED_MS // 2)
    assert member.beat().to_initialize == asked


def test_of_a_topic_that_is_gone_the_group_has_no_state() -> None:
    shard, (member,) = group(1, t=2, u=2)
    gone = shard.topics["t"].topic_id
    delete_topic(shard, "t")
    assert {each.topic_id for each in share_group(shard).initialized} == {
        shard.topics["u"].topic_id
    }
    assert gone not in share_group(shard).topic_names
    member.beat()
    assert {each.topic_id for each in member.assigned} == {shard.topics["u"].topic_id}


def test_offsets_are_set_while_the_group_is_empty() -> None:
    shard, (member,) = group(1)
    topic = shard.topics["t"]
    wanted = {TopicIdPartition(topic.topic_id, 0): "t"}
    busy = shard.answer(lambda c, r: c.share.begin_anew(r, G, wanted))
    assert isinstance(busy, NonEmptyGroup)
    member.leave()
    epoch = share_group(shard).group_epoch
    assert shard.answer(lambda c, r: c.share.begin_anew(r, G, wanted)) == epoch + 1
    assert share_group(shard).group_epoch == epoch + 1
    assert len(shard.answer(lambda c, r: c.share.state_of(r, G))) == 4
    forgotten = frozenset({topic.topic_id})
    assert shard.answer(lambda c, r: c.share.forget_topics(r, G, forgotten)) is None
    assert shard.answer(lambda c, r: c.share.state_of(r, G)) == frozenset()
    assert shard.answer(lambda c, r: c.share.forget_topics(r, G, forgotten)) is None


def test_state_that_is_about_to_be_deleted_is_made_anew_for_who_comes() -> None:
    shard, (member,) = group(1)
    member.leave()
    assert len(shard.answer(lambda c, r: c.share_state_to_delete(r, G))) == 4
    assert share_group(shard).initialized == frozenset()
    assert len(shard.answer(lambda c, r: c.share_state_to_delete(r, G))) == 4
    assert shard.answer(lambda c, r: c.share_state_to_delete(r, "nobody")) == frozenset()
    late = Sharer(shard, "late", initializes=False)
    assert len(late.beat().to_initialize) == 4


def test_state_that_was_deleted_behind_members_is_made_anew() -> None:
    shard, (member,) = group(1)
    lost = share_group(shard).initialized
    number = stand(member)
    assert shard.answer(lambda c, r: c.share.state_lost(r, G, lost)) is None
    shard.advance(WAKE_AFTER_MS)
    answer = shard.replies[number]
    assert answer.to_initialize == lost
    assert answer.assigned == frozenset()
    member.epoch = answer.member_epoch
    member.initialized(lost)
    member.beat()
    assert member.assigned == lost
    before = share_group(shard).group_epoch
    nothing = frozenset({TopicIdPartition(shard.topics["t"].topic_id, 99)})
    assert shard.answer(lambda c, r: c.share.state_lost(r, G, nothing)) is None
    assert share_group(shard).group_epoch == before
