"""Applications that read: the product's consumer core, its request managers with what collects
their records, on simulated streams.

Every record that the application gets must be committed, and as it was sent; offsets rise, nothing
committed is skipped, and the position follows what was given out.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from pylog import errors
from pylog.client.consumer.collecting import Collector, Parts
from pylog.client.consumer.consumer_loop import ConsumerLoop
from pylog.client.consumer.consumer_settings import Interceptors, UserCode
from pylog.client.fetching.consumer_core import ConsumerCore
from pylog.client.fetching.fetch_events import (
    CancelFetch,
    Effect,
    Fetched,
    FetchItem,
    Listed,
    ListOffsets,
    Notice,
    RefreshMetadata,
    WatchTopics,
)
from pylog.client.fetching.fetch_events import Fetch as FetchEffect
from pylog.client.fetching.fetch_state import FetcherSettings, Partition
from pylog.client.fetching.group_managers import GroupSettings
from pylog.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
from pylog.records.record import Record
from pylog_broker.replication.fetch_messages import Fetch, PartitionData, PartitionFetch, Standing
from pylog_broker.replication.offset_messages import OffsetAnswer, OffsetQuery
from tests.sim import client_service
from tests.sim.client_metadata import KeptMetadata
from tests.sim.ghost import PartitionGhost
from tests.sim.partition_transactions import ABORTED, MARKER, OPEN
from tests.sim.rpc import Actor, Machine, Rpc, unary
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

ANSWER_MS = 1_000
POLLS_MAX = 20
MAY_HEAR = (
    errors.OffsetOutOfRange,
    errors.UnknownTopicId,
    errors.NoOffsetForPartition,
    errors.LogTruncated,
)
_PLAIN = UserCode(None, None, Interceptors(()))


class _NoMetrics:
    def consumed(self, records: int) -> None:
        """Nobody counts."""


class _Loop:
    """The part of the consumer's loop that the collector needs."""

    def __init__(self, app: ConsumerApp) -> None:
        self.lock = threading.Lock()
        self.metrics = _NoMetrics()
        self._app = app

    def poke(self) -> None:
        """Have the fetcher look."""
        self._app.timer(0, self._app.look)


@dataclass(slots=True)
class _Read:
    """The progress of the application in one partition, as it would say itself."""

    topic_id: TopicId
    position: int
    generation: int


class ConsumerApp(Actor):
    """Reads all partitions of the topic. `roams`: it seeks, pauses and asks for other places, too;
    else it reads from the start to the end and misses nothing.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        *,
        roams: bool,
        reset: str = "earliest",
        group: GroupSettings | None = None,
        read_committed: bool | None = None,
    ) -> None:
        super().__init__(Machine(name, cluster.scheduler, 0))
        self.cluster = cluster
        self.roams = roams
        self.reads_all = reset == "earliest" and not roams
        self.rng = cluster.scheduler.rng(name)
        swarm = cluster.swarm
        self._kept = KeptMetadata(cluster, self, self.rng, self._on_metadata)
        drawn = self.rng.random() < 0.5
        self.read_committed = drawn if read_committed is None else read_committed
        self._rack = cluster.rack(cluster.scheduler.rng(f"{name} rack").randrange(6)) or ""
        self._stands = self.rng.random() < 0.7  # framed streams; over gRPC a fetch never stands
        self.core = ConsumerCore(
            FetcherSettings(
                auto_offset_reset=reset,
                read_committed=self.read_committed,
                fetch_max_wait_ms=swarm.fetch_wait_ms,
                fetch_max_bytes=4 * swarm.fetch_max_bytes,
                max_partition_fetch_bytes=swarm.fetch_max_bytes,
                request_timeout_ms=swarm.clients.request_timeout_ms,
                retry_backoff_ms=swarm.clients.retry_backoff_ms,
                retry_backoff_max_ms=8 * swarm.clients.retry_backoff_ms,
            ),
            self._kept.metadata,
            self.rng.random,
            cluster.wall_ms,
            group,
        )
        self.core.fetcher.active = True
        self.positions = self.core.positions
        self._collector = Collector(
            cast(ConsumerLoop, _Loop(self)),
            self.positions,
            _PLAIN,
            max_poll_records=self.rng.choice((3, 500)),
            check_crcs=True,
        )
        self._streams: dict[tuple[int, int], Rpc] = {}
        self._topic_id = TopicId("")  # by the metadata that the core has heard of
        self._read: dict[TopicPartition, _Read] = {}
        # a deposed leader has told that it does not have what is read next
        self._misled: set[TopicPartition] = set()
        self._tick_at = -1
        self._is_waking = False

    # ---- the application

    def start(self) -> None:
        """Learn of the topic, then read all of it."""
        self._kept.refresh_soon(self.cluster.TOPIC)
        if self.roams:
            self.timer(self.rng.random() * 500, self._roam)

    def leave(self) -> None:
        """It reads no more."""
        self.roams = False
        for broker, lane in list(self._streams):
            self._close(broker, lane)
        self.alive = False

    def now_ms(self) -> int:
        """The consumer's monotonic clock."""
        return self.machine.now_ms()

    def ghost(self, tp: TopicPartition) -> PartitionGhost:
        """The ghost of the partition that it reads."""
        return self.cluster.shadows.ghost(self._read[tp].topic_id, tp.partition)

    @property
    def waits_for(self) -> list[str]:
        """The partitions that are not read to the end, for a report and for L1."""
        topic = self.cluster.topic()
        if not self.alive or self.roams or topic is None:
            return []
        found = []
        for number in sorted(topic.partitions):
            tp = TopicPartition(topic.name, number)
            read = self._read.get(tp)
            ghost = self.cluster.shadows.ghost(topic.topic_id, number)
            end = ghost.committed_end
            while read is not None and self._is_hidden(ghost, end - 1) and end > read.position:
                end -= 1
            if read is None or read.topic_id != topic.topic_id or read.position != end:
                found.append(f"{tp} is read up to {read}, and ends at {end}")
        return found

    def _poll(self) -> None:
        """Act as a user's thread does: take the records that are there, or hear of a fault."""
        self._is_waking = False
        for _ in range(POLLS_MAX):
            self._raise_faults()
            self._look_for_jumps()
            parts = self._collector.records()
            if not parts:
                break
            self._take(parts)
            self._look_for_jumps()
        self.look()

    def _news(self) -> None:
        """Something may be there for the user's thread, which wakes up after a while."""
        if not self._is_waking and self._collector.has_news():
            self._is_waking = True
            self.timer(1 + self.rng.random() * 20, self._poll)

    def _raise_faults(self) -> None:
        for partition in self.positions.partitions.values():
            error = partition.error
            if error is None or partition.buffer or partition.decoding is not None:
                continue
            tp = partition.topic_partition
            self.cluster.sometimes[f"consumer: {error.name}"] += 1
            self.cluster.scheduler.note("consumer hears", self.name, str(tp), error)
            if type(error) not in MAY_HEAR:
                raise Violation("C", f"{self.name} hears {error!r}")
            if isinstance(error, errors.OffsetOutOfRange | errors.LogTruncated):
                self._must_be_gone(tp, f"hears {error}")
            self._forget_place(tp)
            self.positions.seek_to(partition, EARLIEST_TIMESTAMP)

    def _take(self, parts: Parts) -> None:
        for tp, records in parts:
            self._check(tp, records)
        for tp, told in self._collector.intercepted(parts).next_offsets.items():
            position = self.positions.partitions[tp].position
            if told != position:
                raise Violation("C", f"{self.name}: {tp} is at {position}, told {told}")
            # behind the last record there may be some that compaction took
            self._must_be_compacted(tp, self._read[tp].position, told)
            self._read[tp].position = told

    def _check(self, tp: TopicPartition, records: Sequence[Record]) -> None:
        ghost, read = self.ghost(tp), self._read[tp]
        self.cluster.sometimes["read"] += len(records)
        for record in records:
            if record.offset < read.position:
                raise Violation(
                    "C", f"{self.name}: {tp} was at {read.position}, and gets {record.offset}"
                )
            self._must_be_compacted(tp, read.position, record.offset)
            self._must_be_visible(tp, record.offset)
            wanted = ghost.record_at(record.offset)
            told = (record.key, record.value, record.timestamp_ms)
            if wanted != told and not ghost.is_lossy:
                raise Violation(
                    "I6", f"{self.name}: {tp} gives {record}; {wanted} is committed there"
                )
            read.position = record.offset + 1

    def _must_be_visible(self, tp: TopicPartition, offset: int) -> None:
        """I7: a reader of committed records gets none of a transaction that is open or aborted."""
        status = self._status(self.ghost(tp), offset)
        if status == MARKER or (self.read_committed and status in (OPEN, ABORTED)):
            raise Violation("I7", f"{self.name}: {tp} gives {offset}, which is {status}")
        if status:
            self.cluster.sometimes[f"transactions: read what is {status}"] += 1

    def _is_hidden(self, ghost: PartitionGhost, offset: int) -> bool:
        status = self._status(ghost, offset)
        return status == MARKER or (self.read_committed and status == ABORTED)

    def _status(self, ghost: PartitionGhost, offset: int) -> str:
        """The status of the record for this reader."""
        transactions = self.cluster.transactions
        if transactions is None or not self.read_committed:
            return ghost.transactions.status(offset)
        return transactions.ghost.status(ghost, offset)

    def _must_be_compacted(self, tp: TopicPartition, begin: int, end: int) -> None:
        """Check that all records between the two offsets are gone for good."""
        ghost, now_ms = self.ghost(tp), self.cluster.true_ms()
        for missing in range(begin, end) if not ghost.is_lossy else ():
            if missing < ghost.deleted_to and ghost.may_compact:
                continue
            if self._is_hidden(ghost, missing):
                continue
            if not ghost.may_compact or ghost.why_not_gone(missing, now_ms):
                raise Violation("C", f"{self.name}: {tp} misses {missing} of {begin} to {end}")

    # ---- places

    def _look_for_jumps(self) -> None:
        """The fetcher moves a position by itself only when the records there are gone."""
        for tp, partition in self.positions.partitions.items():
            read = self._read.get(tp)
            if read is not None and read.generation != partition.generation:
                if self._topic_id != read.topic_id:
                    self._begins_anew(tp)
                elif partition.position is None or not self._is_at(partition.position, tp):
                    self._must_be_gone(tp, f"is set to {partition.position}")
                self._forget_place(tp)
        self._begin_at_places(self._topic_id)

    def _begins_anew(self, _tp: TopicPartition) -> None:
        """The metadata have another topic by that name."""
        self.cluster.sometimes["consumer meets a new topic"] += 1

    def _is_at(self, position: int, tp: TopicPartition) -> bool:
        """Whether the application would say so, but for what it never gets."""
        ghost, read = self.ghost(tp), self._read[tp]
        return position == read.position or (
            position > read.position
            and all(self._is_hidden(ghost, each) for each in range(read.position, position))
        )

    def _begin_at_places(self, topic_id: TopicId) -> None:
        """Note the places that were found since the last look, in the topic of that id. While the
        metadata know of none, a place waits: no fetch is sent before they do, and so it is one in
        the topic that they tell of next.
        """
        if not topic_id:
            return
        for tp, partition in self.positions.partitions.items():
            if tp not in self._read and partition.position is not None:
                self._read[tp] = _Read(topic_id, partition.position, partition.generation)
                self._must_begin_early(tp, partition.position)

    def _must_begin_early(self, tp: TopicPartition, position: int) -> None:
        ghost = self.ghost(tp)
        if self.reads_all and position > ghost.deleted_to and not ghost.is_lossy:
            gone = f"gone is up to {ghost.deleted_to}"
            raise Violation("C", f"{self.name}: {tp} begins at {position}, {gone}")

    def _must_be_gone(self, tp: TopicPartition, what: str) -> None:
        read = self._read.get(tp)
        if read is None:
            return
        self.cluster.sometimes["reader out of range"] += 1
        ghost = self.ghost(tp)
        if ghost.is_lossy or tp in self._misled:
            return
        if read.position >= ghost.deleted_to and read.topic_id not in self.cluster.shadows.deleted:
            raise Violation(
                "C", f"{self.name}: {tp} {what} from {read}; gone is up to {ghost.deleted_to}"
            )

    def _forget_place(self, tp: TopicPartition) -> None:
        self._read.pop(tp, None)
        self._misled.discard(tp)

    def _hear_out_of_range(self, asked: FetchItem) -> None:
        """A leader that was deposed and has not heard of it answers by what it has (as in Kafka).
        The epoch of the record before would have told it that it knows less, but an application
        that has sought a bare offset has none. Answers of other leaders are judged where they are
        given.
        """
        tp = asked.topic_partition
        partition = self.positions.partitions.get(tp)
        if not asked.topic_id or partition is None or partition.last_epoch >= 0:
            return
        ghost = self.cluster.shadows.ghost(TopicId(asked.topic_id), tp.partition)
        if asked.leader_epoch < ghost.newest_epoch:
            self.cluster.sometimes["deposed leader lacks an offset"] += 1
            self._misled.add(tp)

    def _roam(self) -> None:
        """Look elsewhere, or at less, or at nothing for a while."""
        if not self.roams:
            return
        self._look_for_jumps()
        for tp, partition in self.positions.partitions.items():
            chance = self.rng.random()
            if chance < 0.1:
                partition.paused = True
            elif partition.paused:
                self.positions.resume(partition)
            elif chance < 0.5:
                self._seek(tp, partition)
        self.look()
        self.timer(self.rng.random() * 1_000, self._roam)

    def _seek(self, tp: TopicPartition, partition: Partition) -> None:
        read = self._read.get(tp)
        self._forget_place(tp)
        target = self.rng.choice(("offset", "offset", "earliest", "latest", "time"))
        if target == "offset" and read is not None:
            ghost = self.cluster.shadows.ghost(read.topic_id, tp.partition)
            self.positions.seek(partition, self.rng.randint(0, ghost.committed_end))
        elif target == "time":
            self.positions.seek_to(partition, self.cluster.wall_ms() - self.rng.randint(0, 5_000))
        else:
            where = EARLIEST_TIMESTAMP if target == "earliest" else LATEST_TIMESTAMP
            self.positions.seek_to(partition, where)

    def settle(self) -> None:
        """From now on it reads to the end."""
        self.roams = False
        for partition in self.positions.partitions.values():
            self.positions.resume(partition)
        self.look()

    # ---- steps

    def look(self) -> None:
        """Have the core look."""
        self._step(())

    def _step(self, effects: Sequence[Effect]) -> None:
        """Perform the effects of an event, and those of the next poll."""
        requests, deadline_ms = self.core.poll(self.now_ms())
        self._perform([*effects, *requests], deadline_ms)

    def _perform(self, effects: Sequence[Effect], deadline_ms: int | None) -> None:
        for effect in effects:
            self.cluster.scheduler.told(self.name, "wants", effect)
            match effect:
                case FetchEffect():
                    self._fetch(effect)
                case CancelFetch(broker, lane):
                    self.cluster.sometimes["fetch cut"] += 1
                    self._close(broker, lane)
                case ListOffsets():
                    self._list(effect)
                case RefreshMetadata(topics) | WatchTopics(topics):
                    self._kept.refresh_soon(*topics)
                case Notice(text):
                    self.cluster.scheduler.note("notice", self.name, text)
                case _:
                    self._ask(effect)
        if deadline_ms is not None and (self._tick_at < 0 or deadline_ms < self._tick_at):
            self._tick_at = deadline_ms
            self.timer(max(1, deadline_ms - self.now_ms()), self._tick, deadline_ms)
        self._news()

    def _ask(self, effect: Effect) -> None:
        """Something of a group, which this one has not."""
        raise AssertionError(effect)

    def _tick(self, deadline: int) -> None:
        if deadline == self._tick_at:
            self._tick_at = -1
            self.look()

    def _on_metadata(self) -> None:
        topic = self.cluster.TOPIC
        known = self.positions.partitions
        self._begin_at_places(self._topic_id)  # in the topic as it was known when they were found
        self._topic_id = TopicId(self._kept.metadata.topic_id(topic))
        for number in range(self._kept.metadata.partition_count(topic) or 0):
            self.positions.add(TopicPartition(topic, number), found_later=bool(known))
        self._step(self.core.on_metadata(self.now_ms()))
        self._look_for_jumps()

    # ---- fetches

    def _fetch(self, effect: FetchEffect) -> None:
        place = (effect.broker, effect.lane)
        rpc = self._streams.get(place)
        if rpc is None:
            process = self.cluster.process(BrokerId(effect.broker))
            if process is None or process.core is None:
                self.timer(1 + self.rng.random() * 20, self._refused, *place)
                return
            rpc = Rpc(self.cluster.net, self, process, lambda: self._broken(place, opened))
            opened = self._streams[place] = rpc
        limit = self.positions.settings.max_partition_fetch_bytes
        items = tuple(
            PartitionFetch(
                item.topic_partition,
                TopicId(item.topic_id) if item.topic_id else None,
                Offset(item.offset),
                limit,
                LeaderEpoch(item.leader_epoch),
                LeaderEpoch(item.last_epoch),
            )
            for item in effect.items
        )
        stands = Standing(64, min(16_384, limit)) if self._stands else None
        request = Fetch(
            effect.max_wait_ms,
            1,
            self.positions.settings.fetch_max_bytes,
            items,
            self.read_committed,
            stands,
            "" if effect.leaders_only else self._rack,
        )
        serve = self.cluster.server(rpc).clients.serve_fetch
        asked = {item.topic_partition: item for item in effect.items}
        fetched = partial(self._fetched, place, rpc, effect.correlation, asked)
        rpc.request(serve, request, fetched, None)

    def _refused(self, broker: int, lane: int) -> None:
        if (broker, lane) not in self._streams:
            self._step(self.core.fetcher.on_fetch_failed(self.now_ms(), broker, lane))

    def _fetched(
        self,
        place: tuple[int, int],
        rpc: Rpc,
        correlation: int,
        asked: dict[TopicPartition, FetchItem],
        answer: client_service.Fetched | None,
    ) -> None:
        if answer is None or self._streams.get(place) is not rpc:
            return
        found = [_fetched(data) for data in answer.partitions]
        for data in found:
            if self._reads_follower(data.topic_partition, place[0]):
                self._heard_of_follower(data)
                continue
            if data.preferred >= 0:
                self.cluster.sometimes["consumer sent to a follower"] += 1
            if data.code:
                name = errors.ERRORS_BY_CODE[data.code].__name__
                self.cluster.sometimes[f"fetch: {name}"] += 1
            self._misled.discard(data.topic_partition)
            if data.code == errors.OffsetOutOfRange.code:
                self._hear_out_of_range(asked[data.topic_partition])
            if data.diverging_end is not None:
                self.cluster.sometimes["consumer told of divergence"] += 1
        self.cluster.scheduler.told(self.name, f"is answered by {place[0]}", found)
        now_ms = self.now_ms()
        self._perform(*self.core.on_fetched(now_ms, place[0], correlation, found, answer.stands))
        self._look_for_jumps()

    def _reads_follower(self, tp: TopicPartition, broker: int) -> bool:
        """Whether that broker was asked as a follower, which is read in place of the leader."""
        partition = self.positions.partitions.get(tp)
        follower = None if partition is None else partition.follower
        return follower is not None and follower.broker == broker

    def _heard_of_follower(self, data: Fetched) -> None:
        if data.code:
            name = errors.ERRORS_BY_CODE[data.code].__name__
            self.cluster.sometimes[f"follower refuses a consumer: {name}"] += 1
        elif data.batches:
            self.cluster.sometimes["follower read by a consumer"] += 1

    def _broken(self, place: tuple[int, int], rpc: Rpc) -> None:
        if self._streams.get(place) is rpc:
            del self._streams[place]
            self._step(self.core.fetcher.on_fetch_failed(self.now_ms(), *place))

    def _close(self, broker: int, lane: int) -> None:
        rpc = self._streams.pop((broker, lane), None)
        if rpc is not None and rpc.open:
            rpc.close()

    def _list(self, effect: ListOffsets) -> None:
        generations = {tp: generation for tp, _, _, generation in effect.items}
        queries = tuple(
            OffsetQuery(tp, timestamp, LeaderEpoch(epoch), self.read_committed)
            for tp, timestamp, epoch, _ in effect.items
        )

        def heard(answers: tuple[OffsetAnswer, ...] | None) -> None:
            now_ms = self.now_ms()
            if answers is None:
                error = errors.LeaderNotAvailable("no answer")
                self._step(self.core.on_no_answer(now_ms, effect, error))
            else:
                listed = [_listed(told, generations) for told in answers]
                self._step(self.core.on_listed(now_ms, effect, listed))
            self._look_for_jumps()

        owner = self.cluster.owners.get(BrokerId(effect.broker))
        unary(
            self.cluster.net,
            self,
            lambda: None if owner is None else owner.process,
            lambda process, value, answer: process.clients.serve_list_offsets(value, answer),
            queries,
            heard,
            ANSWER_MS,
        )


def _listed(told: OffsetAnswer, generations: dict[TopicPartition, int]) -> Listed:
    tp, failure = told.topic_partition, told.failure
    code, message = (0, "") if failure is None else (failure.code, failure.message)
    return Listed(tp, generations[tp], code, message, told.offset, told.topic_id or "")


def _fetched(data: PartitionData) -> Fetched:
    failure, diverging = data.failure, data.diverging
    return Fetched(
        data.topic_partition,
        0 if failure is None else failure.code,
        "" if failure is None else failure.message,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
        data.records,
        data.aborted,
        data.current_leader if failure and data.current_leader_epoch > 0 else -1,
        data.current_leader_epoch,
        diverging.end_offset if diverging else None,
        diverging.epoch if diverging else None,
        data.damaged_end if data.damaged_end > 0 else None,
        data.preferred_replica,
    )
