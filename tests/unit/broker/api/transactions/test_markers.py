"""Markers of transactions that overwrite topics: what is deleted first, and what comes of that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from pylog.clock import SYSTEM_CLOCK
from pylog.errors import (
    KafkaStorageError,
    NotEnoughReplicas,
    OffsetNotAvailable,
    RequestTimedOut,
)
from pylog.model import Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition
from pylog_broker.api.transactions.markers import NEW_START_TIMEOUT_MS, MarkersHandler
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.offset_messages import DeleteRecords, LowWatermark
from pylog_broker.replication.produce_messages import (
    PartitionAck,
    PartitionBatch,
    Produce,
    WriteMarker,
)

T0 = TopicPartition("t", 0)
MARKER = WriteMarker(
    T0, ProducerId(7), ProducerEpoch(1), True, 3, 2, TopicId("t" * 21 + "Q"), Offset(5)
)
TIMED_OUT = Failure(RequestTimedOut.code, "a live replica still begins at 0")
DELETES = DeleteRecords(((T0, Offset(5)),), NEW_START_TIMEOUT_MS)


class Leader:
    """A replica manager as far as markers need one, which answers at once. `starts`: what it says
    of the new start, each time that it is asked; `deleted`: how a deletion ends.
    """

    def __init__(self, *starts: Offset | Failure | None, deleted: Failure | None = None) -> None:
        self.transactions = self
        self.events: list[object] = []
        self._starts = list(starts)
        self._deleted = deleted
        self.is_overwriting = False

    def new_start(self, marker: WriteMarker) -> Offset | Failure | None:
        assert self.is_overwriting
        assert marker is MARKER
        return self._starts.pop(0)

    @contextmanager
    def overwriting(self, topic_partition: TopicPartition) -> Iterator[None]:
        assert topic_partition == T0
        self.is_overwriting = True
        yield
        self.is_overwriting = False

    def delete_records(self, _now_ms: int, request: DeleteRecords, done: Any) -> list[Any]:
        self.events.append(request)
        done([LowWatermark(T0, self._deleted)])
        return []

    def batch_of(self, _wall_ms: int, _marker: WriteMarker) -> PartitionBatch:
        return PartitionBatch(T0, None, b"marker")

    def produce(self, _now_ms: int, _wall_ms: int, request: Produce, done: Any) -> list[Any]:
        (batch,) = request.batches
        self.events.append(bytes(batch.batch))
        done([PartitionAck(T0, None)])
        return []


def written(leader: Leader, marker: WriteMarker = MARKER) -> Failure | None:
    """The failure to write the marker; None: it is written."""

    async def for_groups(_marker: WriteMarker) -> None:
        raise AssertionError

    def perform(effects: Sequence[Any]) -> None:
        assert not effects

    manager: Any = leader
    handler = MarkersHandler(manager, perform, SYSTEM_CLOCK, for_groups)
    (outcome,) = asyncio.run(handler.write([marker]))
    assert not leader.is_overwriting
    return outcome


def test_the_log_begins_anew_before_the_marker_is_appended() -> None:
    leader = Leader(Offset(5), None)
    assert written(leader) is None
    assert leader.events == [DELETES, b"marker"]


def test_nothing_is_deleted_where_the_log_begins_there_already() -> None:
    leader = Leader(None)
    assert written(leader) is None
    assert leader.events == [b"marker"]
    plain = Leader()
    assert written(plain, MARKER._replace(topic_id=None, new_start=None)) is None
    assert plain.events == [b"marker"]


def test_a_replica_that_is_not_in_sync_is_not_waited_for_long() -> None:
    """The leader begins there durably, and enough replicas are in sync."""
    leader = Leader(Offset(5), None, deleted=TIMED_OUT)
    assert written(leader) is None
    assert leader.events == [DELETES, b"marker"]


@pytest.mark.parametrize(
    ("starts", "deleted", "outcome"),
    [
        ((OffsetNotAvailable,), None, OffsetNotAvailable),
        ((Offset(5),), KafkaStorageError, KafkaStorageError),
        ((Offset(5), Offset(5)), RequestTimedOut, RequestTimedOut),
        ((Offset(5), NotEnoughReplicas), RequestTimedOut, NotEnoughReplicas),
    ],
)
def test_without_its_new_start_a_log_gets_no_marker(
    starts: tuple[Any, ...], deleted: Any, outcome: Any
) -> None:
    """Its old records would be read before the new ones."""
    told = [each if isinstance(each, int) else Failure(each.code, "why") for each in starts]
    failure = None if deleted is None else Failure(deleted.code, "why")
    leader = Leader(*told, deleted=failure)
    refused = written(leader)
    assert refused is not None
    assert refused.code == outcome.code
    assert b"marker" not in leader.events
