"""Logs of partitions to which transactions are written, and a leader that tells of them: for what
looks for consistent cuts. Dumb on purpose.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pylog.model import TopicPartition, TransactionName, TransactionSpan
from pylog_connector.cut_finder import TooMany


@dataclass
class Written:
    """One transaction: where its records and markers lie."""

    name: TransactionName
    records: dict[TopicPartition, list[int]] = field(default_factory=dict)
    markers: dict[TopicPartition, int] = field(default_factory=dict)
    commits: bool | None = None

    @property
    def is_over(self) -> bool:
        return self.commits is not None and self.records.keys() == self.markers.keys()


class History:
    """`step` lets something happen: a record, a decision, a marker. With `busy` things happen also
    while leaders are asked.
    """

    def __init__(self, rng: random.Random, places: Collection[TopicPartition]) -> None:
        self.rng = rng
        self.ends = dict.fromkeys(places, 0)
        self.transactions: list[Written] = []
        self.open_max = 3
        self.busy = False
        self.questions = 0

    def _take(self, at: TopicPartition) -> int:
        self.ends[at] += 1
        return self.ends[at] - 1

    def step(self) -> None:
        rng = self.rng
        live = [each for each in self.transactions if not each.is_over]
        if rng.random() < 0.1:
            self._take(rng.choice([*self.ends]))  # a record of no transaction
        elif len(live) < self.open_max and rng.random() < 0.3:
            self.transactions.append(Written(TransactionName(len(self.transactions), 0)))
        elif live:
            one = rng.choice(live)
            if one.commits is None:
                if one.records and rng.random() < 0.3:
                    one.commits = rng.random() < 0.8
                else:
                    at = rng.choice([*self.ends])
                    one.records.setdefault(at, []).append(self._take(at))
            else:
                self._mark(one, rng.choice([*one.records.keys() - one.markers.keys()]))

    def _mark(self, one: Written, at: TopicPartition) -> None:
        one.markers[at] = self._take(at)

    def settle(self) -> None:
        """Each transaction is decided and gets its markers."""
        for one in self.transactions:
            one.commits = True if one.commits is None else one.commits
            for at in sorted(one.records.keys() - one.markers.keys()):
                self._mark(one, at)

    def stable(self) -> dict[TopicPartition, int]:
        """The last stable offsets."""
        return {
            at: min(
                (
                    one.records[at][0]
                    for one in self.transactions
                    if at in one.records and at not in one.markers
                ),
                default=end,
            )
            for at, end in self.ends.items()
        }

    def describe(
        self,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        named: Collection[TransactionName] = (),
        *,
        spans_max: int | None = None,
    ) -> dict[TopicPartition, list[TransactionSpan]]:
        """As leaders tell it: of a range that is read, the first records before it are unknown."""
        self.questions += 1
        answer = {}
        for at, (start, end) in ranges.items():
            if self.busy:
                for _ in range(self.rng.randrange(4)):
                    self.step()
            is_read = self.rng.random() < 0.5
            answer[at] = found = list[TransactionSpan]()
            for one in self.transactions:
                if at not in one.records or (named and one.name not in named):
                    continue
                marker = one.markers.get(at, -1)
                first = one.records[at][0]
                if marker < 0:
                    if end < 0:
                        found.append(TransactionSpan(one.name, first))
                elif one.commits and start <= marker and (end < 0 or marker < end):
                    if is_read:
                        first = min((o for o in one.records[at] if o >= start), default=marker)
                    found.append(TransactionSpan(one.name, first, marker))
        if spans_max is not None and sum(map(len, answer.values())) > spans_max:
            raise TooMany
        return answer

    def check(self, cuts: list[dict[TopicPartition, int]]) -> None:
        """That no committed transaction has records in two of the batches between these cuts."""
        for one in self.transactions:
            if one.commits is False:
                continue
            batches = {
                sum(cut[at] <= offset for cut in cuts)
                for at, offsets in one.records.items()
                for offset in offsets
            }
            assert len(batches) <= 1, f"{one} is split into batches {batches}"
