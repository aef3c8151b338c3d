"""Partitions that nobody leads for long: the log says why, now and then. Pure.

A poll that gives nothing is not wrong, and a partition may be without a leader for a while; so this
is no error of `poll`. But nobody should wait for ever without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pylog.client.cluster.metadata import ClusterMetadata
from pylog.model import NO_LEADER, TopicPartition

TELL_EVERY_MS: Final = 60_000


class Leaderless:
    """Partitions that were met without a leader. Told after `patience_ms`, then once a minute."""

    def __init__(self, patience_ms: int) -> None:
        self._patience_ms = patience_ms
        self._since_ms: dict[TopicPartition, int] = {}
        self._tell_at_ms: dict[TopicPartition, int] = {}

    @property
    def knows_some(self) -> bool:
        """Whether any is without a leader, as far as it has looked."""
        return bool(self._tell_at_ms)

    def look(
        self, now_ms: int, without: Iterable[TopicPartition], metadata: ClusterMetadata
    ) -> list[str]:
        """The lines to say now; `without` are those that had to be left out just now."""
        for tp in without:
            if tp not in self._since_ms:
                self._since_ms[tp] = now_ms
                self._tell_at_ms[tp] = now_ms + self._patience_ms
        told = []
        for tp, at_ms in list(self._tell_at_ms.items()):
            if metadata.leader(*tp) is not None:
                del self._since_ms[tp], self._tell_at_ms[tp]
            elif now_ms >= at_ms:
                self._tell_at_ms[tp] = now_ms + TELL_EVERY_MS
                waited_s = (now_ms - self._since_ms[tp]) // 1000
                told.append(
                    f"nothing is read of {tp}, which has had no leader for {waited_s} s: "
                    f"{why_leaderless(metadata, tp)}"
                )
        return told

    def forget_all_but(self, assigned: Iterable[TopicPartition]) -> None:
        """The user reads these."""
        kept = set(assigned)
        for tp in self._since_ms.keys() - kept:
            del self._since_ms[tp], self._tell_at_ms[tp]


def why_leaderless(metadata: ClusterMetadata, tp: TopicPartition) -> str:
    """The metadata's word about it."""
    topic = metadata.topics.get(tp.topic)
    if topic is None:
        return "the cluster has not told of its topic"
    if tp.partition >= len(topic.partitions):
        return f"its topic has {len(topic.partitions)} partitions"
    info = topic.partitions[tp.partition]
    if info.leader != NO_LEADER:
        return f"its leader, broker {info.leader}, is not among the live brokers"
    away = [broker for broker in info.replicas if broker not in metadata.brokers]
    offline = [b for b in info.offline_replicas if b not in away]
    eligible = [*info.isr, *info.eligible_leader_replicas]
    reasons = [f"its replicas are on brokers {list(info.replicas)}"]
    if away:
        reasons.append(f"brokers {away} are not live")
    if offline:
        reasons.append(f"the replicas on brokers {offline} are offline: see their logs")
    if eligible:
        reasons.append(f"only those on brokers {eligible} have all records and may lead")
    else:
        reasons.append("none is known to have all records and may lead")
    return "; ".join(reasons)
