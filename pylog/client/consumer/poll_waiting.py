"""The wait of a poll, and the events that end it: news, the time, a wakeup, a fault, or the
consumer's end.

On the user's thread. A poll that found something returns it, whatever else came meanwhile: a
position that has moved is never followed by an error instead of its records. A fault of one
partition does not stand before good records of another: the records that are buffered when a poll
first sees the fault come first, and those that arrive later do not hide it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from pylog import errors
from pylog.client.answers import Answer, Callback
from pylog.client.callers import check_caller, kept_waiting
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.denials import UNKNOWN_TOPIC_GRACE_MS, Denial
from pylog.client.consumer.collecting import Collector
from pylog.client.consumer.commit_line import CommitLine
from pylog.client.consumer.consumer_loop import ConsumerLoop
from pylog.client.fetching.fetch_state import FetchState
from pylog.client.fetching.group_managers import GroupManagers
from pylog.client.fetching.user_events import AskPosition
from pylog.clock import Clock
from pylog.model import TopicPartition

LOOK_AGAIN_S = 0.5
"""Some faults show only by time: nobody answers."""

T = TypeVar("T", bound=list[object])
V = TypeVar("V")

_UNPOSITIONED: Final = FetchState.INITIALIZING


class PollWaiting:
    """The waiting of one consumer; `wake` may come from any thread."""

    def __init__(
        self,
        loop: ConsumerLoop,
        cluster: Cluster,
        collector: Collector,
        clock: Clock,
        timeout_ms: int,
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._core = loop.core
        self._collector = collector
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._started_ms = clock.monotonic_ms()
        self._woken = False
        self._group = loop.core.group
        self._callback: Callback | None = None  # that runs
        self._absent_since_ms: dict[TopicPartition, int] = {}
        self._told: dict[str, Denial | None] = {}
        self._arrivals: dict[str | TopicPartition, int] = {}  # of faults that metadata shows

    def wake(self) -> None:
        """Have the wait that runs, or the next one, raise WokenUp. Never blocks: a handler of a
        signal may interrupt the very thread that holds the lock.
        """
        self._woken = True
        self._loop.notify_soon()

    def wait(self, timeout_s: float, collect: Callable[[], T]) -> T | None:
        """The find of `collect`, as soon as there is one; None when the time is up."""
        self.refuse_in_callback("poll()")
        lent = self._loop.lent
        deadline = self._clock.monotonic_ms() + timeout_s * 1000
        looked = False
        while True:
            self.raise_faults()
            if self._group is not None:
                self._tell_of_poll(self._group)
            if self._core.for_user:
                self.run_callbacks()
            found = collect()
            if found:
                return found
            with self._loop.lock:
                if self._woken or self._loop.defect is not None or self._core.wants_user:
                    continue
                self.refuse_closed()
                left_s = (deadline - self._clock.monotonic_ms()) / 1000
                if left_s <= 0 and (looked or not lent.lent):
                    return None
                if self._collector.has_news():
                    continue
                wait_s = max(min(left_s, LOOK_AGAIN_S), 0)
                if lent.lent:
                    lent.begin()
                else:
                    self._loop.user_waits = True
                    self._loop.ready.wait(wait_s)
                    self._loop.user_waits = False
                    continue
            lent.wait(wait_s)
            looked = left_s <= 0

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have `listener` called when a wait would end, also at once if it would; gives what ends
        the listening.
        """

        def stop() -> None:
            with self._loop.lock:
                if self._loop.listener is listener:
                    self._loop.listener = None

        with self._loop.lock:
            self._loop.listener = listener
            news = self._core.wants_user or self._collector.has_news()
            if self._woken or self._loop.closed or self._loop.defect is not None or news:
                listener()
        return stop

    def run_callbacks(self) -> None:
        """Run the callbacks that wait for the user's thread. An error of one goes to the user, and
        to the core that waits for its answer.
        """
        while self._core.for_user:
            callback = self._core.for_user.popleft()
            outer, self._callback = self._callback, callback
            try:
                given = callback.run()
            except BaseException as error:
                with self._loop.lock:
                    callback.answer.fail(error)
                raise
            else:
                with self._loop.lock:
                    callback.answer.succeed(given)
            finally:
                self._callback = outer
                self._loop.poke()

    def refuse_in_callback(self, call: str) -> None:
        """InvalidRequest for what would wait for the very callback that it is called in."""
        if self._callback is not None:
            self._refuse(call)

    def refuse_in_awaited_callback(self, call: str) -> None:
        """The same for what waits for the callbacks of a rebalance alone."""
        if self._callback is not None and self._callback.is_awaited:
            self._refuse(call)

    def _refuse(self, call: str) -> NoReturn:
        raise errors.InvalidRequest(
            f"{call} inside a callback of this consumer: it would wait for the callback to end; "
            f"call it after the poll that runs the callback"
        )

    def _tell_of_poll(self, group: GroupManagers) -> None:
        """The user is done with what it had."""
        with self._loop.lock:
            is_news = group.on_user_poll(self._clock.monotonic_ms())
        if is_news:
            self._loop.poke()

    def answer(self, answer: Answer[V], line: CommitLine | None = None) -> V:
        """The group's answer; it comes in time, or says that it could not. WokenUp after
        `wakeup()`. With a `line` this thread reads it there.
        """
        with kept_waiting(self._loop.notify_soon):
            return self._answer(answer, line)

    def _answer(self, answer: Answer[V], line: CommitLine | None) -> V:
        lent = self._loop.lent
        while True:
            with self._loop.lock:
                self.refuse_closed()
                if answer.done:
                    break
                self._raise_defect()
                self._raise_woken()
                self._raise_out_of_reach()
                if line is None or line.request is None:
                    self._loop.ready.wait(LOOK_AGAIN_S)
                    continue
                lent.begin()
            lent.wait(LOOK_AGAIN_S, line)
            if line.request is not None:
                line.give_up_late()
                self._loop.poke()
        return answer.result()

    def settle(self, answer: Answer[None], deadline_ms: int) -> tuple[bool, BaseException | None]:
        """Run the user's code while the group comes to an end: whether it has answered in time, and
        what the code has raised first.
        """
        assert self._group is not None
        raised: BaseException | None = None
        while True:
            try:
                self.run_callbacks()
            except BaseException as error:  # noqa: BLE001  raised when the rest is done
                raised = raised or error
            with self._loop.lock:
                if answer.done and not self._core.for_user:
                    return True, raised
                now_ms = self._clock.monotonic_ms()
                if self._group.on_user_rest(now_ms):
                    self._loop.poke()
                if now_ms >= deadline_ms:
                    return False, raised
                if not self._core.for_user:
                    left_s = (deadline_ms - now_ms) / 1000
                    self._loop.ready.wait(min(left_s, LOOK_AGAIN_S))

    def refuse_closed(self) -> None:
        """ClientClosed after `close`; CancelledError when the caller gave up."""
        check_caller()
        if self._loop.closed:
            raise errors.ClientClosed("the consumer is closed")

    def position(self, tp: TopicPartition, deadline_ms: int, limit_ms: int) -> int:
        """The partition's position; waits while it is being looked up. `limit_ms`: the time that
        the call was given.
        """
        asked = AskPosition(tp)
        self._loop.submit(asked)
        try:
            self._await(asked, deadline_ms, limit_ms)
        finally:
            with self._loop.lock:
                self._core.positions.forget(asked)
        return asked.answer.result()

    def _await(self, asked: AskPosition, deadline_ms: int, limit_ms: int) -> None:
        """Return when it is answered."""
        while not asked.answer.done:
            self.raise_faults(at_once=True)
            with self._loop.lock:
                self.refuse_closed()
                if asked.answer.done:
                    return
                left_s = (deadline_ms - self._clock.monotonic_ms()) / 1000
                if left_s <= 0:
                    raise errors.RequestTimedOut(
                        f"{asked.topic_partition}: no position within {limit_ms} ms"
                    ).about(asked.topic_partition)
                self._loop.ready.wait(min(left_s, LOOK_AGAIN_S))

    def raise_faults(self, *, at_once: bool = False) -> None:
        """Raise what the user must know, once the user has every record that arrived before it;
        `at_once`: whatever is buffered.
        """
        with self._loop.lock:
            self._raise_defect()
            self._raise_woken()
            if self._group is not None:
                error = self._group.take_error()
                if error is not None:
                    raise error
            self._raise_partition_fault(at_once)
        self._raise_out_of_reach()
        if self._cluster.metadata.version:
            self._raise_topic_fault(self._clock.monotonic_ms(), at_once)

    def _raise_defect(self) -> None:
        """The lock is held."""
        defect, self._loop.defect = self._loop.defect, None
        if defect is not None:
            raise defect

    def _raise_woken(self) -> None:
        if self._woken:
            self._woken = False
            raise errors.WokenUp("wakeup() was called")

    def _raise_out_of_reach(self) -> None:
        """BootstrapFailed while no server has ever answered, and the time for that is up."""
        if self._cluster.metadata.version:
            return
        if self._cluster.gave_up is not None:
            raise self._cluster.gave_up
        waited_ms = self._clock.monotonic_ms() - self._started_ms
        if waited_ms >= self._timeout_ms:
            raise self._cluster.unreachable(waited_ms)

    def _raise_partition_fault(self, at_once: bool) -> None:
        """The lock is held."""
        for partition in self._core.positions.partitions.values():
            error = partition.error
            if error is None or partition.paused:
                continue
            if partition.error_seen is None:
                partition.error_seen = self._core.positions.arrive()
            if partition.buffer or partition.decoding is not None:
                continue  # first what came before
            if not at_once and not self._core.positions.all_handed_out(partition.error_seen):
                continue
            if partition.position is not None or partition.state is not _UNPOSITIONED:
                partition.error = None  # the next poll tries again
                self._loop.poke()
            raise error

    def _raise_topic_fault(self, now_ms: int, at_once: bool) -> None:
        faults = {**self._denials(), **self._absent_partitions(now_ms)}
        if not faults:
            self._arrivals = {}
            return
        with self._loop.lock:
            self._arrivals = {
                what: self._arrivals.get(what) or self._core.positions.arrive() for what in faults
            }
            what = min(faults, key=self._arrivals.__getitem__)
            if not at_once and not self._core.positions.all_handed_out(self._arrivals[what]):
                return
        if isinstance(what, str):
            # A fault that was raised may have passed: it counts when the cluster reports it again.
            self._told[what] = self._cluster.denied.get(what)
            self._cluster.thread.call(self._cluster.refresh_soon)
        raise faults[what]

    def _denials(self) -> dict[str | TopicPartition, errors.PylogError]:
        """Subscribed topics that the cluster denies."""
        if self._core.subscription.pattern is not None:
            return {}  # a pattern stops matching a topic that is gone
        return {
            topic: denial.error
            for topic, denial in list(self._cluster.denied.items())
            if topic in self._cluster.topics
            and denial is not self._told.get(topic)
            and denial.counts(self._timeout_ms)
        }

    def _absent_partitions(self, now_ms: int) -> dict[str | TopicPartition, errors.PylogError]:
        """A topic may be growing, so a partition's absence counts when it lasts."""
        grace_ms = min(UNKNOWN_TOPIC_GRACE_MS, self._timeout_ms)
        topics = self._cluster.metadata.topics
        with self._loop.lock:
            assigned = list(self._core.positions.partitions)
        self._absent_since_ms = {
            tp: self._absent_since_ms.get(tp, now_ms)
            for tp in assigned
            if tp.topic in topics and tp.partition >= len(topics[tp.topic].partitions)
        }
        return {
            tp: errors.UnknownTopicOrPartition(
                f"topic {tp.topic} has partitions 0 to {len(topics[tp.topic].partitions) - 1}; "
                f"there is no partition {tp.partition}"
            ).about(tp)
            for tp, since_ms in self._absent_since_ms.items()
            if now_ms - since_ms >= grace_ms
        }
