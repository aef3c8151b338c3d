"""Requests about sinks, and their answers. Plain values."""

from __future__ import annotations

from typing import Final, NamedTuple

from pylog.errors import InvalidRequest
from pylog.model import NO_TIMESTAMP, SINK_PREFIX, TopicId
from pylog_broker.coordinator.transactions.transaction import Identity

KEEP_FOREVER: Final = -1
NAME_LENGTH_MAX: Final = 249
"""The most characters of a query's id, a run's id, and a sink's id."""


class SinkKey(NamedTuple):
    """A sink of a query: `query_id` is Spark's, or tells a batch job; `sink_id` tells apart what
    one query writes.
    """

    query_id: str
    sink_id: str

    @property
    def placement(self) -> str:
        """The name by which the coordinator of the sink, and of all its transactional ids, is
        found."""
        return f"{SINK_PREFIX}{self.query_id}/{self.sink_id}"

    def transactional_id(self, number: int) -> str:
        """One of the sink's, which are numbered from 0."""
        return f"{self.placement}/{number}"


class BeginTask(NamedTuple):
    """An attempt of a task has rows to write. `run_id`: of the query's run; `task`: the number of
    the partition of the data; `attempt`: unique over all attempts of the run.

    `progress_group`: it has no rows, and commits to that group how far a source of the query has
    come with the batch; `progress_digest`: of these positions.
    """

    sink: SinkKey
    run_id: str
    batch_id: int
    task: int
    attempt: int
    progress_group: str = ""
    progress_digest: str = ""


class Member(NamedTuple):
    """The transaction of one attempt, and the identity under which it writes."""

    transactional_id: str
    identity: Identity


class WrittenRange(NamedTuple):
    """The offsets of a batch's records of one partition: from the first to the last, both included,
    with records of other writers between them.
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
    topic_id: TopicId
    starts: tuple[int, ...]


class DecidedBatch(NamedTuple):
    """A batch that counts. `checksum`: over its rows, whatever their order; `digest`: of what it
    was made from, empty where that is not known; `expires_ms`: from when on it is forgotten, or -1.
    """

    batch_id: int
    run_number: int
    row_count: int
    checksum: int
    digest: str
    decided_ms: int
    expires_ms: int
    receipt: tuple[WrittenRange, ...]
    overwritten: tuple[OverwrittenTopic, ...] = ()


class AlreadyDecided(NamedTuple):
    """The batch counts since an earlier run: write nothing."""

    batch: DecidedBatch


class RenewTask(NamedTuple):
    """The attempt is still writing."""

    sink: SinkKey
    member: Member


class PrepareTask(NamedTuple):
    """All rows of the attempt are stored. `timeout_ms`: for how long it waits for its decision, at
    most for `transaction.max.timeout.ms`, and for that when it is 0.
    """

    sink: SinkKey
    member: Member
    timeout_ms: int = 0


class DecideBatch(NamedTuple):
    """A decision: the records of these members count, and those of any other attempt of this batch,
    of earlier ones or of earlier runs do not. `keep_ms`: for how long the decision is remembered.
    `overwritten`: records of these topics that lie below the starts go when the batch counts.
    `visible_timeout_ms`: the answer waits up to so long for all markers, so that readers of
    committed records see the batch. `progress_groups`: to which sources commit how far they have
    come; what they have committed for the batch counts with it, without being named.
    """

    sink: SinkKey
    run_id: str
    batch_id: int
    members: tuple[Member, ...]
    row_count: int
    checksum: int
    digest: str
    receipt: tuple[WrittenRange, ...]
    keep_ms: int = KEEP_FOREVER
    overwritten: tuple[OverwrittenTopic, ...] = ()
    visible_timeout_ms: int = 0
    progress_groups: tuple[str, ...] = ()


class BatchDecided(NamedTuple):
    """`is_new`: by this request, and not by an earlier one."""

    batch: DecidedBatch
    is_new: bool


class AbortBatch(NamedTuple):
    """Nothing of the batch shall count, if that is not decided otherwise. `whole_sink`: nothing of
    whatever run and batch that is open. `member`: nothing of that attempt, whatever becomes of the
    others. `ends_run`: nothing of any batch of that run which is not decided, and the run writes
    nothing more: a task that comes late begins no attempt.
    """

    sink: SinkKey
    run_id: str
    batch_id: int
    whole_sink: bool = False
    member: Member | None = None
    ends_run: bool = False


class BatchAborted(NamedTuple):
    """So many attempts were aborted."""

    attempts: int


class ForgetSink(NamedTuple):
    """The query does not come back."""

    sink: SinkKey


class SinkForgotten(NamedTuple):
    """Nothing is known of the sink any more."""


class DescribedSink(NamedTuple):
    """`run_id`: the current one, empty before the first. `open_attempts`: those that write, or wait
    for a decision as `prepared_attempts` do. `held_since_ms`: the oldest transaction that holds
    committed readers back; `prepared_since_ms`: the oldest attempt that waits; -1: there is none.
    `progress_groups`: to which open attempts commit positions.
    """

    sink: SinkKey
    run_id: str
    decision: DecidedBatch | None
    open_attempts: int
    prepared_attempts: int = 0
    held_since_ms: int = NO_TIMESTAMP
    prepared_since_ms: int = NO_TIMESTAMP
    progress_groups: tuple[str, ...] = ()


def is_of_a_sink(transactional_id: str) -> bool:
    """Whether only a sink may give it."""
    return transactional_id.startswith(SINK_PREFIX)


def check_is_of_no_sink(transactional_id: str) -> None:
    """Raises InvalidRequest."""
    if is_of_a_sink(transactional_id):
        raise InvalidRequest(
            f"transactional id {transactional_id!r}: ids that begin with {SINK_PREFIX!r} belong to "
            "the sinks of queries, whose attempts `pylog sinks abort` ends; a producer needs "
            "another one"
        )


def check_names(key: SinkKey, run_id: str | None = None) -> None:
    """Raises InvalidRequest."""
    names = [("query id", key.query_id), ("sink id", key.sink_id)]
    if run_id is not None:
        names.append(("run id", run_id))
    for name, value in names:
        if not value or len(value) > NAME_LENGTH_MAX:
            raise InvalidRequest(
                f"the {name} of a sink has {len(value)} characters; it must have 1 to "
                f"{NAME_LENGTH_MAX}"
            )
    if "/" in key.query_id:
        raise InvalidRequest(f"the query id {key.query_id!r} of a sink has a slash")


def sink_of(transactional_id: str) -> SinkKey:
    """The sink that a transactional id belongs to."""
    assert is_of_a_sink(transactional_id), transactional_id
    query_id, _, rest = transactional_id.removeprefix(SINK_PREFIX).partition("/")
    return SinkKey(query_id, rest.rpartition("/")[0])


def placement_of(transactional_id: str) -> str:
    """The name by which the coordinator of a transactional id is found: the id itself, and for the
    ids of a sink the sink's placement.
    """
    if not is_of_a_sink(transactional_id):
        return transactional_id
    return transactional_id.rpartition("/")[0]
