"""The one way to every handler: counted, told, and without a defect that reaches a client."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from pylog import errors
from pylog.model import TopicPartition
from pylog_broker.api.calls import Calls, failures_in
from pylog_broker.api.context import RequestContext
from pylog_broker.metadata.admin import DeletedTopic, LeadersElected, TopicsDeleted
from pylog_broker.metadata.messages import Failure
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.replication.offset_messages import OffsetAnswer

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5", "me", "tool", "7")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GONE = Failure(errors.NotLeaderOrFollower.code, "another leads")
FULL = Failure(errors.KafkaStorageError.code, "no room")


@pytest.mark.parametrize(
    ("answer", "failures"),
    [
        (None, []),
        (FULL, [FULL]),
        ([OffsetAnswer(T0, GONE), OffsetAnswer(T1)], [GONE]),
        (TopicsDeleted((DeletedTopic("a", None, FULL), DeletedTopic("b"))), [FULL]),
        (LeadersElected((), FULL), [FULL]),
    ],
)
def test_the_failures_of_an_answer_are_its_own_and_those_of_its_items(
    answer: object, failures: list[Failure]
) -> None:
    assert [*failures_in(answer)] == failures


def test_a_call_is_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    counters = RequestCounters()
    calls = Calls(counters)

    async def handle(context: RequestContext, request: Any) -> Any:
        assert context == CONTEXT
        if isinstance(request, BaseException):
            raise request
        return request

    async def main() -> None:
        answer = [OffsetAnswer(TopicPartition("t", 0), GONE)]
        assert await calls.make("ListOffsets", CONTEXT, handle, answer) is answer
        with pytest.raises(errors.InvalidRequest, match="too much"):
            await calls.make("ListOffsets", CONTEXT, handle, errors.InvalidRequest("too much"))
        with pytest.raises(errors.UnknownServerError) as caught:
            await calls.make("Metadata", CONTEXT, handle, ZeroDivisionError("a defect"))
        assert "defect" not in str(caught.value)

    with caplog.at_level(logging.DEBUG, "pylog"):
        asyncio.run(main())
    assert sum(counters.seconds["ListOffsets"].counts) == 1
    assert [*counters.seconds] == ["ListOffsets"]
    assert counters.errors == {
        ("ListOffsets", GONE.code): 1,
        ("ListOffsets", errors.InvalidRequest.code): 1,
        ("Metadata", errors.UnknownServerError.code): 1,
    }
    told = [line for line in caplog.records if line.name == "pylog.request"]
    assert [line.getMessage().partition(" ")[0] for line in told] == [
        "ListOffsets",
        "ListOffsets",
        "Metadata",
    ]
    assert all("software='tool 7'" in line.getMessage() for line in told)
    (defect,) = (line for line in caplog.records if line.name == "pylog.api")
    assert defect.getMessage() == "Metadata failed unexpectedly"
