"""`Consumer`: records out, in order per partition, prefetched while the user works.

The shell around `fetcher`. Two threads touch the state, under one lock: the user's (one at a time;
others get an error) and pylog's loop, which asks brokers and fills the buffers. Decoding happens on
the user's thread, outside the lock, one batch at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Generic, Unpack, overload

from pylog import errors
from pylog.client.arguments import topics_and_settings
from pylog.client.background import close_at_exit, logger, shared_loop
from pylog.client.callers import check_caller
from pylog.client.closing import Closing
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.cluster_settings import ClusterSettings
from pylog.client.cluster.metadata import TopicInfo
from pylog.client.cluster.offsets import list_offsets, raise_faults
from pylog.client.cluster.shown import Shown
from pylog.client.consumer.collecting import Collector
from pylog.client.consumer.consumer_loop import ConsumerLoop, FetchSettings
from pylog.client.consumer.consumer_records import ConsumerRecords
from pylog.client.consumer.consumer_settings import (
    UserCode,
    fetcher_settings,
    given_names,
    parse_settings,
)
from pylog.client.consumer.group_calls import GroupCalls
from pylog.client.consumer.group_settings import group_settings
from pylog.client.consumer.group_use import CLOSE_S, GroupUse
from pylog.client.consumer.one_thread import OneThread
from pylog.client.consumer.poll_waiting import PollWaiting
from pylog.client.consumer.whole_reads import READ_S, WholeRead, deserialized, needed
from pylog.client.fetching.consumer_core import ConsumerCore
from pylog.client.fetching.subscription import Subscription
from pylog.client.fetching.user_events import (
    Assign,
    Pause,
    Resume,
    Seek,
    SeekTo,
    StartFetching,
    Subscribe,
    UserEvent,
)
from pylog.client.membership.offset_commits import OnCommitted
from pylog.client.membership.wire import GroupWire
from pylog.client.timeouts import seconds, seconds_or_none
from pylog.client.topics_and_partitions import (
    Partitions,
    check_topic,
    is_single,
    one_partition,
    seek_target,
    some_partitions,
    times_by_partition,
)
from pylog.client.typed_settings import ConsumerSettings, Deserialize, HasDeserialize
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from pylog.records.record import K, Record, V

if TYPE_CHECKING:
    import re
    from types import TracebackType

    import pandas as pd
    import pyarrow as pa

AT_EXIT_S: Final = 1.0
"""The time for which the end of a program waits for a group that the user has not left."""


class Consumer(Closing, Shown, Generic[K, V]):
    """Reads records. For one thread at a time; `wakeup()` alone may come from another.

    Settings are Kafka's with underscores, or a dictionary of its dotted names before the topics.

    With a `group_id` it shares the partitions of its topics with the other members of the group,
    begins in each where the group has committed, and commits now and then what it has read
    (`enable_auto_commit`). Without one it assigns itself all partitions of its topics, and those
    that are added later as metadata tells of them (`metadata_max_age_ms`); two such consumers both
    get every record. Where nothing is committed it begins where `auto_offset_reset` says: 'latest'
    means the end of the log, without a group that at the time of construction, 'earliest' its
    start, 'none' is an error unless you seek().

    Methods that ask brokers raise RequestTimedOut or BootstrapFailed after `timeout` seconds
    (default: those of `default_api_timeout_ms`), and UnknownTopicOrPartition for a topic or
    partition that does not exist; methods about an assigned partition, or all of them, raise
    InvalidRequest for one that is not assigned. After `close` everything raises ClientClosed, from
    a second thread at the same time WrongThread.
    """

    @overload
    def __init__(
        self: Consumer[Any, Any],
        config: Mapping[str, Any],
        /,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        group_id: str | None = None,
        deserializer: object = None,
        key_deserializer: object = None,
        value_deserializer: object = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[bytes | None, bytes | None],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[V, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        deserializer: Deserialize[V],
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[bytes | None, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        value_deserializer: Deserialize[V],
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[K, bytes | None],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        key_deserializer: Deserialize[K],
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[K, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        key_deserializer: Deserialize[K],
        value_deserializer: Deserialize[V],
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[Any, Any],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        deserializer: HasDeserialize | str = ...,
        key_deserializer: HasDeserialize | str = ...,
        value_deserializer: HasDeserialize | str = ...,
        **settings: Unpack[ConsumerSettings],
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
        values = parse_settings(given.pop("bootstrap_servers"), given.pop("group_id", None), given)
        code = UserCode.of(values)
        group = group_settings(values, given_names(given))
        self._clock: Clock = SYSTEM_CLOCK
        self._rng = random.Random()
        self._code = code
        self._interceptors = code.interceptors
        self._read_committed = values["isolation.level"] == "read_committed"
        self._timeout_ms: int = values["default.api.timeout.ms"]
        self._closed, self._turn = False, OneThread()
        self._leaves_group: bool = values["internal.leave.group.on.close"]
        self._exclude_internal: bool = values["exclude.internal.topics"]
        self._thread = shared_loop()
        self._cluster = Cluster(
            self._thread, ClusterSettings.of(values), rng=self._rng, on_change=self._on_metadata
        )
        self._core = ConsumerCore(
            fetcher_settings(values),
            self._cluster.metadata,
            self._rng.random,
            self._clock.wall_ms,
            group,
        )
        self._positions = self._core.positions
        calls = None if group is None else self._group_calls(values)
        self._loop = ConsumerLoop(
            self._thread,
            self._cluster,
            self._core,
            FetchSettings(
                min_bytes=values["fetch.min.bytes"],
                max_bytes=values["fetch.max.bytes"],
                partition_bytes=values["max.partition.fetch.bytes"],
                read_committed=self._read_committed,
                rack=values["client.rack"],
            ),
            self._clock,
            calls,
        )
        self._lock = self._loop.lock
        most, checks = values["max.poll.records"], values["check.crcs"]
        self._collector = Collector(
            self._loop, self._positions, code, max_poll_records=most, check_crcs=checks
        )
        self._waiting = PollWaiting(
            self._loop, self._cluster, self._collector, self._clock, self._timeout_ms
        )
        self._group: GroupUse | None = None
        if self._core.group is not None and calls is not None:
            self._group = GroupUse(
                self._loop,
                self._core.group,
                self._waiting,
                self._collector,
                self._clock,
                self._timeout_ms,
                calls,
            )
        close_at_exit(self)
        if names:
            self.subscribe(names)

    def _group_calls(self, values: Mapping[str, Any]) -> GroupCalls:
        wire = GroupWire(
            values["client.id"],
            values["request.timeout.ms"],
            rack=values["client.rack"],
            assignor=values["group.remote.assignor"],
            require_stable=self._read_committed,
        )
        return GroupCalls(self._cluster, wire, values["max.poll.interval.ms"])

    # ---- what to read -------------------------------------------------------------------------

    def subscribe(
        self,
        topics: str | Iterable[str] | None = None,
        pattern: str | re.Pattern[str] | None = None,
        listener: object | None = None,
    ) -> None:
        """Read these topics, or all whose whole name matches `pattern` (RE2's expressions): with a
        group the partitions that it gives this consumer, else all. A pattern that is a text is the
        coordinator's to match under the consumer protocol, so new topics are read at once; else,
        and where `re` compiled it, the cluster is asked again every `metadata_max_age_ms`.

        `listener`: an object with some of the methods on_partitions_assigned, on_partitions_revoked
        and on_partitions_lost, each called with a list of partitions, within polls. Those that are
        revoked can still be committed; those that are lost cannot, and a listener without a method
        for them gets them as revoked. InvalidGroupId for a listener without a group.

        Replaces the former subscription or assignment; partitions in both keep their positions.
        """
        with self._use():
            subscription = Subscription.of(topics, pattern, exclude_internal=self._exclude_internal)
            if self._group is not None:
                self._group.listen(listener)
            elif listener is not None:
                raise self._needs_group("subscribe(listener=...)")
            self._want(Subscribe(subscription))
            with self._lock:
                self._collector.drop_unassigned()

    def assign(self, partitions: Partitions) -> None:
        """Read exactly these partitions; those assigned before keep their positions. The group that
        gave some is left; committed offsets count, and can be set, all the same.
        """
        with self._use():
            chosen = some_partitions((partitions,))
            self._leave_group()
            self._want(Assign(tuple(chosen)))
            with self._lock:
                self._collector.drop_unassigned()

    def _leave_group(self) -> None:
        if self._group is not None and self._core.subscription:
            self._group.leave()

    def unsubscribe(self) -> None:
        """Read nothing, and be no member of the group. With auto commit the offsets of consumed
        records are committed before.
        """
        self.assign(())

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        with self._use(), self._lock:
            return set(self._positions.partitions)

    def subscription(self) -> set[str]:
        """The subscribed topics; with a pattern, those that match by now."""
        with self._use():
            return set(self._core.subscription.matching(self._cluster.metadata.topics))

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[int]:
        """The topic's partition numbers."""
        check_topic(topic)
        with self._use():
            info = self._thread.run(self._cluster.topic(topic, self._limit_ms(timeout)))
            return list(range(len(info.partitions)))

    # ---- records ------------------------------------------------------------------------------

    def poll(self, timeout: float = 1.0) -> ConsumerRecords[K, V]:
        """Up to `max_poll_records` records, as soon as there are any; none after `timeout` seconds.

        Raises what went wrong with a partition (OffsetOutOfRange, NoOffsetForPartition,
        SerializationFailed, CorruptMessage, ...), UnknownTopicOrPartition for a topic that does not
        exist, BootstrapFailed when no server ever answered for `default_api_timeout_ms`, and
        WokenUp after `wakeup()`. Records that a poll has returned are not returned again.
        """
        with self._use():
            left_over = self._collector.take_pending()
            if left_over:
                return left_over
            return self._collector.intercepted(self._wait(timeout, self._collector.records))

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Records without end. Leaving the loop loses none: the next poll or loop goes on."""
        while True:
            yield from self._iteration(1.0)

    def _iteration(self, timeout: float) -> Iterator[Record[K, V]]:
        """Records that an iteration has not taken yet, or else those of a poll."""
        with self._use():
            records = self._collector.pending()
            if not length_hint(records):
                records = self._collector.iterate(self._wait(timeout, self._collector.records))
            return records

    def poll_arrow(self, timeout: float = 1.0, *, include_headers: bool = False) -> pa.RecordBatch:
        """Fetched records as Arrow columns with the connector's schema, as soon as there are any;
        no rows after `timeout` seconds. Not bound by `max_poll_records`; deserializers do not
        apply. Raises as `poll`.
        """
        import pyarrow as pa

        from pylog.records.columnar import record_schema

        batches = self._poll_columns(timeout, include_headers)
        if not batches:
            return pa.RecordBatch.from_pylist([], schema=record_schema(include_headers))
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

    def _poll_columns(self, timeout: float, include_headers: bool) -> list[pa.RecordBatch]:
        """The same, in batches of one partition each."""
        with self._use():
            self._collector.rewind_pending()
            return self._wait(timeout, lambda: self._collector.columns(include_headers))

    def to_arrow(
        self,
        max_records: int | None = None,
        timeout: float = READ_S,
        *,
        include_headers: bool = False,
    ) -> pa.Table:
        """Everything from here to the present ends of the assigned partitions, as one table with
        the connector's schema; at most `max_records` where that is given. Records that come later,
        and partitions that are paused, are left for other calls; deserializers do not apply.

        RequestTimedOut when the ends are not reached within `timeout` seconds. After any error
        positions are where they were before.
        """
        return self._read_whole(max_records, timeout, include_headers)

    def to_pandas(
        self,
        max_records: int | None = None,
        timeout: float = READ_S,
        *,
        include_headers: bool = False,
    ) -> pd.DataFrame:
        """As `to_arrow`, as a DataFrame. The consumer's deserializers make the keys and values."""
        needed("pandas", "to_pandas()")
        code = self._code
        functions = {"key": code.deserialize_key, "value": code.deserialize_value}
        frame: pd.DataFrame = self._read_whole(
            max_records,
            timeout,
            include_headers,
            lambda table: deserialized(table.to_pandas(), functions),
        )
        return frame

    def to_polars(
        self,
        max_records: int | None = None,
        timeout: float = READ_S,
        *,
        include_headers: bool = False,
    ) -> Any:
        """As `to_arrow`, as a DataFrame of Polars, which is optional."""
        polars = needed("polars", "to_polars()")
        return self._read_whole(max_records, timeout, include_headers, polars.from_arrow)

    def _read_whole(
        self,
        max_records: int | None,
        timeout: float,
        include_headers: bool,
        make: Callable[[Any], Any] = lambda table: table,
    ) -> Any:
        read = WholeRead(self, max_records, timeout)
        try:
            made = make(read.table(include_headers))
            check_caller()  # nobody would get it
            return made
        except BaseException:
            if not self._closed:
                read.go_back()
            raise

    def _is_reading(self) -> bool:
        with self._use():
            return bool(self._positions.partitions or self._core.subscription)

    def _reached(self) -> dict[TopicPartition, int | None]:
        """The position of each partition that is assigned and not paused; None: not known yet."""
        with self._use():
            self._chosen(())
            with self._lock:
                found = self._positions.partitions.items()
                return {tp: p.position for tp, p in found if not p.paused_by_user}

    def _wait(self, timeout: float, collect: Callable[[], list[Any]]) -> list[Any]:
        """The find of `collect` until the time is up."""
        metrics = self._loop.metrics
        metrics.polled(self._clock.monotonic_ms())
        self._activate()
        try:
            return self._waiting.wait(seconds(timeout), collect) or []
        finally:
            metrics.poll_ended(self._clock.monotonic_ms())

    def _activate(self) -> None:
        reads = self._positions.partitions or self._core.subscription
        if not reads or not self._core.fetcher.active:
            self._want(StartFetching())

    def _want(self, event: UserEvent) -> None:
        """Have it, or hear why not: the core decides it by itself."""
        self._loop.submit(event)
        event.answer.result()

    # ---- positions ----------------------------------------------------------------------------

    def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int | OffsetAndMetadata
    ) -> None:
        """The next record of the partition is the one at `offset`, or the first after it.

        OffsetOutOfRange for a number below 0 or above 2^63-1. With an OffsetAndMetadata that holds
        a leader epoch, a poll finds out whether the log was cut meanwhile (KIP-320).
        """
        with self._use():
            tp = one_partition(partition)
            number, epoch = seek_target(tp, offset)
            self._collector.drop_pending((tp,))
            self._want(Seek(tp, number, epoch))

    def seek_to_beginning(self, *partitions: Partitions) -> None:
        """Go on at the first offset of these partitions (none given: all assigned)."""
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: Partitions) -> None:
        """Go on behind the last record of these partitions (none given: all assigned)."""
        self._seek_to(partitions, LATEST_TIMESTAMP)

    def _seek_to(self, partitions: tuple[Partitions, ...], timestamp: int) -> None:
        with self._use():
            chosen = self._chosen(partitions)
            self._collector.drop_pending(chosen)
            self._want(SeekTo(tuple(chosen), timestamp))

    def position(self, *partitions: Partitions, timeout: float | None = None) -> Any:
        """The offset of the next record: an int for one partition, a dict for several or for none
        given (all assigned). Waits for a position that is being looked up.
        """
        with self._use():
            limit_ms = self._limit_ms(timeout)
            deadline_ms = self._clock.monotonic_ms() + limit_ms
            chosen = self._chosen(partitions, limit_ms)
            positions = {tp: self._waiting.position(tp, deadline_ms, limit_ms) for tp in chosen}
            positions.update(
                {t: o for t, o in self._collector.unyielded().items() if t in positions}
            )
            return positions[chosen[0]] if is_single(partitions) else positions

    def pause(self, *partitions: Partitions) -> None:
        """Return no records of these partitions until `resume` (none given: all assigned); what is
        fetched of them stays, and counts as unread.
        """
        with self._use():
            self._collector.rewind_pending()
            self._want(Pause(tuple(self._chosen(partitions))))

    def resume(self, *partitions: Partitions) -> None:
        """Undo `pause` (none given: all assigned)."""
        with self._use():
            self._want(Resume(tuple(self._chosen(partitions))))

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        with self._use(), self._lock:
            return {tp for tp, p in self._positions.partitions.items() if p.paused_by_user}

    def beginning_offsets(
        self, *partitions: Partitions, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition (none given: all assigned)."""
        return self._list(partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, *partitions: Partitions, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last readable record of each (none given: all assigned)."""
        return self._list(partitions, LATEST_TIMESTAMP, timeout)

    def _list(
        self, partitions: tuple[Partitions, ...], timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        with self._use():
            limit_ms = self._limit_ms(timeout)
            deadline_ms = self._clock.monotonic_ms() + limit_ms
            wanted = dict.fromkeys(self._chosen(partitions, limit_ms), timestamp)
            listing = self._listing(wanted, max(deadline_ms - self._clock.monotonic_ms(), 0))
            return {tp: found.offset for tp, found in listing.items() if found is not None}

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (milliseconds since 1970); None where none is that
        late. InvalidTimestamp for a time below 0.
        """
        with self._use():
            return self._listing(times_by_partition(times), self._limit_ms(timeout))

    def _listing(
        self, wanted: dict[TopicPartition, int], limit_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        listing, faults = self._thread.run(
            list_offsets(self._cluster, wanted, limit_ms, read_committed=self._read_committed)
        )
        raise_faults(listing, faults)
        return {tp: listing[tp] for tp in wanted}

    def lag(self, *partitions: Partitions, timeout: float | None = None) -> Any:
        """The number of offsets left to read: an int for one partition, a dict for several or for
        none given (all assigned). Asks the brokers for the ends.
        """
        deadline_ms = self._clock.monotonic_ms() + self._limit_ms(timeout)
        positions = self.position(*partitions, timeout=timeout)
        left_s = max(deadline_ms - self._clock.monotonic_ms(), 0) / 1000
        if not isinstance(positions, dict):
            ends = self.end_offsets(*partitions, timeout=left_s)
            return max(next(iter(ends.values())) - positions, 0)
        ends = self.end_offsets(list(positions), timeout=left_s)
        return {tp: max(ends[tp] - position, 0) for tp, position in positions.items()}

    def _limit_ms(self, timeout: float | None) -> int:
        """The time that a call may take."""
        given_s = seconds_or_none(timeout)
        return self._timeout_ms if given_s is None else round(given_s * 1000)

    def _chosen(
        self, partitions: tuple[Partitions, ...], limit_ms: int | None = None
    ) -> list[TopicPartition]:
        """These, or else all assigned."""
        if partitions:
            return some_partitions(partitions)
        subscribed = self._core.subscription.topics
        if self._group is None and subscribed and not self._positions.partitions:
            # Subscribed a moment ago: "all assigned" means the topics' partitions.
            limit_ms = self._timeout_ms if limit_ms is None else limit_ms
            deadline_ms = self._clock.monotonic_ms() + limit_ms
            for topic in subscribed:
                left_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
                self._thread.run(self._cluster.topic(topic, left_ms))
            with self._lock:
                self._core.add_partitions()
        return list(self._positions.partitions)

    # ---- the group ----------------------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Commit these offsets, of the next record to read of each partition; none given: what was
        returned so far. Returns when they are kept.

        Raises CommitFailed when the group has gone on without this member, RebalanceInProgress
        (poll, and commit then), RequestTimedOut after `timeout` seconds (default: those of
        `default_api_timeout_ms`), OffsetMetadataTooLarge, InvalidGroupId without a `group_id`.
        """
        with self._use():
            self._of_group("commit()").commit(offsets, seconds_or_none(timeout))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: OnCommitted | None = None,
    ) -> None:
        """Commit without waiting, and without trying again. A later poll calls
        `callback(offsets, error)`, with None where all went well.
        """
        with self._use():
            self._of_group("commit_async()").commit_async(offsets, callback)

    def committed(self, *partitions: Partitions, timeout: float | None = None) -> Any:
        """The group's committed offset: an OffsetAndMetadata, or None where there is none, for one
        partition; a dict for several or for none given (all assigned).
        """
        with self._use():
            group = self._of_group("committed()")
            chosen = self._chosen(partitions)
            found = group.committed(chosen, seconds_or_none(timeout))
            return found[chosen[0]] if is_single(partitions) else found

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's identity in its group, for `send_offsets_to_transaction`."""
        with self._use():
            return self._of_group("group_metadata()").metadata()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Have a group of the classic protocol share out anew; in a group of the new one it has no
        effect, which the log tells.
        """
        with self._use():
            self._of_group("enforce_rebalance()").rebalance(reason)

    def _of_group(self, call: str) -> GroupUse:
        if self._group is None:
            raise self._needs_group(call)
        return self._group

    def _needs_group(self, call: str) -> errors.InvalidGroupId:
        return errors.InvalidGroupId(
            f"{call} needs a group: give Consumer(..., group_id='a-name'), or keep position() "
            f"yourself and seek() to it"
        )

    # ---- the rest of the surface --------------------------------------------------------------

    def wakeup(self) -> None:
        """Have a poll that waits, or the next one, raise WokenUp. From any thread."""
        self._waiting.wake()

    def metrics(self) -> dict[str, float]:
        """By Kafka's names: totals since the start, rates, averages and maxima over the last
        minute, present levels; `<topic>-<partition>.records-lag` for each partition fetched from.
        """
        with self._lock:
            partitions = list(self._positions.partitions.values())
        return self._loop.metrics.read(self._clock.monotonic_ms(), partitions)

    def close(
        self,
        timeout: float | None = None,
        *,
        commit: bool = True,
        leave_group: bool | None = None,
    ) -> None:
        """Commit the offsets of consumed records (with auto commit), leave the group, and let go of
        connections and buffers: within `timeout` seconds (default: 30), without a group at once. An
        error of a rebalance listener is raised when all is done; a listener itself may not close
        its consumer. Without a group any thread may close.

        `commit=False`: commit nothing by itself any more. `leave_group` (KIP-1092): None has a
        static member expected back and any other one leave; with True a static member leaves too;
        with False the group misses any other member too only when its session ends.
        """
        given_s = seconds_or_none(timeout)
        if not self._closed:
            self._end(
                CLOSE_S if given_s is None else given_s,
                self._collector.unyielded(),
                commit=commit,
                leave_group=leave_group,
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """As `close`. After an error, what the last poll returned counts as not read."""
        if error is not None and self._group is not None and not self._closed:
            self._end(CLOSE_S, self._collector.returned_last())
        self.close()

    def _end(
        self,
        timeout_s: float,
        unread: Mapping[TopicPartition, int],
        *,
        commit: bool = True,
        leave_group: bool | None = None,
    ) -> None:
        raised: BaseException | None = None
        if self._group is not None and not self._thread.is_current():
            with self._turn.use():
                self._waiting.refuse_in_awaited_callback("close()")
                leaves = self._leaves_group
                if leave_group is not None:  # a static one tells that it will be back
                    leaves = leave_group or self._group.is_static
                raised = self._group.end(
                    timeout_s, unread, commits=commit, leaves=leaves, for_good=leave_group is True
                )
        self._closed = self._loop.closed = True
        with self._lock:
            self._loop.notify()
        self._interceptors.close()
        closing = self._thread.start(self._loop.close())
        if not self._thread.is_current():
            closing.result()
        if raised is not None:
            raise raised

    def _on_fork(self) -> None:
        """In a forked child: nothing would come."""
        self._closed = True
        self._turn = OneThread()

    def _close_at_exit(self) -> None:
        """The interpreter ends without a `close()`: other members need not wait to miss this one,
        and what the last poll returned may not have been looked at.
        """
        if not self._closed:
            self._end(AT_EXIT_S, self._collector.returned_last())

    @contextmanager
    def _use(self) -> Iterator[None]:
        """The calling thread uses the consumer; a second one at the same time is refused."""
        with self._turn.use():
            if self._closed:
                raise self._thread.closed("the consumer")
            yield

    # ---- the loop's side ----------------------------------------------------------------------

    def _on_metadata(self, _faulty: list[TopicInfo]) -> None:
        with self._lock:
            if self._core.subscription.pattern is not None:
                self._drop_deleted_topics()
        self._loop.step(self._core.on_metadata)

    def _drop_deleted_topics(self) -> None:
        """A topic that is gone matches no pattern any more. The lock is held."""
        denied = self._cluster.denied
        for topic in {tp.topic for tp in self._positions.partitions if tp.topic in denied}:
            if not denied[topic].counts():
                continue
            logger.warning("topic %s does not exist any more; it is read no longer", topic)
            self._cluster.metadata.forget_topic(topic)
            self._cluster.topics.pop(topic, None)
            del denied[topic]
            self._core.on_topic_gone(topic)
