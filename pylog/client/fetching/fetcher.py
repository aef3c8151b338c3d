"""The request manager that fetches records: Kafka's `FetchRequestManager`. Pure.

Covers prefetching, long polls that are in the way, and what answers mean. `Positions` keeps the
position of each partition; decoding records and waiting users are the shell's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pylog import errors
from pylog.client.cluster.metadata import ClusterMetadata, Leader
from pylog.client.fetching.fetch_events import (
    CancelFetch,
    Effect,
    Fetch,
    Fetched,
    FetchItem,
    Notice,
    RefreshMetadata,
)
from pylog.client.fetching.fetch_state import (
    Chunk,
    FetchState,
    InFlight,
    Partition,
    ReadFollower,
)
from pylog.client.fetching.flights import LANES, Flights
from pylog.client.fetching.leader_finder import STUCK_AFTER_MS, LeaderFinder
from pylog.client.fetching.positions import Positions
from pylog.client.fetching.request_manager import Polled
from pylog.model import TopicPartition
from pylog.records.batch import BatchHeader, Buffer, iter_headers, last_header
from pylog.records.transactions import without_aborted

_FETCHING: Final = FetchState.FETCHING  # looked at for each partition at each poll
_OTHER_EPOCH: Final = (
    errors.NotLeaderOrFollower.code,
    errors.FencedLeaderEpoch.code,
    errors.UnknownLeaderEpoch.code,
)
"""By these a follower says that it and the consumer know of different elections."""


class Fetcher:
    """Owned by the consumer's lock."""

    def __init__(
        self, positions: Positions, metadata: ClusterMetadata, leaders: LeaderFinder
    ) -> None:
        self.settings = positions.settings
        self.active = False
        """Nothing is fetched before the user's first poll: consumers pull."""
        self._positions = positions
        self._metadata = metadata
        self._leaders = leaders
        self._flights = Flights()
        self._correlation = 0
        self._turn = 0

    def start_over(self) -> None:
        """A thread was interrupted in here: nothing that was asked for is waited for."""
        self._flights.clear()

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> Polled:
        """Requests for what there is room for."""
        effects: list[Effect] = []
        self._cut_overdue(now_ms, effects)
        if self.active:
            self._fetch(now_ms, effects)
        return Polled(effects, self.next_deadline_ms(now_ms))

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """The time at which `poll` has something to do without another event; None for never."""
        partitions = self._positions.partitions.values()
        times = [p.retry_at_ms for p in partitions if p.retry_at_ms > now_ms]
        if self._flights.cut_at_ms > now_ms:
            times.append(self._flights.cut_at_ms)
        for _, _, flight in self._flights:
            overdue = flight.sent_ms + flight.max_wait_ms + STUCK_AFTER_MS
            times.append(overdue if overdue > now_ms else now_ms + STUCK_AFTER_MS)
        return min(times) if times else None

    # ---- asking -------------------------------------------------------------------------------

    def _fetch(self, now_ms: int, effects: list[Effect]) -> None:
        wanted = self._wanted(now_ms)
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

    def _wanted(self, now_ms: int) -> dict[int, list[Partition]]:
        """Partitions that there is room for, by leader."""
        wanted: dict[int, list[Partition]] = {}
        limit = self.settings.max_partition_fetch_bytes
        known, leader_of = self._positions.partitions, self._metadata.leader
        room = self.settings.fetch_max_bytes - sum(p.buffered_bytes for p in known.values())
        for tp, partition in known.items():
            if partition.state is not _FETCHING:
                continue
            if partition.paused or partition.retry_at_ms > now_ms:
                continue
            if partition.error is not None:  # the user must see it, and perhaps seek
                continue
            leader = leader_of(*tp)
            if leader is None:
                self._leaders.is_missing(tp)
                continue
            full = partition.buffered_bytes >= limit or room <= 0
            partition.left_out = full and bool(partition.buffer)
            if not partition.left_out:
                broker = leader.broker
                if partition.follower is not None:
                    broker = self._read_from(now_ms, partition, leader)
                wanted.setdefault(broker, []).append(partition)
        return wanted

    def _read_from(self, now_ms: int, partition: Partition, leader: Leader) -> int:
        """The broker to read a partition from whose leader has named a follower."""
        follower = partition.follower
        assert follower is not None
        if (
            follower.leader_epoch == leader.epoch
            and now_ms < follower.until_ms
            and follower.broker in self._metadata.brokers
        ):
            return follower.broker
        partition.follower = None
        return leader.broker

    def _ask(self, now_ms: int, broker: int, lane: int, partitions: list[Partition]) -> Fetch:
        # The first partition gets the bytes: each is first in turn (KIP-74).
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
        leaders_only = any(partition.leader_only_until_ms > now_ms for partition in partitions)
        if leaders_only and any(p.follower is not None for p in partitions):
            leaders_only = False  # a follower in this rack is no leader that sends elsewhere
        return Fetch(broker, self._correlation, wait_ms, tuple(items), lane, leaders_only)

    def _cut_overdue(self, now_ms: int, effects: list[Effect]) -> None:
        for broker, lane, flight in self._flights:
            overdue_ms = now_ms - flight.sent_ms - flight.max_wait_ms
            if overdue_ms < STUCK_AFTER_MS:
                continue
            moved = any(self._is_elsewhere(now_ms, tp, broker) for tp in flight.wanted)
            if moved or overdue_ms >= self.settings.request_timeout_ms:
                self._flights.pop(broker, lane)
                effects.append(CancelFetch(broker, lane))
            else:
                self._leaders.is_stuck(tp.topic for tp in flight.wanted)

    def _is_elsewhere(self, now_ms: int, tp: TopicPartition, broker: int) -> bool:
        """Whether the partition is to be read from another broker."""
        leader, partition = self._metadata.leader(*tp), self._positions.partitions.get(tp)
        if leader is None:
            return False
        if partition is None or partition.follower is None:
            return leader.broker != broker
        return self._read_from(now_ms, partition, leader) != broker

    # ---- answers ------------------------------------------------------------------------------

    def stands(self, broker: int, correlation: int) -> bool:
        """Whether that fetch was answered before, and goes on."""
        return self._flights.stands(broker, correlation)

    def place(
        self,
        now_ms: int,
        broker: int,
        correlation: int,
        answers: Sequence[Fetched],
        stands: bool = False,
    ) -> list[Effect]:
        """A fetch was answered: what came is there for the user, nothing new is asked for. With
        many partitions asking takes longer than anything else between broker and user.

        `stands`: it will be answered again.
        """
        flight = self._flights.answered(now_ms, broker, correlation, stands)
        if flight is None:
            return []
        effects: list[Effect] = []
        stale: dict[str, None] = {}
        for answer in answers:
            partition = self._positions.partitions.get(answer.topic_partition)
            if partition is None or not flight.asks_for(partition):
                continue
            follower = partition.follower
            if answer.code and follower is not None and follower.broker == broker:
                self._on_follower_fault(now_ms, partition, answer.code, stale)
            elif answer.preferred >= 0 and not answer.code and answer.diverging_end is None:
                self._on_preferred(now_ms, partition, answer.preferred, stale)
            elif answer.diverging_end is not None:
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

    def _on_preferred(
        self, now_ms: int, partition: Partition, broker: int, stale: dict[str, None]
    ) -> None:
        """The leader wants a follower to be read, and has given nothing itself."""
        leader = self._metadata.leader(*partition.topic_partition)
        until_ms = now_ms + self.settings.follower_lease_ms
        if leader is None or broker == leader.broker or broker not in self._metadata.brokers:
            partition.leader_only_until_ms = until_ms
            stale[partition.topic_partition.topic] = None
        else:
            partition.follower = ReadFollower(broker, leader.epoch, until_ms)

    def _on_follower_fault(
        self, now_ms: int, partition: Partition, code: int, stale: dict[str, None]
    ) -> None:
        """The follower cannot be read: the leader is asked again, whose word alone counts."""
        partition.follower = None
        self._positions.retry_later(now_ms, partition)
        if code in _OTHER_EPOCH:
            stale[partition.topic_partition.topic] = None
        else:
            partition.leader_only_until_ms = now_ms + self.settings.follower_lease_ms

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
        partition.buffer.append(Chunk(batches, last.next_offset, self._positions.arrive()))
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
        self._positions.retry_later(now_ms, partition)
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
        reset = self._positions.reset_timestamp(self.settings.auto_offset_reset)
        if reset is None:
            words += ", and auto_offset_reset is 'none'; seek() to where to go on"
            partition.fail(errors.OffsetOutOfRange(words))
            return
        effects.append(Notice(f"{words}; going on at the {self.settings.auto_offset_reset} offset"))
        self._positions.seek_to(partition, reset)

    def _on_truncated(self, partition: Partition, answer: Fetched, effects: list[Effect]) -> None:
        """The leader's log and what was fetched part below the fetch offset (KIP-320)."""
        tp, position, end = partition.topic_partition, partition.position, answer.diverging_end
        assert position is not None
        assert end is not None
        if end >= position:
            # The user has seen nothing of what is gone.
            self._positions.seek(partition, position, answer.diverging_epoch)
            return
        words = f"{tp}: the log was cut at offset {end}, below what was read ({position})"
        if self.settings.auto_offset_reset == "none":
            partition.fail(errors.LogTruncated(f"{words}; seek() to where to go on"))
            return
        effects.append(Notice(f"{words}; going on there"))
        self._positions.seek(partition, end, answer.diverging_epoch)

    def on_fetch_failed(
        self, now_ms: int, broker: int, lane: int = 0, error: errors.PylogError | None = None
    ) -> list[Effect]:
        """The stream broke. Positions stay; the present leaders are asked again, but with an
        `error`, which would come again, only once the user knows.
        """
        flight = self._flights.pop(broker, lane)
        if flight is None:
            return []
        topics: dict[str, None] = {}
        for tp in flight.wanted:
            partition = self._positions.partitions.get(tp)
            if partition is not None:
                topics[tp.topic] = None
                self._positions.retry_later(now_ms, partition)
                if partition.follower is not None and partition.follower.broker == broker:
                    partition.follower = None
                    partition.leader_only_until_ms = now_ms + self.settings.follower_lease_ms
                if error is not None:
                    partition.fail(type(error)(f"{tp}: {error}"))
        return [RefreshMetadata(tuple(topics))] if topics else []


def _readable(batches: Buffer) -> tuple[Buffer, BatchHeader | None]:
    """The batches before what is none, and the header of the last one."""
    end, last = 0, None
    try:
        for position, header in iter_headers(batches):
            end, last = position + header.size, header
    except errors.CorruptMessage:
        pass
    return memoryview(batches)[:end], last
