"""The requests of partition leaders and group coordinators to the share coordinator, about one
partition each. Plain values.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pylog_broker.share.record_states import StateBatch
from pylog_broker.share.sessions import SharePartitionKey

UNINITIALIZED_START: Final = -1
"""The start offset of a partition that nobody has read yet."""
UNKNOWN_COUNT: Final = -1
SUMMARY_OF_ANY_LEADER: Final = -1
"""The leader epoch in a request of a sender that leads no partition."""


class InitializeState(NamedTuple):
    """The group is to have state of the partition, beginning there."""

    key: SharePartitionKey
    state_epoch: int
    start_offset: int = UNINITIALIZED_START


class ReadState(NamedTuple):
    """The partition's leader begins with it."""

    key: SharePartitionKey
    leader_epoch: int


class StateRead(NamedTuple):
    """`batches`: in order."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...] = ()


class WriteState(NamedTuple):
    """The changes of a partition's state since the write before."""

    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class StateSummary(NamedTuple):
    """The progress of a group in a partition. `delivery_complete_count`: records from the start
    offset on that are done; -1: not known.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
