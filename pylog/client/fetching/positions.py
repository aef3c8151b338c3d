"""The partitions that a consumer reads, and its offsets in them: Kafka's `SubscriptionState`. Pure.

The request managers share it. It has two offsets per partition: `position`, the next one that the
user gets, and `fetch_offset`, the next one that is asked of a broker. The records between them are
buffered. Every `seek` raises the partition's `generation`, and an answer to an older generation is
dropped; one that is given up and taken again goes on counting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pylog import errors
from pylog.client.cluster.metadata import ClusterMetadata
from pylog.client.fetching.fetch_events import Effect, Notice
from pylog.client.fetching.fetch_state import Chunk, FetcherSettings, FetchState, Partition
from pylog.client.fetching.user_events import AskPosition
from pylog.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetAndMetadata,
    TopicPartition,
)

BY_DURATION: Final = "by_duration"
"""The reset policy that looks for the first record of the last `reset_duration_ms` (KIP-1106)."""
_RESETS: Final = {"latest": LATEST_TIMESTAMP, "earliest": EARLIEST_TIMESTAMP}


class Positions:
    """Owned by the consumer's lock."""

    def __init__(
        self,
        settings: FetcherSettings,
        metadata: ClusterMetadata,
        jitter: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.partitions: dict[TopicPartition, Partition] = {}
        self.begins_at_commits = False
        """Whether a new partition begins where the group has committed, if it has."""
        self.unstarted: dict[TopicPartition, int] = {}
        """The new ones of which that is not known yet, with their generation."""
        self._metadata = metadata
        self._jitter = jitter
        self._wall_ms = wall_ms
        self._first_generation = 0  # above those of all partitions that were given up
        self._arrivals = 0

    # ---- which --------------------------------------------------------------------------------

    def assign(self, wanted: Iterable[TopicPartition]) -> None:
        """Read exactly these; partitions that stay keep their position."""
        chosen = dict.fromkeys(wanted)
        gone = [partition for tp, partition in self.partitions.items() if tp not in chosen]
        self._first_generation = max([self._first_generation, *(p.generation + 1 for p in gone)])
        self.partitions = {
            tp: self.partitions.get(tp) or self._new(tp, self.settings.auto_offset_reset)
            for tp in chosen
        }
        for partition in gone:
            self.unstarted.pop(partition.topic_partition, None)
            for answer in partition.asked:
                answer.fail(not_assigned(partition.topic_partition))
            partition.asked = []

    def add(self, topic_partition: TopicPartition, *, found_later: bool) -> None:
        """One more, of a subscribed topic. A partition that was added to a topic while we read it
        is read from its start: all its records are new.
        """
        if topic_partition not in self.partitions:
            policy = self.settings.auto_offset_reset
            if found_later and policy == "latest":
                policy = "earliest"
            self.partitions[topic_partition] = self._new(topic_partition, policy)

    def _new(self, tp: TopicPartition, policy: str) -> Partition:
        partition = Partition(tp, urgent=True, generation=self._first_generation)
        if self.begins_at_commits:
            self.unstarted[tp] = partition.generation
        else:
            self.reset(partition, policy)
        return partition

    def start(self, tp: TopicPartition, committed: OffsetAndMetadata | None, topic_id: str) -> None:
        """The group has told what is committed of a new partition, in the topic of that id; empty:
        not known.
        """
        partition = self.partitions.get(tp)
        if partition is None or self.unstarted.pop(tp, None) != partition.generation:
            return  # the user has sought meanwhile
        if committed is None:
            self.reset(partition, self.settings.auto_offset_reset)
        else:
            self.seek(partition, committed.offset, committed.leader_epoch)
            partition.topic_id = topic_id

    def reset(self, partition: Partition, policy: str) -> None:
        """Begin where the policy says."""
        tp = partition.topic_partition
        timestamp = self.reset_timestamp(policy)
        if timestamp is None:
            partition.fail(
                errors.NoOffsetForPartition(
                    f"{tp} has no position and auto_offset_reset is 'none'; seek() to one"
                )
            )
        else:
            partition.reset_to = timestamp
            partition.become(FetchState.AWAIT_RESET)

    def assigned(self, tp: TopicPartition) -> Partition:
        """InvalidRequest for one that is not."""
        partition = self.partitions.get(tp)
        if partition is None:
            raise not_assigned(tp)
        return partition

    # ---- where --------------------------------------------------------------------------------

    def reset_timestamp(self, policy: str) -> int | None:
        """The timestamp to look up for a position; None: nothing, the user must seek."""
        if policy == BY_DURATION:
            return max(self._wall_ms() - self.settings.reset_duration_ms, 0)
        return _RESETS.get(policy)

    def seek(self, partition: Partition, offset: int, last_epoch: int | None = None) -> None:
        """The user's next record is the one at `offset` (or the first after it). `last_epoch`: that
        of the record before it, where it is known: the leader then sees whether its log was
        truncated (KIP-320).
        """
        partition.become(FetchState.FETCHING)
        self._drop_buffer(partition)
        partition.position = partition.fetch_offset = offset
        partition.last_epoch = -1 if last_epoch is None else last_epoch
        partition.reset_to = None
        partition.urgent = True
        for answer in partition.asked:
            answer.succeed(offset)
        partition.asked = []

    def seek_to(self, partition: Partition, timestamp: int) -> None:
        """Position by look-up: earliest, latest, or the first record at or after a time."""
        partition.become(FetchState.AWAIT_RESET)
        self._drop_buffer(partition)
        partition.reset_to = timestamp
        partition.position = None
        partition.last_epoch = -1
        partition.urgent = True

    def ask_position(self, asked: AskPosition) -> None:
        """The answer comes with the position."""
        partition = self.assigned(asked.topic_partition)
        if partition.position is not None:
            asked.answer.succeed(partition.position)
        else:
            partition.asked.append(asked.answer)

    def forget(self, asked: AskPosition) -> None:
        """Nobody waits for the answer any more, if it has not come."""
        partition = self.partitions.get(asked.topic_partition)
        if partition is not None and asked.answer in partition.asked:
            partition.asked.remove(asked.answer)

    def _drop_buffer(self, partition: Partition) -> None:
        partition.generation += 1
        partition.buffer.clear()
        partition.buffered_bytes = 0
        partition.decoding = None
        partition.error = None
        partition.retry_at_ms = 0
        partition.failures = 0

    def start_over(self) -> None:
        """A thread was interrupted in here: nothing counts but what the user got."""
        for partition in self.partitions.values():
            if partition.position is not None:
                self.seek(partition, partition.position)
            elif partition.state is FetchState.RESETTING:
                partition.become(FetchState.AWAIT_RESET)

    def resume(self, partition: Partition) -> None:
        """Undo a pause."""
        partition.pause(by_user=False)
        partition.urgent = True

    # ---- what was fetched ---------------------------------------------------------------------

    def take(self, partition: Partition) -> Chunk:
        """The oldest buffered chunk, which the user now reads."""
        partition.urgent |= partition.left_out
        chunk = partition.buffer.popleft()
        partition.decoding_arrival = chunk.arrival
        partition.buffered_bytes -= len(chunk.batches)
        return chunk

    def arrive(self) -> int:
        """The next number in the order in which chunks and faults reach the user."""
        self._arrivals += 1
        return self._arrivals

    def all_handed_out(self, arrival: int) -> bool:
        """Whether the user has all records that arrived before, but for paused partitions."""
        return not any(p.holds_before(arrival) for p in self.partitions.values() if not p.paused)

    # ---- faults -------------------------------------------------------------------------------

    def retry_later(self, now_ms: int, partition: Partition) -> None:
        """A request about it failed: it is asked for again after a while."""
        partition.failures += 1
        partition.retry_at_ms = now_ms + self.settings.backoff_ms(
            partition.failures, self._jitter()
        )

    def on_metadata(self, now_ms: int) -> list[Effect]:
        """New metadata: partitions whose leader is back need not wait, and topics may be new ones
        under an old name.
        """
        effects: list[Effect] = []
        for tp, partition in self.partitions.items():
            topic_id = self._metadata.topic_id(tp.topic)
            if partition.topic_id and topic_id and topic_id != partition.topic_id:
                self._on_new_topic(partition, topic_id, effects)
            if partition.failures and self._metadata.leader(*tp) is not None:
                partition.retry_at_ms = min(
                    partition.retry_at_ms, now_ms + self.settings.retry_backoff_ms
                )
        return effects

    def _on_new_topic(self, partition: Partition, topic_id: str, effects: list[Effect]) -> None:
        tp = partition.topic_partition
        words = f"{tp}: the topic was deleted and created anew; its offsets begin again"
        partition.topic_id = topic_id
        if self.settings.auto_offset_reset == "none":
            partition.fail(errors.UnknownTopicId(f"{words}; seek() to where to go on"))
            return
        effects.append(Notice(f"{words}, and so does this consumer"))
        self.seek_to(partition, EARLIEST_TIMESTAMP)


def not_assigned(tp: TopicPartition) -> errors.InvalidRequest:
    """The error for a partition that the consumer does not read."""
    return errors.InvalidRequest(f"{tp} is not assigned to this consumer; assign() it first")
