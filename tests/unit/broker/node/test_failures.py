"""Failed replicas are reported until the controller has taken note, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pylog import errors
from pylog.model import TopicId
from pylog_broker.metadata.messages import Failure, FailuresNoted, ReplicaKey
from pylog_broker.node import failures
from pylog_broker.node.failures import FailureReports

TOPIC = TopicId("t")


class Controller:
    """Takes note, after as many failed calls as it is told."""

    def __init__(self) -> None:
        self.noted: list[tuple[tuple[ReplicaKey, ...], str]] = []
        self.log_dirs: list[tuple[str, ...]] = []
        self.calls = 0
        self.refuse: list[errors.PylogError | Failure] = []
        self.on_call: Callable[[], None] = lambda: None
        self.done = asyncio.Event()
        self.expected = 1

    async def send(
        self, replicas: tuple[ReplicaKey, ...], log_dirs: tuple[str, ...], reason: str
    ) -> FailuresNoted | Failure:
        self.calls += 1
        self.on_call()
        await asyncio.sleep(0)
        if self.refuse:
            answer = self.refuse.pop(0)
            if isinstance(answer, Failure):
                return answer
            raise answer
        self.noted.append((replicas, reason))
        self.log_dirs.append(log_dirs)
        if sum(len(sent) for sent, _ in self.noted) >= self.expected:
            self.done.set()
        return FailuresNoted()


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "RETRY_SECONDS_FIRST", 0.001)
    monkeypatch.setattr(failures, "REPLICAS_PER_REPORT", 2)


def run(test: Callable[[Controller, FailureReports], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        controller = Controller()
        reports = FailureReports(controller.send)
        async with asyncio.timeout(10):
            await test(controller, reports)
        reports.stop()

    asyncio.run(main())


def test_it_asks_again_after_errors_and_refusals(caplog: pytest.LogCaptureFixture) -> None:
    async def test(controller: Controller, reports: FailureReports) -> None:
        controller.refuse = [
            errors.BrokerUnreachable("no route"),
            errors.BrokerUnreachable("no route"),
            Failure(errors.StaleBrokerEpoch.code, "stale"),
        ]
        reports.add(TOPIC, 3, "a bad block")
        assert reports.waiting == ((TOPIC, 3),)
        await controller.done.wait()
        assert controller.noted == [(((TOPIC, 3),), "a bad block")]
        assert controller.calls == 4

    run(test)
    assert [r.getMessage().rpartition(": ")[2] for r in caplog.records] == ["no route", "stale"]


def test_what_is_added_meanwhile_follows_and_many_go_in_parts() -> None:
    async def test(controller: Controller, reports: FailureReports) -> None:
        controller.expected = 4
        controller.on_call = lambda: (
            reports.add(TOPIC, 9, "later") if controller.calls == 1 else None
        )
        for partition in range(3):
            reports.add(TOPIC, partition, f"reason {partition}")
        await controller.done.wait()
        assert controller.noted == [
            (((TOPIC, 0), (TOPIC, 1)), "reason 0"),
            (((TOPIC, 2), (TOPIC, 9)), "reason 2"),
        ]
        await asyncio.sleep(0)
        assert reports.waiting == ()

    run(test)


def test_a_second_failure_starts_a_second_report_and_none_after_the_stop() -> None:
    async def test(controller: Controller, reports: FailureReports) -> None:
        for partition in range(2):
            controller.done.clear()
            reports.add(TOPIC, partition, "x")
            await controller.done.wait()
            await asyncio.sleep(0)
        assert len(controller.noted) == 2
        reports.stop()
        reports.add(TOPIC, 7, "x")
        assert (controller.calls, reports.waiting) == (2, ((TOPIC, 7),))

    run(test)


def test_a_directory_goes_with_the_first_report() -> None:
    async def test(controller: Controller, reports: FailureReports) -> None:
        controller.expected = 3
        controller.refuse = [Failure(errors.StaleBrokerEpoch.code, "stale")]
        reports.add_directory("dir-2", "the disk is gone")
        for partition in range(3):
            reports.add(TOPIC, partition, f"reason {partition}")
        await controller.done.wait()
        assert controller.log_dirs == [("dir-2",), ()]
        assert [reason for _, reason in controller.noted] == ["the disk is gone", "reason 2"]

    run(test)
