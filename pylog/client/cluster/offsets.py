"""Calls about partitions, each to its leader, with retries: list offsets and delete records, and
whatever else administrators ask.

On the loop. Used by consumer and admin client.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pylog import errors
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.outcomes import Outcomes, passes_at_leader
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import error_of
from pylog.config import LONG_MAX
from pylog.model import NO_EPOCH, OffsetAndTimestamp, TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import log_pb2

Listing = dict[TopicPartition, OffsetAndTimestamp | None]
Faults = dict[TopicPartition, errors.PylogError]
Answers = list[tuple[TopicPartition, errors.PylogError | None, Any]]
Ask = Callable[[Server, Mapping[TopicPartition, int], float], Awaitable[Answers]]


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    timeout_ms: int,
    *,
    read_committed: bool = False,
    from_offsets: Mapping[TopicPartition, int] | None = None,
) -> tuple[Listing, Faults]:
    """Offset and timestamp at or after each wanted timestamp (or a special one of `model`);
    None where no record is that late. The second value holds what could not be had.
    InvalidRequest for a time that no 64 bits hold. `from_offsets`: the end of such a partition
    comes with the time of the first record at that offset or behind it.
    """
    starts = from_offsets or {}
    for tp, timestamp in wanted.items():
        if timestamp > LONG_MAX:
            raise errors.InvalidRequest(f"{tp}: {timestamp} ms is later than any time (2^63 ms)")

    async def ask(server: Server, part: Mapping[TopicPartition, int], left_s: float) -> Answers:
        request = log_pb2.ListOffsetsRequest(
            isolation_level="READ_COMMITTED" if read_committed else "READ_UNCOMMITTED"
        )
        for (topic, partition), timestamp in part.items():
            request.partitions.add(
                topic=topic,
                partition=partition,
                timestamp_ms=timestamp,
                current_leader_epoch=NO_EPOCH,
                from_offset=starts.get(TopicPartition(topic, partition)),
            )
        response = await server.call(apis.LIST_OFFSETS, request, left_s)
        return [
            (
                TopicPartition(p.topic, p.partition),
                error_of(p.error, f"{p.topic}-{p.partition}"),
                OffsetAndTimestamp(p.offset, p.timestamp_ms, p.leader_epoch)
                if p.offset >= 0
                else None,
            )
            for p in response.partitions
        ]

    return await ask_leaders(cluster, dict(wanted), timeout_ms, ask, "list offsets")


async def delete_records(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], timeout_ms: int
) -> tuple[dict[TopicPartition, int], Faults]:
    """The low watermark of each partition after the cut."""

    async def ask(server: Server, part: Mapping[TopicPartition, int], left_s: float) -> Answers:
        request = log_pb2.DeleteRecordsRequest(timeout_ms=int(left_s * 1000))
        for (topic, partition), offset in part.items():
            request.partitions.add(topic=topic, partition=partition, offset=offset)
        response = await server.call(apis.DELETE_RECORDS, request, left_s)
        return [
            (
                TopicPartition(p.topic, p.partition),
                error_of(p.error, f"{p.topic}-{p.partition}"),
                p.low_watermark,
            )
            for p in response.partitions
        ]

    return await ask_leaders(cluster, dict(wanted), timeout_ms, ask, "delete records")


async def ask_leaders(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], timeout_ms: int, ask: Ask, what: str
) -> tuple[dict[TopicPartition, Any], Faults]:
    """Ask each partition's leader at once, and again what failed in passing, until the time is up.

    An error that no retry cures, and at the end the last one that a retry might, is the
    partition's.
    """
    outcomes: Outcomes[TopicPartition, Any] = Outcomes(wanted, passes_at_leader)
    deadline = cluster.clock.monotonic_ms() + timeout_ms

    async def ask_leader(broker: int, part: dict[TopicPartition, int], left_s: float) -> None:
        try:
            server = cluster.broker(broker)
            if server is None:
                raise errors.LeaderNotAvailable(f"broker {broker} is not alive")
            answers = await ask(server, part, left_s)
        except errors.ClientClosed:
            raise
        except errors.PylogError as error:
            for tp in part:
                outcomes.told(tp, error, None)
            return
        for tp, fault, value in answers:
            outcomes.told(tp, None if fault is None else fault.about(tp), value)

    async def attempt(left_s: float) -> None:
        by_broker: dict[int, dict[TopicPartition, int]] = {}
        left = outcomes.left
        # All at once: they share one request for metadata, and its pause before the next one.
        leaders = await asyncio.gather(*(_leader(cluster, tp, deadline, outcomes) for tp in left))
        for tp, leader in zip(left, leaders, strict=True):
            if leader is not None:
                by_broker.setdefault(leader, {})[tp] = wanted[tp]
        await asyncio.gather(*(ask_leader(b, part, left_s) for b, part in by_broker.items()))

    with contextlib.ExitStack() as asking:
        for topic in {tp.topic for tp in wanted}:
            asking.enter_context(cluster.asking(topic))
        try:
            await outcomes.complete(cluster, attempt, timeout_ms, what)
        except errors.RequestTimedOut as error:
            for tp in outcomes.left:
                if tp.topic in cluster.denied:
                    outcomes.faults[tp] = cluster.denied[tp.topic].error
            outcomes.late(what, timeout_ms, error)
    return outcomes.results, outcomes.faults


async def _leader(
    cluster: Cluster, tp: TopicPartition, deadline: int, outcomes: Outcomes[TopicPartition, Any]
) -> int | None:
    """The leaders; a topic or partition that does not exist has failed."""
    try:
        topic = await cluster.topic(tp.topic, max(deadline - cluster.clock.monotonic_ms(), 1))
    except errors.BootstrapFailed:
        raise
    except errors.PylogError as error:
        outcomes.faults[tp] = error
        return None
    if not 0 <= tp.partition < len(topic.partitions):
        outcomes.faults[tp] = errors.UnknownTopicOrPartition(
            f"topic {tp.topic} has partitions 0 to {len(topic.partitions) - 1}; there is no "
            f"partition {tp.partition}"
        ).about(tp)
        return None
    leader = cluster.metadata.leader(*tp)
    if leader is None:
        outcomes.passing[tp] = errors.LeaderNotAvailable(f"{tp} has no live leader").about(tp)
        cluster.refresh_soon(tp.topic)
        return None
    return leader.broker


def raise_faults(results: Mapping[Any, Any], faults: Mapping[Any, errors.PylogError]) -> None:
    """Nothing when all went well; the error itself for a single item, else PartialFailure."""
    if not faults:
        return
    if len(faults) + len(results) == 1:
        raise next(iter(faults.values()))
    raise errors.PartialFailure(results, faults)
