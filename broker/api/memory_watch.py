"""Looks at the memory for requests and answers, and ends connections that hold it for nothing."""

from __future__ import annotations

import asyncio

from pylog import errors
from pylog_broker.api import answer_memory, request_memory
from pylog_broker.api.answer_memory import AnswerMemory
from pylog_broker.api.request_memory import RequestMemory


class MemoryWatch:
    """Lives on the broker's loop."""

    def __init__(self, requests: RequestMemory, answers: AnswerMemory) -> None:
        self._requests = requests
        self._answers = answers
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self) -> None:
        """Begin; costs a short wake-up a second."""
        self.look_at_requests()
        self.look_at_answers()

    def stop(self) -> None:
        """End."""
        for timer in self._timers.values():
            timer.cancel()

    def look_at_requests(self) -> None:
        """End the connections whose half requests keep others from reading."""
        memory = self._requests
        for connection in memory.look():
            connection.refuse(
                errors.ThrottlingQuotaExceeded(
                    "the rest of its request did not come, while other connections waited for "
                    f"memory: {memory.used} bytes of requests are on this broker; the limit is "
                    f"{memory.bytes_max} (queued.max.request.bytes)"
                )
            )
        loop = asyncio.get_running_loop()
        seconds = request_memory.LOOK_SECONDS
        self._timers["requests"] = loop.call_later(seconds, self.look_at_requests)

    def look_at_answers(self) -> None:
        """End the connections that do not take what they asked for, and keep others from getting
        theirs.
        """
        memory = self._answers
        for taker in memory.look():
            taker.drop(
                errors.ThrottlingQuotaExceeded(
                    f"it takes less than {answer_memory.TAKEN_BYTES_MIN} bytes of its answer in "
                    f"{answer_memory.LOOK_SECONDS:g} s, while others wait: {memory.unsent} bytes "
                    f"of answers are on this broker; the limit is {memory.bytes_max} "
                    "(queued.max.response.bytes)"
                )
            )
        loop = asyncio.get_running_loop()
        seconds = answer_memory.LOOK_SECONDS
        self._timers["answers"] = loop.call_later(seconds, self.look_at_answers)
