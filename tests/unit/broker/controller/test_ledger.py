"""The ledger: nothing leaves before what it rests on is committed."""

from __future__ import annotations

import pytest

from pylog.model import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from pylog_broker.controller.effects import AppendRecords, Publish, Report, machine_of
from pylog_broker.controller.ledger import Ledger
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import MetadataBatch
from pylog_broker.metadata.records import (
    ClusterRecord,
    ControllerEpochRecord,
    PartitionRecord,
    TopicRecord,
)


def epoch(number: int) -> ControllerEpochRecord:
    return ControllerEpochRecord(ControllerEpoch(number))


def new_ledger(tail: int = 100) -> Ledger:
    return ledger_of(MetadataImage(), tail=tail)


def ledger_of(image: MetadataImage, *, tail: int = 9, next_offset: Offset | None = None) -> Ledger:
    return Ledger(
        machine_of(image),
        epoch=ControllerEpoch(1),
        tail_records_max=tail,
        next_offset=next_offset,
    )


def test_with_nothing_uncommitted_effects_leave_at_once() -> None:
    assert new_ledger().seal([Report("a")]) == [Report("a")]


def test_effects_wait_for_what_was_decided_before_them() -> None:
    ledger = new_ledger()
    ledger.write(ClusterRecord("c"))
    ledger.write(epoch(1))
    first = AppendRecords(Offset(0), (ClusterRecord("c"), epoch(1)))
    assert ledger.seal([Report("a")]) == [first]
    ledger.write(epoch(2))
    assert ledger.seal([Report("b")]) == [AppendRecords(Offset(2), (epoch(2),))]
    assert ledger.seal([Report("c")]) == []
    assert (ledger.decided.controller_epoch, ledger.committed.controller_epoch) == (2, -1)
    one = ledger.commit(Offset(1))
    assert [type(effect) for effect in one] == [Publish, Report]
    assert one[1] == Report("a")
    two = ledger.commit(Offset(2))
    assert two[1:] == [Report("b"), Report("c")]
    assert ledger.commit(Offset(2)) == []
    assert ledger.committed == ledger.decided


def test_an_append_commits_whole_or_not() -> None:
    ledger = new_ledger()
    ledger.write(ClusterRecord("c"))
    ledger.write(epoch(1))
    ledger.seal([])
    assert ledger.commit(Offset(0)) == []
    assert ledger.committed == MetadataImage()
    assert len(ledger.commit(Offset(1))) == 1


def test_a_commit_beyond_the_log_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="never appended"):
        new_ledger().commit(Offset(0))


def test_the_tail_is_bounded_and_the_rest_is_a_snapshot() -> None:
    ledger = new_ledger(tail=3)
    for number in range(1, 11):
        ledger.write(epoch(number))
        ledger.seal([])
        ledger.commit(Offset(number - 1))
    assert [b.first_offset for b in ledger.batches_since(Offset(8))] == [8, 9]
    (snapshot,) = ledger.batches_since(Offset(2))
    assert (snapshot.snapshot, snapshot.first_offset) == (True, 9)
    assert ledger.batches_since(Offset(10)) == ()


def test_who_lacks_little_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = new_ledger(tail=10_000)
    for number in range(1, 1_001):
        ledger.write(epoch(number))
        ledger.seal([])
        ledger.commit(Offset(number - 1))
    looks = 0

    def last_offset(append: AppendRecords) -> Offset:
        nonlocal looks
        looks += 1
        return append.first_offset

    monkeypatch.setattr(AppendRecords, "last_offset", property(last_offset))
    assert [b.first_offset for b in ledger.batches_since(Offset(998))] == [998, 999]
    assert looks == 3


def test_the_image_from_disk_is_not_shared_with_decisions() -> None:
    image = MetadataImage()
    image.replay(ClusterRecord("c"), Offset(0))
    ledger = ledger_of(image)
    ledger.write(epoch(1))
    assert image.controller_epoch == -1
    assert ledger.batches_since(Offset(0))[0].snapshot


def test_offsets_that_are_no_metadata_are_stepped_over() -> None:
    image = MetadataImage()
    image.replay(ClusterRecord("c"), Offset(0))
    ledger = ledger_of(image, next_offset=Offset(3))
    ledger.write(epoch(1))
    assert ledger.seal([Report("a")]) == [AppendRecords(Offset(3), (epoch(1),))]
    one = MetadataBatch(
        ControllerEpoch(1), Offset(3), (epoch(1),),
        committed_offset=Offset(3), previous_offset=Offset(0),
    )  # fmt: skip
    assert ledger.commit(Offset(3)) == [Publish(one), Report("a")]
    ledger.write(epoch(2))
    ledger.seal([])
    ledger.commit(Offset(4))
    for missing in (1, 2, 3):
        follower = MetadataImage()
        follower.replay(ClusterRecord("c"), Offset(0))
        for batch in ledger.batches_since(Offset(missing)):
            assert not batch.snapshot
            follower.apply(batch)
        assert follower == ledger.committed
    assert ledger.batches_since(Offset(0))[0].snapshot


def partition(leader: int, leader_epoch: int, isr: tuple[int, ...]) -> PartitionRecord:
    replicas = (BrokerId(1), BrokerId(2), BrokerId(3))
    return PartitionRecord(
        TopicId("t"),
        0,
        replicas,
        tuple(map(BrokerId, isr)),
        BrokerId(leader),
        LeaderEpoch(leader_epoch),
        PartitionEpoch(leader_epoch),
        eligible_leader_replicas=(BrokerId(2),) if not isr else (),
    )


def test_committed_elections_are_counted_and_unclean_ones_apart() -> None:
    ledger = new_ledger()
    ledger.write(TopicRecord("topic", TopicId("t")))
    for record in (
        partition(1, 0, (1, 2)),  # new, not elected
        partition(1, 0, (1,)),
        partition(NO_LEADER, 1, ()),
        partition(2, 2, (2,)),  # it was eligible
        partition(3, 3, (3,)),  # it was not in the ISR
    ):
        ledger.write(record)
    ledger.seal([])
    assert ledger.elections.elections == 0, "nothing is committed yet"
    ledger.commit(Offset(5))
    assert (ledger.elections.elections, ledger.elections.unclean) == (2, 1)


def test_a_replica_that_joins_and_leads_in_one_record_is_a_clean_election() -> None:
    """The last leader stops in order: whom it takes into the ISR takes over at once."""
    ledger = new_ledger()
    ledger.write(TopicRecord("topic", TopicId("t")))
    for record in (
        partition(1, 0, (1,)),
        partition(3, 1, (3,)),
    ):
        ledger.write(record, in_sync=record.isr)
    ledger.seal([])
    ledger.commit(Offset(2))
    assert (ledger.elections.elections, ledger.elections.unclean) == (1, 0)


def test_it_leads_under_the_epoch_that_it_is_given() -> None:
    ledger = Ledger(machine_of(MetadataImage()), epoch=ControllerEpoch(7), tail_records_max=9)
    assert ledger.epoch == 7
    assert ledger.decided.controller_epoch == -1  # until somebody writes it
