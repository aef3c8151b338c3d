"""The `sticky` assignor: tasks stay where they are, as far as that is balanced. Pure.

Each member has its share of the active tasks that keep state, and of all active ones; a process is
a number of members, and carries the load of all. A task goes to the member that had it while that
has not got its share; else to one that kept a copy of its state; else to the process with the least
load. Standby tasks go likewise, and never to a process that has the task already: where there are
too few processes, fewer copies are kept.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pylog_broker.coordinator.groups.streams.tasks import NO_TASKS, TaskId, Tasks

STICKY: Final = "sticky"


class AssignedMember(NamedTuple):
    """A member, and the target that it had."""

    process_id: str
    target: Tasks = NO_TASKS


@dataclass(slots=True)
class _Share:
    """The number of tasks that each member gets of some: the upper half of a fair division. Members
    that have theirs count no more, so that what is left is divided among the others.
    """

    tasks: int
    members: int

    @property
    def each(self) -> int:
        return -(-self.tasks // self.members) if self.members > 0 else 0

    def has(self, count: int) -> None:
        """A member has so many now."""
        if count == self.each:
            self.tasks -= count
            self.members -= 1


@dataclass(slots=True)
class _Process:
    process_id: str
    counts: dict[str, int] = field(default_factory=dict)
    """Tasks by member."""
    tasks: set[TaskId] = field(default_factory=set)
    count: int = 0
    stateless: int = 0
    _by_count: list[tuple[int, str]] = field(default_factory=list)
    """A heap of its members; empty: to be made anew."""

    @property
    def load(self) -> tuple[float, float, str]:
        """To compare: tasks a member, then active ones without state."""
        members = len(self.counts)
        return (self.count / members, self.stateless / members, self.process_id)

    def add(self, task: TaskId, member_id: str) -> int:
        """The number of tasks that the member has with this one."""
        self.tasks.add(task)
        self.count += 1
        self.counts[member_id] += 1
        if self._by_count and self._by_count[0][1] == member_id:
            heapq.heapreplace(self._by_count, (self.counts[member_id], member_id))
        else:
            self._by_count.clear()
        return self.counts[member_id]

    def least(self) -> str:
        """Its member with the fewest tasks."""
        if not self._by_count:
            self._by_count = [(count, member_id) for member_id, count in self.counts.items()]
            heapq.heapify(self._by_count)
        return self._by_count[0][1]


class _Assignment:
    """One assignment in the making."""

    def __init__(
        self,
        members: Mapping[str, AssignedMember],
        stateful: list[TaskId],
        stateless: list[TaskId],
        standbys: int,
    ) -> None:
        self.processes: dict[str, _Process] = {}
        self.process_of: dict[str, _Process] = {}
        self.active: dict[str, set[TaskId]] = {member_id: set() for member_id in members}
        self.standby: dict[str, set[TaskId]] = {member_id: set() for member_id in members}
        self.had_active: dict[TaskId, str] = {}
        self.had_copy: dict[TaskId, list[str]] = defaultdict(list)
        for member_id, (process_id, target) in sorted(members.items()):
            process = self.processes.setdefault(process_id, _Process(process_id))
            process.counts[member_id] = 0
            self.process_of[member_id] = process
            self.had_active.update(dict.fromkeys(target.active, member_id))
            for task in (*target.standby, *target.warmup):
                self.had_copy[task].append(member_id)
        count = len(members)
        self.share_stateful = _Share(len(stateful), count)
        self.share_active = _Share(len(stateful) + len(stateless), count)
        everything = len(stateful) * (1 + standbys) + len(stateless)
        self.share_all = _Share(everything, count)

    def assign_active(self, tasks: list[TaskId], *, has_state: bool) -> None:
        """Stateful ones first, as a member's tasks are counted as these until then."""
        share = self.share_stateful if has_state else self.share_active

        def give(task: TaskId, member_id: str) -> bool:
            if self.process_of[member_id].counts[member_id] >= share.each:
                return False
            self._add_active(task, member_id, has_state=has_state)
            return True

        left = []
        for task in sorted(tasks, key=lambda each: (each.partition, each.subtopology_id)):
            had = self.had_active.get(task)
            if had is None or not give(task, had):
                left.append(task)
        rest = []
        for task in left:
            kept = self._least_loaded(self.had_copy.get(task, ()))
            if kept is None or not give(task, kept):
                rest.append(task)
        heap = self._by_load()
        for task in sorted(rest):
            process = self.processes[heap[0][-1]]
            self._add_active(task, process.least(), has_state=has_state)
            heapq.heapreplace(heap, process.load)

    def assign_standby(self, tasks: list[TaskId], replicas: int) -> None:
        """So many copies of each, or as many as there are other processes."""
        left: list[tuple[TaskId, int]] = []
        for task in sorted(tasks, key=lambda each: (each.partition, each.subtopology_id)):
            wanted = replicas
            had = self.had_active.get(task)
            if wanted and had is not None and self._takes_standby(task, had):
                self._add_standby(task, had)
                wanted -= 1
            while wanted:
                free = [each for each in self.had_copy.get(task, ()) if self._lacks(task, each)]
                kept = self._least_loaded(free)
                if kept is None or not self._takes_standby(task, kept):
                    break
                self._add_standby(task, kept)
                wanted -= 1
            if wanted:
                left.append((task, wanted))
        heap = self._by_load()
        for task, wanted in sorted(left):
            self._spread(task, wanted, heap)

    def _spread(self, task: TaskId, wanted: int, heap: list[tuple[float, float, str]]) -> None:
        """Copies at the processes with the least load that have none."""
        looked_at = []
        while heap and wanted:
            process = self.processes[heapq.heappop(heap)[-1]]
            looked_at.append(process)
            if task not in process.tasks:
                self._add_standby(task, process.least())
                wanted -= 1
        for process in looked_at:
            heapq.heappush(heap, process.load)

    def _by_load(self) -> list[tuple[float, float, str]]:
        heap = [process.load for process in self.processes.values()]
        heapq.heapify(heap)
        return heap

    def _lacks(self, task: TaskId, member_id: str) -> bool:
        return task not in self.process_of[member_id].tasks

    def _takes_standby(self, task: TaskId, member_id: str) -> bool:
        count = self.process_of[member_id].counts[member_id]
        return self._lacks(task, member_id) and count < self.share_all.each

    def _least_loaded(self, members: Iterable[str]) -> str | None:
        def load(member_id: str) -> tuple[float, int, str]:
            process = self.process_of[member_id]
            return process.load[0], process.counts[member_id], member_id

        return min(members, key=load, default=None)

    def _add_active(self, task: TaskId, member_id: str, *, has_state: bool) -> None:
        count = self._add(task, member_id)
        self.active[member_id].add(task)
        if has_state:
            self.share_stateful.has(count)
        else:
            self.process_of[member_id].stateless += 1
        self.share_active.has(count)

    def _add_standby(self, task: TaskId, member_id: str) -> None:
        self._add(task, member_id)
        self.standby[member_id].add(task)

    def _add(self, task: TaskId, member_id: str) -> int:
        count = self.process_of[member_id].add(task, member_id)
        self.share_all.has(count)
        return count


def assign_sticky(
    members: Mapping[str, AssignedMember],
    tasks: Mapping[str, int],
    stateful: frozenset[str],
    standbys: int,
) -> dict[str, Tasks]:
    """The target of each member. `tasks`: how many each subtopology has; `stateful`: those that
    keep state; `standbys`: copies of each of their tasks.
    """
    if not members:
        return {}
    with_state: list[TaskId] = []
    without: list[TaskId] = []
    for subtopology_id, count in sorted(tasks.items()):
        kind = with_state if subtopology_id in stateful else without
        kind += (TaskId(subtopology_id, number) for number in range(count))
    made = _Assignment(members, with_state, without, standbys)
    made.assign_active(with_state, has_state=True)
    made.assign_active(without, has_state=False)
    if standbys:
        made.assign_standby(with_state, standbys)
    return {
        member_id: Tasks(frozenset(made.active[member_id]), frozenset(made.standby[member_id]))
        for member_id in members
    }
