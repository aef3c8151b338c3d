"""A broker's answers to fetches, as the fetcher's values."""

from __future__ import annotations

from pylog.client.fetching.fetch_events import Fetched
from pylog.model import TopicPartition
from pylog.records.batch import Buffer
from pylog.records.transactions import AbortedTransaction
from pylog.rpc.v1 import log_pb2


def fetched_of(data: log_pb2.PartitionData, batches: Buffer) -> Fetched:
    """A broker's answer for one partition of a fetch, its batches beside it."""
    return Fetched(
        TopicPartition(data.topic, data.partition),
        data.error.code,
        data.error.message,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
        batches,
        aborted_of(data),
        data.current_leader if data.error.code and data.current_leader_epoch > 0 else -1,
        data.current_leader_epoch,
        data.diverging.end_offset if data.HasField("diverging") else None,
        data.diverging.epoch if data.HasField("diverging") else None,
    )


def aborted_of(data: log_pb2.PartitionData) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions with records in an answer to a reader of committed ones."""
    return tuple((entry.producer_id, entry.first_offset) for entry in data.aborted)
