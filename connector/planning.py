"""The plan of a stream's next batch: pure functions from positions and the cluster's bounds to
offsets.

`initial` and `advance` decide a stream's offsets, `stream_ranges` gives the ranges between two of
them; `pylog_connector.batches` plans batch reads. Data loss is judged in `advance`, before Spark
writes its plan, so that a plan which cannot be read never enters the checkpoint (tasks check once
more).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pylog.model import TopicPartition
from pylog_connector.admission import Pace, limited, waiting
from pylog_connector.errors import CheckpointMismatch, DataLoss, OffsetBeyondEnd, UnknownTopic
from pylog_connector.offsets import PartitionPosition, StreamOffset, TopicPosition
from pylog_connector.positions import EARLIEST, LATEST, Bound, Found
from pylog_connector.ranges import ReadRange
from pylog_connector.selection import Selection

UNKNOWN: Final = "by retention or by request"
ALLOW: Final = "set failOnDataLoss=false to go on with what is there"

Story = Callable[[TopicPartition], str]
"""Gives the reason why a partition's oldest records were deleted, to end a sentence with. Asked
when it is told."""


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """The offsets a partition holds, `earliest <= offset < latest`, and its leader epoch.

    `epoch_end`: where the leader epoch of the query's position ends by now, None when it was not
    asked for. An end below the position means that the log was cut there and grew anew (KIP-320).
    `high_watermark`: the end of the log where `latest` is the last stable offset of a reader of
    committed transactions; a query that read on before, uncommitted, waits for it.
    """

    earliest: int
    latest: int
    epoch: int = -1
    epoch_end: int | None = None
    high_watermark: int | None = None

    @property
    def end(self) -> int:
        """The offset at which the log ends, readable by now or not."""
        return max(self.latest, self.high_watermark or 0)

    def holds(self, offset: int) -> bool:
        """Whether the log reaches up to `offset`, readable by now or not."""
        return offset <= self.end


@dataclass(frozen=True, slots=True)
class TopicBounds:
    """A topic as the cluster has it now."""

    topic_id: str
    partitions: Mapping[int, PartitionBounds]


Bounds = Mapping[str, TopicBounds]
"""The topics that exist, of those that were asked for."""


@dataclass(frozen=True, slots=True)
class Short:
    """The records that a batch is short of: so many are `missing` behind these ends, and the wait
    for them is over in `left_ms`.
    """

    missing: int
    ends: Mapping[TopicPartition, int]
    left_ms: int


@dataclass(frozen=True, slots=True)
class Advance:
    """The end of the next batch, and what was lost on the way there (only when that is allowed).

    `begins`: where each partition is read from, and `latest`: where it would end without limits;
    none while it is too early for a batch, which is then `short` of records.
    """

    end: StreamOffset
    warnings: tuple[str, ...] = ()
    begins: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    short: Short | None = None
    latest: Mapping[str, Mapping[int, int]] = field(default_factory=dict, compare=False)

    def lags(self) -> dict[TopicPartition, tuple[int, int]]:
        """The offsets, from and to, of each partition with something to read."""
        return {
            TopicPartition(topic, partition): (begin, end)
            for topic, begins in self.begins.items()
            for partition, begin in begins.items()
            if begin < (end := self.end.topics[topic].partitions[partition].offset)
        }

    def up_to(self, ends: Mapping[TopicPartition, int]) -> StreamOffset:
        """The end of a smaller batch: with the partitions that `ends` names, up to there."""
        topics = {}
        for name, topic in self.end.topics.items():
            partitions = {}
            for p, at in topic.partitions.items():
                begin = self.begins[name][p]
                end = ends.get(TopicPartition(name, p), begin)
                partitions[p] = replace(at, offset=min(max(end, begin), at.offset))
            topics[name] = replace(topic, partitions=partitions)
        return replace(self.end, topics=topics)


def assigned(bounds: Bounds) -> dict[str, list[int]]:
    """Topic to its partitions, in order."""
    return {topic: sorted(has.partitions) for topic, has in bounds.items()}


def require_topics(selection: Selection, bounds: Bounds) -> None:
    """UnknownTopic when a topic that is named does not exist; a pattern may find nothing."""
    missing = [topic for topic in selection.topics if topic not in bounds]
    if missing:
        raise UnknownTopic(
            f"the cluster has no topic {', '.join(missing)}; create it, or correct "
            f"{selection.option}"
        )


def initial(
    starting: Bound,
    bounds: Bounds,
    selection: Selection,
    found: Found,
    *,
    fail_on_data_loss: bool,
    story: Story = lambda _: UNKNOWN,
) -> StreamOffset:
    """The position at which a new stream starts.

    Raises UnknownTopic and InvalidOption for JSON that does not fit the topics, NoOffsetAtTime,
    OffsetBeyondEnd for an offset behind the newest record, and DataLoss for one before the oldest.
    """
    starting.check(assigned(bounds), str(selection))
    topics = {}
    for topic, has in bounds.items():
        at = {}
        for partition, bound in sorted(has.partitions.items()):
            place = TopicPartition(topic, partition)
            offset = starting.offset(place, found)
            if offset == EARLIEST:
                offset = bound.earliest
            elif offset == LATEST:
                offset = bound.latest
            elif starting.times:
                # Looked up after the bounds, so it may lie behind their end.
                at[partition] = PartitionPosition(max(offset, bound.earliest), bound.epoch)
                continue
            elif starting.group is not None and bound.earliest <= offset <= bound.end:
                # A reader of all records may have committed beyond an open transaction.
                epoch = starting.epochs.get(place, bound.epoch)
                at[partition] = PartitionPosition(offset, epoch)
                continue
            elif offset > bound.latest and fail_on_data_loss:
                raise OffsetBeyondEnd(
                    f"{starting.named(place, offset)}: the newest offset to start at is "
                    f"{bound.latest}; {ALLOW}"
                )
            elif offset < bound.earliest and fail_on_data_loss:
                raise too_old(place, offset, bound.earliest, story)
            at[partition] = PartitionPosition(
                min(max(offset, bound.earliest), bound.latest), bound.epoch
            )
        topics[topic] = TopicPosition(has.topic_id, at)
    return StreamOffset(topics)


def advance(
    start: StreamOffset,
    bounds: Bounds,
    selection: Selection,
    *,
    limit: int | None = None,
    pace: Pace | None = None,
    now_ms: int = 0,
    target: StreamOffset | None = None,
    fail_on_data_loss: bool = True,
    story: Story = lambda _: UNKNOWN,
) -> Advance:
    """The end of the batch that begins at `start`: the newest offsets, but at most `limit` records
    (shared by lag) and not beyond `target` (Trigger.AvailableNow). While `pace` says that it is too
    early, the end is `start`.

    New partitions begin at 0. Raises DataLoss, CheckpointMismatch and UnknownTopic unless
    `fail_on_data_loss` is false: then they are warnings.
    """
    judge = _Judge(fail_on_data_loss, story, selection)
    judge.foreign(start)
    begins: dict[str, dict[int, int]] = {}
    latest: dict[str, dict[int, int]] = {}
    for topic in selection.among(bounds, start.topics):
        has = bounds.get(topic)
        if has is None:
            judge.missing(topic, topic in start.topics)
            continue
        begins[topic] = _begins(judge, topic, start.topics.get(topic), has)
        latest[topic] = _latest(judge, topic, has, begins[topic], target)
    count = waiting(begins, latest)
    if pace is not None and not pace.due(count, now_ms):
        assert pace.min_offsets is not None
        known = {TopicPartition(t, p): end for t, ends in latest.items() for p, end in ends.items()}
        short = Short(pace.min_offsets - count, known, pace.left_ms(now_ms))
        return Advance(start, tuple(judge.warnings), short=short)
    ends = limited(begins, latest, limit)
    topics = {}
    for topic, offsets in ends.items():
        has = bounds[topic]
        topics[topic] = TopicPosition(
            has.topic_id,
            {p: PartitionPosition(o, has.partitions[p].epoch) for p, o in offsets.items()},
        )
    return Advance(StreamOffset(topics), tuple(judge.warnings), begins, latest=latest)


@dataclass(slots=True)
class _Judge:
    """Turns a loss into an error, or collects it as a warning."""

    fail: bool
    story: Story
    selection: Selection
    warnings: list[str] = field(default_factory=list)

    def loss(self, error: DataLoss) -> None:
        if self.fail:
            raise error
        self.warnings.append(str(error).removesuffix(f"; {ALLOW}"))

    def mismatch(self, message: str) -> None:
        if self.fail:
            raise CheckpointMismatch(message)
        self.warnings.append(str(CheckpointMismatch(message)))

    def foreign(self, start: StreamOffset) -> None:
        """Report a topic or partition that the checkpoint holds and the query does not read."""
        selection = self.selection
        for topic, position in sorted(start.topics.items()):
            if not selection.covers(topic):
                what = f"topic {topic}"
            else:
                others = [p for p in sorted(position.partitions) if not selection.covers(topic, p)]
                if not others:
                    continue
                what = f"{topic}-{others[0]}"
            self.mismatch(
                f"the checkpoint holds offsets of {what}, which the query does not read any more "
                f"({selection}); add it to {selection.option}, start with a new checkpoint, or set "
                "failOnDataLoss=false to forget it"
            )

    def missing(self, topic: str, was_read: bool) -> None:
        option = self.selection.option
        if was_read:
            self.loss(
                DataLoss(
                    f"topic {topic} was deleted while the query read it; create it and start with "
                    f"a new checkpoint, take it out of {option}; {ALLOW}"
                )
            )
        elif self.fail:
            raise UnknownTopic(f"the cluster has no topic {topic}; create it, or correct {option}")
        else:
            self.warnings.append(f"topic {topic} does not exist (any more); it is left out")


def _begins(
    judge: _Judge, topic: str, position: TopicPosition | None, has: TopicBounds
) -> dict[int, int]:
    """The offsets at which the next batch really begins: behind the records that are lost."""
    if position is not None and position.topic_id not in ("", has.topic_id):
        judge.loss(
            DataLoss(
                f"topic {topic} was deleted and created again (the checkpoint knows it as "
                f"{position.topic_id}, the cluster as {has.topic_id}), or the checkpoint belongs "
                f"to another cluster; start with a new checkpoint; {ALLOW}"
            )
        )
        return {p: bound.earliest for p, bound in has.partitions.items()}
    begins = {}
    known = position.partitions if position is not None else {}
    for partition in sorted(set(known) - set(has.partitions)):
        if not judge.selection.covers(topic, partition):
            continue
        judge.loss(DataLoss(f"partition {topic}-{partition} no longer exists; {ALLOW}"))
    for partition, bound in sorted(has.partitions.items()):
        at = known.get(partition)
        offset = at.offset if at is not None else 0
        if offset < bound.earliest:
            place = TopicPartition(topic, partition)
            judge.loss(too_old(place, offset, bound.earliest, judge.story, new=at is None))
        elif not bound.holds(offset):
            judge.loss(
                DataLoss(
                    f"the end of {topic}-{partition} went back from {offset} to {bound.latest}: "
                    f"{offset - bound.latest} records that the query has read were lost"
                    f"{_election(at, bound)}; {ALLOW}"
                )
            )
        elif bound.epoch_end is not None and bound.epoch_end < offset:
            judge.loss(
                DataLoss(
                    f"the log of {topic}-{partition} was cut at {bound.epoch_end} and written "
                    f"anew, and the query has read up to {offset}: offsets {bound.epoch_end} to "
                    f"{offset - 1} now hold other records{_election(at, bound)}; {ALLOW}"
                )
            )
        held = bound.holds(offset)
        begins[partition] = max(offset if held else bound.latest, bound.earliest)
    return begins


def _latest(
    judge: _Judge,
    topic: str,
    has: TopicBounds,
    begins: Mapping[int, int],
    target: StreamOffset | None,
) -> dict[int, int]:
    latest = {p: max(bound.latest, begins[p]) for p, bound in has.partitions.items()}
    if target is None:
        return latest
    # Anything that came after the target, partitions or a re-created topic, is not for this run.
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
                    f"Trigger.AvailableNow was to stop, to {offset}; {ALLOW}"
                )
            )
        else:
            # The start itself may lie behind the target: a replayed plan of an earlier run.
            latest[partition] = max(aim.offset, begins[partition])
    return latest


def stream_ranges(
    start: StreamOffset, end: StreamOffset, *, fail_on_data_loss: bool = True
) -> list[ReadRange]:
    """The ranges between two positions of a stream, without empty ones, in order.

    The start that the first batch recorded in its end wins over `start`: see
    `pylog_connector.offsets`.
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
                and before.topic_id in ("", topic.topic_id)
                and partition in before.partitions
            ):
                begin = before.partitions[partition].offset
            if begin > position.offset:
                if fail_on_data_loss:
                    raise DataLoss(
                        f"the batch of {name}-{partition} would end at {position.offset}, before "
                        f"its start {begin}: records were lost; {ALLOW}"
                    )
                continue
            if begin < position.offset:
                known = (begin, position.offset)
                ranges.append(ReadRange(name, topic.topic_id, partition, *known, known=known))
    return ranges


def too_old(
    at: TopicPartition, wanted: int, first: int, story: Story, *, new: bool = False
) -> DataLoss:
    """Records from `wanted` on were to be read, and `first` is the oldest that is left."""
    what = "is new to the query, and " if new else ""
    return DataLoss(
        f"{at} {what}was to be read from offset {wanted}, but its first offset is {first} by now: "
        f"{first - wanted} records were deleted {story(at)}; {ALLOW}"
    )


def _election(at: PartitionPosition | None, bound: PartitionBounds) -> str:
    """The election that explains why records are gone, by the leader epochs, for an error's text;
    empty where they show none.
    """
    if at is None or at.epoch < 0 or bound.epoch <= at.epoch:
        return ""
    return (
        f" (they were read from the leader of epoch {at.epoch}, and the partition is at epoch "
        f"{bound.epoch}: a leader without them was elected, as unclean elections allow, or disks "
        "were lost)"
    )
