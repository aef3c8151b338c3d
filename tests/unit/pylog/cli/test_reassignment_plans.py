"""Plans of moves: the file, and what is planned for given brokers."""

from __future__ import annotations

import json
from collections import Counter

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.cli.reassignment_plans import Plan, planned, read, throttled, written
from pylog.model import TopicPartition


def tp(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


def brokers(*ids: int) -> dict[int, str | None]:
    return dict.fromkeys(ids)


def test_a_plan_is_read_as_it_was_written() -> None:
    plan: Plan = {tp(1): (3, 1), tp(0): (1, 2), tp(0, "s"): (2,)}
    assert read(written(plan)) == plan
    kafkas = {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
        ],
    }
    assert read(json.dumps(kafkas)) == {tp(0): (1, 2)}


WRONG = {
    "{": "the plan is no JSON",
    "[" * 100_000: "the plan is no JSON",
    "[]": "the plan must be",
    '{"partitions": 7}': "the plan must be",
    '{"version": 2, "partitions": []}': "version 2",
    '{"partitions": []}': "names no partition",
    '{"partitions": [7]}': r"partitions\[0\] must be an object",
    '{"partitions": [{"topic": "a/b", "partition": 0, "replicas": [1]}]}': r"\[0\].topic",
    '{"partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]}': r"\[0\].partition",
    '{"partitions": [{"topic": "t", "partition": true, "replicas": [1]}]}': r"\[0\].partition",
    '{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}': r"\[0\].replicas",
    '{"partitions": [{"topic": "t", "partition": 0, "replicas": [-1]}]}': r"\[0\].replicas",
    '{"partitions": [{"topic": "t", "partition": 0, "brokers": [1]}]}': "'brokers'",
    '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/d"]}]}':
        "controller chooses log directories",
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=range(len(WRONG)))
def test_wrong_files_are_told(text: str, said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        read(text)


def test_a_partition_stands_in_a_plan_once() -> None:
    item = {"topic": "t", "partition": 0, "replicas": [1]}
    with pytest.raises(click.UsageError, match="t-0 twice"):
        read(json.dumps({"version": 1, "partitions": [item, item]}))


def test_nothing_moves_that_is_in_its_place() -> None:
    current: Plan = {tp(0): (1, 2), tp(1): (2, 3), tp(2): (3, 1)}
    assert planned(current, brokers(1, 2, 3)) == current


def test_a_broker_is_drained() -> None:
    current: Plan = {tp(0): (1, 2), tp(1): (2, 3), tp(2): (3, 1)}
    plan = planned(current, brokers(1, 2, 4))
    assert all(3 not in replicas for replicas in plan.values())
    moved = sum(len(set(plan[at]) - set(current[at])) for at in plan)
    assert moved == 2


def test_more_replicas_go_to_other_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "c"}
    plan = planned({tp(0): (1,), tp(1): (2,)}, racks, 3)
    for replicas in plan.values():
        assert sorted(racks[broker] for broker in replicas) == ["a", "b", "c"]
    assert [replicas[0] for replicas in plan.values()] == [1, 2]


def test_too_few_brokers() -> None:
    with pytest.raises(click.UsageError, match="t-0 needs 3 brokers; there are 2"):
        planned({tp(0): (1, 2, 3)}, brokers(1, 2))


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), min_size=1),
    st.sets(st.integers(1, 9), min_size=3),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_plans_are_even(lists: list[list[int]], ids: set[int], factor: int, topics: int) -> None:
    current: Plan = {
        tp(number, "abcd"[number % topics]): tuple(replicas)
        for number, replicas in enumerate(lists)
    }
    plan = planned(current, brokers(*ids), factor)
    assert plan.keys() == current.keys()
    load: Counter[int] = Counter()
    for replicas in plan.values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= ids
        load.update(replicas)
    assert max(load[broker] for broker in ids) - min(load[broker] for broker in ids) <= 1


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), min_size=1),
    st.lists(st.sampled_from("abc"), min_size=3, max_size=6),
)
def test_even_numbers_cost_no_rack(lists: list[list[int]], racks_of: list[str]) -> None:
    racks = dict(enumerate(racks_of, 1))
    current: Plan = {tp(number): tuple(replicas) for number, replicas in enumerate(lists)}
    for at, replicas in planned(current, racks, 3).items():
        stayed = [broker for broker in current[at] if broker in racks]
        reachable = min(len(set(racks_of)), len({racks[b] for b in stayed}) + 3 - len(stayed))
        assert len({racks[broker] for broker in replicas}) >= reachable


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_a_broker_that_joins_takes_its_part_of_each_topic(factor: int) -> None:
    sizes = {"a": 12, "b": 24, "c": 60}
    current: Plan = {
        tp(number, topic): tuple((number + i) % 3 + 1 for i in range(factor))
        for topic, size in sizes.items()
        for number in range(size)
    }
    plan = planned(current, brokers(1, 2, 3, 4))
    for topic, size in sizes.items():
        held = Counter(b for at, brokers in plan.items() if at.topic == topic for b in brokers)
        assert held == dict.fromkeys((1, 2, 3, 4), size * factor // 4)
        gone = sum(len(set(current[at]) - set(plan[at])) for at in plan if at.topic == topic)
        assert gone == size * factor // 4  # no more than the new one takes


def test_topics_of_one_partition_go_to_all_brokers() -> None:
    current: Plan = {tp(0, f"t{number}"): (1,) for number in range(12)}
    held = Counter(replicas[0] for replicas in planned(current, brokers(1, 2, 3)).values())
    assert held == {1: 4, 2: 4, 3: 4}


def test_brokers_lead_equally_many_of_each_topic() -> None:
    current: Plan = {tp(number, topic): (1,) for topic in "abc" for number in range(12)}
    plan = planned(current, brokers(1, 2, 3), 3)
    for topic in "abc":
        leads = Counter(replicas[0] for at, replicas in plan.items() if at.topic == topic)
        assert leads == {1: 4, 2: 4, 3: 4}


def test_the_replicas_of_a_throttle() -> None:
    current: Plan = {tp(0): (1, 2), tp(1): (2, 3), tp(0, "s"): (1,)}
    target: Plan = {tp(0): (3, 4), tp(1): (3, 2), tp(0, "s"): (1,)}
    assert throttled(current, target) == {
        "t": {
            "leader.replication.throttled.replicas": "0:1,0:2",
            "follower.replication.throttled.replicas": "0:3,0:4",
        }
    }
