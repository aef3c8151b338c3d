"""ISR changes on their way to the controller: batched, one request in flight, retried with backoff.

Each leader state decides what it proposes and what an outcome means; here is only the transport of
it. A proposal that its leader state has dropped meanwhile is not sent again.
"""

from __future__ import annotations

from collections.abc import Callable

from pylog.model import BrokerEpoch, TopicId
from pylog_broker.metadata.messages import (
    AlteredPartition,
    AlterPartition,
    PartitionIsr,
    PartitionsAltered,
)
from pylog_broker.replication.effects import SendAlterPartition
from pylog_broker.replication.hosted import HostedPartitions
from pylog_broker.replication.isr import IsrEffect, LeaderState, ProposeIsr, is_retriable_refusal
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.waiting import WaitingRoom


class IsrProposals:
    """The proposals of every partition led by this broker."""

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        lead: Callable[[Partition, tuple[IsrEffect, ...]], None],
    ) -> None:
        self._hosted = hosted
        self._room = room
        self._lead = lead
        self.waiting: dict[Partition, ProposeIsr] = {}
        self._in_flight: dict[tuple[TopicId, int], tuple[Partition, ProposeIsr]] = {}
        self._request_id = 0  # of the request in flight, or the last one
        self._failures = 0
        self._not_before_ms: int | None = None

    def add(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Send it with the next request."""
        self.waiting[partition] = proposal

    def flush(self, broker_epoch: BrokerEpoch) -> None:
        """Send what waits, unless a request is in flight or the last one failed just now."""
        if not self.waiting or self._in_flight:
            return
        if self._not_before_ms is not None:
            if self._room.now_ms < self._not_before_ms:
                self._room.due(self._not_before_ms)
                return
            self._not_before_ms = None
        wanted: list[PartitionIsr] = []
        for partition, proposal in self.waiting.items():
            leading = partition.leading
            if leading is None or leading.proposal is not proposal:
                continue
            key = (partition.topic_id, partition.topic_partition.partition)
            self._in_flight[key] = (partition, proposal)
            wanted.append(
                PartitionIsr(*key, leading.leader_epoch, proposal.partition_epoch, proposal.isr)
            )
        self.waiting.clear()
        if wanted:
            self._request_id += 1
            request = AlterPartition(self._hosted.me, broker_epoch, tuple(wanted))
            self._room.outbox.append(SendAlterPartition(self._request_id, request))

    def on_answer(self, request_id: int, answer: PartitionsAltered | None) -> None:
        """Take the controller's word; None: it could not be reached, or nobody knows."""
        if request_id != self._request_id or not self._in_flight:
            return
        sent, self._in_flight = self._in_flight, {}
        if answer is None or answer.failure is not None:
            self._again(sent)
            return
        for item in answer.partitions:
            known = sent.pop((item.topic_id, item.partition), None)
            if known is None:
                continue
            partition, proposal = known
            leading = partition.leading
            if leading is None or leading.proposal is not proposal:
                continue  # metadata was faster
            if item.failure is None:
                self._accepted(partition, leading, item)
            elif is_retriable_refusal(item.failure.code):
                sent[item.topic_id, item.partition] = known
            else:
                effects = leading.on_proposal_refused(self._room.now_ms, item.failure.code)
                self._lead(partition, tuple(effects))
        if sent:
            self._again(sent)
        else:
            self._failures = 0

    def _accepted(self, partition: Partition, leading: LeaderState, item: AlteredPartition) -> None:
        if item.leader_epoch != leading.leader_epoch:
            return  # metadata will say who leads now
        effects = leading.on_proposal_accepted(self._room.now_ms, item.isr, item.partition_epoch)
        self._hosted.isr_changes.note(partition.isr, leading.isr)
        partition.note_isr(leading.isr, leading.partition_epoch)
        self._room.replica_fetches.isr_changed(partition)
        self._lead(partition, tuple(effects))
        self._room.deletions.check(partition)

    def _again(self, sent: dict[tuple[TopicId, int], tuple[Partition, ProposeIsr]]) -> None:
        for partition, proposal in sent.values():
            self.waiting.setdefault(partition, proposal)
        settings = self._room.settings
        wait = min(
            settings.alter_partition_backoff_ms << min(self._failures, 16),
            settings.alter_partition_backoff_max_ms,
        )
        self._failures += 1
        self._not_before_ms = self._room.now_ms + wait

    @property
    def next_deadline(self) -> int | None:
        """The time of the next call of `flush` without an event; None: no proposal waits for it."""
        return self._not_before_ms if self.waiting and not self._in_flight else None
