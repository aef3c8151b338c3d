"""A broker's metrics for Prometheus, and its answers to health checks.

A scrape looks at every replica, in slices: between two of them the loop does what it is there for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.model import Offset, TopicPartition
from pylog_broker.coordinator.groups.group import GroupType
from pylog_broker.coordinator.transactions.states import TransactionState
from pylog_broker.metrics import names
from pylog_broker.metrics.common import add_common, add_connections, add_disks, version
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.metrics.exposition import Page
from pylog_broker.metrics.http import Health
from pylog_broker.metrics.names import Metric
from pylog_broker.metrics.process import LoopLag
from pylog_broker.node.group_lags import add_group_lags
from pylog_broker.storage.log.environment import CLOCK_JUMPS, RECOMPRESSED, SEGMENTS_DELETED
from pylog_broker.storage.read_leases import End as LeaseEnd

if TYPE_CHECKING:
    from pylog_broker.api.api import DataApi
    from pylog_broker.api.local_reads import LocalReadHandler
    from pylog_broker.api.producer_id_quota import ProducerIdQuota
    from pylog_broker.framed.server import StreamServer
    from pylog_broker.metadata.records import Listener
    from pylog_broker.net.acceptor import Gate
    from pylog_broker.node.coordinators import CoordinatorShell
    from pylog_broker.node.engine import Engine
    from pylog_broker.node.group_coordinators import GroupShards
    from pylog_broker.node.membership import Membership
    from pylog_broker.node.share.share_groups import BrokerShareGroups
    from pylog_broker.node.transaction_coordinators import TransactionShards
    from pylog_broker.replication.partition import Partition
    from pylog_broker.storage.manager.log_directories import LogDirectories

SLICE: Final = 64
"""Replicas between two turns of the loop: about half a millisecond."""
DETAIL_MAX: Final = 10_000
"""Replicas that are shown one by one: a page of ten megabytes helps nobody."""

SINKS_SHOWN_MAX: Final = 100
"""The most sinks with prepared attempts that are shown by name."""
DISK_ERROR_KINDS: Final = ("no_room", "of_the_moment", "failed")

_DETAILS: Final = (
    names.LOG_START, names.LOG_END, names.HIGH_WATERMARK, names.LOG_SIZE, names.LOG_SEGMENTS,
    names.LEADER_EPOCH, names.ISR_SIZE, names.REPLICAS, names.REPLICA_LAG,
)  # fmt: skip


@dataclass(slots=True)
class BrokerParts:
    """The parts of a broker that are looked at; they appear while it starts."""

    broker_id: int
    cluster_id: str
    counters: RequestCounters
    gate: Gate | None = None
    engine: Engine | None = None
    groups: GroupShards | None = None
    transactions: TransactionShards | None = None
    clock: Clock = SYSTEM_CLOCK
    shares: BrokerShareGroups | None = None
    data: DataApi | None = None
    streams: StreamServer | None = None
    producer_id_quota: ProducerIdQuota | None = None
    local_reads: LocalReadHandler | None = None
    logs: LogDirectories | None = None
    membership: Membership | None = None
    listeners: tuple[Listener, ...] = ()
    rack: str | None = None
    registered_ms: int = 0
    """The time of day at which the broker registered under its present epoch."""
    stopping: str = ""
    fault: str = ""


@dataclass(slots=True)
class _Totals:
    leaders: int = 0
    under_replicated: int = 0
    reassigning: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    offline: int = 0
    max_lag: int = 0
    producer_ids: int = 0
    producer_ids_max: int = 0
    sizes: dict[str, int] = field(default_factory=dict)  # by log directory
    lines: dict[Metric, list[str]] = field(
        default_factory=lambda: {metric: [] for metric in _DETAILS}
    )


class BrokerMetrics:
    """The `Source` of a broker. Lives on its loop."""

    def __init__(self, parts: BrokerParts) -> None:
        self.parts = parts
        self.loop_lag = LoopLag()
        self._version = version()

    async def live(self) -> Health:
        """It is, as long as it answers and nothing has failed for good."""
        fault = self.parts.fault
        return Health(not fault, fault or "alive")

    async def ready(self) -> Health:
        """Whether clients can use it: registered, not fenced, not about to end."""
        parts = self.parts
        membership = parts.membership
        if parts.stopping:
            return Health(False, f"stopping: {parts.stopping}")
        if membership is None:
            return Health(False, "starting: recovering the logs")
        if membership.broker_epoch < 0:
            return Health(False, "starting: not registered with the controller")
        if membership.fenced:
            return Health(False, "fenced by the controller")
        return Health(True, f"broker {parts.broker_id} serves, epoch {membership.broker_epoch}")

    async def targets(self) -> str | None:
        """The driver knows."""
        return None

    async def page(self) -> str:
        """All metrics of this broker."""
        page, parts = Page(), self.parts
        info = (self._version, parts.cluster_id, "broker", str(parts.broker_id))
        add_common(page, parts.counters, self.loop_lag.seconds, info)
        self._add_bytes(page)
        if parts.gate is not None:
            add_connections(page, parts.gate.quotas)
        await asyncio.sleep(0)
        if parts.membership is not None:
            membership = parts.membership
            page.add(names.FENCED, int(membership.fenced))
            page.add(names.BROKER_EPOCH, membership.broker_epoch)
            page.add(names.METADATA_OFFSET, membership.image.offset)
            page.add(names.CONTROLLER_EPOCH, membership.image.controller_epoch)
        if parts.engine is not None:
            await self._add_replicas(page, parts.engine)
        owners = (parts.groups, parts.transactions, parts.shares)
        shells = [each.shell for each in owners if each is not None]
        if shells:
            _add_coordinators(page, shells)
        if parts.shares is not None:
            _add_shares(page, parts.shares)
        if parts.groups is not None:
            await _add_groups(page, parts.groups)
            if parts.engine is not None:
                shards = parts.groups.shell.runtime.coordinators().values()
                replicas = parts.engine.manager.partitions()
                await add_group_lags(page, shards, replicas, SYSTEM_CLOCK.wall_ms())
        if parts.transactions is not None:
            await _add_transactions(page, parts.transactions, parts.clock.wall_ms())
            await _add_sinks(page, parts.transactions, parts.clock.wall_ms())
        return page.text()

    def _add_bytes(self, page: Page) -> None:
        parts = self.parts
        counters = parts.counters
        local = (
            ()
            if parts.local_reads is None
            else ((names.LOCAL_READ_BYTES, parts.local_reads.counts.bytes_read),)
        )
        for metric, counted in (
            (names.BYTES_IN, counters.bytes_in),
            (names.BYTES_OUT, counters.bytes_out),
            *local,
        ):
            if parts.membership is not None:
                counted.keep_only(parts.membership.image.topics_by_name)
            page.add_all(metric, {(topic,): size for topic, size in counted.by_topic.items()})
        page.add(names.REPLICATION_OUT, counters.replication_bytes_out)
        if parts.local_reads is not None and parts.engine is not None:
            counts, reads = parts.local_reads.counts, parts.engine.manager.local_reads
            page.add(names.LOCAL_READS, len(reads.reads))
            page.add(names.LOCAL_READ_DESCRIPTORS, reads.descriptors)
            page.add(names.LOCAL_READS_OPENED, counts.opened)
            page.add_all(
                names.LOCAL_READ_FALLBACKS,
                {
                    (cause,): count
                    for cause, count in {
                        **counts.fallbacks,
                        "foreign_user": parts.local_reads.foreigners,
                    }.items()
                },
            )
        if parts.data is not None:
            data = parts.data
            page.add_all(
                names.QUEUE_BYTES,
                {
                    ("Produce",): data.produce.memory.used,
                    ("Fetch",): data.fetch.answers.unsent,
                },
            )

    async def _add_replicas(self, page: Page, engine: Engine) -> None:
        manager = engine.manager
        page.add(names.REPLICATION_IN, engine.replication_bytes_in)
        page.add_all(
            names.PURGATORY,
            {(request,): count for request, count in manager.waiting_by_type.items()},
        )
        page.add(names.ISR_SHRINKS, manager.isr_changes.shrinks)
        page.add(names.ISR_EXPANDS, manager.isr_changes.expands)
        partitions = manager.partitions()
        totals = _Totals()
        for first in range(0, len(partitions), SLICE):
            detail = first < DETAIL_MAX
            _look_at(partitions[first : first + SLICE], totals, detail=detail)
            await asyncio.sleep(0)
        page.add(names.PARTITIONS, len(partitions))
        page.add(names.LEADERS, totals.leaders)
        page.add(names.UNDER_REPLICATED, totals.under_replicated)
        page.add(names.REASSIGNING, totals.reassigning)
        page.add(names.UNDER_MIN_ISR, totals.under_min_isr)
        page.add(names.AT_MIN_ISR, totals.at_min_isr)
        page.add(names.OFFLINE_REPLICAS, totals.offline)
        page.add(names.MAX_LAG, totals.max_lag)
        page.add(names.FETCH_SESSIONS, manager.fetch_sessions)
        page.add(names.COLD_READS, engine.cold_reads)
        here = Counter(partition.topic_partition.topic for partition in partitions)
        even = {topic: 1.0 for topic, count in here.items() if count > 1}
        skews: dict[tuple[object, ...], float] = {}
        for topic in even | engine.skew.by_topic:
            skew = engine.skew.by_topic.get(topic)
            named = skew.partition.partition if skew is not None and skew.is_large else ""
            skews[topic, named] = 1.0 if skew is None else skew.times
        page.add_all(names.TOPIC_SKEW, skews)
        page.add_histograms(names.FLUSH_SECONDS, {(): engine.flush_seconds})
        if self.parts.logs is not None:
            await self._add_disks(page, self.parts.logs)
            page.add(names.OFFLINE_LOG_DIRECTORIES, len(self.parts.logs.offline))
            sizes: dict[tuple[object, ...], int] = {
                (manager.directory,): totals.sizes.get(manager.directory, 0)
                for manager in self.parts.logs.live
            }
            page.add_all(names.LOG_DIRECTORY_SIZE, sizes)
            self._add_cleaners(page, self.parts.logs, manager.high_watermarks())
            self._add_refused_ids(page, self.parts.logs)
        page.add(names.PRODUCER_IDS, totals.producer_ids)
        page.add(names.PRODUCER_IDS_PARTITION_MAX, totals.producer_ids_max)
        page.add(names.NO_DETAIL, max(0, len(partitions) - DETAIL_MAX))
        for metric, lines in totals.lines.items():
            page.add_lines(metric, lines)
            await asyncio.sleep(0)

    async def _add_disks(self, page: Page, logs: LogDirectories) -> None:
        await add_disks(page, [manager.directory for manager in logs.live])
        counted: Counter[str] = Counter(dict.fromkeys(DISK_ERROR_KINDS, 0))
        for manager in logs.opened:
            counted.update(manager.disk_errors)
        page.add_all(names.DISK_ERRORS, {(kind,): count for kind, count in counted.items()})
        happened = [manager.counted for manager in logs.opened]
        page.add(names.SEGMENTS_DELETED, sum(each[SEGMENTS_DELETED] for each in happened))
        page.add(names.READ_LEASES, len(logs.leases))
        page.add(names.READ_LEASE_BYTES, logs.leases.kept_bytes)
        page.add_all(
            names.READ_LEASES_ENDED, {(end.value,): logs.leases.ended[end] for end in LeaseEnd}
        )
        page.add(names.RECOMPRESSED, sum(each[RECOMPRESSED] for each in happened))
        page.add(names.CLOCK_JUMPS, max((each[CLOCK_JUMPS] for each in happened), default=0))
        budgets = {id(manager.tail_budget): manager.tail_budget for manager in logs.opened}
        page.add(names.TAIL_CACHE, sum(budget.bytes_used for budget in budgets.values()))

    def _add_refused_ids(self, page: Page, logs: LogDirectories) -> None:
        quota = self.parts.producer_id_quota
        refused = logs.producer_budget.refused | (quota.refused if quota is not None else {})
        page.add_all(
            names.PRODUCER_IDS_REFUSED, {(limit,): count for limit, count in refused.items()}
        )

    def _add_cleaners(
        self, page: Page, logs: LogDirectories, high_watermarks: dict[TopicPartition, Offset]
    ) -> None:
        wall_ms = SYSTEM_CLOCK.wall_ms()
        cleaners = [manager.cleaner for manager in logs.live]
        dirty = (
            log.dirty_ratio
            for cleaner in cleaners
            for log in cleaner.candidates(wall_ms, high_watermarks)
        )
        page.add(names.CLEANER_DIRTY, max(dirty, default=0))
        page.add(names.CLEANER_UNCLEANABLE, sum(len(each.uncleanable) for each in cleaners))
        page.add(names.CLEANER_PASSES, sum(each.passes for each in cleaners))


def _add_coordinators(page: Page, shells: Iterable[CoordinatorShell[Any]]) -> None:
    shown = {shell.runtime.topic: shell for shell in shells}
    page.add_all(
        names.COORDINATOR_SHARDS,
        {
            (topic, state): count
            for topic, shell in shown.items()
            for state, count in (
                ("active", len(shell.runtime.coordinators())),
                ("loading", len(shell.runtime.loading)),
            )
        },
    )
    page.add_histograms(
        names.COORDINATOR_LOAD_SECONDS,
        {(topic,): shell.load_seconds for topic, shell in shown.items()},
    )
    page.add_all(
        names.COORDINATOR_FAILURES,
        {(topic,): shell.failures for topic, shell in shown.items()},
    )


async def _add_transactions(page: Page, transactions: TransactionShards, wall_ms: int) -> None:
    counted: Counter[tuple[str]] = Counter()
    oldest_ms = wall_ms
    for shard in transactions.shell.runtime.coordinators().values():
        for each in shard.transactions.values():
            counted[(each.state.shown,)] += 1
            if each.state is TransactionState.ONGOING:
                oldest_ms = min(oldest_ms, each.started_ms)
        await asyncio.sleep(0)
    page.add_all(names.TRANSACTIONS, {key: counted[key] for key in sorted(counted)})
    page.add(names.TRANSACTION_AGE, (wall_ms - oldest_ms) / 1000)
    senders = transactions.senders
    page.add(names.TRANSACTION_MARKERS, 0 if senders is None else len(senders))
    page.add(names.TRANSACTIONS_TIMED_OUT, transactions.counts.timed_out)


async def _add_sinks(page: Page, transactions: TransactionShards, wall_ms: int) -> None:
    total, attempts, prepared = 0, 0, 0
    waiting: list[tuple[int, tuple[str, str]]] = []
    for shard in transactions.shell.runtime.coordinators().values():
        for each in shard.sinks.described():
            total += 1
            attempts += each.open_attempts
            prepared += each.prepared_attempts
            if each.prepared_attempts:
                waiting.append((each.prepared_since_ms, each.sink))
        await asyncio.sleep(0)
    page.add(names.SINKS, total)
    page.add_all(names.SINK_ATTEMPTS, {("prepared",): prepared, ("writing",): attempts - prepared})
    oldest = sorted(waiting)[:SINKS_SHOWN_MAX]
    page.add_all(
        names.SINK_PREPARED_SECONDS,
        {tuple(sink): max(wall_ms - since_ms, 0) / 1000 for since_ms, sink in oldest},
    )
    counts = transactions.counts.sinks
    page.add(names.SINK_BATCHES, counts.batches)
    page.add(names.SINK_PRODUCER_IDS, counts.producer_ids)
    page.add(names.SINK_EXPIRED, counts.expired)


def _add_shares(page: Page, shares: BrokerShareGroups) -> None:
    page.add(names.SHARE_SESSIONS, len(shares.sessions))
    page.add(names.SHARE_PARTITIONS, len(shares.led))
    page.add(names.SHARE_RECORDS_ACQUIRED, shares.led.acquired)
    page.add(names.SHARE_LOCKS_EXPIRED, shares.led.expired_locks)
    page.add(names.DEAD_LETTERS_WAITING, shares.dead_letters.waiting)
    page.add(names.DEAD_LETTERS_WRITTEN, shares.dead_letters.written)
    page.add(names.DEAD_LETTERS_GIVEN_UP, shares.dead_letters.given_up)


async def _add_groups(page: Page, groups: GroupShards) -> None:
    shards = groups.shell.runtime.coordinators()
    offsets = 0
    counted: Counter[tuple[str, str]] = Counter()
    for shard in shards.values():
        offsets += len(shard.offsets)
        counted.update((group.type.value, group.state_name) for group in shard.groups.values())
        await asyncio.sleep(0)
    page.add_all(names.GROUPS, {key: counted[key] for key in sorted(counted)})
    page.add_all(names.GROUP_MEMBERS_LOST, {(each.value,): groups.lost[each] for each in GroupType})
    page.add(names.GROUP_OFFSETS, offsets)


def _look_at(partitions: Sequence[Partition], totals: _Totals, *, detail: bool) -> None:
    start, end, watermark, size, segments, epoch, isr_size, replicas, lag = (
        totals.lines[metric].append for metric in _DETAILS
    )
    for partition in partitions:
        totals.offline += bool(partition.offline)
        topic, number = partition.topic_partition
        at = f'{{topic="{topic}",partition="{number}"}}'
        if partition.has_log:
            log, log_size = partition.log, partition.log.size
            producer_ids = len(log.producers)
            totals.producer_ids += producer_ids
            totals.producer_ids_max = max(totals.producer_ids_max, producer_ids)
            directory = log.directory.rpartition("/")[0]
            totals.sizes[directory] = totals.sizes.get(directory, 0) + log_size
        if detail and partition.has_log:
            start(f"pylog_log_start_offset{at} {log.log_start_offset}")
            end(f"pylog_log_end_offset{at} {log.log_end_offset}")
            watermark(f"pylog_high_watermark{at} {partition.high_watermark}")
            size(f"pylog_log_size_bytes{at} {log_size}")
            segments(f"pylog_log_segments{at} {len(log.segments)}")
        if partition.leading is None:
            continue
        _count_led(partition, totals, lag if detail else _nothing)
        if detail:
            epoch(f"pylog_partition_leader_epoch{at} {partition.leader_epoch}")
            isr_size(f"pylog_partition_isr_size{at} {len(partition.isr)}")
            replicas(f"pylog_partition_replicas{at} {len(partition.replicas)}")


def _count_led(partition: Partition, totals: _Totals, lag: Callable[[str], None]) -> None:
    leading = partition.leading
    assert leading is not None
    totals.leaders += 1
    counted = len(partition.replicas) - len(leading.adding)
    totals.under_replicated += len(partition.isr) < counted
    totals.reassigning += partition.is_reassigning
    totals.under_min_isr += leading.is_under_min_isr
    totals.at_min_isr += len(leading.isr) == leading.effective_min_isr
    topic, number = partition.topic_partition
    start, end = partition.log.log_start_offset, leading.log_end_offset
    for broker, progress in leading.followers.items():
        missing = end - max(progress.end_offset, start)  # an unknown end is -1
        totals.max_lag = max(totals.max_lag, missing)
        at = f'{{topic="{topic}",partition="{number}",replica="{broker}"}}'
        lag(f"pylog_replica_lag_records{at} {missing}")


def _nothing(_line: str) -> None:
    pass
