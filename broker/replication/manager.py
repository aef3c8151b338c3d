"""All partitions of one broker: produce, fetch, replication, and what waits for them.

Pure: times are arguments, everything to do outside comes back as effects (`messages.py`), and logs
are reached through the LogDirectories that the shell or the simulator made. The caller owns it: one
loop, no locks. Every method returns the effects of its step, in the order of happening.

The parts share `HostedPartitions` and `WaitingRoom`:

    produces         clients' batches -> logs, acks        isr        what a leader knows
    fetches          consumers' long polls                 follower   what a follower decides
    replica_fetches  followers' long polls                 fetcher    one connection to a leader
    followers        our own fetches from leaders          proposals  ISR changes to the controller
    deletions        DeleteRecords                         partition  one replica
    sessions         what followers asked last             replicas   who leads, who follows
    leaderships      what coordinators are told            syncs      what waits for the own disk
    internal_logs    what coordinators read and write
    local_reads      files for readers on the same machine
    transactions     what opens and ends transactions
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pylog.errors import KafkaStorageError
from pylog.model import BrokerEpoch, BrokerId, Offset, TopicPartition, is_internal
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.metadata.image import MetadataDelta, MetadataImage
from pylog_broker.metadata.messages import Failure, PartitionsAltered
from pylog_broker.metrics.counters import IsrChanges
from pylog_broker.replication.deletions import Deletions
from pylog_broker.replication.effects import (
    ColdRead,
    Effect,
    HighWatermarkMoved,
    SyncLog,
    WriteLogStarts,
)
from pylog_broker.replication.fetch_messages import Fetch
from pylog_broker.replication.fetches import Fetches
from pylog_broker.replication.follower import FollowerState
from pylog_broker.replication.followers import Followers
from pylog_broker.replication.hosted import HostedPartitions, Missing
from pylog_broker.replication.internal_logs import InternalLogs
from pylog_broker.replication.internal_messages import AppendInternal, ReadInternal
from pylog_broker.replication.isr import AdvanceHighWatermark, IsrEffect, LeaderState
from pylog_broker.replication.leased_reads import LeasedReads
from pylog_broker.replication.local_reads import LocalReads
from pylog_broker.replication.log_starts import LogStarts
from pylog_broker.replication.offset_messages import DeleteRecords, OffsetQuery
from pylog_broker.replication.offsets import offset_look_ups
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.partition_state import PartitionState
from pylog_broker.replication.produce_messages import Produce
from pylog_broker.replication.produces import Produces
from pylog_broker.replication.proposals import IsrProposals
from pylog_broker.replication.range_messages import (
    LeaseReads,
    LocalReadQuery,
    RangeQuery,
    RangeTransactionsQuery,
    ReadsLeased,
    RecordWait,
)
from pylog_broker.replication.range_splits import range_look_ups
from pylog_broker.replication.range_transactions import transaction_look_ups
from pylog_broker.replication.rebuilds import Rebuilds
from pylog_broker.replication.record_waits import RecordWaits
from pylog_broker.replication.replica_fetch_messages import (
    EpochEndQuery,
    EpochEnds,
    ReplicaEpochEnd,
    ReplicaEpochQuery,
    ReplicaFetch,
    ReplicaFetched,
)
from pylog_broker.replication.replica_fetches import ReplicaFetches
from pylog_broker.replication.replicas import Replicas
from pylog_broker.replication.settings import ReplicationSettings
from pylog_broker.replication.syncs import Syncs
from pylog_broker.replication.transactions import Transactions
from pylog_broker.replication.waiting import WaitingRoom
from pylog_broker.storage.errors import DamagedBatch
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.log_directories import LogDirectories

NOT_REGISTERED = BrokerEpoch(-1)


class ReplicaManager:
    """The replicas of one broker.

    It takes up no role before the metadata has reached the registration of this incarnation:
    earlier records may still name its predecessor a leader.
    """

    # The parts that decide; the simulator puts faulty twins in their places.
    leader_state: type[LeaderState] = LeaderState
    follower_state: type[FollowerState] = FollowerState
    produce_path: type[Produces] = Produces
    replica_fetch_path: type[ReplicaFetches] = ReplicaFetches

    def __init__(
        self,
        broker_id: BrokerId,
        logs: LogDirectories,
        config: BrokerConfig,
        *,
        settings: ReplicationSettings | None = None,
        is_watched: Callable[[str], bool] = is_internal,
        initial_high_watermarks: dict[TopicPartition, Offset] | None = None,
    ) -> None:
        """`settings` None: derived from `config`;

        high watermarks None: `logs.load_high_watermarks()`. `is_watched`: whether a listener is
        told of who leads the partitions of a topic, by its name.
        """
        self._me = broker_id
        self._settings = settings or ReplicationSettings.from_config(config)
        if initial_high_watermarks is None:
            initial_high_watermarks = logs.load_high_watermarks()
        self._broker_epoch = NOT_REGISTERED
        self._started = False
        self._next_lag_check_ms: int | None = None
        self._hosted = HostedPartitions(broker_id)
        self._room = WaitingRoom(0, self._settings)
        hosted, room = self._hosted, self._room
        self._proposals = IsrProposals(hosted, room, self._lead)
        self._syncs = Syncs(room, self._lead, self._storage_failed)
        self._produces = self.produce_path(
            hosted, room, self._lead, self._storage_failed, self._syncs
        )
        self.transactions = Transactions(hosted)
        """The rules of transactions' begins and ends; it appends nothing itself."""
        self._fetches = Fetches(hosted, room, self._storage_failed, self._damaged)
        self._offsets = offset_look_ups(hosted, room, self._storage_failed)
        self._ranges = range_look_ups(hosted, room, self._storage_failed)
        self._range_transactions = transaction_look_ups(hosted, room, self._storage_failed)
        self._record_waits = RecordWaits(hosted, room)
        self._leased_reads = LeasedReads(hosted, logs)
        self.local_reads = LocalReads(hosted, room, self._storage_failed)
        """The reads of processes on this machine, to look at."""
        self._internal_logs = InternalLogs(
            hosted, room, self._produces, self._storage_failed, self._damaged
        )
        self._replica_fetches = self.replica_fetch_path(
            hosted, room, self._lead, self._storage_failed, self._damaged
        )
        self._starts = LogStarts(hosted, room, logs, self._storage_failed)
        self.trusted_ms = logs.trusted_ms
        """See `LogDirectories`."""
        self._rebuilds = Rebuilds(room, self._storage_failed)
        self._followers = Followers(
            hosted, room, self._storage_failed, self._syncs, self._starts, self._rebuilds
        )
        self._deletions = Deletions(hosted, room, self._storage_failed, self._starts)
        self._replicas = Replicas(
            broker_id,
            logs,
            config,
            hosted,
            room,
            self._followers,
            self._syncs,
            self._lead,
            is_watched=is_watched,
            known_high_watermarks=initial_high_watermarks,
            leader_state=self.leader_state,
            follower_state=self.follower_state,
        )

    # ---- clients --------------------------------------------------------------------------------

    def produce(self, now_ms: int, wall_ms: int, request: Produce, token: object) -> list[Effect]:
        """Append each batch to its partition; ProduceDone now, or when it is committed.

        Tokens are hashable, and differ between requests that wait at the same time.
        """
        return self.produce_all(now_ms, wall_ms, ((request, token),))

    def produce_all(
        self, now_ms: int, wall_ms: int, requests: Iterable[tuple[Produce, object]]
    ) -> list[Effect]:
        """As `produce` for each (request, token) in order; followers hear of all at once."""
        if now_ms > self._room.now_ms:
            self._room.now_ms = now_ms
        self._produces.produce(wall_ms, requests)
        return self._finish()

    def fetch(self, now_ms: int, request: Fetch, token: object) -> list[Effect]:
        """FetchDone now, or when there is enough to read, or after the wait."""
        if now_ms > self._room.now_ms:
            self._room.now_ms = now_ms
        self._fetches.fetch(request, token)
        return self._finish()

    def cancel(self, token: object) -> None:
        """Nobody waits for this answer any more; it will not come. Appended batches stay."""
        self._room.cancel(token)
        self._fetches.cancel(token)
        self._offsets.cancel(token)
        self._ranges.cancel(token)
        self._range_transactions.cancel(token)
        self.local_reads.look_ups.cancel(token)
        self._replica_fetches.cancel(token)

    def topic_config(self, topic_partition: TopicPartition) -> TopicConfig | None:
        """The settings of a partition that is here, as they are now; None for others."""
        partition = self._hosted.by_name.get(topic_partition)
        return None if partition is None else partition.config

    def list_offsets(
        self, now_ms: int, queries: Sequence[OffsetQuery], token: object
    ) -> list[Effect]:
        """Offsets of partitions, by time or by name: OffsetsListed now, or when the pages that a
        look-up by time needs were read.
        """
        self._room.begin(now_ms)
        self._offsets.ask(queries, token)
        return self._finish()

    def split_ranges(
        self, now_ms: int, queries: Sequence[RangeQuery], token: object
    ) -> list[Effect]:
        """The bytes of ranges and their pieces: RangesSplit now, or when the pages that a look-up
        needs were read.
        """
        self._room.begin(now_ms)
        self._ranges.ask(queries, token)
        return self._finish()

    def describe_transactions(
        self, now_ms: int, queries: Sequence[RangeTransactionsQuery], token: object
    ) -> list[Effect]:
        """The transactions of ranges: RangeTransactionsDescribed now, or when the pages that a
        look-up needs were read.
        """
        self._room.begin(now_ms)
        self._range_transactions.ask(queries, token)
        return self._finish()

    def open_local_read(self, now_ms: int, query: LocalReadQuery, token: object) -> list[Effect]:
        """LocalReadsOpened with one answer, now, or when the pages that a look-up needs were
        read.
        """
        self._room.begin(now_ms)
        self.local_reads.look_ups.ask((query,), token)
        return self._finish()

    def check_local_reads(self, now_ms: int) -> list[Effect]:
        """LocalReadEnded for each that is over: to be called often while there are any. Changes of
        leaders are told without it.
        """
        self._room.begin(now_ms)
        self.local_reads.check()
        return self._finish()

    def close_local_read(self, read_id: int) -> None:
        """Its holder has no file of it any more."""
        self.local_reads.close(read_id)

    def await_records(self, now_ms: int, request: RecordWait, token: object) -> list[Effect]:
        """RecordsArrived now, or when there are so many records, or after the wait."""
        self._room.begin(now_ms)
        self._record_waits.wait(request, token)
        return self._finish()

    def lease_reads(self, now_ms: int, request: LeaseReads) -> ReadsLeased:
        """Hold ranges of partitions that are hosted here, for a reader."""
        return self._leased_reads.lease(now_ms, request)

    def delete_records(self, now_ms: int, request: DeleteRecords, token: object) -> list[Effect]:
        """DeleteRecordsDone when every live replica begins at or after the asked offset."""
        self._room.begin(now_ms)
        self._deletions.delete(request, token)
        return self._finish()

    def on_cold_read(self, now_ms: int, read: ColdRead) -> list[Effect]:
        """A ColdRead was carried out: answer the request, or go on with the log, that needed it."""
        self._room.begin(now_ms)
        self._fetches.on_cold_read(read)
        self._offsets.on_cold_read(read)
        self._ranges.on_cold_read(read)
        self._range_transactions.on_cold_read(read)
        self.local_reads.look_ups.on_cold_read(read)
        self._internal_logs.on_cold_read(read)
        self._replica_fetches.on_cold_read(read)
        self._rebuilds.on_cold_read(read)
        return self._finish()

    def on_synced(self, now_ms: int, sync: SyncLog) -> list[Effect]:
        """The task of a SyncLog has run: answer those who waited for it."""
        self._room.begin(now_ms)
        self._syncs.on_synced(sync)
        return self._finish()

    def on_retained(self, now_ms: int) -> list[Effect]:
        """Retention has moved log starts: they are to be written."""
        self._room.begin(now_ms)
        self._starts.moved()
        return self._finish()

    def on_log_starts_written(self, now_ms: int, written: WriteLogStarts) -> list[Effect]:
        """The task of a WriteLogStarts has run: answer those who waited for it."""
        self._room.begin(now_ms)
        self._starts.on_written(written)
        return self._finish()

    # ---- coordinators of this broker ------------------------------------------------------------

    def read_internal(self, now_ms: int, request: ReadInternal, token: object) -> list[Effect]:
        """The records of a log led here, committed or not: InternalRead now, or when its pages were
        read.
        """
        self._room.begin(now_ms)
        self._internal_logs.read(request, token)
        return self._finish()

    def append_internal(
        self, now_ms: int, wall_ms: int, request: AppendInternal, token: object
    ) -> list[Effect]:
        """Append a coordinator's batch at exactly its offset: InternalAppended at once."""
        self._room.begin(now_ms)
        self._internal_logs.append(wall_ms, request, token)
        return self._finish()

    def internal_refusal(self, topic_partition: TopicPartition) -> Failure | None:
        """The refusal of a coordinator's batch, while too few replicas are in sync."""
        return self._internal_logs.refusal(topic_partition)

    # ---- other brokers --------------------------------------------------------------------------

    def replica_fetch(self, now_ms: int, request: ReplicaFetch, token: object) -> list[Effect]:
        """A follower's fetch: ReplicaFetchDone now, or when there are news."""
        if now_ms > self._room.now_ms:
            self._room.now_ms = now_ms
        self._replica_fetches.replica_fetch(request, token)
        return self._finish()

    def on_replica_fetched(
        self,
        now_ms: int,
        wall_ms: int,
        leader: BrokerId,
        request_id: int,
        fetched: ReplicaFetched | None,
    ) -> list[Effect]:
        """The answer to a SendReplicaFetch; None: the connection broke."""
        if now_ms > self._room.now_ms:
            self._room.now_ms = now_ms
        self._followers.on_fetched(wall_ms, leader, request_id, fetched)
        return self._finish()

    def epoch_ends(self, request: EpochEndQuery) -> EpochEnds:
        """The ends of leader epochs in the partitions led here (KIP-101's OffsetForLeaderEpoch)."""
        return EpochEnds(tuple(self._epoch_end(query) for query in request.queries))

    def _epoch_end(self, query: ReplicaEpochQuery) -> ReplicaEpochEnd:
        partition = self._hosted.find_by_id(query.topic_id, query.partition)
        fault: Failure | None
        if isinstance(partition, Missing):
            fault = partition.failure
        else:
            fault = partition.leader_fault(query.current_leader_epoch)
            if fault is None:
                log = partition.log
                end = log.epochs.end_offset_for(query.leader_epoch, log.log_end_offset)
                return ReplicaEpochEnd(
                    query.topic_id, query.partition, None, end.epoch, end.end_offset
                )
        return ReplicaEpochEnd(query.topic_id, query.partition, fault)

    def on_partitions_altered(
        self, now_ms: int, request_id: int, answer: PartitionsAltered | None
    ) -> list[Effect]:
        """The controller's answer to a SendAlterPartition; None: it was not reached."""
        self._room.begin(now_ms)
        self._proposals.on_answer(request_id, answer)
        return self._finish()

    # ---- metadata -------------------------------------------------------------------------------

    def on_registered(self, now_ms: int, broker_epoch: BrokerEpoch) -> list[Effect]:
        """The controller gave this incarnation its epoch."""
        self._room.begin(now_ms)
        if broker_epoch > self._broker_epoch:
            self._broker_epoch = broker_epoch
            self._replica_fetches.registered(broker_epoch)
            if self._refresh_brokers():
                self._replicas.count_anew(list(self._hosted.by_id.values()))
        self._start_if_ready()
        return self._finish()

    def on_metadata(self, now_ms: int, image: MetadataImage, delta: MetadataDelta) -> list[Effect]:
        """The image changed by `delta`. Older news about a partition changes nothing.

        Settings and roles are taken up before anything is counted: a leader that the change deposes
        must not go by a smaller `min.insync.replicas` that came behind its time, nor one that goes
        on count a smaller ISR by the `min.insync.replicas` of before.
        """
        self._room.begin(now_ms)
        self._hosted.image = image
        eligibility_changed = bool(delta.brokers) and self._refresh_brokers()
        if not self._started:
            self._start_if_ready()
            return self._finish()
        gone = [
            self._hosted.by_id.get((record.topic_id, record.partition))
            for removed in delta.removed_topics
            for record in removed.partitions
        ]
        self._replicas.delete([partition for partition in gone if partition is not None])
        reconfigured = self._replicas.reconfigure_all(delta.configs)
        self._replicas.take_up(delta.partitions)
        anew = list(self._hosted.by_id.values()) if eligibility_changed else reconfigured
        self._replicas.count_anew(anew)
        if delta.brokers:
            # The change that takes a broker from those that a deletion waits for may take it from
            # the ISR, too, which is then too small for an answer.
            self._room.deletions.check_all()
        self.local_reads.check()
        return self._finish()

    def _start_if_ready(self) -> None:
        image = self._hosted.image
        # A broker epoch is the metadata offset of the registration.
        if self._started or not 0 <= self._broker_epoch <= image.offset:
            return
        self._started = True
        self._refresh_brokers()
        self._replicas.refresh_defaults()
        mine = image.partitions_of(self._me)
        self._replicas.delete_strays(mine)
        self._replicas.take_up(mine)

    def _refresh_brokers(self) -> bool:
        """Take the brokers of the image; whether others are eligible now."""
        hosted = self._hosted
        before = dict(hosted.eligible)
        known = hosted.registered.copy()
        hosted.registered.clear()
        hosted.eligible.clear()
        for broker, registration in hosted.image.brokers.items():
            hosted.registered[broker] = registration.broker_epoch
            if known.get(broker, registration.broker_epoch) < registration.broker_epoch:
                self._followers.leader_restarted(broker)
            if hosted.image.is_live(broker):
                hosted.eligible[broker] = registration.broker_epoch
        # Our own epoch is what proposals carry for ourselves, whatever the image says yet.
        hosted.eligible[self._me] = self._broker_epoch
        return before != hosted.eligible

    def on_logs_failed(self, now_ms: int, logs: Iterable[Log]) -> list[Effect]:
        """Logs went offline over something that nobody asked for here: upkeep, a sync."""
        self._room.begin(now_ms)
        for log in logs:
            partition = self._hosted.by_id.get((log.topic_id, log.topic_partition.partition))
            if partition is not None and log.failure is not None:
                self._storage_failed(partition, log.failure)
        return self._finish()

    def _storage_failed(self, partition: Partition, error: Exception) -> None:
        self._replicas.storage_failed(partition, error)

    def _damaged(self, partition: Partition, error: DamagedBatch) -> Failure:
        """The answer to a reader of a rotten batch, after giving way to a replica that has it."""
        leading = partition.leading
        assert leading is not None
        self._lead(partition, tuple(leading.on_damage(self._room.now_ms)))
        if leading.others_in_sync:
            return Failure(KafkaStorageError.code, f"{error}; another replica is to lead soon")
        return Failure(error.code, str(error))

    # ---- steps ----------------------------------------------------------------------------------

    def _lead(self, partition: Partition, effects: tuple[IsrEffect, ...]) -> None:
        """Carry out what a leader state decided, as long as the partition leads: those who wait are
        woken over it, and one of them may find that the disk is broken.
        """
        for effect in effects:
            if partition.leading is None:
                return
            if isinstance(effect, AdvanceHighWatermark):
                partition.high_watermark = effect.offset
                if partition.is_watched:  # told before anything that comes of the waking
                    self._room.outbox.append(
                        HighWatermarkMoved(
                            partition.topic_partition,
                            partition.leader_epoch,
                            partition.topic_id,
                            effect.offset,
                        )
                    )
                self._room.high_watermark_moved(partition)
            else:
                self._proposals.add(partition, effect)

    def _finish(self) -> list[Effect]:
        if self._broker_epoch >= 0:
            self._followers.send(self._broker_epoch)
            if self._proposals.waiting:
                self._proposals.flush(self._broker_epoch)
        if self._starts.wanted:
            self._starts.send()
        room = self._room
        effects, room.outbox = room.outbox, []
        return effects

    def on_time(self, now_ms: int, wall_ms: int) -> list[Effect]:
        """Do what is due. Call it at `next_deadline_ms`; earlier or later does no harm."""
        self._room.begin(now_ms)
        self._room.advance()
        self._replicas.go_on()
        self._syncs.go_on()
        self._starts.go_on()
        if self._next_lag_check_ms is None:
            self._next_lag_check_ms = now_ms + self._lag_check_interval_ms
        elif now_ms >= self._next_lag_check_ms:
            self._next_lag_check_ms = now_ms + self._lag_check_interval_ms
            self._followers.name_all_again()
            for partition in list(self._hosted.by_id.values()):
                leading = partition.leading
                if leading is not None:
                    # noted by any read of the log, and gone when the log begins behind it
                    leading.damaged = bool(partition.log.damage)
                    self._lead(partition, tuple(leading.on_lag_check(now_ms)))
        effects = self._finish()
        self._room.until_ms = self._earliest_deadline()
        return effects

    @property
    def _lag_check_interval_ms(self) -> int:
        """Kafka's rhythm: a follower leaves after 1 to 1.5 times the lag time."""
        return max(1, self._settings.replica_lag_time_max_ms // 2)

    @property
    def next_deadline_ms(self) -> int | None:
        """The latest time for the next call of `on_time`; maybe nothing is due yet by then."""
        return self._room.until_ms

    def _earliest_deadline(self) -> int:
        earliest = self._next_lag_check_ms or 0
        for at in (
            self._replicas.next_deadline,
            self._room.next_deadline,
            self._followers.next_deadline if self._broker_epoch >= 0 else None,
            self._proposals.next_deadline,
            self._syncs.next_deadline,
            self._starts.next_deadline,
        ):
            if at is not None and at < earliest:
                earliest = at
        return earliest

    # ---- a look from outside --------------------------------------------------------------------

    @property
    def waiting_requests(self) -> int:
        """Requests of all kinds that wait here."""
        return len(self._room)

    @property
    def waiting_by_type(self) -> dict[str, int]:
        """The sizes of the purgatories, by the requests that wait in them."""
        room = self._room
        return {
            "Produce": len(room.produces),
            "Fetch": len(room.fetches),
            "FetchFollower": len(room.replica_fetches),
            "DeleteRecords": len(room.deletions),
        }

    @property
    def fetch_sessions(self) -> int:
        """Followers that fetch from here."""
        return len(self._room.replica_fetches.by_follower)

    @property
    def isr_changes(self) -> IsrChanges:
        """The counts of ISRs that shrank and that grew, of partitions led here."""
        return self._hosted.isr_changes

    def partitions(self) -> list[Partition]:
        """Every replica here, to look at."""
        return list(self._hosted.by_id.values())

    def describe(self) -> list[PartitionState]:
        """Every replica, by name."""
        partitions = self._hosted.by_name
        return [partitions[name].describe() for name in sorted(partitions)]

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """The high watermarks to checkpoint; a restart begins with these."""
        return {
            name: partition.high_watermark
            for name, partition in self._hosted.by_name.items()
            if partition.has_log
        }
