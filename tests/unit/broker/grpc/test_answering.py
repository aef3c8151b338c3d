"""Fetches over gRPC share the memory for answers with all others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pylog import errors
from pylog_broker.api.answer_memory import AnswerMemory
from pylog_broker.grpc.answering import Call
from tests.fakes.stream_world import run

MIB = 1 << 20


class SlowContext:
    """Its client takes an answer when the test says so."""

    def __init__(self) -> None:
        self.taken = asyncio.Event()

    async def write(self, answer: bytes) -> None:
        await self.taken.wait()


def test_an_answer_counts_until_it_is_taken_and_others_wait() -> None:
    async def test() -> None:
        memory = AnswerMemory(MIB)
        context: Any = SlowContext()
        first, second = Call(memory), Call(memory)
        writing = asyncio.ensure_future(first.give(bytes(MIB), context))
        await asyncio.sleep(0)
        assert memory.unsent == MIB
        waiting = asyncio.ensure_future(second.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        context.taken.set()
        await writing
        await waiting
        assert (memory.unsent, memory.waiting) == (0, 0)

    run(test)


def test_a_call_whose_answer_did_not_fit_waits_once_more() -> None:
    async def test() -> None:
        memory = AnswerMemory(MIB)
        call, other = Call(memory), Call(memory)
        other.holds(MIB // 2)
        call.must_wait = True
        waiting = asyncio.ensure_future(call.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        other.over()
        await waiting

    run(test)


def test_a_call_that_takes_nothing_ends_by_name() -> None:
    async def test() -> None:
        memory = AnswerMemory(MIB)
        call = Call(memory)
        writing = asyncio.ensure_future(call.give(bytes(MIB), SlowContext()))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        call.drop(errors.ThrottlingQuotaExceeded("it takes nothing"))
        with pytest.raises(errors.ThrottlingQuotaExceeded, match="it takes nothing"):
            await writing
        assert memory.unsent == 0

    run(test)


def test_a_call_that_its_client_ends_leaves_nothing_behind() -> None:
    async def test() -> None:
        memory = AnswerMemory(MIB)
        call = Call(memory)
        writing = asyncio.ensure_future(call.give(bytes(MIB), SlowContext()))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        call.over()
        assert (memory.unsent, memory.waiting) == (0, 0)

    run(test)
