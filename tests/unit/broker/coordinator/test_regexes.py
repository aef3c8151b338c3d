"""Members that subscribe by a regular expression, which the coordinator resolves."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from pylog.errors import InvalidRegularExpression, InvalidRequest
from pylog_broker.coordinator.generated.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
)
from pylog_broker.coordinator.groups.codec import GroupCodec
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.messages import ConsumerHeartbeatAnswer
from pylog_broker.coordinator.groups.consumer.protocol import REGEX_AFTER_MS
from pylog_broker.coordinator.groups.consumer.regexes import MATCHES_A_TURN
from tests.fakes.classic_clients import G
from tests.fakes.consumer_members import (
    Consumer,
    consumer_group,
    delete_topic,
    set_topic,
    settle_consumers,
    shard_with,
)
from tests.fakes.group_shard import GroupShard


def by_regex(shard: GroupShard, member_id: str, regex: str, *names: str) -> Consumer:
    return Consumer(shard, member_id, names, regex=regex)


def topics_of(shard: GroupShard, *members: Consumer) -> list[str]:
    """The names of the topics that they read."""
    names = {topic.topic_id: name for name, topic in shard.topics.items()}
    return sorted({names[each.topic_id] for member in members for each in member.owned})


def written(shard: GroupShard) -> dict[str, tuple[str, ...] | None]:
    """The topics of each expression in the log."""
    codec, found = GroupCodec(), dict[str, tuple[str, ...] | None]()
    for key, value in shard.log:
        record = codec.decode(key, value)
        assert record is not None
        if isinstance(record.key, ConsumerGroupRegularExpressionKey):
            assert record.key.group_id == G
            topics = None if record.value is None else record.value.topics
            found[record.key.regular_expression] = topics
    return found


def settle(shard: GroupShard, *members: Consumer) -> None:
    shard.advance(REGEX_AFTER_MS)
    settle_consumers(*members)


def test_a_member_reads_the_topics_whose_whole_name_matches() -> None:
    shard = shard_with(t1=2, t2=1, tt1=1, xt1=1)
    member = by_regex(shard, "m", "t[0-9]")
    assert member.beat() == ConsumerHeartbeatAnswer("m", 1, 5_000, frozenset())
    shard.advance(0)
    assert written(shard) == {"t[0-9]": ("t1", "t2")}
    assert consumer_group(shard).group_epoch == 2
    settle_consumers(member)
    assert topics_of(shard, member) == ["t1", "t2"]
    assert len(member.owned) == 3


def test_names_and_an_expression_are_read_together_and_either_may_change() -> None:
    shard = shard_with(a=1, b=1, c=1)
    member = by_regex(shard, "m", "a", "b")
    member.beat()
    settle(shard, member)
    assert topics_of(shard, member) == ["a", "b"]
    member.beat(subscribed_regex="c")
    settle(shard, member)
    assert topics_of(shard, member) == ["b", "c"]
    assert written(shard) == {"a": None, "c": ("c",)}
    member.beat(subscribed_regex="")
    settle(shard, member)
    assert topics_of(shard, member) == ["b"]
    assert written(shard) == {"a": None, "c": None}
    assert consumer_group(shard).resolved == {}


def test_a_second_member_with_the_same_expression_has_its_share_at_once() -> None:
    shard = shard_with(a=2)
    first = by_regex(shard, "m0", "a.*")
    first.beat()
    settle(shard, first)
    second = by_regex(shard, "m1", "a.*")
    second.beat()
    assert len(consumer_group(shard).target["m1"]) == 1
    settle(shard, first, second)
    first.leave()
    assert written(shard) == {"a.*": ("a",)}
    second.leave()
    assert written(shard) == {"a.*": None}


def test_topics_that_come_and_go_are_found() -> None:
    shard = shard_with(a1=1)
    member = by_regex(shard, "m", "a.")
    member.beat()
    settle(shard, member)
    epoch = consumer_group(shard).group_epoch
    for name in ("a2", "a3", "b1"):
        set_topic(shard, name, 1)
    assert consumer_group(shard).group_epoch == epoch
    settle(shard, member)
    assert consumer_group(shard).group_epoch == epoch + 1  # those that come together are one change
    assert topics_of(shard, member) == ["a1", "a2", "a3"]
    delete_topic(shard, "a1")
    settle(shard, member)
    assert topics_of(shard, member) == ["a2", "a3"]
    assert written(shard) == {"a.": ("a2", "a3")}
    set_topic(shard, "b2", 1)
    settle(shard, member)
    assert consumer_group(shard).group_epoch <= epoch + 3


def test_a_heartbeat_that_stands_is_answered_when_a_topic_is_found() -> None:
    shard = shard_with(a1=1)
    member = by_regex(shard, "m", "a.")
    member.beat()
    settle(shard, member)
    stands = shard.ask(lambda c, r: c.consumer_heartbeat(r, member.request(standing_ms=9_000)))
    set_topic(shard, "a2", 1)
    shard.advance(REGEX_AFTER_MS)
    assert stands not in shard.replies
    shard.advance(5)
    assert len(shard.replies[stands].assigned) == 2


def test_a_new_coordinator_shares_out_what_the_old_one_did_and_looks_again() -> None:
    shard = shard_with(a1=1)
    member = by_regex(shard, "m", "a.")
    member.beat()
    settle(shard, member)
    before = consumer_group(shard)
    shard.start()
    assert consumer_group(shard) == before
    assert member.beat().assigned is None
    shard.topics["a2"] = replace_topic(shard, "a2")  # it came while nobody looked
    shard.start()
    shard.advance(0)
    settle(shard, member)
    assert topics_of(shard, member) == ["a1", "a2"]


def replace_topic(shard: GroupShard, name: str) -> Any:
    return shard.topics["a1"]._replace(name=name, topic_id=name.ljust(21, "B") + "A")


def test_a_large_cluster_is_searched_slice_by_slice() -> None:
    shard = GroupShard()
    for number in range(MATCHES_A_TURN + 2):
        shard.topics[f"t{number}"] = replace_one(number)
    member = by_regex(shard, "m", "t1.")
    member.beat()
    turns = 0
    while not written(shard):
        due = shard._runtime.next_deadline_ms
        assert due is not None
        shard._perform(shard._runtime.on_time(due, shard.wall_ms))
        shard._perform(shard._runtime.flush())
        turns += 1
    assert turns == 3  # one sees that it has to be searched
    assert written(shard) == {"t1.": tuple(f"t1{digit}" for digit in range(10))}


def replace_one(number: int) -> Any:
    shard = shard_with(a=1)
    return shard.topics["a"]._replace(name=f"t{number}", topic_id=f"t{number}".ljust(21, "B") + "A")


def test_an_expression_that_cannot_be_is_refused_before_anything_changes() -> None:
    shard = shard_with(a=1)
    for regex, error in (("a(", InvalidRegularExpression), ("", InvalidRequest)):
        answer = by_regex(shard, "m", regex).beat()
        assert isinstance(answer, error), answer
    assert shard.log == []


def test_a_group_that_is_given_back_forgets_its_expressions() -> None:
    shard = shard_with(GroupConfig(initial_rebalance_delay_ms=0), t=1)
    member = by_regex(shard, "m", "t")
    member.beat()
    settle(shard, member)
    described = shard.answer(lambda c, r: c.describe_consumer(r, G))
    assert described.members[0].subscribed_regex == "t"
    member.leave()
    assert written(shard) == {"t": None}


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_topics_and_members_ends_with_what_matches(seed: int) -> None:
    """Against `re` over all names at the end."""
    chance = random.Random(seed)
    shard = shard_with(a=1)
    expressions = ["a.*", "[ab]", "b+", "none", ".*"]
    members = [by_regex(shard, f"m{n}", chance.choice(expressions)) for n in range(3)]
    for member in members:
        member.beat()
    for _ in range(chance.randint(5, 30)):
        name = "".join(chance.choices("ab", k=chance.randint(1, 3)))
        match chance.randint(0, 5):
            case 0 | 1:
                set_topic(shard, name, chance.randint(1, 3))
            case 2 if name in shard.topics:
                delete_topic(shard, name)
            case 3:
                shard.advance(chance.choice([0, 50, 200]))
            case 4:
                chosen = chance.choice(members)
                chosen.beat()
                chosen.regex = chance.choice(expressions)
                answer = chosen.beat(subscribed_regex=chosen.regex)
                assert isinstance(answer, ConsumerHeartbeatAnswer), answer
            case _:
                shard.start() if chance.random() < 0.3 else chance.choice(members).beat()
    settle(shard, *members)
    settle(shard, *members)
    group = consumer_group(shard)
    for member in members:
        assert member.regex is not None
        wanted = {name for name in shard.topics if re.fullmatch(member.regex, name)}
        assert group.read_by(group.members[member.member_id]) == wanted
    used = {member.regex for member in members}
    assert set(group.resolved) == used
    read = sorted(topics_of(shard, *members))
    assert read == sorted(
        name for name in shard.topics if any(re.fullmatch(regex or "", name) for regex in used)
    )
