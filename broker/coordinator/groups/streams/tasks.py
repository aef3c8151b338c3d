"""Tasks of a streams application, and the three roles in which a member may have them. Pure.

A task is one partition of a subtopology. It is active at one member of the group at most; as a
standby or a warm-up it keeps a copy of the task's state, at other processes than the active one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class TaskId(NamedTuple):
    """A partition of a subtopology."""

    subtopology_id: str
    partition: int


TaskSet = frozenset[TaskId]
NO_TASK_IDS: TaskSet = frozenset()


class TaskRole(Enum):
    """The roles of a member in a task."""

    ACTIVE = "active"
    STANDBY = "standby"
    WARMUP = "warmup"


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks by role."""

    active: TaskSet = NO_TASK_IDS
    standby: TaskSet = NO_TASK_IDS
    warmup: TaskSet = NO_TASK_IDS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def __and__(self, other: Tasks) -> Tasks:
        return Tasks(
            self.active & other.active, self.standby & other.standby, self.warmup & other.warmup
        )

    def __or__(self, other: Tasks) -> Tasks:
        return Tasks(
            self.active | other.active, self.standby | other.standby, self.warmup | other.warmup
        )

    def __sub__(self, other: Tasks) -> Tasks:
        return Tasks(
            self.active - other.active, self.standby - other.standby, self.warmup - other.warmup
        )

    def __le__(self, other: Tasks) -> bool:
        return not self - other

    def where(self, test: Callable[[TaskRole, TaskId], bool]) -> Tasks:
        """Those of which that is true."""

        def those(role: TaskRole, tasks: TaskSet) -> TaskSet:
            return frozenset(task for task in tasks if test(role, task))

        return Tasks(
            those(TaskRole.ACTIVE, self.active),
            those(TaskRole.STANDBY, self.standby),
            those(TaskRole.WARMUP, self.warmup),
        )

    def all(self) -> Iterator[TaskId]:
        """The tasks of all roles, without their roles."""
        yield from self.active
        yield from self.standby
        yield from self.warmup


NO_TASKS = Tasks()
