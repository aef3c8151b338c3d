"""The work of one task, as the driver plans it and the task gets it (pickled). Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Others:
    """Partitions of the same topic that a task looks at besides its own, because they were empty or
    did not exist when the batch was planned: `empty`, and `first + k * step`.

    They are read from the first record of `start_time` (None: from earliest) to before the first of
    `end_time` (None: to latest).
    """

    empty: tuple[int, ...] = ()
    first: int = 0
    step: int = 0
    start_time: int | None = None
    end_time: int | None = None


@dataclass(frozen=True, slots=True)
class ReadRange:
    """`start <= offset < end` of one partition.

    `start` may be `EARLIEST` and `end` `LATEST`: then the task resolves them when it runs, and a
    DataFrame that is used again sees what was written since; `end` then lies before the first
    record of `end_time`, if that is set and there is one. `known` are the offsets at planning. An
    empty `topic_id` means whichever topic has the name when the task runs. `from_earliest`: what is
    gone at the start of the range is no loss. `lenient`: what the topic of that name has of the
    range when the task runs is read, with a warning where that is not all of it.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    known: tuple[int, int] = (0, 0)
    from_earliest: bool = False
    end_time: int | None = None
    others: Others | None = None
    lenient: bool = False

    @property
    def size(self) -> int:
        """The number of offsets in the range at planning."""
        return self.known[1] - self.known[0]


@dataclass(frozen=True, slots=True)
class PlannedLease:
    """The read lease of a batch read, which its tasks renew: whose it is, how long it lasts without
    a renewal, and the time of day at which it was taken.
    """

    holder: str
    timeout_ms: int
    taken_ms: int
