"""A consumer's calls about its group: commits, committed offsets, leaving. On the user's
thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pylog import errors
from pylog.client.answers import Answer
from pylog.client.arguments import shown
from pylog.client.background import logger
from pylog.client.consumer.collecting import Collector
from pylog.client.consumer.commits_here import CommitsHere
from pylog.client.consumer.consumer_loop import ConsumerLoop
from pylog.client.consumer.group_calls import GroupCalls
from pylog.client.consumer.poll_waiting import PollWaiting
from pylog.client.consumer.rebalance_listening import RebalanceListening
from pylog.client.fetching.group_managers import GroupManagers
from pylog.client.membership.classic_membership import ClassicMembership
from pylog.client.membership.messages import PartitionOffset
from pylog.client.membership.offset_commits import OnCommitted
from pylog.client.topics_and_partitions import offsets_of
from pylog.client.user_code import check_plain
from pylog.clock import Clock
from pylog.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from pylog.plain_text import is_text

CLOSE_S: Final = 30.0
"""The time that `close` takes at most, as Kafka's."""


class GroupUse:
    """The group of one consumer."""

    def __init__(
        self,
        loop: ConsumerLoop,
        group: GroupManagers,
        waiting: PollWaiting,
        collector: Collector,
        clock: Clock,
        timeout_ms: int,
        calls: GroupCalls,
    ) -> None:
        self._loop = loop
        self._here = CommitsHere(loop, group, calls, clock)
        self._group = group
        self._waiting = waiting
        self._collector = collector
        self._clock = clock
        self._timeout_ms = timeout_ms

    # ---- commits ------------------------------------------------------------------------------

    def commit(self, offsets: Any, timeout_s: float | None) -> None:
        """Commit, and wait until that is done."""
        wanted = None if offsets is None else offsets_of(offsets)
        timeout_ms = self._timeout_ms if timeout_s is None else round(timeout_s * 1000)
        unread, line = self._collector.unyielded(), None
        try:
            answer, line = self._here.commit(wanted, unread, timeout_ms)
            self._waiting.answer(answer, line)
        except BaseException as error:
            self._here.left(line, error)
            raise

    def commit_async(self, offsets: Any, callback: OnCommitted | None) -> None:
        """Commit; the callback runs in a later poll."""
        if callback is not None and not callable(callback):
            raise errors.InvalidRequest(
                f"callback={shown(callback)}: give a callable (offsets, error)"
            )
        check_plain(callback, "callback")
        wanted = None if offsets is None else offsets_of(offsets)
        unread = self._collector.unyielded()
        self._loop.ask(self._group.commit_async, wanted, unread, callback)

    def committed(
        self, partitions: list[TopicPartition], timeout_s: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offset of each."""
        timeout_ms = self._timeout_ms if timeout_s is None else round(timeout_s * 1000)
        asked: Answer[dict[TopicPartition, PartitionOffset]] = self._loop.ask(
            self._group.commits.committed, partitions, timeout_ms
        )
        return {tp: told.committed for tp, told in self._waiting.answer(asked).items()}

    # ---- membership ---------------------------------------------------------------------------

    def listen(self, listener: object | None) -> None:
        """Tell the user's object of what comes and goes from now on."""
        told = None if listener is None else RebalanceListening(listener)
        with self._loop.lock:
            self._group.set_listener(told)

    def metadata(self) -> ConsumerGroupMetadata:
        """The member as it is now."""
        with self._loop.lock:
            identity = self._group.identity
            return ConsumerGroupMetadata(
                identity.group_id, identity.generation, identity.member_id, identity.instance_id
            )

    @property
    def is_static(self) -> bool:
        """Whether the member has a `group.instance.id`."""
        return self._group.identity.instance_id is not None

    def rebalance(self, reason: str | None) -> None:
        """Have a classic group share out anew."""
        if reason is not None and not is_text(reason):
            raise errors.InvalidRequest(f"reason={shown(reason)}: give a text in UTF-8")
        membership = self._group.membership
        if not isinstance(membership, ClassicMembership):
            logger.warning(
                "enforce_rebalance() has no effect: with group_protocol='consumer' the coordinator "
                "decides when partitions are shared out anew"
            )
            return
        with self._loop.lock:
            membership.join_again(reason or "the user asks for it")
        self._loop.poke()

    def leave(self) -> None:
        """Be no member any more. An error of the listener is raised when that is done;
        RequestTimedOut when it is not done within `default.api.timeout.ms`.
        """
        self._waiting.refuse_in_callback("unsubscribe()")
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms
        answer = self._loop.ask(self._group.leave, self._collector.unyielded())
        is_done, error = self._waiting.settle(answer, deadline_ms)
        with self._loop.lock:
            self._group.has_left()
        if error is not None:
            raise error
        if not is_done:
            raise errors.RequestTimedOut(
                f"group {self._group.identity.group_id!r} could not be left within "
                f"default_api_timeout_ms={self._timeout_ms}"
            )

    def end(
        self,
        timeout_s: float,
        unread: Mapping[TopicPartition, int],
        *,
        commits: bool,
        leaves: bool,
        for_good: bool,
    ) -> BaseException | None:
        """Commit what the user is done with, and leave, as far as the time allows; what the user's
        code has raised. `for_good`: a static member too is not expected back.
        """
        deadline_ms = self._clock.monotonic_ms() + round(timeout_s * 1000)
        raised: list[BaseException | None] = []
        if not commits:
            with self._loop.lock:
                self._group.commits.stop_automatic()
        if leaves:
            left = self._loop.ask(self._group.leave, unread, for_good=for_good)
            raised.append(self._waiting.settle(left, deadline_ms)[1])
        left_ms = max(deadline_ms - self._clock.monotonic_ms(), 1)
        ended = self._loop.ask(self._group.commit_at_end, unread, left_ms)
        is_done, error = self._waiting.settle(ended, deadline_ms)
        if is_done and ended.error is not None:
            logger.warning(
                "what the consumer of group %r had read last is not committed: %s",
                self._group.identity.group_id,
                ended.error,
            )
        return next((one for one in (*raised, error) if one is not None), None)
