"""The right answers of a leader to questions about its log: plain twins, over the ghost state.

A record that compaction has taken may or may not count: the answer may name any place between the
last record that is still there and the next one.
"""

from __future__ import annotations

from pylog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, BrokerId
from pylog_broker.replication.fetch_messages import PartitionData, PartitionFetch
from pylog_broker.replication.offset_messages import OffsetAnswer, OffsetQuery
from pylog_broker.replication.replica_fetch_messages import ReplicaEpochEnd
from tests.sim.ghost import Batch, PartitionGhost, Shadow
from tests.sim.violation import Violation


def check_offset(
    ghost: PartitionGhost, broker: BrokerId, query: OffsetQuery, told: OffsetAnswer
) -> None:
    """The answer of a broker that believes to lead."""
    shadow = ghost.shadow(broker)
    offset, asked = told.offset, query.timestamp_ms
    fault = ""
    if asked == LATEST_TIMESTAMP:
        if offset != _upper(ghost, shadow, query):
            fault = f"its end is {_upper(ghost, shadow, query)}"
        elif query.read_committed and ghost.transactions.begun:
            return  # others are told more
        elif shadow.leads == ghost.newest_epoch and offset < ghost.listed_end:
            fault = f"{ghost.listed_end} was told before"
        ghost.listed_end = max(ghost.listed_end, offset)
    elif asked == EARLIEST_TIMESTAMP:
        if offset != shadow.log_start:
            fault = f"its log starts at {shadow.log_start}"
    elif asked == MAX_TIMESTAMP:
        fault = _not_the_newest(_readable(ghost, shadow, query), told)
    else:
        fault = _not_the_first(_readable(ghost, shadow, query), asked, told)
    if fault:
        raise Violation("O", f"broker {broker} tells {told} for {query}, but {fault}")


def check_out_of_range(ghost: PartitionGhost, broker: BrokerId, offset: int) -> None:
    """A broker that believes to lead has told that its log does not have `offset`.

    One that was deposed and does not know it may be behind. To a reader that names the epoch of
    the record before it says that it knows less; to another one it has no means to tell.
    """
    shadow = ghost.shadow(broker)
    if shadow.leads < ghost.newest_epoch or ghost.is_lossy:
        return
    if ghost.deleted_to <= offset <= ghost.committed_end:
        raise Violation(
            "O",
            f"broker {broker} has no offset {offset}, but leads epoch {shadow.leads}, and nothing "
            f"from {ghost.deleted_to} to {ghost.committed_end} was deleted",
        )


def check_divergence(
    ghost: PartitionGhost, broker: BrokerId, asked: PartitionFetch, told: PartitionData
) -> None:
    """Check that committed records diverge from no leader's log, as long as it remembers the epoch.
    One that was deposed and does not know it may be behind: records that it lacks are committed
    since, and a reader that does not name the leader's epoch does not learn that it knows more.
    """
    assert told.diverging is not None
    if ghost.shadow(broker).leads < ghost.newest_epoch or ghost.is_lossy:
        return
    if ghost.may_compact and told.diverging.end_offset >= asked.fetch_offset:
        return  # a leader whose log has lost all records of an epoch need not know it any more
    before = ghost.committed_before(asked.fetch_offset)
    if before is None or before.epoch != asked.last_fetched_epoch:
        return  # the reader has read something else
    if before.last >= max(ghost.deleted_to, told.log_start_offset):
        raise Violation("E", f"broker {broker} tells {told} to {asked}, behind {before}")


def _upper(ghost: PartitionGhost, shadow: Shadow, query: OffsetQuery) -> int:
    """The offset up to which the asker may read."""
    is_held_back = query.read_committed and ghost.transactions.begun
    return shadow.last_stable if is_held_back else shadow.high_watermark


def _readable(ghost: PartitionGhost, shadow: Shadow, query: OffsetQuery) -> list[tuple[int, int]]:
    """(offset, time) of every record that is there, from the log start to where the asker may read.
    Both may lie inside a batch: a leader that starts knows no more than its log start is committed.
    """
    found = []
    upper = _upper(ghost, shadow, query)
    for batch in shadow.batches:
        if batch.last < shadow.log_start or batch.base >= upper:
            continue
        gone = shadow.holes.get(batch.base, frozenset())
        times = ghost.contents.of(batch.mark).timestamps
        found += [
            (batch.base + index, time)
            for index, time in enumerate(times)
            if shadow.log_start <= batch.base + index < upper and batch.base + index not in gone
        ]
    return found


def _not_the_first(found: list[tuple[int, int]], asked: int, told: OffsetAnswer) -> str:
    wanted = next(((o, t) for o, t in found if t >= asked), None)
    if wanted is None:
        return "" if told.offset < 0 else "no record is that late"
    if (told.offset, told.timestamp_ms) == wanted:
        return ""
    return f"the first record of that time is {wanted}"


def _not_the_newest(found: list[tuple[int, int]], told: OffsetAnswer) -> str:
    newest = max((time for _, time in found), default=-1)
    if told.timestamp_ms == newest and (not found or (told.offset, newest) in found):
        return ""
    return f"the newest time is {newest}"


def check_epoch_end(
    ghost: PartitionGhost, broker: BrokerId, epoch: int, told: ReplicaEpochEnd
) -> None:
    """Check the end of `epoch`, or of the last one before it, in the log of a broker that leads."""
    if told.leader_epoch < 0:
        return  # it knows none that old
    shadow = ghost.shadow(broker)
    before = [batch for batch in shadow.batches if batch.epoch <= epoch]
    behind = next((batch for batch in shadow.batches if batch.epoch > epoch), None)
    first = before[-1].last + 1 if before else shadow.start
    # an epoch that began below the log start counts from there
    last = max(shadow.end if behind is None else behind.base, shadow.log_start)
    if told.leader_epoch > epoch or not first <= told.end_offset <= last:
        raise Violation(
            "E",
            f"broker {broker} tells {told} for epoch {epoch}, which ends between {first} "
            f"({_last(before)}) and {last} ({behind})",
        )


def _last(batches: list[Batch]) -> Batch | None:
    return batches[-1] if batches else None
