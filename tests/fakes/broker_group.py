"""A few replica managers with real logs, a toy controller and instant messages, cranked by hand.

Everything happens when a test says so: `tell` publishes metadata, `run` delivers messages until
nobody has any, `advance` lets time pass. Messages between two brokers can be held back (`cut`).
The toy controller only compares partition epochs and sets ISRs.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count, repeat
from pathlib import Path

from pylog.errors import InvalidUpdateVersion
from pylog.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from pylog.records.builder import encode_batch
from pylog_broker.config import BrokerConfig
from pylog_broker.log_dirs import directories_of
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import (
    AlteredPartition,
    AlterPartition,
    Failure,
    MetadataBatch,
    PartitionsAltered,
)
from pylog_broker.metadata.records import (
    ConfigRecord,
    ConfigResourceType,
    Endpoint,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    usual_listeners,
)
from pylog_broker.replication.effects import (
    ColdRead,
    DeleteRecordsDone,
    Effect,
    FetchDone,
    FetchStands,
    OffsetsListed,
    ProduceDone,
    RecordsArrived,
    ReplicaFetchDone,
    SendAlterPartition,
    SendReplicaFetch,
    SyncLog,
    WriteLogStarts,
)
from pylog_broker.replication.fetch_messages import Fetch, PartitionFetch
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.offset_messages import DeleteRecords, OffsetAnswer, OffsetQuery
from pylog_broker.replication.partition_state import PartitionState
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch, Produce
from pylog_broker.replication.range_messages import RecordWait
from pylog_broker.replication.settings import ReplicationSettings
from pylog_broker.storage.directories.directory import MetaProperties
from pylog_broker.storage.files import Buffer, OsFiles
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.opening import Opening

WALL_MS = 1_700_000_000_000
T0 = TopicPartition("t", 0)
TOPIC_ID = TopicId("tttttttttttttttttttttA")


class FilesWithoutSync(OsFiles):
    """The real files, on a disk that can be full; no test here loses power."""

    def __init__(self) -> None:
        self.full = False

    def _check(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def append(self, handle: int, buffers: Sequence[Buffer]) -> int:
        self._check()
        return super().append(handle, buffers)

    def write_at(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        self._check()
        return super().write_at(handle, buffers, position)

    def fsync(self, handle: int) -> None:
        pass

    def fsync_dir(self, path: str) -> None:
        pass

    def write_atomic(self, path: str, data: bytes) -> None:
        self._check()
        Path(path).write_bytes(data)


class BrokerGroup:
    """Brokers 1 to n. `log` keeps every client answer in order."""

    def __init__(
        self,
        root: Path,
        brokers: int = 3,
        *,
        settings: ReplicationSettings | None = None,
        manager_type: type[ReplicaManager] = ReplicaManager,
        log_dirs: Sequence[str] = (),
        racks: Sequence[str] = (),
    ) -> None:
        """`log_dirs`: the setting; broker n's directories have the ids dir-n-1, dir-n-2, ...
        `racks`: of brokers 1, 2, ...
        """
        self.root = root
        self.racks = racks
        self.log_dirs = log_dirs
        self.now_ms = 1_000
        self.settings = settings or ReplicationSettings()
        self.manager_type = manager_type
        self.records: list[MetadataRecord] = []
        self.image = MetadataImage()
        self.images: dict[BrokerId, MetadataImage] = {}
        self.managers: dict[BrokerId, ReplicaManager] = {}
        self.logs: dict[BrokerId, LogDirectories] = {}
        self.files: dict[BrokerId, FilesWithoutSync] = {}
        self.answers: dict[object, Effect] = {}
        self.standing: dict[object, list[FetchStands]] = {}
        """Answers of fetches that went on then."""
        self.other_effects: list[tuple[BrokerId, Effect]] = []
        self.cut_links: set[tuple[BrokerId, BrokerId]] = set()
        self.controller_reachable = True
        self.syncs_wait = False
        """Whether logs' syncs stay in `waiting_syncs` until `sync` lets them run."""
        self.waiting_syncs: list[tuple[BrokerId, SyncLog]] = []
        self.reads_wait = False
        """Whether what is read on the pool stays in `waiting_reads` until `read` lets it run."""
        self.waiting_reads: list[tuple[BrokerId, ColdRead]] = []
        self.start_writes_wait = False
        """Whether steps of writes of log starts stay in `waiting_start_writes` until `write_starts`
        lets them run."""
        self.waiting_start_writes: list[tuple[BrokerId, WriteLogStarts]] = []
        self.refuse_isr_with: int | None = None
        self.sent_isrs: list[AlterPartition] = []
        self._mail: deque[tuple[BrokerId, Effect]] = deque()
        self._waiting_fetches: dict[object, tuple[BrokerId, SendReplicaFetch]] = {}
        self._token = 0
        for number in range(1, brokers + 1):
            self.start(BrokerId(number))

    # ---- brokers and metadata

    def start(self, broker: BrokerId) -> None:
        """A new incarnation on the same directory, registered and told all metadata."""
        if broker in self.managers:
            self.stop(broker)
        files = self.files[broker] = FilesWithoutSync()
        opening = Opening(
            files,
            directories_of(str(self.root), broker, self.log_dirs),
            MetaProperties("c", broker, "", "boot"),
            new_directory_id=map("dir-{}-{}".format, repeat(broker), count(1)).__next__,
            wall_ms=WALL_MS,
        )
        for step in opening.steps:
            step()
        logs = self.logs[broker] = opening.finish()
        manager = self.managers[broker] = self.manager_type(
            broker, logs, BrokerConfig(), settings=self.settings
        )
        self.images[broker] = MetadataImage()
        epoch = BrokerEpoch(len(self.records))
        here = Endpoint("localhost", 9000 + broker)
        self.append(
            RegisterBrokerRecord(
                broker,
                epoch,
                f"i{epoch}",
                "h",
                self.racks[broker - 1] if self.racks else None,
                usual_listeners(here, here),
                "d",
                "boot",
                fenced=False,
            )
        )
        self._post(broker, manager.on_registered(self.now_ms, epoch))
        self.tell()

    def stop(self, broker: BrokerId) -> None:
        """End the process; its high watermarks are checkpointed, what it was sent is lost."""
        logs = self.logs.pop(broker)
        logs.checkpoint_high_watermarks(self.managers.pop(broker).high_watermarks())
        logs.close(clean=False)
        self._mail = deque(item for item in self._mail if item[0] != broker)
        for token, (sender, _) in list(self._waiting_fetches.items()):
            if sender == broker:
                del self._waiting_fetches[token]

    def append(self, *records: MetadataRecord) -> None:
        """Commit metadata; nobody hears of it yet."""
        for record in records:
            self.image.replay(record, Offset(len(self.records)))
            self.records.append(record)

    def tell(self, *brokers: BrokerId) -> None:
        """Bring these brokers (default: all) up to date with the metadata."""
        for broker in brokers or sorted(self.managers):
            image = self.images[broker]
            first = Offset(image.offset + 1)
            batch = MetadataBatch(ControllerEpoch(1), first, tuple(self.records[first:]))
            if batch.records:
                delta = image.apply(batch)
                self._post(broker, self.managers[broker].on_metadata(self.now_ms, image, delta))

    def create_topic(
        self,
        replicas: Iterable[int] = (1, 2, 3),
        *,
        partitions: int = 1,
        name: str = "t",
        topic_id: TopicId = TOPIC_ID,
        min_isr: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """A topic led by its first replica, all in sync; everyone is told. Its replicas are in the
        directories of their brokers by turns.
        """
        members = tuple(BrokerId(number) for number in replicas)
        self.append(
            TopicRecord(name, topic_id),
            ConfigRecord(ConfigResourceType.TOPIC, name, "min.insync.replicas", str(min_isr)),
            *(
                ConfigRecord(ConfigResourceType.TOPIC, name, setting, value)
                for setting, value in (config or {}).items()
            ),
            *(
                PartitionRecord(
                    topic_id,
                    number,
                    members,
                    members,
                    members[0],
                    LeaderEpoch(0),
                    PartitionEpoch(0),
                    directories=tuple(
                        f"dir-{member}-{number % max(1, len(self.log_dirs)) + 1}"
                        for member in members
                    ),
                )
                for number in range(partitions)
            ),
        )
        self.tell()

    def delete_topic(self, topic_id: TopicId = TOPIC_ID) -> None:
        """Remove a topic; nobody hears of it yet."""
        self.append(RemoveTopicRecord(topic_id))

    def elect(
        self, leader: int, *, isr: Iterable[int] | None = None, partition: int = 0
    ) -> PartitionRecord:
        """Commit a new leader (and ISR) in the next leader epoch; nobody hears of it yet."""
        old = self.record(partition)
        new = replace(
            old,
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(old.leader_epoch + 1),
            partition_epoch=PartitionEpoch(old.partition_epoch + 1),
            isr=old.isr if isr is None else tuple(BrokerId(member) for member in isr),
        )
        self.append(new)
        return new

    def set_isr(self, *isr: int, partition: int = 0) -> None:
        """Commit an ISR; nobody hears of it yet."""
        old = self.record(partition)
        self.append(
            replace(
                old,
                isr=tuple(BrokerId(member) for member in isr),
                partition_epoch=PartitionEpoch(old.partition_epoch + 1),
            )
        )

    def record(self, partition: int = 0, topic_id: TopicId = TOPIC_ID) -> PartitionRecord:
        """The partition as last committed."""
        record = self.image.partition(topic_id, partition)
        assert record is not None
        return record

    def state(self, broker: int, partition: int = 0, topic: str = "t") -> PartitionState:
        """The replica as its broker describes it."""
        name = TopicPartition(topic, partition)
        states = self.managers[BrokerId(broker)].describe()
        return next(state for state in states if state.topic_partition == name)

    def marks(self, broker: int, partition: int = 0) -> tuple[int, int, int]:
        """(log start, high watermark, log end) of a replica."""
        state = self.state(broker, partition)
        return state.log_start_offset, state.high_watermark, state.log_end_offset

    def stored(self, broker: int, name: TopicPartition = T0) -> bytes:
        """Every byte of a replica's log."""
        log = self.logs[BrokerId(broker)].get(name)
        assert log is not None
        if log.log_start_offset == log.log_end_offset:
            return b""
        return log.read(log.log_start_offset, 1 << 30, upper_bound=log.log_end_offset).records

    # ---- clients

    def produce(
        self,
        broker: int,
        *values: bytes,
        acks: int = -1,
        name: TopicPartition = T0,
        timeout_ms: int = 10_000,
        topic_id: TopicId | None = None,
        batch: bytes | None = None,
    ) -> object:
        """Send one batch; the token of its answer."""
        data = encode_batch(list(values)) if batch is None else batch
        item = PartitionBatch(name, topic_id, data)
        return self.send(broker, Produce(acks, timeout_ms, (item,)))

    def fetch(
        self,
        broker: int,
        offset: int,
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        epoch: int = -1,
        name: TopicPartition = T0,
    ) -> object:
        """Fetch one partition as a consumer; the token of its answer."""
        item = PartitionFetch(name, None, Offset(offset), max_bytes, LeaderEpoch(epoch))
        return self.send(broker, Fetch(max_wait_ms, min_bytes, max_bytes, (item,)))

    def send(self, broker: int, request: Produce | Fetch | DeleteRecords | RecordWait) -> object:
        """Give a request to a broker; the token of its answer."""
        self._token += 1
        token = self._token
        manager = self.managers[BrokerId(broker)]
        match request:
            case Produce():
                effects = manager.produce(self.now_ms, WALL_MS, request, token)
            case Fetch():
                effects = manager.fetch(self.now_ms, request, token)
            case DeleteRecords():
                effects = manager.delete_records(self.now_ms, request, token)
            case RecordWait():
                effects = manager.await_records(self.now_ms, request, token)
        self._post(BrokerId(broker), effects)
        return token

    def ack(self, token: object) -> PartitionAck:
        """The one ack of an answered produce."""
        done = self.answers[token]
        assert isinstance(done, ProduceDone)
        return done.acks[0]

    def error(self, token: object) -> int:
        """The error code of an answered produce, 0 when it went well."""
        failure = self.ack(token).failure
        return failure.code if failure else 0

    # ---- time and messages

    def offset_of(self, broker: int, query: OffsetQuery) -> OffsetAnswer:
        """A broker's answer to a question for an offset; other effects of it are sent on."""
        self._token += 1
        token = self._token
        manager = self.managers[BrokerId(broker)]
        self._post(BrokerId(broker), manager.list_offsets(self.now_ms, (query,), token))
        self.run()
        listed = self.answers[token]
        assert isinstance(listed, OffsetsListed)
        [answer] = listed.answers
        return answer

    def run(self) -> None:
        """Deliver until nobody sends any more. Time stands still."""
        for _ in range(10_000):
            if not self._mail:
                return
            self._deliver(*self._mail.popleft())
        raise AssertionError("the brokers do not come to rest")

    def advance(self, ms: int) -> None:
        """Let time pass; every broker does what is due in its own millisecond."""
        end = self.now_ms + ms
        while True:
            self.run()
            due = [at for m in self.managers.values() if (at := m.next_deadline_ms) is not None]
            at = max(min(due, default=end), self.now_ms + 1)
            if at > end:
                self.now_ms = end
                return
            self.now_ms = at
            for broker, manager in self.managers.items():
                self._post(broker, manager.on_time(at, WALL_MS))

    def _post(self, broker: BrokerId, effects: Iterable[Effect]) -> None:
        self._mail.extend((broker, effect) for effect in effects)
        manager = self.managers[broker]
        noted = manager.next_deadline_ms
        assert noted is not None
        for waits in (
            manager._room.replica_fetches,
            manager._followers,
            manager._proposals,
            manager._replicas,
        ):
            at = waits.next_deadline
            assert at is None or noted <= at, f"{waits} did not note that it waits until {at}"

    def _deliver(self, sender: BrokerId, effect: Effect) -> None:
        match effect:
            case (
                ProduceDone()
                | FetchDone()
                | DeleteRecordsDone()
                | OffsetsListed()
                | RecordsArrived()
            ):
                assert effect.token not in self.answers, "answered twice"
                self.answers[effect.token] = effect
            case FetchStands():
                assert effect.token not in self.answers, "answered after the last answer"
                self.standing.setdefault(effect.token, []).append(effect)
            case SendReplicaFetch():
                self._fetch_from(sender, effect)
            case ReplicaFetchDone():
                waiting = self._waiting_fetches.pop(effect.token, None)
                if waiting is not None:
                    self._answer_fetch(waiting[0], sender, waiting[1].request_id, effect)
            case SendAlterPartition():
                self.sent_isrs.append(effect.request)
                answer = self._alter(effect.request) if self.controller_reachable else None
                manager = self.managers[sender]
                effects = manager.on_partitions_altered(self.now_ms, effect.request_id, answer)
                self._post(sender, effects)
            case ColdRead():
                if self.reads_wait:
                    self.waiting_reads.append((sender, effect))
                else:
                    self.read(sender, effect)
            case SyncLog():
                if self.syncs_wait:
                    self.waiting_syncs.append((sender, effect))
                else:
                    self.sync(sender, effect)
            case WriteLogStarts():
                if self.start_writes_wait:
                    self.waiting_start_writes.append((sender, effect))
                else:
                    self.write_starts(sender, effect)
            case _:
                self.other_effects.append((sender, effect))

    def read(self, broker: BrokerId, effect: ColdRead) -> None:
        """Let a read of the pool run, and tell its broker."""
        read = effect.read
        assert callable(read)
        read()
        self._post(broker, self.managers[broker].on_cold_read(self.now_ms, effect))

    def sync(self, broker: BrokerId, effect: SyncLog) -> None:
        """Let a sync run, and tell its broker."""
        effect.task.run()
        self._post(broker, self.managers[broker].on_synced(self.now_ms, effect))

    def write_starts(self, broker: BrokerId, effect: WriteLogStarts) -> None:
        """Let a step of a write of log starts run, and tell its broker."""
        effect.task.run()
        manager = self.managers[broker]
        self._post(broker, manager.on_log_starts_written(self.now_ms, effect))

    def _fetch_from(self, follower: BrokerId, effect: SendReplicaFetch) -> None:
        if (follower, effect.leader) in self.cut_links or effect.leader not in self.managers:
            self._answer_fetch(follower, effect.leader, effect.request_id, None)
            return
        self._token += 1
        token = ("replica", self._token)
        self._waiting_fetches[token] = (follower, effect)
        leader = self.managers[effect.leader]
        self._post(effect.leader, leader.replica_fetch(self.now_ms, effect.request, token))

    def _answer_fetch(
        self, follower: BrokerId, leader: BrokerId, request_id: int, done: ReplicaFetchDone | None
    ) -> None:
        fetched = None if done is None else done.fetched
        if (follower, leader) in self.cut_links:
            fetched = None
        manager = self.managers[follower]
        effects = manager.on_replica_fetched(self.now_ms, WALL_MS, leader, request_id, fetched)
        self._post(follower, effects)

    def _alter(self, request: AlterPartition) -> PartitionsAltered:
        altered = []
        for wish in request.partitions:
            old = self.record(wish.partition, wish.topic_id)
            code = self.refuse_isr_with
            if code is None and (wish.leader_epoch, wish.partition_epoch) != (
                old.leader_epoch,
                old.partition_epoch,
            ):
                code = InvalidUpdateVersion.code
            if code is not None:
                altered.append(AlteredPartition(wish.topic_id, wish.partition, Failure(code)))
                continue
            new = replace(
                old,
                isr=tuple(member.broker_id for member in wish.isr),
                partition_epoch=PartitionEpoch(old.partition_epoch + 1),
            )
            if new.leader not in new.isr:  # it resigned
                epoch = LeaderEpoch(old.leader_epoch + 1)
                new = replace(new, leader=new.isr[0], leader_epoch=epoch)
            self.append(new)
            altered.append(
                AlteredPartition(
                    wish.topic_id,
                    wish.partition,
                    None,
                    new.leader,
                    new.leader_epoch,
                    new.isr,
                    new.partition_epoch,
                )
            )
        return PartitionsAltered(None, tuple(altered))
