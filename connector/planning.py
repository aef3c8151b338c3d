"""Which records a batch reads: pure functions from positions and the cluster's bounds to ranges.

`initial` and `advance` decide a stream's offsets, `stream_ranges` what lies between two of them,
`batch_ranges` what a batch read covers. Data loss is judged in `advance`, before Spark writes its
plan, so that a plan which cannot be read never enters the checkpoint (tasks check once more).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from connector.errors import (
    CheckpointMismatch,
    DataLoss,
    OffsetBeyondEnd,
    StartAfterEnd,
    UnknownTopic,
)
from connector.offsets import PartitionPosition, StreamOffset, TopicPosition
from connector.positions import EARLIEST, LATEST, Positions, check_assigned, position_of

_ALLOW: Final = "set failOnDataLoss=false to go on with what is there"


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """The offsets a partition holds, `earliest <= offset < latest`, and its leader epoch.

    `epoch_end`: where the leader epoch of the query's position ends by now, None when it was not
    asked for. An end below the position means that the log was cut there and grew anew (KIP-320).
    """

    earliest: int
    latest: int
    epoch: int = -1
    epoch_end: int | None = None


@dataclass(frozen=True, slots=True)
class TopicBounds:
    """A topic as the cluster has it now."""

    topic_id: str
    partitions: Mapping[int, PartitionBounds]


Bounds = Mapping[str, TopicBounds]
"""The topics that exist, of those that were asked for."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The work of one task: `start <= offset < end` of one partition.

    `start` may be `EARLIEST` and `end` `LATEST`: then the task resolves them when it runs, and a
    DataFrame that is used again sees what was written since. With a `stride` the task also reads
    partitions `partition + k * stride` that were added after planning. An empty `topic_id` means
    whichever topic has the name when the task runs.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Advance:
    """The end of the next batch, and what was lost on the way there (only when that is allowed)."""

    end: StreamOffset
    warnings: tuple[str, ...] = ()


def require_topics(topics: Sequence[str], bounds: Bounds) -> None:
    """UnknownTopic when one of them does not exist."""
    missing = [topic for topic in topics if topic not in bounds]
    if missing:
        raise UnknownTopic(
            f"the cluster has no topic {', '.join(missing)}; create it, or correct subscribe"
        )


def initial(
    option: str, positions: Positions, bounds: Bounds, *, fail_on_data_loss: bool
) -> StreamOffset:
    """Where a new stream starts.

    Raises UnknownTopic and InvalidOption for JSON that does not fit the topics, OffsetBeyondEnd for
    an offset behind the newest record, and DataLoss for one before the oldest.
    """
    check_assigned(option, positions, {t: sorted(b.partitions) for t, b in bounds.items()})
    topics = {}
    for topic, has in bounds.items():
        at = {}
        for partition, bound in sorted(has.partitions.items()):
            offset = position_of(positions, topic, partition)
            if offset == EARLIEST:
                offset = bound.earliest
            elif offset == LATEST:
                offset = bound.latest
            elif offset > bound.latest and fail_on_data_loss:
                raise OffsetBeyondEnd(
                    f'{option}.{topic}."{partition}"={offset}: the newest offset to start at is '
                    f"{bound.latest}; {_ALLOW}"
                )
            elif offset < bound.earliest and fail_on_data_loss:
                raise _too_old(topic, partition, offset, bound.earliest)
            at[partition] = PartitionPosition(
                min(max(offset, bound.earliest), bound.latest), bound.epoch
            )
        topics[topic] = TopicPosition(has.topic_id, at)
    return StreamOffset(topics)


def advance(
    start: StreamOffset,
    bounds: Bounds,
    subscribed: Sequence[str],
    *,
    limit: int | None = None,
    target: StreamOffset | None = None,
    fail_on_data_loss: bool = True,
) -> Advance:
    """The end of the batch that begins at `start`: the newest offsets, but at most `limit` records
    (shared by lag) and not beyond `target` (Trigger.AvailableNow).

    New partitions begin at 0. Raises DataLoss, CheckpointMismatch and UnknownTopic unless
    `fail_on_data_loss` is false: then they are warnings.
    """
    judge = _Judge(fail_on_data_loss)
    for topic in sorted(set(start.topics) - set(subscribed)):
        judge.mismatch(
            f"the checkpoint holds offsets of topic {topic}, which the query no longer subscribes "
            f"to ({', '.join(subscribed)}); add it to subscribe, start with a new checkpoint, "
            "or set failOnDataLoss=false to forget it"
        )
    begins: dict[str, dict[int, int]] = {}
    latest: dict[str, dict[int, int]] = {}
    for topic in subscribed:
        has = bounds.get(topic)
        if has is None:
            judge.missing(topic, topic in start.topics)
            continue
        begins[topic] = _begins(judge, topic, start.topics.get(topic), has)
        latest[topic] = _latest(judge, topic, has, begins[topic], target)
    ends = limited(begins, latest, limit)
    topics = {}
    for topic, offsets in ends.items():
        has = bounds[topic]
        topics[topic] = TopicPosition(
            has.topic_id,
            {p: PartitionPosition(o, has.partitions[p].epoch) for p, o in offsets.items()},
        )
    return Advance(StreamOffset(topics), tuple(judge.warnings))


@dataclass(slots=True)
class _Judge:
    """Turns a loss into an error, or collects it as a warning."""

    fail: bool
    warnings: list[str] = field(default_factory=list)

    def loss(self, error: DataLoss) -> None:
        if self.fail:
            raise error
        self.warnings.append(str(error).removesuffix(f"; {_ALLOW}"))

    def mismatch(self, message: str) -> None:
        if self.fail:
            raise CheckpointMismatch(message)
        self.warnings.append(str(CheckpointMismatch(message)))

    def missing(self, topic: str, was_read: bool) -> None:
        if was_read:
            self.loss(
                DataLoss(
                    f"topic {topic} was deleted while the query read it; create it and start with "
                    f"a new checkpoint, take it out of subscribe; {_ALLOW}"
                )
            )
        elif self.fail:
            raise UnknownTopic(f"the cluster has no topic {topic}; create it, or correct subscribe")
        else:
            self.warnings.append(f"topic {topic} does not exist (any more); it is left out")


def _begins(
    judge: _Judge, topic: str, position: TopicPosition | None, has: TopicBounds
) -> dict[int, int]:
    """Where the next batch really begins, after what was lost."""
    if position is not None and position.topic_id != has.topic_id:
        judge.loss(
            DataLoss(
                f"topic {topic} was deleted and created again (the checkpoint knows it as "
                f"{position.topic_id}, the cluster as {has.topic_id}), or the checkpoint belongs "
                f"to another cluster; start with a new checkpoint; {_ALLOW}"
            )
        )
        return {p: bound.earliest for p, bound in has.partitions.items()}
    begins = {}
    known = position.partitions if position is not None else {}
    for partition in sorted(set(known) - set(has.partitions)):
        judge.loss(DataLoss(f"partition {topic}-{partition} no longer exists; {_ALLOW}"))
    for partition, bound in sorted(has.partitions.items()):
        at = known.get(partition)
        offset = at.offset if at is not None else 0
        if offset < bound.earliest:
            judge.loss(_too_old(topic, partition, offset, bound.earliest, new=at is None))
        elif offset > bound.latest:
            judge.loss(
                DataLoss(
                    f"the end of {topic}-{partition} went back from {offset} to {bound.latest}: "
                    f"records that the query has read were lost; {_ALLOW}"
                )
            )
        elif bound.epoch_end is not None and bound.epoch_end < offset:
            judge.loss(
                DataLoss(
                    f"the log of {topic}-{partition} was cut at {bound.epoch_end} and written "
                    f"anew, and the query has read up to {offset}: offsets {bound.epoch_end} to "
                    f"{offset - 1} now hold other records; {_ALLOW}"
                )
            )
        begins[partition] = min(max(offset, bound.earliest), bound.latest)
    return begins


def _latest(
    judge: _Judge,
    topic: str,
    has: TopicBounds,
    begins: Mapping[int, int],
    target: StreamOffset | None,
) -> dict[int, int]:
    latest = {p: bound.latest for p, bound in has.partitions.items()}
    if target is None:
        return latest
    # What came after the target, be it partitions or a re-created topic, is not for this run.
    planned = target.topics.get(topic)
    if planned is None or planned.topic_id != has.topic_id:
        return dict(begins)
    for partition, offset in latest.items():
        aim = planned.partitions.get(partition)
        if aim is None:
            latest[partition] = begins[partition]
        elif offset < aim.offset:
            judge.loss(
                DataLoss(
                    f"the end of {topic}-{partition} went back from {aim.offset}, where "
                    f"Trigger.AvailableNow was to stop, to {offset}; {_ALLOW}"
                )
            )
        else:
            # The start itself may lie behind the target: a replayed plan of an earlier run.
            latest[partition] = max(aim.offset, begins[partition])
    return latest


def limited(
    begins: Mapping[str, Mapping[int, int]],
    latest: Mapping[str, Mapping[int, int]],
    limit: int | None,
) -> dict[str, dict[int, int]]:
    """The ends when at most about `limit` records are read.

    Each partition gets max(1, floor(limit x its lag / all lag)), which is what Spark's Kafka
    connector gives: 3 over lags 5 and 3 reads 1 + 1, and many small lags may exceed the limit
    rather than starve.
    """
    total = sum(
        max(0, latest[topic][p] - begin)
        for topic, offsets in begins.items()
        for p, begin in offsets.items()
    )
    ends: dict[str, dict[int, int]] = {}
    for topic, offsets in begins.items():
        ends[topic] = {}
        for partition, begin in offsets.items():
            lag = max(0, latest[topic][partition] - begin)
            share = lag
            if limit is not None and lag and total > limit:
                share = min(lag, max(1, limit * lag // total))
            ends[topic][partition] = begin + share
    return ends


def stream_ranges(
    start: StreamOffset, end: StreamOffset, *, fail_on_data_loss: bool = True
) -> list[ReadRange]:
    """What lies between two positions of a stream, without empty ranges, in order.

    The start that the first batch recorded in its end wins over `start`: see `connector.offsets`.
    """
    booted = bool(end.boot) and not start.boot
    ranges = []
    for name, topic in sorted(end.topics.items()):
        before = start.topics.get(name)
        for partition, position in sorted(topic.partitions.items()):
            begin = 0
            if booted and partition in end.boot.get(name, {}):
                begin = end.boot[name][partition]
            elif (
                before is not None
                and before.topic_id == topic.topic_id
                and partition in before.partitions
            ):
                begin = before.partitions[partition].offset
            if begin > position.offset:
                if fail_on_data_loss:
                    raise DataLoss(
                        f"the batch of {name}-{partition} would end at {position.offset}, before "
                        f"its start {begin}: records were lost; {_ALLOW}"
                    )
                continue
            if begin < position.offset:
                ranges.append(ReadRange(name, topic.topic_id, partition, begin, position.offset))
    return ranges


def batch_ranges(
    starting: Positions, ending: Positions, bounds: Bounds, *, fail_on_data_loss: bool = True
) -> list[ReadRange]:
    """What a batch read covers: one range per partition, `earliest` and `latest` left to the tasks.

    Raises UnknownTopic and InvalidOption for JSON that does not fit the topics, StartAfterEnd,
    OffsetBeyondEnd and DataLoss.
    """
    assigned = {topic: sorted(has.partitions) for topic, has in bounds.items()}
    check_assigned("startingOffsets", starting, assigned)
    check_assigned("endingOffsets", ending, assigned)
    late = isinstance(starting, int) and isinstance(ending, int)
    ranges = []
    for topic, partitions in sorted(assigned.items()):
        for partition in partitions:
            bound = bounds[topic].partitions[partition]
            begin = position_of(starting, topic, partition)
            end = position_of(ending, topic, partition)
            _check_batch(topic, partition, begin, end, bound, fail_on_data_loss)
            if begin == end:
                continue
            ranges.append(
                ReadRange(
                    topic,
                    "" if late else bounds[topic].topic_id,
                    partition,
                    begin,
                    end,
                    stride=len(partitions) if late else 0,
                )
            )
    return ranges


def _check_batch(
    topic: str, partition: int, begin: int, end: int, bound: PartitionBounds, fail: bool
) -> None:
    for option, offset in (("startingOffsets", begin), ("endingOffsets", end)):
        if offset > bound.latest:
            raise OffsetBeyondEnd(
                f'{option}.{topic}."{partition}"={offset}: the partition ends at {bound.latest}; '
                "use -1 for its end"
            )
    if 0 <= begin < bound.earliest and fail:
        raise _too_old(topic, partition, begin, bound.earliest)
    first = bound.earliest if begin == EARLIEST else begin
    if end != LATEST and first > end:
        raise StartAfterEnd(
            f"{topic}-{partition}: startingOffsets is {first} and endingOffsets is {end}; "
            "the start may not lie behind the end"
        )


def _too_old(topic: str, partition: int, wanted: int, first: int, *, new: bool = False) -> DataLoss:
    what = "is new to the query, and " if new else ""
    return DataLoss(
        f"{topic}-{partition} {what}was to be read from offset {wanted}, but its first offset is "
        f"{first} by now: {first - wanted} records were deleted by retention or by request; "
        f"{_ALLOW}"
    )
