"""Brokers' questions to each other about share groups: value to bytes to value."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from pylog.errors import FencedStateEpoch, InvalidRequest, NotLeaderOrFollower
from pylog.model import LeaderEpoch, Offset, TopicId, TopicPartition
from pylog_broker.api.context import RequestContext
from pylog_broker.kafka.broker_apis import AnyBoundBrokerApi, BrokerApi
from pylog_broker.kafka.share_state import (
    RemoteShareStates,
    list_offsets_api,
    remote_offset,
    share_state_apis,
)
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.offset_messages import OffsetAnswer, OffsetQuery
from pylog_broker.share.persisted import (
    InitializeState,
    ReadState,
    StateRead,
    StateSummary,
    WriteState,
)
from pylog_broker.share.record_states import RecordState, StateBatch
from pylog_broker.share.sessions import SharePartitionKey

KEY = SharePartitionKey("g", TopicId("AAAAAAAAAAAAAAAAAAAAAQ"), 3)
BATCHES = (StateBatch(5, 7, RecordState.AVAILABLE, 2), StateBatch(9, 9, RecordState.ARCHIVED, 5))
TP = TopicPartition("t", 1)

T = TypeVar("T")


class States:
    """A share coordinator that remembers what it was asked, and answers as told."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.fault: Exception | None = None

    async def _take(self, request: Any, answer: Any = None) -> Any:
        self.asked.append(request)
        if self.fault is not None:
            raise self.fault
        return answer

    async def initialize(self, request: InitializeState) -> None:
        await self._take(request)

    async def read(self, request: ReadState) -> StateRead:
        return await self._take(request, StateRead(4, 5, BATCHES))  # type: ignore[no-any-return]

    async def write(self, request: WriteState) -> None:
        await self._take(request)

    async def delete(self, key: SharePartitionKey) -> None:
        await self._take(key)

    async def summary(self, key: SharePartitionKey) -> StateSummary:
        return await self._take(key, StateSummary(4, 2, 5, 7))  # type: ignore[no-any-return]


def over_bytes(
    bound: list[AnyBoundBrokerApi],
) -> Callable[[BrokerApi[Any, Any], Any], Awaitable[Any]]:
    """The way to a broker that answers these."""
    by_key = {each.api.key: each for each in bound}

    async def ask(api: BrokerApi[Any, Any], request: Any) -> Any:
        asked = memoryview(b"".join(api.encode_request(request, api.version)))
        decoded = api.decode_request(asked, 0, api.version)
        answer = await by_key[api.key].handle(RequestContext("x", "", ""), decoded)
        said = memoryview(b"".join(api.encode_response(answer, api.version)))
        return api.decode_response(said, 0, api.version)

    return ask


def world() -> tuple[States, RemoteShareStates]:
    states = States()
    return states, RemoteShareStates(over_bytes(share_state_apis(states)))


def run(work: Awaitable[T]) -> T:
    async def main() -> T:
        return await work

    return asyncio.run(main())


def test_what_is_asked_is_heard_and_what_is_answered_too() -> None:
    states, remote = world()
    write = WriteState(KEY, 4, 6, 5, 2, BATCHES)
    assert run(remote.initialize(InitializeState(KEY, 3, 77))) is None  # type: ignore[func-returns-value]
    assert run(remote.read(ReadState(KEY, 6))) == StateRead(4, 5, BATCHES)
    assert run(remote.write(write)) is None  # type: ignore[func-returns-value]
    assert run(remote.summary(KEY)) == StateSummary(4, 2, 5, 7)
    assert run(remote.delete(KEY)) is None  # type: ignore[func-returns-value]
    assert states.asked == [InitializeState(KEY, 3, 77), ReadState(KEY, 6), write, KEY, KEY]


def test_a_refusal_comes_with_its_words() -> None:
    states, remote = world()
    states.fault = FencedStateEpoch("it is of epoch 9")
    asked: list[Callable[[], Awaitable[Any]]] = [
        lambda: remote.initialize(InitializeState(KEY, 3)),
        lambda: remote.read(ReadState(KEY, 6)),
        lambda: remote.write(WriteState(KEY, 4, 6, 5, 2, ())),
        lambda: remote.delete(KEY),
        lambda: remote.summary(KEY),
    ]
    for ask in asked:
        with pytest.raises(FencedStateEpoch, match="it is of epoch 9"):
            run(ask())


def test_a_state_that_is_never_written_is_refused() -> None:
    _, remote = world()
    acquired = (StateBatch(1, 1, RecordState.ACQUIRED, 1),)
    with pytest.raises(InvalidRequest, match="delivery_state 1 means nothing"):
        run(remote.write(WriteState(KEY, 4, 6, 5, 2, acquired)))


def test_a_call_that_fails_as_a_whole_is_refused_for_each_partition() -> None:
    states, _ = world()
    bound = {each.api.counted_as: each for each in share_state_apis(states)}
    api = bound["ReadShareGroupStateOfBroker"]

    async def ask(_: BrokerApi[Any, Any], request: Any) -> Any:
        return api.refused(request, NotLeaderOrFollower("later"))

    with pytest.raises(NotLeaderOrFollower, match="later"):
        run(RemoteShareStates(ask).read(ReadState(KEY, 6)))


def test_where_a_log_ends() -> None:
    query = OffsetQuery(TP, -1, LeaderEpoch(-1), read_committed=True)
    answers = [OffsetAnswer(TP, None, None, Offset(42), 7, LeaderEpoch(3))]
    heard: list[OffsetQuery] = []

    async def answer(queries: list[OffsetQuery]) -> list[OffsetAnswer]:
        heard.extend(queries)
        return answers

    ask = over_bytes([list_offsets_api(answer)])
    assert run(remote_offset(ask, query)) == 42
    assert heard == [query]
    answers[0] = OffsetAnswer(TP, Failure(NotLeaderOrFollower.code, "no"))
    with pytest.raises(NotLeaderOrFollower, match="t-1: its leader refused"):
        run(remote_offset(ask, query))
