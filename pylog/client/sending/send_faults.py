"""Faults of batches, in codes and in words. Pure."""

from __future__ import annotations

from typing import Final

from pylog import errors
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_events import Ack
from pylog.model import TopicPartition

STUCK_AFTER_MS: Final = 1_000
"""An answer that takes longer makes the sender look whether somebody else leads by now: a frozen
leader does not break its connection, and `request.timeout.ms` is far too long to wait.
"""

MESSAGE_OVERHEAD: Final = 1_024
"""The bytes of a message besides a batch, at most: names of the client and of the topic,
numbers."""

NOT_STORED: Final = frozenset(
    {
        errors.CorruptMessage.code,
        errors.InvalidRecord.code,
        errors.InvalidTimestamp.code,
        errors.InvalidTopic.code,
        errors.MessageTooLarge.code,
        errors.NotEnoughReplicas.code,
        errors.OutOfOrderSequenceNumber.code,
        errors.RecordListTooLarge.code,
        errors.TopicAuthorizationFailed.code,
        errors.UnsupportedCompressionType.code,
        errors.UnknownProducerId.code,
        errors.ThrottlingQuotaExceeded.code,
    }
)
"""Refusals after which the batch certainly is not in the log."""
SEQUENCE_REFUSED: Final = frozenset(
    {errors.OutOfOrderSequenceNumber.code, errors.UnknownProducerId.code}
)


class LastFaults:
    """The fault in the message of a batch whose time is up: its partition's last fault since a
    success there, or else the last one that concerns all partitions. Never the fault of another
    partition.
    """

    def __init__(self) -> None:
        self._of: dict[TopicPartition, str] = {}
        self._of_all = ""

    def befell(self, topic_partition: TopicPartition, fault: str) -> None:
        """A fault of that partition, or of the broker that its batches were sent to."""
        self._of[topic_partition] = fault

    def befell_all(self, fault: str) -> None:
        """A fault that any partition may suffer from."""
        self._of_all = fault

    def passed(self, topic_partition: TopicPartition) -> None:
        """A broker took a batch."""
        self._of.pop(topic_partition, None)

    def of(self, topic_partition: TopicPartition) -> str:
        """Empty: none."""
        return self._of.get(topic_partition, self._of_all)


def may_be_stored(refusal: Ack) -> bool:
    """Whether the refused batch can be in the log. A leader that loses its office while a batch
    waits for its followers names the offset of that batch, one that turns it away names none.
    """
    if refusal.code == errors.NotLeaderOrFollower.code:
        return refusal.base_offset != -1
    return refusal.code not in NOT_STORED


def timed_out(
    batch: Batch, delivery_timeout_ms: int, led: bool, last_fault: str
) -> errors.DeliveryTimedOut:
    """The batch's time is up. Says whether its records may be stored, and the likely cause."""
    after = f"{batch.topic_partition}: not acknowledged within delivery_timeout_ms="
    after += f"{delivery_timeout_ms}"
    if batch.in_flight or batch.maybe_stored:
        after += f" after {batch.attempts} attempts; the records may or may not be stored"
    elif batch.attempts:
        after += f" after {batch.attempts} attempts; the records are not stored"
    else:
        after += "; it was never sent, the records are not stored"
        if not led:
            after += " (the partition has no live leader)"
    if last_fault:
        after += f"; last fault: {last_fault}"
    return errors.DeliveryTimedOut(after)


def fills(batch: Batch, too_large: TooLarge) -> bool:
    """Whether the batch is larger than a message may be, or the message that was too large had
    hardly anything else in it.
    """
    size = len(batch.encoded or b"")
    alone = too_large.size - MESSAGE_OVERHEAD < size <= too_large.size
    return size >= too_large.limit or alone


def topic_replaced(topic: str) -> errors.UnknownTopicId:
    """The topic's records have nowhere to go."""
    return errors.UnknownTopicId(
        f"topic {topic} was deleted and created anew; records meant for the old one are not "
        f"written to the new one"
    )


def may_not_move(batch: Batch, refusal: str) -> errors.OutOfOrderSequenceNumber:
    """The broker refuses the batch for its sequence, and under another producer id it could be
    stored twice, or behind what was sent after it. `refusal`: the broker's words, if there are.
    """
    if batch.overtaken and not batch.maybe_stored:
        reason = (
            "the leader had lost what it knew of this producer and took a later batch first; the "
            "records are not stored: sent again they would stand behind those of that batch"
        )
    else:
        reason = (
            "the leader misses what came before this batch, or knows nothing of its producer any "
            f"more; the records {_fate(batch)}"
        )
    last_fault = f"; last fault: {refusal}" if refusal else ""
    return errors.OutOfOrderSequenceNumber(f"{batch.topic_partition}: {reason}{last_fault}")


def failed_before(batch: Batch) -> errors.OutOfOrderSequenceNumber:
    """A batch before this one may not move, so that nothing behind it may."""
    return errors.OutOfOrderSequenceNumber(
        f"{batch.topic_partition}: a batch before this one failed for its order; the records "
        f"{_fate(batch)}"
    )


def _fate(batch: Batch) -> str:
    return "may or may not be stored" if batch.maybe_stored else "are not stored"
