"""A broker's answers to fetches, as the fetcher's values."""

from __future__ import annotations

from typing import NamedTuple

from pylog.client.fetching.fetch_events import Fetched
from pylog.model import TopicPartition
from pylog.records.batch import Buffer
from pylog.records.transactions import AbortedTransaction
from pylog.rpc.fetch_wire import parse_response
from pylog.rpc.plain_answers import parse_found
from pylog.rpc.v1 import log_pb2


class Answers(NamedTuple):
    """A broker's answer to a fetch. `stands`: the same fetch will be answered again."""

    correlation: int
    partitions: list[Fetched]
    stands: bool


def read_answers(message: bytes | memoryview) -> Answers:
    """The answer in a broker's message; protobuf's DecodeError for bytes that are none."""
    plain = parse_found(message)
    if plain is not None:
        correlation, name, high, stable, start, batches, stands = plain
        return Answers(correlation, [Fetched(name, 0, "", high, stable, start, batches)], stands)
    correlation, partitions, stands = parse_response(message)
    found = [fetched_of(data, batches) for data, batches in partitions]
    return Answers(correlation, found, stands)


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
        data.damaged_end_offset or None,
        data.preferred_read_replica or -1,
    )


def aborted_of(data: log_pb2.PartitionData) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions with records in an answer to a reader of committed ones."""
    return tuple((entry.producer_id, entry.first_offset) for entry in data.aborted)
