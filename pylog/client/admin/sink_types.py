"""Sinks of queries as administrators see them: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pylog.model import TopicPartition


class WrittenRange(NamedTuple):
    """The offsets of a batch's records in a partition: from the first to the last, with records of
    other writers between them.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int


class OverwrittenTopic(NamedTuple):
    """A topic that a batch has overwritten: its partitions from 0 on begin at these offsets now."""

    topic: str
    topic_id: str
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DecidedBatch:
    """A batch that counts. `run_number`: of the query's run that wrote it, from 0. `checksum`: over
    its rows, whatever their order. `expires_ms`: when it is forgotten; None: never.
    """

    batch_id: int
    run_number: int
    row_count: int
    checksum: int
    digest: str
    decided_ms: int
    expires_ms: int | None
    receipt: tuple[WrittenRange, ...] = ()
    overwritten: tuple[OverwrittenTopic, ...] = ()

    def start_of(self, at: TopicPartition, *, with_rows: bool = False) -> tuple[int, ...]:
        """The offset at which the partition begins since the batch has overwritten it, alone in a
        tuple; an empty one where it has not. `with_rows`: also where it has written nothing to it.
        """
        if with_rows and not any(each[:2] == at for each in self.receipt):
            return ()
        return tuple(
            each.starts[at.partition]
            for each in self.overwritten
            if each.topic == at.topic and at.partition < len(each.starts)
        )


@dataclass(frozen=True, slots=True)
class SinkListing:
    """A sink of a query. `coordinator` is a broker's id, `run_id` the query's newest run.
    `open_attempts` write, or wait for the end of their batch, as `prepared_attempts` do.
    `held_since_ms`: since when one of them holds back readers of committed records;
    `prepared_since_ms`: since when the oldest one waits. `progress_groups`: to which open attempts
    commit what the query has read.
    """

    query_id: str
    sink_id: str
    coordinator: int
    run_id: str | None
    last: DecidedBatch | None
    open_attempts: int = 0
    prepared_attempts: int = 0
    held_since_ms: int | None = None
    prepared_since_ms: int | None = None
    progress_groups: tuple[str, ...] = ()
