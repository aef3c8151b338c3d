"""Operators' calls about groups: each is asked of its coordinator, lists of every live broker. On
the loop.

A coordinator that loads, moves or cannot be reached is looked for again, and only the groups that
have no answer yet are asked again, until the time is up.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pylog import errors
from pylog.client.admin import group_wire, share_group_admin
from pylog.client.admin.admin_types import (
    GroupDescription,
    GroupListing,
    GroupMember,
    PartitionLag,
)
from pylog.client.admin.admin_wire import broker_description
from pylog.client.admin.coordinators import (
    ask_coordinators,
    live_brokers,
    passes_at_coordinator,
)
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.metadata import BrokerInfo
from pylog.client.cluster.offsets import Faults, list_offsets
from pylog.client.cluster.outcomes import Answers, Outcomes
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import error_of
from pylog.model import (
    LATEST_TIMESTAMP,
    NO_TIMESTAMP,
    BrokerDescription,
    OffsetAndMetadata,
    TopicPartition,
)
from pylog.rpc import apis
from pylog.rpc.v1 import common_pb2, group_pb2, streams_group_pb2

V = TypeVar("V")
Committed = dict[TopicPartition, OffsetAndMetadata | None]
Lags = dict[TopicPartition, PartitionLag]
ItemFaults = dict[TopicPartition, errors.PylogError | None]

TIMES_MAX: Final = 10_000
ROUNDS_MAX: Final = 100
ROUNDS_AT_ONCE: Final = 8
"""The limits of one look at the lag of groups: the offsets whose times are asked for, those of them
in one partition, and the rounds, each with one offset of a partition, that are asked at once.
Partitions beyond that have their lag in records only."""
LEAVES: Final = -1
"""The epoch with which a member of the consumer protocol goes."""
NO_MEMBER: Final = -1
"""The generation, or epoch, of an operator."""


# ---- groups of all brokers -----------------------------------------------------------------------


async def list_groups(
    cluster: Cluster, request: group_pb2.ListGroupsRequest, timeout_ms: int
) -> tuple[dict[int, list[GroupListing]], dict[int, errors.PylogError]]:
    """The groups of each live broker, or why it could not be asked."""

    async def ask(server: Server, broker: BrokerInfo, left_s: float) -> list[GroupListing]:
        response = await server.call(apis.LIST_GROUPS, request, left_s)
        fault = error_of(response.error, f"broker {broker.id}")
        if fault is not None:
            raise fault
        return list(map(group_wire.listing_of, response.groups))

    return await ask_every_broker(cluster, ask, timeout_ms, "list groups")


async def ask_every_broker(
    cluster: Cluster,
    ask: Callable[[Server, BrokerInfo, float], Awaitable[V]],
    timeout_ms: int,
    what: str,
) -> tuple[dict[int, V], dict[int, errors.PylogError]]:
    """Each live broker's answer about its own, or why it could not be asked. All brokers are asked
    again when one fails in passing: what it coordinated may have moved to any of them.
    """
    last: _Round[V] = _Round({}, {})

    async def attempt(left_s: float) -> None:
        nonlocal last
        live = live_brokers(cluster)
        silent = {b.id: errors.RequestTimedOut(f"broker {b.id} does not answer") for b in live}
        this: _Round[V] = _Round({}, {**silent})
        try:
            await asyncio.gather(*(_ask_for_list(cluster, b, ask, left_s, this) for b in live))
        finally:
            # One that had hardly any time, because the deadline was near, says less than before.
            if len(this.results) >= len(last.results):
                last = this
        for fault in this.faults.values():
            if passes_at_coordinator(fault):
                cluster.refresh_soon()
                raise fault

    try:
        await cluster.retrying(attempt, timeout_ms, what)
    except errors.RequestTimedOut:
        if not last.results:
            raise
    return last.results, last.faults


class _Round(NamedTuple, Generic[V]):
    """The result of one look at all brokers, by broker."""

    results: dict[int, V]
    faults: dict[int, errors.PylogError]


async def _ask_for_list(
    cluster: Cluster,
    broker: BrokerInfo,
    ask: Callable[[Server, BrokerInfo, float], Awaitable[V]],
    left_s: float,
    into: _Round[V],
) -> None:
    try:
        into.results[broker.id] = await ask(cluster.server_of(broker), broker, left_s)
    except errors.ClientClosed:
        raise
    except errors.PylogError as error:
        into.faults[broker.id] = error
        return
    del into.faults[broker.id]


# ---- groups by their coordinators ----------------------------------------------------------------


async def describe_groups(
    cluster: Cluster, groups: Sequence[str], timeout_ms: int
) -> Outcomes[str, GroupDescription]:
    """Groups of all types: what the coordinator does not know as of the one is asked for as of the
    next.
    """

    async def ask(
        server: Server, broker: BrokerInfo, part: list[str], left_s: float
    ) -> Answers[str, GroupDescription]:
        coordinator = broker_description(broker)
        request = group_pb2.ConsumerGroupDescribeRequest(group_ids=part)
        response = await server.call(apis.CONSUMER_GROUP_DESCRIBE, request, left_s)
        answers: list[tuple[str, errors.PylogError | None, Any]] = []
        others = []
        for told in response.groups:
            if told.error.code == errors.GroupIdNotFound.code:
                others.append(told.group_id)
                continue
            fault = group_wire.fault_of_group(told.error, told.group_id)
            found = group_wire.consumer_group_of(told, coordinator) if fault is None else None
            answers.append((told.group_id, fault, found))
        if others:
            shares = await share_group_admin.describe(server, coordinator, others, left_s)
            others = [each[0] for each in shares if isinstance(each[1], errors.GroupIdNotFound)]
            answers += (each for each in shares if each[0] not in others)
        if others:
            classic = await server.call(
                apis.DESCRIBE_GROUPS, group_pb2.DescribeGroupsRequest(group_ids=others), left_s
            )
            unknown: dict[str, errors.PylogError] = {}
            for group in classic.groups:
                fault = _fault_of_classic(group)
                if isinstance(fault, errors.GroupIdNotFound):
                    unknown[group.group_id] = fault
                    continue
                told_of = group_wire.classic_group_of(group, coordinator)
                answers.append((group.group_id, fault, told_of))
            if unknown:
                answers += await _describe_streams(server, coordinator, unknown, left_s)
        return answers

    return await ask_coordinators(cluster, groups, ask, timeout_ms, "describe groups")


async def _describe_streams(
    server: Server,
    coordinator: BrokerDescription,
    unknown: Mapping[str, errors.PylogError],
    left_s: float,
) -> Answers[str, GroupDescription]:
    """Groups that are of no other type; of what is no group at all, the fault told first."""
    request = streams_group_pb2.StreamsGroupDescribeRequest(group_ids=[*unknown])
    answers: list[tuple[str, errors.PylogError | None, Any]] = []
    try:
        response = await server.call(apis.STREAMS_GROUP_DESCRIBE, request, left_s)
    except errors.UnsupportedVersion:  # the broker is of a release without such groups
        return [(group_id, fault, None) for group_id, fault in unknown.items()]  # type: ignore[misc]
    for told in response.groups:
        fault = group_wire.fault_of_group(told.error, told.group_id)
        if isinstance(fault, errors.GroupIdNotFound):
            fault = unknown[told.group_id]
        found = group_wire.streams_group_of(told, coordinator) if fault is None else None
        answers.append((told.group_id, fault, found))
    return answers


def _fault_of_classic(group: group_pb2.DescribedGroup) -> errors.PylogError | None:
    fault = group_wire.fault_of_group(group.error, group.group_id)
    if fault is None and group.state == "Dead":  # as Kafka told of what is not there
        return errors.GroupIdNotFound(f"there is no group {group.group_id!r}")
    return fault


async def delete_groups(
    cluster: Cluster, groups: Sequence[str], timeout_ms: int
) -> Outcomes[str, None]:
    """Groups with all their offsets."""

    async def ask(
        server: Server, _broker: BrokerInfo, part: list[str], left_s: float
    ) -> Answers[str, None]:
        request = group_pb2.DeleteGroupsRequest(group_ids=part)
        response = await server.call(apis.DELETE_GROUPS, request, left_s)
        return [
            (told.group_id, group_wire.fault_of_group(told.error, told.group_id), None)
            for told in response.groups
        ]

    return await ask_coordinators(cluster, groups, ask, timeout_ms, "delete groups")


# ---- offsets of groups ---------------------------------------------------------------------------


async def group_offsets(
    cluster: Cluster,
    groups: Sequence[str],
    partitions: Sequence[TopicPartition] | None,
    timeout_ms: int,
    *,
    require_stable: bool = False,
) -> Outcomes[str, tuple[Committed, Faults]]:
    """The positions of each group: of these partitions, or of all that have one. `require_stable`:
    wait for the end of transactions that commit some.
    """

    async def ask_one(
        server: Server, group: str, left_s: float
    ) -> tuple[str, errors.PylogError | None, tuple[Committed, Faults]]:
        request = group_pb2.OffsetFetchRequest(
            group_id=group,
            member_epoch=NO_MEMBER,
            all=partitions is None,
            partitions=group_wire.partition_names(partitions or ()),
            require_stable=require_stable,
        )
        response = await server.call(apis.OFFSET_FETCH, request, left_s)
        committed: Committed = {}
        faults: Faults = {}
        whole = group_wire.fault_of_group(response.error, group)
        for told in response.offsets:
            tp = TopicPartition(told.topic, told.partition)
            fault = error_of(told.error, str(tp))
            if fault is None:
                committed[tp] = group_wire.position_of(told)
            elif passes_at_coordinator(fault):
                whole = whole or fault
            else:
                faults[tp] = fault
        return group, whole, (committed, faults)

    async def ask(
        server: Server, _broker: BrokerInfo, part: list[str], left_s: float
    ) -> Answers[str, tuple[Committed, Faults]]:
        return await asyncio.gather(*(ask_one(server, group, left_s) for group in part))

    return await ask_coordinators(cluster, groups, ask, timeout_ms, "list offsets of groups")


async def alter_group_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    timeout_ms: int,
) -> ItemFaults:
    """The outcome for each partition. Raises the fault of the group as such."""
    request = group_wire.commit_request(group, offsets)

    async def send(server: Server, left_s: float) -> tuple[common_pb2.Error, Iterable[Any]]:
        request.timeout_ms = int(left_s * 1000)
        response = await server.call(apis.OFFSET_COMMIT, request, left_s)
        return response.error, response.offsets

    def fault_of(
        error: common_pb2.Error, tp: TopicPartition | None = None
    ) -> errors.PylogError | None:
        return group_wire.fault_of_commit(error, group, tp)

    return await _change_offsets(
        cluster, group, send, fault_of, timeout_ms, "alter offsets of a group"
    )


async def delete_group_offsets(
    cluster: Cluster, group: str, partitions: Sequence[TopicPartition], timeout_ms: int
) -> ItemFaults:
    """The outcome for each partition. Raises the fault of the group as such."""
    request = group_pb2.OffsetDeleteRequest(
        group_id=group, partitions=group_wire.partition_names(partitions)
    )

    async def send(server: Server, left_s: float) -> tuple[common_pb2.Error, Iterable[Any]]:
        response = await server.call(apis.OFFSET_DELETE, request, left_s)
        return response.error, response.offsets

    def fault_of(
        error: common_pb2.Error, tp: TopicPartition | None = None
    ) -> errors.PylogError | None:
        if tp is None:
            return group_wire.fault_of_group(error, group)
        return group_wire.fault_of_deletion(error, group, tp)

    return await _change_offsets(
        cluster, group, send, fault_of, timeout_ms, "delete offsets of a group"
    )


async def _change_offsets(
    cluster: Cluster,
    group: str,
    send: Callable[[Server, float], Awaitable[tuple[common_pb2.Error, Iterable[Any]]]],
    fault_of: Callable[..., errors.PylogError | None],
    timeout_ms: int,
    what: str,
) -> ItemFaults:
    """The whole change is sent again when a part of it failed in passing: it says where the group
    is to stand, so that a second time does no harm.
    """

    async def ask(
        server: Server, _broker: BrokerInfo, _part: list[str], left_s: float
    ) -> Answers[str, ItemFaults]:
        error, offsets = await send(server, left_s)
        faults: ItemFaults = {}
        whole = fault_of(error)
        for told in offsets:
            tp = TopicPartition(told.topic, told.partition)
            faults[tp] = fault = fault_of(told.error, tp)
            if fault is not None and passes_at_coordinator(fault):
                whole = whole or fault
        return [(group, whole, faults)]

    outcomes = await ask_coordinators(cluster, [group], ask, timeout_ms, what)
    for fault in outcomes.faults.values():
        raise fault
    return outcomes.results[group]


async def group_lag(
    cluster: Cluster, groups: Sequence[str], timeout_ms: int
) -> tuple[dict[str, Lags], dict[str, errors.PylogError]]:
    """The lag of each group, in the partitions that it has a position in or that a member is to
    read. Ends are asked of the partitions' leaders, all together, after the positions: a record
    that comes in between counts. Then the times of the oldest records are asked for, where a group
    is behind, `TIMES_MAX` at most.
    """
    deadline = cluster.clock.monotonic_ms() + timeout_ms
    described, listed = await asyncio.gather(
        describe_groups(cluster, groups, timeout_ms),
        group_offsets(cluster, groups, None, timeout_ms),
    )
    shares = [name for name, group in described.results.items() if group.type == "share"]
    places_of_shares = await share_group_admin.offsets(cluster, shares, None, timeout_ms)
    faults: dict[str, errors.PylogError] = {
        **{name: fault for name, fault in listed.faults.items() if name not in shares},
        **described.faults,
        **places_of_shares.faults,
    }
    wanted: dict[str, Committed] = {}
    unknown: dict[str, Faults] = {}
    share_lags: dict[tuple[str, TopicPartition], int | None] = {}
    for group in groups:
        if group in faults:
            continue
        if group in shares:
            found, unknown[group] = places_of_shares.results[group]
            wanted[group] = dict.fromkeys(unknown[group])
            for tp, at in found.items():
                start = None if at is None else OffsetAndMetadata(at.start_offset)
                wanted[group][tp] = start
                share_lags[group, tp] = None if at is None else at.lag
            continue
        committed, unknown[group] = listed.results[group]
        assigned = {
            tp: committed.get(tp)
            for member in described.results[group].members
            for tp in (*(member.assignment or ()), *(member.target or ()))
        }
        wanted[group] = {**assigned, **dict.fromkeys(unknown[group]), **committed}
    places = {tp: LATEST_TIMESTAMP for positions in wanted.values() for tp in positions}
    left_ms = max(deadline - cluster.clock.monotonic_ms(), 1)
    ends, missing = await list_offsets(cluster, places, left_ms) if places else ({}, {})
    results = {}
    for group, positions in wanted.items():
        results[group] = {
            tp: PartitionLag(
                positions[tp],
                None if (end := ends.get(tp)) is None else end.offset,
                unknown[group].get(tp) or missing.get(tp),
                share_lag=share_lags.get((group, tp)),
            )
            for tp in sorted(positions)
        }
    left_ms = max(deadline - cluster.clock.monotonic_ms(), 1)
    await _add_seconds(cluster, results, left_ms)
    return results, faults


async def _add_seconds(cluster: Cluster, lags: Mapping[str, Lags], timeout_ms: int) -> None:
    """Fills in `lag_seconds`. Groups at the same offset share one look-up; groups at different
    offsets of a partition need several, which no request may hold together.
    """
    behind: dict[tuple[TopicPartition, int], int] = {}  # to the round in which it is asked for
    rounds: Counter[TopicPartition] = Counter()
    for each in lags.values():
        for tp, lag in each.items():
            if not lag.lag or lag.committed is None or len(behind) >= TIMES_MAX:
                continue
            place = tp, lag.committed.offset
            if place not in behind and rounds[tp] < ROUNDS_MAX:
                behind[place] = rounds[tp]
                rounds[tp] += 1
    times: dict[tuple[TopicPartition, int], int] = {}

    async def ask(number: int) -> None:
        starts = {tp: offset for (tp, offset), turn in behind.items() if turn == number}
        places = dict.fromkeys(starts, LATEST_TIMESTAMP)
        found, _ = await list_offsets(cluster, places, timeout_ms, from_offsets=starts)
        times.update(((tp, starts[tp]), end.timestamp_ms) for tp, end in found.items() if end)

    count = max(rounds.values(), default=0)
    for first in range(0, count, ROUNDS_AT_ONCE):
        await asyncio.gather(*map(ask, range(first, min(first + ROUNDS_AT_ONCE, count))))
    now_ms = cluster.clock.wall_ms()
    for each in lags.values():
        for tp, lag in each.items():
            seconds = _seconds(lag, times, tp, now_ms)
            each[tp] = dataclasses.replace(lag, lag_seconds=seconds)


def _seconds(
    lag: PartitionLag,
    times: Mapping[tuple[TopicPartition, int], int],
    tp: TopicPartition,
    now_ms: int,
) -> float | None:
    if lag.committed is None or lag.lag is None:
        return None
    if not lag.lag:
        return 0.0
    time_ms = times.get((tp, lag.committed.offset), NO_TIMESTAMP)
    return None if time_ms < 0 else max(now_ms - time_ms, 0) / 1000


# ---- members -------------------------------------------------------------------------------------


async def remove_members(
    cluster: Cluster,
    group: str,
    members: Iterable[str] | None,
    reason: str,
    timeout_ms: int,
) -> tuple[dict[str, None], dict[str, errors.PylogError]]:
    """The members that are gone, and why others are not, by their ids."""
    described = await describe_groups(cluster, [group], timeout_ms)
    for fault in described.faults.values():
        raise fault
    found = described.results[group]
    leaving, faults = _chosen(found, members)

    async def ask(
        server: Server, _broker: BrokerInfo, _part: list[str], left_s: float
    ) -> Answers[str, dict[str, errors.PylogError | None]]:
        told = await _remove_classic(server, group, leaving, reason, left_s)
        told.update(await _remove_consumers(server, group, leaving, left_s))
        passing = (f for f in told.values() if f is not None and passes_at_coordinator(f))
        return [(group, next(passing, None), told)]

    if leaving:
        what = "remove members of a group"
        outcomes = await ask_coordinators(cluster, [group], ask, timeout_ms, what)
        for fault in outcomes.faults.values():
            raise fault
        faults.update((m, f) for m, f in outcomes.results[group].items() if f is not None)
    return {m.member_id: None for m in leaving if m.member_id not in faults}, faults


def _chosen(
    group: GroupDescription, members: Iterable[str] | None
) -> tuple[list[GroupMember], dict[str, errors.PylogError]]:
    """The members that go by these ids, or by these instance ids."""
    if members is None:
        return list(group.members), {}
    by_name = {m.instance_id: m for m in group.members if m.instance_id is not None}
    by_name.update((m.member_id, m) for m in group.members)
    chosen = {name: by_name.get(name) for name in members}
    unknown: dict[str, errors.PylogError] = {
        name: errors.UnknownMemberId(f"group {group.group_id!r} has no member {name!r}")
        for name, member in chosen.items()
        if member is None
    }
    return list({m.member_id: m for m in chosen.values() if m is not None}.values()), unknown


async def _remove_classic(
    server: Server, group: str, leaving: Iterable[GroupMember], reason: str, left_s: float
) -> dict[str, errors.PylogError | None]:
    members = [member for member in leaving if member.type == "classic"]
    if not members:
        return {}
    request = group_pb2.LeaveGroupRequest(group_id=group)
    for member in members:
        # A static member by its instance alone: it may just have come back under another id.
        static = member.instance_id is not None
        request.members.add(
            member_id="" if static else member.member_id,
            instance_id=member.instance_id,
            reason=reason,
        )
    response = await server.call(apis.LEAVE_GROUP, request, left_s)
    whole = group_wire.fault_of_group(response.error, group)
    if whole is not None:
        return {member.member_id: whole for member in members}
    return {
        member.member_id: _fault_of_leaving(told.error, member)
        for member, told in zip(members, response.members, strict=True)
    }


async def _remove_consumers(
    server: Server, group: str, leaving: Iterable[GroupMember], left_s: float
) -> dict[str, errors.PylogError | None]:
    """The consumer protocol has no request of operators for it: this one says what the member would
    say when it goes.
    """

    async def remove(member: GroupMember) -> tuple[str, errors.PylogError | None]:
        if member.type == "share":
            error = await share_group_admin.remove_member(server, group, member, left_s)
            return member.member_id, _fault_of_leaving(error, member)
        request = group_pb2.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member.member_id,
            member_epoch=LEAVES,
            instance_id=member.instance_id,
        )
        response = await server.call(apis.CONSUMER_GROUP_HEARTBEAT, request, left_s)
        return member.member_id, _fault_of_leaving(response.error, member)

    consumers = (member for member in leaving if member.type != "classic")
    return dict(await asyncio.gather(*map(remove, consumers)))


def _fault_of_leaving(error: common_pb2.Error, member: GroupMember) -> errors.PylogError | None:
    """A member that was there a moment ago and is not known any more is gone, as was asked for."""
    if error.code == errors.UnknownMemberId.code:
        return None
    return error_of(error, f"member {member.member_id!r}")
