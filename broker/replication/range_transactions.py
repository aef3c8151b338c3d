"""The transactions that have records in ranges of offsets, of partitions led here.

A reader of several partitions that is to split no transaction asks for them. The markers of what is
told as committed are below the high watermark; whatever a marker in another partition has decided
is in this leader's log, committed or open. The answer and its last stable offset are of one moment.
"""

from __future__ import annotations

from collections.abc import Callable

from pylog.errors import KafkaStorageError, PylogError
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import RangeTransactionsDescribed
from pylog_broker.replication.hosted import HostedPartitions
from pylog_broker.replication.look_ups import LookUps
from pylog_broker.replication.offsets import unsure_of_end
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.range_messages import RangeTransactionsAnswer, RangeTransactionsQuery
from pylog_broker.replication.waiting import WaitingRoom


def transaction_look_ups(
    hosted: HostedPartitions,
    room: WaitingRoom,
    storage_failed: Callable[[Partition, Exception], None],
) -> LookUps[RangeTransactionsQuery, RangeTransactionsAnswer]:
    """The look-ups that answer the queries of one broker, with RangeTransactionsDescribed."""
    return LookUps(
        hosted,
        room,
        lambda at, query, nowait: answer_query(at, query, storage_failed, nowait=nowait),
        RangeTransactionsAnswer,
        RangeTransactionsDescribed,
    )


def answer_query(
    partition: Partition,
    query: RangeTransactionsQuery,
    storage_failed: Callable[[Partition, Exception], None],
    *,
    nowait: bool,
) -> RangeTransactionsAnswer:
    """The transactions of a range. With `nowait` it may raise PagesCold.

    A new leader that does not know yet how far its predecessor had committed tells nothing: a
    marker that it holds may look uncommitted to it.
    """
    name = partition.topic_partition
    fault = partition.leader_fault(query.current_leader_epoch) or unsure_of_end(partition)
    if fault is not None:
        return RangeTransactionsAnswer(name, fault)
    try:
        spans, next_offset = partition.log.transactions(
            query.start,
            query.end,
            high_watermark=partition.high_watermark,
            named=query.named,
            spans_max=query.spans_max,
            headers_max=query.headers_max,
            nowait=nowait,
        )
    except PylogError as error:
        if isinstance(error, KafkaStorageError):
            storage_failed(partition, error)
        return RangeTransactionsAnswer(name, Failure(error.code, str(error)))
    return RangeTransactionsAnswer(
        name, None, partition.topic_id, partition.last_stable_offset, tuple(spans), next_offset
    )
