"""Reads and appends of this broker's coordinators, in the logs of their internal partitions. Plain
values.
"""

from __future__ import annotations

from typing import NamedTuple

from pylog.model import LeaderEpoch, Offset, TopicPartition
from pylog.records.batch import Buffer
from pylog_broker.metadata.messages import Failure


class ReadInternal(NamedTuple):
    """The records of an internal partition's log from `offset` on, committed or not: its
    coordinator loads it. At least one batch, however large.
    """

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    offset: Offset
    max_bytes: int


class InternalData(NamedTuple):
    """Whole batches; the first may begin before the asked offset, and the log may begin behind it.

    `next_offset` is where to go on, `end_offset` the log's end. `lost`: from that offset on to the
    next one the log has rotted, and no other replica is there to tell what it was.
    """

    failure: Failure | None = None
    records: Buffer = b""
    next_offset: Offset = Offset(-1)
    end_offset: Offset = Offset(-1)
    lost: Offset | None = None


class AppendInternal(NamedTuple):
    """A coordinator's batch for the partition that this broker leads in `leader_epoch`, at exactly
    `first_offset`. Its ack comes when it is in the log; that it is committed a listener is told.
    """

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    first_offset: Offset
    batch: Buffer
