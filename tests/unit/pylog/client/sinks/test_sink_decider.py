"""A driver's decision: of whom it is asked, again and again, until there is an answer."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from pylog import errors
from pylog.client.sinks.sink_decider import BrokersAway, SinkDecider
from pylog.client.sinks.sink_types import (
    CoordinatorPorts,
    FramedPort,
    SinkBatch,
    SinkDecision,
    SinkKey,
    SinkMember,
    SinkRange,
    merged,
)
from pylog.rpc.v1 import group_pb2, log_pb2, sink_pb2

SINK = SinkKey("q", "s")
BATCH = SinkBatch(
    SINK, "run", 3, (SinkMember("__sink/q/s/0", 7, 1),), 10, 2**63, (SinkRange("t", 0, 5, 9),)
)
PORTS = tuple(FramedPort(broker, "h", broker) for broker in (1, 2, 3))


class Brokers:
    """The brokers' answers, in order; a clock that only turns while somebody waits."""

    def __init__(self, *answers: Any) -> None:
        self.answers = deque(answers)
        self.asked: list[tuple[str, int]] = []
        self.requests: list[Any] = []
        self.now_ms = 0

    def __call__(self, port: FramedPort, api: Any, request: Any, timeout_s: float) -> Any:
        self.asked.append((api.name, port.port))
        self.requests.append(request)
        answer = self.answers.popleft() if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, errors.PylogError):
            raise answer
        return answer

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)


def decider(brokers: Brokers, coordinator: int = 1) -> SinkDecider:
    where = CoordinatorPorts("c", coordinator, PORTS)
    return SinkDecider(where, "client", 10_000, call=brokers, clock=brokers)


def decided(*, is_new: bool = True) -> sink_pb2.DecideSinkBatchResponse:
    decision = sink_pb2.SinkDecision(batch_id=3, row_count=10, checksum=2**63, expires_ms=-1)
    return sink_pb2.DecideSinkBatchResponse(decision=decision, is_new=is_new)


def refused(error: type[errors.PylogError]) -> sink_pb2.DecideSinkBatchResponse:
    response = sink_pb2.DecideSinkBatchResponse()
    response.error.code, response.error.message = error.code, "by the test"
    return response


def found(broker: int) -> group_pb2.FindCoordinatorResponse:
    response = group_pb2.FindCoordinatorResponse()
    response.coordinators.add(key="__sink/q/s/0", broker_id=broker)
    return response


def told(**ports: int) -> log_pb2.MetadataResponse:
    response = log_pb2.MetadataResponse()
    for name, port in ports.items():
        broker = response.brokers.add(id=int(name.removeprefix("b")))
        broker.stream_endpoint.host, broker.stream_endpoint.port = "h", port
    response.brokers.add(id=99)  # without a framed port
    return response


def test_the_coordinator_that_the_tasks_named_is_asked() -> None:
    brokers = Brokers(decided())
    assert decider(brokers, 2).decide(BATCH) == (
        SinkDecision(3, 0, 10, 2**63, "", 0, -1, ()),
        True,
    )
    assert brokers.asked == [("DecideSinkBatch", 2)]
    (request,) = brokers.requests
    assert request == sink_pb2.DecideSinkBatchRequest(
        sink=sink_pb2.SinkKey(query_id="q", sink_id="s"),
        run_id="run",
        batch_id=3,
        members=[
            sink_pb2.SinkMember(transactional_id="__sink/q/s/0", producer_id=7, producer_epoch=1)
        ],
        row_count=10,
        checksum=2**63,
        receipt=[sink_pb2.SinkRange(topic="t", partition=0, first_offset=5, last_offset=9)],
        keep_ms=-1,
        visible_timeout_ms=2_000,
    )


@pytest.mark.parametrize(
    "fault",
    [
        refused(errors.NotCoordinator),
        refused(errors.CoordinatorNotAvailable),
        errors.BrokerUnreachable("connection refused"),
    ],
)
def test_one_that_is_none_any_more_is_looked_for_among_the_others(fault: Any) -> None:
    brokers = Brokers(fault, found(3), told(b1=1, b2=2, b3=33), decided())
    assert decider(brokers).decide(BATCH)[1]
    assert brokers.asked == [
        ("DecideSinkBatch", 1),
        ("FindCoordinator", 1),
        ("Metadata", 1),
        ("DecideSinkBatch", 33),  # its port of this life
    ]


def test_brokers_that_are_gone_are_passed_over() -> None:
    gone = errors.BrokerUnreachable("refused")
    brokers = Brokers(gone, gone, found(2), gone, told(b2=2), decided(is_new=False))
    assert decider(brokers).decide(BATCH)[1] is False
    assert brokers.asked == [
        ("DecideSinkBatch", 1),
        ("FindCoordinator", 1),
        ("FindCoordinator", 2),
        ("Metadata", 1),
        ("Metadata", 2),
        ("DecideSinkBatch", 2),
    ]


@pytest.mark.parametrize(
    "error",
    [
        errors.SinkRunSuperseded,
        errors.SinkBatchDecided,
        errors.InvalidTxnState,
        errors.ThrottlingQuotaExceeded,
    ],
)
def test_what_does_not_pass_is_told_at_once(error: type[errors.PylogError]) -> None:
    brokers = Brokers(refused(error))
    with pytest.raises(error, match="by the test"):
        decider(brokers).decide(BATCH)
    assert len(brokers.asked) == 1


def test_it_ends_when_nobody_coordinates_the_sink() -> None:
    brokers = Brokers(refused(errors.CoordinatorNotAvailable), found(9), told(b1=1))
    brokers.answers.extend([found(9), told(b1=1)] * 100)
    with pytest.raises(errors.RequestTimedOut, match=r"within 10 s.*broker 9, is away"):
        decider(brokers).decide(BATCH)
    assert brokers.now_ms <= 10_000


def test_when_no_broker_is_where_it_was_others_must_tell_where_they_are() -> None:
    brokers = Brokers(errors.BrokerUnreachable("refused"))
    with pytest.raises(BrokersAway):
        decider(brokers).decide(BATCH)
    asked = [("DecideSinkBatch", 1), *(("FindCoordinator", broker) for broker in (1, 2, 3))]
    assert brokers.asked == asked


def test_an_abort_says_how_many() -> None:
    brokers = Brokers(sink_pb2.AbortSinkBatchResponse(attempts=2))
    assert decider(brokers).abort(SINK, "run", 3, ends_run=True) == 2
    assert brokers.asked == [("AbortSinkBatch", 1)]


def test_ranges_of_tasks_become_one_for_each_partition() -> None:
    ranges = [SinkRange("u", 0, 1, 2), SinkRange("t", 1, 9, 9), SinkRange("t", 0, 5, 7)]
    assert merged([*ranges, SinkRange("t", 0, 2, 6)]) == (
        SinkRange("t", 0, 2, 7),
        SinkRange("t", 1, 9, 9),
        SinkRange("u", 0, 1, 2),
    )
    assert merged([]) == ()
