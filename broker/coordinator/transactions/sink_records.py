"""The state of a sink as records of `__transaction_state`, and back. Pure."""

from __future__ import annotations

from typing import Final

from pylog.model import topic_id_from_bytes, topic_id_to_bytes
from pylog_broker.coordinator.generated.sink_decision import OverwrittenTopic as OverwrittenRecord
from pylog_broker.coordinator.generated.sink_decision import (
    SinkDecisionValue,
    WrittenPartition,
    WrittenTopic,
)
from pylog_broker.coordinator.generated.sink_task import SinkTaskKey, SinkTaskValue
from pylog_broker.coordinator.runtime.decision import Record
from pylog_broker.coordinator.transactions.sink_messages import (
    DecidedBatch,
    OverwrittenTopic,
    SinkKey,
    WrittenRange,
)
from pylog_broker.coordinator.transactions.sink_state import Attempt, TaskState

OPEN: Final = 0
PREPARED: Final = 1
FREE: Final = 2


def record_of(
    key: SinkKey, transactional_id: str, task: TaskState, *, is_free: bool = False
) -> Record:
    """The record of a transactional id, which has a task, or is free again."""
    state = FREE if is_free else PREPARED if task.is_prepared else OPEN
    run_number, batch_id, number, attempt, group, digest = task.attempt
    value = SinkTaskValue(
        *key,
        run_number,
        batch_id,
        number,
        attempt,
        state,
        task.since_ms,
        task.timeout_ms,
        group,
        digest,
    )
    return Record(SinkTaskKey(transactional_id), value)


def attempt_of(value: SinkTaskValue) -> Attempt:
    """The attempt that has, or had, the transactional id of the record."""
    return Attempt(
        value.run_number, value.batch_id, value.task, value.attempt, value.group, value.digest
    )


def value_of(made: DecidedBatch, members: tuple[int, ...]) -> SinkDecisionValue:
    """The value of the record of a decision. `members`: the numbers of the ids that it commits."""
    topics: dict[str, list[WrittenPartition]] = {}
    for each in made.receipt:
        written = WrittenPartition(each.partition, each.first_offset, each.last_offset)
        topics.setdefault(each.topic, []).append(written)
    return SinkDecisionValue(
        made.batch_id,
        made.run_number,
        made.row_count,
        made.checksum,
        made.digest,
        made.decided_ms,
        made.expires_ms,
        members,
        tuple(WrittenTopic(topic, tuple(written)) for topic, written in topics.items()),
        tuple(
            OverwrittenRecord(topic_id_to_bytes(topic_id), topic, starts)
            for topic, topic_id, starts in made.overwritten
        ),
    )


def decision_of(value: SinkDecisionValue) -> DecidedBatch:
    """The decision that a record holds."""
    return DecidedBatch(
        value.batch_id,
        value.run_number,
        value.row_count,
        value.checksum,
        value.digest,
        value.decided_ms,
        value.expires_ms,
        tuple(
            WrittenRange(topic.topic, each.partition, each.first_offset, each.last_offset)
            for topic in value.receipt
            for each in topic.partitions
        ),
        tuple(
            OverwrittenTopic(each.topic, topic_id_from_bytes(each.topic_id), each.starts)
            for each in value.overwritten
        ),
    )
