"""The values that tasks, drivers and the coordinator of a sink exchange. They are pickled on their
way from tasks to the driver, whose process imports nothing for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pylog.model import SINK_PREFIX

KEEP_FOREVER: Final = -1


class SinkKey(NamedTuple):
    """A sink of a query: `query_id` is Spark's, or tells a batch job; `sink_id` tells apart what
    one query writes.
    """

    query_id: str
    sink_id: str

    @property
    def coordinated_as(self) -> str:
        """The transactional id by which FindCoordinator is asked; all of a sink have one place."""
        return f"{SINK_PREFIX}{self.query_id}/{self.sink_id}/0"

    def __str__(self) -> str:
        return f"sink {self.sink_id!r} of query {self.query_id}"


class SinkAttempt(NamedTuple):
    """One attempt of a task: `task` is the number of the partition of the data, `attempt` is unique
    over all attempts of the run. With a `progress_group` it commits positions of a source there in
    place of rows; `progress_digest` is of these.
    """

    sink: SinkKey
    run_id: str
    batch_id: int
    task: int
    attempt: int
    progress_group: str = ""
    progress_digest: str = ""


class SinkMember(NamedTuple):
    """The transaction of an attempt, and the identity under which it writes."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class SinkRange(NamedTuple):
    """The offsets of a batch's records in one partition, from the first to the last; records of
    other writers may lie between them.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int


class OverwrittenTopic(NamedTuple):
    """A topic that a batch overwrites: with the batch, its partitions from 0 on begin at these
    offsets.
    """

    topic: str
    topic_id: str
    starts: tuple[int, ...]


class SinkDecision(NamedTuple):
    """A batch that counts."""

    batch_id: int
    run_number: int
    row_count: int
    checksum: int
    digest: str
    decided_ms: int
    expires_ms: int
    receipt: tuple[SinkRange, ...]
    overwritten: tuple[OverwrittenTopic, ...] = ()


class SinkBatch(NamedTuple):
    """A batch about which a driver asks for a decision. `keep_ms`: for how long the decision is
    remembered. A batch that has `overwritten` topics has a member. `progress_groups`: to which the
    query's sources commit how far they have come with the batch.
    """

    sink: SinkKey
    run_id: str
    batch_id: int
    members: tuple[SinkMember, ...]
    row_count: int
    checksum: int
    receipt: tuple[SinkRange, ...]
    digest: str = ""
    keep_ms: int = KEEP_FOREVER
    overwritten: tuple[OverwrittenTopic, ...] = ()
    progress_groups: tuple[str, ...] = ()


class FramedPort(NamedTuple):
    """The address at which a broker takes framed connections."""

    broker: int
    host: str
    port: int


class CoordinatorPorts(NamedTuple):
    """The coordinator of a sink (-1: unknown) and the brokers' framed ports: enough for a process
    without metadata to call it. No `ports`: brokers offer no framed connections to this client.
    """

    cluster_id: str
    coordinator: int
    ports: tuple[FramedPort, ...]


def merged(ranges: list[SinkRange]) -> tuple[SinkRange, ...]:
    """One range for each partition, in the order of topics and partitions."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for topic, partition, first, last in ranges:
        known = found.get((topic, partition), (first, last))
        found[topic, partition] = min(first, known[0]), max(last, known[1])
    return tuple(SinkRange(*tp, *offsets) for tp, offsets in sorted(found.items()))
