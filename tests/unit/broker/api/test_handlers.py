"""Handlers: values in, values out, over a manager that says what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast
from weakref import ref

import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import (
    NO_LEADER,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    ProducerEpoch,
    ProducerId,
    RangeSplit,
    TopicId,
    TopicPartition,
)
from pylog_broker.api.context import RequestContext
from pylog_broker.api.leased_reads import LEASES_AT_ONCE, LeasedReadsHandler
from pylog_broker.api.limits import PARTITIONS_PER_REQUEST_MAX, TOPICS_PER_REQUEST_MAX
from pylog_broker.api.metadata import (
    VIEWS_KEPT_MAX,
    ClusterView,
    MetadataHandler,
    MetadataQuery,
    TopicView,
)
from pylog_broker.api.offsets import (
    DeleteRecordsHandler,
    EpochAnswer,
    EpochQuery,
    ListOffsetsHandler,
    OffsetForLeaderEpochHandler,
)
from pylog_broker.api.producer_id_quota import ProducerIdQuota
from pylog_broker.api.producer_ids import (
    InitProducerId,
    InitProducerIdHandler,
    ProducerIdGiven,
)
from pylog_broker.api.ranges import PIECES_MAX, RANGES_AT_ONCE, RangesHandler
from pylog_broker.api.record_waits import RecordWaitHandler
from pylog_broker.api.transactions.producers import TransactionsHandler
from pylog_broker.config import BrokerConfig
from pylog_broker.coordinator.transactions.messages import InitProducer, ProducerBegun
from pylog_broker.coordinator.transactions.transaction import Identity
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import Endpoint, PartitionRecord, TopicRecord
from pylog_broker.protobuf.metadata import metadata_response
from pylog_broker.replication.effects import (
    DeleteRecordsDone,
    Effect,
    OffsetsListed,
    RangesSplit,
    RecordsArrived,
)
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.offset_messages import (
    DeleteRecords,
    LowWatermark,
    OffsetAnswer,
    OffsetQuery,
)
from pylog_broker.replication.range_messages import (
    LeaseReads,
    PartitionLease,
    RangeAnswer,
    RangeQuery,
    ReadsLeased,
    RecordWait,
    WaitedPartition,
    WaitEnd,
)
from pylog_broker.replication.replica_fetch_messages import (
    EpochEndQuery,
    EpochEnds,
    ReplicaEpochEnd,
)

T = TypeVar("T")

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5", "me")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC = TopicId("T" * 22)
GONE = Failure(errors.NotLeaderOrFollower.code, "another leads")


def run(answer: Awaitable[T]) -> T:
    async def main() -> T:
        return await answer

    return asyncio.run(main())


class Manager:
    """Answers queries by what the test says, and keeps what was deleted."""

    def __init__(self) -> None:
        self.deleting: list[object] = []
        self.listing: list[object] = []
        self.splitting: list[list[TopicPartition]] = []
        self.leasing: list[LeaseReads] = []
        self.waits = False
        self.cancelled: list[object] = []
        self.end = ReplicaEpochEnd(TOPIC, 0, None, LeaderEpoch(3), Offset(12))
        self.asked: list[EpochEndQuery] = []

    def list_offsets(
        self, _now_ms: int, queries: Sequence[OffsetQuery], token: object
    ) -> list[Effect]:
        self.listing.append(token)
        if self.waits:
            return []
        found = OffsetAnswer(T0, None, TOPIC, Offset(7), 5, LeaderEpoch(2))
        gone = OffsetAnswer(T1, GONE)
        answers = tuple(gone if query.topic_partition == T1 else found for query in queries)
        return [OffsetsListed(token, answers)]

    def split_ranges(
        self, _now_ms: int, queries: Sequence[RangeQuery], token: object
    ) -> list[Effect]:
        self.splitting.append([query.topic_partition for query in queries])
        return [
            RangesSplit(
                token,
                tuple(
                    RangeAnswer(query.topic_partition, None, TOPIC, RangeSplit(query.end))
                    for query in queries
                ),
            )
        ]

    def await_records(self, _now_ms: int, request: RecordWait, token: object) -> list[Effect]:
        self.listing.append(token)
        if self.waits:
            return []
        ends = tuple(WaitEnd(item.topic_partition, None, Offset(9)) for item in request.partitions)
        return [RecordsArrived(token, ends)]

    def lease_reads(self, _now_ms: int, request: LeaseReads) -> ReadsLeased:
        self.leasing.append(request)
        return ReadsLeased(request.timeout_ms)

    def epoch_ends(self, request: EpochEndQuery) -> EpochEnds:
        self.asked.append(request)
        return EpochEnds((self.end,))

    def delete_records(self, _now_ms: int, _request: DeleteRecords, token: object) -> list[Effect]:
        self.deleting.append(token)
        return []

    def cancel(self, token: object) -> None:
        self.cancelled.append(token)


def perform(effects: Sequence[Effect]) -> None:
    for effect in effects:
        if isinstance(effect, RecordsArrived):
            cast(Callable[[object], None], effect.token)(effect.ends)
            continue
        assert isinstance(effect, (DeleteRecordsDone, OffsetsListed, RangesSplit))
        deleted = isinstance(effect, DeleteRecordsDone)
        answer = effect.watermarks if deleted else effect.answers
        cast(Callable[[object], None], effect.token)(answer)


def image() -> MetadataImage:
    """A topic of two partitions, of which one has no leader; its replicas are of no broker."""
    replicas = (BrokerId(1), BrokerId(2))
    records: list[Any] = [TopicRecord("t", TOPIC)]
    for number, leader in ((0, BrokerId(1)), (1, NO_LEADER)):
        records.append(
            PartitionRecord(
                TOPIC, number, replicas, replicas, leader, LeaderEpoch(4), PartitionEpoch(9)
            )
        )
    found = MetadataImage()
    for offset, record in enumerate(records):
        found.replay(record, Offset(offset))
    return found


def test_offsets_are_listed_in_order_each_with_its_own_failure() -> None:
    manager = Manager()
    handler = ListOffsetsHandler(cast(ReplicaManager, manager), perform, SYSTEM_CLOCK)
    answers = run(handler.handle(CONTEXT, [OffsetQuery(T1, -1), OffsetQuery(T0, -1)]))
    assert list(answers) == [
        OffsetAnswer(T1, GONE),
        OffsetAnswer(T0, None, TOPIC, Offset(7), 5, LeaderEpoch(2)),
    ]
    twice = run(handler.handle(CONTEXT, [OffsetQuery(T0, -1)] * 2))
    said = Failure(errors.InvalidRequest.code, "t-0 stands in the request more than once")
    assert twice == [OffsetAnswer(T0, said)] * 2
    with pytest.raises(errors.InvalidRequest, match=f"the limit is {PARTITIONS_PER_REQUEST_MAX}"):
        run(handler.handle(CONTEXT, [OffsetQuery(T0, -1)] * (PARTITIONS_PER_REQUEST_MAX + 1)))


def test_ranges_are_split_some_at_a_time_each_with_its_own_failure() -> None:
    manager = Manager()
    handler = RangesHandler(cast(ReplicaManager, manager), perform, SYSTEM_CLOCK)
    wrong = [
        RangeQuery(T0, 0, 5, piece_bytes=-1),
        RangeQuery(T1, 0, 5, piece_bytes=9, pieces_max=PIECES_MAX + 1),
    ]
    sound = [RangeQuery(TopicPartition("u", n), 0, n) for n in range(RANGES_AT_ONCE)]
    answers = run(handler.handle(CONTEXT, [wrong[0], *sound, wrong[1]]))
    said = [
        "t-0: piece_bytes is -1; it must be 0 (no pieces) or more",
        "t-1: pieces_max is 26; it must be 0 to 25",
    ]
    refused = [Failure(errors.InvalidRequest.code, text) for text in said]
    assert answers == [
        RangeAnswer(T0, refused[0]),
        *(RangeAnswer(q.topic_partition, None, TOPIC, RangeSplit(q.end)) for q in sound),
        RangeAnswer(T1, refused[1]),
    ]
    assert [len(some) for some in manager.splitting] == [RANGES_AT_ONCE - 1, 1]
    twice = run(handler.handle(CONTEXT, [RangeQuery(T0, 0, 1)] * 2))
    named = Failure(errors.InvalidRequest.code, "t-0 stands in the request more than once")
    assert twice == [RangeAnswer(T0, named)] * 2
    with pytest.raises(errors.InvalidRequest, match=f"the limit is {PARTITIONS_PER_REQUEST_MAX}"):
        run(handler.handle(CONTEXT, [RangeQuery(T0, 0, 1)] * (PARTITIONS_PER_REQUEST_MAX + 1)))


def test_records_are_awaited_within_limits_and_nobody_waits_in_vain() -> None:
    manager = Manager()
    handler = RecordWaitHandler(cast(ReplicaManager, manager), perform, SYSTEM_CLOCK)
    places = WaitedPartition(T0, 5), WaitedPartition(T1, 6)
    answers = run(handler.handle(CONTEXT, RecordWait(places, 3, 500)))
    assert list(answers) == [WaitEnd(T0, None, Offset(9)), WaitEnd(T1, None, Offset(9))]
    twice = run(handler.handle(CONTEXT, RecordWait(places[:1] * 2, 3, 500)))
    said = Failure(errors.InvalidRequest.code, "t-0 stands in the request more than once")
    assert list(twice) == [WaitEnd(T0, said)] * 2
    for wrong, words in (
        (RecordWait(places, 0, 500), "min_records is 0; it must be 1 at least"),
        (RecordWait(places, 1, -1), "max_wait_ms is -1; it must be 0 to 60000"),
        (RecordWait(places, 1, 60_001), "max_wait_ms is 60001; it must be 0 to 60000"),
        (RecordWait(places * (PARTITIONS_PER_REQUEST_MAX // 2 + 1), 1, 5), "the limit is"),
    ):
        with pytest.raises(errors.InvalidRequest, match=words):
            run(handler.handle(CONTEXT, wrong))
    manager.waits = True

    async def gives_up() -> None:
        waiting = asyncio.ensure_future(handler.handle(CONTEXT, RecordWait(places, 3, 500)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(gives_up())
    assert manager.cancelled == manager.listing[-1:]


def test_leases_of_reads_are_of_the_client_that_asks_and_within_limits() -> None:
    manager = Manager()
    handler = LeasedReadsHandler(cast(ReplicaManager, manager), SYSTEM_CLOCK)
    lease = PartitionLease(T0, TOPIC, 3, 9)
    asked = LeaseReads("h", "", (lease,), 500, renews=True)
    assert run(handler.handle(CONTEXT, asked)) == ReadsLeased(500)
    assert manager.leasing == [LeaseReads("h", "10.0.0.1", (lease,), 500, renews=True)]
    many = tuple(
        PartitionLease(TopicPartition("u", n), None, 0, n) for n in range(LEASES_AT_ONCE + 1)
    )
    manager.leasing.clear()
    assert run(handler.handle(CONTEXT, LeaseReads("h", "", many))) == ReadsLeased(0)
    assert manager.leasing == [
        LeaseReads("h", "10.0.0.1", many[:LEASES_AT_ONCE]),
        LeaseReads("h", "10.0.0.1", many[LEASES_AT_ONCE:], renews=True),
    ]
    for wrong, words in (
        (LeaseReads("", "", (lease,)), "holder has 0 characters; it must have 1 to 128"),
        (LeaseReads("h" * 129, "", (lease,)), "holder has 129 characters"),
        (LeaseReads("h", "", (lease,), -1), "timeout_ms is -1; it must be 0"),
        (LeaseReads("h", "", (lease, lease)), "t-0 stands in the request more than once"),
        (LeaseReads("h", "", (lease._replace(start=-1),)), "t-0: a range from offset -1 to 9"),
        (LeaseReads("h", "", (lease._replace(end=2),)), "t-0: a range from offset 3 to 2"),
        (LeaseReads("h", "", (lease,) * (PARTITIONS_PER_REQUEST_MAX + 1)), "the limit is"),
    ):
        with pytest.raises(errors.InvalidRequest, match=words):
            run(handler.handle(CONTEXT, wrong))


def test_epochs_end_where_the_leader_says() -> None:
    manager = Manager()
    handler = OffsetForLeaderEpochHandler(cast(ReplicaManager, manager), image)
    query = EpochQuery(T0, LeaderEpoch(4), LeaderEpoch(3))
    unknown = EpochQuery(TopicPartition("other", 0), LeaderEpoch(-1), LeaderEpoch(3))
    answers = run(handler.handle(CONTEXT, [query, unknown]))
    missing = Failure(errors.UnknownTopicOrPartition.code, "topic other does not exist")
    assert answers == [
        EpochAnswer(T0, None, LeaderEpoch(3), Offset(12)),
        EpochAnswer(TopicPartition("other", 0), missing),
    ]
    manager.end = ReplicaEpochEnd(TOPIC, 0, GONE)
    assert run(handler.handle(CONTEXT, [query])) == [EpochAnswer(T0, GONE)]
    twice = run(handler.handle(CONTEXT, [query, query]))
    said = Failure(errors.InvalidRequest.code, "t-0 stands in the request more than once")
    assert twice == [EpochAnswer(T0, said)] * 2


def test_records_are_deleted_when_the_manager_says_and_nobody_waits_in_vain() -> None:
    manager = Manager()
    handler = DeleteRecordsHandler(cast(ReplicaManager, manager), perform, SYSTEM_CLOCK)
    request = DeleteRecords(((T0, Offset(5)),), 1_000)

    async def main() -> None:
        waiting = asyncio.ensure_future(handler.handle(CONTEXT, request))
        await asyncio.sleep(0)
        low = (LowWatermark(T0, None, Offset(5)),)
        perform([DeleteRecordsDone(manager.deleting[0], low)])
        assert await waiting == low
        given_up = asyncio.ensure_future(handler.handle(CONTEXT, request))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert manager.cancelled == manager.deleting[1:]

    asyncio.run(main())


def test_a_look_up_that_nobody_waits_for_is_forgotten() -> None:
    manager = Manager()
    manager.waits = True
    handler = ListOffsetsHandler(cast(ReplicaManager, manager), perform, SYSTEM_CLOCK)

    async def main() -> None:
        given_up = asyncio.ensure_future(handler.handle(CONTEXT, [OffsetQuery(T0, 5)]))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert manager.cancelled == manager.listing

    asyncio.run(main())


def test_topics_are_told_by_name_and_id_each_once() -> None:
    handler = MetadataHandler(image, lambda: None)
    view = run(handler.handle(CONTEXT, MetadataQuery(("t", "t", "a b", "no"), (TOPIC, "no-id"))))
    by_name, odd, missing, by_id, no_id = view.topics
    assert by_name == by_id
    assert [p.record.partition for p in by_name.partitions] == [0, 1]
    led, leaderless = by_name.partitions
    assert (led.failure, led.offline) == (None, [1, 2])
    assert leaderless.failure is not None
    assert leaderless.failure.code == errors.LeaderNotAvailable.code
    assert odd.failure is not None
    assert odd.failure.code == errors.InvalidTopic.code
    said = Failure(errors.UnknownTopicOrPartition.code, "topic no does not exist")
    assert missing == TopicView("no", "", said)
    said = Failure(errors.UnknownTopicId.code, "there is no topic with id no-id")
    assert no_id == TopicView("", "no-id", said)
    assert [t.name for t in run(handler.handle(CONTEXT, MetadataQuery((), (), True))).topics] == [
        "t"
    ]
    with pytest.raises(errors.InvalidRequest, match=f"the limit is {TOPICS_PER_REQUEST_MAX}"):
        run(handler.handle(CONTEXT, MetadataQuery(("t",) * (TOPICS_PER_REQUEST_MAX + 1))))


def test_who_asks_the_same_gets_the_same_view_until_something_changes() -> None:
    told = image()
    where: list[Endpoint | None] = [None]
    handler = MetadataHandler(lambda: told, lambda: where[0])

    def ask(*topics: str) -> ClusterView:
        return run(handler.handle(CONTEXT, MetadataQuery(topics)))

    first, other = ask("t"), ask("no")
    assert ask("t") is first
    assert ask("no") is other
    assert metadata_response(first) is metadata_response(ask("t"))
    told.offset += 1
    second = ask("t")
    assert (second is first, second.metadata_offset) == (False, told.offset)
    where[0] = Endpoint("127.0.0.1", 9)
    assert ask("t").controller == where[0]
    assert metadata_response(ask("t")).controller.port == 9


def test_views_of_many_different_queries_are_not_all_kept() -> None:
    told = image()
    handler = MetadataHandler(lambda: told, lambda: None)
    views = [ref(run(handler.handle(CONTEXT, MetadataQuery((f"t{n}",))))) for n in range(40)]
    assert 0 < sum(view() is not None for view in views) <= VIEWS_KEPT_MAX


def test_a_producer_gets_an_id_when_its_address_and_client_may_have_one() -> None:
    taken = iter(range(5))

    async def take() -> ProducerId:
        return ProducerId(next(taken))

    class Transactions:
        """Begins every producer with the identity that it expects."""

        async def init(self, request: InitProducer) -> ProducerBegun:
            return ProducerBegun(request.expected)

    quota = ProducerIdQuota(lambda: BrokerConfig(max_producer_ids_per_client_id=1))
    transactions = cast(TransactionsHandler, Transactions())
    handler = InitProducerIdHandler(take, quota, SYSTEM_CLOCK, transactions)
    given = run(handler.handle(CONTEXT, InitProducerId("", 0)))
    assert given == ProducerIdGiven(ProducerId(0), ProducerEpoch(0))
    with pytest.raises(errors.ThrottlingQuotaExceeded, match=r"client\.id 'me'"):
        run(handler.handle(CONTEXT, InitProducerId("", 0)))
    assert run(handler.handle(CONTEXT._replace(client_id="you"), InitProducerId("", 0)))
    expected = Identity(ProducerId(7), ProducerEpoch(3))
    given = run(handler.handle(CONTEXT, InitProducerId("tx", 0, 1_000, expected)))
    assert given == ProducerIdGiven(*expected), "the coordinator gives it, and no quota counts it"
