"""The search for consistent cuts: which transactions leaders are asked for, and what is found.

`CutFinder` knows the rule (`consistent_cuts`) and asks for as little as that needs. Below the last
stable offset, all that was ever decided is in the logs. So a transaction that ends in one partition
before a proposed end has its records in each of its other partitions, and the leaders there tell of
them if asked after that end was looked up.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from pylog.model import TopicPartition, TransactionName, TransactionSpan
from pylog_connector.consistent_cuts import Ends, Spans, added, joined, lowered, raised

logger = logging.getLogger("pylog.connector")

LOOKBACK: Final = 1_000
"""Offsets before a proposed end of which transactions are asked for at first."""
SPANS_MAX: Final = 200_000
"""Transactions that a limited query remembers of what it has not read yet: 60 MB, about."""
HELD_BATCHES: Final = 3
"""A partition that got nothing in so many batches, as its next transaction is larger than its
share, gets that one whole."""
WHOLES_MAX: Final = 16
"""So many partitions are compared for the smallest cut."""

Ranges = Mapping[TopicPartition, tuple[int, int]]
Logs = Mapping[TopicPartition, object]


class Describe(Protocol):
    """Asks leaders as `RangeReader.transactions` does; None when a topic was deleted or made anew
    meanwhile. Raises TooMany for more than `spans_max`.
    """

    def __call__(
        self,
        ranges: Ranges,
        named: Collection[TransactionName] = (),
        *,
        spans_max: int | None = None,
    ) -> Mapping[TopicPartition, list[TransactionSpan]] | None: ...


class TooMany(Exception):
    """There are more transactions than the query remembers."""


@dataclass(frozen=True, slots=True)
class Found:
    """A cut, and whether the ends that were proposed are one."""

    ends: dict[TopicPartition, int]
    whole: bool


@dataclass(slots=True)
class CutFinder:
    """Lives as long as the query's run. `held`: the partitions to which limits gave something that
    the cut took, in so many batches since they got anything.
    """

    describe: Describe
    spans_max: int = SPANS_MAX
    held: dict[TopicPartition, int] = field(default_factory=dict)
    _spans: dict[TopicPartition, dict[TransactionName, TransactionSpan]] = field(
        default_factory=dict
    )
    _starts: Ends = field(default_factory=dict)
    _latest: Ends = field(default_factory=dict)
    _logs: Logs | None = None

    def below(self, starts: Ends, ends: Ends) -> Found | None:
        """The highest cut at `ends` or below, which are last stable offsets, or ends of earlier
        cuts. None when a topic was deleted or made anew.

        Asks for what is behind the ends and close before them. A transaction that is not below them
        as a whole is then looked for by its name from the starts on: it may have ended in another
        partition long before, and where batches were read for the first answer, its first record
        may lie before those.
        """
        lookback = LOOKBACK
        known_from = {at: max(starts[at], end - lookback) for at, end in ends.items()}
        found = self.describe({at: (known, -1) for at, known in known_from.items()})
        if found is None:
            return None
        spans = {at: added({}, each) for at, each in found.items()}
        in_part = [at for at, known in known_from.items() if starts[at] < known]
        asked: set[TransactionName] = set()
        while True:
            cut = lowered(starts, ends, spans)
            short = {at: end for at, end in cut.ends.items() if end < known_from[at]}
            names = cut.excluded - asked
            if short:
                lookback *= 4
                ranges = {
                    at: (max(starts[at], end - lookback), known_from[at])
                    for at, end in short.items()
                }
                more = self.describe(ranges)
                known_from |= {at: start for at, (start, _) in ranges.items()}
            elif names and in_part:
                asked |= names
                more = self.describe({at: (starts[at], -1) for at in in_part}, names)
            else:
                return Found(cut.ends, cut.ends == dict(ends))
            if more is None:
                return None
            for at, each in more.items():
                spans[at] = added(spans[at], each)

    def admitted(self, starts: Ends, latest: Ends, ends: Ends, logs: Logs) -> Found | None:
        """The same where limits admit `ends` of what there is up to `latest`. At least one
        transaction is admitted whole, also where it is larger than that. None as above.

        `logs`: the identity of each partition's log; another one is asked for all again.
        """
        try:
            spans = self._all(starts, latest, logs)
        except TooMany:
            logger.warning(
                "more than %d transactions are to be read: where a limited micro-batch may end is "
                "not looked for among so many, so this one has all of them",
                self.spans_max,
            )
            return self.below(starts, latest)
        if spans is None:
            return None
        limit = lowered(starts, latest, spans).ends
        proposed = {at: min(end, limit[at]) for at, end in ends.items()}
        cut = lowered(starts, proposed, spans).ends
        self.held = {
            at: self.held.get(at, 0) + (ends[at] > start)
            for at, start in starts.items()
            if cut[at] == start < limit[at]
        }
        whole = self._whole(starts, limit, cut, spans)
        if whole is not None:
            cut = joined(cut, whole)
            self.held = {at: count for at, count in self.held.items() if cut[at] == starts[at]}
            count, most = _count(starts, cut), _count(starts, ends)
            if count > most:
                logger.warning(
                    "a micro-batch has %d offsets, and its limits admit %d: transactions are read "
                    "whole",
                    count,
                    most,
                )
        return Found(cut, cut == dict(ends))

    def _whole(
        self, starts: Ends, limit: Ends, cut: Ends, spans: Spans
    ) -> dict[TopicPartition, int] | None:
        """The cut with some whole transaction that limits do not admit; None where that is not
        needed.
        """
        late = [at for at, count in self.held.items() if count > HELD_BATCHES]
        if late:
            return raised(starts, limit, spans, max(late, key=lambda at: self.held[at]))
        if not self.held or cut != dict(starts):
            return None
        # Each of them has one, as `limit` is a cut beyond it.
        wholes = [raised(starts, limit, spans, at) for at in [*self.held][:WHOLES_MAX]]
        return min((each for each in wholes if each), key=lambda each: _count(starts, each))

    def _all(self, starts: Ends, latest: Ends, logs: Logs) -> Spans | None:
        """All transactions from `starts` on. Those that had ended the last time are remembered."""
        if self._logs != logs or any(start < self._starts[at] for at, start in starts.items()):
            self._spans, self._latest = {}, {}
        known = {
            at: {name: span for name, span in of.items() if span.marker >= starts[at]}
            for at, of in self._spans.items()
        }
        found = self.describe(
            {at: (max(start, self._latest.get(at, 0)), -1) for at, start in starts.items()},
            spans_max=max(0, self.spans_max - sum(map(len, known.values()))),
        )
        if found is None:
            return None
        spans = {at: _renewed(known.get(at, {}), found[at]) for at in starts}
        self._spans = {
            at: {name: span for name, span in of.items() if span.marker >= 0}
            for at, of in spans.items()
        }
        self._starts, self._latest, self._logs = dict(starts), dict(latest), dict(logs)
        return spans


def _renewed(
    known: Mapping[TransactionName, TransactionSpan], found: Iterable[TransactionSpan]
) -> dict[TransactionName, TransactionSpan]:
    """What is known of a partition's transactions after a question about newer offsets."""
    spans = dict(known)
    for span in found:
        before = spans.get(span.name, span)
        spans[span.name] = span._replace(first=min(span.first, before.first))
    return spans


def _count(starts: Ends, ends: Ends) -> int:
    return sum(end - starts[at] for at, end in ends.items())
