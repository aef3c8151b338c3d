"""kafka-python's `KafkaConsumer` over pylog's consumer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, ClassVar, Final

from pylog import errors, model
from pylog.client.consumer.consumer import Consumer
from pylog.clock import SYSTEM_CLOCK
from pylog.compat.kafka_python import settings
from pylog.compat.kafka_python.clusters import admin_of
from pylog.compat.kafka_python.consumer.fetcher import ConsumerRecord, consumer_record
from pylog.compat.kafka_python.consumer.subscription_state import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
    Listening,
)
from pylog.compat.kafka_python.errors import IllegalStateError, KafkaConfigurationError
from pylog.compat.kafka_python.future import Future
from pylog.compat.kafka_python.serializer import converter
from pylog.compat.kafka_python.structs import (
    ConsumerGroupMetadata,
    MemberState,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    committed_of,
    ours,
    position_of,
    theirs,
)
from pylog.compat.kafka_python.translation import constructing, translated, translating
from pylog.compat.new_topics import NewTopics
from pylog.model import topic_name_fault
from pylog.records.record import Record

_STEP_S: Final = 1.0
"""The time of each wait of an iteration without `consumer_timeout_ms`."""
_MISSING_S: Final = 0.1
"""The time between two looks for a topic that is not there."""
_IN_USE_S: Final = 0.02
"""The time between two looks whether another thread's poll has ended."""

_FLAGS: Final = re.compile(r"\(\?[aiLmsux]+\)")
"""Of a whole expression, at its beginning."""

Committed = Callable[[Any, Any], Any]


class KafkaConsumer:
    """Reads records, for one thread at a time. The constructor waits for the cluster.

    Settings are kafka-python's, with its defaults; an unknown one is a KafkaConfigurationError.
    With `allow_auto_create_topics`, the default, topics that do not exist are made when they are
    subscribed to. Another thread may close it, and ask for offsets that the brokers know.
    """

    DEFAULT_CONFIG: ClassVar[Mapping[str, Any]] = settings.CONSUMER_DEFAULTS

    def __init__(self, *topics: str, **configs: Any) -> None:
        strange = settings.unknown(configs, settings.CONSUMER | settings.CONSUMER_OWN)
        if strange:
            raise KafkaConfigurationError(f"Unrecognized configs: {sorted(strange)}")
        if configs.get("default_offset_commit_callback") is not None:
            raise KafkaConfigurationError(
                "default_offset_commit_callback is not called for commits that happen by "
                "themselves: give commit_async(callback=...), or turn enable_auto_commit off"
            )
        if configs.get("group_instance_id") is not None and configs.get("group_id") is None:
            raise KafkaConfigurationError("group_instance_id requires group_id")
        self.config = {**self.DEFAULT_CONFIG, **configs}
        self._deserialize_key = converter(
            "key_deserializer", configs.get("key_deserializer"), "deserialize"
        )
        self._deserialize_value = converter(
            "value_deserializer", configs.get("value_deserializer"), "deserialize"
        )
        self._group_id: str | None = configs.get("group_id")
        self._closed = False
        self._polls = False  # in this moment, in some thread
        self._by: str | None = None  # "subscribe" or "assign"
        self._pattern: re.Pattern[str] | None = None
        with constructing():
            values = settings.consumer_settings(configs)
            self._admin = admin_of(configs)
            try:
                self._consumer = Consumer(**values)
            except BaseException:
                self._admin.close()
                raise
        made = self.config["allow_auto_create_topics"]
        self._new_topics = NewTopics(self._admin) if made else None
        if topics:
            self.subscribe(topics=topics)

    # ---- what to read -------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Sequence[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | AsyncConsumerRebalanceListener | None = None,
    ) -> None:
        """Read these topics, or those whose names begin with a match of `pattern`: with a group the
        partitions that it gives this consumer, else all.
        """
        self._check_open()
        if not topics and not pattern:
            raise ValueError("Must provide topics or pattern")
        if topics and pattern:
            raise IllegalStateError("subscribe to topics or to a pattern, not to both")
        if isinstance(topics, str) or not isinstance(topics, Sequence):
            raise TypeError("Topics must be a list (or non-str sequence)")
        for topic in topics:
            _check_topic(topic)
        self._choose_way("subscribe")
        told = _listening(listener)
        if self._group_id is None:
            told = None  # nobody takes partitions away
        self._pattern = re.compile(pattern) if pattern else None
        with translating():
            if self._pattern is not None:
                self._consumer.subscribe(pattern=beginning(self._pattern), listener=told)
                return
            if self._new_topics is not None:
                self._new_topics.ensure(topics)
            self._consumer.subscribe(list(topics), listener=told)

    def assign(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Read exactly these partitions; none: as `unsubscribe`."""
        self._check_open()
        chosen = [ours(tp) for tp in partitions]
        if not chosen:
            self.unsubscribe()
            return
        self._choose_way("assign")
        with translating():
            self._consumer.assign(chosen)

    def _choose_way(self, way: str) -> None:
        if self._by not in (None, way):
            raise IllegalStateError(
                f"the consumer was told what to read by {self._by}(): call unsubscribe() before "
                f"{way}()"
            )
        self._by = way

    def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        self._by = self._pattern = None
        with translating():
            self._consumer.unsubscribe()

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        with translating():
            return {theirs(tp) for tp in self._consumer.assignment()}

    def subscription(self) -> set[str] | None:
        """The subscribed topics; None without a subscription."""
        if self._by != "subscribe":
            return None
        with translating():
            return self._consumer.subscription()

    def topics(self) -> set[str]:
        """All topics of the cluster that are not internal."""
        with translating():
            return set(self._admin.list_topics())

    def partitions_for_topic(self, topic: str) -> set[int]:
        """The topic's partition numbers; none for a topic that does not exist."""
        with translating():
            try:
                described = self._admin.describe_topics([topic])
            except (errors.UnknownTopicOrPartition, errors.InvalidTopic):
                return set()
        return {p.partition for p in described[topic].partitions}

    # ---- records ------------------------------------------------------------------------------

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records by partition, as soon as there are any; {} after `timeout_ms`.

        An error of a deserializer is raised once all records before have been returned, and again
        until a `seek` passes the record.
        """
        if timeout_ms < 0:
            raise ValueError("Timeout must not be negative")
        if max_records is not None and (
            not isinstance(max_records, int) or isinstance(max_records, bool)
        ):
            raise TypeError("max_records must be an integer")
        if max_records is not None and max_records <= 0:
            raise ValueError("max_records must be positive")
        self._check_open()
        if self._by is None:  # nothing to read yet
            SYSTEM_CLOCK.sleep(timeout_ms / 1000)
            return {}
        until_s = _now_s() + timeout_ms / 1000
        left_s = timeout_ms / 1000
        while True:
            with _Reading(self):
                return self._converted(self._take(left_s, max_records))
            left_s = until_s - _now_s()
            if self._closed or left_s <= 0:
                return {}
            SYSTEM_CLOCK.sleep(min(left_s, _MISSING_S))

    def _take(self, wait_s: float, max_records: int | None) -> list[Record]:
        if max_records is None:
            return list(self._consumer.poll(wait_s))
        # An iteration remembers what was not taken of it.
        return list(islice(self._consumer._iteration(wait_s), max_records))

    def _converted(self, records: list[Record]) -> dict[TopicPartition, list[ConsumerRecord]]:
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for at, record in enumerate(records):
            try:
                one = self._convert(record)
            except Exception:
                self._go_back(records[at:])
                if not found:
                    raise
                break
            found.setdefault(TopicPartition(one.topic, one.partition), []).append(one)
        return found

    def _convert(self, record: Record) -> ConsumerRecord:
        return consumer_record(record, self._deserialize_key, self._deserialize_value)

    def _go_back(self, records: list[Record]) -> None:
        """These were taken, and are not returned: they are read again."""
        first: dict[model.TopicPartition, int] = {}
        for record in records:
            first.setdefault(model.TopicPartition(record.topic, record.partition), record.offset)
        for tp, offset in first.items():
            self._consumer.seek(tp, offset)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        """The next record; StopIteration when none has come for `consumer_timeout_ms`."""
        if self._closed:
            raise StopIteration("KafkaConsumer closed")
        patience_s = self.config["consumer_timeout_ms"] / 1000
        until_s = math.inf if patience_s < 0 else _now_s() + patience_s
        while True:
            left_s = until_s - _now_s()
            with _Reading(self) as reading:
                for record in self._iteration(max(min(left_s, _STEP_S), 0)):
                    try:
                        return self._convert(record)
                    except Exception:
                        self._go_back([record])
                        raise
            if self._closed or left_s <= 0:
                raise StopIteration
            if reading.misses_topic:
                SYSTEM_CLOCK.sleep(min(left_s, _MISSING_S))

    def _iteration(self, wait_s: float) -> Iterator[Record]:
        if self._by is None:  # nothing to read yet
            SYSTEM_CLOCK.sleep(wait_s)
            return iter(())
        return self._consumer._iteration(wait_s)

    def _make_missing(self) -> None:
        """Make subscribed topics that are not there, or not any more, where that is wanted; else
        they are waited for, as kafka-python does.
        """
        if self._new_topics is not None and self._by == "subscribe" and self._pattern is None:
            with translating():
                NewTopics(self._admin).ensure(self._consumer.subscription())

    # ---- positions ----------------------------------------------------------------------------

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """The offset of the next record; None where it is not known after `timeout_ms`."""
        tp = self._assigned(partition)
        with translating():
            try:
                position: int = self._consumer.position(tp, timeout=_seconds(timeout_ms))
            except errors.RequestTimedOut:
                if timeout_ms is None:
                    raise
                return None
            return position

    def highwater(self, partition: TopicPartition) -> int | None:
        """The offset behind the last readable record."""
        tp = self._assigned(partition)
        return self._at((tp,), "latest", None)[theirs(tp)]

    def _assigned(self, partition: Any) -> model.TopicPartition:
        tp = self._checked(partition)
        with translating():
            assigned = self._consumer.assignment()
        if tp not in assigned:
            raise IllegalStateError("Partition is not assigned")
        return tp

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next record is the one at `offset`."""
        tp = self._checked(partition)
        if not isinstance(offset, int) or offset < 0:
            raise ValueError("Offset must be int >= 0")
        self._check_assigned((tp,))
        with translating():
            self._consumer.seek(tp, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first records of these partitions (none given: of all assigned)."""
        chosen = self._chosen(partitions)
        with translating():
            self._consumer.seek_to_beginning(chosen)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last records of these partitions (none given: of all assigned)."""
        chosen = self._chosen(partitions)
        with translating():
            self._consumer.seek_to_end(chosen)

    def _chosen(self, partitions: tuple[TopicPartition, ...]) -> list[model.TopicPartition]:
        chosen = [self._checked(tp) for tp in partitions]
        if not partitions:
            with translating():
                chosen = list(self._consumer.assignment())
            if not chosen:
                raise ValueError("No partitions are currently assigned")
        self._check_assigned(chosen)
        return chosen

    def _check_assigned(self, partitions: Sequence[model.TopicPartition]) -> None:
        with translating():
            assigned = self._consumer.assignment()
        for tp in partitions:
            if tp not in assigned:
                raise ValueError(f"Unassigned partition: {theirs(tp)}")

    def _checked(self, partition: Any) -> model.TopicPartition:
        if not isinstance(partition, TopicPartition):
            raise TypeError("partition must be a TopicPartition namedtuple")
        return ours(partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        chosen = [self._checked(tp) for tp in partitions]
        with translating():
            if chosen:
                self._consumer.pause(chosen)

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        chosen = [self._checked(tp) for tp in partitions]
        with translating():
            if chosen:
                self._consumer.resume(chosen)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        with translating():
            return {theirs(tp) for tp in self._consumer.paused()}

    def beginning_offsets(
        self, partitions: Sequence[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self._at(partitions, "earliest", timeout_ms)

    def end_offsets(
        self, partitions: Sequence[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last readable record of each partition."""
        return self._at(partitions, "latest", timeout_ms)

    def _at(
        self, partitions: Sequence[tuple[str, int]], end: str, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        listed = self._list_offsets({ours(tp): end for tp in partitions}, timeout_ms)
        return {theirs(tp): found.offset for tp, found in listed.items() if found is not None}

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None where none is that late."""
        for tp, timestamp in timestamps.items():
            if timestamp < 0:
                raise ValueError(f"{tp}: the time {timestamp} cannot be negative")
        wanted = {ours(tp): int(timestamp) for tp, timestamp in timestamps.items()}
        return {
            theirs(tp): None
            if found is None
            else OffsetAndTimestamp(found.offset, found.timestamp_ms, found.leader_epoch)
            for tp, found in self._list_offsets(wanted, timeout_ms).items()
        }

    def _list_offsets(
        self, wanted: Mapping[model.TopicPartition, str | int], timeout_ms: float | None
    ) -> dict[model.TopicPartition, model.OffsetAndTimestamp | None]:
        """By the admin client, which takes a time and any thread."""
        wait_ms = self.config["request_timeout_ms"] if timeout_ms is None else timeout_ms
        isolation = settings.isolation_of(self.config["isolation_level"])
        with translating():
            return self._admin.list_offsets(
                wanted, isolation_level=isolation, timeout=wait_ms / 1000
            )

    # ---- the group ----------------------------------------------------------------------------

    def commit(
        self, offsets: Mapping[TopicPartition, Any] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit these positions (none given: what was returned so far), and wait for that."""
        self._check_group()
        with translating():
            self._consumer.commit(_positions(offsets), timeout=_seconds(timeout_ms))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, Any] | None = None,
        callback: Committed | None = None,
    ) -> Future:
        """Commit without waiting. A later poll settles the future and calls
        `callback(offsets, response)`, the response being an exception when that failed.
        """
        self._check_group()
        future = Future()

        def told(done: Any, error: errors.PylogError | None) -> None:
            positions = {theirs(tp): committed_of(position_of(at)) for tp, at in done.items()}
            outcome = True if error is None else translated(error)
            if callback is not None:
                callback(positions, outcome)
            if error is None:
                future.success(outcome)
            else:
                future.failure(outcome)

        with translating():
            self._consumer.commit_async(_positions(offsets), told)
        return future

    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """The group's position: its offset, or all of it with `metadata`; None: it has none."""
        self._check_group()
        tp = self._checked(partition)
        with translating():
            found = self._consumer.committed(tp, timeout=_seconds(timeout_ms))
        if found is None:
            return None
        position = committed_of(found)
        return position if metadata else position.offset

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The identity of this consumer in its group."""
        if self._group_id is None:
            return ConsumerGroupMetadata(None)
        with translating():
            told = self._consumer.group_metadata()
        state = MemberState.STABLE if told.generation >= 0 else MemberState.UNJOINED
        return ConsumerGroupMetadata(
            told.group_id, told.generation, told.member_id, told.instance_id, state
        )

    def _check_group(self) -> None:
        # While the consumer closes, a listener commits what is revoked.
        if self._group_id is None:
            raise IllegalStateError("Requires group_id")

    # ---- the rest -----------------------------------------------------------------------------

    def bootstrap_connected(self) -> bool:
        """Whether the consumer has found its cluster and is not closed."""
        return not self._closed

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Look at the cluster again, within `timeout_ms`."""
        with translating():
            self._admin.describe_cluster(timeout=_seconds(timeout_ms))

    def metrics(self, raw: bool = False) -> dict[str, Any]:
        """Figures by name, in a group `consumer-metrics`, those of fetching also in
        `consumer-fetch-manager-metrics`; with `raw` without groups.
        """
        with translating():
            figures = self._consumer.metrics()
        if raw:
            return dict(figures)
        fetching = {n: v for n, v in figures.items() if n.startswith(("fetch", "records", "bytes"))}
        return {"consumer-metrics": figures, "consumer-fetch-manager-metrics": fetching}

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit what was read, where that is done by itself and `autocommit` says so, leave the
        group, and let go of connections. A poll of another thread ends, as does its iteration.
        """
        if self._closed:
            return
        self._closed = True
        wait_ms = self.config["request_timeout_ms"] if timeout_ms is None else timeout_ms
        with translating():
            self._end(autocommit, wait_ms / 1000)
            self._admin.close()
        for name in ("key_deserializer", "value_deserializer"):
            close = getattr(self.config.get(name), "close", None)
            if callable(close):
                close()

    def _end(self, autocommit: bool, wait_s: float) -> None:
        until_s = _now_s() + wait_s
        while True:
            try:
                self._consumer.close(wait_s, commit=autocommit)
                return
            except errors.WrongThread:
                if _now_s() >= until_s:
                    self._closed = False
                    raise
                if self._polls:
                    self._consumer.wakeup()
                SYSTEM_CLOCK.sleep(_IN_USE_S)

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("KafkaConsumer is closed")

    def __enter__(self) -> KafkaConsumer:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close(autocommit=exc_type is None)


class _Reading:
    """Translates what a poll raises. The block ends without an error when a topic is not there, and
    when the consumer was closed meanwhile: by another thread, or by the handler of a signal.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self.misses_topic = False

    def __enter__(self) -> _Reading:
        self._consumer._polls = True
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        self._consumer._polls = False
        if isinstance(error, errors.UnknownTopicOrPartition):
            self.misses_topic = True
            self._consumer._make_missing()
            return True
        if isinstance(error, errors.ClientClosed | errors.WokenUp) and self._consumer._closed:
            return True
        if isinstance(error, errors.PylogError):
            raise translated(error) from error
        return False


def _now_s() -> float:
    return SYSTEM_CLOCK.monotonic_ms() / 1000


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000


def beginning(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """A pattern that matches the whole of each name that begins with a match."""
    flags = _FLAGS.match(pattern.pattern)
    text = pattern.pattern[flags.end() :] if flags else pattern.pattern
    return re.compile(f"(?:{text}).*", pattern.flags)


def _positions(offsets: Mapping[Any, Any] | None) -> Any:
    if offsets is None:
        return None
    return {ours(tp): position_of(given) for tp, given in offsets.items()}


def _check_topic(topic: Any) -> None:
    if not isinstance(topic, str):
        raise TypeError(f"a topic must be a str, not {topic!r}")
    fault = topic_name_fault(topic)
    if fault is not None:
        raise ValueError(fault)


def _listening(listener: Any) -> Listening | None:
    if listener is None:
        return None
    if isinstance(listener, AsyncConsumerRebalanceListener):
        raise TypeError(
            "an AsyncConsumerRebalanceListener is not taken: its coroutines would have no loop; "
            "write a ConsumerRebalanceListener with plain methods"
        )
    if not isinstance(listener, ConsumerRebalanceListener):
        raise TypeError("listener must be a ConsumerRebalanceListener")
    return Listening(listener)
