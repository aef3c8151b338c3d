"""Commits that the thread that waits for them sends itself, over a line to the coordinator.

Everything else is the loop's: a commit with another before it, what has to wait for a coordinator,
what failed and is tried again, and what the thread does not wait for.
"""

from __future__ import annotations

import asyncio
import select
from typing import Final

from pylog import errors
from pylog.client.answers import Answer
from pylog.client.consumer.commit_line import NOT_CARRIED_OUT, CommitLine, Outcome
from pylog.client.consumer.consumer_loop import ConsumerLoop
from pylog.client.consumer.group_calls import GroupCalls
from pylog.client.fetching.group_managers import GroupManagers
from pylog.client.membership.messages import OffsetCommit
from pylog.client.membership.offset_commits import Offsets
from pylog.clock import Clock
from pylog.model import TopicPartition
from pylog.rpc import streams

LINE_AFTER: Final = 8
"""Commits in a row that a thread waited for."""
IN_A_ROW_MS: Final = 1_000
"""Commits further apart are not worth a connection."""


class CommitsHere:
    """Of one consumer. For the user's thread but for `_open` and `_find_lost`."""

    def __init__(
        self, loop: ConsumerLoop, group: GroupManagers, calls: GroupCalls, clock: Clock
    ) -> None:
        self._loop = loop
        self._group = group
        self._calls = calls
        self._clock = clock
        self._in_a_row = 0
        self._last_ms = 0
        self._opening = False

    def commit(
        self, offsets: Offsets | None, unread: dict[TopicPartition, int], timeout_ms: int
    ) -> tuple[Answer[None], CommitLine | None]:
        """The answer, and the line by which it comes; None: the loop brings it. The caller
        gives `left` whatever this, or its wait for the answer, raises.
        """
        loop, line = self._loop, self._loop.commit_line
        request: OffsetCommit | None = None
        with loop.turn:
            now_ms = self._clock.monotonic_ms()
            with loop.lock:
                answer = self._group.commit(now_ms, offsets, unread, timeout_ms)
                if line is not None:
                    request = self._group.commits.take(now_ms, line.broker)
            if line is not None and request is not None:
                body, timeout_s = self._calls.encoded(request)
                if line.takes(len(body)):
                    line.send(request, body, timeout_s)
                    loop.look_by(now_ms + timeout_ms)
                    return answer, line
                loop.carry_out(request)
        loop.poke()
        self._look_for_line(now_ms)
        return answer, None

    def left(self, line: CommitLine | None, error: BaseException) -> None:
        """The thread waits no more, for that error. An interrupt may have come anywhere, also while
        the commit was written: the line cannot be used after it. (A caller gives up between waits.)
        """
        if not isinstance(error, Exception | asyncio.CancelledError):
            self._loop.call(self._find_lost)
        elif line is not None and line.request is not None:
            self._loop.call(line.read_here)

    # ---- what becomes of a commit --------------------------------------------------------------

    def _told(self, request: OffsetCommit, outcome: Outcome) -> None:
        """On whichever thread has read it, under `turn`."""
        if outcome is NOT_CARRIED_OUT:
            self._loop.carry_out(request)
            return
        error = outcome if isinstance(outcome, errors.PylogError) else None
        if isinstance(outcome, memoryview):
            try:
                answer = self._calls.decoded(request, outcome)
            except errors.BrokerUnreachable as unreadable:
                error = unreadable
        loop, group = self._loop, self._group
        with loop.lock:
            now_ms = self._clock.monotonic_ms()
            if error is None:
                group.on_answer(now_ms, request, answer)
            else:
                group.on_no_answer(now_ms, request, error)
            loop.notify()
            is_whole = error is None and not any(one.code for one in answer.partitions)
            is_all = is_whole and not group.commits.has_work
        if not is_all:
            loop.poke()

    def _find_lost(self) -> None:
        """A thread was interrupted: a commit may be on its way nowhere. On the loop."""
        loop = self._loop
        with loop.turn:
            if loop.commit_line is not None:
                loop.commit_line.end("the thread that committed was interrupted")
            with loop.lock:
                lost = self._group.commits.in_flight
        if lost is not None and lost is not loop.commit_under_way:
            fault = errors.BrokerUnreachable("the thread that committed was interrupted")
            loop.step(loop.core.on_no_answer, lost, fault)

    # ---- the line ------------------------------------------------------------------------------

    def _look_for_line(self, now_ms: int) -> None:
        together = now_ms - self._last_ms <= IN_A_ROW_MS
        self._last_ms = now_ms
        self._in_a_row = self._in_a_row + 1 if together else 1
        if self._in_a_row >= LINE_AFTER and not self._opening and hasattr(select, "poll"):
            self._opening = True
            self._in_a_row = 0
            self._loop.call(self._loop.begin_by, self._open)

    async def _open(self) -> None:
        """On the loop."""
        loop = self._loop
        cluster = loop.cluster
        try:
            with loop.lock:
                coordinator = self._group.finder.coordinator
            known = loop.commit_line
            if coordinator is None or (known is not None and known.broker == coordinator):
                return
            way = cluster.stream_way(coordinator, streams.CALLS)
            if way is None or cluster.stream_rest_s(way):
                return
            line = CommitLine(
                way,
                loop.turn,
                told=self._told,
                ended=self._ended,
                idle_s=cluster.settings.connections_max_idle_ms / 1000,
            )
            if await line.connect() and not loop.closed:
                with loop.turn:
                    if known is not None:
                        known.end("the group has another coordinator")
                    loop.commit_line = line
            else:
                line.close()
        finally:
            self._opening = False

    def _ended(self, line: CommitLine) -> None:
        if self._loop.commit_line is line:
            self._loop.commit_line = None
