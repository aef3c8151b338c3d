"""A broker's refusals of requests about sinks, and its answers; from message to message."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from pylog.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTopic,
    InvalidTxnState,
    NotCoordinator,
    PylogError,
    SinkBatchDecided,
    SinkRunSuperseded,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.model import BrokerId, ProducerId, TopicId
from pylog.rpc.v1 import sink_pb2
from pylog_broker.api.calls import Calls
from pylog_broker.api.context import RequestContext
from pylog_broker.api.transactions.producers import (
    COMMIT_TIMEOUT_MS,
    AddOffsets,
    TransactionsHandler,
)
from pylog_broker.api.transactions.sinks import KEEP_MS_MAX, SinksHandler
from pylog_broker.coordinator.transactions.messages import (
    AddPartitions,
    EndTransaction,
    InitProducer,
)
from pylog_broker.metadata.image import MetadataImage, TopicImage
from pylog_broker.metadata.messages import InternalTopicEnsured
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.protobuf.sink_apis import sink_apis
from pylog_broker.protobuf.unary import UnaryApis
from tests.fakes.transaction_coordinators import FakeTransactionCoordinators
from tests.fakes.transaction_shard import WALL_MS, A, identity

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5", "app")
LEASE_MS = 60_000
SINK = sink_pb2.SinkKey(query_id="8f3b", sink_id="topic/orders")
FIRST_ID = "__sink/8f3b/topic/orders/0"
WRITTEN = sink_pb2.SinkRange(topic="events", partition=0, first_offset=10, last_offset=19)
EVENTS_ID = TopicId("e" * 21 + "Q")
NO_PARTITION: Any = None
OVERWRITTEN = sink_pb2.OverwrittenTopic(topic="events", topic_id=EVENTS_ID, starts=[10, 7])
HIGH_CHECKSUM = 0xF000_0000_0000_0001


def image() -> MetadataImage:
    """It has the topic `events`, of two partitions."""
    made = MetadataImage()
    topic = TopicImage("events", EVENTS_ID, dict.fromkeys(range(2), NO_PARTITION))
    made.topics_by_name["events"] = topic
    return made


class World:
    """One broker's answers. Producer ids are given from 7 on."""

    def __init__(self) -> None:
        self.coordinators = FakeTransactionCoordinators()
        self.numbers = count(7)
        handler = SinksHandler(self.coordinators, self.take, LEASE_MS, image)
        self.counters = RequestCounters()
        self.apis = UnaryApis(Calls(self.counters), sink_apis(handler))

    async def take(self) -> ProducerId:
        return ProducerId(next(self.numbers))

    def ask(self, name: str, **fields: Any) -> Any:
        """The response to a request of the service."""
        (bound,) = (each for each in self.apis.of("Sink") if each.api.name == name)
        request = bound.api.request(**fields)
        return asyncio.run(self.apis.answer(bound, CONTEXT, request))

    def begin(self, **fields: Any) -> Any:
        given = {"sink": SINK, "run_id": "run-1", "batch_id": 0, "task": 0, "attempt": 0, **fields}
        return self.ask("BeginSinkTask", **given)

    def staged(self, **fields: Any) -> Any:
        """An attempt that has written to a partition and is prepared."""
        member = self.begin(**fields).member
        owner = identity(member.producer_id, member.producer_epoch)
        asked = AddPartitions(member.transactional_id, owner, (A,))
        shard = self.coordinators.shard
        shard.answer(lambda c, r: c.add_partitions(shard.wall_ms, r, asked))
        assert not self.ask("PrepareSinkTask", sink=SINK, member=member).error.code
        return member

    def decide(self, *members: Any, **fields: Any) -> Any:
        given = {
            "sink": SINK, "run_id": "run-1", "batch_id": 0, "members": members, "row_count": 11,
            "checksum": HIGH_CHECKSUM, "digest": "d", "receipt": [WRITTEN], "keep_ms": -1,
            **fields,
        }  # fmt: skip
        return self.ask("DecideSinkBatch", **given)


@pytest.fixture
def world() -> World:
    return World()


# ---- what is answered ----------------------------------------------------------------------------


def test_an_attempt_gets_a_transaction_and_is_told_how_long_it_lives(world: World) -> None:
    assert world.begin() == sink_pb2.BeginSinkTaskResponse(
        member=sink_pb2.SinkMember(transactional_id=FIRST_ID, producer_id=7, producer_epoch=0),
        lease_ms=LEASE_MS,
    )
    asked = (FIRST_ID, COMMIT_TIMEOUT_MS)
    assert world.coordinators.asked == [asked, asked], "again, with a producer id"
    assert world.begin() == world.begin(), "it asks again"


def test_a_batch_counts_from_the_first_attempt_to_the_receipt(world: World) -> None:
    member = world.begin().member
    assert world.ask("RenewSinkTask", sink=SINK, member=member) == sink_pb2.RenewSinkTaskResponse()
    world.staged()
    decided = world.decide(member)
    made = sink_pb2.SinkDecision(
        batch_id=0, run_number=0, row_count=11, checksum=HIGH_CHECKSUM, digest="d",
        decided_ms=WALL_MS, expires_ms=-1, receipt=[WRITTEN],
    )  # fmt: skip
    assert decided == sink_pb2.DecideSinkBatchResponse(decision=made, is_new=True)
    assert world.decide(member) == sink_pb2.DecideSinkBatchResponse(decision=made)
    begun = world.begin(run_id="run-2")
    assert begun == sink_pb2.BeginSinkTaskResponse(decided=made, lease_ms=LEASE_MS)
    assert not begun.HasField("member")


def test_a_batch_overwrites_a_topic(world: World) -> None:
    decided = world.decide(world.staged(), overwritten=[OVERWRITTEN])
    assert list(decided.decision.overwritten) == [OVERWRITTEN]
    (listed,) = world.ask("ListSinks", receipts=True).sinks
    assert list(listed.last.overwritten) == [OVERWRITTEN]
    (listed,) = world.ask("ListSinks").sinks
    assert not listed.last.overwritten


def test_a_decision_is_kept_for_as_long_as_the_request_says(world: World) -> None:
    assert world.decide(keep_ms=1000).decision.expires_ms == WALL_MS + 1000
    kept = world.decide(batch_id=1, keep_ms=KEEP_MS_MAX).decision
    assert kept.expires_ms == WALL_MS + KEEP_MS_MAX


def test_open_attempts_of_a_batch_are_aborted(world: World) -> None:
    world.staged()
    aborted = world.ask("AbortSinkBatch", sink=SINK, run_id="run-1", batch_id=0)
    assert aborted == sink_pb2.AbortSinkBatchResponse(attempts=1)


def test_all_open_attempts_of_a_sink_are_aborted(world: World) -> None:
    world.staged()
    world.begin(batch_id=1, task=1)
    world.begin(sink=sink_pb2.SinkKey(query_id="77aa", sink_id="topic/orders"))
    aborted = world.ask("AbortSinkBatch", sink=SINK, whole_sink=True)
    assert aborted == sink_pb2.AbortSinkBatchResponse(attempts=2)
    assert [each.open_attempts for each in world.ask("ListSinks").sinks] == [0, 1]
    nameless = world.ask("AbortSinkBatch", whole_sink=True)
    assert nameless.error.code == InvalidRequest.code


def test_sinks_are_listed_by_query_and_name(world: World) -> None:
    world.decide(world.staged())
    world.begin(batch_id=1)
    other = sink_pb2.SinkKey(query_id="77aa", sink_id="topic/orders")
    world.begin(sink=other)
    made = world.decide().decision
    mine = sink_pb2.ListedSink(
        sink=SINK, run_id="run-1", last=made, open_attempts=1,
        held_since_ms=-1, prepared_since_ms=-1,
    )  # fmt: skip
    listed = world.ask("ListSinks", query_id="8f3b", receipts=True)
    assert listed == sink_pb2.ListSinksResponse(sinks=[mine])
    del mine.last.receipt[:]
    theirs = sink_pb2.ListedSink(
        sink=other, run_id="run-1", open_attempts=1, held_since_ms=-1, prepared_since_ms=-1
    )
    assert list(world.ask("ListSinks").sinks) == [mine, theirs]
    assert list(world.ask("ListSinks", sink_id="topic/orders").sinks) == [mine, theirs]
    assert not world.ask("ListSinks", sink_id="topic").sinks


def test_a_list_tells_since_when_attempts_wait(world: World) -> None:
    world.coordinators.shard.advance(5)
    world.staged()
    world.coordinators.shard.advance(5)
    world.staged(task=1)
    world.begin(task=2)
    (listed,) = world.ask("ListSinks").sinks
    assert (listed.open_attempts, listed.prepared_attempts) == (3, 2)
    assert (listed.held_since_ms, listed.prepared_since_ms) == (WALL_MS + 5, WALL_MS + 5)
    assert not listed.HasField("last")


def test_a_sink_is_forgotten(world: World) -> None:
    world.decide(world.staged())
    assert world.ask("ForgetSink", sink=SINK) == sink_pb2.ForgetSinkResponse()
    assert not world.ask("ListSinks").sinks
    again = world.ask("ForgetSink", sink=SINK)
    assert again.error.code == InvalidRequest.code
    assert "query '8f3b' has no sink 'topic/orders'" in again.error.message


# ---- what is refused -----------------------------------------------------------------------------


def test_each_refusal_has_its_name(world: World) -> None:
    member = world.staged()
    world.decide(member)
    assert world.begin().error.code == SinkBatchDecided.code
    assert world.decide(row_count=12).error.code == SinkBatchDecided.code
    world.begin(run_id="run-2", batch_id=1)
    assert world.begin(batch_id=1).error.code == SinkRunSuperseded.code
    for name in ("RenewSinkTask", "PrepareSinkTask"):
        assert world.ask(name, sink=SINK, member=member).error.code == InvalidTxnState.code
    late = world.decide(member, run_id="run-2", batch_id=1)
    assert late.error.code == InvalidTxnState.code
    world.coordinators.fault = NotCoordinator("elsewhere")
    assert world.begin().error.code == NotCoordinator.code
    assert world.ask("ListSinks").error.code == NotCoordinator.code


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sink": None}, "the query id of a sink has 0 characters; it must have 1 to 249"),
        ({"sink": {"query_id": "q"}}, "the sink id of a sink has 0 characters"),
        ({"sink": {"query_id": "q" * 250, "sink_id": "s"}}, "the query id of a sink has 250"),
        ({"sink": {"query_id": "a/b", "sink_id": "s"}}, "query id 'a/b' of a sink has a slash"),
        ({"run_id": ""}, "the run id of a sink has 0 characters"),
        ({"run_id": "r" * 250}, "the run id of a sink has 250 characters"),
        ({"batch_id": -1}, "batch_id=-1: it must be 0 or more"),
    ],
)
@pytest.mark.parametrize("name", ["BeginSinkTask", "DecideSinkBatch", "AbortSinkBatch"])
def test_names_and_batches_are_checked(
    world: World, name: str, fields: dict[str, Any], message: str
) -> None:
    answer = world.ask(name, **{"sink": SINK, "run_id": "run-1", "batch_id": 0, **fields})
    assert answer.error.code == InvalidRequest.code
    assert message in answer.error.message
    assert world.coordinators.asked == [], "no coordinator was asked"


@pytest.mark.parametrize("field", ["task", "attempt"])
def test_an_attempt_has_no_negative_number(world: World, field: str) -> None:
    refused = world.begin(**{field: -1})
    assert (refused.error.code, refused.error.message) == (
        InvalidRequest.code,
        f"{field}=-1: it must be 0 or more",
    )


@pytest.mark.parametrize("name", ["RenewSinkTask", "PrepareSinkTask"])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sink": None}, "the query id of a sink has 0 characters"),
        ({"member": None}, "a member has no transactional_id"),
        ({"member": {"transactional_id": FIRST_ID, "producer_epoch": 40_000}}, "producer_epoch"),
        ({"member": {"transactional_id": FIRST_ID, "producer_id": -2}}, "producer_id=-2"),
    ],
)
def test_attempts_are_named_in_full(
    world: World, name: str, fields: dict[str, Any], message: str
) -> None:
    member = sink_pb2.SinkMember(transactional_id=FIRST_ID, producer_id=7)
    answer = world.ask(name, **{"sink": SINK, "member": member, **fields})
    assert answer.error.code == InvalidRequest.code
    assert message in answer.error.message


def test_a_member_of_another_sink_is_no_member_of_this_one(world: World) -> None:
    member = world.staged()
    other = sink_pb2.SinkKey(query_id="77aa", sink_id="topic/orders")
    refused = world.ask("PrepareSinkTask", sink=other, member=member)
    assert refused.error.code == InvalidTxnState.code


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"row_count": -1}, "row_count=-1: it must be 0 or more"),
        ({"digest": "d" * 250}, "digest has 250 characters; the limit is 249"),
        ({"keep_ms": -2}, "keep_ms=-2: it must be -1, or from 0 to"),
        ({"keep_ms": KEEP_MS_MAX + 1}, "it must be -1, or from 0 to"),
        ({"receipt": [{"topic": "", "partition": 0}]}, "receipt: the topic name is empty"),
        ({"receipt": [{"topic": "a b"}]}, "receipt: the topic name 'a b' contains ' '"),
        ({"receipt": [{"topic": "t", "partition": -1}]}, "receipt: partition -1 of a topic"),
        ({"receipt": [{"topic": "t", "first_offset": 2, "last_offset": 1}]}, "from offset 2 to 1"),
        ({"receipt": [WRITTEN] * 20_001}, "20001 partitions in one request; the limit is 20000"),
        (
            {"receipt": [{"topic": f"{n:0249}"} for n in range(2_000)]},
            "receipt takes 570000 bytes, in 2000 ranges; the limit is 500000",
        ),
        ({"members": [{"transactional_id": FIRST_ID}] * 10_001}, "10001 attempts in one request"),
        ({"members": [{}]}, "a member has no transactional_id"),
    ],
)
def test_a_decision_is_bounded(world: World, fields: dict[str, Any], message: str) -> None:
    given = {"sink": SINK, "run_id": "run-1", **fields}
    refused = world.ask("DecideSinkBatch", **given)
    assert refused.error.code == InvalidRequest.code
    assert message in refused.error.message
    assert world.coordinators.asked == []


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"topic": "__consumer_offsets"}, InvalidTopic, "is internal; nobody overwrites it"),
        ({"topic": "gone"}, UnknownTopicOrPartition, "topic gone is to be overwritten"),
        ({"topic_id": "x"}, UnknownTopicId, "it was created anew"),
        ({"starts": [0, 0, 0]}, UnknownTopicOrPartition, "in 3 partitions, and has 2"),
        ({"starts": [0, -1]}, InvalidRequest, "topic events stands there twice, or begins below"),
        ({"topic": "a b"}, InvalidRequest, "the topic name 'a b' contains ' '"),
        ({"starts": [0] * 20_001}, InvalidRequest, "20001 partitions in one request"),
    ],
)
def test_a_topic_that_cannot_be_overwritten(
    world: World, fields: dict[str, Any], error: type[PylogError], message: str
) -> None:
    asked = {"topic": "events", "topic_id": EVENTS_ID, "starts": [10, 7], **fields}
    refused = world.decide(overwritten=[asked])
    assert refused.error.code == error.code
    assert message in refused.error.message
    assert world.coordinators.asked == []


def test_a_topic_is_overwritten_once_in_a_batch(world: World) -> None:
    refused = world.decide(overwritten=[OVERWRITTEN, OVERWRITTEN])
    assert "topic events stands there twice" in refused.error.message


def test_a_wait_for_a_decision_is_not_negative(world: World) -> None:
    refused = world.ask("PrepareSinkTask", sink=SINK, member=world.begin().member, timeout_ms=-1)
    assert (refused.error.code, refused.error.message) == (
        InvalidRequest.code,
        "timeout_ms=-1: it must be 0 or more",
    )


# ---- producers keep off --------------------------------------------------------------------------


def test_a_producer_can_do_nothing_with_an_id_of_a_sink(world: World) -> None:
    member = world.staged()
    owner = identity(member.producer_id, member.producer_epoch)

    async def ensure(name: str) -> InternalTopicEnsured:
        raise CoordinatorNotAvailable(f"{name} was asked of broker {BrokerId(1)}")

    producers = TransactionsHandler(world.coordinators, lambda: MetadataImage(), world.take, ensure)
    before = len(world.coordinators.asked)
    for refused in (
        producers.init(InitProducer(FIRST_ID, 1000)),
        producers.init(InitProducer(FIRST_ID, 1000, owner)),
        producers.add_partitions(CONTEXT, AddPartitions(FIRST_ID, owner, (A,), 1)),
        producers.add_offsets(CONTEXT, AddOffsets(FIRST_ID, owner, "g")),
        producers.end(CONTEXT, EndTransaction(FIRST_ID, owner, commits=True)),
    ):
        with pytest.raises(InvalidRequest, match="belong to the sinks of queries"):
            asyncio.run(refused)  # type: ignore[arg-type]
    assert len(world.coordinators.asked) == before, "no coordinator was asked"
    added = asyncio.run(producers.add(AddPartitions(FIRST_ID, owner, (A,))))
    assert added.partitions == {A: None}, "a broker that leads the partition may"
