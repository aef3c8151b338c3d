"""Spark's readers: the driver's side plans, `pylog_connector.reading` reads in the tasks.

An instance is pickled into the tasks and into Spark's planner, so it holds options and plain
values; connections are made where they are used. The stream reader of the driver lives as long as
its query, in a process of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.model import TopicPartition
from pylog_connector.admission import Pace
from pylog_connector.batches import batch_ranges
from pylog_connector.bounds import BoundsReader
from pylog_connector.byte_admission import ByteLimit
from pylog_connector.byte_ranges import ByteRanges
from pylog_connector.cutting import MARKER_WAITS_S, ConsistentEnds
from pylog_connector.errors import ConnectorError, ReadFailed
from pylog_connector.group_commits import GroupCommits
from pylog_connector.group_progress import flat
from pylog_connector.lag import NOTHING_TOLD, Lag, Unread
from pylog_connector.leases import StreamLeases, lease_batch
from pylog_connector.offsets import PartitionPosition, StreamOffset, TopicPosition, read_offset
from pylog_connector.option_names import PROGRESS_GROUP
from pylog_connector.options import SourceOptions
from pylog_connector.plainly import plainly, plainly_each
from pylog_connector.planning import (
    Advance,
    Bounds,
    Short,
    advance,
    assigned,
    initial,
    require_topics,
    stream_ranges,
)
from pylog_connector.positions import LATEST, Bound, Found
from pylog_connector.progress import Progress, RangesWithProgress
from pylog_connector.progress_commits import commit_progress
from pylog_connector.ranges import PlannedLease, ReadRange
from pylog_connector.reading import read_ranges
from pylog_connector.splitting import packed, split

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("pylog.connector")

STALE_RETRIES: Final = 4
STALE_WAIT_S: Final = 0.2
"""A leader that was elected a moment ago may not know yet how far the log is committed, and an
"end" before what was already read is not believed before the sum of these waits, 3 s."""

IDLE_S: Final = 0.005
IDLE_S_MAX: Final = 0.1
"""Spark asks an idle stream again after 10 ms, each time at the cost of calls to every leader. The
next look at the cluster therefore waits, longer the longer nothing comes. It waits before the look
and not after it: what Spark is told is to be true when it is told."""

LOOKS_MAX: Final = 4
"""At a cluster whose topics are deleted and created while a batch is planned."""

AWAIT_MS_MAX: Final = 500
"""For so long leaders wait for records that a batch is short of, before topics are looked at again.
Spark cannot stop the query meanwhile."""

BOUNDS_AGE_MS_MAX: Final = 1_000
"""A run to a fixed end wants nothing newer of the cluster: so long it goes by what it was told.
Tasks find out what is deleted meanwhile."""

TIMES_MAX: Final = 10_000
TIMES_AGE_MS_MAX: Final = 1_000
"""The progress tells how old and how large what is unread is of at most so many partitions, and
looks it up so often."""

WARNINGS_MAX: Final = 1_000
"""The number of warnings that are remembered, so as not to say the same at each trigger."""


class LeasedPartition(InputPartition):
    """The ranges of one task of a batch read, and the lease on all of it, which the task renews."""

    def __init__(self, value: tuple[ReadRange, ...], lease: PlannedLease) -> None:
        super().__init__(value)
        self.lease = lease


class BatchReader(DataSourceReader):
    """Reads what the options name, once per query on the DataFrame."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)

    @plainly
    def partitions(self) -> list[InputPartition]:
        """One task for each partition with something to read, or as many as `minPartitions` and
        `maxRecordsPerPartition` ask for. An empty topic keeps one for what may be written later,
        and where nothing is to be read, ever, Spark makes one of the empty plan.

        Spark plans once for each `load()`; ends that are not fixed offsets are looked up by the
        tasks, so that the same DataFrame sees what was written since. A consistent cut is fixed.
        """
        options = self._options
        source = BoundsReader(options)
        bounds = source.bounds()
        require_topics(options.selection, bounds)
        starting, ending = _starting(options, source, bounds), options.ending
        places = assigned(bounds)
        queries = []
        for bound in (starting, ending):
            bound.check(places, str(options.selection))
            queries += bound.queries(places)
        found = source.times(queries)
        if options.consistent_cut and not ending.times:
            ending, bounds = _at_a_cut(source, starting, ending, bounds, found)
        ranges = batch_ranges(
            starting,
            ending,
            bounds,
            options.selection,
            found,
            fail_on_data_loss=options.fail_on_data_loss,
            story=source.story,
        )
        tasks = _tasks(ranges, options)
        lease = lease_batch(ranges, options) if options.read_lease else None
        return tasks if lease is None else [LeasedPartition(task.value, lease) for task in tasks]

    @plainly_each
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task's ranges; none for the empty plan, which Spark gives one task."""
        lease = partition.lease if isinstance(partition, LeasedPartition) else None
        return read_ranges(partition.value or (), self._options, self._columns, lease)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches. Progress lies in Spark's checkpoint only; a group that
    `pylog.commit.group` names is told of it, and one that `pylog.progress.group` names by the
    batches themselves.
    """

    def __init__(
        self,
        options: SourceOptions,
        columns: Sequence[str],
        *,
        bounds_reader: BoundsReader | None = None,
        leases: StreamLeases | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._bounds_reader = bounds_reader or BoundsReader(options)
        self._clock = clock
        self._initial: dict[str, Any] | None = None
        self._first = True
        self._available_now = False
        self._target: StreamOffset | None = None
        self._bounds: Bounds = {}
        self._bounds_ms = 0  # when they were asked for
        self._pace = Pace(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        most = options.max_bytes_per_trigger
        self._byte_limit = None if most is None else ByteLimit(most)
        self._byte_ranges = ByteRanges(options)
        self._cuts: ConsistentEnds | None = None
        if options.consistent_cut:
            self._cuts = ConsistentEnds(self._bounds_reader.transactions)
        self._short: Short | None = None
        self._lag: Lag | None = None
        self._unread = NOTHING_TOLD
        self._unread_ms: int | None = None  # when it was asked for
        self._warned: set[str] = set()
        self._idle = 0
        self._has_planned = False  # since this process began
        self._group: GroupCommits | None = None
        self._knows_group = False
        if leases is None and options.read_lease:
            leases = StreamLeases(options, clock)
        self._leases = leases

    # ---- offsets ------------------------------------------------------------------------------

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        """The start of a new query. Spark asks twice for the first batch: the answer stays."""
        self._check_group()
        if self._initial is None:
            options, source = self._options, self._bounds_reader
            bounds = source.bounds()
            require_topics(options.selection, bounds)
            starting, places = _starting(options, source, bounds), assigned(bounds)
            starting.check(places, str(options.selection))
            begin = initial(
                starting,
                bounds,
                options.selection,
                source.times(starting.queries(places)),
                fail_on_data_loss=options.fail_on_data_loss,
                story=source.story,
            )
            if self._cuts is not None and starting.values == LATEST and not starting.times:
                # A topic that was made anew since is for the first batch to find out.
                begin = self._cuts.start(begin, bounds) or begin
            self._initial = begin.to_json()
        return self._initial

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch, or `start` itself when there is nothing to read: which is said
        only after topics and partitions were listed anew.

        The first batch's end always differs from its start, also when it is empty, because it
        records that start (see `pylog_connector.offsets`). Raises DataLoss before Spark writes the
        plan.
        """
        position = read_offset(start)
        self._check_group()
        # A later position may equal the initial offset that a replay of the first batch asked for.
        self._first = self._first and start == self._initial
        try:
            if self._first or self._available_now:
                end = self._look(position, limit, anew=self._available_now and self._target is None)
            else:
                end = self._news(position, limit)
        finally:
            self._tell_group(position)
        if self._first:
            return end.booted_at(position).to_json()
        if end.moved(position):
            self._idle = 0
            self._has_planned = True
            return end.to_json()
        self._idle += 1
        if self._group is not None and (self._available_now or not self._has_planned):
            # The query may end with this answer (AvailableNow, Once), and Spark kills this process.
            self._group.flush()
        self._has_planned = True
        if self._leases is not None:
            self._leases.let_go(at_once=self._available_now)
        return start

    def _check_group(self) -> None:
        """Refuse a group that others use, once, when the query starts."""
        if self._options.progress_group is not None and not self._knows_group:
            GroupCommits(self._options, option=PROGRESS_GROUP).check()
            self._knows_group = True
        if self._group is None and self._options.commit_group is not None:
            group = GroupCommits(self._options, clock=self._clock)
            group.check()
            self._group = group

    def _tell_group(self, position: StreamOffset) -> None:
        """Spark plans from where the last batch ended when that is committed, and only then: so
        `position` is finished, unless nothing was read yet. Of topics that are still the same.
        """
        if self._group is None or self._first:
            return
        bounds = self._bounds
        same = {
            name: topic.partitions
            for name, topic in position.topics.items()
            if name in bounds and topic.topic_id in ("", bounds[name].topic_id)
        }
        self._group.finished(flat(same))

    def _news(self, position: StreamOffset, limit: ReadLimit) -> StreamOffset:
        """The end of a batch that has something to read or to record, looked for until topics were
        listed anew and the partitions have nothing.
        """
        wait_s = min(IDLE_S_MAX, IDLE_S * 2 ** min(self._idle - 1, 10)) if self._idle else 0.0
        anew = self._idle > 0 and self._rested(wait_s)
        while True:
            pace = replace(self._pace)
            end = self._look(position, limit, anew=anew)
            if anew or end.moved(position):
                return end
            self._pace = pace  # the look does not count: another one follows
            anew = self._rested(wait_s)

    def _rested(self, wait_s: float) -> bool:
        """Wait, no longer than an idle stream does, or for records that a batch is short of;
        whether it is time to list topics anew.
        """
        if self._short is not None:
            self._await_records(self._short)
            return self._bounds_reader.rest_s() <= 0
        left_s = max(wait_s, self._bounds_reader.rest_s())
        if left_s:
            self._clock.sleep(min(left_s, IDLE_S_MAX))
        return left_s <= IDLE_S_MAX

    def _await_records(self, short: Short) -> None:
        """Leaders wait for what is missing: nothing is looked up meanwhile."""
        wait_ms = min(AWAIT_MS_MAX, short.left_ms)
        began_ms = self._clock.monotonic_ms()
        if not self._bounds_reader.await_records(short.ends, short.missing, wait_ms):
            # If a leader could not wait, the look that follows tells why; it comes after a pause.
            spent_ms = self._clock.monotonic_ms() - began_ms
            left_s = min(IDLE_S_MAX, wait_ms / 1000) - spent_ms / 1000
            if left_s > 0:
                self._clock.sleep(left_s)

    def _look(
        self, position: StreamOffset, limit: ReadLimit, *, anew: bool = False
    ) -> StreamOffset:
        """The end of a batch from `position`, by what the cluster has; `anew`: with topics that are
        listed for it. Where consistent cuts are asked for, markers that are on their way are waited
        for a moment.
        """
        cuts = self._cuts
        if cuts is None:
            return self._look_once(position, limit, anew=anew)
        pace = replace(self._pace)
        end = self._look_once(position, limit, anew=anew)
        for wait_s in MARKER_WAITS_S:
            if not cuts.is_short:
                break
            self._clock.sleep(wait_s)
            self._pace = replace(pace)  # the look does not count: another one follows
            end = self._look_once(position, limit)
        else:
            cuts.give_up()
        return end

    def _look_once(
        self, position: StreamOffset, limit: ReadLimit, *, anew: bool = False
    ) -> StreamOffset:
        options = self._options
        now_ms = self._clock.monotonic_ms()
        if self._target is None or now_ms - self._bounds_ms >= BOUNDS_AGE_MS_MAX:
            self._bounds, self._bounds_ms = self._settled_bounds(position, anew=anew), now_ms
        if self._available_now and self._target is None:
            # Only now, not in prepareForTriggerAvailableNow: a plan of an earlier run that is
            # replayed first may reach beyond what the target would have been (SPARK-53560).
            self._target = self._newest(position)
        everything = isinstance(limit, ReadAllAvailable)
        for _ in range(LOOKS_MAX):
            pace = replace(self._pace)
            step = advance(
                position,
                self._bounds,
                options.selection,
                limit=None if everything else options.max_offsets_per_trigger,
                pace=None if everything or self._available_now else self._pace,
                now_ms=self._clock.monotonic_ms(),
                target=self._target,
                fail_on_data_loss=options.fail_on_data_loss,
                story=self._bounds_reader.story,
            )
            end = step.end if everything else self._within_bytes(step)
            if end is not None and self._cuts is not None:
                end = self._cuts.end(step, end, self._bounds, self._clock.monotonic_ms())
            if end is not None:
                self._short = step.short
                self._lag = Lag.of(self._bounds, end)
                self._warn(step.warnings)
                return end
            self._pace = pace  # the look does not count: another one follows
            self._bounds, self._bounds_ms = self._settled_bounds(position, anew=True), now_ms
        raise ReadFailed("topics are deleted and created all the time")

    def _newest(self, position: StreamOffset) -> StreamOffset:
        """The newest offsets, at which a run with Trigger.AvailableNow is to stop."""
        cuts, options = self._cuts, self._options
        if cuts is None:
            return _newest(self._bounds)
        for wait_s in (*MARKER_WAITS_S, None):
            step = advance(
                position,
                self._bounds,
                options.selection,
                fail_on_data_loss=options.fail_on_data_loss,
                story=self._bounds_reader.story,
            )
            end = cuts.end(step, step.end, self._bounds, self._clock.monotonic_ms())
            if end is not None and (wait_s is None or not cuts.is_short):
                return end
            if wait_s is not None:
                self._clock.sleep(wait_s)
                self._bounds = self._settled_bounds(position, anew=end is None)
        raise ReadFailed("topics are deleted and created all the time")

    def _within_bytes(self, step: Advance) -> StreamOffset | None:
        """The end of the batch that `maxBytesPerTrigger` admits; None when topics are not what they
        were when the batch was planned.
        """
        limit, lags = self._byte_limit, step.lags()
        if limit is None or not lags:
            return step.end
        sizes = self._byte_ranges.bytes_of(lags)
        if sizes is None:
            return None
        asked = limit.ask(sizes)
        if not asked:
            return step.end
        found = self._byte_ranges.first_pieces(lags, asked)
        if found is None:
            return None
        # A range without bytes, which compaction or retention emptied, is done with.
        ends = {at: end for at, (_, end) in lags.items() if not sizes[at]}
        return step.up_to(ends | limit.admit(asked, found))

    def getDefaultReadLimit(self) -> ReadLimit:
        """A sign that the options limit batches; Spark hands it to `latestOffset` unless it wants
        everything (Trigger.Once). The limits themselves are taken from the options.
        """
        options = self._options
        limit = options.max_offsets_per_trigger or options.min_offsets_per_trigger
        if limit is not None:
            return ReadMaxRows(limit)
        most = options.max_bytes_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at what is there when the first batch is planned."""
        self._available_now = True

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The newest offsets by topic and partition, and how far behind them the query is: least,
        most and on average over the partitions, by the names that Spark's Kafka source uses; in
        records and bytes altogether, and in seconds, which is the age of the oldest of them; and
        the same of each partition that is behind.
        """
        lag = self._lag
        return None if lag is None else lag.told(self._told_of(lag), self._clock.wall_ms())

    def _told_of(self, lag: Lag) -> Unread:
        """The unread records, as far as leaders tell of them: looked up once a second at most, and
        only where there are some.
        """
        if not 0 < len(lag.behind) <= TIMES_MAX:
            return NOTHING_TOLD
        now_ms = self._clock.monotonic_ms()
        if self._unread_ms is None or now_ms - self._unread_ms >= TIMES_AGE_MS_MAX:
            self._unread, self._unread_ms = self._bounds_reader.unread(lag.behind), now_ms
        return self._unread

    # ---- work ---------------------------------------------------------------------------------

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One task for each partition that has offsets between the two positions, fewer where they
        have only a few, or as many as `minPartitions` and `maxRecordsPerPartition` ask for.
        The first one commits the batch's progress, and is there without ranges if need be.
        """
        if start == end:
            return []
        tasks = self._readings(start, end)
        if self._options.progress_group is None:
            return tasks
        first = tasks[0].value if tasks else ()
        progress = Progress.of(read_offset(end))
        return [InputPartition(RangesWithProgress(tuple(first), progress)), *tasks[1:]]

    def _readings(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ranges = stream_ranges(
            read_offset(start), read_offset(end), fail_on_data_loss=self._options.fail_on_data_loss
        )
        if self._leases is not None:
            self._leases.take(ranges)
        options = self._options
        split_by = options.max_records_per_partition, options.max_bytes_per_partition
        if options.min_partitions is None and split_by == (None, None):
            return [InputPartition(tuple(pack)) for pack in packed(ranges)]
        return _tasks(ranges, options)

    @plainly_each
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task's ranges, behind the commit of the batch's progress if it is the
        task for that.
        """
        ranges = partition.value
        if isinstance(ranges, RangesWithProgress):
            commit_progress(ranges.progress, self._options)
            ranges = ranges.ranges
        return read_ranges(ranges, self._options, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the checkpoint is what counts, and `latestOffset` has begun there."""

    def stop(self) -> None:
        """The query ended. Spark 4.3 does not call it: it kills the process."""
        if self._leases is not None:
            self._leases.let_go(at_once=True)
        if self._group is not None:
            self._group.close()
        self._bounds_reader.close()

    def _settled_bounds(self, position: StreamOffset, *, anew: bool) -> Bounds:
        epochs = {
            TopicPartition(name, partition): at.epoch
            for name, topic in position.topics.items()
            for partition, at in topic.partitions.items()
        }
        options = self._options
        bounds = self._bounds_reader.bounds(epochs, position.topics, anew=anew)
        for attempt in range(STALE_RETRIES if options.retries is None else options.retries):
            if not _went_back(position, bounds):
                break
            wait_ms = options.retry_ms
            self._clock.sleep(STALE_WAIT_S * 2**attempt if wait_ms is None else wait_ms / 1000)
            bounds = self._bounds_reader.bounds(epochs, position.topics)
        return bounds

    def _warn(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            if warning not in self._warned:
                if len(self._warned) >= WARNINGS_MAX:
                    self._warned.clear()
                self._warned.add(warning)
                logger.warning("%s", warning)


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read whose options or columns are wrong: each call of Spark raises why.

    Spark 4.3 does not take the error while it makes a reader: it stops the reader that it does not
    have, and its own UnboundLocalError is what the user finds at the end.
    """

    def __init__(self, error: ConnectorError) -> None:
        self._error = error

    @plainly
    def _refuse(self) -> NoReturn:
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:
        """Raises the error, as all others do."""
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Raises the error."""
        self._refuse()

    def initialOffset(self) -> dict[str, Any]:
        """Raises the error."""
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Raises the error."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Raises the error."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises the error."""
        self._refuse()


def _starting(options: SourceOptions, source: BoundsReader, bounds: Bounds) -> Bound:
    """The start of a new query; a group's committed offsets are looked up for it."""
    start = options.starting
    return start if isinstance(start, Bound) else source.committed(start, bounds)


def _at_a_cut(
    source: BoundsReader, starting: Bound, ending: Bound, bounds: Bounds, found: Found
) -> tuple[Bound, Bounds]:
    """The end with the offsets of a consistent cut in the place of `latest`, and the bounds by
    which it was found.
    """
    cuts = ConsistentEnds(source.transactions)
    for wait_s in (*MARKER_WAITS_S, None):
        end = cuts.batch_end(starting, ending, bounds, found)
        if end is not None and (wait_s is None or not cuts.is_short):
            return end, bounds
        if wait_s is None:
            break
        SYSTEM_CLOCK.sleep(wait_s)
        later = source.bounds(anew=end is None)
        if assigned(later) != assigned(bounds):
            raise ReadFailed("topics were deleted or got partitions while the read was planned")
        bounds = later
    raise ReadFailed("topics are deleted and created all the time")


def _went_back(position: StreamOffset, bounds: Bounds) -> bool:
    for name, topic in position.topics.items():
        has = bounds.get(name)
        if has is None or has.topic_id != topic.topic_id:
            continue
        for partition, at in topic.partitions.items():
            bound = has.partitions.get(partition)
            if bound is not None and not bound.holds(at.offset):
                return True
    return False


def _newest(bounds: Bounds) -> StreamOffset:
    return StreamOffset(
        {
            name: TopicPosition(
                has.topic_id,
                {p: PartitionPosition(b.latest, b.epoch) for p, b in has.partitions.items()},
            )
            for name, has in bounds.items()
        }
    )


def _tasks(ranges: Sequence[ReadRange], options: SourceOptions) -> list[InputPartition]:
    size, cuts = options.max_bytes_per_partition, None
    if size is not None:
        known = {TopicPartition(each.topic, each.partition): each.known for each in ranges}
        cuts = ByteRanges(options).cuts(known, size)
    pieces = split(
        ranges,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
        cuts=cuts,
    )
    return [InputPartition((piece,)) for piece in pieces]
