"""`ShareConsumer`: a member of a share group (KIP-932), whose members read partitions together.

The shell around `sharing.share_core`. Two threads touch the state, under one lock: the user's (one
at a time; others get an error) and pylog's loop, which asks brokers. Decoding happens on the user's
thread, outside the lock.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Generic, Unpack, overload

from pylog import errors
from pylog.client.arguments import several, shown, topics_and_settings
from pylog.client.background import close_at_exit, logger, shared_loop
from pylog.client.closing import Closing
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.cluster_settings import ClusterSettings
from pylog.client.cluster.metadata import TopicInfo
from pylog.client.cluster.shown import Shown
from pylog.client.consumer.collecting import grouped
from pylog.client.consumer.consumer_records import ConsumerRecords
from pylog.client.consumer.one_thread import OneThread
from pylog.client.share_consumer import share_settings
from pylog.client.share_consumer.share_calls import ShareCalls
from pylog.client.share_consumer.share_collecting import Found, ShareCollector
from pylog.client.share_consumer.share_loop import ShareLoop
from pylog.client.share_consumer.share_metrics import ShareMetrics
from pylog.client.share_consumer.share_waiting import ShareWaiting
from pylog.client.sharing.acknowledgements import AckParcel, CommitResults
from pylog.client.sharing.share_core import OnAcknowledged, ShareCore
from pylog.client.timeouts import seconds, seconds_or_none
from pylog.client.topics_and_partitions import check_topic
from pylog.client.typed_settings import Deserialize, HasDeserialize, ShareConsumerSettings
from pylog.client.user_code import check_plain
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.model import AcknowledgeType, TopicPartition
from pylog.records.record import K, Record, V

if TYPE_CHECKING:
    from types import TracebackType

Parts = list[tuple[TopicPartition, list[Record]]]

CLOSE_S: Final = 30.0
"""The time that `close` takes at most, as Kafka's."""
AT_EXIT_S: Final = 1.0
"""The time for which the end of a program waits for a group that the user has not left."""
ACCEPT_EVERY_MS: Final = 1_000
"""The interval at which an iteration sends the acknowledgements of accepted records, while its
records last."""


class ShareConsumer(Closing, Shown, Generic[K, V]):
    """Takes records of topics in turn with the other members of its share group: each record goes
    to one of them at a time, and again to one of them until somebody accepts it. For one thread at
    a time; `wakeup()` alone may come from another.

    A record that was delivered is locked for this consumer (`share.record.lock.duration.ms` of the
    group, 30 s). In the implicit mode, the default, the next `poll` or `commit` accepts all that
    the last poll returned, and an iteration accepts a record when the next one is taken. With
    `share_acknowledgement_mode="explicit"` the program says of each record what becomes of it
    (`acknowledge`), and a poll with records left that it has said nothing of is refused. A record
    that is not acknowledged when the lock ends, or when the consumer is closed, is delivered again.

    A `with` block that ends without an error accepts what was returned, in the implicit mode; one
    that ends with an error does not.

    Methods that ask brokers raise RequestTimedOut or BootstrapFailed after
    `default_api_timeout_ms`, and UnknownTopicOrPartition for a topic or partition that does not
    exist. After `close` everything raises ClientClosed, from a second thread at the same time
    WrongThread.
    """

    @overload
    def __init__(
        self: ShareConsumer[Any, Any],
        config: Mapping[str, Any],
        /,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        group_id: str | None = None,
        deserializer: object = None,
        key_deserializer: object = None,
        value_deserializer: object = None,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: ShareConsumer[bytes | None, bytes | None],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: ShareConsumer[V, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        deserializer: Deserialize[V],
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: ShareConsumer[bytes | None, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        value_deserializer: Deserialize[V],
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: ShareConsumer[K, bytes | None],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        key_deserializer: Deserialize[K],
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: ShareConsumer[K, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        key_deserializer: Deserialize[K],
        value_deserializer: Deserialize[V],
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: ShareConsumer[Any, Any],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        deserializer: HasDeserialize | str = ...,
        key_deserializer: HasDeserialize | str = ...,
        value_deserializer: HasDeserialize | str = ...,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        bootstrap_servers: str | Iterable[str] | None = None,
        group_id: str | None = None,
        **settings: Any,
    ) -> None:
        named = {"bootstrap_servers": bootstrap_servers, "group_id": group_id, **settings}
        names, given = topics_and_settings(topics, named)
        parsed = share_settings.parse(
            given.pop("bootstrap_servers"), given.pop("group_id", None), given
        )
        values = parsed.values
        self._explicit = parsed.explicit
        self._timeout_ms: int = values["default.api.timeout.ms"]
        self._clock: Clock = SYSTEM_CLOCK
        self._closed = False
        self._turn = OneThread()
        self._thread = shared_loop()
        rng = random.Random()
        self._cluster = Cluster(
            self._thread, ClusterSettings.of(values), rng=rng, on_change=self._on_metadata
        )
        self._core = ShareCore(
            parsed.sharing,
            parsed.membership,
            parsed.identity,
            self._cluster.metadata,
            rng.random,
            explicit=parsed.explicit,
        )
        self._metrics = ShareMetrics(self._clock.monotonic_ms())
        self._loop = ShareLoop(
            self._thread,
            self._cluster,
            self._core,
            ShareCalls(self._cluster, parsed.wire),
            self._metrics,
            self._clock,
        )
        self._collector = ShareCollector(
            self._loop,
            parsed.code,
            self._clock,
            max_poll_records=values["max.poll.records"],
            strict=parsed.sharing.strict,
            check_crcs=values["check.crcs"],
        )
        self._waiting = ShareWaiting(self._loop, self._cluster, self._clock, self._timeout_ms)
        self._pending: Iterator[Record] = iter(())
        """Records that an iteration has not taken yet; they are in the core's hand."""
        self._found: Found = []
        """Records that a poll has found and not returned yet."""
        self._iterates = False
        """Whether the records in hand were given to an iteration."""
        self._accept_at_ms = 0
        close_at_exit(self)
        if names:
            self.subscribe(names)

    # ---- what to read -------------------------------------------------------------------------

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Read these topics together with the group's other members; replaces what was subscribed
        before. The member joins with the next poll. No topics: as `unsubscribe`.
        """
        with self._use():
            wanted = "a topic's name, or several"
            names = [topics] if isinstance(topics, str) else several(topics, "topics", wanted)
            for name in names:
                check_topic(name)
            if not names:
                self._leave()
                return
            effects = self._loop.ask(self._core.subscribe, tuple(dict.fromkeys(names)))
            self._loop.perform(effects)

    def unsubscribe(self) -> None:
        """Read nothing, and be no member of the group. Records that were returned can still be
        acknowledged.
        """
        with self._use():
            self._leave()

    def _leave(self) -> None:
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms
        if not self._waiting.settle(self._loop.ask(self._core.leave), deadline_ms):
            raise errors.RequestTimedOut(
                f"group {self._core.identity.group_id!r} could not be left within "
                f"default_api_timeout_ms={self._timeout_ms}"
            )

    def subscription(self) -> set[str]:
        """The subscribed topics."""
        with self._use():
            return set(self._core.topics)

    # ---- records ------------------------------------------------------------------------------

    def poll(self, timeout: float = 1.0) -> ConsumerRecords[K, V]:
        """Records, as soon as there are any; none after `timeout` seconds. In the implicit mode it
        accepts what the last poll returned. Records whose lock was renewed are returned again,
        before others.

        Raises InvalidRequest without a subscription and, in the explicit mode, while a record of
        the last poll is not acknowledged; SerializationFailed and CorruptMessage for a record that
        cannot be read, which the consumer has acknowledged by itself (released or rejected);
        UnknownTopicOrPartition, BootstrapFailed; WokenUp after `wakeup()`.
        """
        with self._use():
            left_over = self._take_pending()
            if left_over:
                return left_over
            return self._handed_out(self._poll(timeout))

    def _handed_out(self, parts: Parts) -> ConsumerRecords[K, V]:
        """The records, as late as can be in the user's hands: those that the user does not get,
        as the thread is interrupted, must not be accepted by the next poll.
        """
        records = grouped(parts, {})
        self._hand_over()
        return records

    def _hand_over(self) -> None:
        found, self._found = self._found, []
        with self._loop.lock:
            for acquired, records in found:
                self._core.hand.add(acquired, records)

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Records without end. In the implicit mode a record is accepted when the next one is
        taken. Leaving the loop loses none: the next poll or loop goes on.
        """
        while True:
            for record in self._iteration(1.0):
                yield record
                self._accept_in_time()

    def _iteration(self, timeout: float) -> Iterator[Record[K, V]]:
        """Records that an iteration has not taken yet, or else those of a poll."""
        with self._use():
            if not self._has_pending:
                self._iterate(self._poll(timeout))
            return self._pending

    @property
    def _has_pending(self) -> bool:
        return length_hint(self._pending) > 0

    def _iterate(self, parts: Parts) -> None:
        self._pending = iter([record for _, records in parts for record in records])
        self._iterates = bool(parts)
        self._hand_over()
        self._accept_at_ms = self._clock.monotonic_ms() + ACCEPT_EVERY_MS

    def _accept_in_time(self) -> None:
        """The user takes the next record: it is done with the one before, and others can be told,
        before the locks of a long list end.
        """
        if self._explicit or self._clock.monotonic_ms() < self._accept_at_ms or self._closed:
            return
        with self._use():
            now_ms = self._clock.monotonic_ms()
            self._accept_at_ms = now_ms + ACCEPT_EVERY_MS
            self._loop.ask(self._core.acknowledge, now_ms, self._done_with())

    def _take_pending(self) -> ConsumerRecords[K, V]:
        """The records that an iteration left, now in the caller's hands."""
        left = list(self._pending)
        if not left:
            return ConsumerRecords({})
        now_ms = self._clock.monotonic_ms()
        done = self._done_with(len(left))
        self._pending, self._iterates = iter(left), False
        with self._loop.lock:
            undecided = len(self._core.hand) - len(left) if self._explicit else 0
        self._refuse_undecided(undecided)
        self._pending = iter(())
        self._loop.ask(self._core.on_user_poll, now_ms, done, wants=False)
        return grouped([(TopicPartition(r.topic, r.partition), [r]) for r in left], {})

    def _poll(self, timeout: float) -> Parts:
        timeout_s = seconds(timeout)
        deadline_ms = self._clock.monotonic_ms() + timeout_s * 1000
        found = self._begin_poll()
        try:
            while not found:
                left_s = (deadline_ms - self._clock.monotonic_ms()) / 1000
                if not self._waiting.until(left_s, lambda _: self._core.has_news or None):
                    return []
                found = self._look()
            return found
        finally:
            self._end_poll(found)

    def _begin_poll(self) -> Parts:
        """Be done with what was returned, and look for more."""
        self._waiting.run_callbacks()
        if not self._core.topics:
            raise errors.InvalidRequest("the share consumer is not subscribed to any topics")
        self._found = []  # of a poll that was interrupted: it comes again when its locks end
        now_ms = self._clock.monotonic_ms()
        self._metrics.polled(now_ms)
        done = self._done_with()
        with self._loop.lock:
            undecided = len(self._core.hand) if self._explicit else 0
            wants = not (undecided or self._core.hand.renews or self._collector.has_some)
            self._core.on_user_poll(now_ms, done, wants=wants)
        self._loop.poke()
        self._refuse_undecided(undecided)
        self._waiting.raise_faults()
        return self._look()

    def _refuse_undecided(self, count: int) -> None:
        if count:
            raise errors.InvalidRequest(
                f"{count} records that were returned are not acknowledged: in the explicit mode "
                "acknowledge() each of them before the next poll"
            )

    def _look(self) -> Parts:
        """The records that are there. If none is, have records fetched."""
        self._waiting.run_callbacks()
        with self._loop.lock:
            hand = self._core.hand
            if hand.renews:
                if hand.awaits_renewals:
                    return []
                return [(place.topic_partition, back) for place, back in hand.take_renewed()]
        self._found = self._collector.collect()
        self._iterates = False
        if not self._found:
            self._loop.ask(self._core.requests.want)
        return [(each.partition.topic_partition, list(records)) for each, records in self._found]

    def _end_poll(self, found: Parts) -> None:
        with self._loop.lock:
            self._core.requests.stop()
        count = sum(len(records) for _, records in found)
        self._metrics.poll_ended(self._clock.monotonic_ms(), count)

    # ---- acknowledgements ---------------------------------------------------------------------

    def acknowledge(self, record: Record, type: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Say what becomes of a record: ACCEPT, RELEASE (it is delivered again), REJECT (it is not)
        or RENEW (its lock begins anew, and a later poll returns it again). It is sent with the next
        poll or commit; until then the last word counts.

        InvalidRequest in the implicit mode, and for a record that was not returned by the last poll
        or is acknowledged already.
        """
        with self._use():
            if not self._explicit:
                raise errors.InvalidRequest(
                    "acknowledge() is for share_acknowledgement_mode='explicit'; in the implicit "
                    "mode polls accept what was returned before"
                )
            if not isinstance(type, AcknowledgeType):
                raise errors.InvalidRequest(f"type={shown(type)}: give an AcknowledgeType")
            if not isinstance(record, Record):
                raise errors.InvalidRequest(f"record={shown(record)}: give a record of a poll")
            with self._loop.lock:
                tp = TopicPartition(record.topic, record.partition)
                self._core.hand.decide(tp, record.offset, type)

    def commit(self, *, timeout: float | None = None) -> CommitResults:
        """Send what is acknowledged, and tell what became of it: by partition None, or why the
        acknowledgements do not count (InvalidRecordState when a lock has ended, ...). In the
        implicit mode that is all that was returned.

        RequestTimedOut stands for a partition whose broker has not answered within `timeout`
        seconds (default: those of `default_api_timeout_ms`).
        """
        with self._use():
            timeout_s = seconds_or_none(timeout)
            timeout_ms = self._timeout_ms if timeout_s is None else round(timeout_s * 1000)
            self._waiting.run_callbacks()
            now_ms = self._clock.monotonic_ms()
            answer = self._loop.ask(self._core.commit, now_ms, self._done_with(), timeout_ms)
            results = self._waiting.answer(answer)
            self._waiting.run_callbacks()
            return results

    def commit_async(self) -> None:
        """Send what is acknowledged, without waiting; `set_acknowledgement_commit_callback` tells
        what becomes of it.
        """
        with self._use():
            self._waiting.run_callbacks()
            self._loop.ask(self._core.acknowledge, self._clock.monotonic_ms(), self._done_with())

    def set_acknowledgement_commit_callback(self, callback: OnAcknowledged | None) -> None:
        """Have `callback(offsets, error)` called within polls, commits and `close`, for each
        partition whose acknowledgements were answered: offsets by partition, and None or why they
        do not count. None: no more.
        """
        with self._use():
            if callback is not None and not callable(callback):
                raise errors.InvalidRequest(
                    f"callback={shown(callback)}: give a callable (offsets, error), or None"
                )
            check_plain(callback, "callback")
            with self._loop.lock:
                self._core.listen(callback)

    def acquisition_lock_timeout_ms(self) -> int | None:
        """The time for which records are locked for the consumer that got them (KIP-1222), as a
        broker told last; None before the first records.
        """
        with self._use():
            return self._core.requests.lock_timeout_ms

    def _done_with(
        self, not_taken: int | None = None, *, but_last: bool = False
    ) -> list[AckParcel]:
        """The user's decisions or, in the implicit mode, all that it has taken."""
        with self._loop.lock:
            hand = self._core.hand
            if self._explicit:
                return hand.take_decided()
            left = length_hint(self._pending) if not_taken is None else not_taken
            return hand.accept(max(len(hand) - left - but_last, 0))

    # ---- the rest of the surface --------------------------------------------------------------

    def wakeup(self) -> None:
        """Have a call that waits, or the next one, raise WokenUp. From any thread."""
        self._waiting.wake()

    def metrics(self) -> dict[str, float]:
        """By Kafka's names where it has them: totals since the start, rates, averages and maxima
        over the last minute.
        """
        return self._metrics.read(self._clock.monotonic_ms())

    def close(self, timeout: float | None = None) -> None:
        """Send what is acknowledged, release all other records that this consumer has, leave the
        group, and let go of connections: within `timeout` seconds (default: 30). As in Kafka it
        does not accept what the last poll returned; an iteration's last record counts as not done.
        """
        given_s = seconds_or_none(timeout)
        if not self._closed:
            self._end(CLOSE_S if given_s is None else given_s, accepts=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """As `close`. Without an error what was returned is accepted, in the implicit mode."""
        if not self._closed:
            self._end(CLOSE_S, accepts=error is None)

    def _end(self, timeout_s: float, *, accepts: bool) -> None:
        raised: BaseException | None = None
        if not self._thread.is_current():
            with self._turn.use():
                self._waiting.refuse_in_callback()
                raised = self._end_sharing(timeout_s, accepts)
        self._closed = self._loop.closed = True
        with self._loop.lock:
            self._loop.notify()
        closing = self._thread.start(self._loop.close())
        if not self._thread.is_current():
            closing.result()
        if raised is not None:
            raise raised

    def _end_sharing(self, timeout_s: float, accepts: bool) -> BaseException | None:
        """Acknowledge, end the share sessions, and leave, as far as the time allows; what the
        user's callback has raised.
        """
        now_ms = self._clock.monotonic_ms()
        deadline_ms = now_ms + round(timeout_s * 1000)
        done = []
        if self._explicit or accepts or self._iterates:
            done = self._done_with(but_last=not accepts)
        with self._loop.lock:
            hand = self._core.hand
            in_hand = len(hand) - length_hint(self._pending)
            self._core.acknowledge(now_ms, [*done, *hand.release(in_hand)])
            self._collector.clear()
            ended = self._core.requests.close()
        self._loop.poke()
        if not self._waiting.settle(ended, deadline_ms):
            logger.warning(
                "the share consumer of group %r could not tell all brokers that it ends: what it "
                "has acquired is released when its locks end",
                self._core.identity.group_id,
            )
        self._waiting.settle(self._loop.ask(self._core.leave), deadline_ms)
        try:
            self._waiting.run_callbacks()
        except BaseException as error:  # noqa: BLE001  raised when the rest is done
            return error
        return None

    def _on_fork(self) -> None:
        """In a forked child: nothing would come."""
        self._closed = True
        self._turn = OneThread()

    def _close_at_exit(self) -> None:
        """The interpreter ends without a `close()`: others need not wait for the locks to end."""
        if not self._closed:
            self._end(AT_EXIT_S, accepts=False)

    @contextmanager
    def _use(self) -> Iterator[None]:
        """The calling thread uses the consumer; a second one at the same time is refused."""
        with self._turn.use():
            self._waiting.refuse_in_callback()
            if self._closed:
                raise self._thread.closed("the share consumer")
            yield

    # ---- the loop's side ----------------------------------------------------------------------

    def _on_metadata(self, _faulty: list[TopicInfo]) -> None:
        self._loop.step(self._core.on_metadata)
