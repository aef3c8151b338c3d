"""The production cores, and test-only copies of them with one known bug each.

A variant overrides one decision of a core while it is installed. Each must be caught by the
simulator: a checker that has never failed is not evidence. The rows cited (B-R..) are those of
the reference of known bugs, each once in a real system.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pylog.client.fetching.fetch_events import Listed
from pylog.client.fetching.fetch_state import InFlight
from pylog.client.fetching.fetch_state import Partition as FetchedPartition
from pylog.client.fetching.offset_look_ups import OffsetLookUps
from pylog.client.fetching.positions import Positions
from pylog.client.sending.accumulator import Accumulator
from pylog.client.sending.lanes import Lane, LaneState
from pylog.client.sending.producer_batch import Batch, BatchState
from pylog.client.sending.send_events import Ack
from pylog.client.sending.sender import Sender
from pylog.config import LONG_MAX
from pylog.errors import KafkaStorageError
from pylog.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from pylog.records.batch import BatchHeader, Buffer
from pylog_broker.controller import brokers, election, reassigning, topic_growth
from pylog_broker.controller.brokers import Brokers
from pylog_broker.controller.election import Elections
from pylog_broker.controller.metadata_batches import (
    MetadataBatchFound,
    WholeAppends,
    encode_append,
)
from pylog_broker.controller.metadata_log import MetadataLog
from pylog_broker.controller.returning import Loss, Returning, Whereabouts
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.image import BrokerRegistration
from pylog_broker.metadata.messages import Failure, PartitionIsr, ReplicaKey, ReplicasFailed
from pylog_broker.metadata.records import PartitionRecord
from pylog_broker.replicated.state_machine import AppendRecords, ReplicatedStateMachine
from pylog_broker.replication import fetches, isr, offsets, produces
from pylog_broker.replication.follower import FollowerState
from pylog_broker.replication.isr import (
    AdvanceHighWatermark,
    FollowerProgress,
    IsrEffect,
    LeaderState,
)
from pylog_broker.replication.leaderships import Leaderships
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.messages import (
    EpochEnd,
    HighWatermarkMoved,
    PartitionFetch,
    ReplicaFailed,
    ReplicaFetch,
)
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.replica_fetches import ReplicaFetches
from pylog_broker.replication.sessions import FIRST, FetchSession, FetchSessions
from pylog_broker.storage.checkpoints.checkpoint_writer import (
    LogStartsTask,
    OffsetCheckpoint,
    StagedCheckpoint,
)
from pylog_broker.storage.checkpoints.leader_epochs import EpochEndOffset, LeaderEpochCache
from pylog_broker.storage.cleaner.choice import Cleanable
from pylog_broker.storage.cleaner.clean_plan import CleanPlan
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.log import guard, log_reader, log_state
from pylog_broker.storage.log.durability import Durability
from pylog_broker.storage.log.guard import FaultGuard
from pylog_broker.storage.log.log import Log, LogRead
from pylog_broker.storage.log.validator import INTERNAL
from pylog_broker.storage.manager.log_checkpoints import LogCheckpoints
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.producers.producer_entry import AppendedBatch
from pylog_broker.storage.producers.producer_state import ProducerStates
from pylog_broker.storage.recovery import trust
from pylog_broker.storage.segments.flush_task import FlushTask
from pylog_broker.storage.segments.retention import RetentionClock
from tests.sim.broker_calls import BrokerCalls
from tests.sim.group_variants import GROUP_VARIANTS
from tests.sim.move_variants import MOVE_VARIANTS
from tests.sim.share_variants import SHARE_VARIANTS
from tests.sim.sink_variants import SINK_VARIANTS
from tests.sim.swarm import Swarm, Upkeep, late_lives
from tests.sim.throttle_variants import THROTTLE_VARIANTS
from tests.sim.transaction_variants import TRANSACTION_VARIANTS
from tests.sim.variant import Variant

# ---- B-R1: a follower cuts at its own high watermark ---------------------------------------------


def _cut_at_high_watermark(
    _self: FollowerState, high_watermark: Offset, log_end_offset: Offset
) -> Offset:
    return min(high_watermark, log_end_offset)


# ---- B-R9: the end of a diverging follower counts ------------------------------------------------


def _any_end_counts(_self: ReplicaFetches, fault: Failure | EpochEnd | None) -> bool:
    return fault is None or isinstance(fault, EpochEnd)


# ---- B-R15: only the committed ISR counts for the high watermark ---------------------------------


def _only_the_isr(self: LeaderState, _now_ms: int) -> Iterable[FollowerProgress]:
    return [progress for broker, progress in self.followers.items() if broker in self.isr]


# ---- B-R17: no broker epoch in fetches -----------------------------------------------------------


def _any_life(_self: ReplicaFetches, _request: object) -> None:
    return None


_production_begin = FetchSessions.begin


def _any_session(self: FetchSessions, request: ReplicaFetch) -> FetchSession | Failure:
    session = self.by_follower.get(request.replica_id)
    if session is not None and request.session_epoch > FIRST:
        return session
    return _production_begin(self, request)


def _eligible_whatever_the_life(
    self: LeaderState, follower: BrokerId, _progress: FollowerProgress
) -> bool:
    return follower in self.eligible


def _newest_epoch(self: LeaderState, broker: BrokerId) -> BrokerEpoch:
    return self.eligible.get(broker, BrokerEpoch(-1))


# ---- B-R19: an ISR change is taken without comparing partition epochs ----------------------------

_production_refusal = Elections._refusal


def _any_partition_epoch(
    self: Elections, leader: BrokerId, partition: PartitionRecord, wish: PartitionIsr
) -> Failure | None:
    current = replace(wish, partition_epoch=partition.partition_epoch)
    return _production_refusal(self, leader, partition, current)


# ---- I10: "ok" before the high watermark ---------------------------------------------------------


def _committed_at_once(_partition: object, _required: Offset) -> bool:
    return True


# ---- I11: a duplicate is appended ----------------------------------------------------------------

_production_check = ProducerStates.check


def _no_duplicates_known(
    self: ProducerStates, header: BatchHeader, *, log_start_offset: int
) -> AppendedBatch | None:
    _production_check(self, header, log_start_offset=log_start_offset)
    return None


# ---- a log whose first segment was lost begins at the second one ---------------------------------


def _begins_where_it_begins(*_found: object) -> bool:
    return False


# ---- what forgets, forgets too much --------------------------------------------------------------

_production_doomed = log_state.doomed_segments
_production_candidates = LogCleaner.candidates
_production_plan = LogCleaner._plan
_production_write_partition = topic_growth.write_partition
_production_read = Log.read
_production_position_fault = Partition.position_fault
_FOR_EVER = Offset(2**62)


def _doomed_beyond(segments: Any, config: Any, **known: Any) -> Any:
    return _production_doomed(segments, config, **{**known, "high_watermark": _FOR_EVER})


def _any_clock(self: RetentionClock, _retention_ms: int) -> int | None:
    return None if self._last is None else self._last.wall_ms


def _clean_beyond(
    self: LogCleaner, wall_ms: int, marks: Mapping[TopicPartition, Offset]
) -> list[Cleanable]:
    ends = {name: self._logs[name].log_end_offset for name in marks if name in self._logs}
    return _production_candidates(self, wall_ms, ends)


def _no_delete_retention(self: LogCleaner, *args: Any) -> CleanPlan:
    return replace(_production_plan(self, *args), delete_retention_ms=0)


def _taken_for_written(self: LogStartsTask) -> bool:
    self.is_written = True
    return False


def _not_at_all(_self: object, *_args: object) -> None:
    return None


def _read_on_disk(self: Log, offset: int, max_bytes: int, **how: Any) -> LogRead:
    if self.segments[0].base_offset <= offset < self.log_start_offset:
        return self._reader.read(offset, max_bytes, **how)
    return _production_read(self, offset, max_bytes, **how)


def _on_disk(self: Partition, offset: Offset, epoch: LeaderEpoch) -> Any:
    if self.log.segments[0].base_offset <= offset < self.log.log_start_offset:
        return None
    return _production_position_fault(self, offset, epoch)


def _any_isr_will_do(_self: Partition) -> bool:
    return False


def _deletions_among_deaths(swarm: Swarm) -> Swarm:
    """The leader that answers is alone, and is replaced by one that was away meanwhile."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        log_dirs=1,
        upkeep=Upkeep("delete", -1, -1, 0, 40, 0.0, 700.0, ()),
        faults=("delete_records", "delete_records", "kill", "kill"),
        fault_interval_ms=150.0,
        away_ms=2_000,
        replica_lag_ms=300,
        disk_wait_ms=1.0,
    )


def _new_logs_without_power(swarm: Swarm) -> Swarm:
    """Logs of several segments, none of which was ever synced."""
    upkeep = Upkeep("delete", -1, -1, 0, 40, 0.0, 700.0, ())
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        partitions=1,
        log_dirs=1,
        upkeep=upkeep,
        segment_bytes=1_024,
        faults=("recreate", "power", "power", "recreate"),
        fault_interval_ms=100.0,
        away_ms=200,
        write_back_ms=60_000.0,
        flush_ms=60_000,
        flush_messages=LONG_MAX,
        disk_wait_ms=100.0,
        produce_interval_ms=10.0,
        session_timeout_ms=1_000,
    )


def _many_topics(swarm: Swarm) -> Swarm:
    """Topics of one name come after each other, and records of them are deleted."""
    if swarm.upkeep is None:
        return swarm
    return replace(
        swarm,
        faults=("recreate", "recreate", "delete_records", "kill"),
        fault_interval_ms=250.0,
        away_ms=500,
    )


def _same_min_isr(self: LeaderState, now_ms: int, _min_isr: int) -> Any:
    return self._advance(now_ms)


def _one_too_low(ledger: Any, topic_id: Any, number: int, *what: Any) -> None:
    _production_write_partition(ledger, topic_id, number - 1, *what)


# ---- lives of brokers and of the whole cluster ---------------------------------------------------


def _never_outdated(_request: object, _known: object) -> None:
    return None


def _after_a_stop(self: Elections, may_lead: Callable[[PartitionRecord], Any]) -> None:
    for partition in list(self._ledger.decided.partitions()):
        self._ledger.write(
            replace(
                partition,
                isr=(),
                leader=NO_LEADER,
                leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
                partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
                eligible_leader_replicas=may_lead(partition),
                last_known_elr=(),
            )
        )


def _all_replicas_may_lead(self: Elections) -> None:
    _after_a_stop(self, lambda partition: partition.replicas)


def _nobody_may_lead(self: Elections) -> None:
    _after_a_stop(self, lambda partition: ())


def _with_lives(*faults: str) -> Callable[[Swarm], Swarm]:
    def leaning(swarm: Swarm) -> Swarm:
        return replace(
            swarm,
            brokers=3,
            replication_factor=3,
            min_insync=2,
            net=replace(swarm.net, tail_share=0.3, duplicate=0.5, drop=0.0),
            faults=faults,
            fault_interval_ms=400.0,
            away_ms=500,
        )

    return leaning


def _late_changes(swarm: Swarm) -> Swarm:
    """Followers go and come while they live, and what was asked for them comes once more, late."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        partitions=1,
        upkeep=None,
        net=replace(
            swarm.net, delay_mean_ms=3.0, tail_share=0.0, duplicate=0.9, drop=0.0, reset=0.0
        ),
        faults=("one_way",),
        fault_interval_ms=250.0,
        away_ms=1_200,
        session_timeout_ms=3_000,
        replica_lag_ms=300,
        produce_interval_ms=20.0,
        quiet_share=0.0,
        slow_node_ms=0.0,
    )


def _late_and_slow(swarm: Swarm) -> Swarm:
    """The last fetch before a quiet time comes when the next life has little of what it lost."""
    swarm = late_lives(swarm)
    net = replace(
        swarm.net, delay_mean_ms=80.0, tail_share=0.0, tail_ms=(400, 1_600), linger=1.0, drop=0.0
    )
    return replace(
        swarm,
        net=net,
        clients=replace(swarm.clients, batch_size=150, linger_ms=0, max_in_flight=5),
        fetch_max_bytes=150,
        segment_bytes=20_000,
        upkeep=None,
        log_dirs=1,
        flush_messages=LONG_MAX,
        slow_node_ms=0.0,
        faults=("power_in_fetch",),
        fault_interval_ms=150.0,
        quiet_share=0.3,
        task_ends=False,
    )


# ---- several log directories ---------------------------------------------------------------------

_production_directories_failed = Brokers._directories_failed
_production_where = Returning.where
_production_by_id = LogDirectories.by_id


def _replicas_stay(
    self: Brokers, registration: BrokerRegistration, request: ReplicasFailed
) -> list[ReplicaKey]:
    _production_directories_failed(self, registration, request)
    return []


def _not_by_one(_self: BrokerCalls, _effect: ReplicaFailed) -> None:
    return None


def _whole_in_its_place(self: Returning, replica: ReplicaKey, assigned: str) -> Whereabouts:
    found = _production_where(self, replica, assigned)
    if found.directory_id == assigned and found.loss is Loss.TAIL:
        return replace(found, loss=Loss.NONE)
    return found


def _whole_elsewhere(self: Returning, replica: ReplicaKey, assigned: str) -> Whereabouts:
    found = _production_where(self, replica, assigned)
    if found.directory_id != assigned and found.loss is Loss.TAIL:
        return replace(found, loss=Loss.NONE)
    return found


def _any_copy(
    self: LogDirectories, topic_id: TopicId, partition: int, _directory_id: str = ""
) -> Log | None:
    found = (manager.by_id(topic_id, partition) for manager in reversed(self.opened))
    return next((log for log in found if log is not None), None)


def _with_disks(*faults: str) -> Callable[[Swarm], Swarm]:
    def leaning(swarm: Swarm) -> Swarm:
        return replace(
            swarm,
            brokers=3,
            replication_factor=3,
            min_insync=2,
            log_dirs=2,
            faults=(*faults, *faults, "kill"),
            fault_interval_ms=400.0,
            away_ms=500,
        )

    return leaning


def _failing_disks(swarm: Swarm) -> Swarm:
    """An access fails now and then, and what was not synced is lost soon."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        faults=("sync_fails", "disk_fails", "power", "stop"),
        fault_interval_ms=300.0,
        away_ms=500,
        flush_ms=1,
        flush_messages=1,
    )


def _many_deletions(swarm: Swarm) -> Swarm:
    """Keys of a compacted topic, which is cleaned again and again, are deleted."""
    upkeep = Upkeep("compact", -1, -1, 6_000, 10, 0.3, 100.0, ())
    return replace(swarm, upkeep=upkeep, segment_bytes=1_024, produce_interval_ms=20.0)


def _syncs_what_it_can(self: FlushTask) -> None:
    self._history.begin(self)
    for path in self._paths:
        with suppress(OSError):
            self._sync(path)
    self._history.end(self)


def _forgiven(_self: FaultGuard, error: KafkaStorageError, **_how: object) -> KafkaStorageError:
    return error


# ---- clients ------------------------------------------------------------------------------------

_production_on_acks = Sender.on_acks


def _kept_in_memory(self: Accumulator, batch: Batch) -> None:
    batch.become(BatchState.RESOLVED)
    del self.incomplete[batch]


def _answers_turned_round(
    self: Sender, now_ms: int, broker: int, answers: Iterable[tuple[int, Sequence[Ack]]]
) -> Any:
    turned = [(correlation, acks[::-1]) for correlation, acks in answers]
    return _production_on_acks(self, now_ms, broker, turned)


def _counts_on(self: Lane, producer_id: int, producer_epoch: int) -> None:
    self.producer_id, self.producer_epoch = producer_id, producer_epoch
    self.become(LaneState.FIRST)
    for batch in self.unresolved:
        if batch.state is BatchState.REFUSED:
            batch.become(BatchState.WAITING)
        self.sequence(batch)


def _one_sequence(self: Lane, batch: Batch, parts: Sequence[Batch]) -> None:
    _production_lane_replace(self, batch, parts)
    for part in parts:
        part.base_sequence = batch.base_sequence


_production_lane_replace = Lane.replace


def _any_place(self: InFlight, partition: FetchedPartition) -> bool:
    return partition.topic_partition in self.wanted and partition.position is not None


def _where_the_last_one_went(self: Lane, broker: int) -> bool:
    return self.broker == broker


def _whatever_became_of_it(self: Lane, batch: Batch) -> bool:
    if self.unresolved[-1] is not batch or batch.producer_id != self.producer_id or self.gap:
        return False
    self.next_sequence = batch.base_sequence
    return True


def _parts_turned_round(self: Lane, batch: Batch, parts: Sequence[Batch]) -> None:
    _production_lane_replace(self, batch, parts[::-1])


_production_take = Accumulator.take


def _newest_first(self: Accumulator, topic_partition: TopicPartition, now_ms: int) -> Batch:
    self._queues[topic_partition].rotate(1)
    return _production_take(self, topic_partition, now_ms)


def _newest_seen(self: Accumulator, topic_partition: TopicPartition) -> Batch | None:
    queue = self._queues.get(topic_partition)
    return queue[-1] if queue and topic_partition in self._due else None


_production_drop_buffer = Positions._drop_buffer


def _buffer_kept(self: Positions, partition: FetchedPartition) -> None:
    buffer, size = tuple(partition.buffer), partition.buffered_bytes
    _production_drop_buffer(self, partition)
    partition.buffer.extend(buffer)
    partition.buffered_bytes = size


_production_on_listed = OffsetLookUps.on_listed


def _of_any_seek(self: OffsetLookUps, now_ms: int, answers: Sequence[Listed]) -> Any:
    known = self._positions.partitions
    answers = [
        replace(answer, generation=known[answer.topic_partition].generation)
        for answer in answers
        if answer.topic_partition in known and not answer.code
    ]
    return _production_on_listed(self, now_ms, answers)


def _same_place(
    _self: Positions, partition: FetchedPartition, topic_id: str, _effects: object
) -> None:
    partition.topic_id = topic_id


_production_behind = fetches._behind


def _one_batch_further(item: PartitionFetch, records: Buffer) -> PartitionFetch:
    following = _production_behind(item, records)
    return following._replace(fetch_offset=Offset(following.fetch_offset + 1))


def _all_that_a_follower_has(_self: fetches.Fetches, partition: Partition, request: Any) -> Offset:
    if partition.leading is None:
        return partition.log.bounds.end
    if request.read_committed:
        return partition.last_stable_offset
    return partition.high_watermark


def _in_racks(swarm: Swarm) -> Swarm:
    return replace(swarm, racks=2)


def _always_sure(_partition: Partition) -> None:
    return None


def _leaders_that_have_told(swarm: Swarm) -> Swarm:
    """Have leaders die that have reported their log's end."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        faults=("told_leader_dies",),
        fault_interval_ms=1_500.0,
        away_ms=500,
        produce_interval_ms=20.0,
        quiet_share=0.0,
    )


_production_first_at = log_reader.first_at_or_after


def _at_any_offset(*args: Any, start: int, end: int) -> Any:
    return _production_first_at(*args, start=start, end=_FOR_EVER)


_production_end_of_epoch = LeaderEpochCache.end_offset_for


def _ends_with_the_log(
    self: LeaderEpochCache, epoch: LeaderEpoch, log_end_offset: Offset
) -> EpochEndOffset:
    found = _production_end_of_epoch(self, epoch, log_end_offset)
    return found if found.end_offset < 0 else found._replace(end_offset=log_end_offset)


def _many_clients(swarm: Swarm) -> Swarm:
    """Several batches in flight, refused now and then, for several partitions."""
    clients = replace(
        swarm.clients,
        max_in_flight=5,
        batch_size=150,
        linger_ms=5,
        request_bytes_max=2_000,
        request_timeout_ms=1_000,
        delivery_timeout_ms=6_000,
    )
    return replace(
        swarm,
        partitions=2,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        producers=2,
        produce_interval_ms=20.0,
        records_max=10,
        faults=("kill", "reset", "one_way", "pause", "reset"),
        fault_interval_ms=400.0,
        away_ms=500,
        clients=clients,
    )


def _moving_leaders(swarm: Swarm) -> Swarm:
    """They lose their office while they live, and more waits to be sent than brokers take."""
    swarm = _many_clients(swarm)
    return replace(
        swarm,
        weak_producers=0,
        producers=1,
        produce_interval_ms=4.0,
        records_max=4,
        quiet_share=0.0,
        net=replace(swarm.net, delay_mean_ms=20.0, tail_share=0.0, drop=0.0, reset=0.0),
        faults=("kill",),
        fault_interval_ms=1_000.0,
        away_ms=300,
        rebalance_ms=300,
        clients=replace(swarm.clients, linger_ms=0, life_ms=1e9),
    )


def _impatient(swarm: Swarm) -> Swarm:
    """Batches that nobody answers in time, on logs that do not begin at 0. A long backoff keeps
    refused batches from being sent too often, or a run would take long.
    """
    swarm = _much_forgotten(swarm)
    clients = replace(
        swarm.clients,
        delivery_timeout_ms=1_500,
        request_bytes_max=100_000,
        retry_backoff_ms=500,
    )
    return replace(
        swarm,
        clients=clients,
        partitions=1,
        producers=1,
        weak_producers=0,
        produce_interval_ms=100.0,
        faults=("pause", "pause", "kill", "delete_records"),
    )


def _much_forgotten(swarm: Swarm) -> Swarm:
    """Logs that do not begin at 0, of topics that change."""
    upkeep = Upkeep("delete", 700, 3_000, 0, 40, 0.0, 700.0, ())
    faults = ("reconfigure", "delete_records", "kill", "reset", "delete_records")
    return replace(_many_clients(swarm), upkeep=upkeep, faults=faults, segment_bytes=1_024)


def _too_large(swarm: Swarm) -> Swarm:
    """Batches of many records, of which a broker takes only small ones now and then."""
    swarm = _many_clients(swarm)
    return replace(
        swarm,
        upkeep=Upkeep("delete", -1, -1, 0, 40, 0.0, 700.0, ()),
        clients=replace(swarm.clients, batch_size=1_000, linger_ms=40),
        faults=("reconfigure", "reconfigure", "reset"),
        fault_interval_ms=200.0,
    )


# ---- syncs, checkpoints, closes, errors of the moment -------------------------------------------


def _said_to_be_durable(self: Durability, end: int, **_how: object) -> None:
    self._synced = self.point = max(self.point, end)


def _with_power(swarm: Swarm) -> Swarm:
    """Have unsynced data lost again and again, while syncs take their time and logs are
    truncated."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        partitions=1,
        upkeep=None,
        log_dirs=1,
        faults=("power", "one_way", "power", "isolate", "stop"),
        fault_interval_ms=300.0,
        away_ms=900,
        replica_lag_ms=300,
        write_back_ms=60_000.0,
        flush_ms=1,
        flush_messages=LONG_MAX,
        disk_wait_ms=40.0,
        weak_producers=2,
        clients=replace(swarm.clients, weak_acks=1, life_ms=1e9),
        produce_interval_ms=20.0,
        session_timeout_ms=1_000,
    )


_production_settle = Durability.settle
_production_place = OffsetCheckpoint.place


def _in_any_order(
    self: OffsetCheckpoint, staged: StagedCheckpoint | None, *, directory_synced: bool
) -> None:
    self._staged = staged
    _production_place(self, staged, directory_synced=directory_synced)


def _of_any_generation(self: Durability, task: FlushTask, generation: int) -> None:
    synced, made_for = self._synced, task.generation
    task.generation = generation
    _production_settle(self, task, generation)
    if made_for != generation:
        self._synced = synced


def _cut_under_syncs(swarm: Swarm) -> Swarm:
    """Leaders that lose their followers write long tails, and are followers themselves later."""
    return replace(
        _with_power(swarm),
        segment_bytes=1_024,
        faults=("sync_outlives_cut",),
        fault_interval_ms=1_000.0,
        flush_ms=200,
        disk_wait_ms=3.0,
    )


def _newer_than_checkpoints(swarm: Swarm) -> Swarm:
    """Topics of one name after the other, and records that are deleted, while a checkpoint waits
    for the disk.
    """
    return replace(
        _much_forgotten(swarm),
        faults=("checkpoint_outlived",),
        fault_interval_ms=1_000.0,
        away_ms=300,
        disk_wait_ms=3.0,
    )


def _never_synced(swarm: Swarm) -> Swarm:
    """Segments of many pages; losses of power, each of a broker that was up for a while."""
    return replace(
        _with_power(swarm),
        segment_bytes=4_000,
        faults=("power",),
        fault_interval_ms=400.0,
        away_ms=200,
        disk_wait_ms=1.0,
    )


def _with_moments(swarm: Swarm) -> Swarm:
    return replace(swarm, faults=("short_of_files", "one_short_moment", "kill"))


# ---- what was refused, and comes again ----------------------------------------------------------

_production_on_refused = LeaderState.on_proposal_refused


def _refused_is_over(self: LeaderState, now_ms: int, code: int) -> Sequence[IsrEffect]:
    if code in isr._REFUSALS_THAT_SETTLE:
        self.unresolved = frozenset()
    return _production_on_refused(self, now_ms, code)


def _refused_and_repeated(swarm: Swarm) -> Swarm:
    """Followers that are about to join are fenced, and what their leader asked for comes twice."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        upkeep=None,
        partitions=1,
        faults=("refusal_outlived",),
        fault_interval_ms=1_000.0,
        replica_lag_ms=300,
        fetch_max_bytes=50_000,
        weak_producers=1,
        produce_interval_ms=40.0,
        quiet_share=0.0,
        records_max=3,
    )


# ---- the controller's commands ------------------------------------------------------------------


_production_min_isr = ControllerSettings.min_isr


def _one_more(self: ControllerSettings, own: Mapping[str, str], cluster: Mapping[str, str]) -> int:
    return _production_min_isr(self, own, cluster) + 1


def _prefers_whoever_lives(self: Elections, partition: PartitionRecord) -> bool:
    first = partition.replicas[0]
    if not self._ledger.decided.is_live(first):
        return False
    members = (first, *(broker for broker in partition.isr if broker != first))
    return self._change(partition, isr=members, preferred=True) is not None


def _sealed_at_once(self: Any, effects: list[Any]) -> list[Any]:
    held, self._held = self._held, deque()
    out = _production_seal(self, effects)
    out += [effect for _, effect in self._held]
    self._held = held
    return out


_production_seal = ReplicatedStateMachine.seal


def _behind_all_that_came_meanwhile(self: MetadataLog, task: Any) -> None:
    _production_on_snapshot(self, task)
    self._log.advance_log_start(self._log.log_end_offset)
    for segment in self._log.delete_old_segments():
        self._files.unlink(segment)


_production_on_snapshot = MetadataLog.on_snapshot


def _with_many_snapshots(swarm: Swarm) -> Swarm:
    leaning = _with_commands("controller_kill", "reconfigure_cluster", "recreate", "recreate")
    return replace(leaning(swarm), snapshot_records=20, fault_interval_ms=150.0)


def _with_commands(*faults: str) -> Callable[[Swarm], Swarm]:
    def leaning(swarm: Swarm) -> Swarm:
        return replace(
            swarm,
            brokers=3,
            replication_factor=3,
            min_insync=2,
            own_min_isr=False,
            faults=(*faults, *faults, "kill", "one_way", "isolate"),
            fault_interval_ms=400.0,
            away_ms=1_500,
            session_timeout_ms=1_000,
        )

    return leaning


def _forgotten_while_eligible(swarm: Swarm) -> Swarm:
    """One of several dead brokers is unregistered that might lead when it is back."""
    return replace(
        _with_commands("unregister_eligible")(swarm),
        faults=("unregister_eligible",),
        fault_interval_ms=1_000.0,
        task_ends=False,
    )


def _controllers_lose_power(swarm: Swarm) -> Swarm:
    """While there is much to decide."""
    return replace(
        _with_commands("controller_kill", "controller_kill")(swarm),
        faults=("kill_all", *("controller_kill",) * 9),
        fault_interval_ms=80.0,
        away_ms=100,
        replica_lag_ms=300,
    )


def _completed_by_one(
    partition: PartitionRecord, *, min_isr: int, live: Callable[[BrokerId], bool]
) -> PartitionRecord | None:
    target = partition.target_replicas
    if not set(target) & set(partition.isr) or not all(map(live, target)):
        return None
    ready = replace(partition, isr=target)
    return _production_completed(ready, min_isr=min_isr, live=live)


def _completed_in_the_same_epoch(partition: PartitionRecord, **given: Any) -> Any:
    ended = _production_completed(partition, **given)
    return ended and replace(ended, leader_epoch=partition.leader_epoch)


_production_completed = reassigning.completed


def _each_batch_is_whole(_self: WholeAppends, batch: MetadataBatchFound) -> Any:
    if not batch.records:
        return None
    return AppendRecords(Offset(batch.header.base_offset), tuple(batch.records))


def _begun_append_stays(
    self: MetadataLog, effect: Any, *, epoch: LeaderEpoch, wall_ms: int
) -> None:
    begun = effect.first_offset < self._log.log_end_offset
    for batch in () if begun else encode_append(effect.records, wall_ms):
        self._log.append_as_leader(batch, leader_epoch=epoch, wall_ms=wall_ms, origin=INTERNAL)


def _large_appends(swarm: Swarm) -> Swarm:
    """Decisions of many records, which a dying controller or a full disk interrupts."""
    leaning = _with_commands("controller_kill", "reconfigure_cluster", "controller_full")
    return replace(
        leaning(swarm), partitions=3, metadata_batch_records=1, fault_interval_ms=150.0, away_ms=300
    )


# ---- what coordinators are told -----------------------------------------------------------------

_production_role_changed = Leaderships.role_changed


def _only_where_it_is_led(self: Leaderships, partition: Partition) -> None:
    if partition.leading is not None:
        _production_role_changed(self, partition)


def _only_where_somebody_leads(self: Leaderships, partition: Partition) -> None:
    if partition.leading is not None or partition.following is not None:
        _production_role_changed(self, partition)


def _moves_told_last(
    self: ReplicaManager, partition: Partition, effects: tuple[IsrEffect, ...]
) -> None:
    for effect in effects:
        if isinstance(effect, AdvanceHighWatermark):
            name, epoch = partition.topic_partition, partition.leader_epoch
            partition.high_watermark = effect.offset
            self._room.high_watermark_moved(partition)
            told = HighWatermarkMoved(name, epoch, partition.topic_id, effect.offset)
            self._room.outbox.append(told)
        else:
            self._proposals.add(partition, effect)


VARIANTS: dict[str, Variant] = {
    "production": Variant(
        "the cores as they are", groups=None, transactions=None, moves=None, racks=None
    ),
    **GROUP_VARIANTS,
    **MOVE_VARIANTS,
    **SHARE_VARIANTS,
    **SINK_VARIANTS,
    **THROTTLE_VARIANTS,
    **TRANSACTION_VARIANTS,
    "cut_at_high_watermark": Variant(
        "B-R1: a new follower cuts its log at its own high watermark",
        ((FollowerState, "offset_to_cut_at_start", _cut_at_high_watermark),),
    ),
    "diverging_end_counts": Variant(
        "B-R9: the leader counts the end of a diverging follower",
        ((ReplicaFetches, "_accepts_follower_end", _any_end_counts),),
        caught_by=1,
    ),
    "current_isr_only": Variant(
        "B-R15: the high watermark waits for the committed ISR only, not for proposed members",
        ((LeaderState, "_counted_for_high_watermark", _only_the_isr),),
        caught_by=14,
    ),
    "no_broker_epoch": Variant(
        "B-R17: fetches of a broker's earlier life count for the present one",
        (
            (ReplicaFetches, "_replica_epoch_fault", _any_life),
            (FetchSessions, "begin", _any_session),
            (LeaderState, "_is_eligible", _eligible_whatever_the_life),
            (LeaderState, "_epoch_of", _newest_epoch),
        ),
        leaning=_late_and_slow,
        caught_by=19,
    ),
    "late_isr_change": Variant(
        "B-R19: the controller takes an ISR change whatever partition epoch it was made for",
        ((Elections, "_refusal", _any_partition_epoch),),
        leaning=_late_changes,
    ),
    "ok_too_early": Variant(
        "I10: acks=all is answered once the leader has the records",
        ((produces, "is_committed", _committed_at_once),),
    ),
    "duplicate_appended": Variant(
        "I11: a batch that is sent again is appended again",
        ((ProducerStates, "check", _no_duplicates_known),),
        caught_by=2,
    ),
    "beginning_lost": Variant(
        "I15: recovery lets a log begin later when a loss of power took its first segment",
        ((trust, "lost_its_beginning", _begins_where_it_begins),),
        leaning=_new_logs_without_power,
        caught_by=47,
    ),
    "retention_beyond_high_watermark": Variant(
        "B-S16: retention deletes segments that are not committed",
        ((log_state, "doomed_segments", _doomed_beyond),),
        caught_by=11,
    ),
    "clock_believed": Variant(
        "B-S18: a clock that jumped days ahead makes every record too old",
        ((RetentionClock, "time_for", _any_clock),),
        caught_by=26,
    ),
    "cleaned_beyond_high_watermark": Variant(
        "B-S25: compaction lets a record go for a newer one that is not committed",
        ((LogCleaner, "candidates", _clean_beyond),),
        caught_by=3,
    ),
    "tombstones_at_once": Variant(
        "B-S24: compaction removes deletions before readers can have seen them",
        ((LogCleaner, "_plan", _no_delete_retention),),
        leaning=_many_deletions,
        caught_by=3,
    ),
    "log_start_in_memory": Variant(
        "B-S17: a log start that moved is not written down, and deleted records come back",
        (
            (LogCheckpoints, "write_log_starts", _not_at_all),
            (LogStartsTask, "settle", _taken_for_written),
        ),
        caught_by=3,
    ),
    "deleted_is_served": Variant(
        "Records below the log start are given to readers",
        ((Log, "read", _read_on_disk), (Partition, "position_fault", _on_disk)),
        caught_by=11,
    ),
    "deleted_under_min_isr": Variant(
        "DeleteRecords is answered by a leader that may be replaced without its ISR",
        ((Partition, "is_under_min_isr", property(_any_isr_will_do)),),
        caught_by=0,
        leaning=_deletions_among_deaths,
    ),
    "old_marks_under_new_name": Variant(
        "B-R32: a re-created topic takes up the checkpoints of the old one",
        ((LogCheckpoints, "forget", _not_at_all), (LogCheckpoints, "deleted", _not_at_all)),
        leaning=_many_topics,
        caught_by=11,
    ),
    "min_isr_not_raised": Variant(
        "B-R14: a leader does not hear that min.insync.replicas has changed",
        ((LeaderState, "on_min_isr_changed", _same_min_isr),),
        caught_by=11,
    ),
    "grown_over_the_last": Variant(
        "Growing a topic begins with the partition that was the last",
        ((topic_growth, "write_partition", _one_too_low),),
        caught_by=11,
    ),
    "late_registration": Variant(
        "B-R26: a late copy of an earlier incarnation's registration replaces the present one",
        ((brokers, "_outdated", _never_outdated),),
        leaning=_with_lives("kill", "power", "controller_kill", "controller_kill"),
        caught_by=9,
    ),
    "nobody_leads_after_a_stop": Variant(
        "After a stop of the whole cluster not even members of an ISR may lead",
        ((Elections, "on_cluster_stopped", _nobody_may_lead),),
        leaning=_with_lives("cluster_stop"),
        caught_by=3,
    ),
    "anybody_leads_after_a_stop": Variant(
        "After a stop of the whole cluster whoever has a replica may lead",
        ((Elections, "on_cluster_stopped", _all_replicas_may_lead),),
        leaning=_with_lives("cluster_stop", "one_way", "isolate"),
        caught_by=34,
    ),
    "failed_directory_kept_in_isr": Variant(
        "The replicas of a log directory that has failed stay in their ISRs",
        (
            (Brokers, "_directories_failed", _replicas_stay),
            (BrokerCalls, "report_failed", _not_by_one),
        ),
        leaning=_with_disks("directory_fails"),
    ),
    "returned_directory_whole": Variant(
        "A log directory that comes back after a loss of power counts as whole",
        ((Returning, "where", _whole_in_its_place),),
        leaning=_with_disks("directory_missing", "power"),
    ),
    "moved_replica_whole": Variant(
        "An old copy of a replica in another log directory counts as whole",
        ((Returning, "where", _whole_elsewhere),),
        leaning=_with_disks("replica_copied", "replica_restored"),
    ),
    "replica_taken_twice": Variant(
        "A replica is taken from whichever log directory has a copy of it",
        ((LogDirectories, "by_id", _any_copy),),
        leaning=_with_disks("replica_copied"),
    ),
    "failed_disk_believed": Variant(
        "B-S13: a log goes on after an error of its disk, and its next sync is believed",
        ((FaultGuard, "fail", _forgiven), (FlushTask, "run", _syncs_what_it_can)),
        leaning=_failing_disks,
        caught_by=8,
    ),
    "refused_not_counted": Variant(
        "The members of a refused ISR change count no more while a copy of it is under way",
        ((LeaderState, "on_proposal_refused", _refused_is_over),),
        leaning=_refused_and_repeated,
        caught_by=2,
    ),
    "sync_of_cut_log": Variant(
        "A sync that began before a log was cut makes what was written since count as synced",
        ((Durability, "settle", _of_any_generation),),
        leaning=_cut_under_syncs,
    ),
    "fresh_id_counts_on": Variant(
        "A lane that goes on under a fresh producer id does not begin with sequence 0",
        ((Lane, "adopt", _counts_on),),
        leaning=_impatient,
    ),
    "split_under_one_sequence": Variant(
        "The parts of a batch that was too large all bear its sequence",
        ((Lane, "replace", _one_sequence),),
        leaning=_too_large,
        caught_by=1,
    ),
    "past_the_leader_before": Variant(
        "New batches go to a leader while the one before has not answered for older ones",
        ((Lane, "is_at", _where_the_last_one_went),),
        leaning=_moving_leaders,
    ),
    "sequence_given_back": Variant(
        "A batch whose time is up leaves its sequence to the next one, though it may be stored",
        ((Lane, "take_back", _whatever_became_of_it),),
        leaning=_impatient,
    ),
    "parts_turned_round": Variant(
        "The parts of a batch that was too large are sent the last one first",
        ((Lane, "replace", _parts_turned_round),),
        leaning=_too_large,
    ),
    "newest_first": Variant(
        "Of the batches that wait for a partition the newest one is sent first",
        ((Accumulator, "take", _newest_first), (Accumulator, "peek", _newest_seen)),
        leaning=_many_clients,
    ),
    "buffer_outlives_a_seek": Variant(
        "What was fetched stays in the buffer when the consumer goes elsewhere",
        ((Positions, "_drop_buffer", _buffer_kept),),
        caught_by=3,
    ),
    "look_up_outlives_a_seek": Variant(
        "A look-up's answer counts though the consumer has gone elsewhere meanwhile",
        ((OffsetLookUps, "on_listed", _of_any_seek),),
        leaning=_many_clients,
    ),
    "old_place_in_a_new_topic": Variant(
        "A consumer goes on at its offset in a topic that was made anew",
        ((Positions, "_on_new_topic", _same_place),),
        leaning=_many_topics,
        caught_by=3,
    ),
    "acks_turned_round": Variant(
        "The answers to a request for several partitions are taken in the wrong order",
        ((Sender, "on_acks", _answers_turned_round),),
        leaning=_many_clients,
    ),
    "memory_kept": Variant(
        "The memory of batches that are done is not free again",
        ((Accumulator, "resolve", _kept_in_memory),),
        leaning=_many_clients,
    ),
    "answer_to_an_old_question": Variant(
        "A consumer takes an answer about a place that it has left",
        ((InFlight, "asks_for", _any_place),),
        leaning=_many_clients,
    ),
    "standing_fetch_skips": Variant(
        "A standing fetch goes on one record too far",
        ((fetches, "_behind", _one_batch_further),),
    ),
    "followers_show_all": Variant(
        "KIP-392: a follower shows its readers what is not committed",
        ((fetches.Fetches, "upper_bound", _all_that_a_follower_has),),
        leaning=_in_racks,
        caught_by=1,
    ),
    "latest_too_early": Variant(
        "KIP-207: a new leader tells an end offset before it knows what is committed",
        ((offsets, "unsure_of_end", _always_sure),),
        leaning=_leaders_that_have_told,
    ),
    "offset_above_high_watermark": Variant(
        "An offset by time may be of a record that is not committed",
        ((log_reader, "first_at_or_after", _at_any_offset),),
        caught_by=4,
    ),
    "epoch_ends_with_the_log": Variant(
        "KIP-101: a leader tells the end of its log for the end of every epoch",
        ((LeaderEpochCache, "end_offset_for", _ends_with_the_log),),
    ),
    "older_checkpoint_placed": Variant(
        "A checkpoint that was staged before a newer one was written takes its place",
        ((OffsetCheckpoint, "place", _in_any_order),),
        leaning=_newer_than_checkpoints,
        caught_by=0,
    ),
    "sync_not_done": Variant(
        "Syncs of the pool are believed that never took place",
        ((FlushTask, "run", _not_at_all),),
        leaning=_never_synced,
        caught_by=2,
    ),
    "closed_without_a_sync": Variant(
        "A clean stop does not sync what it says to be synced",
        ((Durability, "flush", _said_to_be_durable),),
        leaning=_with_power,
    ),
    "moment_is_fatal": Variant(
        "B-S13: a process that is short of descriptors for a moment gives healthy logs up",
        ((guard, "OF_THE_MOMENT", frozenset()),),
        leaning=_with_moments,
        caught_by=3,
    ),
    "min_isr_of_two_minds": Variant(
        "Controller and leaders judge by two values of min.insync.replicas",
        ((ControllerSettings, "min_isr", _one_more),),
        leaning=_with_commands("reconfigure_cluster"),
    ),
    "unregistered_stays_in_isr": Variant(
        "A broker that was unregistered stays eligible to lead",
        ((Elections, "on_unregistered", _not_at_all),),
        leaning=_forgotten_while_eligible,
    ),
    "preferred_out_of_sync": Variant(
        "A preferred leader is elected whether it is in sync or not",
        ((Elections, "_prefer", _prefers_whoever_lives),),
        leaning=_with_commands("elect_preferred"),
    ),
    "snapshot_covers_what_came_meanwhile": Variant(
        "I14: what is appended while a snapshot is written goes from the log with what is in it",
        ((MetadataLog, "on_snapshot", _behind_all_that_came_meanwhile),),
        leaning=_with_many_snapshots,
        caught_by=5,
    ),
    "answered_before_the_sync": Variant(
        "I14: the controller answers what it has decided before that is durable",
        ((ReplicatedStateMachine, "seal", _sealed_at_once),),
        leaning=_controllers_lose_power,
        caught_by=2,
    ),
    "append_given_out_in_parts": Variant(
        "I14: what was written of an append that was never finished counts after a start",
        ((WholeAppends, "add", _each_batch_is_whole),),
        leaning=_large_appends,
    ),
    "append_broken_off_by_a_full_disk": Variant(
        "I14: an append that had begun when the disk was full is not made anew",
        ((MetadataLog, "append", _begun_append_stays),),
        leaning=_large_appends,
    ),
    "leadership_kept": Variant(
        "A coordinator is not told that its partition is led elsewhere",
        ((Leaderships, "role_changed", _only_where_it_is_led),),
    ),
    "leadership_of_a_deleted_topic": Variant(
        "A coordinator is not told that its topic was deleted, or that its log has failed",
        ((Leaderships, "role_changed", _only_where_somebody_leads),),
        leaning=_many_topics,
    ),
    "move_told_after_the_end": Variant(
        "A coordinator is told of a commit after it was told that the log has failed",
        ((ReplicaManager, "_lead", _moves_told_last),),
        caught_by=911546,
    ),
    "moved_before_in_sync": Variant(
        "A move is complete when one of its new replicas is in sync",
        ((election, "completed", _completed_by_one),),
        caught_by=6,
        moves=True,
    ),
    "moved_without_a_new_epoch": Variant(
        "A move takes the leader away and leaves the leader epoch as it is",
        ((election, "completed", _completed_in_the_same_epoch),),
        caught_by=2,
        moves=True,
    ),
    "mark_above_a_cut": Variant(
        "After a crash a high watermark counts that was above a cut, for what came in its place",
        ((LogCheckpoints, "ends_at", _not_at_all),),
        caught_by=912748,
    ),
}
