"""Records without batches: where they go, what their leaders get, and what their clients hear."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pylog import errors
from pylog.model import (
    NO_LEADER,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from pylog.records.murmur2 import partition_for_key
from pylog.records.reader import iter_records
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import ITEMS_PER_REQUEST_MAX
from pylog_broker.api.send import (
    IN_WORK_BYTES_MAX,
    REQUEST_BYTES_MAX,
    RecordToSend,
    Send,
    SendHandler,
    SentRecord,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import PartitionRecord, TopicRecord
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5", "me")
TOPIC = TopicId("T" * 22)
ONE, TWO = BrokerId(1), BrokerId(2)


class FakeClock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self._now_ms = 1_000

    def advance(self, ms: int) -> None:
        self._now_ms += ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def wall_ms(self) -> int:
        return self._now_ms

    def sleep(self, seconds: float) -> None:
        self.advance(int(seconds * 1_000))


LATE = Failure(errors.NotLeaderOrFollower.code, "another leads")
Answer = Callable[[BrokerId, PartitionBatch], PartitionAck]


def image(*leaders: BrokerId) -> MetadataImage:
    records: list[Any] = [TopicRecord("t", TOPIC)]
    records += [
        PartitionRecord(
            TOPIC, number, (ONE, TWO), (ONE, TWO), leader, LeaderEpoch(4), PartitionEpoch(9)
        )
        for number, leader in enumerate(leaders)
    ]
    found = MetadataImage()
    for offset, record in enumerate(records):
        found.replay(record, Offset(offset))
    return found


def stored(_broker: BrokerId, batch: PartitionBatch) -> PartitionAck:
    return PartitionAck(batch.topic_partition, None, Offset(100))


class Leaders:
    """Brokers that answer what the test says, and keep what they were sent."""

    def __init__(self, answer: Answer = stored) -> None:
        self.answer = answer
        self.sent: list[tuple[BrokerId, TopicPartition, list[tuple[bytes | None, bytes | None]]]]
        self.sent = []
        self.unreachable: set[BrokerId] = set()

    async def produce(
        self, context: RequestContext, broker: BrokerId, batches: Sequence[PartitionBatch], ms: int
    ) -> Sequence[PartitionAck]:
        assert context == CONTEXT
        assert 0 < ms <= 30_000
        if broker in self.unreachable:
            raise errors.NetworkException(f"broker {broker}: no answer")
        for batch in batches:
            records = iter_records(batch.batch, *batch.topic_partition)
            pairs = [(record.key, record.value) for record in records]
            self.sent.append((broker, batch.topic_partition, pairs))
        return [self.answer(broker, batch) for batch in batches]


def send(
    leaders: Leaders,
    metadata: MetadataImage,
    *records: RecordToSend,
    timeout_ms: int = 1_000,
    clock: FakeClock | None = None,
) -> list[SentRecord]:
    handler = SendHandler(lambda: metadata, leaders, clock or FakeClock())
    answers = asyncio.run(handler.handle(CONTEXT, Send("t", records, timeout_ms)))
    assert handler.in_work_bytes == 0
    return answers


def test_a_key_goes_where_producers_send_it_and_the_order_stays() -> None:
    leaders = Leaders()
    keys = [b"a", b"b", b"c", b"a"]
    answers = send(
        leaders, image(ONE, TWO, ONE), *(RecordToSend(b"v%d" % n, k) for n, k in enumerate(keys))
    )
    places = [partition_for_key(key, 3) for key in keys]
    assert [answer.partition for answer in answers] == places
    assert all(answer.failure is None for answer in answers)
    for number in set(places):
        (pairs,) = [found for _, tp, found in leaders.sent if tp.partition == number]
        assert pairs == [(key, b"v%d" % n) for n, key in enumerate(keys) if places[n] == number]
    assert answers[3].offset == 100 + keys[:3].count(b"a") + sum(
        place == places[0] for place in places[1:3]
    )


def test_records_without_a_key_stay_together_and_a_named_partition_counts() -> None:
    leaders = Leaders()
    answers = send(
        leaders,
        image(ONE, TWO, ONE),
        RecordToSend(b"1"),
        RecordToSend(None),
        RecordToSend(b"3", b"k", partition=2),
        RecordToSend(b"4", partition=3),
        RecordToSend(b"5", partition=-1),
    )
    assert [answer.partition for answer in answers] == [1, 1, 2, -1, -1]
    assert [answer.offset for answer in answers] == [100, 101, 100, -1, -1]
    said = "topic t has no partition 3, it has 3"
    assert answers[3].failure == Failure(errors.UnknownTopicOrPartition.code, said)
    assert sorted(leaders.sent) == [
        (ONE, TopicPartition("t", 2), [(b"k", b"3")]),
        (TWO, TopicPartition("t", 1), [(None, b"1"), (None, None)]),
    ]


def test_what_a_leader_has_not_stored_is_sent_to_the_next_one() -> None:
    metadata = image(NO_LEADER)
    clock = FakeClock()
    refusals = iter([LATE])

    def answer(broker: BrokerId, batch: PartitionBatch) -> PartitionAck:
        refusal = next(refusals, None)
        return (
            stored(broker, batch)
            if refusal is None
            else PartitionAck(batch.topic_partition, refusal)
        )

    leaders = Leaders(answer)

    pauses: list[int] = []

    async def pause(_seconds: float) -> None:
        pauses.append(len(leaders.sent))
        epoch = 4 + len(pauses)
        metadata.replay(
            PartitionRecord(
                TOPIC, 0, (ONE, TWO), (ONE, TWO), TWO, LeaderEpoch(epoch), PartitionEpoch(epoch)
            ),
            Offset(9 + epoch),
        )

    handler = SendHandler(lambda: metadata, leaders, clock, pause)
    sending = handler.handle(CONTEXT, Send("t", [RecordToSend(b"v")]))
    assert asyncio.run(sending) == [SentRecord(None, 0, Offset(100))]
    assert [broker for broker, _, _ in leaders.sent] == [TWO, TWO]
    assert pauses == [0, 1]


def test_a_record_that_may_be_stored_is_not_sent_again() -> None:
    leaders = Leaders()
    leaders.unreachable = {ONE}
    answers = send(leaders, image(ONE, TWO), RecordToSend(b"1", partition=0),
                   RecordToSend(b"2", partition=1))  # fmt: skip
    assert answers[0].failure == Failure(errors.NetworkException.code, "broker 1: no answer")
    assert answers[1] == SentRecord(None, 1, Offset(100))
    late = Failure(errors.RequestTimedOut.code, "stored, and not committed in time")
    for appended in (late, LATE):
        found = Leaders(lambda _, b, f=appended: PartitionAck(b.topic_partition, f, Offset(7)))
        answers = send(found, image(ONE), RecordToSend(b"1"))
        assert answers == [SentRecord(appended, 0)]
        assert len(found.sent) == 1


def test_a_request_that_cannot_be_done_in_its_time_says_why() -> None:
    clock = FakeClock()

    def answer(_broker: BrokerId, batch: PartitionBatch) -> PartitionAck:
        clock.advance(600)
        return PartitionAck(batch.topic_partition, LATE)

    leaders = Leaders(answer)
    assert send(leaders, image(ONE), RecordToSend(b"1"), clock=clock) == [SentRecord(LATE, 0)]
    assert len(leaders.sent) == 2


def test_requests_are_bounded() -> None:
    leaders, metadata = Leaders(), image(ONE)
    with pytest.raises(errors.MessageTooLarge, match=f"the limit is {REQUEST_BYTES_MAX}"):
        send(leaders, metadata, RecordToSend(b"x" * REQUEST_BYTES_MAX))
    with pytest.raises(errors.InvalidRequest, match=f"the limit is {ITEMS_PER_REQUEST_MAX}"):
        send(leaders, metadata, *[RecordToSend(b"")] * (ITEMS_PER_REQUEST_MAX + 1))
    handler = SendHandler(lambda: metadata, leaders, FakeClock())
    handler.in_work_bytes = IN_WORK_BYTES_MAX
    (answer,) = asyncio.run(handler.handle(CONTEXT, Send("t", [RecordToSend(b"1")])))
    assert answer.failure is not None
    assert answer.failure.code == errors.ThrottlingQuotaExceeded.code
    assert handler.in_work_bytes == IN_WORK_BYTES_MAX
    assert send(leaders, metadata) == []
    assert leaders.sent == []


def test_a_topic_that_takes_no_records_fails_each_of_them() -> None:
    leaders, metadata = Leaders(), image(ONE)
    for topic, error, words in (
        ("no", errors.UnknownTopicOrPartition, "topic no does not exist"),
        ("", errors.UnknownTopicOrPartition, "topic  does not exist"),
        ("__x", errors.InvalidTopic, "topic __x is the cluster's own"),
    ):
        handler = SendHandler(lambda: metadata, leaders, FakeClock())
        answers = asyncio.run(handler.handle(CONTEXT, Send(topic, [RecordToSend(b"1")] * 2)))
        assert answers == [SentRecord(Failure(error.code, words))] * 2
    assert leaders.sent == []
