"""The invariants of queries that commit to a group what they have read, and of those that go on in
each other's place. The group of such a query has the name of its sink id.

S8: a decision counts with the positions that its batch has read, and the group has the positions of
a decided batch: of none behind the last one, and of none before the last one whose markers are
through. S9: each number of a source that lies below the group's last position is written once,
whichever queries have read it. S10: a query writes with the sink id of another one only where that
is meant, and the other one never does again; none is refused where no other one has written.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pylog.client.sinks.sink_types import SinkKey
from pylog.model import TopicPartition
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.sink_workers import WrittenAttempt

Positions = dict[int, int]
"""The offset behind what was read, by the partition's number; no entry where that is 0."""
Number = tuple[int, int]
"""A number that a source gives out: its partition, and the offset there."""
_Identity = tuple[int, int]


@dataclass(slots=True)
class _Source:
    """What the queries of one group have read, by the decisions in the log."""

    writer: SinkKey | None = None
    """The sink that has decided last."""
    earlier: set[SinkKey] = field(default_factory=set)
    """Those in whose place another one has gone on."""
    decided: list[Positions] = field(default_factory=lambda: [{}])
    through: int = 0
    """The index of the last decision whose markers are there."""
    seen: Positions = field(default_factory=dict)


class ProgressGhost:
    """The ghost state of all such queries of a run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sometimes = cluster.sometimes
        self._planned: dict[tuple[SinkKey, str, int], Positions] = {}
        self._sources: dict[str, _Source] = {}
        self._may_follow: set[SinkKey] = set()
        self._commits: dict[_Identity, tuple[str, int]] = {}
        """The decisions by which positions are committed, by the identities of their markers."""

    def _fail(self, invariant: str, text: str) -> None:
        raise Violation(invariant, text)

    def _source(self, group: str) -> _Source:
        return self._sources.setdefault(group, _Source())

    # ---- what drivers do

    def plans(self, sink: SinkKey, run_id: str, batch_id: int, ends: Positions) -> None:
        """A run plans a batch, which reads up to there."""
        self._planned[sink, run_id, batch_id] = ends

    def may_follow(self, sink: SinkKey) -> None:
        """The sink's user says that its query goes on in the place of another one."""
        self._may_follow.add(sink)

    def has_written(self, sink: SinkKey) -> bool:
        """Whether the sink has decided last of those with its id."""
        return self._source(sink.sink_id).writer == sink

    def has_moved_on(self, sink: SinkKey) -> bool:
        """Whether another query has written in place of that one."""
        return sink in self._source(sink.sink_id).earlier

    def refused(self, name: str, sink: SinkKey) -> None:
        """S10: a task has heard that another query has the sink id."""
        writer = self._source(sink.sink_id).writer
        if writer in (None, sink):
            self._fail("S10", f"{name} of {sink} is refused; {writer} has written last")
        moved_on = self.has_moved_on(sink)
        self._sometimes[f"sinks: {'earlier' if moved_on else 'new'} query refused"] += 1

    def begins_to_look(self, group: str) -> int:
        """A new query is about to look up the group's positions: it is told those of this decision,
        or of a later one.
        """
        return self._source(group).through

    def told(self, name: str, group: str, since: int, positions: Positions) -> None:
        """S8: the query has heard of them."""
        allowed = self._source(group).decided[since:]
        if positions not in allowed:
            self._fail("S8", f"{name} is to begin at {positions}; decided is {allowed}")
        self._sometimes["sinks: query begins where the group has come to"] += 1
        self._sometimes["sinks: query begins behind what was decided"] += bool(positions)

    # ---- the log

    def decides(
        self, sink: SinkKey, run_id: str, batch_id: int, sources: list[tuple[str, _Identity]]
    ) -> None:
        """A decision, and the groups and identities of the attempts with positions that count."""
        ends = self._planned.get((sink, run_id, batch_id))
        if ends is None:
            return
        group = sink.sink_id
        if [each for each, _ in sources] != [group]:
            self._fail("S8", f"batch {batch_id} of {sink} counts with positions of {sources}")
        source = self._source(group)
        before, source.writer = source.writer, sink
        if before not in (None, sink):
            assert before is not None
            if sink not in self._may_follow:
                self._fail("S10", f"{sink} writes, and {before} has written before")
            source.earlier.add(before)
            self._sometimes["sinks: query goes on in the place of another one"] += 1
        if sink in source.earlier:
            self._fail("S10", f"{sink} writes, and {before} has gone on in its place")
        source.decided.append(ends)
        (producer_id, epoch) = sources[0][1]
        self._commits[producer_id, epoch + 1] = (group, len(source.decided) - 1)
        self._sometimes["sinks: decision with positions in the log"] += 1

    def completed(self, identity: _Identity) -> None:
        """All partitions have that marker."""
        known = self._commits.get(identity)
        if known is None:
            return
        group, index = known
        source = self._source(group)
        source.through = max(source.through, index)
        self._check(group, source)
        self._sometimes["sinks: positions are there with their batch"] += 1

    def look(self) -> None:
        """Check groups whose positions have changed."""
        for group, source in self._sources.items():
            found = self._committed(group)
            if found != source.seen:
                source.seen = found
                assert self._cluster.transactions is not None
                self._cluster.transactions.ghost.catch_up()
                self._check(group, source)

    def _committed(self, group: str) -> Positions:
        assert self._cluster.groups is not None
        found: Positions = {}
        for number in range(self._cluster.swarm.partitions):
            tp = TopicPartition(self._cluster.TOPIC, number)
            value = self._cluster.groups.ghost.position(group, tp)
            if value is not None and value.offset:
                found[number] = value.offset
        return found

    def _check(self, group: str, source: _Source) -> None:
        found, allowed = self._committed(group), source.decided[source.through :]
        if found not in allowed:
            self._fail("S8", f"group {group} is at {found}; its last decisions are {allowed}")

    # ---- the end

    def check_history(self, attempts: list[WrittenAttempt], seen: dict[bytes, int]) -> None:
        """S8 and S9; `seen`: how often readers see each value."""
        written: dict[str, Counter[Number]] = {}
        for each in attempts:
            counts = written.setdefault(each.attempt.sink.sink_id, Counter())
            for value, number in zip(each.values, each.numbers, strict=False):
                counts[number] += seen.get(value, 0)
        for group, source in self._sources.items():
            self._check(group, source)
            counts = written.get(group, Counter())
            ends = source.decided[-1]
            wanted = Counter(
                (number, offset) for number, end in ends.items() for offset in range(end)
            )
            if +counts != wanted:
                self._fail(
                    "S9",
                    f"group {group} is at {ends}; too often are {+(counts - wanted)}, lost "
                    f"{+(wanted - counts)}",
                )
            self._sometimes["sinks: numbers written once"] += len(wanted)
