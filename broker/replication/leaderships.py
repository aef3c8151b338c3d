"""The news for a listener of the partitions that this broker leads.

A coordinator lives where its partition of an internal topic is led: it is loaded when the broker
begins to lead, answers as the high watermark moves, and is unloaded when the broker leads no more.
Ordinary partitions are not told of, so that nothing is added to their way.
"""

from __future__ import annotations

from typing import Protocol

from pylog.model import LeaderEpoch
from pylog_broker.replication.effects import HighWatermarkMoved, LeadershipBegan, LeadershipEnded
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.waiting import WaitingRoom


class LeadershipListener(Protocol):
    """Hears of internal partitions, in the order of happening. It must not call the replica manager
    from within; what it has to ask goes by the engine.
    """

    def on_leadership_began(self, began: LeadershipBegan) -> None:
        """This broker leads the partition."""

    def on_leadership_ended(self, ended: LeadershipEnded) -> None:
        """It does not any more."""

    def on_high_watermark_moved(self, moved: HighWatermarkMoved) -> None:
        """More of a partition that it leads is committed."""


class Leaderships:
    """Invariant: of each partition the last thing told is what holds, once a step is over; an end
    follows each beginning, and a beginning in a later epoch follows the end of the earlier one.
    """

    def __init__(self, room: WaitingRoom) -> None:
        self._room = room
        self._told: dict[Partition, LeaderEpoch] = {}

    def role_changed(self, partition: Partition) -> None:
        """Tell what is different from what was told last. A repeat tells nothing."""
        if not partition.is_watched:
            return
        leading = partition.leading
        told = self._told.get(partition)
        epoch = None if leading is None else leading.leader_epoch
        if told == epoch:
            return
        name, topic_id = partition.topic_partition, partition.topic_id
        if told is not None:
            del self._told[partition]
            self._room.outbox.append(LeadershipEnded(name, told, topic_id))
        if epoch is not None:
            self._told[partition] = epoch
            began = LeadershipBegan(name, epoch, topic_id, partition.high_watermark)
            self._room.outbox.append(began)
