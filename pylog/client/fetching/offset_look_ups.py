"""The request manager that looks positions up: Kafka's `OffsetsRequestManager`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pylog import errors
from pylog.client.cluster.metadata import ClusterMetadata
from pylog.client.fetching.fetch_events import Effect, Listed, ListOffsets, RefreshMetadata
from pylog.client.fetching.fetch_state import FetchState, Partition
from pylog.client.fetching.leader_finder import LeaderFinder
from pylog.client.fetching.positions import Positions
from pylog.client.fetching.request_manager import Polled
from pylog.model import LATEST_TIMESTAMP, TopicPartition

_AWAIT_RESET: Final = FetchState.AWAIT_RESET  # looked at for each partition at each poll


class OffsetLookUps:
    """Owned by the consumer's lock."""

    def __init__(
        self, positions: Positions, metadata: ClusterMetadata, leaders: LeaderFinder
    ) -> None:
        self._positions = positions
        self._metadata = metadata
        self._leaders = leaders

    def poll(self, now_ms: int) -> Polled:
        """A request to each leader of partitions that await a reset."""
        by_broker: dict[int, list[tuple[TopicPartition, int, int, int]]] = {}
        deadline: int | None = None
        for tp, partition in self._positions.partitions.items():
            if partition.state is not _AWAIT_RESET or partition.error is not None:
                continue
            at_ms = partition.retry_at_ms
            if at_ms > now_ms:
                deadline = at_ms if deadline is None else min(deadline, at_ms)
                continue
            leader = self._metadata.leader(*tp)
            if leader is None:
                self._leaders.is_missing(tp)
                continue
            assert partition.reset_to is not None
            partition.become(FetchState.RESETTING)
            by_broker.setdefault(leader.broker, []).append(
                (tp, partition.reset_to, leader.epoch, partition.generation)
            )
        return Polled(
            [ListOffsets(broker, tuple(items)) for broker, items in by_broker.items()], deadline
        )

    def on_failed(
        self, now_ms: int, request: ListOffsets, error: errors.PylogError
    ) -> list[Effect]:
        """The broker has not answered."""
        listed = [Listed(tp, g, error.code, str(error)) for tp, _, _, g in request.items]
        return self.on_listed(now_ms, listed)

    def on_listed(self, now_ms: int, answers: Sequence[Listed]) -> list[Effect]:
        """Start positions were looked up."""
        stale: dict[str, None] = {}
        for answer in answers:
            partition = self._positions.partitions.get(answer.topic_partition)
            if partition is None or partition.generation != answer.generation:
                continue
            if answer.code or self._is_of_another_topic(answer):
                self._on_fault(now_ms, partition, answer, stale)
                continue
            partition.topic_id = partition.topic_id or answer.topic_id
            if answer.offset >= 0:
                self._positions.seek(partition, answer.offset)
            else:  # no record is that late: the end
                partition.become(FetchState.AWAIT_RESET)
                partition.reset_to = LATEST_TIMESTAMP
        return [RefreshMetadata(tuple(stale))] if stale else []

    def _on_fault(
        self, now_ms: int, partition: Partition, answer: Listed, stale: dict[str, None]
    ) -> None:
        tp = partition.topic_partition
        partition.become(FetchState.AWAIT_RESET)
        self._positions.retry_later(now_ms, partition)
        if self._is_of_another_topic(answer):
            stale[tp.topic] = None
            return
        error = errors.from_code(answer.code, f"{tp}: {answer.message}")
        if not error.retriable:
            partition.fail(error)
        elif error.refreshes_metadata:
            stale[tp.topic] = None

    def _is_of_another_topic(self, answer: Listed) -> bool:
        """Whether broker and client disagree about which topic has the name: one of them has not
        heard yet that the topic was created anew, and offsets of the one mean nothing in the other.
        """
        known = self._metadata.topic_id(answer.topic_partition.topic)
        return bool(answer.topic_id and known) and answer.topic_id != known
