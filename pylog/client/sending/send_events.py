"""The sender's events and effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pylog import errors
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.transaction_events import OperationDone, TransactionRequest

# ---- what an answer says -----------------------------------------------------------------------


class Ack(NamedTuple):
    """A broker's answer for one batch; `code` 0 is success. A leader of -1 is not named. With a
    refusal, `base_offset` is where the batch stands that was appended before it.
    """

    code: int
    message: str = ""
    base_offset: int = -1
    log_append_time_ms: int = -1
    leader: int = -1
    leader_epoch: int = -1
    record_index: int = -1


# ---- effects -----------------------------------------------------------------------------------


class SendRequest(NamedTuple):
    """Write these batches, one per partition, to the broker's stream."""

    broker: int
    correlation: int
    batches: tuple[Batch, ...]


class BatchDone(NamedTuple):
    """Acknowledged. `base_offset` is -1 when nobody told (acks=0)."""

    batch: Batch
    base_offset: int
    log_append_time_ms: int


@dataclass(frozen=True, slots=True)
class BatchFailed:
    """Given up. `record_index` names the guilty record, -1 means the whole batch."""

    batch: Batch
    error: errors.PylogError
    record_index: int = -1


@dataclass(frozen=True, slots=True)
class BatchSplit:
    """The broker refused the batch for its size: `parts` hold its records and go out instead."""

    batch: Batch
    parts: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Leaders of these topics are unknown or wrong."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RequestProducerId:
    """Ask for a fresh producer id; answer with `on_producer_id` or `on_producer_id_failed`."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Break the broker's stream: its answers are overdue. The sender counts on none of them."""

    broker: int


Effect = (
    SendRequest
    | BatchDone
    | BatchFailed
    | BatchSplit
    | RefreshMetadata
    | RequestProducerId
    | Disconnect
    | TransactionRequest
    | OperationDone
)
