"""The offsets of a transaction's records, as the acknowledgements to its producer give them.
Pure."""

from __future__ import annotations

from pylog.model import TopicPartition


class Receipt:
    """By partition the offsets of the first record and of the last one. Between them there may be
    records of others.
    """

    def __init__(self) -> None:
        self._ranges: dict[TopicPartition, tuple[int, int]] = {}

    def stored(self, tp: TopicPartition, base_offset: int, count: int) -> None:
        """A batch lies there. A leader that has it from an earlier attempt, and does not know any
        more where, says -1.
        """
        if base_offset < 0:
            return
        first, last = self._ranges.get(tp, (base_offset, base_offset))
        end = base_offset + count - 1
        self._ranges[tp] = min(first, base_offset), max(last, end)

    def ranges(self) -> dict[TopicPartition, tuple[int, int]]:
        """The first and the last offset, in the order of topics and partitions."""
        return dict(sorted(self._ranges.items()))
