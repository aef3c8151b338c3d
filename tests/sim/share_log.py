"""The contents of a log of share state, by a plain twin: what became of each record, one by one.

Nothing of the product's replay is used for it, but for the codec that turns bytes into records. It
holds what must be true of any such log: leaders' epochs rise, start offsets do not go back, records
are delivered more often and never less, and what is done stays so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pylog.model import Offset, topic_id_from_bytes
from pylog_broker.coordinator.generated.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from pylog_broker.coordinator.runtime.decision import Record
from pylog_broker.coordinator.share_state.coordinator import PartitionShareState, ShareCoordinator
from pylog_broker.share.record_states import RecordState
from pylog_broker.share.sessions import SharePartitionKey
from tests.sim.violation import Violation

NOWHERE = -1
"""The start offset of a partition that nobody has read."""
_DONE = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Fate(NamedTuple):
    """The durable state of one record, and how often it was delivered."""

    state: RecordState
    count: int

    @property
    def is_done(self) -> bool:
        """Whether nothing happens to it any more."""
        return self.state in _DONE

    @property
    def is_final(self) -> bool:
        """Whether it is delivered no more."""
        return self.is_done or self.state is RecordState.ARCHIVING


UNTOUCHED = Fate(RecordState.AVAILABLE, 0)


@dataclass(slots=True)
class Written:
    """The state of a partition, as its records have it."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start: int
    fates: dict[int, Fate] = field(default_factory=dict)

    def fate(self, offset: int) -> Fate:
        """The state of the record at that offset, which is not before the start."""
        return self.fates.get(offset, UNTOUCHED)

    def is_done(self, offset: int) -> bool:
        """Whether the record is delivered no more."""
        return offset < self.start or self.fate(offset).is_done

    @property
    def unfinished_from(self) -> int:
        """The first offset whose record may be delivered yet."""
        offset = max(self.start, 0)
        while self.fate(offset).is_done:
            offset += 1
        return offset


class Judge(Protocol):
    """Hears which records are delivered no more, and raises where nothing speaks for that."""

    def finished(self, place: SharePartitionKey, offset: int, leader_epoch: int) -> None:
        """The leader of that epoch says so, and it is committed."""

    def given_up(
        self, place: SharePartitionKey, offset: int, leader_epoch: int, count: int
    ) -> None:
        """The leader of that epoch says that it is delivered no more, and goes to the dead-letter
        topic; and that is committed.
        """

    def begun_by(self, place: SharePartitionKey, start: int) -> int:
        """The first leader has written that start offset. The offset from which on each record
        before that must have been finished.
        """

    def began_anew(self, place: SharePartitionKey, start: int) -> bool:
        """The state begins there in another epoch. Whether somebody has asked for that."""


class ShareLog:
    """The log of one partition of the internal topic, up to what is committed."""

    def __init__(self, judge: Judge) -> None:
        self.batches = 0  # so many are taken in
        self.written: dict[SharePartitionKey, Written] = {}
        self.records: list[tuple[Record, Offset]] = []
        self._judge = judge

    def take(self, record: Record, offset: Offset) -> None:
        """The next record."""
        self.records.append((record, offset))
        key, value, _ = record
        place = SharePartitionKey(key.group_id, topic_id_from_bytes(key.topic_id), key.partition)
        before = self.written.get(place)
        is_snapshot = isinstance(key, ShareSnapshotKey)
        if value is None:
            if is_snapshot:
                self.written.pop(place, None)
            return
        if is_snapshot and (before is None or value.state_epoch > before.state_epoch):
            is_asked = self._judge.began_anew(place, value.start_offset)
            if before is not None and before.start != NOWHERE and not is_asked:
                raise Violation("S", f"{place} begins anew with {value}; there was {before}")
            self.written[place] = _begun(value)
            return
        if before is None:
            raise Violation("S", f"{place} is updated before it has state: {value}")
        if not is_snapshot and value.snapshot_epoch != before.snapshot_epoch:
            raise Violation("S", f"{place} has {before}, and {value} is of another snapshot")
        self._update(place, before, value, is_snapshot=is_snapshot)

    def _update(
        self, place: SharePartitionKey, before: Written, value: Any, *, is_snapshot: bool
    ) -> None:
        if value.leader_epoch < before.leader_epoch:
            raise Violation("S", f"{place}: a leader that was replaced writes {value}; {before}")
        if value.start_offset < before.start:
            raise Violation("S", f"{place}: its start goes back from {before.start}: {value}")
        news = _fates(value.state_batches)
        for offset, fate in news.items():
            if offset >= max(value.start_offset, before.start):
                _check_move(place, offset, before.fate(offset), fate, value)
                if fate.is_done and not before.is_done(offset):
                    self._judge.finished(place, offset, value.leader_epoch)
                elif fate.state is RecordState.ARCHIVING and fate != before.fate(offset):
                    self._judge.given_up(place, offset, value.leader_epoch, fate.count)
        if is_snapshot:
            _check_whole(place, before, news, value)
        begun = before.start
        if begun == NOWHERE:
            begun = self._judge.begun_by(place, value.start_offset)
        for offset in range(begun, value.start_offset):
            if not before.is_done(offset):
                self._judge.finished(place, offset, value.leader_epoch)
            before.fates.pop(offset, None)
        before.fates.update((o, fate) for o, fate in news.items() if o >= value.start_offset)
        before.snapshot_epoch = value.snapshot_epoch
        before.leader_epoch, before.start = value.leader_epoch, value.start_offset


def _check_whole(
    place: SharePartitionKey, before: Written, news: dict[int, Fate], value: Any
) -> None:
    """A snapshot has all that there was."""
    lost = [
        offset
        for offset, fate in before.fates.items()
        if offset >= value.start_offset and fate != UNTOUCHED and offset not in news
    ]
    if lost:
        raise Violation("S", f"{place}: {value} has nothing of {lost}; {before}")


def _check_move(place: SharePartitionKey, offset: int, known: Fate, fate: Fate, value: Any) -> None:
    archived = known.state is RecordState.ARCHIVING and fate.state is RecordState.ARCHIVED
    if fate.count < known.count:
        raise Violation("S", f"{place}: {offset} was delivered {known.count}x, then {value}")
    if known != fate and (known.is_done or known.state is RecordState.ARCHIVING) and not archived:
        raise Violation("S", f"{place}: {offset} is {known}, then {value}")
    if fate.state is RecordState.ACQUIRED:
        raise Violation("S", f"{place}: {offset} is written as acquired: {value}")


def _begun(value: ShareSnapshotValue) -> Written:
    return Written(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        _fates(value.state_batches),
    )


def _fates(batches: Iterable[Any]) -> dict[int, Fate]:
    return {
        offset: Fate(RecordState(each.delivery_state), each.delivery_count)
        for each in batches
        for offset in range(each.first_offset, each.last_offset + 1)
    }


def in_memory(coordinator: ShareCoordinator) -> dict[SharePartitionKey, Written]:
    """The coordinator's memory, record by record."""
    return {place: _as_written(state) for place, state in coordinator.partitions.items()}


def _as_written(state: PartitionShareState) -> Written:
    return Written(
        state.snapshot_epoch,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        {
            offset: Fate(each.state, each.delivery_count)
            for each in state.batches
            for offset in range(each.first_offset, each.last_offset + 1)
        },
    )
