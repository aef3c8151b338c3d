"""The twin of a log of share state: what it takes in, and what must not be in such a log."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pylog.model import Offset, TopicId, topic_id_to_bytes
from pylog_broker.coordinator.generated.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from pylog_broker.coordinator.generated.share_snapshot import StateBatch as SnapshotBatch
from pylog_broker.coordinator.generated.share_update import ShareUpdateKey, ShareUpdateValue
from pylog_broker.coordinator.generated.share_update import StateBatch as UpdateBatch
from pylog_broker.coordinator.runtime.decision import Record
from pylog_broker.coordinator.share_state.coordinator import ShareCoordinator, ShareStateConfig
from pylog_broker.share.record_states import RecordState
from pylog_broker.share.sessions import SharePartitionKey
from tests.sim.share_log import Fate, ShareLog, Written, in_memory
from tests.sim.violation import Violation

TOPIC = TopicId("A" * 22)
PLACE = SharePartitionKey("g", TOPIC, 0)
AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 2, 3, 4
Batches = Iterable[tuple[int, int, int, int]]


class Judge:
    """Remembers what it is told. `earliest`: what a group has not read begins at 0."""

    def __init__(self, *, earliest: bool = False) -> None:
        self.told: list[tuple[int, int]] = []
        self.given: list[tuple[int, int, int]] = []
        self.earliest = earliest
        self.asked: set[int] = set()
        """Starts at which somebody has asked to begin anew."""

    def began_anew(self, place: SharePartitionKey, start: int) -> bool:
        assert place == PLACE
        return start in self.asked

    def begun_by(self, place: SharePartitionKey, start: int) -> int:
        assert place == PLACE
        return 0 if self.earliest else start

    def given_up(
        self, place: SharePartitionKey, offset: int, leader_epoch: int, count: int
    ) -> None:
        assert place == PLACE
        self.given.append((offset, leader_epoch, count))

    def finished(self, place: SharePartitionKey, offset: int, leader_epoch: int) -> None:
        assert place == PLACE
        self.told.append((offset, leader_epoch))


def snapshot(
    epoch: int, state_epoch: int, leader_epoch: int, start: int, batches: Batches = ()
) -> Record:
    key = ShareSnapshotKey("g", topic_id_to_bytes(TOPIC), 0)
    found = tuple(SnapshotBatch(*each) for each in batches)
    return Record(key, ShareSnapshotValue(epoch, state_epoch, leader_epoch, start, 5, 6, found, 0))


def update(epoch: int, leader_epoch: int, start: int, batches: Batches = ()) -> Record:
    key = ShareUpdateKey("g", topic_id_to_bytes(TOPIC), 0)
    found = tuple(UpdateBatch(*each) for each in batches)
    return Record(key, ShareUpdateValue(epoch, leader_epoch, start, found, 0))


def taken(judge: Judge, *records: Record) -> ShareLog:
    log = ShareLog(judge)
    for offset, record in enumerate(records):
        log.take(record, Offset(offset))
    return log


HISTORY = (
    snapshot(0, 3, 0, -1),
    update(0, 2, -1),
    update(0, 2, 0, [(0, 1, ACKNOWLEDGED, 1), (3, 4, AVAILABLE, 1)]),
    update(0, 2, 2, [(3, 3, ACKNOWLEDGED, 2)]),
    snapshot(1, 3, 5, 2, [(3, 3, ACKNOWLEDGED, 2), (4, 4, AVAILABLE, 1)]),
    update(1, 5, 5, []),
)


def test_it_has_what_the_products_replay_has() -> None:
    judge, coordinator = Judge(), ShareCoordinator(ShareStateConfig())
    log = taken(judge, *HISTORY)
    for offset, record in enumerate(HISTORY):
        coordinator.replay(record, Offset(offset))
    assert log.written == in_memory(coordinator) == {PLACE: Written(1, 3, 5, 5)}
    assert judge.told == [(0, 2), (1, 2), (3, 2), (2, 5), (4, 5)]


def test_it_tells_what_became_of_each_record() -> None:
    written = taken(Judge(), *HISTORY[:4]).written[PLACE]
    assert written.fates == {
        3: Fate(RecordState.ACKNOWLEDGED, 2),
        4: Fate(RecordState.AVAILABLE, 1),
    }
    assert [written.is_done(offset) for offset in range(6)] == [
        True,
        True,
        False,
        True,
        *[False] * 2,
    ]


def test_a_record_is_given_up_before_it_is_done() -> None:
    judge = Judge()
    begun = [snapshot(0, 3, 0, -1), update(0, 2, 0, [(0, 1, ARCHIVING, 2)])]
    taken(judge, *begun)
    assert (judge.given, judge.told) == ([(0, 2, 2), (1, 2, 2)], [])
    log = taken(judge, *begun, update(0, 4, 0, [(1, 1, ARCHIVED, 2)]))
    assert judge.told == [(1, 4)]
    with pytest.raises(Violation):
        log.take(update(0, 4, 0, [(0, 0, ACKNOWLEDGED, 2)]), Offset(3))


def test_a_group_that_begins_with_the_earliest_record_has_all() -> None:
    judge = Judge(earliest=True)
    taken(judge, snapshot(0, 3, 0, -1), update(0, 2, 2))
    assert judge.told == [(0, 2), (1, 2)]


def test_state_goes_with_its_topic() -> None:
    gone = Record(ShareSnapshotKey("g", topic_id_to_bytes(TOPIC), 0), None)
    assert taken(Judge(), *HISTORY, gone).written == {}


@pytest.mark.parametrize(
    "record",
    [
        update(0, 1, 2),  # of a leader that was replaced
        update(0, 2, 1),  # the start goes back
        update(0, 2, 2, [(3, 3, AVAILABLE, 3)]),  # what is done is not
        update(0, 2, 2, [(4, 4, AVAILABLE, 0)]),  # delivered less often
        update(0, 2, 2, [(4, 4, 1, 2)]),  # acquired
        update(1, 2, 2),  # of a snapshot that is not there
        snapshot(1, 3, 2, 2, [(3, 3, ACKNOWLEDGED, 2)]),  # without record 4
        snapshot(1, 4, 2, -1),  # begins anew
    ],
)
def test_what_must_not_be_in_the_log(record: Record) -> None:
    log = taken(Judge(), *HISTORY[:4])
    with pytest.raises(Violation):
        log.take(record, Offset(4))


def test_state_begins_anew_where_somebody_asks_for_it() -> None:
    judge = Judge()
    log = taken(judge, *HISTORY[:4])
    judge.asked.add(42)
    log.take(snapshot(0, 4, 0, 42), Offset(4))
    assert log.written == {PLACE: Written(0, 4, 0, 42)}
    with pytest.raises(Violation):
        log.take(snapshot(0, 5, 0, 41), Offset(5))


def test_nothing_is_updated_that_has_no_state() -> None:
    with pytest.raises(Violation):
        taken(Judge(), update(0, 0, 0))
