"""The lag of the groups that a broker coordinates, for its metrics.

A coordinator knows the offsets of its groups; the ends of logs it knows where it has a replica,
which is everywhere in a cluster of three with three replicas. Elsewhere `pylog_high_watermark` of
the partition's replicas and `pylog_group_committed_offset` tell it together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from pylog.errors import PylogError
from pylog.model import TopicPartition
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.metrics import names
from pylog_broker.metrics.exposition import Page
from pylog_broker.replication.partition import Partition
from pylog_broker.storage.segments.segment_reader import PagesCold

GROUPS_MAX: Final = 1_000
"""Groups that are shown one by one."""
OFFSETS_MAX: Final = 10_000
"""Their offsets that are."""
TIMES_MAX: Final = 200
"""Records whose age is looked up for one page: each reads a batch."""
COLD_READS_MAX: Final = 4
"""For one of them; beyond it, as where memory is so short, its age is not told."""


async def add_group_lags(
    page: Page, shards: Iterable[GroupCoordinator], replicas: Iterable[Partition], wall_ms: int
) -> None:
    """Committed offsets, and lag in records and in seconds, of each group."""
    here = {each.topic_partition: each for each in replicas if not each.offline}
    offsets: dict[tuple[object, ...], int] = {}
    records: dict[tuple[object, ...], int] = {}
    seconds: dict[tuple[object, ...], float] = {}
    positions = {
        group_id: {tp: at.offset for tp, at in shard.offsets.of(group_id).items()}
        for shard in shards
        for group_id in shard.offsets.group_ids
    }
    looked = 0
    for group_id in sorted(positions)[:GROUPS_MAX]:
        committed = positions[group_id]
        if len(offsets) + len(committed) <= OFFSETS_MAX:
            offsets.update(((group_id, *tp), offset) for tp, offset in sorted(committed.items()))
        behind = _behind(committed, here)
        if behind is None:
            continue
        records[group_id,] = sum(here[tp].high_watermark - committed[tp] for tp in behind)
        ages = [0.0]
        for tp in behind[: TIMES_MAX - looked]:
            looked += 1
            time_ms = await _time_from(here[tp], committed[tp])
            ages += [max(wall_ms - time_ms, 0) / 1000] if time_ms >= 0 else []
        if len(ages) > 1 or not behind:
            seconds[group_id,] = max(ages)
        await asyncio.sleep(0)
    page.add_all(names.GROUP_COMMITTED, offsets)
    page.add_all(names.GROUP_LAG, records)
    page.add_all(names.GROUP_LAG_SECONDS, seconds)
    page.add(names.GROUP_NO_DETAIL, max(0, len(positions) - GROUPS_MAX))


def _behind(
    committed: Mapping[TopicPartition, int], here: Mapping[TopicPartition, Partition]
) -> list[TopicPartition] | None:
    """The partitions with records left, of those that are here; None when none of them is here."""
    known = [tp for tp in sorted(committed) if tp in here]
    if not known:
        return None
    return [tp for tp in known if here[tp].high_watermark > committed[tp]]


async def _time_from(partition: Partition, offset: int) -> int:
    """The time of the first record from an offset on; -1 where it is not known."""
    for _ in range(COLD_READS_MAX):
        upper = partition.high_watermark
        try:
            found = partition.log.first_from(offset, upper_bound=upper, nowait=True)
        except PagesCold as cold:
            await asyncio.to_thread(cold.warm)
        except PylogError:
            return -1
        else:
            return -1 if found is None else found.timestamp_ms
    return -1
