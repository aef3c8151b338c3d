from __future__ import annotations

from typing import TypeGuard

import pytest

from pylog import errors
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.fetching.consumer_core import ConsumerCore
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
from pylog.client.fetching.fetch_state import FetcherSettings, Partition
from pylog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from pylog.records.builder import encode_batch

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))


def batch(base_offset: int, count: int = 1, epoch: int = 0, size: int = 10) -> bytes:
    return encode_batch([b"x" * size] * count, base_offset=base_offset, leader_epoch=epoch)


class World:
    def __init__(self, policy: str = "earliest", *, leaders: tuple[int, ...] = (1, 2, 1)) -> None:
        self.now_ms = 1_000
        self.metadata = ClusterMetadata()
        self.lead(*leaders)
        settings = FetcherSettings(auto_offset_reset=policy, max_partition_fetch_bytes=1_000)
        self.core = ConsumerCore(settings, self.metadata, lambda: 0.5, lambda: 1_000_000)
        self.core.fetcher.active = True
        self.positions = self.core.positions

    def lead(self, *leaders: int, epoch: int = 0, topic_id: str = "id") -> None:
        brokers = tuple(BrokerInfo(b, Address("h", b)) for b in (1, 2, 3))
        partitions = tuple(PartitionInfo(leader, epoch) for leader in leaders)
        topic = TopicInfo("t", topic_id, False, partitions)
        self.metadata.update(ClusterSnapshot("c", 1, brokers, None, (topic,)))

    def at(self, tp: TopicPartition, offset: int) -> Partition:
        self.positions.add(tp, found_later=False)
        partition = self.positions.partitions[tp]
        self.positions.seek(partition, offset)
        return partition

    def poll(self, after_ms: int = 0) -> list[Effect]:
        self.now_ms += after_ms
        return self.core.poll(self.now_ms).requests

    def fetch_failed(
        self, broker: int, lane: int = 0, error: errors.PylogError | None = None
    ) -> list[Effect]:
        failed = self.core.fetcher.on_fetch_failed(self.now_ms, broker, lane, error)
        return failed + self.poll()

    def listed(self, answers: list[Listed]) -> list[Effect]:
        return self.core.look_ups.on_listed(self.now_ms, answers) + self.poll()

    def on_metadata(self) -> list[Effect]:
        return self.core.on_metadata(self.now_ms) + self.poll()

    def answer(self, broker: int, correlation: int, *answers: Fetched) -> list[Effect]:
        return self.core.on_fetched(self.now_ms, broker, correlation, answers).requests


def item(tp: TopicPartition, offset: int, epoch: int = 0, last: int = -1) -> FetchItem:
    return FetchItem(tp, "id", offset, epoch, last)


def test_a_start_position_is_looked_up_at_the_leader() -> None:
    world = World("latest")
    world.positions.assign([T0, T1])
    assert world.poll() == [
        ListOffsets(1, ((T0, LATEST_TIMESTAMP, 0, 0),)),
        ListOffsets(2, ((T1, LATEST_TIMESTAMP, 0, 0),)),
    ]
    assert world.poll() == []
    effects = world.listed([Listed(T0, 0, offset=42)])
    assert effects == [Fetch(1, 1, 500, (item(T0, 42),))]
    assert world.positions.partitions[T0].position == 42


def test_nothing_is_fetched_before_the_first_poll() -> None:
    world = World()
    world.core.fetcher.active = False
    world.at(T0, 0)
    assert world.poll() == []


def test_one_fetch_per_broker_and_the_next_while_the_user_works() -> None:
    world = World()
    world.at(T0, 5)
    world.at(T1, 6)
    world.at(T2, 7)
    fetches = world.poll()
    assert [(f.broker, {i.offset for i in f.items}) for f in fetches if isinstance(f, Fetch)] == [
        (1, {5, 7}),
        (2, {6}),
    ]
    (following,) = world.answer(1, 1, Fetched(T0, high_watermark=9, batches=batch(5, 3, epoch=2)))
    assert isinstance(following, Fetch)
    assert set(following.items) == {item(T0, 8, last=2), item(T2, 7)}
    partition = world.positions.partitions[T0]
    assert (partition.position, partition.fetch_offset, partition.readable_end) == (5, 8, 9)


def test_an_answer_from_before_a_partition_was_given_up_is_not_taken() -> None:
    world = World()
    world.at(T0, 5)
    assert world.poll() == [Fetch(1, 1, 500, (item(T0, 5),))]
    world.positions.assign([])
    partition = world.at(T0, 0)
    assert world.poll() == [CancelFetch(1), Fetch(1, 2, 500, (item(T0, 0),))]
    assert world.answer(1, 1, Fetched(T0, batches=batch(5))) == []
    assert (partition.position, partition.fetch_offset) == (0, 0)


def test_everybody_is_first_in_turn() -> None:
    world = World(leaders=(1, 1, 1))
    for tp in (T0, T1, T2):
        world.at(tp, 0)
    firsts = []
    (fetch,) = world.poll()
    for _ in range(3):
        assert isinstance(fetch, Fetch)
        firsts.append(fetch.items[0].topic_partition)
        (fetch,) = world.answer(1, fetch.correlation)
    assert sorted(firsts) == [T0, T1, T2]


def test_a_full_buffer_is_left_out_until_the_user_has_read() -> None:
    world = World()
    full = world.at(T0, 0)
    world.at(T2, 0)
    world.poll()
    (fetch,) = world.answer(1, 1, Fetched(T0, batches=batch(0, size=2_000)))
    assert fetch == Fetch(1, 2, 500, (item(T2, 0),))
    assert world.poll(100) == []
    world.positions.take(full)
    assert world.poll() == [Fetch(1, 3, 500, (item(T0, 1, last=0),), lane=1)]
    assert world.poll() == []
    (fetch,) = world.answer(1, 3, Fetched(T0, batches=batch(1)))
    assert fetch == Fetch(1, 4, 500, (item(T0, 2, last=0),), lane=1)
    (fetch,) = world.answer(1, 2)
    assert fetch == Fetch(1, 5, 500, (item(T2, 0),))


def test_two_long_polls_that_leave_out_what_the_user_came_to_are_made_one() -> None:
    world = World(leaders=(1, 1, 1))
    first, second, third = (world.at(tp, 0) for tp in (T0, T1, T2))
    world.poll()
    large = batch(0, size=2_000)
    (fetch,) = world.answer(1, 1, Fetched(T1, batches=large), Fetched(T2, batches=large))
    assert fetch == Fetch(1, 2, 500, (item(T0, 0),))
    world.positions.take(second)
    assert world.poll() == [Fetch(1, 3, 500, (item(T1, 1, last=0),), lane=1)]
    world.positions.take(third)
    assert world.poll(5) == []  # they may bring data yet
    assert world.core.poll(world.now_ms).deadline_ms == world.now_ms + 15
    *cuts, fetch = world.poll(15)
    assert cuts == [CancelFetch(1, 0), CancelFetch(1, 1)]
    assert isinstance(fetch, Fetch)
    assert (fetch.lane, {i.topic_partition for i in fetch.items}) == (0, {T0, T1, T2})
    assert world.answer(1, 2, Fetched(T0, batches=large)) == []  # of a stream that was cut
    assert first.position == 0


def test_what_one_long_poll_asks_for_is_not_asked_for_again() -> None:
    world = World(leaders=(1, 1, 1))
    world.at(T0, 0)
    world.poll()
    world.at(T1, 0)
    assert world.poll() == [Fetch(1, 2, 500, (item(T1, 0),), lane=1)]
    assert world.fetch_failed(1, 1) == [RefreshMetadata(("t",))]
    assert world.poll() == []
    assert world.poll(150) == [Fetch(1, 3, 500, (item(T1, 0),), lane=1)]


def test_a_seek_cuts_the_long_poll_and_drops_its_answer() -> None:
    world = World()
    partition = world.at(T0, 0)
    world.poll()
    world.positions.seek(partition, 100)
    assert world.poll() == [CancelFetch(1), Fetch(1, 2, 500, (item(T0, 100),))]
    assert world.answer(1, 1, Fetched(T0, batches=batch(0))) == []
    assert not partition.buffer
    assert partition.position == 100


def test_a_paused_partition_is_not_fetched() -> None:
    world = World()
    partition = world.at(T0, 0)
    partition.paused = True
    assert world.poll() == []
    world.positions.resume(partition)
    assert world.poll() == [Fetch(1, 1, 500, (item(T0, 0),))]


@pytest.mark.parametrize(
    "error",
    [
        errors.NotLeaderOrFollower,
        errors.FencedLeaderEpoch,
        errors.UnknownLeaderEpoch,
        errors.UnknownTopicOrPartition,
        errors.KafkaStorageError,
        errors.LeaderNotAvailable,
    ],
)
def test_a_passing_error_keeps_the_position(error: type[errors.PylogError]) -> None:
    world = World()
    partition = world.at(T0, 7)
    world.poll()
    assert world.answer(1, 1, Fetched(T0, error.code)) == [RefreshMetadata(("t",))]
    assert partition.position == 7
    assert world.poll(99) == []
    assert world.core.poll(world.now_ms).deadline_ms == world.now_ms + 1
    assert world.poll(1) == [Fetch(1, 2, 500, (item(T0, 7),))]


def test_a_named_new_leader_is_asked_at_once() -> None:
    world = World()
    world.at(T0, 7)
    world.poll()
    refusal = Fetched(T0, errors.NotLeaderOrFollower.code, leader=3, leader_epoch=4)
    assert world.answer(1, 1, refusal) == [
        RefreshMetadata(("t",)),
        Fetch(3, 2, 500, (item(T0, 7, epoch=4),)),
    ]


def test_an_offset_that_is_not_there_yet_is_asked_for_again() -> None:
    world = World()
    partition = world.at(T0, 7)
    world.poll()
    assert world.answer(1, 1, Fetched(T0, errors.OffsetNotAvailable.code)) == []
    assert partition.position == 7
    assert partition.error is None


@pytest.mark.parametrize(
    ("policy", "timestamp"), [("earliest", EARLIEST_TIMESTAMP), ("latest", LATEST_TIMESTAMP)]
)
def test_an_offset_out_of_range_is_reset(policy: str, timestamp: int) -> None:
    world = World(policy)
    partition = world.at(T0, 7)
    world.poll()
    refusal = Fetched(T0, errors.OffsetOutOfRange.code, log_start_offset=10, high_watermark=20)
    notice, look_up = world.answer(1, 1, refusal)
    assert notice == Notice(
        f"t-0: offset 7 is not in the log, which holds 10 to 20; going on at the {policy} offset"
    )
    assert look_up == ListOffsets(1, ((T0, timestamp, 0, partition.generation),))


def test_without_a_policy_an_offset_out_of_range_is_the_users() -> None:
    world = World("none")
    partition = world.at(T0, 7)
    world.poll()
    world.answer(1, 1, Fetched(T0, errors.OffsetOutOfRange.code, log_start_offset=10))
    assert isinstance(partition.error, errors.OffsetOutOfRange)
    assert "t-0" in str(partition.error)
    assert "seek()" in str(partition.error)
    assert world.poll(1_000) == []
    world.positions.seek(partition, 10)
    assert world.poll() == [Fetch(1, 2, 500, (item(T0, 10),))]


def test_without_a_policy_there_is_no_start() -> None:
    world = World("none")
    world.positions.assign([T0])
    assert isinstance(world.positions.partitions[T0].error, errors.NoOffsetForPartition)
    assert world.poll() == []


def test_out_of_range_behind_buffered_records_waits_for_the_user() -> None:
    world = World("latest")
    partition = world.at(T0, 0)
    world.poll()
    world.answer(1, 1, Fetched(T0, batches=batch(0)))
    assert world.answer(1, 2, Fetched(T0, errors.OffsetOutOfRange.code)) == []
    assert (partition.position, len(partition.buffer)) == (0, 1)


def test_a_cut_log_is_told() -> None:
    world = World("none")
    partition = world.at(T0, 7)
    world.poll()
    world.answer(1, 1, Fetched(T0, diverging_end=3))
    assert isinstance(partition.error, errors.LogTruncated)
    world = World("latest")
    partition = world.at(T0, 7)
    world.poll()
    notice, fetch = world.answer(1, 1, Fetched(T0, diverging_end=3))
    assert isinstance(notice, Notice)
    assert fetch == Fetch(1, 2, 500, (item(T0, 3),))


def test_a_cut_of_what_only_the_buffer_holds_is_not_the_users_concern() -> None:
    world = World("none")
    partition = world.at(T0, 5)
    world.poll()
    world.answer(1, 1, Fetched(T0, high_watermark=9, batches=batch(5, 3, epoch=2)))
    assert (partition.position, partition.fetch_offset) == (5, 8)
    effects = world.answer(1, 2, Fetched(T0, diverging_end=6, diverging_epoch=1))
    assert effects == [Fetch(1, 3, 500, (item(T0, 5, last=1),))]
    assert not partition.buffer
    assert partition.error is None


def test_a_seek_with_an_epoch_lets_the_leader_check_it() -> None:
    world = World()
    partition = world.at(T0, 0)
    world.positions.seek(partition, 7, 3)
    assert world.poll() == [Fetch(1, 1, 500, (item(T0, 7, last=3),))]


def test_a_fatal_error_is_the_users_and_stops_the_fetching() -> None:
    world = World()
    partition = world.at(T0, 0)
    world.poll()
    assert world.answer(1, 1, Fetched(T0, errors.TopicAuthorizationFailed.code, "no")) == []
    assert isinstance(partition.error, errors.TopicAuthorizationFailed)
    assert world.poll(10_000) == []


def test_bytes_that_are_no_batch_are_told_with_their_place() -> None:
    world = World()
    partition = world.at(T0, 3)
    world.poll()
    world.answer(1, 1, Fetched(T0, batches=b"\0" * 200))
    assert isinstance(partition.error, errors.CorruptMessage)
    assert "t-0 at offset 3" in str(partition.error)


def test_what_has_rotted_is_told_at_once_with_where_to_go_on() -> None:
    world = World()
    partition = world.at(T0, 3)
    world.poll()
    answer = Fetched(T0, errors.CorruptMessage.code, "x.log is damaged", damaged_end=9)
    assert world.answer(1, 1, answer) == []
    assert isinstance(partition.error, errors.CorruptMessage)
    assert str(partition.error) == "t-0: x.log is damaged"
    assert partition.error.next_offset == 9
    assert world.poll(10_000) == []
    world.positions.seek(partition, 9)
    assert world.poll() == [Fetch(1, 2, 500, (item(T0, 9),))]


def test_whole_batches_before_broken_bytes_are_kept_and_the_rest_is_asked_for_again() -> None:
    world = World()
    partition = world.at(T0, 3)
    world.poll()
    whole = batch(3, 2)
    answer = Fetched(T0, high_watermark=9, batches=whole + bytes(8) + b"\xff" * 80)
    assert world.answer(1, 1, answer) == [Fetch(1, 2, 500, (item(T0, 5, last=0),))]
    assert [(bytes(c.batches), c.next_offset) for c in partition.buffer] == [(whole, 5)]
    assert partition.error is None


def test_a_partition_without_a_leader_is_told_of_once_a_minute() -> None:
    world = World(leaders=(1, 2, -1))
    world.positions.assign([T2])
    said = [e.text for _ in range(0, 130_000, 500) for e in world.poll(500) if _is_notice(e)]
    why = "its replicas are on brokers []; none is known to have all records and may lead"
    assert said == [
        f"nothing is read of t-2, which has had no leader for {s} s: {why}" for s in (60, 120)
    ]
    world.lead(1, 2, 1, epoch=1)
    world.on_metadata()
    world.lead(1, 2, -1, epoch=2)
    assert not [e for _ in range(100) for e in world.poll(500) if _is_notice(e)]


def _is_notice(effect: Effect) -> TypeGuard[Notice]:
    return isinstance(effect, Notice)


def test_a_broken_stream_keeps_positions_and_asks_for_leaders() -> None:
    world = World()
    partition = world.at(T0, 7)
    world.poll()
    assert world.fetch_failed(1) == [RefreshMetadata(("t",))]
    world.lead(3, 2, 1, epoch=1)
    assert world.on_metadata() == []
    assert world.poll(100) == [Fetch(3, 2, 500, (item(T0, 7, epoch=1),))]
    assert partition.position == 7


def test_an_answer_too_large_is_the_users_to_know_before_it_is_asked_for_again() -> None:
    world = World()
    partition = world.at(T0, 7)
    world.poll()
    error = errors.MessageTooLarge("h:1: an answer")
    assert world.fetch_failed(1, 0, error) == [RefreshMetadata(("t",))]
    assert isinstance(partition.error, errors.MessageTooLarge)
    assert str(partition.error) == "t-0: h:1: an answer"
    assert world.poll(10_000) == []
    world.positions.seek(partition, 8)
    assert world.poll() == [Fetch(1, 2, 500, (item(T0, 8),))]


def test_a_silent_leader_is_left_for_its_successor() -> None:
    world = World()
    world.at(T0, 7)
    world.poll()
    assert world.poll(1_500) == [RefreshMetadata(("t",))]
    world.lead(3, 2, 1, epoch=1)
    assert world.on_metadata() == [
        CancelFetch(1),
        Fetch(3, 2, 500, (item(T0, 7, epoch=1),)),
    ]


def test_an_unknown_leader_asks_for_metadata() -> None:
    world = World(leaders=(-1, 2, 1))
    world.at(T0, 0)
    assert world.poll() == [RefreshMetadata(("t",))]
    assert world.poll() == []


def test_partitions_that_a_topic_gains_are_read_from_their_start() -> None:
    world = World("latest")
    world.positions.add(T0, found_later=False)
    world.positions.add(T1, found_later=True)
    assert world.positions.partitions[T0].reset_to == LATEST_TIMESTAMP
    assert world.positions.partitions[T1].reset_to == EARLIEST_TIMESTAMP


def test_a_topic_created_anew_is_read_from_its_start() -> None:
    world = World("latest")
    partition = world.at(T0, 7)
    world.poll()
    world.lead(1, 2, 1, topic_id="other")
    effects = world.on_metadata()
    assert partition.reset_to == EARLIEST_TIMESTAMP
    assert any(isinstance(e, ListOffsets) for e in effects)


def test_a_start_in_the_log_of_a_deleted_topic_is_looked_up_again() -> None:
    world = World()
    world.positions.assign([T0])
    partition = world.positions.partitions[T0]
    world.poll()
    world.lead(1, 2, 1, topic_id="other")
    lagging = Listed(T0, partition.generation, offset=559, topic_id="id")
    assert world.listed([lagging]) == [RefreshMetadata(("t",))]
    assert partition.position is None
    assert world.poll(100) == [ListOffsets(1, ((T0, EARLIEST_TIMESTAMP, 0, partition.generation),))]
    found = Listed(T0, partition.generation, offset=0, topic_id="other")
    fetch = Fetch(1, 1, 500, (FetchItem(T0, "other", 0, 0, -1),))
    assert world.listed([found]) == [fetch]


def test_a_topic_created_anew_between_look_up_and_fetch_is_read_from_its_start() -> None:
    world = World("latest")
    world.positions.assign([T0])
    world.core.fetcher.active = False
    partition = world.positions.partitions[T0]
    world.poll()
    world.listed([Listed(T0, partition.generation, offset=559, topic_id="id")])
    assert partition.position == 559
    world.lead(1, 2, 1, topic_id="other")
    notice, look_up = world.on_metadata()
    assert isinstance(notice, Notice)
    assert look_up == ListOffsets(1, ((T0, EARLIEST_TIMESTAMP, 0, partition.generation),))


def test_a_time_later_than_all_records_means_the_end() -> None:
    world = World()
    partition = world.at(T0, 0)
    world.positions.seek_to(partition, 99_999)
    world.poll()
    effects = world.listed([Listed(T0, partition.generation, offset=-1)])
    assert effects == [ListOffsets(1, ((T0, LATEST_TIMESTAMP, 0, partition.generation),))]
