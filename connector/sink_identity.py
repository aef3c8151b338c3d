"""The sink, run and batch that a task writes for, out of what Spark tells it. Pure.

Tasks of a streaming write, and of a batch write inside `foreachBatch`, see their query, run and
batch as local properties of their thread. Other batch writes are jobs of their own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from pylog.client.sinks.sink_types import KEEP_FOREVER, SinkKey
from pylog_connector.errors import SinkIdentity
from pylog_connector.option_names import EXACTLY_ONCE, IDEMPOTENCY_KEY
from pylog_connector.options import SinkOptions

QUERY: Final = "sql.streaming.queryId"
BATCH: Final = "streaming.sql.batchId"
JOB_GROUP: Final = "spark.jobGroup.id"
DESCRIPTION: Final = "spark.job.description"
QUERYS_SESSION: Final = "spark.sql.streaming.internal.stateStore.partitions"
"""Spark sets it in the sessions of streaming queries alone; tasks see the settings of sessions."""

ALL_TOPICS: Final = "*"
"""The sink id where rows name their topics; no topic is called so."""
JOB_KEEP_MS: Final = 10 * 60_000
"""A job's decision is asked for again within seconds, when its answer was lost."""
OVERWRITE_KEEP_MS: Final = 7 * 86_400_000
"""One that has overwritten topics explains to readers where records have gone."""
BATCH_OF_JOBS: Final = 0

_RUN_IN_DESCRIPTION: Final = re.compile(
    r"\brunId = ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b"
)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}")

Properties = Callable[[str], str | None]


class SinkBatchId(NamedTuple):
    """One batch of one sink. `keep_ms`: for how long its decision is remembered."""

    sink: SinkKey
    run_id: str
    batch_id: int
    keep_ms: int = KEEP_FOREVER
    is_keyed: bool = False
    """Whether an `idempotencyKey` names it."""


def batch_of_query(properties: Properties, options: SinkOptions) -> SinkBatchId | None:
    """The batch of a streaming query that this thread writes; None outside of one.

    Raises SinkIdentity where the query's run is not told.
    """
    return batch_of_sink(properties, sink_id_of(options))


def batch_of_sink(properties: Properties, sink_id: str) -> SinkBatchId | None:
    """The same of a query's sink with that id, for tasks that read as well."""
    query, batch = properties(QUERY), properties(BATCH)
    if query is None or batch is None:
        return None
    return SinkBatchId(SinkKey(query, sink_id), _run_of(properties), int(batch))


def check_is_of_no_batch(properties: Properties) -> None:
    """SinkIdentity for a batch write that is made in `foreachBatch` and does not see its batch: it
    would be written again when the batch is. So are all those on Spark Connect, whose function runs
    in a process of its own, and those from a thread that the function has started.
    """
    if properties(QUERYS_SESSION) is not None and properties(BATCH) is None:
        raise SinkIdentity(
            "the rows are of a batch of a streaming query, and Spark does not tell this write "
            "which; so it is on Spark Connect, and in threads that foreachBatch starts. Name it as "
            f'in option("{IDEMPOTENCY_KEY}", f"copy-{{batch_id}}"), with a name of your query, or '
            f"set {EXACTLY_ONCE}=false, and it is written again whenever Spark runs it again"
        )


def batch_of_job(job: str, options: SinkOptions) -> SinkBatchId:
    """A batch write of its own; `job` is unique to it."""
    key = options.idempotency_key
    destination = options.topic or ALL_TOPICS
    if key is not None:
        sink = SinkKey(_query_of_key(key), destination)
        return SinkBatchId(
            sink, job, BATCH_OF_JOBS, options.idempotency_retention_ms, is_keyed=True
        )
    keep_ms = OVERWRITE_KEEP_MS if options.overwrites else JOB_KEEP_MS
    return SinkBatchId(SinkKey(f"job:{job}", sink_id_of(options)), job, BATCH_OF_JOBS, keep_ms)


def is_query(query_id: str) -> bool:
    """Whether it is the id of a streaming query, and not of a batch write of its own."""
    return _UUID.fullmatch(query_id) is not None


def sink_id_of(options: SinkOptions) -> str:
    """The option, or else the destination."""
    return options.sink_id or options.topic or ALL_TOPICS


def _run_of(properties: Properties) -> str:
    """Spark makes the run's id the job group, until the user sets another one; it stands in the
    description of jobs as well, behind the query's name, which may say anything.
    """
    told = _RUN_IN_DESCRIPTION.findall(properties(DESCRIPTION) or "")
    if told:
        return str(told[-1])
    group = properties(JOB_GROUP)
    if group is not None and _UUID.fullmatch(group):
        return group
    raise SinkIdentity(
        f"the tasks of the query do not see which run of it they belong to: the job group is "
        f"{group!r}, and the job description does not tell it either. Leave setJobGroup and "
        f"setJobDescription out around the write, or set {EXACTLY_ONCE}=false"
    )


def _query_of_key(key: str) -> str:
    """Keys of any length and letters have names that coordinators take, each its own."""
    if _PLAIN_KEY.fullmatch(key):
        return f"key:{key}"
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
