"""kafka-python's values: partitions, offsets, and the metadata of a member in its group."""

from __future__ import annotations

from typing import NamedTuple

from pylog import model


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class TopicPartitionReplica(NamedTuple):
    """The replica of a partition that a broker has."""

    topic: str
    partition: int
    broker_id: int


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, and a free text."""

    offset: int | None = None
    metadata: str | None = ""
    leader_epoch: int | None = -1


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after an asked time."""

    offset: int
    timestamp: int
    leader_epoch: int | None


class MemberState:
    """The words for what a member of a group does."""

    UNJOINED = "<unjoined>"
    REBALANCING = "<rebalancing>"
    STABLE = "<stable>"


class ConsumerGroupMetadata(NamedTuple):
    """The identity of a consumer in its group, for `send_offsets_to_transaction`."""

    group_id: str | None = None
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    state: str = MemberState.UNJOINED


def ours(partition: tuple[str, int]) -> model.TopicPartition:
    """pylog's partition."""
    return model.TopicPartition(partition[0], partition[1])


def theirs(partition: tuple[str, int]) -> TopicPartition:
    """kafka-python's partition."""
    return TopicPartition(partition[0], partition[1])


def position_of(given: object) -> model.OffsetAndMetadata:
    """pylog's position, out of an offset or an OffsetAndMetadata with two fields or three."""
    if isinstance(given, int):
        return model.OffsetAndMetadata(given)
    if not isinstance(given, tuple) or not given or not isinstance(given[0], int):
        raise TypeError(f"{given!r} is no position: give OffsetAndMetadata(offset, metadata)")
    metadata = given[1] if len(given) > 1 and given[1] is not None else ""
    epoch = given[2] if len(given) > 2 and given[2] is not None and given[2] >= 0 else None
    return model.OffsetAndMetadata(given[0], metadata, epoch)


def committed_of(position: model.OffsetAndMetadata) -> OffsetAndMetadata:
    """kafka-python's position."""
    epoch = -1 if position.leader_epoch is None else position.leader_epoch
    return OffsetAndMetadata(position.offset, position.metadata, epoch)
