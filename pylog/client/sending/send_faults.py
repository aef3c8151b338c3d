"""What went wrong with a batch, in codes and in words. Pure."""

from __future__ import annotations

from typing import Final

from pylog import errors
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.sending.producer_batch import Batch
from pylog.model import TopicPartition

STUCK_AFTER_MS: Final = 1_000
"""An answer that takes longer makes the sender look whether somebody else leads by now: a frozen
leader does not break its connection, and `request.timeout.ms` is far too long to wait.
"""

MESSAGE_OVERHEAD: Final = 1_024
"""What a message has besides a batch, at most: names of the client and of the topic, numbers."""

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
"""Refusals after which the batch certainly is not in the log. NOT_LEADER is not among them: a
leader that loses its office while a batch waits for its followers answers so after the append.
"""
SEQUENCE_REFUSED: Final = frozenset(
    {errors.OutOfOrderSequenceNumber.code, errors.UnknownProducerId.code}
)


class LastFaults:
    """What a batch whose time is up tells: its partition's last fault since a success there, or
    else the last one that concerns them all. Not what befell another partition.
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


def lost_before(batch: Batch) -> errors.OutOfOrderSequenceNumber:
    """The broker takes nothing behind a batch that it misses."""
    return errors.OutOfOrderSequenceNumber(
        f"{batch.topic_partition}: a batch before this one was lost, and whether this one was "
        f"stored is unknown"
    )
