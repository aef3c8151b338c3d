"""confluent-kafka's `Consumer` over pylog's consumer."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import Any, Final

from pylog import errors, model
from pylog.client.admin.admin import AdminClient
from pylog.client.consumer import consumer as pylog_consumer
from pylog.clock import SYSTEM_CLOCK
from pylog.compat.confluent_kafka import settings
from pylog.compat.confluent_kafka.admin.metadata import (
    ClusterMetadata,
    cluster_metadata,
    seconds,
)
from pylog.compat.confluent_kafka.error import (
    KafkaError,
    error_of,
    exception_of,
    local,
    translating,
)
from pylog.compat.confluent_kafka.events import Deadline
from pylog.compat.confluent_kafka.model import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    Message,
    TopicPartition,
    about,
    message_of,
)
from pylog.compat.confluent_kafka.statistics import Statistics
from pylog.compat.confluent_kafka.turns import Turns, in_turn
from pylog.compat.new_topics import NewTopics

OnRebalance = Callable[[Any, list[TopicPartition]], Any]

_STEP_S: Final = 0.1
"""The time of each wait within a poll: then other threads have their turn, and the ends of
partitions are looked at.
"""
_AGAIN_MS: Final = 30_000
"""The interval at which a poll tells of the same error."""
_LOOKED_UP: Final = {OFFSET_BEGINNING: "earliest", OFFSET_END: "latest"}


class Consumer:
    """Reads messages. Callbacks are called by `poll` and `consume`. Threads may share it: their
    calls take turns, and those of a `poll` that waits let others in between.

    Settings are librdkafka's, in a dictionary, by keyword, or both.
    """

    def __init__(self, *config: dict[str, Any], **named: Any) -> None:
        parsed = settings.parse(settings.merged(config, named), settings.CONSUMER)
        if not parsed.passed.get("group.id"):
            raise ValueError("Failed to create consumer: group.id must be set")
        self._on_commit = parsed.callback("on_commit")
        self._error_cb = parsed.callback("error_cb")
        self._stats_cb = parsed.callback("stats_cb")
        parsed.callback("throttle_cb")
        self._stores = parsed.flag("enable.auto.offset.store", True)
        self._tells_ends = parsed.flag("enable.partition.eof", False)
        self._makes_topics = parsed.flag("allow.auto.create.topics", False)
        values = settings.consumer_settings(parsed)
        self._commits = bool(values.pop("enable_auto_commit", True))
        self._commit_every_ms = int(values.pop("auto_commit_interval_ms", 5_000))
        self._statistics = Statistics(
            str(values.get("client_id", "rdkafka")),
            "consumer",
            parsed.number("statistics.interval.ms", 0) if self._stats_cb else 0,
        )
        self._admin_values = settings.admin_settings(parsed)
        self._admin: AdminClient | None = None
        self._isolation: Any = values["isolation_level"]
        try:
            self._consumer = pylog_consumer.Consumer(**values, enable_auto_commit=False)
        except errors.InvalidConfig as error:
            raise local(KafkaError._INVALID_ARG, str(error)) from error
        self._stored: dict[model.TopicPartition, model.OffsetAndMetadata] = {}
        self._consumed: dict[model.TopicPartition, int] = {}
        self._ends_told: dict[model.TopicPartition, int] = {}
        self._ready: deque[Message[Any, Any]] = deque()
        self._commit_due_ms = SYSTEM_CLOCK.monotonic_ms() + self._commit_every_ms
        self._told_at_ms: dict[str, int] = {}  # of errors that would come with each poll
        self._stopped: set[model.TopicPartition] = set()  # assigned, and read no more
        self._later: deque[Callable[[], None]] = deque()  # what the next poll has to tell
        self._turns = Turns()
        self._assigning: frozenset[model.TopicPartition] | None = None  # of the callback that runs
        self._revoking = False
        self._reads = False  # nothing is subscribed to or assigned yet
        self._closed = False

    # ---- what to read -------------------------------------------------------------------------

    @in_turn
    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: OnRebalance | None = None,
        on_revoke: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
    ) -> None:
        """Read these topics with the group's other members; a name that begins with ^ is a pattern.

        The callbacks get the consumer and a list of partitions, within polls. `on_assign` may set
        offsets and call `assign`, also with some of them only; for partitions that are lost without
        `on_lost`, `on_revoke` is called.
        """
        self._check_open()
        if isinstance(topics, str) or not isinstance(topics, Iterable):
            raise TypeError("expected list of topic unicode strings")
        names = list(topics)
        if not all(isinstance(name, str) for name in names):
            raise TypeError("expected list of topic unicode strings")
        for callback in (on_assign, on_revoke, on_lost):
            if callback is not None and not callable(callback):
                raise TypeError(f"{callback!r}: expected a callable")
        listener = _Listening(self, on_assign, on_revoke, on_lost)
        self._reads = bool(names)
        with translating():
            if any(name.startswith("^") for name in names):
                self._consumer.subscribe(pattern=_pattern(names), listener=listener)
                return
            if self._makes_topics:
                NewTopics(self._admin_client()).ensure(names)
            self._consumer.subscribe(names, listener=listener)

    @in_turn
    def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        self._check_open()
        self._commit_stored_now()
        with translating():
            self._consumer.unsubscribe()
        self._reads = False
        self._forget()

    @in_turn
    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read exactly these partitions, each from its offset: a number, OFFSET_BEGINNING,
        OFFSET_END, or, without one, where the group has committed.
        """
        self._check_open()
        wanted = _ours(partitions)
        with translating():
            if self._assigning is not None:
                self._stop(self._assigning.difference(wanted))
            else:
                if not self._consumer.assignment().isdisjoint(wanted):
                    self._consumer.assign(())  # or they would keep their positions
                self._consumer.assign(wanted)
                self._reads = bool(wanted)
                self._forget()
            self._begin(partitions)

    @in_turn
    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions as well."""
        self._check_open()
        more = _ours(partitions)
        with translating():
            if self._assigning is not None:
                self._stop(self._assigning.difference(more))
            else:
                self._consumer.assign([*self._consumer.assignment(), *more])
                self._reads = True
            self._begin(partitions)

    @in_turn
    def unassign(self) -> None:
        """Read nothing."""
        self._check_open()
        if not self._revoking:
            with translating():
                self._consumer.assign(())
            self._reads = False
            self._forget()

    @in_turn
    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions no more."""
        self._check_open()
        gone = set(_ours(partitions))
        if not self._revoking:
            with translating():
                self._consumer.assign([t for t in self._consumer.assignment() if t not in gone])
            self._drop(gone)

    def _begin(self, partitions: Sequence[TopicPartition]) -> None:
        """Go to the offsets that the partitions name."""
        assigned = self._consumer.assignment()
        for given in partitions:
            tp = given.ours()
            if tp in assigned and given.offset not in (OFFSET_INVALID, OFFSET_STORED):
                self._go(tp, given.offset)

    def _go(self, tp: model.TopicPartition, offset: int) -> None:
        if offset == OFFSET_BEGINNING:
            self._consumer.seek_to_beginning(tp)
        elif offset == OFFSET_END:
            self._consumer.seek_to_end(tp)
        else:
            self._consumer.seek(tp, offset)
        self._consumed.pop(tp, None)
        self._ends_told.pop(tp, None)
        if tp in self._stopped:
            self._stopped.discard(tp)
            self._consumer.resume(tp)

    def _stop(self, left: Collection[model.TopicPartition]) -> None:
        """Read no more of these until they are assigned anew, or a seek says where to go on."""
        if left:
            self._stopped.update(left)
            self._consumer.pause(left)

    def _forget(self) -> None:
        for each in (self._stored, self._consumed, self._ends_told):
            each.clear()
        self._stopped.clear()

    def _drop(self, gone: Iterable[model.TopicPartition]) -> None:
        for tp in gone:
            self._stopped.discard(tp)
            for each in (self._stored, self._consumed, self._ends_told):
                each.pop(tp, None)

    @in_turn
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        self._check_open()
        with translating():
            return [TopicPartition(*tp) for tp in sorted(self._consumer.assignment())]

    # ---- messages -----------------------------------------------------------------------------

    def poll(self, timeout: float | None = -1) -> Message[Any, Any] | None:
        """The next message, or one that tells of an error; None after `timeout` seconds."""
        self._check_open()
        return self._next(Deadline(timeout))

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message[Any, Any]]:
        """`num_messages` messages, or as many as have come after `timeout` seconds."""
        self._check_open()
        if not 0 <= num_messages <= 1_000_000:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        deadline = Deadline(timeout)
        found: list[Message[Any, Any]] = []
        while len(found) < num_messages:
            message = self._next(deadline)
            if message is None:
                break
            found.append(message)
        return found

    def _next(self, deadline: Deadline) -> Message[Any, Any] | None:
        while True:
            with self._turns:
                if self._closed:  # by another thread, while this one had to wait
                    return None
                message = self._step(deadline)
            if message is not None:
                return message
            if deadline.has_passed():
                return None

    def _step(self, deadline: Deadline) -> Message[Any, Any] | None:
        """One wait of a poll."""
        while self._later:
            self._later.popleft()()
        self._commit_when_due()
        self._tell_statistics()
        if not self._ready:
            message = self._read(min(deadline.left_s(), _STEP_S, self._statistics.left_s()))
            if message is not None:
                return message
        return self._ready.popleft() if self._ready else None

    def _read(self, wait_s: float) -> Message[Any, Any] | None:
        if not self._reads:
            SYSTEM_CLOCK.sleep(wait_s)
            return None
        try:
            for record in self._consumer._iteration(wait_s):
                tp = model.TopicPartition(record.topic, record.partition)
                self._consumed[tp] = record.offset + 1
                if self._stores:
                    self._stored[tp] = model.OffsetAndMetadata(
                        record.offset + 1, "", record.leader_epoch
                    )
                return message_of(record)
            if self._tells_ends:
                self._look_at_ends()
        except errors.ClientClosed as error:
            raise RuntimeError("Consumer closed") from error
        except errors.WrongThread as error:
            raise exception_of(error) from error
        except errors.PylogError as error:
            return self._told_of(error, wait_s)
        return None

    def _told_of(self, error: errors.PylogError, wait_s: float) -> Message[Any, Any] | None:
        """A message about an error; one that would come with each poll comes once in a while."""
        unknown = isinstance(error, errors.UnknownTopicOrPartition)
        if unknown and self._makes_topics:
            with translating():
                NewTopics(self._admin_client()).ensure(self._consumer.subscription())
            return None
        told = error_of(error)
        tp = error.topic_partition
        lost = isinstance(error, errors.NoOffsetForPartition | errors.OffsetOutOfRange)
        if lost:
            told = KafkaError(KafkaError._AUTO_OFFSET_RESET, str(error))
            if tp is not None:  # it would keep the other partitions from being read
                self._stop({tp})
        down = isinstance(error, errors.BootstrapFailed)
        if (unknown or lost or down) and not self._is_news(str(error)):
            SYSTEM_CLOCK.sleep(wait_s)
            return None
        if down:
            if self._error_cb is not None:
                self._error_cb(KafkaError(KafkaError._ALL_BROKERS_DOWN, str(error)))
            return None
        if tp is not None:
            return about(told, *tp, self._consumed.get(tp))
        return about(told, error.topic)

    def _is_news(self, text: str) -> bool:
        now_ms = SYSTEM_CLOCK.monotonic_ms()
        if now_ms - self._told_at_ms.get(text, -_AGAIN_MS) < _AGAIN_MS:
            return False
        self._told_at_ms[text] = now_ms
        return True

    def _look_at_ends(self) -> None:
        """Tell of partitions that are read to their ends, once for each end."""
        assigned = self._consumer.assignment() - self._consumer.paused()
        positions = {tp: self._consumer.position(tp) for tp in sorted(assigned)}
        fresh = [tp for tp, at in positions.items() if self._ends_told.get(tp) != at]
        ends = self._consumer.end_offsets(fresh) if fresh else {}
        for tp, end in ends.items():
            if positions[tp] >= end:
                self._ends_told[tp] = positions[tp]
                text = f"read to the end of {tp} at offset {positions[tp]}"
                error = KafkaError(KafkaError._PARTITION_EOF, text)
                self._ready.append(about(error, *tp, positions[tp]))

    def _tell_statistics(self) -> None:
        if self._stats_cb is not None and self._statistics.is_due():
            self._stats_cb(self._statistics.text(self._consumer.metrics(), 0, 0))

    # ---- offsets ------------------------------------------------------------------------------

    @in_turn
    def store_offsets(
        self,
        message: Message[Any, Any] | None = None,
        offsets: Sequence[TopicPartition] | None = None,
    ) -> None:
        """Have these offsets committed with the next commit: behind the message, or as they are."""
        self._check_open()
        chosen = _offsets_of(message, offsets)
        if chosen is None:
            raise ValueError("give a message, or offsets")
        with translating():
            assigned = self._consumer.assignment()
        for tp in chosen:
            if tp not in assigned:
                raise local(KafkaError._STATE, f"{tp} is not assigned to this consumer")
        self._stored.update({tp: at for tp, at in chosen.items() if at.offset >= 0})

    @in_turn
    def commit(
        self,
        message: Message[Any, Any] | None = None,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commit behind the message, or these offsets, or what is stored. With
        `asynchronous=False` it waits, and returns what was committed; `on_commit` hears of it
        within the next poll.
        """
        self._check_open()
        chosen = _offsets_of(message, offsets)
        if chosen is None:
            chosen = dict(self._stored)
        chosen = {tp: at for tp, at in chosen.items() if at.offset >= 0}
        if not chosen:
            nothing = local(KafkaError._NO_OFFSET, "no offset is stored for a commit")
            if not asynchronous:
                raise nothing
            self._committed({}, nothing.args[0])
            return None
        if asynchronous:
            with translating():
                self._consumer.commit_async(chosen, self._told)
            self._settle(chosen)
            return None
        with translating():
            self._consumer.commit(chosen)
        self._settle(chosen)
        self._later.append(lambda: self._committed(chosen, None))
        return _list_of(chosen)

    def _settle(self, chosen: dict[model.TopicPartition, model.OffsetAndMetadata]) -> None:
        """Forget stored offsets that are committed: they need not be committed again."""
        for tp, at in chosen.items():
            if self._stored.get(tp) == at:
                del self._stored[tp]

    def _told(self, offsets: Any, error: errors.PylogError | None) -> None:
        self._committed(offsets, None if error is None else error_of(error))

    def _committed(self, offsets: Any, error: KafkaError | None) -> None:
        if self._on_commit is not None:
            told = _list_of(offsets)
            for tp in told:
                tp.error = error
            self._on_commit(error, told)

    def _commit_when_due(self) -> None:
        now_ms = SYSTEM_CLOCK.monotonic_ms()
        if not self._commits or now_ms < self._commit_due_ms:
            return
        self._commit_due_ms = now_ms + self._commit_every_ms
        if self._stored:
            chosen = dict(self._stored)
            with translating():
                self._consumer.commit_async(chosen, self._told)
            self._settle(chosen)

    def _commit_stored_now(self, only: Iterable[model.TopicPartition] | None = None) -> None:
        """Commit what is stored, as far as that can be done; a failure goes to `on_commit`."""
        wanted = set(self._stored if only is None else only)
        chosen = {tp: at for tp, at in self._stored.items() if tp in wanted}
        if not self._commits or not chosen:
            return
        try:
            self._consumer.commit(chosen)
        except errors.PylogError as error:
            self._told(chosen, error)
            return
        self._settle(chosen)
        self._committed(chosen, None)

    @in_turn
    def committed(
        self, partitions: Sequence[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """The group's positions; OFFSET_INVALID where it has none."""
        self._check_open()
        wanted = _ours(partitions)
        with translating():
            found = self._consumer.committed(wanted, timeout=seconds(timeout)) if wanted else {}
        told = []
        for tp in wanted:
            at = found[tp]
            offset = OFFSET_INVALID if at is None else at.offset
            metadata = None if at is None else at.metadata or None
            told.append(TopicPartition(*tp, offset, metadata, at and at.leader_epoch))
        return told

    @in_turn
    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Behind the last message of each; OFFSET_INVALID where there was none."""
        self._check_open()
        return [
            TopicPartition(*tp, self._consumed.get(tp, OFFSET_INVALID)) for tp in _ours(partitions)
        ]

    @in_turn
    def seek(self, partition: TopicPartition) -> None:
        """The partition's next message is the one at its offset."""
        self._check_open()
        (tp,) = _ours([partition])
        with translating():
            if tp not in self._consumer.assignment():
                raise local(KafkaError._STATE, f"{partition} is not assigned to this consumer")
            self._go(tp, partition.offset)

    @in_turn
    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Return no messages of these partitions until `resume`. Those that are not assigned are
        left out: they may have been, when the caller last looked.
        """
        self._check_open()
        with translating():
            here = self._assigned(partitions)
            if here:
                self._consumer.pause(here)

    @in_turn
    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Undo `pause`."""
        self._check_open()
        with translating():
            here = self._assigned(partitions) - self._stopped
            if here:
                self._consumer.resume(here)

    def _assigned(self, partitions: Sequence[TopicPartition]) -> set[model.TopicPartition]:
        return set(_ours(partitions)) & self._consumer.assignment()

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """The first offset, and the one behind the last message."""
        self._check_open()
        (tp,), admin = _ours([partition]), self._admin_client()
        with translating():
            low = admin.list_offsets({tp: "earliest"}, timeout=seconds(timeout))[tp]
            high = admin.list_offsets({tp: "latest"}, timeout=seconds(timeout))[tp]
        return (0 if low is None else low.offset), (0 if high is None else high.offset)

    def offsets_for_times(
        self, partitions: Sequence[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """The first message at or after the time that stands in `offset`; OFFSET_END where none is
        that late. Where `offset` is OFFSET_BEGINNING or OFFSET_END, that offset.
        """
        self._check_open()
        places = _ours(partitions)
        wanted = {
            tp: _LOOKED_UP.get(given.offset, given.offset)
            for tp, given in zip(places, partitions, strict=True)
        }
        faults: dict[Any, errors.PylogError] = {}
        with translating():
            try:
                found = self._admin_client().list_offsets(
                    wanted, isolation_level=self._isolation, timeout=seconds(timeout)
                )
            except errors.PartialFailure as failure:
                found, faults = dict(failure.results), dict(failure.errors)  # type: ignore[arg-type]
        told = []
        for tp in places:
            at = found.get(tp)
            one = TopicPartition(*tp, OFFSET_END if at is None else at.offset)
            one.error = error_of(faults[tp]) if tp in faults else None
            told.append(one)
        return told

    # ---- the rest -----------------------------------------------------------------------------

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster with its topics, or with one."""
        self._check_open()
        return cluster_metadata(self._admin_client(), topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str:
        """The cluster's id."""
        return str(self.list_topics(timeout=timeout).cluster_id)

    @in_turn
    def consumer_group_metadata(self) -> model.ConsumerGroupMetadata:
        """The identity of this consumer in its group, for `send_offsets_to_transaction`."""
        self._check_open()
        with translating():
            return self._consumer.group_metadata()

    def memberid(self) -> str:
        """The member's id; empty while it is in no group."""
        return self.consumer_group_metadata().member_id

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Raises KafkaException: pylog has no authentication yet."""
        raise local(KafkaError._UNSUPPORTED_FEATURE, "pylog has no authentication yet")

    def _admin_client(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(**self._admin_values)
        return self._admin

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Consumer closed")

    @in_turn
    def close(self) -> None:
        """Commit what is stored, where that is done by itself, leave the group, and let go of
        connections.
        """
        if self._closed:
            return
        self._commit_stored_now()
        with translating():
            self._consumer.close()
            if self._admin is not None:
                self._admin.close()
        self._closed = True

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        exc_traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Listening:
    """Passes on what pylog tells of partitions, with the consumer and confluent-kafka's."""

    def __init__(
        self,
        consumer: Consumer,
        on_assign: OnRebalance | None,
        on_revoke: OnRebalance | None,
        on_lost: OnRebalance | None,
    ) -> None:
        self._consumer = consumer
        self._assigned, self._revoked, self._lost = on_assign, on_revoke, on_lost or on_revoke

    def on_partitions_assigned(self, partitions: Sequence[model.TopicPartition]) -> None:
        """These are new."""
        if self._assigned is not None:
            self._consumer._assigning = frozenset(partitions)
            try:
                self._assigned(self._consumer, _plain(partitions))
            finally:
                self._consumer._assigning = None

    def on_partitions_revoked(self, partitions: Sequence[model.TopicPartition]) -> None:
        """These are read no more, and can still be committed."""
        self._tell(self._revoked, partitions)
        self._consumer._commit_stored_now(partitions)
        self._consumer._drop(partitions)

    def on_partitions_lost(self, partitions: Sequence[model.TopicPartition]) -> None:
        """These may be another member's by now."""
        self._tell(self._lost, partitions)
        self._consumer._drop(partitions)

    def _tell(
        self, callback: OnRebalance | None, partitions: Sequence[model.TopicPartition]
    ) -> None:
        if callback is not None:
            self._consumer._revoking = True
            try:
                callback(self._consumer, _plain(partitions))
            finally:
                self._consumer._revoking = False


def _plain(partitions: Iterable[model.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(*tp) for tp in sorted(partitions)]


def _pattern(names: Sequence[str]) -> re.Pattern[str]:
    """One pattern for librdkafka's names: expressions match where a name begins, other names match
    whole.
    """
    parts = [f"(?:{n}).*" if n.startswith("^") else re.escape(n) for n in names]
    try:
        return re.compile("|".join(parts))
    except re.error as error:
        raise local(KafkaError._INVALID_ARG, f"subscription {names!r}: {error}") from error


def _ours(partitions: Iterable[TopicPartition]) -> list[model.TopicPartition]:
    """pylog's partitions; TypeError for what is no list of them."""
    if isinstance(partitions, str | bytes) or not isinstance(partitions, Iterable):
        raise TypeError("requires list of TopicPartition")
    listed = list(partitions)
    for each in listed:
        if not isinstance(each, TopicPartition):
            raise TypeError(f"expected TopicPartition, not {type(each).__name__}")
    return [each.ours() for each in listed]


def _offsets_of(
    message: Message[Any, Any] | None, offsets: Sequence[TopicPartition] | None
) -> dict[model.TopicPartition, model.OffsetAndMetadata] | None:
    if message is not None and offsets is not None:
        raise ValueError("message and offsets are mutually exclusive")
    if message is not None:
        if not isinstance(message, Message):
            raise TypeError(f"expected Message, not {type(message).__name__}")
        error, offset = message.error(), message.offset()
        if error is not None:
            text = f"the message has an error and no offset to commit: {error.str()}"
            raise local(KafkaError._INVALID_ARG, text)
        if offset is None:
            raise ValueError("the message has no offset")
        tp = model.TopicPartition(str(message.topic()), int(message.partition() or 0))
        return {tp: model.OffsetAndMetadata(offset + 1, "", message.leader_epoch())}
    if offsets is None:
        return None
    return {
        tp: model.OffsetAndMetadata(given.offset, given.metadata or "", given.leader_epoch)
        for tp, given in zip(_ours(offsets), offsets, strict=True)
    }


def _list_of(offsets: Any) -> list[TopicPartition]:
    return [
        TopicPartition(tp[0], tp[1], at.offset if hasattr(at, "offset") else at)
        for tp, at in offsets.items()
    ]
