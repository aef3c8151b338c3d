"""The effects that the controller asks of its shell. Plain values, to be performed in the order of
the list.

`AppendRecords` comes from the replicated state machine. With one voter the shell syncs what it has
appended, then calls `on_committed(now_ms, last_offset)`; several appends under one sync need one
call, with the last offset. If the append or the sync fails, the process must end without another
call: the controller has already decided on top of these records.
"""

from __future__ import annotations

from dataclasses import dataclass

from pylog.model import BrokerEpoch, BrokerId, ControllerEpoch, Offset
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure, MetadataBatch
from pylog_broker.metadata.records import MetadataRecord
from pylog_broker.replicated.state_machine import AppendRecords, ReplicatedStateMachine

__all__ = [
    "AppendRecords",
    "Effect",
    "MetadataAppend",
    "MetadataMachine",
    "Publish",
    "RejectSession",
    "Reply",
    "Report",
    "SnapshotDue",
    "TellSession",
    "machine_of",
]

MetadataAppend = AppendRecords[MetadataRecord]
"""Records of the metadata log."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the call that came with `token`, once. All it rests on is committed."""

    token: object
    response: object  # the response class that the method's docstring names, or a Failure


@dataclass(frozen=True, slots=True)
class Publish:
    """Newly committed records, for every broker that watches. Also in `batches_since`."""

    batch: MetadataBatch


@dataclass(frozen=True, slots=True)
class TellSession:
    """Send this over the broker's session stream, if it is (still) there."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    fenced: bool
    should_stop: bool
    controller_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True)
class RejectSession:
    """End the session stream that was opened under this broker epoch: it is not (any longer) the
    broker's incarnation.

    A later `session_broken` for it changes nothing. The broker must stop serving; `failure` says
    why.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    failure: Failure


@dataclass(frozen=True, slots=True)
class SnapshotDue:
    """Write `controller.image` to a snapshot file: it stands for everything up to `offset`."""

    offset: Offset
    controller_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True)
class Report:
    """A line for the log: something that an operator should be able to find later."""

    message: str
    warning: bool = False


Effect = MetadataAppend | Reply | Publish | TellSession | RejectSession | SnapshotDue | Report

MetadataMachine = ReplicatedStateMachine[MetadataImage, MetadataRecord, Effect]
"""The cluster's metadata as a replicated state machine."""


def machine_of(image: MetadataImage) -> MetadataMachine:
    """A machine that begins with what a snapshot says; `image` becomes its committed one."""
    return MetadataMachine(image, MetadataImage.from_records(image.records(), image.offset))
