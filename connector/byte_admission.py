"""The size of a micro-batch in bytes: `maxBytesPerTrigger`. Pure.

Bytes are those of batches as the log stores them, so compressed where producers compress, and
nothing smaller than a batch is admitted. A micro-batch never exceeds the limit, but for a batch
that is larger by itself: such a one is read alone. Each partition gets a share by its lag in bytes,
so that all of them get to their ends together. A share may be smaller than a batch: a partition
that got nothing goes before others in the next micro-batch, the one that waited longest first, and
so none starves however much the others have.

The caller asks brokers twice: for the bytes of each lag, and, where they are too many, for the
first piece of the size that `ask` gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pylog.model import RangeSplit, TopicPartition


@dataclass(slots=True)
class ByteLimit:
    """Lives as long as the query's run: it remembers the partitions that wait. `waiting`: those
    that got nothing, the longest wait first, with the bytes of their first batch.
    """

    limit: int
    waiting: dict[TopicPartition, int] = field(default_factory=dict)

    def ask(self, lags: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The size of the piece to ask for of each partition, by the bytes of its lag; empty where
        all of it is admitted.
        """
        if sum(lags.values()) <= self.limit:
            self.waiting.clear()
            return {}
        self.waiting = {at: size for at, size in self.waiting.items() if lags.get(at)}
        left = self.limit
        first: dict[TopicPartition, int] = {}
        for at, size in self.waiting.items():
            need = min(size, lags[at])
            if need > self.limit and not first:
                return {at: 1}  # alone
            if need > left:
                break
            first[at] = need
            left -= need
        total = sum(lags.values())
        return {
            at: max(1, first.get(at, 0) + left * lag // total) for at, lag in lags.items() if lag
        }

    def admit(
        self, asked: Mapping[TopicPartition, int], found: Mapping[TopicPartition, RangeSplit]
    ) -> dict[TopicPartition, int]:
        """The offset at which each partition's part ends, of those that `ask` asked for and brokers
        answered; the others stay where they are.
        """
        in_turn = [at for at in self.waiting if at in found]
        in_turn += [at for at in sorted(found) if at not in self.waiting]
        ends: dict[TopicPartition, int] = {}
        left = self.limit
        for at in in_turn:
            for piece in found[at].pieces[:1]:
                if piece.bytes <= asked[at] and piece.bytes <= left:
                    ends[at] = piece.end_offset
                    left -= piece.bytes
        # The bytes that are left go batch by batch, first to partitions that have got nothing.
        for at in sorted(in_turn, key=lambda at: at in ends):
            split = found[at]
            more = split.next if at in ends else next(iter(split.pieces), None)
            if more is not None and (more.bytes <= left or not ends):
                ends[at] = more.end_offset
                left -= more.bytes
        firsts = {at: found[at].pieces[0].bytes for at in in_turn if found[at].pieces}
        self.waiting = {at: size for at, size in (self.waiting | firsts).items() if at not in ends}
        return ends
