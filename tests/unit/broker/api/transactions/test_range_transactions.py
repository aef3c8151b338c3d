"""DescribeTransactionsInRange: its bounds, and its messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import Offset, TopicId, TopicPartition, TransactionName, TransactionSpan
from pylog.rpc.v1 import log_pb2
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import PARTITIONS_PER_REQUEST_MAX
from pylog_broker.api.transactions.range_transactions import (
    NAMED_MAX,
    RangeTransactionsHandler,
)
from pylog_broker.metadata.messages import Failure
from pylog_broker.protobuf.range_transactions import queries_from, transactions_described
from pylog_broker.replication.effects import Effect, RangeTransactionsDescribed
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.range_messages import RangeTransactionsAnswer, RangeTransactionsQuery

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC = TopicId("t" * 22)
NAME = TransactionName(4, 2)
CONTEXT = cast(RequestContext, None)


class Manager:
    """Answers each query with nothing, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[list[RangeTransactionsQuery]] = []

    def describe_transactions(
        self, _now_ms: int, queries: Sequence[RangeTransactionsQuery], token: object
    ) -> list[Effect]:
        self.asked.append([*queries])
        answers = (RangeTransactionsAnswer(q.topic_partition, None, TOPIC) for q in queries)
        return [RangeTransactionsDescribed(token, tuple(answers))]


def perform(effects: Sequence[Effect]) -> None:
    for effect in effects:
        assert isinstance(effect, RangeTransactionsDescribed)
        cast(Callable[[object], None], effect.token)(effect.answers)


def handled(
    queries: Sequence[RangeTransactionsQuery], manager: Manager | None = None
) -> Sequence[RangeTransactionsAnswer]:
    handler = RangeTransactionsHandler(
        cast(ReplicaManager, manager or Manager()), perform, SYSTEM_CLOCK
    )
    return asyncio.run(handler.handle(CONTEXT, queries))


def test_some_at_a_time_each_with_its_own_failure() -> None:
    manager = Manager()
    wrong = RangeTransactionsQuery(T0, -1), RangeTransactionsQuery(T1, 0, -2)
    sound = [RangeTransactionsQuery(TopicPartition("u", n), n) for n in range(3)]
    answers = handled([wrong[0], *sound, wrong[1]], manager)
    said = [
        "t-0: start_offset is -1; it must be 0 or more",
        "t-1: end_offset is -2; it must be 0 or more, or -1 for the end of the log",
    ]
    refused = [Failure(errors.InvalidRequest.code, text) for text in said]
    assert answers == [
        RangeTransactionsAnswer(T0, refused[0]),
        *(RangeTransactionsAnswer(q.topic_partition, None, TOPIC) for q in sound),
        RangeTransactionsAnswer(T1, refused[1]),
    ]
    assert [len(some) for some in manager.asked] == [1, 2, 0]


def test_partitions_share_what_one_request_may_cost() -> None:
    manager = Manager()
    costs = []
    for count in (1, 20, 9_000):
        handled([RangeTransactionsQuery(TopicPartition("t", n), 0) for n in range(count)], manager)
        costs.append((manager.asked[-1][0].spans_max, manager.asked[-1][0].headers_max))
    assert costs == [(1_000, 250), (1_000, 100), (10, 50)]


def test_too_many_are_refused_by_name() -> None:
    twice = handled([RangeTransactionsQuery(T0, 0)] * 2)
    named = Failure(errors.InvalidRequest.code, "t-0 stands in the request more than once")
    assert twice == [RangeTransactionsAnswer(T0, named)] * 2
    with pytest.raises(errors.InvalidRequest, match=f"the limit is {PARTITIONS_PER_REQUEST_MAX}"):
        handled([RangeTransactionsQuery(T0, 0)] * (PARTITIONS_PER_REQUEST_MAX + 1))
    names = frozenset(TransactionName(n, 0) for n in range(NAMED_MAX + 1))
    with pytest.raises(errors.InvalidRequest, match=f"the limit is {NAMED_MAX}"):
        handled([RangeTransactionsQuery(T0, 0, named=names)])
    assert handled([]) == []


def test_messages() -> None:
    request = log_pb2.DescribeTransactionsInRangeRequest(
        partitions=[
            log_pb2.TransactionRange(
                topic="t", partition=1, current_leader_epoch=3, start_offset=5, end_offset=-1
            )
        ],
        named=[log_pb2.TransactionName(producer_id=4, producer_epoch=2)],
    )
    [query] = queries_from(request)
    assert query == RangeTransactionsQuery(
        T1, 5, -1, frozenset({NAME}), current_leader_epoch=query.current_leader_epoch
    )
    assert query.current_leader_epoch == 3
    answer = RangeTransactionsAnswer(
        T1, None, TOPIC, Offset(7), (TransactionSpan(NAME, 5, 6), TransactionSpan(NAME, 7)), 8
    )
    assert transactions_described([answer]) == log_pb2.DescribeTransactionsInRangeResponse(
        partitions=[
            log_pb2.DescribedTransactions(
                topic="t",
                partition=1,
                topic_id=TOPIC,
                last_stable_offset=7,
                next_offset=8,
                transactions=[
                    log_pb2.TransactionSpan(
                        producer_id=4, producer_epoch=2, first_offset=5, marker_offset=6
                    ),
                    log_pb2.TransactionSpan(
                        producer_id=4, producer_epoch=2, first_offset=7, marker_offset=-1
                    ),
                ],
            )
        ]
    )
