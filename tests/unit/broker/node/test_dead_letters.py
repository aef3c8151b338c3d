"""Dead letters from a real log to a leader that answers as the test says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.errors import PylogError
from pylog.model import BrokerId, LeaderEpoch, NewTopic, TopicId, TopicPartition
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog_broker.config import BrokerConfig
from pylog_broker.metadata.admin import CreatedTopic, CreateTopics, TopicsCreated
from pylog_broker.metadata.image import CLUSTER_CONFIG
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import ConfigRecord
from pylog_broker.node.engine import Engine
from pylog_broker.node.share import dead_letters
from pylog_broker.node.share.dead_letters import DeadLetterTopics, DeadLetterWriter
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch, Produce
from pylog_broker.share.sessions import SharePartitionKey
from pylog_broker.share.settings import ShareSettings
from pylog_broker.share.share_partition import DeadLetters
from tests.fakes.broker_group import T0, TOPIC_ID, BrokerGroup

ONE = BrokerId(1)
KEY = SharePartitionKey("g", TOPIC_ID, 0)
DLQ_ID = TopicId("D" * 21 + "A")
ENABLE = "errors.deadletterqueue.group.enable"
AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
Sent = tuple[int, str, bytes | None]
"""Partition of the dead-letter topic, offset of the record, and its value."""


class World:
    def __init__(self, group: BrokerGroup, pool: ThreadPoolExecutor) -> None:
        self.group = group
        self.manager = group.managers[ONE]
        self.faults: list[str] = []
        self.engine = Engine(
            self.manager,
            SYSTEM_CLOCK,
            pool,
            alter_partition=_unreached,
            remove_directory=lambda _: None,
            report_failed=lambda *_: None,
            on_fault=self.faults.append,
        )
        self.settings = ShareSettings(dead_letter_topic="dlq.t", copies_dead_letters=True)
        self.asked: list[NewTopic] = []
        self.creation: Failure | None = None
        self.sent: list[list[Sent]] = []
        self.leaders: list[BrokerId] = []
        self.outcomes: list[PylogError | Failure] = []
        """The outcomes of the next batches, before they go well."""
        self.bad: set[bytes] = set()
        """Values that the topic does not take."""
        self.topics = DeadLetterTopics(
            lambda: group.image, BrokerConfig(), ONE, lambda _: self.settings, self.create
        )
        self.writer = DeadLetterWriter(
            self.topics,
            self.engine,
            SYSTEM_CLOCK,
            pool,
            self.produce_to,
            unpacked_bytes_max=1 << 20,
        )

    def produce(self, *values: bytes) -> None:
        made = PartitionBatch(T0, TOPIC_ID, encode_batch(values, timestamps=0))
        request = Produce(1, 5_000, (made,), internal=True)
        self.engine.tell(
            lambda now_ms: self.manager.produce(now_ms, 0, request, lambda answer: None)
        )

    def make_topic(self, partitions: int = 1, **config: str) -> None:
        self.group.create_topic(
            (1,),
            partitions=partitions,
            name="dlq.t",
            topic_id=DLQ_ID,
            config={ENABLE: "true"} | config,
        )
        self.group.run()

    def set(self, name: str, value: str) -> None:
        self.group.append(ConfigRecord(*CLUSTER_CONFIG, name, value))
        self.group.tell()
        self.group.run()

    async def create(self, request: CreateTopics) -> TopicsCreated:
        (topic,) = request.topics
        self.asked.append(topic)
        if self.creation is None:
            self.make_topic()
        return TopicsCreated((CreatedTopic(topic.name, self.creation),))

    async def produce_to(
        self, leader: BrokerId, batch: PartitionBatch, timeout_ms: int
    ) -> PartitionAck:
        await asyncio.sleep(0)
        name = batch.topic_partition
        if self.outcomes:
            outcome = self.outcomes.pop(0)
            if isinstance(outcome, PylogError):
                raise outcome
            return PartitionAck(name, outcome)
        found = [*iter_records(batch.batch, name.topic, name.partition)]
        if self.bad & {each.value for each in found}:
            return PartitionAck(name, Failure(errors.InvalidRecord.code, "no key"))
        self.leaders.append(leader)
        self.sent.append(
            [
                (name.partition, dict(each.headers)["__dlq.errors.offset"].decode(), each.value)  # type: ignore[union-attr]
                for each in found
            ]
        )
        return PartitionAck(name)

    async def write(self, *letters: DeadLetters, origin: TopicPartition = T0) -> None:
        await self.writer.write(KEY, origin, LeaderEpoch(-1), letters)
        assert self.writer.waiting == 0


async def _unreached(request: object) -> None:
    return None


def rejected(first: int, last: int) -> DeadLetters:
    return DeadLetters(first, last, 1, is_rejected=True)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    made = BrokerGroup(tmp_path, 1)
    made.create_topic((1,))
    made.run()
    return made


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "RETRY_SECONDS_FIRST", 0.001)


def run(group: BrokerGroup, main: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        with ThreadPoolExecutor(1) as pool:
            async with asyncio.timeout(30):
                world = World(group, pool)
                await main(world)
                world.engine.stop()
                assert world.faults == []

    asyncio.run(whole())


def counted(world: World) -> tuple[int, int]:
    return world.writer.written, world.writer.given_up


def test_records_go_with_what_the_log_has(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        world.make_topic()
        world.produce(b"a", b"b")
        world.produce(b"c")
        await world.write(rejected(0, 0), rejected(2, 2))
        assert world.sent == [[(0, "0", b"a"), (0, "2", b"c")]]
        assert (world.leaders, counted(world)) == ([ONE], (2, 0))

    run(group, main)


def test_without_copies_headers_go_alone(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        world.make_topic()
        world.produce(b"a")
        world.settings = ShareSettings(dead_letter_topic="dlq.t")
        await world.write(rejected(0, 0))
        assert world.sent == [[(0, "0", None)]]

    run(group, main)


def test_what_the_log_has_no_more_goes_as_headers(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        world.make_topic()
        world.produce(b"a")
        await world.write(rejected(0, 0), rejected(7, 8))
        assert [each for batch in world.sent for each in batch] == [
            (0, "0", b"a"), (0, "7", None), (0, "8", None),
        ]  # fmt: skip

    run(group, main)


def test_a_partition_goes_to_one_of_the_topic(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        world.make_topic(partitions=3)
        target = await world.topics.target("g", TopicPartition("jobs", 5))
        assert target == (TopicPartition("dlq.t", 2), DLQ_ID, ONE, 1_048_588)

    run(group, main)


def test_many_go_in_batches_of_what_the_topic_takes(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        world.make_topic(**{"max.message.bytes": "3000"})
        values = [b"%d" % number + b"v" * 900 for number in range(9)]
        for value in values:
            world.produce(value)
        await world.write(rejected(0, 8))
        assert max(map(len, world.sent)) <= 3
        assert [each[2] for batch in world.sent for each in batch] == values
        assert counted(world) == (9, 0)

    run(group, main)


@pytest.mark.parametrize(
    "outcome",
    [
        errors.NetworkException("broken"),
        errors.RequestTimedOut("late"),
        Failure(errors.NotLeaderOrFollower.code, "moved"),
        Failure(errors.NotEnoughReplicas.code, "too few"),
        Failure(errors.KafkaStorageError.code, "the disk is full"),
        Failure(errors.UnknownServerError.code, "a defect"),
    ],
    ids=lambda outcome: errors.from_code(outcome.code).name,
)
def test_what_may_pass_is_tried_until_it_has(
    group: BrokerGroup, outcome: PylogError | Failure, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(world: World) -> None:
        world.make_topic()
        world.produce(b"a")
        world.outcomes = [outcome] * 4
        await world.write(rejected(0, 0))
        assert world.sent == [[(0, "0", b"a")]]
        assert counted(world) == (1, 0)

    with caplog.at_level(logging.WARNING):
        run(group, main)
    (line,) = caplog.messages  # and not one for each try
    assert "share group g: dead letters of t-0 wait" in line


def test_one_record_that_the_topic_does_not_take_costs_no_other(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        world.make_topic()
        world.produce(b"a", b"b", b"c")
        world.bad = {b"b"}
        await world.write(rejected(0, 2))
        assert world.sent == [[(0, "0", b"a")], [(0, "2", b"c")]]
        assert counted(world) == (2, 1)

    run(group, main)


def test_a_topic_that_is_missing_is_made_where_that_is_allowed(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        world.set(AUTO_CREATE, "true")
        world.produce(b"a")
        await world.write(rejected(0, 0))
        config = {ENABLE: "true", "message.timestamp.type": "CreateTime"}
        assert world.asked == [NewTopic("dlq.t", -1, -1, config=config)]
        assert world.sent == [[(0, "0", b"a")]]

    run(group, main)


def test_a_topic_that_cannot_be_made_yet_is_asked_for_again(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        world.set(AUTO_CREATE, "true")
        world.creation = Failure(errors.InvalidReplicationFactor.code, "too few brokers")
        writing = asyncio.ensure_future(world.write(rejected(0, 0)))
        while len(world.asked) < 3:
            await asyncio.sleep(0)
        world.creation = None
        await writing
        assert counted(world) == (1, 0)

    run(group, main)


def test_many_that_need_the_topic_ask_once(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        world.set(AUTO_CREATE, "true")
        writers: Sequence[Any] = [world.writer.write(KEY, T0, LeaderEpoch(-1), [rejected(n, n)])
                                  for n in range(5)]  # fmt: skip
        await asyncio.gather(*writers)
        assert (len(world.asked), counted(world)) == (1, (5, 0))

    run(group, main)


@pytest.mark.parametrize(
    ("topic", "config", "words"),
    [
        ("dlq.t", None, "there is no topic 'dlq.t'"),
        ("dlq.t", {ENABLE: "false"}, "does not have errors.deadletterqueue.group.enable=true"),
        ("jobs", None, "begins with 'dlq.'"),
        ("", None, "the group has no dead-letter topic any more"),
        ("t", None, "lie in the dead-letter topic 't' itself"),
    ],
)
def test_what_no_waiting_helps_is_given_up_and_told(
    group: BrokerGroup,
    caplog: pytest.LogCaptureFixture,
    topic: str,
    config: dict[str, str] | None,
    words: str,
) -> None:
    async def main(world: World) -> None:
        if config is not None:
            world.make_topic(**config)
        world.produce(b"a", b"b")
        world.settings = ShareSettings(dead_letter_topic=topic)
        await world.write(rejected(0, 1))
        assert (world.sent, counted(world)) == ([], (0, 2))

    with caplog.at_level(logging.WARNING):
        run(group, main)
    assert "share group g: 2 dead letters of t-0 are given up: " in caplog.text
    assert words in caplog.text


def test_a_prefix_of_the_cluster_holds_at_once(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        world.make_topic()
        world.set("errors.deadletterqueue.topic.name.prefix", "dead-")
        await world.write(rejected(0, 0))
        assert counted(world) == (0, 1)
        world.set("errors.deadletterqueue.topic.name.prefix", "")
        await world.write(rejected(1, 1))
        assert counted(world) == (1, 1)

    run(group, main)
