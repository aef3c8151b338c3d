"""Offsets of groups that a transaction commits: pending until its marker (KIP-98, KIP-447)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pylog.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    OffsetMetadataTooLarge,
    UnstableOffsetCommit,
)
from pylog.model import Offset, ProducerEpoch, ProducerId, TopicPartition
from pylog.records.batch import with_offset_and_epoch
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey, OffsetCommitValue
from pylog_broker.coordinator.groups.codec import GroupCodec
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    DeleteGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from pylog_broker.coordinator.runtime.decision import Producer, Record, TransactionEnd
from pylog_broker.coordinator.runtime.log_batches import batch_of, slice_of
from pylog_broker.coordinator.runtime.shard import Append
from pylog_broker.replicated.state_machine import AppendRecords, LogSlice
from tests.fakes.group_shard import GroupShard

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
G = "g"
P = Producer(ProducerId(7), ProducerEpoch(3))
Q = Producer(ProducerId(8), ProducerEpoch(0))


def commit(
    shard: GroupShard,
    offsets: dict[TopicPartition, int],
    producer: Producer | None = None,
    metadata: str = "",
    caller: Caller | None = None,
) -> Any:
    wanted = {tp: CommittedOffset(offset, metadata=metadata) for tp, offset in offsets.items()}
    request = OffsetCommit(G, caller or Caller(), wanted)
    return shard.answer(lambda c, r: c.commit_offsets(shard.wall_ms, r, request, producer))


def end(shard: GroupShard, producer: Producer, *, commits: bool) -> None:
    marker = TransactionEnd(producer.producer_id, producer.epoch, commits, 5)
    assert shard.answer(lambda c, r: c.end_transaction(r, marker)) is None


def positions(shard: GroupShard, *, stable: bool = False) -> dict[TopicPartition, Any]:
    request = OffsetFetch(G, Caller(), None, stable)
    found = shard.answer(lambda c, r: c.fetch_offsets(r, request)).partitions
    return {
        tp: each.offset if isinstance(each, CommittedOffset) else type(each)
        for tp, each in found.items()
    }


@pytest.mark.parametrize("restarts", [False, True])
def test_a_position_counts_when_its_transaction_commits(restarts: bool) -> None:
    shard = GroupShard()
    commit(shard, {T0: 1})
    commit(shard, {T0: 5, T1: 6}, P)
    if restarts:
        shard.start()
    assert positions(shard) == {T0: 1}
    assert positions(shard, stable=True) == {T0: UnstableOffsetCommit, T1: UnstableOffsetCommit}
    end(shard, Q, commits=True)
    assert positions(shard) == {T0: 1}
    end(shard, P, commits=True)
    if restarts:
        shard.start()
    assert positions(shard, stable=True) == {T0: 5, T1: 6}
    end(shard, P, commits=False)
    assert positions(shard) == {T0: 5, T1: 6}


def test_a_position_of_an_aborted_transaction_never_counts() -> None:
    shard = GroupShard()
    commit(shard, {T0: 5}, P)
    end(shard, P, commits=False)
    assert positions(shard, stable=True) == {}
    assert shard.coordinator.groups == {}
    commit(shard, {T0: 6}, P)
    end(shard, P, commits=True)
    assert positions(shard) == {T0: 6}
    assert shard.coordinator.groups.keys() == {G}


def test_a_later_commit_counts_more_than_the_transaction() -> None:
    shard = GroupShard()
    commit(shard, {T0: 5, T1: 5}, P)
    commit(shard, {T0: 9})
    end(shard, P, commits=True)
    assert positions(shard) == {T0: 9, T1: 5}


def test_two_transactions_write_one_partition() -> None:
    shard = GroupShard()
    commit(shard, {T0: 5}, P)
    commit(shard, {T0: 6}, Q)
    end(shard, P, commits=True)
    assert positions(shard, stable=True) == {T0: UnstableOffsetCommit}
    end(shard, Q, commits=True)
    assert positions(shard, stable=True) == {T0: 6}


def test_a_refused_position_leaves_nothing_pending() -> None:
    shard = GroupShard(GroupConfig(offset_metadata_max_bytes=3))
    answer = commit(shard, {T0: 5}, P, metadata="long")
    assert isinstance(answer.partitions[T0], OffsetMetadataTooLarge)
    assert positions(shard, stable=True) == {}
    assert shard.log == []


def test_a_stranger_commits_nothing() -> None:
    shard = GroupShard()
    answer = commit(shard, {T0: 5}, P, caller=Caller("m", None, 3))
    assert isinstance(answer, IllegalGeneration)
    assert positions(shard, stable=True) == {}


def test_what_is_pending_keeps_its_group() -> None:
    brief = GroupConfig(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=500)
    shard = GroupShard(brief)
    commit(shard, {T0: 1})
    commit(shard, {T1: 5}, P)
    shard.advance(10_000)
    end(shard, P, commits=True)
    assert positions(shard) == {T1: 5}


def delete_group(shard: GroupShard) -> Any:
    return shard.answer(lambda c, r: c.delete_groups(r, DeleteGroups((G,)))).groups[G]


def delete_offsets(shard: GroupShard, *partitions: TopicPartition) -> Any:
    return shard.answer(lambda c, r: c.delete_offsets(r, OffsetDelete(G, partitions))).partitions


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("has_more", [False, True])
def test_a_deleted_group_does_not_come_back_with_a_transaction(
    restarts: bool, commits: bool, has_more: bool
) -> None:
    shard = GroupShard()
    if has_more:
        commit(shard, {T0: 1})
    commit(shard, {T0: 5, T1: 6}, P)
    commit(shard, {T1: 7}, Q)
    assert delete_group(shard) is None
    if restarts:
        shard.start()
    assert isinstance(delete_group(shard), GroupIdNotFound)
    assert positions(shard, stable=True) == {}
    for producer in (P, Q):
        end(shard, producer, commits=commits)
    assert positions(shard, stable=True) == {}
    assert shard.coordinator.groups == {}
    commit(shard, {T0: 9}, P)  # a later one makes it anew
    end(shard, P, commits=True)
    assert positions(shard) == {T0: 9}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("has_more", [False, True])
def test_a_deleted_position_does_not_come_back_with_a_transaction(
    restarts: bool, has_more: bool
) -> None:
    shard = GroupShard()
    if has_more:
        commit(shard, {T0: 1})
    commit(shard, {T0: 5, T1: 6}, P)
    assert delete_offsets(shard, T0) == {T0: None}
    if restarts:
        shard.start()
    assert positions(shard, stable=True) == {T1: UnstableOffsetCommit}
    end(shard, P, commits=True)
    assert positions(shard, stable=True) == {T1: 6}


def test_what_a_transaction_writes_after_a_deletion_counts() -> None:
    shard = GroupShard()
    commit(shard, {T0: 5}, P)
    assert delete_group(shard) is None
    commit(shard, {T0: 6}, P)
    assert positions(shard, stable=True) == {T0: UnstableOffsetCommit}
    end(shard, P, commits=True)
    assert positions(shard) == {T0: 6}


def test_a_position_in_a_topic_that_is_gone_does_not_come_back_with_a_transaction() -> None:
    shard = GroupShard()
    commit(shard, {T0: 5}, P)
    shard.tell(lambda c: c.on_topics_deleted({"t"}))
    end(shard, P, commits=True)
    assert positions(shard) == {}


def test_a_position_that_a_transaction_replaces_does_not_expire() -> None:
    brief = GroupConfig(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=500)
    shard = GroupShard(brief)
    commit(shard, {T0: 1})
    commit(shard, {T0: 5}, P)
    shard.advance(10_000)
    assert positions(shard) == {T0: 1}
    end(shard, P, commits=False)
    shard.advance(1_000)
    assert positions(shard) == {}


def test_appends_are_read_as_they_were_written() -> None:
    """Plain records, those of transactions, and markers, in batches of their own."""
    codec, rng = GroupCodec(), random.Random(1)
    tp = TopicPartition("__consumer_offsets", 0)
    at, log = 0, b""
    expected: list[AppendRecords[Record]] = []
    for number in range(30):
        kind = rng.choice(("plain", "transaction", "marker"))
        producer = P if kind == "transaction" else None
        marker = TransactionEnd(P.producer_id, P.epoch, number % 2 == 0, 5)
        keys = [OffsetCommitKey(G, "t", index) for index in range(rng.randint(1, 40))]
        records = [
            Record(key, OffsetCommitValue(offset=number), P.producer_id if producer else -1)
            for key in keys
        ]
        encoded = tuple(codec.encode(record) for record in records)
        append = Append(tp, 0, Offset(at), encoded, producer)  # type: ignore[arg-type]
        if kind == "marker":
            records = [Record(marker, None)]
            append = append._replace(records=((b"", None),), end=marker)
        head, rest = with_offset_and_epoch(batch_of(append, 1_000), at, 0)
        log += bytes(head) + bytes(rest)
        expected.append(AppendRecords(Offset(at), tuple(records)))
        at += len(records)
    read = slice_of(log, tp, Offset(0), Offset(at), codec)
    flat = [record for append in read.appends for record in append.records]
    assert flat == [record for append in expected for record in append.records]
    assert read == LogSlice(read.appends, Offset(at))
    begin = expected[7].first_offset
    tail = slice_of(log, tp, begin, Offset(at), codec)
    assert [r for a in tail.appends for r in a.records] == [
        r for a in expected[7:] for r in a.records
    ]
