"""The share coordinator: one shard's state of partitions, as their leaders write it. Pure.

A `Coordinator` of the runtime. A snapshot has all of a partition's state, an update what has
changed since; after so many updates the next write is a snapshot. Writes are fenced twice: by the
leader epoch, so that a leader that was replaced changes nothing, and by the state epoch, so that
what a leader has made of the state is not put on top of another beginning, which somebody has set.
A leader that hears nothing sends a write once more, and the copy before may come last, when other
writes have followed: what would set back what the leader has written since is passed over. A leader
of a later epoch may set back all that was before it, as the log may have lost records.

Everything before the oldest snapshot that counts is redundant: `redundant_before` tells it, and a
snapshot of partitions that are written seldom moves it on.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from pylog.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest
from pylog.model import Offset, TopicId, topic_id_from_bytes, topic_id_to_bytes
from pylog_broker.coordinator.generated import share_snapshot, share_update
from pylog_broker.coordinator.generated.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from pylog_broker.coordinator.generated.share_update import ShareUpdateKey, ShareUpdateValue
from pylog_broker.coordinator.runtime.decision import (
    Decision,
    Record,
    Reply,
    RequestId,
    SetTimer,
)
from pylog_broker.share.persisted import (
    UNKNOWN_COUNT,
    InitializeState,
    ReadState,
    StateRead,
    StateSummary,
    WriteState,
)
from pylog_broker.share.record_states import RecordState, StateBatch
from pylog_broker.share.sessions import SharePartitionKey
from pylog_broker.share.state_batches import changed, combined, fault_in, newer

COLD: Final = "cold"
"""The timer of the pass that writes snapshots of partitions that were not written for long."""
COLD_SNAPSHOTS_MAX: Final = 1_000
"""The most snapshots of one pass."""
NO_LEADER: Final = 0
NOT_MOVED: Final = -1
"""The start offset that a leader has written which has left it where it was."""
_STATES: Final = {
    0: RecordState.AVAILABLE,
    1: RecordState.AVAILABLE,
    2: RecordState.ACKNOWLEDGED,
    3: RecordState.ARCHIVING,
}
"""The states by their numbers in records. A record with any other number, of a later release too,
is no more delivered."""


@dataclass(frozen=True, slots=True)
class ShareStateConfig:
    """Defaults are Kafka's."""

    updates_per_snapshot: int = 500
    """share.coordinator.snapshot.update.records.per.snapshot"""
    cold_snapshot_interval_ms: int = 300_000
    """share.coordinator.cold.partition.snapshot.interval.ms"""


@dataclass(frozen=True, slots=True)
class PartitionShareState:
    """The state of a partition out of its records. `snapshot_offset`: the offset of its snapshot in
    the log; `updates`: the number of records behind that. `own_start` and `own_batches`: what the
    leader of the present epoch has written of it, as far as the records since the snapshot tell.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    created_ms: int
    snapshot_offset: Offset
    updates: int = 0
    own_start: int = field(default=NOT_MOVED, compare=False)
    own_batches: tuple[StateBatch, ...] = field(default=(), compare=False)


class ShareCoordinator:
    """All state is what `replay` has made of records."""

    def __init__(self, config: ShareStateConfig) -> None:
        self._config = config
        self.partitions: dict[SharePartitionKey, PartitionShareState] = {}
        self._next_offset = Offset(0)

    # ---- as any coordinator ----------------------------------------------------------------------

    def replay(self, record: Record, offset: Offset) -> None:
        """Takes in a record."""
        key, value, _ = record
        self._next_offset = Offset(offset + 1)
        found = SharePartitionKey(key.group_id, topic_id_from_bytes(key.topic_id), key.partition)
        present = self.partitions.get(found)
        if isinstance(key, ShareSnapshotKey):
            if value is None:
                self.partitions.pop(found, None)
            else:
                self.partitions[found] = _from_snapshot(present, value, offset)
            return
        # An update that is older than the snapshot says nothing that the snapshot does not.
        if value is None or present is None or value.snapshot_epoch < present.snapshot_epoch:
            return
        news, start_offset = _batches_of(value.state_batches), value.start_offset
        goes_on = value.leader_epoch == present.leader_epoch
        own_start = present.own_start if goes_on else NOT_MOVED
        self.partitions[found] = PartitionShareState(
            present.snapshot_epoch,
            present.state_epoch,
            value.leader_epoch,
            start_offset,
            value.delivery_complete_count,
            combined(present.batches, news, start_offset),
            present.created_ms,
            present.snapshot_offset,
            present.updates + 1,
            own_start if start_offset == present.start_offset else start_offset,
            combined(present.own_batches if goes_on else (), news, start_offset),
        )

    def on_loaded(self, now_ms: int, wall_ms: int) -> Decision:
        """It looks for cold partitions from time to time."""
        return Decision(effects=[self._cold_timer()])

    def on_timer(self, now_ms: int, wall_ms: int, key: Hashable) -> Decision:
        """Partitions that were not written since the last pass hold the log's beginning: those with
        the oldest snapshots get new ones.
        """
        assert key == COLD, key
        oldest = sorted(self.partitions.items(), key=lambda entry: entry[1].snapshot_offset)
        decision = Decision(effects=[self._cold_timer()], is_atomic=False)
        behind = self._next_offset - len(self.partitions)
        for each, present in oldest[:COLD_SNAPSHOTS_MAX]:
            if present.snapshot_offset < behind:
                decision.records.append(_snapshot(each, present, wall_ms))
        return decision

    def _cold_timer(self) -> SetTimer:
        return SetTimer(COLD, self._config.cold_snapshot_interval_ms)

    def redundant(self, request_id: RequestId) -> Decision:
        """The offset before which no record is needed. As with any reply, what that rests on is
        committed when it leaves.
        """
        return Decision(effects=[Reply(request_id, self.redundant_before())])

    def redundant_before(self) -> Offset:
        """No record before that offset is needed, once all that is decided is committed."""
        return min(
            (each.snapshot_offset for each in self.partitions.values()), default=self._next_offset
        )

    # ---- requests --------------------------------------------------------------------------------

    def initialize(self, wall_ms: int, request_id: RequestId, request: InitializeState) -> Decision:
        """None: there is state of that epoch, which begins there; once more is as good as once.
        Raises FencedStateEpoch where there is state of a later epoch.
        """
        decision = Decision(effects=[Reply(request_id, None)])
        present = self.partitions.get(request.key)
        if present is not None:
            if present.state_epoch > request.state_epoch:
                raise FencedStateEpoch(
                    f"{_shown(request.key)}: its state is of epoch {present.state_epoch}, and the "
                    f"request is of epoch {request.state_epoch}"
                )
            if present.state_epoch == request.state_epoch:
                return decision
        made = PartitionShareState(
            0 if present is None else present.snapshot_epoch + 1,
            request.state_epoch,
            NO_LEADER if present is None else present.leader_epoch,
            request.start_offset,
            UNKNOWN_COUNT if request.start_offset < 0 else 0,
            (),
            wall_ms,
            Offset(0),
        )
        decision.records.append(_snapshot_record(request.key, made, wall_ms))
        return decision

    def read(self, wall_ms: int, request_id: RequestId, request: ReadState) -> Decision:
        """`StateRead`; from then on no leader of an earlier epoch writes. Raises InvalidRequest for
        a partition without state, and FencedLeaderEpoch.

        It writes the leader's epoch also where it is the present one: the answer waits until that
        is committed, so a coordinator that was replaced does not answer with what it had.
        """
        present = self._known(request.key, "read")
        self._check_leader(request.key, present, request.leader_epoch)
        answer = StateRead(present.state_epoch, present.start_offset, present.batches)
        update = ShareUpdateValue(
            present.snapshot_epoch,
            request.leader_epoch,
            present.start_offset,
            (),
            present.delivery_complete_count,
        )
        record = Record(_update_key(request.key), update)
        return Decision([record], [Reply(request_id, answer)])

    def write(self, wall_ms: int, request_id: RequestId, request: WriteState) -> Decision:
        """None: it is there. Raises InvalidRequest for a partition without state and for batches
        that make no sense, FencedStateEpoch and FencedLeaderEpoch.
        """
        key = request.key
        present = self._known(key, "written")
        if request.state_epoch != present.state_epoch:
            raise FencedStateEpoch(
                f"{_shown(key)}: its state is of epoch {present.state_epoch}, and the write is of "
                f"epoch {request.state_epoch}"
            )
        self._check_leader(key, present, request.leader_epoch)
        if fault := fault_in(request.batches):
            raise InvalidRequest(f"{_shown(key)}: {fault}")
        decision = Decision(effects=[Reply(request_id, None)])
        start_offset, batches = request.start_offset, request.batches
        if request.leader_epoch == present.leader_epoch:
            start_offset = max(start_offset, present.own_start)
            batches = newer(present.own_batches, batches, start_offset)
        is_late = start_offset > request.start_offset or _count(batches) < _count(request.batches)
        if is_late and not batches and start_offset == present.start_offset:
            return decision
        done = present.delivery_complete_count if is_late else request.delivery_complete_count
        if present.updates + 1 < self._config.updates_per_snapshot:
            update = ShareUpdateValue(
                present.snapshot_epoch,
                request.leader_epoch,
                start_offset,
                tuple(
                    share_update.StateBatch(each[0], each[1], each.state.value, each[3])
                    for each in batches
                ),
                done,
            )
            decision.records.append(Record(_update_key(key), update))
            return decision
        made = PartitionShareState(
            present.snapshot_epoch,
            present.state_epoch,
            request.leader_epoch,
            start_offset,
            done,
            combined(present.batches, batches, start_offset),
            present.created_ms,
            present.snapshot_offset,
        )
        decision.records.append(_snapshot(key, made, wall_ms))
        return decision

    def delete(self, request_id: RequestId, key: SharePartitionKey) -> Decision:
        """None: there is no state, or there never was any."""
        decision = Decision(effects=[Reply(request_id, None)])
        if key in self.partitions:
            decision.records.append(Record(_snapshot_key(key), None))
        return decision

    def on_topics_deleted(self, topics: Collection[TopicId]) -> Decision:
        """There is no state of partitions of these topics any more."""
        gone = [key for key in self.partitions if key.topic_id in topics]
        return Decision([Record(_snapshot_key(key), None) for key in gone], is_atomic=False)

    def summary(self, request_id: RequestId, key: SharePartitionKey) -> Decision:
        """`StateSummary`. Raises InvalidRequest for a partition without state."""
        present = self._known(key, "read")
        answer = StateSummary(
            present.state_epoch,
            present.leader_epoch,
            present.start_offset,
            present.delivery_complete_count,
        )
        return Decision(effects=[Reply(request_id, answer)])

    def _known(self, key: SharePartitionKey, what: str) -> PartitionShareState:
        present = self.partitions.get(key)
        if present is None:
            raise InvalidRequest(
                f"{_shown(key)} has no state that could be {what}: it was not initialized, or is "
                "deleted"
            )
        return present

    def _check_leader(
        self, key: SharePartitionKey, present: PartitionShareState, leader_epoch: int
    ) -> None:
        if leader_epoch < present.leader_epoch:
            raise FencedLeaderEpoch(
                f"{_shown(key)}: its leader is of epoch {present.leader_epoch}, and the request is "
                f"of epoch {leader_epoch}"
            )


def _from_snapshot(
    present: PartitionShareState | None, value: ShareSnapshotValue, offset: Offset
) -> PartitionShareState:
    batches = combined((), _batches_of(value.state_batches), value.start_offset)
    own_start, own_batches = NOT_MOVED, tuple[StateBatch, ...]()
    if present is not None and present.state_epoch == value.state_epoch:
        goes_on = present.leader_epoch == value.leader_epoch
        news = changed(present.batches, batches)
        own_batches = combined(present.own_batches if goes_on else (), news, value.start_offset)
        own_start = present.own_start if goes_on else NOT_MOVED
        if value.start_offset != present.start_offset:
            own_start = value.start_offset
    return PartitionShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        batches,
        value.create_timestamp,
        offset,
        own_start=own_start,
        own_batches=own_batches,
    )


def _shown(key: SharePartitionKey) -> str:
    return f"partition {key.partition} of topic {key.topic_id} in share group {key.group_id!r}"


def _batches_of(
    batches: Iterable[share_snapshot.StateBatch | share_update.StateBatch],
) -> list[StateBatch]:
    return [
        StateBatch(each[0], each[1], _STATES.get(each[2], RecordState.ARCHIVED), each[3])
        for each in batches
    ]


def _count(batches: Iterable[StateBatch]) -> int:
    return sum(last - first + 1 for first, last, _, _ in batches)


def _snapshot_key(key: SharePartitionKey) -> ShareSnapshotKey:
    return ShareSnapshotKey(key.group_id, topic_id_to_bytes(key.topic_id), key.partition)


def _update_key(key: SharePartitionKey) -> ShareUpdateKey:
    return ShareUpdateKey(key.group_id, topic_id_to_bytes(key.topic_id), key.partition)


def _snapshot(key: SharePartitionKey, state: PartitionShareState, wall_ms: int) -> Record:
    """The next snapshot, of that state."""
    value = _snapshot_record(key, state, wall_ms).value
    assert value is not None
    return Record(_snapshot_key(key), value._replace(snapshot_epoch=state.snapshot_epoch + 1))


def _snapshot_record(key: SharePartitionKey, state: PartitionShareState, wall_ms: int) -> Record:
    value = ShareSnapshotValue(
        state.snapshot_epoch,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.created_ms,
        wall_ms,
        tuple(
            share_snapshot.StateBatch(each[0], each[1], each.state.value, each[3])
            for each in state.batches
        ),
        state.delivery_complete_count,
    )
    return Record(_snapshot_key(key), value)
