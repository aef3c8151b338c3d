"""What a consumer reads next, from whom, and what an answer means: the consumer's core.

Pure: events in, effects out. The consumer's lock is held around each call. Covers positions,
prefetching, offset resets and leader changes; decoding records and waiting users are the shell's.

Two offsets per partition: `position`, the next one that the user gets, and `fetch_offset`, the
next one that is asked of a broker. What lies between them is buffered. Every `seek` raises the
partition's `generation`, and an answer to an older generation is dropped; one that is given up and
taken again goes on counting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pylog import errors
from pylog.client.cluster.metadata import ClusterMetadata
from pylog.client.fetching.fetch_events import (
    CancelFetch,
    Effect,
    Fetch,
    Fetched,
    FetchItem,
    Listed,
    ListOffsets,
    Notice,
    RefreshMetadata,
)
from pylog.client.fetching.fetch_state import Chunk, FetcherSettings, InFlight, Partition
from pylog.client.fetching.flights import LANES, Flights
from pylog.client.fetching.leaderless import Leaderless
from pylog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from pylog.records.batch import BatchHeader, Buffer, iter_headers, last_header
from pylog.records.transactions import without_aborted

STUCK_AFTER_MS: Final = 1_000
"""How long after `fetch.max.wait.ms` an answer is overdue, and the leader looked up again."""
BY_DURATION: Final = "by_duration"
"""The reset policy that looks for the first record of the last `reset_duration_ms` (KIP-1106)."""
_RESETS: Final = {"latest": LATEST_TIMESTAMP, "earliest": EARLIEST_TIMESTAMP}


class Fetcher:
    """Owned by the consumer's lock. `poll` decides; `next_deadline_ms` says when next."""

    def __init__(
        self,
        settings: FetcherSettings,
        metadata: ClusterMetadata,
        jitter: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.partitions: dict[TopicPartition, Partition] = {}
        self.active = False
        """Nothing is fetched before the user's first poll: consumers pull."""
        self._metadata = metadata
        self._jitter = jitter
        self._wall_ms = wall_ms
        self._first_generation = 0  # above those of all partitions that were given up
        self._flights = Flights()
        self._leaderless = Leaderless(settings.leaderless_patience_ms)
        self._correlation = 0
        self._arrivals = 0
        self._turn = 0
        self._refresh_at_ms = 0

    # ---- the user's side ----------------------------------------------------------------------

    def assign(self, wanted: Iterable[TopicPartition]) -> None:
        """Read exactly these; partitions that stay keep their position."""
        chosen = dict.fromkeys(wanted)
        given_up = [p.generation + 1 for tp, p in self.partitions.items() if tp not in chosen]
        self._first_generation = max([self._first_generation, *given_up])
        self.partitions = {
            tp: self.partitions.get(tp) or self._new(tp, self.settings.auto_offset_reset)
            for tp in chosen
        }
        self._leaderless.forget_all_but(chosen)

    def add(self, topic_partition: TopicPartition, *, found_later: bool) -> None:
        """One more, of a subscribed topic. A partition that was added to a topic while we read it
        is read from its start: all its records are new.
        """
        if topic_partition not in self.partitions:
            policy = self.settings.auto_offset_reset
            if found_later and policy == "latest":
                policy = "earliest"
            self.partitions[topic_partition] = self._new(topic_partition, policy)

    def _new(self, tp: TopicPartition, policy: str) -> Partition:
        partition = Partition(
            tp,
            reset_to=self._reset_timestamp(policy),
            urgent=True,
            generation=self._first_generation,
        )
        if partition.reset_to is None:
            partition.fail(self._no_position(tp))
        return partition

    def arrive(self) -> int:
        """The next number in the order in which chunks and faults reach the user."""
        self._arrivals += 1
        return self._arrivals

    def all_handed_out(self, arrival: int) -> bool:
        """Whether the user has all records that arrived before, but for paused partitions."""
        return not any(p.holds_before(arrival) for p in self.partitions.values() if not p.paused)

    def _reset_timestamp(self, policy: str) -> int | None:
        """What to look up for a position; None: nothing, the user must seek."""
        if policy == BY_DURATION:
            return max(self._wall_ms() - self.settings.reset_duration_ms, 0)
        return _RESETS.get(policy)

    def _no_position(self, tp: TopicPartition) -> errors.NoOffsetForPartition:
        return errors.NoOffsetForPartition(
            f"{tp} has no position and auto_offset_reset is 'none'; seek() to one"
        )

    def seek(self, partition: Partition, offset: int, last_epoch: int | None = None) -> None:
        """The user's next record is the one at `offset` (or the first after it). `last_epoch`: that
        of the record before it, where it is known: the leader then sees whether its log was cut
        (KIP-320).
        """
        self._drop_buffer(partition)
        partition.position = partition.fetch_offset = offset
        partition.last_epoch = -1 if last_epoch is None else last_epoch
        partition.reset_to = None
        partition.urgent = True

    def seek_to(self, partition: Partition, timestamp: int) -> None:
        """Position by look-up: earliest, latest, or the first record at or after a time."""
        self._drop_buffer(partition)
        partition.reset_to = timestamp
        partition.position = None
        partition.last_epoch = -1
        partition.urgent = True

    def _drop_buffer(self, partition: Partition) -> None:
        partition.generation += 1
        partition.buffer.clear()
        partition.buffered_bytes = 0
        partition.decoding = None
        partition.error = None
        partition.reset_in_flight = False
        partition.retry_at_ms = 0
        partition.failures = 0

    def start_over(self) -> None:
        """A thread was interrupted in here: nothing counts but what the user got."""
        self._flights.clear()
        for partition in self.partitions.values():
            if partition.position is not None:
                self.seek(partition, partition.position)
            partition.reset_in_flight = False

    def resume(self, partition: Partition) -> None:
        """Undo a pause."""
        partition.paused = False
        partition.urgent = True

    def take(self, partition: Partition) -> Chunk:
        """The oldest buffered chunk, which the user now reads."""
        partition.urgent |= partition.left_out
        chunk = partition.buffer.popleft()
        partition.decoding_arrival = chunk.arrival
        partition.buffered_bytes -= len(chunk.batches)
        return chunk

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Effect]:
        """Everything that can be decided now."""
        effects: list[Effect] = []
        self._cut_overdue(now_ms, effects)
        unknown: dict[TopicPartition, None] = {}
        self._look_up(now_ms, unknown, effects)
        if self.active:
            self._fetch(now_ms, unknown, effects)
        if unknown and now_ms >= self._refresh_at_ms:
            self._refresh_at_ms = now_ms + self.settings.retry_backoff_ms
            topics = dict.fromkeys(tp.topic for tp in unknown)
            effects.append(RefreshMetadata(tuple(topics)))
        effects += map(Notice, self._leaderless.look(now_ms, unknown, self._metadata))
        return effects

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When `poll` has something to do without another event; None for never."""
        times = [p.retry_at_ms for p in self.partitions.values() if p.retry_at_ms > now_ms]
        times += [t for t in (self._refresh_at_ms, self._flights.cut_at_ms) if t > now_ms]
        for _, _, flight in self._flights:
            overdue = flight.sent_ms + flight.max_wait_ms + STUCK_AFTER_MS
            times.append(overdue if overdue > now_ms else now_ms + STUCK_AFTER_MS)
        return min(times) if times else None

    # ---- asking -------------------------------------------------------------------------------

    def _look_up(
        self, now_ms: int, unknown: dict[TopicPartition, None], effects: list[Effect]
    ) -> None:
        by_broker: dict[int, list[tuple[TopicPartition, int, int, int]]] = {}
        for tp, partition in self.partitions.items():
            if partition.reset_to is None or partition.reset_in_flight:
                continue
            if partition.retry_at_ms > now_ms or partition.error is not None:
                continue
            leader = self._metadata.leader(*tp)
            if leader is None:
                unknown[tp] = None
                continue
            partition.reset_in_flight = True
            by_broker.setdefault(leader.broker, []).append(
                (tp, partition.reset_to, leader.epoch, partition.generation)
            )
        effects += [ListOffsets(broker, tuple(items)) for broker, items in by_broker.items()]

    def _fetch(
        self, now_ms: int, unknown: dict[TopicPartition, None], effects: list[Effect]
    ) -> None:
        wanted = self._wanted(now_ms, unknown)
        flights = self._flights
        flights.cut_at_ms = 0
        for broker, partitions in wanted.items():
            asked = [p for p in partitions if not flights.ask_for(broker, p)]
            if not asked:
                continue
            lane = flights.end_standing(broker, asked)
            if flights.must_cut(now_ms, broker, partitions):
                busy = [lane for lane in LANES if flights.pop(broker, lane)]
                effects += [CancelFetch(broker, lane) for lane in busy]
            if lane is None:
                lane = flights.free_lane(broker)
            if lane is not None:
                asked = [p for p in partitions if not flights.ask_for(broker, p)]
                effects.append(self._ask(now_ms, broker, lane, asked))

    def _wanted(
        self, now_ms: int, unknown: dict[TopicPartition, None]
    ) -> dict[int, list[Partition]]:
        """Partitions that there is room for, by leader."""
        wanted: dict[int, list[Partition]] = {}
        limit = self.settings.max_partition_fetch_bytes
        room = self.settings.fetch_max_bytes - sum(
            p.buffered_bytes for p in self.partitions.values()
        )
        for tp, partition in self.partitions.items():
            if partition.position is None or partition.paused or partition.retry_at_ms > now_ms:
                continue
            if partition.error is not None:  # the user must see it, and perhaps seek
                continue
            leader = self._metadata.leader(*tp)
            if leader is None:
                unknown[tp] = None
                continue
            full = partition.buffered_bytes >= limit or room <= 0
            partition.left_out = full and bool(partition.buffer)
            if not partition.left_out:
                wanted.setdefault(leader.broker, []).append(partition)
        return wanted

    def _ask(self, now_ms: int, broker: int, lane: int, partitions: list[Partition]) -> Fetch:
        # Who comes first gets the bytes: everybody in turn (KIP-74).
        self._turn += 1
        first = self._turn % len(partitions)
        items = []
        wanted = {}
        for partition in partitions[first:] + partitions[:first]:
            tp = partition.topic_partition
            leader = self._metadata.leader(*tp)
            assert leader is not None
            partition.urgent = False
            partition.topic_id = partition.topic_id or self._metadata.topic_id(tp.topic)
            wanted[tp] = (partition.generation, partition.fetch_offset)
            items.append(
                FetchItem(
                    tp,
                    partition.topic_id,
                    partition.fetch_offset,
                    leader.epoch,
                    partition.last_epoch,
                )
            )
        self._correlation += 1
        wait_ms = self.settings.fetch_max_wait_ms
        self._flights.put(broker, lane, InFlight(self._correlation, now_ms, wait_ms, wanted))
        return Fetch(broker, self._correlation, wait_ms, tuple(items), lane)

    def _cut_overdue(self, now_ms: int, effects: list[Effect]) -> None:
        stuck: dict[str, None] = {}
        for broker, lane, flight in self._flights:
            overdue_ms = now_ms - flight.sent_ms - flight.max_wait_ms
            if overdue_ms < STUCK_AFTER_MS:
                continue
            leaders = [self._metadata.leader(*tp) for tp in flight.wanted]
            moved = any(leader is not None and leader.broker != broker for leader in leaders)
            if moved or overdue_ms >= self.settings.request_timeout_ms:
                self._flights.pop(broker, lane)
                effects.append(CancelFetch(broker, lane))
            else:
                stuck.update(dict.fromkeys(tp.topic for tp in flight.wanted))
        if stuck and now_ms >= self._refresh_at_ms:
            self._refresh_at_ms = now_ms + STUCK_AFTER_MS
            effects.append(RefreshMetadata(tuple(stuck)))

    # ---- answers ------------------------------------------------------------------------------

    def on_fetched(
        self,
        now_ms: int,
        broker: int,
        correlation: int,
        answers: Sequence[Fetched],
        stands: bool = False,
    ) -> list[Effect]:
        """A fetch was answered. `stands`: it will be answered again."""
        stood = self._flights.stands(broker, correlation)
        effects = self.place(now_ms, broker, correlation, answers, stands)
        if stood and stands and not effects:
            return effects  # nothing is to be asked that was not to be at the answer before
        return effects + self.poll(now_ms)

    def place(
        self,
        now_ms: int,
        broker: int,
        correlation: int,
        answers: Sequence[Fetched],
        stands: bool = False,
    ) -> list[Effect]:
        """The first half of `on_fetched`: what came is there for the user, nothing new is asked
        for. With many partitions asking takes longer than anything else between broker and user.
        """
        flight = self._flights.answered(now_ms, broker, correlation, stands)
        if flight is None:
            return []
        effects: list[Effect] = []
        stale: dict[str, None] = {}
        for answer in answers:
            partition = self.partitions.get(answer.topic_partition)
            if partition is None or not flight.asks_for(partition):
                continue
            if answer.diverging_end is not None:
                self._on_truncated(partition, answer, effects)
            elif answer.code == 0:
                self._on_data(partition, answer)
                if stands and len(answer.batches):
                    self._goes_on(flight, partition)
            else:
                self._on_fault(now_ms, partition, answer, stale, effects)
        if stale:
            effects.append(RefreshMetadata(tuple(stale)))
        return effects

    def _goes_on(self, flight: InFlight, partition: Partition) -> None:
        """The next answer is about what follows, unless this one could not be read."""
        if flight.asks_for(partition):
            del flight.wanted[partition.topic_partition]
        else:
            flight.wanted[partition.topic_partition] = (
                partition.generation,
                partition.fetch_offset,
            )

    def _on_data(self, partition: Partition, answer: Fetched) -> None:
        partition.failures = 0
        committed = self.settings.read_committed
        end = answer.last_stable_offset if committed else answer.high_watermark
        if end >= 0:
            partition.readable_end = end
        if answer.log_start_offset >= 0:
            partition.log_start_offset = answer.log_start_offset
        if not len(answer.batches):
            return
        found = answer.batches
        try:
            last = last_header(found)
        except errors.CorruptMessage:
            found, last = _readable(found)  # what follows may have been broken on the way
        if last is None or last.next_offset <= partition.fetch_offset:
            partition.fail(
                errors.CorruptMessage(
                    f"{partition.topic_partition} at offset {partition.fetch_offset}: an answer of "
                    f"{len(answer.batches)} bytes without a whole batch at or after the asked "
                    "offset"
                )
            )
            return
        batches = without_aborted(found, answer.aborted)
        partition.buffer.append(Chunk(batches, last.next_offset, self.arrive()))
        partition.buffered_bytes += len(batches)
        partition.fetch_offset = last.next_offset
        partition.last_epoch = last.partition_leader_epoch

    def _on_fault(
        self,
        now_ms: int,
        partition: Partition,
        answer: Fetched,
        stale: dict[str, None],
        effects: list[Effect],
    ) -> None:
        tp = partition.topic_partition
        partition.failures += 1
        partition.retry_at_ms = now_ms + self._backoff(partition.failures)
        error = errors.from_code(answer.code, f"{tp}: {answer.message}")
        if answer.code == errors.OffsetOutOfRange.code:
            # With records buffered before it, the user has not come to this offset yet.
            if partition.position == partition.fetch_offset:
                self._on_out_of_range(partition, answer, effects)
        elif answer.code == errors.CorruptMessage.code:
            # The leader has checked: to ask again would give the same.
            partition.fail(errors.CorruptMessage(str(error), next_offset=answer.damaged_end))
        elif not error.retriable:
            partition.fail(error)
        elif error.refreshes_metadata or answer.code == errors.UnknownLeaderEpoch.code:
            stale[tp.topic] = None
            if answer.leader >= 0 and self._metadata.learn_leader(
                *tp, answer.leader, answer.leader_epoch
            ):
                partition.retry_at_ms = now_ms

    def _on_out_of_range(
        self, partition: Partition, answer: Fetched, effects: list[Effect]
    ) -> None:
        tp, offset = partition.topic_partition, partition.fetch_offset
        words = f"{tp}: offset {offset} is not in the log, which holds "
        words += f"{answer.log_start_offset} to {answer.high_watermark}"
        reset = self._reset_timestamp(self.settings.auto_offset_reset)
        if reset is None:
            words += ", and auto_offset_reset is 'none'; seek() to where to go on"
            partition.fail(errors.OffsetOutOfRange(words))
            return
        effects.append(Notice(f"{words}; going on at the {self.settings.auto_offset_reset} offset"))
        self.seek_to(partition, reset)

    def _on_truncated(self, partition: Partition, answer: Fetched, effects: list[Effect]) -> None:
        """The leader's log and what was fetched part below the fetch offset (KIP-320)."""
        tp, position, end = partition.topic_partition, partition.position, answer.diverging_end
        assert position is not None
        assert end is not None
        if end >= position:
            # The user has seen nothing of what is gone.
            self.seek(partition, position, answer.diverging_epoch)
            return
        words = f"{tp}: the log was cut at offset {end}, below what was read ({position})"
        if self.settings.auto_offset_reset == "none":
            partition.fail(errors.LogTruncated(f"{words}; seek() to where to go on"))
            return
        effects.append(Notice(f"{words}; going on there"))
        self.seek(partition, end, answer.diverging_epoch)

    def on_fetch_failed(
        self, now_ms: int, broker: int, lane: int = 0, error: errors.PylogError | None = None
    ) -> list[Effect]:
        """The stream broke. Positions stay; whoever leads now is asked again, but with an `error`,
        which would come again, only once the user knows.
        """
        flight = self._flights.pop(broker, lane)
        if flight is None:
            return []
        topics: dict[str, None] = {}
        for tp in flight.wanted:
            partition = self.partitions.get(tp)
            if partition is not None:
                topics[tp.topic] = None
                partition.failures += 1
                partition.retry_at_ms = now_ms + self._backoff(partition.failures)
                if error is not None:
                    partition.fail(type(error)(f"{tp}: {error}"))
        return [RefreshMetadata(tuple(topics)), *self.poll(now_ms)] if topics else []

    def on_listed(self, now_ms: int, answers: Sequence[Listed]) -> list[Effect]:
        """Start positions were looked up."""
        stale: dict[str, None] = {}
        for answer in answers:
            partition = self.partitions.get(answer.topic_partition)
            if partition is None or partition.generation != answer.generation:
                continue
            partition.reset_in_flight = False
            if self._is_of_another_topic(answer):
                partition.failures += 1
                partition.retry_at_ms = now_ms + self._backoff(partition.failures)
                stale[answer.topic_partition.topic] = None
                continue
            if answer.code == 0:
                partition.topic_id = partition.topic_id or answer.topic_id
                offset = answer.offset
                if offset < 0:  # no record is that late: the end
                    partition.reset_to = LATEST_TIMESTAMP
                    continue
                self.seek(partition, offset)
                continue
            error = errors.from_code(answer.code, f"{answer.topic_partition}: {answer.message}")
            partition.failures += 1
            partition.retry_at_ms = now_ms + self._backoff(partition.failures)
            if not error.retriable:
                partition.fail(error)
            elif error.refreshes_metadata:
                stale[answer.topic_partition.topic] = None
        refresh: list[Effect] = [RefreshMetadata(tuple(stale))] if stale else []
        return refresh + self.poll(now_ms)

    def _is_of_another_topic(self, answer: Listed) -> bool:
        """Whether broker and client disagree about which topic has the name: one of them has not
        heard yet that the topic was created anew, and offsets of the one mean nothing in the other.
        """
        known = self._metadata.topic_id(answer.topic_partition.topic)
        return bool(answer.topic_id and known) and answer.topic_id != known

    def on_metadata(self, now_ms: int) -> list[Effect]:
        """New metadata: partitions whose leader is back need not wait."""
        effects: list[Effect] = []
        for tp, partition in self.partitions.items():
            topic_id = self._metadata.topic_id(tp.topic)
            if partition.topic_id and topic_id and topic_id != partition.topic_id:
                self._on_new_topic(partition, topic_id, effects)
            if partition.failures and self._metadata.leader(*tp) is not None:
                partition.retry_at_ms = min(
                    partition.retry_at_ms, now_ms + self.settings.retry_backoff_ms
                )
        return effects + self.poll(now_ms)

    def _on_new_topic(self, partition: Partition, topic_id: str, effects: list[Effect]) -> None:
        tp = partition.topic_partition
        words = f"{tp}: the topic was deleted and created anew; its offsets begin again"
        partition.topic_id = topic_id
        if self.settings.auto_offset_reset == "none":
            partition.fail(errors.UnknownTopicId(f"{words}; seek() to where to go on"))
            return
        effects.append(Notice(f"{words}, and so does this consumer"))
        self.seek_to(partition, EARLIEST_TIMESTAMP)

    def _backoff(self, failures: int) -> int:
        longest = self.settings.retry_backoff_max_ms
        wait = min(self.settings.retry_backoff_ms * 2 ** min(max(failures - 1, 0), 30), longest)
        return int(wait * (0.8 + 0.4 * self._jitter()))


def _readable(batches: Buffer) -> tuple[Buffer, BatchHeader | None]:
    """The batches before what is none, and the header of the last one."""
    end, last = 0, None
    try:
        for position, header in iter_headers(batches):
            end, last = position + header.size, header
    except errors.CorruptMessage:
        pass
    return memoryview(batches)[:end], last
