"""The promises to groups when much happens at once."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition
from pylog.clock import SYSTEM_CLOCK
from pylog.consumer_protocol import Subscription, encode_subscription
from pylog.rpc.v1 import group_pb2
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

COMMITS, FETCHES, THREADS = 100, 100, 8
JOINS, CHANNELS = 1_000, 10
DELAY_MS = 300_000
"""Longer than any test: the member that joins first waits."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {
        "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": str(DELAY_MS),
    }
    with LocalCluster(1, config=config) as running:
        with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        yield running


@pytest.fixture(autouse=True)
def _coordinator(raw: RawClient) -> None:
    def found() -> bool:
        asked = group_pb2.FindCoordinatorRequest(keys=["any"])
        (answer,) = raw.group(raw.servers[1]).FindCoordinator(asked, timeout=10).coordinators
        return not answer.error.code

    eventually(60, found, "groups have a coordinator")


@dataclass(frozen=True)
class Operation:
    """A commit of a position, or a fetch that has found it; times tell the order."""

    value: int
    begin: int
    end: int


class Register:
    """One position of one group, as clients see it."""

    def __init__(self, raw: RawClient, group: str) -> None:
        self.stub = raw.group(raw.servers[1])
        self.group = group
        self.lock = threading.Lock()
        self.ticks = 0
        self.commits: list[Operation] = []
        self.fetches: list[Operation] = []

    def tick(self) -> int:
        with self.lock:
            self.ticks += 1
            return self.ticks

    def commit(self, value: int) -> None:
        request = group_pb2.OffsetCommitRequest(
            group_id=self.group, generation_or_epoch=-1, timeout_ms=10_000
        )
        request.offsets.add(topic="t", partition=0, offset=value, leader_epoch=-1)
        begin = self.tick()
        answer = self.stub.OffsetCommit(request, timeout=60)
        assert not answer.error.code
        assert not answer.offsets[0].error.code
        self.commits.append(Operation(value, begin, self.tick()))

    def fetch(self) -> None:
        request = group_pb2.OffsetFetchRequest(group_id=self.group, member_epoch=-1)
        request.partitions.add(topic="t", partition=0)
        begin = self.tick()
        (found,) = self.stub.OffsetFetch(request, timeout=60).offsets
        self.fetches.append(Operation(found.offset, begin, self.tick()))

    def faults(self) -> list[str]:
        """The operations for which the history is none of a register on which one thing happens
        after the other.
        """
        by_value = {each.value: each for each in self.commits}
        by_value[-1] = Operation(-1, 0, 0)
        faults = []
        for fetch in self.fetches:
            written = by_value[fetch.value]
            if written.begin > fetch.end:
                faults.append(f"{fetch} found what was committed later")
            for other in self.commits:
                if written.end < other.begin and other.end < fetch.begin:
                    faults.append(f"{fetch} did not find {other}")
        for one in self.fetches:
            for later in self.fetches:
                before, after = by_value[one.value], by_value[later.value]
                if one.end < later.begin and after.end < before.begin:
                    faults.append(f"{later} went back behind {one}")
        return faults


def test_commits_and_fetches_of_one_group_have_an_order(raw: RawClient) -> None:
    register = Register(raw, "register")
    register.commit(0)
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for value in range(1 + number, COMMITS + 1, THREADS):
                register.commit(value)
                register.fetch()
        except BaseException as error:  # noqa: BLE001 -- the test tells it
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert faults == []
    assert len(register.commits) == COMMITS + 1
    assert register.faults() == []


def test_the_judge_of_an_order_finds_what_is_wrong(raw: RawClient) -> None:
    register = Register(raw, "")
    register.commits = [Operation(1, 1, 2), Operation(2, 3, 4)]
    register.fetches = [Operation(1, 5, 6)]
    assert register.faults() == [f"{register.fetches[0]} did not find {register.commits[1]}"]
    register.fetches = [Operation(2, 1, 2)]
    assert register.faults() == [f"{register.fetches[0]} found what was committed later"]


def test_a_thousand_joins_that_wait_hold_up_nobody(cluster: LocalCluster) -> None:
    clients = [RawClient(cluster.bootstrap_servers) for _ in range(CHANNELS)]
    metadata = encode_subscription(Subscription(("t",)))
    try:
        waiting: list[Any] = []
        for number in range(JOINS):
            request = group_pb2.JoinGroupRequest(
                group_id=f"waits-{number}", instance_id="i", session_timeout_ms=30_000,
                rebalance_timeout_ms=60_000, protocol_type="consumer",
            )  # fmt: skip
            request.protocols.add(name="range", metadata=metadata)
            client = clients[number % CHANNELS]
            stub = client.group(client.servers[1])
            waiting.append(stub.JoinGroup.future(request, timeout=120))
        with RawClient(cluster.bootstrap_servers) as raw:
            stub = raw.group(raw.servers[1])
            asked = group_pb2.DescribeGroupsRequest(group_ids=[f"waits-{n}" for n in range(JOINS)])

            def all_wait() -> bool:
                told = stub.DescribeGroups(asked, timeout=30).groups
                return all(each.state == "PreparingRebalance" for each in told)

            eventually(60, all_wait, "all joins wait")
            register = Register(raw, "works")
            began_ms = SYSTEM_CLOCK.monotonic_ms()
            for value in range(50):
                register.commit(value)
                register.fetch()
            took_ms = SYSTEM_CLOCK.monotonic_ms() - began_ms
        assert not any(each.done() for each in waiting)
        assert took_ms < DELAY_MS / 10
        for each in waiting:
            each.cancel()
    finally:
        for client in clients:
            client.__exit__(None, None, None)


class Handover:
    """Counts records by partition in memory; it leaves the counts of a partition that it loses to
    the next owner.
    """

    def __init__(self, left: dict[TopicPartition, int]) -> None:
        self.left = left
        self.counts: dict[TopicPartition, int] = {}

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for tp in partitions:
            self.left[tp] = self.counts.pop(tp)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        for tp in partitions:
            self.counts[tp] = self.left.pop(tp, 0)


def test_state_goes_with_its_partition_where_it_is_handed_over(cluster: LocalCluster) -> None:
    servers, count, partitions = cluster.bootstrap_servers, 600, 4
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("handed-over", partitions, 1)])
    left: dict[TopicPartition, int] = {}
    produced: Counter[TopicPartition] = Counter()

    def member() -> tuple[Consumer, Handover]:
        consumer, state = Consumer(
            bootstrap_servers=servers, group_id="counting", group_protocol="consumer",
            auto_offset_reset="earliest",
        ), Handover(left)  # fmt: skip
        consumer.subscribe(["handed-over"], listener=state)
        return consumer, state

    members = [member()]
    seen: defaultdict[str, int] = defaultdict(int)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(count):
            producer.send("handed-over", b"x", partition=number % partitions)
            produced[TopicPartition("handed-over", number % partitions)] += 1
            if number == count // 3:
                members.append(member())
            for consumer, state in members:
                for record in consumer.poll(0.0):
                    state.counts[TopicPartition(record.topic, record.partition)] += 1
                    seen["all"] += 1
        producer.flush()
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 60_000
        while seen["all"] < count or not all(state.counts for _, state in members):
            assert SYSTEM_CLOCK.monotonic_ms() < deadline_ms, seen
            for consumer, state in members:
                for record in consumer.poll(0.05):
                    state.counts[TopicPartition(record.topic, record.partition)] += 1
                    seen["all"] += 1
    totals = Counter(left)
    for _, state in members:
        totals.update(state.counts)
    for consumer, _ in members:
        consumer.close()
    assert seen["all"] == count
    assert totals == produced
